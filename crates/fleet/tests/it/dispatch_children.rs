//! Records of the sub-agents of a run: created once, kept up to date, checked against their contracts, and kept when
//! the parent ends first.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::{
    ActionError, ChildState, DecisionRequest, Fleet as _, FleetStore as _, Launched, LaunchedChild,
    LaunchedState, RunVerb, RunVerbRequest, Selection, Target, Verdict, World as _, Write,
};
use bailiwick_resources::{
    AgentApproval, AgentArtifact, AgentDispatchAttempt, AgentDispatchRun, AnyObject, ApprovalPhase,
    ArtifactKind, ConditionType, Kind, Object, RunCost, RunPhase, Standing,
};
use bailiwick_testkit::random::Random;
use serde_json::json;

use crate::dispatch::{
    Plane, agent, all, caller, declare, document, in_state, reconcile, request, set_state,
    start_plane, work,
};

const SECRET: &str = "hunter2-is-the-value";

fn with_reviewer(object: &mut AnyObject) {
    if object.kind == Kind::AgentStack {
        object.spec["subagentRefs"] = json!(["reviewer"]);
        object.spec["maxParallelSubagents"] = json!(2);
    }
    if object.kind == Kind::AgentToolProfile {
        object.spec["nativeTools"]["subagents"] = json!(true);
    }
}

async fn parent() -> Plane {
    parent_of("summary-only").await
}

/// A run whose sub-agent has this context policy.
async fn parent_of(context_policy: &str) -> Plane {
    let plane = start_plane(|_| {}).await;
    let reviewer = document(
        Kind::AgentSubagent,
        "reviewer",
        json!({
            "rolePrompt": "You look.", "taskKinds": ["review"], "maxParallelTasks": 2,
            "contextPolicy": context_policy,
            "outputContract": { "format": "summary", "requiredSections": ["Findings"] },
        }),
    );
    declare(&plane, &[reviewer]).await;
    declare(&plane, &changed()).await;
    let values = BTreeMap::from([("key".to_owned(), SECRET.as_bytes().to_vec())]);
    plane.store.set_secret("default", "tool", values, plane.world.now()).await.unwrap();
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    plane
}

fn changed() -> Vec<AnyObject> {
    let mut all = crate::dispatch::fleet(with_reviewer);
    all.retain(|one| matches!(one.kind, Kind::AgentStack | Kind::AgentToolProfile));
    all
}

fn child(state: ChildState) -> LaunchedChild {
    let completed = state == ChildState::Completed;
    LaunchedChild {
        agent: "worker-1".to_owned(),
        subagent: "reviewer".to_owned(),
        received: format!("Look at src/a.rs; the password={SECRET} is none of yours."),
        at: 1_794_000_000_500,
        state,
        returned: completed.then(|| format!("# Findings\n\nNone but {SECRET}.\n")),
        detail: "as it says".to_owned(),
        session: Some("its own".to_owned()),
        cost: RunCost { tokens: 5, ..RunCost::default() },
        cursor: if completed { 9 } else { 4 },
        attempts: 1,
        questions: Vec::new(),
    }
}

fn set_children(plane: &Plane, children: Vec<LaunchedChild>) {
    let parent = agent(plane);
    plane.engine.children.lock().unwrap().insert(parent, children);
}

async fn runs_of(
    plane: &Plane,
    parent: &str,
) -> (Object<AgentDispatchRun>, Vec<Object<AgentDispatchRun>>) {
    let all = all::<AgentDispatchRun>(plane).await;
    let run = all.iter().find(|run| run.name() == parent).unwrap().clone();
    let is_child = |run: &Object<AgentDispatchRun>| run.spec.parent_run.as_deref() == Some(parent);
    (run, all.into_iter().filter(is_child).collect())
}

async fn runs(plane: &Plane) -> (Object<AgentDispatchRun>, Vec<Object<AgentDispatchRun>>) {
    let all = all::<AgentDispatchRun>(plane).await;
    let (children, mut parents): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|run| run.spec.parent_run.is_some());
    assert_eq!(parents.len(), 1);
    (parents.remove(0), children)
}

