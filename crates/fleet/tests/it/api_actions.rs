//! Actions of people on runs and questions, and writes that the forge does not get: each has an audit entry that
//! names its run, and questions of agents are answered through their approval.

use std::sync::atomic::Ordering;

use bailiwick_fleet::admission::conditions::{ProgramFacts, SkillProbe};
use bailiwick_fleet::controllers::QuestionOwner;
use bailiwick_fleet::ports::{
    ActionError, AuditEntry, DecisionRequest, EngineEvent, Fleet as _, FleetStore as _, Launched,
    LaunchedState, RunVerb, RunVerbRequest, Selection, Target, Verdict, WorkspaceRequest,
    WorkspaceVerb, World as _, Write,
};
use bailiwick_resources::{
    AgentApproval, AgentContextLabel, AgentDispatchAttempt, AgentRoleBinding, AgentServiceAccount,
    AgentSession, AgentSkill, AgentStack, ApprovalPhase, ConditionType, Kind, Object, Reason,
    RunPhase, Validation, WriteBackState,
};
use serde_json::json;

use super::dispatch::{
    Plane, agent, all, caller, declare, document, in_state, only_run, reconcile, request,
    set_state, start_plane, work,
};

async fn lines(plane: &Plane, event: &str) -> Vec<AuditEntry> {
    let all = plane.store.audit(0, 1_000).await.unwrap();
    all.into_iter().map(|(_, line)| line).filter(|line| line.event == event).collect()
}

fn correlation_of<'a>(line: &'a AuditEntry, name: &str) -> Option<&'a str> {
    line.correlation.get(name).map(String::as_str)
}

fn target(name: &str) -> Target {
    Target { namespace: "default".to_owned(), name: name.to_owned() }
}

fn verdict(approval: &Object<AgentApproval>, decision: Verdict) -> DecisionRequest {
    DecisionRequest {
        decision,
        comment: String::new(),
        approved_action_subset: Vec::new(),
        expected_artifact_digest: approval.spec.artifact_digest.clone(),
    }
}

/// A run whose work waits for an approval.
async fn waiting_for_approval() -> (Plane, Object<AgentApproval>) {
    let plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let done = Launched { work: Some(work()), ..in_state(LaunchedState::Verified) };
    set_state(&plane, &agent(&plane), done);
    reconcile(&plane).await;
    let approval = all::<AgentApproval>(&plane).await.remove(0);
    (plane, approval)
}

#[tokio::test]
async fn refused_dispatch_by_hand_has_an_audit_entry_with_its_caller() {
    let plane = start_plane(|object| {
        if object.kind == Kind::Repository {
            object.spec["policy"] = json!({ "allowedStacks": ["another"] });
        }
    })
    .await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap_err();
    let found = lines(&plane, "AgentPermissionReviewDenied").await;
    let [line] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((line.actor.as_str(), correlation_of(line, "correlationId")), ("ada", Some("c")));
    assert_eq!(correlation_of(line, "event"), Some("r"));
    assert_ne!(line.detail["reasons"], json!([]));
    assert_eq!(lines(&plane, "AgentDispatchQueued").await, []);
}

#[tokio::test]
async fn action_of_a_person_on_a_run_names_the_run_and_its_attempt() {
    let plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let run = only_run(&plane).await;
    let cancel = RunVerbRequest::default();
    plane
        .api
        .act_on_run(&caller("bob"), &target(run.name()), RunVerb::Cancel, cancel)
        .await
        .unwrap();
    for (event, actor) in [("AgentDispatchQueued", "ada"), ("AgentDispatchCancelRequested", "bob")]
    {
        let found = lines(&plane, event).await;
        let [line] = found.as_slice() else { panic!("{event}: {found:?}") };
        assert_eq!(
            (line.actor.as_str(), correlation_of(line, "correlationId")),
            (actor, Some("c"))
        );
        assert_eq!(correlation_of(line, "run"), Some(run.name()), "{event}");
        let attempt = run.status.attempts.last().map(String::as_str);
        assert_eq!(correlation_of(line, "attempt"), attempt, "{event}");
    }
}

