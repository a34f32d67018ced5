//! Declared fields that a run must show: config maps, required sub-agents, fetched commits.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use bailiwick_fleet::controllers::Retention;
use bailiwick_fleet::ports::{
    ChildState, FinishedWork, Fleet as _, FleetStore as _, Launched, LaunchedChild, LaunchedState,
    RunVerb, RunVerbRequest, Target, World as _, Write,
};
use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AnyObject, Kind, RunCost, RunPhase, Span,
};
use serde_json::{Value, json};

use crate::dispatch::{
    Plane, SHA, agent, all, caller, declare, document, fleet, in_state, reconcile, request,
    set_state, start_plane, work,
};

fn profile(change: impl Fn(&mut Value)) -> Vec<AnyObject> {
    let mut all = fleet(|object| {
        if object.kind == Kind::AgentToolProfile {
            change(&mut object.spec);
        }
        if object.kind == Kind::AgentStack {
            object.spec["secretPolicy"] = json!({ "allowedSecretRefs": ["tool"] });
        }
    });
    all.retain(|one| matches!(one.kind, Kind::AgentStack | Kind::AgentToolProfile));
    all
}

#[tokio::test]
async fn values_of_secrets_and_config_maps_reach_the_supervisor_only() {
    let plane = start_plane(|_| {}).await;
    let values = BTreeMap::from([("deploy-key".to_owned(), b"the-key-of-deploying".to_vec())]);
    plane.store.set_secret("default", "tool", values, plane.world.now()).await.unwrap();
    let subject = json!({ "kind": "tool", "name": "tools" });
    let mut documents = vec![
        document(Kind::ConfigMap, "rules", json!({ "data": { "rules": "be kind" } })),
        document(
            Kind::AgentConfigGrant,
            "rules",
            json!({
                "subject": subject, "configMapRef": { "name": "rules", "keys": ["rules"] },
                "purpose": "tool-config", "allowedRepositories": ["acme/*"], "mountPolicy": "file",
            }),
        ),
        document(
            Kind::AgentSecretGrant,
            "tool",
            json!({
                "subject": subject, "secretRef": { "name": "tool", "keys": ["deploy-key"] },
                "purpose": "tool", "allowedRepositories": ["acme/*"], "mountPolicy": "file",
            }),
        ),
    ];
    documents.extend(profile(|spec| {
        spec["requiredSecretRefs"] = json!([{ "name": "tool", "keys": ["deploy-key"] }]);
        spec["requiredConfigRefs"] = json!([{ "name": "rules", "keys": ["rules"] }]);
    }));
    declare(&plane, &documents).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let launch = plane.engine.launched.lock().unwrap()[0].clone();
    let environment: BTreeMap<&str, &str> =
        launch.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(environment["DEPLOY_KEY"], "the-key-of-deploying");
    assert_eq!(environment["RULES"], "be kind");
    assert!(launch.task.contains("secret-files = [\"DEPLOY_KEY\"]"), "{}", launch.task);
    assert!(launch.task.contains("config-files = [\"RULES\"]"), "{}", launch.task);
    assert!(!launch.task.contains("secrets = "), "{}", launch.task);
    let visible_text = format!("{}{}{:?}", launch.task, launch.context, launch.limits);
    assert!(!visible_text.contains("the-key-of-deploying"), "{visible_text}");
}

fn reviewer(optional: bool) -> AnyObject {
    document(
        Kind::AgentSubagent,
        "reviewer",
        json!({ "rolePrompt": "You look.", "taskKinds": ["review"], "optional": optional }),
    )
}

fn child(agent: &str, state: ChildState) -> LaunchedChild {
    LaunchedChild {
        agent: agent.to_owned(),
        subagent: "reviewer".to_owned(),
        received: "Look.".to_owned(),
        at: 1_794_000_000_500,
        state,
        returned: (state == ChildState::Completed).then(|| "All is well.".to_owned()),
        detail: "as it says".to_owned(),
        session: None,
        cost: RunCost::default(),
        cursor: 4,
        attempts: 1,
        questions: Vec::new(),
    }
}

/// The phase of a run with verified work whose sub-agents ended like this.
async fn phase_after(optional: bool, children: Vec<LaunchedChild>) -> (RunPhase, String) {
    let plane = start_plane(|_| {}).await;
    declare(&plane, &[reviewer(optional)]).await;
    let mut changed = fleet(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["subagentRefs"] = json!(["reviewer"]);
            object.spec["writeBackPolicy"] = json!({ "allowedTargets": [] });
        }
        if object.kind == Kind::AgentToolProfile {
            object.spec["nativeTools"]["subagents"] = json!(true);
        }
    });
    changed.retain(|one| matches!(one.kind, Kind::AgentStack | Kind::AgentToolProfile));
    declare(&plane, &changed).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let parent = agent(&plane);
    plane.engine.children.lock().unwrap().insert(parent.clone(), children);
    reconcile(&plane).await;
    set_state(
        &plane,
        &parent,
        Launched { work: Some(work()), ..in_state(LaunchedState::Verified) },
    );
    reconcile(&plane).await;
    let runs = all::<AgentDispatchRun>(&plane).await;
    let run = runs.into_iter().find(|run| run.spec.parent_run.is_none()).unwrap();
    (run.status.phase, run.status.terminal_reason.unwrap_or_default())
}