#[tokio::test]
async fn agent_is_offered_only_the_sub_agents_of_its_stack() {
    let plane = parent().await;
    let launch = plane.engine.launched.lock().unwrap()[0].clone();
    assert!(launch.task.contains("allowed-subagents = [\"reviewer\"]"), "{}", launch.task);
    assert_eq!(launch.limits.subagents[0].name, "reviewer");
    assert_eq!(launch.limits.parallel.stack, Some(2));
    assert_eq!(
        (launch.owner.stack.as_str(), launch.owner.capacity),
        ("fixer", Some(1)),
        "the launch is counted for this stack and pool"
    );
}

#[tokio::test]
async fn context_sources_are_launched_if_a_sub_agent_may_receive_some() {
    let plane = parent_of("selected-sources").await;
    let launch = plane.engine.launched.lock().unwrap()[0].clone();
    let names: Vec<&str> = launch.sources.iter().map(|source| source.name.as_str()).collect();
    assert!(names.contains(&"breadcrumbs"), "{names:?}");
    for source in &launch.sources {
        assert!(
            launch.context.contains(&source.text),
            "in the same form as in the parent's context: {}",
            source.text
        );
    }
    let plane = parent_of("artifact-only").await;
    assert!(plane.engine.launched.lock().unwrap()[0].sources.is_empty());
}

#[tokio::test]
async fn child_is_recorded_as_one_run() {
    let plane = parent().await;
    set_children(&plane, vec![child(ChildState::Running)]);
    reconcile(&plane).await;
    let (run, children) = runs(&plane).await;
    assert_eq!(children.len(), 1);
    let one = &children[0];
    assert_eq!(one.spec.parent_run.as_deref(), Some(run.name()));
    assert_eq!(one.status.phase, RunPhase::Running);
    assert_eq!(one.status.ledger_run_id.as_deref(), Some("worker-1"));
    assert_eq!(one.status.cost.tokens, 5);
    assert!(one.spec.task.contains("Look at src/a.rs"), "{}", one.spec.task);
    assert!(!one.spec.task.contains(SECRET), "{}", one.spec.task);
    let listed = Selection::of(Kind::AgentDispatchRun).field("parent", run.name());
    assert_eq!(plane.store.list(&listed).await.unwrap().objects.len(), 1);
    // Without changes, nothing is written.
    let version = one.metadata.resource_version;
    reconcile(&plane).await;
    assert_eq!(runs(&plane).await.1[0].metadata.resource_version, version);
    // A child uses no capacity of the pool: the next run waits for the parent only.
    plane.api.dispatch(&caller("ada"), "default", request("next")).await.unwrap();
    let done = Launched { work: None, ..in_state(LaunchedState::Failed) };
    set_state(&plane, &agent(&plane), done);
    reconcile(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 2, "the next run has started");
    let (_, children) = runs_of(&plane, run.name()).await;
    assert_eq!(children[0].status.phase, RunPhase::Running, "the child is still running");
}

#[tokio::test]
async fn output_of_a_child_is_stored_without_secrets_and_checked() {
    for (returned, phase, fulfilled) in [
        (format!("# Findings\n\nNone but {SECRET}.\n"), RunPhase::Succeeded, true),
        ("I found nothing.".to_owned(), RunPhase::Failed, false),
        (String::new(), RunPhase::Failed, false),
    ] {
        let plane = parent().await;
        set_children(&plane, vec![child(ChildState::Running)]);
        reconcile(&plane).await;
        let ended =
            LaunchedChild { returned: Some(returned.clone()), ..child(ChildState::Completed) };
        set_children(&plane, vec![ended]);
        reconcile(&plane).await;
        let (run, children) = runs(&plane).await;
        let one = &children[0];
        assert_eq!(one.status.phase, phase, "{returned}: {:?}", one.status.terminal_reason);
        let record = &run.status.child_subagent_runs[0];
        assert_eq!((record.run.as_str(), record.subagent.as_str()), (one.name(), "reviewer"));
        assert_eq!(record.contract_fulfilled, Some(fulfilled));
        assert!(!record.returned.as_ref().unwrap().contains(SECRET));
        let why = one.status.terminal_reason.clone().unwrap();
        assert_eq!(why.starts_with("ContractBroken"), !fulfilled, "{why}");
        let artifacts = all::<AgentArtifact>(&plane).await;
        assert_eq!(artifacts.len(), 1);
        assert_eq!(artifacts[0].spec.kind, ArtifactKind::SubagentOutput);
        let stored = plane.store.blob(&artifacts[0].spec.digest).await.unwrap().unwrap();
        let stored = String::from_utf8(stored).unwrap();
        assert!(!stored.contains(SECRET), "{stored}");
        assert_eq!(stored.contains("Findings"), fulfilled, "{stored}");
        let attempts = all::<AgentDispatchAttempt>(&plane).await;
        let events: Vec<&str> =
            attempts[0].status.subagent_events.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(events[0], "running");
        assert!(events[1].starts_with(phase.as_str()), "{events:?}");
        assert_eq!(events.len(), 2);
    }
}

