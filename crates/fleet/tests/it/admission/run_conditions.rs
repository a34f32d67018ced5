//! The six conditions of a run: each false example of the table is a test with its name.

use bailiwick_fleet::admission::conditions::{
    ApprovalFacts, ArtifactFacts, ContextFacts, RunFacts, RunnerFacts, SessionFacts,
    WorkspaceFacts, run_conditions,
};
use bailiwick_resources::{
    ActionType, ApprovalPhase, ConditionType, Kind, Reason, Standing, WriteBackTarget,
    expected_conditions,
};

fn good() -> RunFacts {
    RunFacts {
        context: ContextFacts::Recorded("d".into()),
        workspace: WorkspaceFacts::Ready("w".into()),
        runner: RunnerFacts::Accepted("trusted".into()),
        session: SessionFacts::Bound("s".into()),
        approvals: Some(Vec::new()),
        artifacts: ArtifactFacts::Recorded(1),
    }
}

fn approvals(action: ActionType, phase: ApprovalPhase) -> Option<Vec<ApprovalFacts>> {
    let approved = ApprovalFacts { action: ActionType::ToolCall, phase: ApprovalPhase::Approved };
    Some(vec![approved, ApprovalFacts { action, phase }])
}

fn check(kind: ConditionType, status: Standing, reason: Reason, change: impl Fn(&mut RunFacts)) {
    let mut facts = good();
    assert!(run_conditions(&facts).iter().all(|finding| finding.status == Standing::True));
    change(&mut facts);
    let findings = run_conditions(&facts);
    let kinds: Vec<ConditionType> = findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, expected_conditions(Kind::AgentDispatchRun));
    let finding = findings.iter().find(|finding| finding.kind == kind).unwrap();
    assert_eq!((finding.status, finding.reason), (status, reason));
    let others = findings.iter().filter(|finding| finding.kind != kind);
    assert_eq!(others.filter(|finding| finding.status == Standing::True).count(), 5);
}

macro_rules! examples {
    ($($name:ident: $condition:ident $status:ident $reason:ident, |$facts:ident| $spoil:expr;)*) => {
        $(#[test]
        fn $name() {
            check(ConditionType::$condition, Standing::$status, Reason::$reason, |$facts| $spoil);
        })*
    };
}

examples! {
    source_object_missing: ContextAssembled False SourceObjectMissing,
        |facts| facts.context = ContextFacts::SourceMissing("pull request 7".into());
    artifact_fetch_failed: ContextAssembled False ArtifactFetchFailed,
        |facts| facts.context = ContextFacts::FetchFailed("log".into());
    redaction_error: ContextAssembled False RedactionFailed,
        |facts| facts.context = ContextFacts::RedactionFailed("pattern".into());
    context_pending: ContextAssembled Unknown ContextPending,
        |facts| facts.context = ContextFacts::Pending;
    workspace_missing: WorkspaceResolved False WorkspaceMissing,
        |facts| facts.workspace = WorkspaceFacts::Missing("gone".into());
    rebase_blocked: WorkspaceResolved False RebaseBlocked,
        |facts| facts.workspace = WorkspaceFacts::RebaseBlocked("conflicts".into());
    untrusted_ref_requires_isolated_workspace: WorkspaceResolved False IsolatedWorkspaceRequired,
        |facts| facts.workspace = WorkspaceFacts::NotIsolated("shared".into());
    workspace_pending: WorkspaceResolved Unknown WorkspacePending,
        |facts| facts.workspace = WorkspaceFacts::Pending;
    no_capacity: RunnerAssigned False NoCapacity,
        |facts| facts.runner = RunnerFacts::NoCapacity("full".into());
    forbidden_runner: RunnerAssigned False ForbiddenRunner,
        |facts| facts.runner = RunnerFacts::Forbidden("trusted".into());
    queue_timeout: RunnerAssigned False QueueTimeout,
        |facts| facts.runner = RunnerFacts::QueueTimeout("1h".into());
    queued: RunnerAssigned Unknown Queued,
        |facts| facts.runner = RunnerFacts::Queued("third".into());
    gateway_unavailable: AgentMuxSessionBound False GatewayUnavailable,
        |facts| facts.session = SessionFacts::GatewayUnavailable("no claude".into());
    pending_handoff: AgentMuxSessionBound False PendingHandoff,
        |facts| facts.session = SessionFacts::PendingHandoff;
    launch_failed: AgentMuxSessionBound False LaunchFailed,
        |facts| facts.session = SessionFacts::LaunchFailed("exit 1".into());
    waiting_on_tool_approval: ApprovalSatisfied False WaitingForToolApproval,
        |facts| facts.approvals = approvals(ActionType::ToolCall, ApprovalPhase::Pending);
    waiting_on_write_back_approval: ApprovalSatisfied False WaitingForWriteBackApproval,
        |facts| facts.approvals =
            approvals(ActionType::WriteBack(WriteBackTarget::BranchPush), ApprovalPhase::Pending);
    waiting_on_secret_approval: ApprovalSatisfied False WaitingForSecretApproval,
        |facts| facts.approvals = approvals(ActionType::SecretAccess, ApprovalPhase::Pending);
    waiting_on_network_approval: ApprovalSatisfied False WaitingForNetworkApproval,
        |facts| facts.approvals = approvals(ActionType::NetworkExpanded, ApprovalPhase::Pending);
    waiting_on_release_approval: ApprovalSatisfied False WaitingForReleaseApproval,
        |facts| facts.approvals =
            approvals(ActionType::WriteBack(WriteBackTarget::ReleaseNote), ApprovalPhase::Pending);
    approval_rejected: ApprovalSatisfied False ApprovalRejected,
        |facts| facts.approvals = approvals(ActionType::SecretAccess, ApprovalPhase::Rejected);
    approval_expired: ApprovalSatisfied False ApprovalExpired,
        |facts| facts.approvals = approvals(ActionType::SecretAccess, ApprovalPhase::Expired);
    approvals_not_yet_observed: ApprovalSatisfied Unknown NotYetObserved,
        |facts| facts.approvals = None;
    missing_patch: ArtifactsIndexed False PatchMissing,
        |facts| facts.artifacts = ArtifactFacts::PatchMissing("no commit".into());
    review_artifact_parse_failed: ArtifactsIndexed False ReviewArtifactInvalid,
        |facts| facts.artifacts = ArtifactFacts::ReviewInvalid("no JSON".into());
    upload_failed: ArtifactsIndexed False UploadFailed,
        |facts| facts.artifacts = ArtifactFacts::UploadFailed("disk".into());
    artifacts_pending: ArtifactsIndexed Unknown ArtifactsPending,
        |facts| facts.artifacts = ArtifactFacts::Pending;
}