#[tokio::test]
async fn run_fails_if_a_required_sub_agent_failed() {
    use ChildState::{Completed, Failed};
    let (phase, why) = phase_after(false, vec![child("w-1", Failed)]).await;
    assert_eq!(phase, RunPhase::Failed, "{why}");
    assert!(why.contains("RequiredSubagentFailed: `reviewer`"), "{why}");
    for (optional, children) in [
        (true, vec![child("w-1", Failed)]),
        (false, vec![child("w-1", Failed), child("w-2", Completed)]),
        (false, vec![child("w-1", Completed)]),
        // A sub-agent that was never started does not count.
        (false, Vec::new()),
    ] {
        let (phase, why) = phase_after(optional, children).await;
        assert_eq!(phase, RunPhase::Succeeded, "{optional}: {why}");
    }
}

/// A continued conversation still needs a sub-agent that failed in an earlier attempt.
#[tokio::test]
async fn failed_required_sub_agent_counts_when_the_conversation_continues() {
    let plane = start_plane(|_| {}).await;
    declare(&plane, &[reviewer(false)]).await;
    let mut changed = fleet(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["subagentRefs"] = json!(["reviewer"]);
            object.spec["writeBackPolicy"] = json!({ "allowedTargets": [] });
        }
        if object.kind == Kind::AgentToolProfile {
            object.spec["nativeTools"]["subagents"] = json!(true);
        }
    });
    changed.retain(|current_child| {
        matches!(current_child.kind, Kind::AgentStack | Kind::AgentToolProfile)
    });
    declare(&plane, &changed).await;
    let name = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap().run;
    reconcile(&plane).await;
    let succeeded = LaunchedChild { cursor: 9, ..child("w-1", ChildState::Completed) };
    for (attempts, current_child, expected) in [
        (1_u64, child("w-1", ChildState::Failed), RunPhase::Failed),
        (2, child("w-1", ChildState::Failed), RunPhase::Failed),
        // When the sub-agent succeeds, the run succeeds.
        (3, succeeded, RunPhase::Succeeded),
    ] {
        if attempts > 1 {
            let target = Target { namespace: "default".to_owned(), name: name.clone() };
            let message = "Go on.".to_owned();
            let more = RunVerbRequest { message, ..RunVerbRequest::default() };
            plane.api.act_on_run(&caller("ada"), &target, RunVerb::Continue, more).await.unwrap();
            reconcile(&plane).await;
        }
        plane.engine.children.lock().unwrap().insert(agent(&plane), vec![current_child]);
        let finished = FinishedWork { commit: attempts.to_string().repeat(40), ..work() };
        let done = in_state(LaunchedState::Verified);
        set_state(&plane, &agent(&plane), Launched { attempts, work: Some(finished), ..done });
        reconcile(&plane).await;
        let runs = all::<AgentDispatchRun>(&plane).await;
        let run = runs.into_iter().find(|run| run.name() == name).unwrap();
        let why = run.status.terminal_reason.unwrap_or_default();
        assert_eq!(run.status.phase, expected, "{attempts}: {why}");
        let failed = expected == RunPhase::Failed;
        assert_eq!(why.contains("RequiredSubagentFailed: `reviewer`"), failed, "{attempts}: {why}");
    }
}

#[test]
fn sub_agent_with_an_unsupported_policy_is_refused() {
    let faults = |more: Value| {
        let mut spec = json!({ "rolePrompt": "You look.", "taskKinds": ["review"] });
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        document(Kind::AgentSubagent, "reviewer", spec).check().unwrap().len()
    };
    for good in ["summary-only", "selected-sources", "full-redacted", "artifact-only", "no-context"]
    {
        assert_eq!(faults(json!({ "contextPolicy": good })), 0, "{good}");
    }
    assert_eq!(faults(json!({ "approvalPolicy": { "requireFor": ["tool-call"] } })), 0);
    for bad in ["secret-access", "write-back"] {
        let policy = json!({ "approvalPolicy": { "requireFor": ["tool-call", bad] } });
        assert_eq!(faults(policy), 1, "{bad}");
    }
}

