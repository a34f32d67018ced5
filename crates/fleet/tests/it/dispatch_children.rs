//! Sub-agents of a run, as the control plane records them: made once, kept up to date, held to their
//! contracts, and never lost when their parent ends before them.

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
    Plane, agent, all, caller, declare, document, request, set, stand, standing, turn, work,
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
    let plane = stand(|_| {}).await;
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
    turn(&plane).await;
    plane
}

fn changed() -> Vec<AnyObject> {
    let mut all = crate::dispatch::fleet(with_reviewer);
    all.retain(|one| matches!(one.kind, Kind::AgentStack | Kind::AgentToolProfile));
    all
}

fn child(state: ChildState) -> LaunchedChild {
    let over = state == ChildState::Completed;
    LaunchedChild {
        agent: "worker-1".to_owned(),
        subagent: "reviewer".to_owned(),
        received: format!("Look at src/a.rs; the password={SECRET} is none of yours."),
        at: 1_794_000_000_500,
        state,
        returned: over.then(|| format!("# Findings\n\nNone but {SECRET}.\n")),
        detail: "as it says".to_owned(),
        session: Some("its own".to_owned()),
        cost: RunCost { tokens: 5, ..RunCost::default() },
        cursor: if over { 9 } else { 4 },
        attempts: 1,
        questions: Vec::new(),
    }
}

fn has(plane: &Plane, children: Vec<LaunchedChild>) {
    let parent = agent(plane);
    plane.engine.children.lock().unwrap().insert(parent, children);
}

async fn runs_of(
    plane: &Plane,
    parent: &str,
) -> (Object<AgentDispatchRun>, Vec<Object<AgentDispatchRun>>) {
    let all = all::<AgentDispatchRun>(plane).await;
    let run = all.iter().find(|run| run.name() == parent).unwrap().clone();
    let below = |run: &Object<AgentDispatchRun>| run.spec.parent_run.as_deref() == Some(parent);
    (run, all.into_iter().filter(below).collect())
}

async fn runs(plane: &Plane) -> (Object<AgentDispatchRun>, Vec<Object<AgentDispatchRun>>) {
    let all = all::<AgentDispatchRun>(plane).await;
    let (children, mut parents): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|run| run.spec.parent_run.is_some());
    assert_eq!(parents.len(), 1);
    (parents.remove(0), children)
}

#[tokio::test]
async fn the_agent_is_offered_its_stack_s_sub_agents_and_nobody_else() {
    let plane = parent().await;
    let launch = plane.engine.launched.lock().unwrap()[0].clone();
    assert!(launch.task.contains("allowed-subagents = [\"reviewer\"]"), "{}", launch.task);
    assert_eq!(launch.limits.subagents[0].name, "reviewer");
    assert_eq!(launch.limits.parallel.stack, Some(2));
    assert_eq!(
        (launch.belongs.stack.as_str(), launch.belongs.capacity),
        ("fixer", Some(1)),
        "where they are counted"
    );
}

#[tokio::test]
async fn the_sources_of_a_context_are_launched_with_it_if_a_sub_agent_may_be_given_some() {
    let plane = parent_of("selected-sources").await;
    let launch = plane.engine.launched.lock().unwrap()[0].clone();
    let names: Vec<&str> = launch.sources.iter().map(|source| source.name.as_str()).collect();
    assert!(names.contains(&"breadcrumbs"), "{names:?}");
    for source in &launch.sources {
        assert!(launch.context.contains(&source.text), "as its parent reads it: {}", source.text);
    }
    let plane = parent_of("artifact-only").await;
    assert!(plane.engine.launched.lock().unwrap()[0].sources.is_empty());
}

#[tokio::test]
async fn a_child_is_one_run_however_often_it_is_looked_at() {
    let plane = parent().await;
    has(&plane, vec![child(ChildState::Running)]);
    turn(&plane).await;
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
    // Nothing is new, so nothing is written.
    let version = one.metadata.resource_version;
    turn(&plane).await;
    assert_eq!(runs(&plane).await.1[0].metadata.resource_version, version);
    // It takes no place in the pool: the next run waits for its parent alone.
    plane.api.dispatch(&caller("ada"), "default", request("next")).await.unwrap();
    let done = Launched { work: None, ..standing(LaunchedState::Failed) };
    set(&plane, &agent(&plane), done);
    turn(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 2, "the next one has begun");
    let (_, children) = runs_of(&plane, run.name()).await;
    assert_eq!(children[0].status.phase, RunPhase::Running, "while the child is at work");
}