#[tokio::test]
async fn action_on_a_workspace_names_the_run_that_worked_in_it() {
    let plane = start_plane(|_| {}).await;
    let spec = json!({
        "repository": "acme/app", "workspacePath": "/nowhere/w", "ownership": "issue",
        "branch": "agent/w", "targetBranch": "main", "trustTier": "trusted", "run": "ada-w-2",
    });
    let mut used_workspace = document(Kind::AgentWorkspace, "w", spec.clone());
    used_workspace.status = json!({ "state": "idle", "runs": ["adr-v", "adr-w"] });
    let mut own_workspace = document(Kind::AgentWorkspace, "own", spec);
    own_workspace.spec.as_object_mut().unwrap().remove("run");
    own_workspace.status = json!({ "state": "idle" });
    let creations = vec![Write::Create(used_workspace), Write::Create(own_workspace)];
    plane.store.commit(creations, plane.world.now()).await.unwrap();
    for (name, attempt, run) in [("w", Some("ada-w-2"), Some("adr-w")), ("own", None, None)] {
        let pin = WorkspaceRequest::of(WorkspaceVerb::Pin);
        plane.api.act_on_workspace(&caller("ada"), "default", Some(name), pin).await.unwrap();
        let found = lines(&plane, "AgentWorkspaceActionDone").await;
        let line = found.last().unwrap();
        assert_eq!(line.subject, format!("AgentWorkspace/default/{name}"));
        assert_eq!(
            (line.actor.as_str(), correlation_of(line, "correlationId")),
            ("ada", Some("c"))
        );
        assert_eq!(correlation_of(line, "workspace"), Some(name));
        assert_eq!(
            (correlation_of(line, "attempt"), correlation_of(line, "run")),
            (attempt, run),
            "{name}"
        );
    }
}

#[tokio::test]
async fn write_that_is_not_made_has_an_audit_entry_with_the_reason() {
    // A person rejects the write.
    let (plane, approval) = waiting_for_approval().await;
    let reject = verdict(&approval, Verdict::Reject);
    plane.api.decide(&caller("bob"), &target(approval.name()), reject).await.unwrap();
    reconcile(&plane).await;
    let run = only_run(&plane).await;
    assert_eq!(run.status.write_backs[0].state, WriteBackState::Denied);
    let found = lines(&plane, "AgentWriteBackDenied").await;
    let [line] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(
        (correlation_of(line, "run"), correlation_of(line, "approval")),
        (Some(run.name()), Some(approval.name()))
    );
    assert_eq!(line.detail["reason"], "the approval was rejected");
    let decided = lines(&plane, "AgentApprovalDecision").await;
    assert_eq!((decided.len(), decided[0].actor.as_str()), (1, "bob"));
    assert_eq!(correlation_of(&decided[0], "run"), Some(run.name()));

    // The forge refuses the write.
    let (plane, approval) = waiting_for_approval().await;
    let refused = bailiwick_fleet::ports::ForgeError::Refused("no such thing".to_owned());
    plane.world.forge.faults.lock().unwrap().push_back(refused);
    let approve = verdict(&approval, Verdict::Approve);
    plane.api.decide(&caller("bob"), &target(approval.name()), approve).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.write_backs[0].state, WriteBackState::Failed);
    assert_eq!(lines(&plane, "AgentWriteBackFailed").await.len(), 1);
    assert_eq!(lines(&plane, "AgentWriteBackApplied").await, []);

    // The run is cancelled before anybody answers.
    let (plane, _) = waiting_for_approval().await;
    let run = only_run(&plane).await;
    let cancel = RunVerbRequest::default();
    plane
        .api
        .act_on_run(&caller("bob"), &target(run.name()), RunVerb::Cancel, cancel)
        .await
        .unwrap();
    reconcile(&plane).await;
    assert_eq!(only_run(&plane).await.status.phase, RunPhase::Cancelled);
    assert_eq!(lines(&plane, "AgentWriteBackDenied").await.len(), 1);

    // Positive control: a write that is made has no such entry.
    let (plane, approval) = waiting_for_approval().await;
    let approve = verdict(&approval, Verdict::Approve);
    plane.api.decide(&caller("bob"), &target(approval.name()), approve).await.unwrap();
    reconcile(&plane).await;
    let applied = lines(&plane, "AgentWriteBackApplied").await;
    assert_eq!(
        (applied.len(), correlation_of(&applied[0], "approval")),
        (1, Some(approval.name()))
    );
    assert_eq!(lines(&plane, "AgentWriteBackDenied").await, []);
    assert_eq!(lines(&plane, "AgentWriteBackFailed").await, []);
}

