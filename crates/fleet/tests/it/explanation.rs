//! Explanations of objects: every reason has a meaning, every failure has advice, and a run says why it waits.

use bailiwick_fleet::explanation::{RelatedObjects, advice, explain};
use bailiwick_resources::{
    AgentApproval, AgentDispatchRun, AnyObject, ApprovalPhase, Condition, ConditionType, Metadata,
    Moment, Object, Reason, RunPhase, RunnerPool, Standing,
};
use serde_json::json;

/// Reasons that are good, or that change with time only.
const GOOD: [Reason; 38] = {
    use Reason::*;
    [
        AdapterManifestLoaded,
        ToolProfileAdmitted,
        AllRequiredServersReady,
        LazyServersAllowed,
        SkillsFound,
        SubagentsAdmitted,
        ContextLabelsApproved,
        PolicyAdmitted,
        ServiceAccountReady,
        RequiredRolesAllowed,
        SecretsGranted,
        ConfigGranted,
        AllConditionsMet,
        SourcesReady,
        MatcherCompiled,
        StackReady,
        TemplateRendered,
        DedupeKeysBounded,
        RuleActive,
        BundleRecorded,
        ContextPending,
        WorkspaceReady,
        WorkspacePending,
        RunnerAccepted,
        Queued,
        SessionReady,
        PendingHandoff,
        NoApprovalRequired,
        ApprovalsGranted,
        ArtifactsRecorded,
        ArtifactsPending,
        NativeObjectReady,
        TokenProjectionAllowed,
        ImagePullSecretsFound,
        RoleFound,
        SubjectsFound,
        RoleBindingReady,
        NoEscalation,
    ]
};
const GOOD_GRANTS: [Reason; 11] = [
    Reason::SecretFound,
    Reason::KeysFound,
    Reason::ConfigMapFound,
    Reason::GrantMatchesServiceAccount,
    Reason::RequirementsCollected,
    Reason::EveryGrantResolved,
    Reason::ForgeAnswers,
    Reason::NoForge,
    Reason::ForgeAccountSuffices,
    Reason::ActorRightsReadable,
    Reason::ForgeVersionCurrent,
];

#[test]
fn every_reason_has_a_meaning_and_every_failure_has_advice() {
    let mut wrong: Vec<Reason> = Vec::new();
    for &reason in Reason::ALL {
        assert!(reason.meaning().ends_with('.'), "{reason:?}: {}", reason.meaning());
        let is_good = GOOD.contains(&reason) || GOOD_GRANTS.contains(&reason);
        wrong.extend((advice(reason).is_none() != is_good).then_some(reason));
    }
    assert_eq!(wrong, []);
    assert_eq!(ConditionType::Ready.meaning(), "All requirements are met.");
}

fn run(change: impl FnOnce(&mut Object<AgentDispatchRun>)) -> AnyObject {
    let spec: AgentDispatchRun = serde_json::from_value(json!({
        "repository": "acme/app", "ref": "refs/heads/main", "sha": "0".repeat(40),
        "sourceEvent": { "source": "ci", "uid": "wd-1", "actor": "eve" }, "agentStack": "fixer",
        "taskKind": "repair", "triggerRule": "broken", "runnerPool": "inside",
        "trustTier": "trusted",
    }))
    .unwrap();
    let mut run = Object::new(Metadata::named("adr-one"), spec);
    change(&mut run);
    AnyObject::of(&run).unwrap()
}

fn pool(active: u32, paused: bool) -> Object<RunnerPool> {
    let spec: RunnerPool = serde_json::from_value(json!({
        "capacity": 2, "trustTier": "trusted", "serviceAccountRef": "runner", "paused": paused,
    }))
    .unwrap();
    let mut pool = Object::new(Metadata::named("inside"), spec);
    pool.status.active = active;
    pool
}

#[test]
fn queued_run_says_what_it_waits_for() {
    let queued = || run(|run| run.status.phase = RunPhase::Queued);
    let with =
        |pool| explain(&queued(), &RelatedObjects { pool, ..RelatedObjects::default() }).summary;
    assert!(with(None).contains("which does not exist"));
    assert!(with(Some(pool(2, false))).contains("2 of 2 are in use"));
    assert!(with(Some(pool(0, true))).contains("which is paused"));
    assert!(with(Some(pool(0, false))).contains("which has room"));
    let behind = run(|run| {
        run.status.phase = RunPhase::Queued;
        run.status.queue_behind.push("adr-zero".to_owned());
    });
    let explanation = explain(&behind, &RelatedObjects::default());
    assert!(explanation.summary.contains("until adr-zero has ended"), "{}", explanation.summary);
    let facts = &explanation.facts.first().unwrap().lines;
    assert!(facts.iter().any(|line| line == "rule broken"), "{facts:?}");
}

#[test]
fn waiting_run_names_its_approval_and_a_failed_run_its_reason() {
    let spec: AgentApproval = serde_json::from_value(json!({
        "dispatchRun": "adr-one", "requestedBy": { "kind": "agent-stack", "name": "fixer" },
        "action": { "type": { "class": "tool-call" }, "target": "x", "summary": "rm -r build" },
        "policyReasons": [], "artifactRefs": [], "artifactDigest": "", "expiresAt": "2999-01-01T00:00:00Z",
    }))
    .unwrap();
    let mut approval = Object::new(Metadata::named("aap-one"), spec);
    let waiting = run(|run| run.status.phase = RunPhase::WaitingForApproval);
    let related = RelatedObjects { approvals: vec![approval.clone()], ..RelatedObjects::default() };
    let explanation = explain(&waiting, &related);
    assert!(
        explanation.next.first().unwrap().contains("approvals approve aap-one"),
        "{:?}",
        explanation.next
    );
    approval.status.phase = ApprovalPhase::Rejected;
    approval.status.decided_by = Some("ada".to_owned());
    let failed = run(|run| {
        run.status.phase = RunPhase::Failed;
        run.status.terminal_reason = Some("ApprovalRejected: ada said no".to_owned());
        run.status.conditions.push(Condition {
            kind: ConditionType::ApprovalSatisfied,
            status: Standing::False,
            reason: Reason::ApprovalRejected,
            message: "ada said no".to_owned(),
            observed_generation: 0,
            last_transition_time: Moment::from_millis(1),
        });
    });
    let explanation = explain(
        &failed,
        &RelatedObjects { approvals: vec![approval], ..RelatedObjects::default() },
    );
    assert_eq!(explanation.summary, "it failed: ApprovalRejected: ada said no");
    let lines: Vec<&String> = explanation.facts.iter().flat_map(|fact| &fact.lines).collect();
    assert!(lines.iter().any(|line| line.contains("rejected by ada")), "{lines:?}");
    assert!(explanation.next.iter().any(|next| next.contains("change what was refused")));
    let condition = explanation.conditions.first().unwrap();
    assert_eq!(condition.meaning, "An approval was denied.");
}
