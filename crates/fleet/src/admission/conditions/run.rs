//! The six conditions of a run.

use bailiwick_resources::{
    ActionType, ApprovalPhase, ConditionType, Finding, PodProblem, Reason, WriteBackTarget,
};

use super::Judgement;

/// The state of the context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContextFacts {
    /// It is being put together.
    Pending,
    /// It is stored under this digest.
    Recorded(String),
    /// The object that it is about does not exist.
    SourceMissing(String),
    /// An attachment could not be fetched.
    FetchFailed(String),
    /// Secrets could not be redacted.
    RedactionFailed(String),
}

/// The state of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceFacts {
    /// It is being created.
    Pending,
    /// It is there.
    Ready(String),
    /// It is gone.
    Missing(String),
    /// Its rebase waits.
    RebaseBlocked(String),
    /// One was chosen that an untrusted ref may not have.
    NotIsolated(String),
}

/// The state of the runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunnerFacts {
    /// It has not been looked for.
    NotYet,
    Queued(String),
    /// A pool has it.
    Accepted(String),
    /// No pool has room.
    NoCapacity(String),
    /// The pool does not permit the run.
    Forbidden(String),
    /// It waited for too long.
    QueueTimeout(String),
    /// Its pod does not run, or did not end well.
    Pod(PodProblem, String),
}

/// The state of the agent CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionFacts {
    /// It was not started.
    NotYet,
    /// It was started, and its session is not known yet.
    PendingHandoff,
    /// Its session is known.
    Bound(String),
    /// Its program cannot be started here.
    GatewayUnavailable(String),
    /// It did not start.
    LaunchFailed(String),
}

/// The state of one approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovalFacts {
    /// The requested action.
    pub action: ActionType,
    /// The decision.
    pub phase: ApprovalPhase,
}

/// The state of the artifacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArtifactFacts {
    /// There are none yet.
    Pending,
    /// All of them are stored; their number.
    Recorded(usize),
    /// The patch is not there.
    PatchMissing(String),
    /// The review cannot be read.
    ReviewInvalid(String),
    /// One could not be stored.
    UploadFailed(String),
}

/// The observations of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFacts {
    pub context: ContextFacts,
    pub workspace: WorkspaceFacts,
    pub runner: RunnerFacts,
    /// Its agent program.
    pub session: SessionFacts,
    /// Its approvals; nothing if they were not read.
    pub approvals: Option<Vec<ApprovalFacts>>,
    /// Its artifacts.
    pub artifacts: ArtifactFacts,
}

/// The six conditions, in their order.
pub fn run_conditions(facts: &RunFacts) -> Vec<Finding> {
    vec![
        context(&facts.context),
        workspace(&facts.workspace),
        runner(&facts.runner),
        session(&facts.session),
        approvals(facts.approvals.as_deref()),
        artifacts(&facts.artifacts),
    ]
}

fn context(facts: &ContextFacts) -> Finding {
    let kind = ConditionType::ContextAssembled;
    match facts {
        ContextFacts::Pending => {
            Finding::unknown(kind, Reason::ContextPending, "it is being put together")
        }
        ContextFacts::Recorded(digest) => Finding::holds(kind, Reason::BundleRecorded, digest),
        ContextFacts::SourceMissing(why) => Finding::fails(kind, Reason::SourceObjectMissing, why),
        ContextFacts::FetchFailed(why) => Finding::fails(kind, Reason::ArtifactFetchFailed, why),
        ContextFacts::RedactionFailed(why) => Finding::fails(kind, Reason::RedactionFailed, why),
    }
}

fn workspace(facts: &WorkspaceFacts) -> Finding {
    let kind = ConditionType::WorkspaceResolved;
    match facts {
        WorkspaceFacts::Pending => {
            Finding::unknown(kind, Reason::WorkspacePending, "it is being made")
        }
        WorkspaceFacts::Ready(name) => Finding::holds(kind, Reason::WorkspaceReady, name),
        WorkspaceFacts::Missing(why) => Finding::fails(kind, Reason::WorkspaceMissing, why),
        WorkspaceFacts::RebaseBlocked(why) => Finding::fails(kind, Reason::RebaseBlocked, why),
        WorkspaceFacts::NotIsolated(why) => {
            Finding::fails(kind, Reason::IsolatedWorkspaceRequired, why)
        }
    }
}