#[tokio::test]
async fn idempotency_key_in_the_response_is_the_key_of_the_write() {
    let (plane, approval) = waiting_for_approval().await;
    let approve = verdict(&approval, Verdict::Approve);
    let answer = plane.api.decide(&caller("bob"), &target(approval.name()), approve).await.unwrap();
    reconcile(&plane).await;
    let used: Vec<String> = plane.world.forge.written.lock().unwrap().keys().cloned().collect();
    assert_eq!(used, [answer.write_back.unwrap().idempotency_key]);
    let status = all::<AgentApproval>(&plane).await.remove(0).status;
    assert_eq!(
        (status.phase, status.write_back_key),
        (ApprovalPhase::Approved, Some(used[0].clone()))
    );
}

#[tokio::test]
async fn question_of_a_fleet_agent_is_answered_only_through_its_approval() {
    let plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    let agent = agent(&plane);
    let owner_of = async |line: &[&str], question: &str| {
        plane.api.question_owner(line, question).await.unwrap()
    };
    // The question has no approval yet, but it already belongs to the fleet.
    assert!(matches!(owner_of(&[&agent], "q1").await, QuestionOwner::Unknown));
    let questions = vec![("q1".to_owned(), "may it push?".to_owned())];
    let waiting_for_approval =
        Launched { questions, ..in_state(LaunchedState::WaitingForApproval) };
    set_state(&plane, &agent, waiting_for_approval);
    reconcile(&plane).await;
    let approval = all::<AgentApproval>(&plane).await.remove(0);
    match owner_of(&[&agent], "q1").await {
        QuestionOwner::Here(found) => assert_eq!(found.name(), approval.name()),
        other @ (QuestionOwner::Elsewhere | QuestionOwner::Unknown) => panic!("{other:?}"),
    }
    assert!(matches!(owner_of(&[&agent], "q2").await, QuestionOwner::Unknown));
    // An agent that a fleet agent started belongs to the fleet; an agent started by hand does not.
    assert!(matches!(owner_of(&["below", &agent], "q1").await, QuestionOwner::Unknown));
    assert!(matches!(owner_of(&["by-hand", "above"], "q1").await, QuestionOwner::Elsewhere));
    let approve = verdict(&approval, Verdict::Approve);
    plane.api.decide(&caller("bob"), &target(approval.name()), approve).await.unwrap();
    assert!(
        matches!(owner_of(&[&agent], "q1").await, QuestionOwner::Unknown),
        "it is decided only once"
    );
}

fn event(number: u64, at: u64) -> EngineEvent {
    EngineEvent { number, at, kind: "text".to_owned(), body: json!({ "number": number }) }
}

/// A run that was retried and then continued.
async fn run_with_three_attempts() -> (Plane, Target) {
    let plane = start_plane(|_| {}).await;
    let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    let run = target(&answer.run);
    let add_events = |numbers: std::ops::RangeInclusive<u64>| {
        let now = plane.world.now().millis();
        let mut engine_events = plane.engine.engine_events.lock().unwrap();
        engine_events
            .entry(agent(&plane))
            .or_default()
            .extend(numbers.map(|number| event(number, now)));
    };
    // How many attempts each agent has when it ends.
    for (verb, numbers, attempts) in
        [(Some(RunVerb::Retry), 1..=3, 1), (Some(RunVerb::Continue), 1..=2, 1), (None, 3..=4, 2)]
    {
        reconcile(&plane).await;
        add_events(numbers);
        set_state(&plane, &agent(&plane), Launched { attempts, ..in_state(LaunchedState::Failed) });
        reconcile(&plane).await;
        let Some(verb) = verb else { continue };
        let message = "Go on.".to_owned();
        let more = RunVerbRequest { message, ..RunVerbRequest::default() };
        let mut later = caller("ada");
        later.at = plane.world.now();
        plane.api.act_on_run(&later, &run, verb, more).await.unwrap();
    }
    (plane, run)
}