#[tokio::test]
async fn what_a_child_returns_is_kept_whole_without_secrets_and_held_to_its_contract() {
    for (returned, phase, fulfilled) in [
        (format!("# Findings\n\nNone but {SECRET}.\n"), RunPhase::Succeeded, true),
        ("I found nothing.".to_owned(), RunPhase::Failed, false),
        (String::new(), RunPhase::Failed, false),
    ] {
        let plane = parent().await;
        has(&plane, vec![child(ChildState::Running)]);
        turn(&plane).await;
        let ended =
            LaunchedChild { returned: Some(returned.clone()), ..child(ChildState::Completed) };
        has(&plane, vec![ended]);
        turn(&plane).await;
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
        let kept = plane.store.blob(&artifacts[0].spec.digest).await.unwrap().unwrap();
        let kept = String::from_utf8(kept).unwrap();
        assert!(!kept.contains(SECRET), "{kept}");
        assert_eq!(kept.contains("Findings"), fulfilled, "{kept}");
        let attempts = all::<AgentDispatchAttempt>(&plane).await;
        let told: Vec<&str> =
            attempts[0].status.subagent_events.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(told[0], "running");
        assert!(told[1].starts_with(phase.as_str()), "{told:?}");
        assert_eq!(told.len(), 2);
    }
}

#[tokio::test]
async fn a_child_that_outlives_its_parent_is_followed_to_its_end() {
    let plane = parent().await;
    has(&plane, vec![child(ChildState::Running)]);
    turn(&plane).await;
    let first = agent(&plane);
    set(&plane, &first, Launched { work: Some(work()), ..standing(LaunchedState::Failed) });
    turn(&plane).await;
    let (run, children) = runs(&plane).await;
    assert_eq!((run.status.phase, children[0].status.phase), (RunPhase::Failed, RunPhase::Running));
    has(&plane, vec![child(ChildState::Stopped)]);
    turn(&plane).await;
    assert_eq!(runs(&plane).await.1[0].status.phase, RunPhase::Cancelled);
    // One that was asked for at the very end, and never began.
    let late = LaunchedChild { agent: "worker-2".to_owned(), ..child(ChildState::Starting) };
    let plane = parent().await;
    has(&plane, vec![late]);
    turn(&plane).await;
    assert_eq!(runs(&plane).await.1[0].status.phase, RunPhase::Pending);
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
    let one = runs(&plane).await.1.remove(0);
    assert_eq!(one.status.phase, RunPhase::Failed);
    assert_eq!(one.status.terminal_reason.as_deref(), Some("it never began"));
}

#[tokio::test]
async fn a_child_s_question_reaches_a_person_and_the_answer_reaches_the_child() {
    let plane = parent().await;
    let asks = LaunchedChild {
        questions: vec![("q1".to_owned(), "mcp__docs__post".to_owned())],
        ..child(ChildState::Running)
    };
    has(&plane, vec![asks]);
    turn(&plane).await;
    let (_, children) = runs(&plane).await;
    assert_eq!(children[0].status.phase, RunPhase::WaitingForApproval);
    let asked = all::<AgentApproval>(&plane).await.remove(0);
    assert_eq!(asked.spec.dispatch_run, children[0].name());
    let target = Target { namespace: "default".to_owned(), name: asked.name().to_owned() };
    let yes = DecisionRequest {
        decision: Verdict::Approve,
        comment: String::new(),
        approved_action_subset: Vec::new(),
        expected_artifact_digest: asked.spec.artifact_digest.clone(),
    };
    plane.api.decide(&caller("bob"), &target, yes).await.unwrap();
    turn(&plane).await;
    let answered = plane.engine.answered.lock().unwrap().clone();
    assert!(answered.contains(&("worker-1".to_owned(), "q1".to_owned(), true)), "{answered:?}");
}