#[tokio::test]
async fn child_that_outlives_its_parent_is_followed_to_its_end() {
    let plane = parent().await;
    set_children(&plane, vec![child(ChildState::Running)]);
    reconcile(&plane).await;
    let first = agent(&plane);
    set_state(&plane, &first, Launched { work: Some(work()), ..in_state(LaunchedState::Failed) });
    reconcile(&plane).await;
    let (run, children) = runs(&plane).await;
    assert_eq!((run.status.phase, children[0].status.phase), (RunPhase::Failed, RunPhase::Running));
    set_children(&plane, vec![child(ChildState::Stopped)]);
    reconcile(&plane).await;
    assert_eq!(runs(&plane).await.1[0].status.phase, RunPhase::Cancelled);
    // A child that was requested at the very end and never started.
    let never_started =
        LaunchedChild { agent: "worker-2".to_owned(), ..child(ChildState::Starting) };
    let plane = parent().await;
    set_children(&plane, vec![never_started]);
    reconcile(&plane).await;
    assert_eq!(runs(&plane).await.1[0].status.phase, RunPhase::Pending);
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    let one = runs(&plane).await.1.remove(0);
    assert_eq!(one.status.phase, RunPhase::Failed);
    assert_eq!(one.status.terminal_reason.as_deref(), Some("it never began"));
}

#[tokio::test]
async fn question_of_a_child_reaches_a_person_and_gets_the_answer() {
    let plane = parent().await;
    let asking_child = LaunchedChild {
        questions: vec![("q1".to_owned(), "mcp__docs__post".to_owned())],
        ..child(ChildState::Running)
    };
    set_children(&plane, vec![asking_child]);
    reconcile(&plane).await;
    let (_, children) = runs(&plane).await;
    assert_eq!(children[0].status.phase, RunPhase::WaitingForApproval);
    let approval = all::<AgentApproval>(&plane).await.remove(0);
    assert_eq!(approval.spec.dispatch_run, children[0].name());
    let target = Target { namespace: "default".to_owned(), name: approval.name().to_owned() };
    let approve = DecisionRequest {
        decision: Verdict::Approve,
        comment: String::new(),
        approved_action_subset: Vec::new(),
        expected_artifact_digest: approval.spec.artifact_digest.clone(),
    };
    plane.api.decide(&caller("bob"), &target, approve).await.unwrap();
    reconcile(&plane).await;
    let answered = plane.engine.answered.lock().unwrap().clone();
    assert!(answered.contains(&("worker-1".to_owned(), "q1".to_owned(), true)), "{answered:?}");
}

/// A resumed child numbers its questions from one again, and can repeat a question exactly.
#[tokio::test]
async fn approval_for_a_child_is_not_valid_after_it_resumed() {
    let plane = parent().await;
    let asking_child = |attempts: u64| LaunchedChild {
        attempts,
        questions: vec![("1".to_owned(), "Bash: deploy".to_owned())],
        ..child(ChildState::Running)
    };
    set_children(&plane, vec![asking_child(1)]);
    reconcile(&plane).await;
    let approval = all::<AgentApproval>(&plane).await.remove(0);
    let target = Target { namespace: "default".to_owned(), name: approval.name().to_owned() };
    let approve = DecisionRequest {
        decision: Verdict::Approve,
        comment: String::new(),
        approved_action_subset: Vec::new(),
        expected_artifact_digest: approval.spec.artifact_digest.clone(),
    };
    plane.api.decide(&caller("bob"), &target, approve).await.unwrap();
    reconcile(&plane).await;
    let answer = ("worker-1".to_owned(), "1".to_owned(), true);
    assert!(plane.engine.answered.lock().unwrap().contains(&answer));
    plane.engine.answered.lock().unwrap().clear();
    set_children(&plane, vec![child(ChildState::Completed)]);
    reconcile(&plane).await;
    set_children(&plane, vec![asking_child(2)]);
    reconcile(&plane).await;
    assert_eq!(plane.engine.answered.lock().unwrap().as_slice(), []);
    let open = all::<AgentApproval>(&plane).await;
    let open = open.iter().filter(|one| one.status.phase == ApprovalPhase::Pending).count();
    assert_eq!((open, all::<AgentApproval>(&plane).await.len()), (1, 2));
}