#[tokio::test]
async fn events_of_all_attempts_are_one_stream_with_one_cursor() {
    let (plane, run) = run_with_three_attempts().await;
    let attempts = all::<AgentDispatchAttempt>(&plane).await;
    assert_eq!(attempts.len(), 3);
    let whole = plane.api.run_events(&run, None, 0, 100).await.unwrap();
    let numbers: Vec<(u32, u64)> = whole
        .events
        .iter()
        .map(|first| (first.attempt, first.body["number"].as_u64().unwrap()))
        .collect();
    assert_eq!(numbers, [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 3), (3, 4)]);
    assert!(whole.ended);
    let cursors: Vec<u64> = whole.events.iter().map(|first| first.cursor).collect();
    assert!(cursors.is_sorted_by(|first, next| first < next), "{cursors:?}");
    // For every start position and page size, no event is missed or repeated.
    for limit in 1..=8 {
        for begin in 0..=cursors.len() {
            let mut after = begin.checked_sub(1).map_or(0, |last| cursors[last]);
            let mut read = Vec::new();
            loop {
                let page = plane.api.run_events(&run, None, after, limit).await.unwrap();
                let Some(last) = page.events.last() else { break };
                after = last.cursor;
                read.extend(page.events.iter().map(|first| first.cursor));
            }
            assert_eq!(read, cursors[begin..], "page size {limit}, start {begin}");
        }
    }
    for number in 1..=3 {
        let of_one_attempt = plane.api.run_events(&run, Some(number), 0, 2).await.unwrap();
        let of_attempt = whole.events.iter().filter(|first| first.attempt == number);
        assert_eq!(
            of_one_attempt.events,
            of_attempt.take(2).cloned().collect::<Vec<_>>(),
            "attempt {number}"
        );
    }
    let none = plane.api.run_events(&run, Some(4), 0, 2).await;
    assert!(matches!(none, Err(ActionError::NotFound(_))), "{none:?}");
}

#[tokio::test]
async fn run_is_not_continued_with_a_program_that_loses_its_sessions() {
    let plane = start_plane(|_| {}).await;
    let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(&plane).await;
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    let run = target(&answer.run);
    let act = async |verb| {
        let message = "Go on.".to_owned();
        let more = RunVerbRequest { message, ..RunVerbRequest::default() };
        plane.api.act_on_run(&caller("ada"), &run, verb, more).await
    };
    plane.world.loses_sessions.store(true, Ordering::Relaxed);
    for verb in [RunVerb::Resume, RunVerb::Continue] {
        let refused = act(verb).await;
        assert!(
            matches!(&refused, Err(ActionError::Conflict { code, .. }) if code == "NotResumable"),
            "{refused:?}"
        );
    }
    plane.world.loses_sessions.store(false, Ordering::Relaxed);
    act(RunVerb::Resume).await.unwrap();
}

/// A resumed conversation is compared with the audit log, which has too little at this level.
#[tokio::test]
async fn conversation_with_too_little_audit_data_is_not_resumed() {
    for (level, resumes) in [("metadata", false), ("inputs", true)] {
        let plane = start_plane(|object| {
            if object.kind == Kind::AgentToolProfile {
                object.spec["auditLevel"] = json!(level);
            }
        })
        .await;
        let answer = plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
        reconcile(&plane).await;
        set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
        reconcile(&plane).await;
        let session = all::<AgentSession>(&plane).await.remove(0);
        assert_eq!(session.status.resumable, resumes, "{level}");
        let message = "Go on.".to_owned();
        let more = RunVerbRequest { message, ..RunVerbRequest::default() };
        let run = target(&answer.run);
        let result = plane.api.act_on_run(&caller("ada"), &run, RunVerb::Resume, more).await;
        match result {
            Ok(_) => assert!(resumes, "{level}"),
            Err(ActionError::Conflict { code, .. }) => {
                assert_eq!((code.as_str(), resumes), ("NotResumable", false), "{level}");
                assert_eq!(only_run(&plane).await.status.phase, RunPhase::Failed);
                assert_eq!(only_run(&plane).await.status.attempts.len(), 1);
            }
            Err(error) => panic!("{level}: {error:?}"),
        }
    }
}