/// A resumed child counts its questions from one again, and can repeat a question word for word.
#[tokio::test]
async fn an_approval_for_a_child_does_not_count_after_it_was_resumed() {
    let plane = parent().await;
    let asks = |attempts: u64| LaunchedChild {
        attempts,
        questions: vec![("1".to_owned(), "Bash: deploy".to_owned())],
        ..child(ChildState::Running)
    };
    has(&plane, vec![asks(1)]);
    turn(&plane).await;
    let asked = all::<AgentApproval>(&plane).await.remove(0);
    let target = Target { namespace: "default".to_owned(), name: asked.name().to_owned() };
    let yes = DecisionRequest {
        decision: Verdict::Approve,
        comment: String::new(),
        approved_action_subset: Vec::new(),
        expected_artifact_digest: asked.spec.artifact_digest.clone(),
    };
    plane.api.decide(&caller("bob"), &target, yes).await.unwrap();
    turn(&plane).await;
    let yes = ("worker-1".to_owned(), "1".to_owned(), true);
    assert!(plane.engine.answered.lock().unwrap().contains(&yes));
    plane.engine.answered.lock().unwrap().clear();
    has(&plane, vec![child(ChildState::Completed)]);
    turn(&plane).await;
    has(&plane, vec![asks(2)]);
    turn(&plane).await;
    assert_eq!(plane.engine.answered.lock().unwrap().as_slice(), []);
    let open = all::<AgentApproval>(&plane).await;
    let open = open.iter().filter(|one| one.status.phase == ApprovalPhase::Pending).count();
    assert_eq!((open, all::<AgentApproval>(&plane).await.len()), (1, 2));
}

#[tokio::test]
async fn a_child_can_be_cancelled_and_not_be_taken_up_again_past_its_parent() {
    let plane = parent().await;
    has(&plane, vec![child(ChildState::Running)]);
    turn(&plane).await;
    let name = runs(&plane).await.1[0].name().to_owned();
    let target = Target { namespace: "default".to_owned(), name };
    let verb = async |verb: RunVerb| {
        plane.api.act_on_run(&caller("ada"), &target, verb, RunVerbRequest::default()).await
    };
    let refused = verb(RunVerb::Fork).await;
    assert!(matches!(refused, Err(ActionError::Conflict { .. })), "{refused:?}");
    verb(RunVerb::Cancel).await.unwrap();
    turn(&plane).await;
    assert!(plane.engine.cancelled.lock().unwrap().contains(&"worker-1".to_owned()));
    has(&plane, vec![child(ChildState::Stopped)]);
    turn(&plane).await;
    assert_eq!(runs(&plane).await.1[0].status.phase, RunPhase::Cancelled);
    let again = verb(RunVerb::Retry).await;
    assert!(matches!(again, Err(ActionError::Conflict { .. })), "{again:?}");
}

/// Whatever is seen in whatever order: every child is one object, none is lost, and at the end each stands
/// as the engine says.
#[tokio::test]
async fn whatever_happens_to_children_every_one_is_recorded_once() {
    let mut random = Random::rotating("children-of-runs");
    for _ in 0..20 {
        let plane = parent().await;
        let mut seen: Vec<LaunchedChild> = Vec::new();
        for step in 0..12_u64 {
            if seen.len() < 5 && random.below(2) == 0 {
                let agent = format!("worker-{}", seen.len());
                seen.push(LaunchedChild { agent, ..child(ChildState::Starting) });
            }
            if !seen.is_empty() {
                let at = random.below(seen.len());
                let states = [
                    ChildState::Starting,
                    ChildState::Running,
                    ChildState::Completed,
                    ChildState::Failed,
                    ChildState::Stopped,
                ];
                let state = states[random.below(states.len())];
                let agent = seen[at].agent.clone();
                seen[at] = LaunchedChild { agent, cursor: 10 + step, ..child(state) };
            }
            has(&plane, seen.clone());
            if random.below(3) > 0 {
                turn(&plane).await;
            }
        }
        turn(&plane).await;
        let (run, children) = runs(&plane).await;
        assert_eq!(children.len(), seen.len());
        assert_eq!(run.status.child_subagent_runs.len(), seen.len());
        for one in &seen {
            let kept = children
                .iter()
                .find(|kept| kept.status.ledger_run_id.as_deref() == Some(one.agent.as_str()));
            let expected = match one.state {
                ChildState::Starting => RunPhase::Pending,
                ChildState::Running => RunPhase::Running,
                ChildState::Completed => RunPhase::Succeeded,
                ChildState::Failed => RunPhase::Failed,
                ChildState::Stopped => RunPhase::Cancelled,
            };
            assert_eq!(kept.unwrap().status.phase, expected);
        }
    }
}