#[tokio::test]
async fn child_can_be_cancelled_but_not_retried_without_its_parent() {
    let plane = parent().await;
    set_children(&plane, vec![child(ChildState::Running)]);
    reconcile(&plane).await;
    let name = runs(&plane).await.1[0].name().to_owned();
    let target = Target { namespace: "default".to_owned(), name };
    let verb = async |verb: RunVerb| {
        plane.api.act_on_run(&caller("ada"), &target, verb, RunVerbRequest::default()).await
    };
    let refused = verb(RunVerb::Fork).await;
    assert!(matches!(refused, Err(ActionError::Conflict { .. })), "{refused:?}");
    verb(RunVerb::Cancel).await.unwrap();
    reconcile(&plane).await;
    assert!(plane.engine.cancelled.lock().unwrap().contains(&"worker-1".to_owned()));
    set_children(&plane, vec![child(ChildState::Stopped)]);
    reconcile(&plane).await;
    assert_eq!(runs(&plane).await.1[0].status.phase, RunPhase::Cancelled);
    let retry = verb(RunVerb::Retry).await;
    assert!(matches!(retry, Err(ActionError::Conflict { .. })), "{retry:?}");
}

/// In any order of events, every child is one object, none is lost, and each ends in the state of the engine.
#[tokio::test]
async fn every_child_is_recorded_once_in_any_order_of_events() {
    let mut random = Random::rotating("children-of-runs");
    for _ in 0..20 {
        let plane = parent().await;
        let mut expected_children: Vec<LaunchedChild> = Vec::new();
        for step in 0..12_u64 {
            if expected_children.len() < 5 && random.below(2) == 0 {
                let agent = format!("worker-{}", expected_children.len());
                expected_children.push(LaunchedChild { agent, ..child(ChildState::Starting) });
            }
            if !expected_children.is_empty() {
                let index = random.below(expected_children.len());
                let states = [
                    ChildState::Starting,
                    ChildState::Running,
                    ChildState::Completed,
                    ChildState::Failed,
                    ChildState::Stopped,
                ];
                let state = states[random.below(states.len())];
                let agent = expected_children[index].agent.clone();
                expected_children[index] =
                    LaunchedChild { agent, cursor: 10 + step, ..child(state) };
            }
            set_children(&plane, expected_children.clone());
            if random.below(3) > 0 {
                reconcile(&plane).await;
            }
        }
        reconcile(&plane).await;
        let (run, children) = runs(&plane).await;
        assert_eq!(children.len(), expected_children.len());
        assert_eq!(run.status.child_subagent_runs.len(), expected_children.len());
        for one in &expected_children {
            let recorded = children.iter().find(|recorded| {
                recorded.status.ledger_run_id.as_deref() == Some(one.agent.as_str())
            });
            let expected = match one.state {
                ChildState::Starting => RunPhase::Pending,
                ChildState::Running => RunPhase::Running,
                ChildState::Completed => RunPhase::Succeeded,
                ChildState::Failed => RunPhase::Failed,
                ChildState::Stopped => RunPhase::Cancelled,
            };
            assert_eq!(recorded.unwrap().status.phase, expected);
        }
    }
}

async fn act(plane: &Plane, run: &str, verb: RunVerb) {
    let target = Target { namespace: "default".to_owned(), name: run.to_owned() };
    let request = RunVerbRequest { message: "Go on.".to_owned(), ..RunVerbRequest::default() };
    plane.api.act_on_run(&caller("ada"), &target, verb, request).await.unwrap();
    reconcile(plane).await;
}