#[tokio::test]
async fn stack_shows_its_program_and_an_unknown_effort_is_a_fault() {
    let plane = start_plane(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["effort"] = json!("extreme");
        }
    })
    .await;
    let stack = async || all::<AgentStack>(&plane).await.remove(0);
    let resolved = |stack: &Object<AgentStack>| {
        let all = stack.status.conditions.iter();
        let mut resolved = all.filter(|one| one.kind == ConditionType::CapabilitiesResolved);
        resolved.next().unwrap().reason
    };
    assert_eq!(stack().await.status.capabilities, None, "the program was not asked yet");
    assert_eq!(resolved(&stack().await), Reason::AdapterManifestLoaded);
    let efforts = vec!["low".to_owned(), "high".to_owned()];
    let program = ProgramFacts { version: "2.1".to_owned(), efforts, ..ProgramFacts::default() };
    *plane.world.program.lock().unwrap() = Some(program.clone());
    plane.reconcile_statuses().await;
    let updated = stack().await;
    assert_eq!(updated.status.capabilities, Some(serde_json::to_value(&program).unwrap()));
    assert_eq!(resolved(&updated), Reason::UnsupportedBaseAgent);
    let efforts = vec!["extreme".to_owned()];
    *plane.world.program.lock().unwrap() = Some(ProgramFacts { efforts, ..program });
    plane.reconcile_statuses().await;
    assert_eq!(resolved(&stack().await), Reason::AdapterManifestLoaded);
    *plane.world.program.lock().unwrap() = None;
    plane.reconcile_statuses().await;
    assert_eq!(stack().await.status.capabilities, None);
}

#[tokio::test]
async fn skills_labels_and_identities_have_a_status() {
    let plane = start_plane(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["skillRefs"] = json!(["runbook", "lost"]);
        }
    })
    .await;
    let skill = |path: &str| json!({ "name": path, "description": "d", "format": "file", "sourceRef": { "path": path } });
    let binding = json!({
        "subject": { "kind": "service-account", "name": "fixer" },
        "scope": { "kind": "namespace", "name": "default" },
        "roleRef": { "kind": "Role", "name": "reader" },
    });
    let rules = json!({ "rules": [{ "resources": ["runs"], "verbs": ["get"] }] });
    declare(
        &plane,
        &[
            document(Kind::AgentSkill, "runbook", skill("a.md")),
            document(Kind::AgentSkill, "lost", skill("b.md")),
            document(Kind::AgentSkill, "unused", skill("c.md")),
            document(Kind::Role, "reader", rules),
            document(Kind::AgentRoleBinding, "reads", binding),
            document(
                Kind::AgentContextLabel,
                "careful",
                json!({
                    "displayName": "Careful", "promptFragment": "Take care.",
                    "allowedSources": ["issue"],
                }),
            ),
        ],
    )
    .await;
    let digest = "d".repeat(64);
    let found = SkillProbe::Found { digest: digest.clone(), text: "t".to_owned() };
    let probes = [("runbook".to_owned(), found), ("lost".to_owned(), SkillProbe::Missing)];
    plane.world.skills.lock().unwrap().extend(probes);
    let first = plane.reconcile_statuses().await;
    assert_eq!(first.errors, []);
    let skills = all::<AgentSkill>(&plane).await;
    let status = |name: &str| skills.iter().find(|one| one.name() == name).unwrap().status.clone();
    assert_eq!(status("runbook").validation, Validation::Valid);
    assert_eq!(status("runbook").digest, Some(digest));
    assert_eq!(status("lost").validation, Validation::Invalid);
    assert_eq!(status("unused").validation, Validation::Warning);
    assert!(skills.iter().all(|one| one.status.observed_generation == one.metadata.generation));
    let label = all::<AgentContextLabel>(&plane).await.remove(0).status;
    assert_eq!(label.digest, bailiwick_model::Sha256Hex::of("Take care.").to_string());
    assert_eq!(label.unsafe_patterns, [] as [String; 0]);
    let accounts = all::<AgentServiceAccount>(&plane).await;
    for account in accounts {
        let synced = account.status.synced_service_account.as_deref();
        assert_eq!(synced, Some(account.spec.service_account_name.as_str()));
    }
    let binding = all::<AgentRoleBinding>(&plane).await.remove(0);
    let kinds: Vec<Kind> = binding.status.synced_role_refs.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [Kind::RoleBinding, Kind::Role], "{:?}", binding.status);
    // An unchanged status is not written again.
    plane.reconcile_statuses().await;
    let skills = Selection::of(Kind::AgentSkill);
    let before = plane.store.list(&skills).await.unwrap().version;
    plane.reconcile_statuses().await;
    assert_eq!(plane.store.list(&skills).await.unwrap().version, before);
}