async fn act(plane: &Plane, run: &str, verb: RunVerb) {
    let target = Target { namespace: "default".to_owned(), name: run.to_owned() };
    let request = RunVerbRequest { message: "Go on.".to_owned(), ..RunVerbRequest::default() };
    plane.api.act_on_run(&caller("ada"), &target, verb, request).await.unwrap();
    turn(plane).await;
}

#[tokio::test]
async fn a_child_takes_its_last_conditions_with_it() {
    for state in [ChildState::Completed, ChildState::Failed, ChildState::Stopped] {
        let plane = parent().await;
        has(&plane, vec![child(ChildState::Running)]);
        turn(&plane).await;
        has(&plane, vec![child(state)]);
        // No look at everything that is declared comes between.
        turn(&plane).await;
        let (_, children) = runs(&plane).await;
        let kept = &children[0].status.conditions;
        assert!(children[0].status.phase.is_final());
        let of = |kind: ConditionType| kept.iter().find(|one| one.kind == kind).unwrap();
        assert_eq!(of(ConditionType::AgentMuxSessionBound).status, Standing::True, "{kept:?}");
        let made = of(ConditionType::ArtifactsIndexed);
        assert_eq!(made.status, Standing::True, "{made:?}");
        assert_eq!(children[0].status.observed_generation, children[0].metadata.generation);
    }
}

/// What was let go stays gone, though its parent's conversation still knows of it.
#[tokio::test]
async fn a_child_that_retention_let_go_is_not_made_again() {
    let plane = parent().await;
    has(&plane, vec![child(ChildState::Completed)]);
    turn(&plane).await;
    let parent_run = runs(&plane).await.0.name().to_owned();
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
    let gone = runs(&plane).await.1.remove(0);
    let delete = Write::Delete {
        kind: Kind::AgentDispatchRun,
        namespace: "default".to_owned(),
        name: gone.name().to_owned(),
        version: gone.metadata.resource_version,
    };
    plane.store.commit(vec![delete], plane.world.now()).await.unwrap();
    act(&plane, &parent_run, RunVerb::Continue).await;
    set(&plane, &agent(&plane), Launched { attempts: 2, ..standing(LaunchedState::Running) });
    turn(&plane).await;
    let (run, children) = runs(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Running);
    assert_eq!(children.len(), 0, "it was kept long enough");
    assert_eq!(run.status.child_subagent_runs.len(), 1, "its parent still shows it");
    // Another of the same conversation is a new one, and so is the same when it is at work again.
    let more = LaunchedChild { agent: "worker-2".to_owned(), ..child(ChildState::Running) };
    has(&plane, vec![child(ChildState::Completed), more]);
    turn(&plane).await;
    assert_eq!(runs(&plane).await.1.len(), 1);
    has(&plane, vec![LaunchedChild { cursor: 12, ..child(ChildState::Running) }]);
    turn(&plane).await;
    assert_eq!(runs(&plane).await.1.len(), 2);
}

