//! What the control plane needs of the world: a store of resources, forges, and an engine.

mod engine;
mod forge;
mod memory;
mod store;

pub use engine::{Engine, EngineError, EngineEvent, FinishedWork, Launch, Launched, LaunchedState};
pub use forge::{
    CheckRun, CheckState, Forge, ForgeError, PullRequestState, Review, WriteBack, Written,
};
pub use memory::MemoryFleet;
pub use store::{
    Applied, AuditEntry, Change, ChangeKind, FleetError, FleetStore, IncomingDelivery, Page,
    Received, Selection, TokenRecord, TokenScope, Write, indexed_fields,
};