#[tokio::test]
async fn rule_trial_shows_every_check_and_reviews_the_permissions() {
    let plane = start_plane(|object| {
        if object.kind == Kind::AgentToolProfile {
            object.spec["nativeTools"]["network"] = json!(true);
            object.spec["networkPolicy"] =
                json!({ "mode": "allowlist", "allowHosts": ["docs.example.org"] });
        }
    })
    .await;
    let mut spec = json!({
        "lifecycleState": "paused", "sources": ["push"], "agentStack": "fixer",
        "taskKind": "tend", "promptTemplate": "Tend {{ payload.nothing.here }}.",
        "dedupePolicy": { "key": "{{ payload.nothing.here }}", "window": "1h" },
        "concurrencyPolicy": { "group": "{{ event.branch }}", "mode": "queue", "maxActive": 1 },
    });
    let payload = json!({
        "ref": "refs/heads/main", "before": "a".repeat(40), "after": "b".repeat(40),
        "commits": [], "pusher": { "login": "ada" }, "sender": { "login": "ada" },
        "repository": { "full_name": "acme/app", "owner": { "login": "acme" } },
    });
    let trial = async |spec: &serde_json::Value| {
        declare(&plane, &[document(Kind::AgentTriggerRule, "tend", spec.clone())]).await;
        let sample = bailiwick_fleet::ports::RuleSample {
            event: Some("push".to_owned()),
            repository: Some("app".to_owned()),
            payload: payload.clone(),
            ..Default::default()
        };
        plane.api.try_rule(&caller("ada"), &target("tend"), sample).await.unwrap()
    };
    let result = trial(&spec).await;
    assert_eq!(result.lifecycle, "paused");
    assert!(result.prompt_fault.is_some() && result.dedupe_fault.is_some(), "{result:?}");
    assert_eq!((result.rendered_prompt, result.dedupe_key), (None, None));
    assert_eq!(result.concurrency["decision"], "start", "{:?}", result.concurrency_group);
    let written = serde_json::to_value(result.trust_tier).unwrap();
    assert_eq!(written, "trusted", "{:?}", result.distrust);
    use bailiwick_fleet::ports::PermissionDecision;
    let decision = result.permission_review.unwrap().decision;
    assert_eq!(decision, PermissionDecision::Allowed);
    // The rule requires an approval for network access: the review shows that.
    spec["approvalPolicy"] = json!({ "requireFor": ["network-expanded"] });
    spec["promptTemplate"] = json!("Tend it.");
    spec["match"] = json!({ "payload": [{ "jsonPath": "$[" }] });
    spec.as_object_mut().unwrap().remove("dedupePolicy");
    let result = trial(&spec).await;
    let decision = result.permission_review.unwrap().decision;
    assert_eq!(decision, PermissionDecision::RequiresApproval);
    assert_eq!(result.prompt_fault, None);
    assert!(!result.matcher_faults.is_empty());
}
