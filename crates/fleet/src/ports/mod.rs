//! The ports of the control plane: a store of resources, forges, an engine; and the operations of its API.

mod api;
mod engine;
mod forge;
mod local_actions;
mod local_board;
mod local_parts;
mod local_runs;
mod memory;
mod store;
mod views;
mod workspaces;
mod world;

pub use api::*;
pub use engine::{
    AttemptLaunch, AttemptOwner, ChildState, Engine, EngineError, EngineEvent, FinishedWork,
    IssueBinding, LaunchPlace, LaunchWorkspace, Launched, LaunchedChild, LaunchedState, ModelKey,
    Rebased, WorkStorage, WorkerPlace,
};
pub use forge::{
    AccountProblem, CheckRun, CheckState, CommitPlace, Forge, ForgeError, LabelEntry, PolledEvent,
    PullRequestState, Review, Rights, WriteBack, Written,
};
pub use local_actions::{
    LocalAction, LocalJob, LocalJobState, LocalJobs, LocalVerb, LocalVerbRequest,
};
pub use local_board::{LocalClaim, LocalClaims, LocalRunCounts, LocalRunStage, MeasuredRun};
pub use local_parts::{
    LocalAgentCost, LocalArtifact, LocalArtifacts, LocalContextLayer, LocalCostPoint,
    LocalExplanation, LocalLineage, LocalRelation, LocalRelative, LocalRule, LocalRunContext,
    LocalRunCost, LocalRunPolicy, LocalVerdict,
};
pub use local_runs::{
    LocalAnswer, LocalAnswerRequest, LocalAskingRule, LocalAttempt, LocalCheck, LocalEventFilter,
    LocalEventQuery, LocalFileChange, LocalOutcome, LocalQuestion, LocalQuestions, LocalRun,
    LocalRunBudget, LocalRunDetail, LocalRunDiff, LocalRunError, LocalRunEvents, LocalRunGroup,
    LocalRunList, LocalRunQuery, LocalRunUsage, LocalRuns, LocalToolCall, LocalVerification,
    LocalVerifications,
};
pub use memory::MemoryFleet;
pub use store::{
    Applied, AuditEntry, Change, ChangeKind, FleetError, FleetStore, IncomingDelivery,
    MalformedRequirement, Page, PersonRecord, Received, Requirement, SESSION_ID_PREFIX,
    SavedFilter, Selection, TokenRecord, TokenScope, Values, Write, indexed_fields, named_digests,
};
pub use views::{
    AgentEvents, AgentPresence, Background, Clock, Commits, Forges, ObjectStore, SecretStore,
    StackSources, Worktrees,
};
pub use workspaces::{
    RunWorktree, WorkspaceError, WorkspaceOperation, WorkspacePlace, WorkspaceReport,
    WorktreeOrigin,
};
pub use world::{BackgroundWork, FetchError, FetchedCommit, World, WorldError};
