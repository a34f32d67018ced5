//! Approvals of the control plane, at the terminal.

use bailiwick_control::ports::fleet::{FleetStore as _, Write};
use bailiwick_model::fleet::{AgentApproval, AnyObject, Metadata, Moment, Object};
use serde_json::json;

use super::Place;

/// Something that waits for a person.
fn ask(place: &Place, name: &str) {
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

#[test]
fn approvals_list_shows_what_waits_and_approvals_approve_and_approvals_deny_answer_once() {
    let place = Place::bare();
    ask(&place, "aap-one");
    ask(&place, "aap-two");
    let listed = place.json(&["approvals", "list"]);
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().filter_map(|one| one["approval"].as_str()).collect();
    assert_eq!(names, ["aap-one", "aap-two"]);
    let said = place.run(&["approvals", "list"]).expect_code(0).out;
    assert!(said.contains("aap-one") && said.contains("may it run"), "{said}");
    let phase = |name: &str| place.json(&["get", "approval", name])["status"]["phase"].clone();
    place.run(&["approvals", "approve", "aap-one"]).expect_code(0);
    place.run(&["approvals", "deny", "aap-two"]).expect_code(0);
    assert_eq!((phase("aap-one"), phase("aap-two")), (json!("approved"), json!("rejected")));
    // Decided once.
    place.run(&["approvals", "deny", "aap-one"]).expect_code(2);
    assert_eq!(phase("aap-one"), "approved");
    place.run(&["approvals", "approve", "aap-none"]).expect_code(2);
    assert_eq!(place.json(&["approvals", "list"]), json!([]));
    assert_eq!(place.audit().last().unwrap().0, "AgentApprovalDecision");
}
