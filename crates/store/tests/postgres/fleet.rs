//! The resources of the control plane.

#[path = "../it/fleet/blobs.rs"]
mod blobs;
#[path = "../it/fleet/conformance.rs"]
mod conformance;
#[path = "../it/fleet/intake.rs"]
mod intake;
#[path = "../it/fleet/kills.rs"]
mod kills;
#[path = "../it/fleet/objects.rs"]
mod objects;
#[path = "../it/fleet/processes.rs"]
mod processes;
#[path = "../it/fleet/reindex.rs"]
mod reindex;
#[path = "../it/fleet/secrets.rs"]
pub(crate) mod secrets;
#[path = "../it/fleet/sequences.rs"]
pub(crate) mod sequences;
#[path = "../it/fleet/worker.rs"]
pub(crate) mod worker;