#[tokio::test]
async fn ended_child_has_its_final_conditions() {
    for state in [ChildState::Completed, ChildState::Failed, ChildState::Stopped] {
        let plane = parent().await;
        set_children(&plane, vec![child(ChildState::Running)]);
        reconcile(&plane).await;
        set_children(&plane, vec![child(state)]);
        // No status pass runs in between.
        reconcile(&plane).await;
        let (_, children) = runs(&plane).await;
        let conditions = &children[0].status.conditions;
        assert!(children[0].status.phase.is_final());
        let condition =
            |kind: ConditionType| conditions.iter().find(|one| one.kind == kind).unwrap();
        assert_eq!(
            condition(ConditionType::AgentMuxSessionBound).status,
            Standing::True,
            "{conditions:?}"
        );
        let indexed = condition(ConditionType::ArtifactsIndexed);
        assert_eq!(indexed.status, Standing::True, "{indexed:?}");
        assert_eq!(children[0].status.observed_generation, children[0].metadata.generation);
    }
}

/// A deleted child stays deleted, even if the conversation of its parent still lists it.
#[tokio::test]
async fn child_deleted_by_retention_is_not_created_again() {
    let plane = parent().await;
    set_children(&plane, vec![child(ChildState::Completed)]);
    reconcile(&plane).await;
    let parent_run = runs(&plane).await.0.name().to_owned();
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    let deleted = runs(&plane).await.1.remove(0);
    let delete = Write::Delete {
        kind: Kind::AgentDispatchRun,
        namespace: "default".to_owned(),
        name: deleted.name().to_owned(),
        version: deleted.metadata.resource_version,
    };
    plane.store.commit(vec![delete], plane.world.now()).await.unwrap();
    act(&plane, &parent_run, RunVerb::Continue).await;
    set_state(&plane, &agent(&plane), Launched { attempts: 2, ..in_state(LaunchedState::Running) });
    reconcile(&plane).await;
    let (run, children) = runs(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Running);
    assert_eq!(children.len(), 0, "the retention period is over");
    assert_eq!(run.status.child_subagent_runs.len(), 1, "the parent still lists it");
    // Another child of the conversation is created, and so is the deleted one when it runs again.
    let more = LaunchedChild { agent: "worker-2".to_owned(), ..child(ChildState::Running) };
    set_children(&plane, vec![child(ChildState::Completed), more]);
    reconcile(&plane).await;
    assert_eq!(runs(&plane).await.1.len(), 1);
    set_children(&plane, vec![LaunchedChild { cursor: 12, ..child(ChildState::Running) }]);
    reconcile(&plane).await;
    assert_eq!(runs(&plane).await.1.len(), 2);
}