fn runner(facts: &RunnerFacts) -> Finding {
    let kind = ConditionType::RunnerAssigned;
    match facts {
        RunnerFacts::NotYet => Finding::unknown(kind, Reason::NotYetObserved, "not looked for yet"),
        RunnerFacts::Queued(why) => Finding::unknown(kind, Reason::Queued, why),
        RunnerFacts::Accepted(pool) => Finding::holds(kind, Reason::RunnerAccepted, pool),
        RunnerFacts::NoCapacity(why) => Finding::fails(kind, Reason::NoCapacity, why),
        RunnerFacts::Forbidden(why) => Finding::fails(kind, Reason::ForbiddenRunner, why),
        RunnerFacts::QueueTimeout(why) => Finding::fails(kind, Reason::QueueTimeout, why),
        RunnerFacts::Pod(problem, why) => Finding::fails(kind, problem.reason(), why),
    }
}

fn session(facts: &SessionFacts) -> Finding {
    let kind = ConditionType::AgentMuxSessionBound;
    match facts {
        SessionFacts::NotYet => Finding::unknown(kind, Reason::NotYetObserved, "not started yet"),
        SessionFacts::PendingHandoff => Finding::fails(
            kind,
            Reason::PendingHandoff,
            "the program has not named its session yet",
        ),
        SessionFacts::Bound(session) => Finding::holds(kind, Reason::SessionReady, session),
        SessionFacts::GatewayUnavailable(why) => {
            Finding::fails(kind, Reason::GatewayUnavailable, why)
        }
        SessionFacts::LaunchFailed(why) => Finding::fails(kind, Reason::LaunchFailed, why),
    }
}

/// A denial takes precedence over an expiry, and that over an open approval.
fn approvals(facts: Option<&[ApprovalFacts]>) -> Finding {
    let mut judgement = Judgement::of(ConditionType::ApprovalSatisfied);
    let Some(facts) = facts else {
        judgement.doubt(Reason::NotYetObserved, "approvals have not been checked yet");
        return judgement.end(Reason::NoApprovalRequired, "");
    };
    let in_phase = |phase: ApprovalPhase| facts.iter().filter(move |fact| fact.phase == phase);
    if in_phase(ApprovalPhase::Rejected).next().is_some() {
        judgement.fault(Reason::ApprovalRejected, "an approval was rejected");
    }
    if in_phase(ApprovalPhase::Expired).next().is_some() {
        judgement.fault(Reason::ApprovalExpired, "nobody answered in time");
    }
    for waiting in in_phase(ApprovalPhase::Pending) {
        let reason = match waiting.action {
            ActionType::WriteBack(
                WriteBackTarget::ReleaseNote | WriteBackTarget::DeploymentApproval,
            ) => Reason::WaitingForReleaseApproval,
            ActionType::WriteBack(
                WriteBackTarget::OpenIssue
                | WriteBackTarget::IssueComment
                | WriteBackTarget::PullRequestComment
                | WriteBackTarget::PullRequestReview
                | WriteBackTarget::BranchPush
                | WriteBackTarget::CreateBranch
                | WriteBackTarget::WorkReference
                | WriteBackTarget::OpenPullRequest
                | WriteBackTarget::CheckStatus
                | WriteBackTarget::CheckRerun
                | WriteBackTarget::WorkflowRerun,
            ) => Reason::WaitingForWriteBackApproval,
            // A role with additional rights is approved together with the secrets of a launch.
            ActionType::SecretAccess | ActionType::Escalation => Reason::WaitingForSecretApproval,
            ActionType::NetworkExpanded => Reason::WaitingForNetworkApproval,
            ActionType::ToolCall => Reason::WaitingForToolApproval,
        };
        judgement.fault(reason, "a person has not answered yet");
    }
    match facts.is_empty() {
        true => judgement.end(Reason::NoApprovalRequired, "no approval is needed"),
        false => judgement.end(Reason::ApprovalsGranted, "all approvals are granted"),
    }
}

fn artifacts(facts: &ArtifactFacts) -> Finding {
    let kind = ConditionType::ArtifactsIndexed;
    match facts {
        ArtifactFacts::Pending => {
            Finding::unknown(kind, Reason::ArtifactsPending, "nothing is made yet")
        }
        ArtifactFacts::Recorded(count) => {
            Finding::holds(kind, Reason::ArtifactsRecorded, format!("{count} kept"))
        }
        ArtifactFacts::PatchMissing(why) => Finding::fails(kind, Reason::PatchMissing, why),
        ArtifactFacts::ReviewInvalid(why) => {
            Finding::fails(kind, Reason::ReviewArtifactInvalid, why)
        }
        ArtifactFacts::UploadFailed(why) => Finding::fails(kind, Reason::UploadFailed, why),
    }
}