/// Fault of a sub-agent that was declared anew while its parent waited to be tried again.
#[tokio::test]
async fn a_retry_has_the_sub_agents_of_today() {
    let plane = parent().await;
    let run = runs(&plane).await.0.name().to_owned();
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
    let stricter = document(
        Kind::AgentSubagent,
        "reviewer",
        json!({
            "rolePrompt": "You look twice.", "taskKinds": ["review"], "maxParallelTasks": 1,
            "outputContract": { "format": "summary", "requiredSections": ["Verdict"] },
        }),
    );
    declare(&plane, &[stricter]).await;
    // A conversation goes on as it was begun, or not at all.
    act(&plane, &run, RunVerb::Continue).await;
    let why = runs(&plane).await.0.status.terminal_reason.unwrap_or_default();
    assert!(why.contains("sub-agents are others") && why.contains("retry it"), "{why}");
    act(&plane, &run, RunVerb::Retry).await;
    let launched = plane.engine.launched.lock().unwrap().clone();
    assert_eq!(launched.len(), 2, "{:?}", runs(&plane).await.0.status);
    assert_eq!(launched[0].limits.subagents[0].spec.role_prompt, "You look.");
    assert_eq!(launched[1].limits.subagents[0].spec.role_prompt, "You look twice.");
    // It is judged by the same.
    has(&plane, vec![child(ChildState::Completed)]);
    turn(&plane).await;
    let (_, children) = runs(&plane).await;
    let why = children[0].status.terminal_reason.clone().unwrap_or_default();
    assert!(why.contains("ContractBroken") && why.contains("Verdict"), "{why}");
    // And one that is gone is not started.
    set(&plane, &agent(&plane), standing(LaunchedState::Failed));
    turn(&plane).await;
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
async fn beside_a_commit_s_checks_stand_runs_and_no_sub_agents_and_what_is_broken_hides_nothing() {
    let plane = parent().await;
    has(&plane, vec![child(ChildState::Running)]);
    turn(&plane).await;
    plane.api.dispatch(&caller("ada"), "default", request("broken")).await.unwrap();
    let parent_run = runs_by_task(&plane, false).await;
    let repository = Target { namespace: "default".to_owned(), name: "app".to_owned() };
    let shown = plane.api.checks(&repository, crate::dispatch::SHA).await.unwrap();
    assert_eq!(shown.runs.len(), 2, "without the sub-agent: {:?}", shown.runs);
    assert_eq!(shown.unreadable, []);
    // One of them is what nobody can read.
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
    // It is nobody's at another commit.
    let other = plane.api.checks(&repository, &"b".repeat(40)).await.unwrap();
    assert_eq!((other.runs.len(), other.unreadable.len()), (0, 0));
}

/// The run that has been started, or the sub-agent of it.
async fn runs_by_task(plane: &Plane, is_child: bool) -> String {
    let all = all::<AgentDispatchRun>(plane).await;
    let wanted = |run: &&Object<AgentDispatchRun>| {
        run.spec.parent_run.is_some() == is_child && run.status.started_at.is_some()
    };
    all.iter().find(wanted).unwrap().name().to_owned()
}

/// What its parent told it is its context, kept without secrets.
#[tokio::test]
async fn a_sub_agent_s_context_is_assembled() {
    let plane = parent().await;
    has(&plane, vec![child(ChildState::Running)]);
    turn(&plane).await;
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    let assembled = async || {
        let (_, children) = runs(&plane).await;
        let kind = ConditionType::ContextAssembled;
        let one = children[0].status.conditions.iter().find(|one| one.kind == kind).unwrap();
        (one.status, one.reason)
    };
    let good = (Standing::True, bailiwick_resources::Reason::BundleRecorded);
    assert_eq!(assembled().await, good);
    let (_, children) = runs(&plane).await;
    let name = children[0].spec.context_bundle_ref.clone().unwrap();
    let bundles = all::<bailiwick_resources::AgentContextBundle>(&plane).await;
    let bundle = bundles.iter().find(|one| one.name() == name).unwrap();
    assert_eq!(Some(&bundle.spec.digest), children[0].status.context_bundle_digest.as_ref());
    let text = plane.store.blob(&bundle.spec.digest).await.unwrap().unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("Look at src/a.rs") && !text.contains(SECRET), "{text}");
    has(&plane, vec![child(ChildState::Completed)]);
    turn(&plane).await;
    assert_eq!(assembled().await, good, "and stays so at its end");
}

/// One that has ended before anybody saw it is recorded whole.
#[tokio::test]
async fn a_sub_agent_that_has_ended_when_it_is_first_seen_has_its_context() {
    let plane = parent().await;
    has(&plane, vec![child(ChildState::Completed)]);
    turn(&plane).await;
    let (_, children) = runs(&plane).await;
    let kind = ConditionType::ContextAssembled;
    let one = children[0].status.conditions.iter().find(|one| one.kind == kind).unwrap();
    assert_eq!(one.status, Standing::True, "{one:?}");
}