/// Fault: a sub-agent was changed while its parent waited for a retry.
#[tokio::test]
async fn retry_uses_the_current_sub_agents() {
    let plane = parent().await;
    let run = runs(&plane).await.0.name().to_owned();
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    let stricter = document(
        Kind::AgentSubagent,
        "reviewer",
        json!({
            "rolePrompt": "You look twice.", "taskKinds": ["review"], "maxParallelTasks": 1,
            "outputContract": { "format": "summary", "requiredSections": ["Verdict"] },
        }),
    );
    declare(&plane, &[stricter]).await;
    // A conversation continues with its original definitions or not at all.
    act(&plane, &run, RunVerb::Continue).await;
    let why = runs(&plane).await.0.status.terminal_reason.unwrap_or_default();
    assert!(why.contains("sub-agents are others") && why.contains("retry it"), "{why}");
    act(&plane, &run, RunVerb::Retry).await;
    let launched = plane.engine.launched.lock().unwrap().clone();
    assert_eq!(launched.len(), 2, "{:?}", runs(&plane).await.0.status);
    assert_eq!(launched[0].limits.subagents[0].spec.role_prompt, "You look.");
    assert_eq!(launched[1].limits.subagents[0].spec.role_prompt, "You look twice.");
    // Its output is checked against the new contract.
    set_children(&plane, vec![child(ChildState::Completed)]);
    reconcile(&plane).await;
    let (_, children) = runs(&plane).await;
    let why = children[0].status.terminal_reason.clone().unwrap_or_default();
    assert!(why.contains("ContractBroken") && why.contains("Verdict"), "{why}");
    // A deleted sub-agent is not started.
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    let known = plane.store.get(Kind::AgentSubagent, "default", "reviewer").await.unwrap().unwrap();
    let delete = Write::Delete {
        kind: Kind::AgentSubagent,
        namespace: "default".to_owned(),
        name: "reviewer".to_owned(),
        version: known.metadata.resource_version,
    };
    plane.store.commit(vec![delete], plane.world.now()).await.unwrap();
    act(&plane, &run, RunVerb::Retry).await;
    let why = runs(&plane).await.0.status.terminal_reason.unwrap_or_default();
    assert!(why.contains("PermissionsChanged") && why.contains("reviewer"), "{why}");
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn checks_of_a_commit_list_runs_without_sub_agents_and_unreadable_runs() {
    let plane = parent().await;
    set_children(&plane, vec![child(ChildState::Running)]);
    reconcile(&plane).await;
    plane.api.dispatch(&caller("ada"), "default", request("broken")).await.unwrap();
    let parent_run = runs_by_task(&plane, false).await;
    let repository = Target { namespace: "default".to_owned(), name: "app".to_owned() };
    let shown = plane.api.checks(&repository, crate::dispatch::SHA).await.unwrap();
    assert_eq!(shown.runs.len(), 2, "without the sub-agent: {:?}", shown.runs);
    assert_eq!(shown.unreadable, []);
    // One of the runs cannot be read.
    let name = shown.runs.iter().find(|one| one.run != parent_run).unwrap().run.clone();
    let mut broken =
        plane.store.get(Kind::AgentDispatchRun, "default", &name).await.unwrap().unwrap();
    broken.status["phase"] = json!("walking");
    plane.store.commit(vec![Write::Status(broken)], plane.world.now()).await.unwrap();
    let shown = plane.api.checks(&repository, crate::dispatch::SHA).await.unwrap();
    let names: Vec<&str> = shown.runs.iter().map(|one| one.run.as_str()).collect();
    assert_eq!(names, [parent_run.as_str()]);
    assert_eq!(shown.unreadable.len(), 1);
    assert_eq!(shown.unreadable[0].run, name);
    assert!(shown.unreadable[0].why.contains("walking"), "{}", shown.unreadable[0].why);
    // Another commit has no runs.
    let other = plane.api.checks(&repository, &"b".repeat(40)).await.unwrap();
    assert_eq!((other.runs.len(), other.unreadable.len()), (0, 0));
}

/// The run that was started, or its sub-agent.
async fn runs_by_task(plane: &Plane, is_child: bool) -> String {
    let all = all::<AgentDispatchRun>(plane).await;
    let matches = |run: &&Object<AgentDispatchRun>| {
        run.spec.parent_run.is_some() == is_child && run.status.started_at.is_some()
    };
    all.iter().find(matches).unwrap().name().to_owned()
}

/// The instructions from the parent are the context of the child, stored without secrets.
#[tokio::test]
async fn context_of_a_sub_agent_is_recorded() {
    let plane = parent().await;
    set_children(&plane, vec![child(ChildState::Running)]);
    reconcile(&plane).await;
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    let assembled = async || {
        let (_, children) = runs(&plane).await;
        let kind = ConditionType::ContextAssembled;
        let one = children[0].status.conditions.iter().find(|one| one.kind == kind).unwrap();
        (one.status, one.reason)
    };
    let recorded = (Standing::True, bailiwick_resources::Reason::BundleRecorded);
    assert_eq!(assembled().await, recorded);
    let (_, children) = runs(&plane).await;
    let name = children[0].spec.context_bundle_ref.clone().unwrap();
    let bundles = all::<bailiwick_resources::AgentContextBundle>(&plane).await;
    let bundle = bundles.iter().find(|one| one.name() == name).unwrap();
    assert_eq!(Some(&bundle.spec.digest), children[0].status.context_bundle_digest.as_ref());
    let text = plane.store.blob(&bundle.spec.digest).await.unwrap().unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("Look at src/a.rs") && !text.contains(SECRET), "{text}");
    set_children(&plane, vec![child(ChildState::Completed)]);
    reconcile(&plane).await;
    assert_eq!(assembled().await, recorded, "and it stays so when the child ends");
}

/// A child that ends before it is first seen is recorded completely.
#[tokio::test]
async fn sub_agent_that_ended_before_it_was_seen_has_its_context() {
    let plane = parent().await;
    set_children(&plane, vec![child(ChildState::Completed)]);
    reconcile(&plane).await;
    let (_, children) = runs(&plane).await;
    let kind = ConditionType::ContextAssembled;
    let one = children[0].status.conditions.iter().find(|one| one.kind == kind).unwrap();
    assert_eq!(one.status, Standing::True, "{one:?}");
}
