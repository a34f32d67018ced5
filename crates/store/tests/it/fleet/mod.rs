//! The resource store: compared with the in-memory model, in many processes, and with killed writers.

mod blobs;
mod conformance;
mod intake;
mod kills;
mod objects;
mod processes;
mod reindex;
mod secret_files;
mod secrets;
mod sequences;
mod storage_faults;
mod worker;
