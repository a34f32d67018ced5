//! What the control plane needs of the world: a store of resources, forges, an engine; and what its API
//! asks of it.

mod api;
mod engine;
mod forge;
mod memory;
mod store;
mod views;
mod workspaces;
mod world;

pub use api::*;
pub use engine::{
    AttemptOwner, ChildState, Engine, EngineError, EngineEvent, FinishedWork, Launch, Launched,
    LaunchedChild, LaunchedState, ModelKey,
};
pub use forge::{
    CheckRun, CheckState, Forge, ForgeError, PullRequestState, Review, Rights, WriteBack, Written,
};
pub use memory::MemoryFleet;
pub use store::{
    Applied, AuditEntry, Change, ChangeKind, FleetError, FleetStore, IncomingDelivery, Page,
    Received, Selection, TokenRecord, TokenScope, Values, Write, indexed_fields, named_digests,
};
pub use views::{
    AgentEvents, AgentPresence, Clock, Commits, Forges, ObjectStore, SecretStore, StackSources,
    Worktrees,
};
pub use workspaces::{WorkspaceError, WorkspaceOperation, WorkspacePlace, WorkspaceReport};
pub use world::{FetchError, FetchedCommit, World};
