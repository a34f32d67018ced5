//! Fields of declarations that a run has to show: config maps, sub-agents that are not optional, commits that
//! were fetched.

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
    Plane, SHA, agent, all, caller, declare, document, fleet, request, set, stand, standing, turn,
    work,
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
async fn values_of_secrets_and_config_maps_reach_the_supervisor() {
    let plane = stand(|_| {}).await;
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
    turn(&plane).await;
    let launch = plane.engine.launched.lock().unwrap()[0].clone();
    let given: BTreeMap<&str, &str> =
        launch.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(given["DEPLOY_KEY"], "the-key-of-deploying");
    assert_eq!(given["RULES"], "be kind");
    assert!(launch.task.contains("secret-files = [\"DEPLOY_KEY\"]"), "{}", launch.task);
    assert!(launch.task.contains("config-files = [\"RULES\"]"), "{}", launch.task);
    assert!(!launch.task.contains("secrets = "), "{}", launch.task);
    let told = format!("{}{}{:?}", launch.task, launch.context, launch.limits);
    assert!(!told.contains("the-key-of-deploying"), "{told}");
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

/// How a run ends whose work holds, and whose sub-agent has come to these ends.
async fn ended(optional: bool, children: Vec<LaunchedChild>) -> (RunPhase, String) {
    let plane = stand(|_| {}).await;
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
    turn(&plane).await;
    let parent = agent(&plane);
    plane.engine.children.lock().unwrap().insert(parent.clone(), children);
    turn(&plane).await;
    set(&plane, &parent, Launched { work: Some(work()), ..standing(LaunchedState::Verified) });
    turn(&plane).await;
    let runs = all::<AgentDispatchRun>(&plane).await;
    let run = runs.into_iter().find(|run| run.spec.parent_run.is_none()).unwrap();
    (run.status.phase, run.status.terminal_reason.unwrap_or_default())
}

#[tokio::test]
async fn nobody_goes_on_without_a_sub_agent_that_is_not_optional() {
    use ChildState::{Completed, Failed};
    let (phase, why) = ended(false, vec![child("w-1", Failed)]).await;
    assert_eq!(phase, RunPhase::Failed, "{why}");
    assert!(why.contains("RequiredSubagentFailed: `reviewer`"), "{why}");
    for (optional, children) in [
        (true, vec![child("w-1", Failed)]),
        (false, vec![child("w-1", Failed), child("w-2", Completed)]),
        (false, vec![child("w-1", Completed)]),
        // One that was never asked is missed by nobody.
        (false, Vec::new()),
    ] {
        let (phase, why) = ended(optional, children).await;
        assert_eq!(phase, RunPhase::Succeeded, "{optional}: {why}");
    }
}

/// A conversation that goes on is not done with a sub-agent that failed in an earlier attempt of it.
#[tokio::test]
async fn a_required_sub_agent_that_failed_is_not_forgotten_when_its_conversation_goes_on() {
    let plane = stand(|_| {}).await;
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
    changed.retain(|one| matches!(one.kind, Kind::AgentStack | Kind::AgentToolProfile));
    declare(&plane, &changed).await;
    let name = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap().run;
    turn(&plane).await;
    let better = LaunchedChild { cursor: 9, ..child("w-1", ChildState::Completed) };
    for (attempts, one, expected) in [
        (1_u64, child("w-1", ChildState::Failed), RunPhase::Failed),
        (2, child("w-1", ChildState::Failed), RunPhase::Failed),
        // Once it comes to a good end, nothing is wanting.
        (3, better, RunPhase::Succeeded),
    ] {
        if attempts > 1 {
            let target = Target { namespace: "default".to_owned(), name: name.clone() };
            let message = "Go on.".to_owned();
            let more = RunVerbRequest { message, ..RunVerbRequest::default() };
            plane.api.act_on_run(&caller("ada"), &target, RunVerb::Continue, more).await.unwrap();
            turn(&plane).await;
        }
        plane.engine.children.lock().unwrap().insert(agent(&plane), vec![one]);
        let made = FinishedWork { commit: attempts.to_string().repeat(40), ..work() };
        let done = standing(LaunchedState::Verified);
        set(&plane, &agent(&plane), Launched { attempts, work: Some(made), ..done });
        turn(&plane).await;
        let runs = all::<AgentDispatchRun>(&plane).await;
        let run = runs.into_iter().find(|run| run.name() == name).unwrap();
        let why = run.status.terminal_reason.unwrap_or_default();
        assert_eq!(run.status.phase, expected, "{attempts}: {why}");
        let failed = expected == RunPhase::Failed;
        assert_eq!(why.contains("RequiredSubagentFailed: `reviewer`"), failed, "{attempts}: {why}");
    }
}

#[test]
fn a_sub_agent_is_refused_that_asks_for_what_nobody_gives_it() {
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
async fn what_was_fetched_goes_when_no_run_has_needed_it_for_an_hour() {
    let plane: Plane = stand(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    turn(&plane).await;
    assert_eq!(all::<AgentDispatchRun>(&plane).await[0].spec.sha, SHA);
    let other = "e".repeat(40);
    *plane.world.fetched.lock().unwrap() = vec![SHA.to_owned(), other.clone()];
    let held = || plane.world.fetched.lock().unwrap().clone();
    let year = Span::from_millis(365 * 86_400_000);
    let mut retention = Retention::new(year, year);
    let hour = 3_600_000;
    plane.prune(&mut retention).await;
    assert_eq!(held(), [SHA.to_owned(), other.clone()], "it may be on its way into a run");
    plane.world.clock.fetch_add(hour / 2, Ordering::Relaxed);
    plane.prune(&mut retention).await;
    assert_eq!(held().len(), 2);
    plane.world.clock.fetch_add(hour, Ordering::Relaxed);
    plane.prune(&mut retention).await;
    assert_eq!(held(), [SHA.to_owned()], "the run still needs its own");
    plane.world.clock.fetch_add(5 * hour, Ordering::Relaxed);
    plane.prune(&mut retention).await;
    assert_eq!(held(), [SHA.to_owned()]);
}

/// It may be on its way into a run again.
#[tokio::test]
async fn the_hour_begins_anew_when_something_is_held_again() {
    let plane: Plane = stand(|_| {}).await;
    let (again, other) = ("a".repeat(40), "e".repeat(40));
    *plane.world.fetched.lock().unwrap() = vec![again.clone(), other];
    let held = || plane.world.fetched.lock().unwrap().clone();
    let year = Span::from_millis(365 * 86_400_000);
    let mut retention = Retention::new(year, year);
    let minutes = |count: u64| plane.world.clock.fetch_add(count * 60_000, Ordering::Relaxed);
    plane.prune(&mut retention).await;
    minutes(30);
    let now = plane.world.now();
    plane.world.held_at.lock().unwrap().insert(again.clone(), now);
    minutes(45);
    plane.prune(&mut retention).await;
    assert_eq!(held(), [again], "the other one was not held again");
    minutes(61);
    plane.prune(&mut retention).await;
    assert_eq!(held(), [""; 0]);
}

/// What is held of these two hours later, and what was the trouble.
async fn held_after(plane: &Plane, fetched: &[&str]) -> (Vec<String>, usize) {
    *plane.world.fetched.lock().unwrap() = fetched.iter().map(ToString::to_string).collect();
    let year = Span::from_millis(365 * 86_400_000);
    let mut retention = Retention::new(year, year);
    plane.prune(&mut retention).await;
    plane.world.clock.fetch_add(2 * 3_600_000, Ordering::Relaxed);
    let turn = plane.prune(&mut retention).await;
    (plane.world.fetched.lock().unwrap().clone(), turn.errors.len())
}

#[tokio::test]
async fn what_a_run_needs_is_held_whichever_repository_names_its_checkout() {
    let plane: Plane = stand(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    turn(&plane).await;
    let (other, base) = ("e".repeat(40), "b".repeat(40));
    let spec = json!({
        "fullName": "acme/twin", "forge": "gitea", "apiUrl": "http://127.0.0.1:1/api/v1",
        "checkout": "/nowhere",
    });
    declare(&plane, &[document(Kind::Repository, "twin", spec)]).await;
    assert_eq!(held_after(&plane, &[SHA, &other]).await, (vec![SHA.to_owned()], 0));
    let mut run = all::<AgentDispatchRun>(&plane).await.remove(0);
    run.spec.source_refs.base_sha = Some(base.clone());
    let write = Write::Replace(AnyObject::of(&run).unwrap());
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
    let held = held_after(&plane, &[SHA, &base, &other]).await;
    assert_eq!(held, (vec![SHA.to_owned(), base], 0), "and what it is compared with");
}

#[tokio::test]
async fn nothing_that_was_fetched_goes_while_a_run_cannot_be_read() {
    let plane: Plane = stand(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    turn(&plane).await;
    let run = all::<AgentDispatchRun>(&plane).await.remove(0);
    let mut broken = AnyObject::of(&run).unwrap();
    broken.status["phase"] = json!("walking");
    plane.store.commit(vec![Write::Status(broken)], plane.world.now()).await.unwrap();
    let other = "e".repeat(40);
    let held = held_after(&plane, &[SHA, &other]).await;
    assert_eq!(held, (vec![SHA.to_owned(), other], 1));
}

#[tokio::test]
async fn an_attempt_whose_launch_is_gone_keeps_nothing_but_its_runs_own_commits() {
    let plane: Plane = stand(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    turn(&plane).await;
    let mut attempt = all::<AgentDispatchAttempt>(&plane).await.remove(0);
    let launch = "bailiwick.dev/launch-digest".to_owned();
    assert!(attempt.metadata.annotations.insert(launch, "0".repeat(64)).is_some());
    let write = Write::Replace(AnyObject::of(&attempt).unwrap());
    plane.store.commit(vec![write], plane.world.now()).await.unwrap();
    let held = held_after(&plane, &[SHA, &"e".repeat(40)]).await;
    assert_eq!(held, (vec![SHA.to_owned()], 0));
}
