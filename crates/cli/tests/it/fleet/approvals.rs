//! Approvals of the control plane on the command line.

use bailiwick_fleet::ports::{FleetStore as _, Write};
use bailiwick_resources::{AgentApproval, AnyObject, Metadata, Moment, Object};
use serde_json::json;

use super::Place;

/// Adds an approval that waits for a person.
fn add_approval(place: &Place, name: &str) {
    let spec: AgentApproval = serde_json::from_value(json!({
        "dispatchRun": "adr-1", "requestedBy": { "kind": "agent-stack", "name": "fixer" },
        "action": { "type": { "class": "escalation" }, "target": "inside", "summary": "may it run" },
        "policyReasons": [], "artifactRefs": [], "artifactDigest": "0".repeat(64),
        "expiresAt": "2999-01-01T00:00:00Z",
    }))
    .unwrap();
    let object = AnyObject::of(&Object::new(Metadata::named(name), spec)).unwrap();
    place.with_store(async |store| {
        store.commit(vec![Write::Create(object)], Moment::from_millis(1)).await.unwrap();
    });
}

/// Adds the question of an agent of the control plane, as `serve` stores it.
fn add_question(place: &Place, agent: &str, id: &str) {
    let attempt = json!({
        "apiVersion": "bailiwick.dev/v1alpha1", "kind": "AgentDispatchAttempt",
        "metadata": { "name": agent },
        "spec": {
            "agentDispatchRun": "adr-1", "number": 1, "attemptReason": "initial",
            "agentStackSnapshot": { "digest": "d", "objects": [] }, "contextBundleDigest": "d",
            "permissionSnapshotDigest": "d", "runnerPool": "inside",
        },
    });
    let attempt: AnyObject = serde_json::from_value(attempt).unwrap();
    let spec: AgentApproval = serde_json::from_value(json!({
        "dispatchRun": "adr-1", "requestedBy": { "kind": "agent-stack", "name": agent },
        "action": { "type": { "class": "tool-call" }, "target": agent, "summary": "may it push" },
        "policyReasons": [], "artifactRefs": [], "artifactDigest": "0".repeat(64),
        "expiresAt": "2999-01-01T00:00:00Z",
    }))
    .unwrap();
    let mut approval = Object::new(Metadata::named("aap-asked"), spec);
    approval.metadata.annotations.insert("bailiwick.dev/question".to_owned(), id.to_owned());
    let approval = AnyObject::of(&approval).unwrap();
    place.with_store(async |store| {
        let writes = vec![Write::Create(attempt), Write::Create(approval)];
        store.commit(writes, Moment::from_millis(1)).await.unwrap();
    });
}

#[test]
fn question_of_an_agent_is_decided_once_by_the_os_user() {
    let place = Place::bare();
    add_question(&place, "ada-1-1", "q1");
    let approve = |agent: &str, id: &str| {
        let mut command = place.scratch.command(crate::BAILIWICK);
        command.env("USER", "mallory").env("LOGNAME", "mallory");
        let output = command.args(["approvals", "approve", agent, id]).output().unwrap();
        bailiwick_testkit::scratch::Ran::from(output)
    };
    let unknown = approve("ada-1-1", "q2").expect_code(2);
    assert!(unknown.err.contains("no open question"), "{}", unknown.err);
    approve("ada-1-1", "q1").expect_code(0);
    let status = place.json(&["get", "approval", "aap-asked"])["status"].clone();
    let whoami = std::process::Command::new("id").arg("-un").output().unwrap();
    let user = String::from_utf8(whoami.stdout).unwrap().trim().to_owned();
    assert_eq!(status["phase"], "approved", "{status}");
    assert_eq!(status["decidedBy"], user.as_str());
    let lines = place.with_store(async |store| store.audit(0, 100).await.unwrap());
    let decided: Vec<&str> = lines
        .iter()
        .filter(|(_, line)| line.event == "AgentApprovalDecision")
        .map(|(_, line)| line.actor.as_str())
        .collect();
    assert_eq!(decided, [user.as_str()]);
    approve("ada-1-1", "q1").expect_code(2);
    // The question of a run outside of the control plane is answered at its socket, where nothing listens.
    let outside = approve("by-hand", "q1");
    assert_ne!(outside.code, 0);
    assert!(!outside.err.contains("control plane"), "{}", outside.err);
}

#[test]
fn approvals_list_approvals_show_approvals_approve_and_approvals_deny_work() {
    let place = Place::bare();
    add_approval(&place, "aap-one");
    add_approval(&place, "aap-two");
    let listed = place.json(&["approvals", "list"]);
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().filter_map(|one| one["approval"].as_str()).collect();
    assert_eq!(names, ["aap-one", "aap-two"]);
    let output = place.run(&["approvals", "list"]).expect_code(0).out;
    assert!(output.contains("aap-one") && output.contains("may it run"), "{output}");
    let shown = place.run(&["approvals", "show", "aap-one"]).expect_code(0).out;
    assert!(shown.contains("digest") && shown.contains("may it run"), "{shown}");
    assert_eq!(place.json(&["approvals", "show", "aap-one"])["approval"], "aap-one");
    place.run(&["approvals", "show", "aap-none"]).expect_code(2);
    let phase = |name: &str| place.json(&["get", "approval", name])["status"]["phase"].clone();
    place.run(&["approvals", "approve", "aap-one"]).expect_code(0);
    place.run(&["approvals", "deny", "aap-two"]).expect_code(0);
    assert_eq!((phase("aap-one"), phase("aap-two")), (json!("approved"), json!("rejected")));
    // An approval is decided once.
    place.run(&["approvals", "deny", "aap-one"]).expect_code(2);
    assert_eq!(phase("aap-one"), "approved");
    place.run(&["approvals", "approve", "aap-none"]).expect_code(2);
    assert_eq!(place.json(&["approvals", "list"]), json!([]));
    assert_eq!(place.audit().last().unwrap().0, "AgentApprovalDecision");
}