#[tokio::test]
async fn fetched_commit_is_released_after_an_hour_without_a_run() {
    let plane: Plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(all::<AgentDispatchRun>(&plane).await[0].spec.sha, SHA);
    let other = "e".repeat(40);
    *plane.world.fetched.lock().unwrap() = vec![SHA.to_owned(), other.clone()];
    let fetched = || plane.world.fetched.lock().unwrap().clone();
    let year = Span::from_millis(365 * 86_400_000);
    let mut retention = Retention::new(year, year);
    let hour = 3_600_000;
    plane.prune(&mut retention).await;
    assert_eq!(fetched(), [SHA.to_owned(), other.clone()], "a run may be about to use it");
    plane.world.clock.fetch_add(hour / 2, Ordering::Relaxed);
    plane.prune(&mut retention).await;
    assert_eq!(fetched().len(), 2);
    plane.world.clock.fetch_add(hour, Ordering::Relaxed);
    plane.prune(&mut retention).await;
    assert_eq!(fetched(), [SHA.to_owned()], "the run still needs its commit");
    plane.world.clock.fetch_add(5 * hour, Ordering::Relaxed);
    plane.prune(&mut retention).await;
    assert_eq!(fetched(), [SHA.to_owned()]);
}

/// A run may be about to use it again.
#[tokio::test]
async fn hour_starts_again_when_a_commit_is_fetched_again() {
    let plane: Plane = start_plane(|_| {}).await;
    let (refetched, other) = ("a".repeat(40), "e".repeat(40));
    *plane.world.fetched.lock().unwrap() = vec![refetched.clone(), other];
    let fetched = || plane.world.fetched.lock().unwrap().clone();
    let year = Span::from_millis(365 * 86_400_000);
    let mut retention = Retention::new(year, year);
    let minutes = |count: u64| plane.world.clock.fetch_add(count * 60_000, Ordering::Relaxed);
    plane.prune(&mut retention).await;
    minutes(30);
    let now = plane.world.now();
    plane.world.fetched_at.lock().unwrap().insert(refetched.clone(), now);
    minutes(45);
    plane.prune(&mut retention).await;
    assert_eq!(fetched(), [refetched], "the other commit was not fetched again");
    minutes(61);
    plane.prune(&mut retention).await;
    assert_eq!(fetched(), [""; 0]);
}

/// The commits that remain fetched after two hours, and the number of errors.
async fn fetched_after(plane: &Plane, fetched: &[&str]) -> (Vec<String>, usize) {
    *plane.world.fetched.lock().unwrap() = fetched.iter().map(ToString::to_string).collect();
    let year = Span::from_millis(365 * 86_400_000);
    let mut retention = Retention::new(year, year);
    plane.prune(&mut retention).await;
    plane.world.clock.fetch_add(2 * 3_600_000, Ordering::Relaxed);
    let summary = plane.prune(&mut retention).await;
    (plane.world.fetched.lock().unwrap().clone(), summary.errors.len())
}

#[tokio::test]
async fn commits_of_a_run_are_kept_for_every_repository_with_its_checkout() {
    let plane: Plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let (other, base) = ("e".repeat(40), "b".repeat(40));
    let spec = json!({
        "fullName": "acme/twin", "forge": "gitea", "apiUrl": "http://127.0.0.1:1/api/v1",
        "checkout": "/nowhere",
    });
    declare(&plane, &[document(Kind::Repository, "twin", spec)]).await;
    assert_eq!(fetched_after(&plane, &[SHA, &other]).await, (vec![SHA.to_owned()], 0));
    let mut run = all::<AgentDispatchRun>(&plane).await.remove(0);
    run.spec.source_refs.base_sha = Some(base.clone());
    let write = Write::Replace(AnyObject::of(&run).unwrap());
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
    let remaining = fetched_after(&plane, &[SHA, &base, &other]).await;
    assert_eq!(remaining, (vec![SHA.to_owned(), base], 0), "and the commit it is compared with");
}

#[tokio::test]
async fn fetched_commits_are_kept_while_a_run_cannot_be_read() {
    let plane: Plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let run = all::<AgentDispatchRun>(&plane).await.remove(0);
    let mut broken = AnyObject::of(&run).unwrap();
    broken.status["phase"] = json!("walking");
    plane.store.commit(vec![Write::Status(broken)], plane.world.now()).await.unwrap();
    let other = "e".repeat(40);
    let remaining = fetched_after(&plane, &[SHA, &other]).await;
    assert_eq!(remaining, (vec![SHA.to_owned(), other], 1));
}

#[tokio::test]
async fn attempt_without_its_launch_keeps_only_the_commits_of_its_run() {
    let plane: Plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let mut attempt = all::<AgentDispatchAttempt>(&plane).await.remove(0);
    let launch = "bailiwick.dev/launch-digest".to_owned();
    assert!(attempt.metadata.annotations.insert(launch, "0".repeat(64)).is_some());
    let write = Write::Replace(AnyObject::of(&attempt).unwrap());
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
    let remaining = fetched_after(&plane, &[SHA, &"e".repeat(40)]).await;
    assert_eq!(remaining, (vec![SHA.to_owned()], 0));
}
