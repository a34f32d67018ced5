//! A client of the control plane, with one interface for both ways to it.
//!
//! ```text
//!  a command ─▶ FleetClient ─┬─▶ Local: FleetStore and Fleet, in this process
//!                             └─▶ Http: the API of a server, with the token of a login
//! ```
//!
//! Requests and responses are the types of the API, so that a command is written once and prints the same in both
//! cases. [`ContextsFile`] has the logins.

mod contexts;
mod error;
mod fleet_client;
mod http;
mod local;
mod server_address;
mod sign_in;
mod trace_collector;
mod workers;

pub use contexts::{
    ContextName, Contexts, ContextsError, ContextsFile, LOCAL, ServerContext, Token,
};
pub use error::ClientError;
pub use fleet_client::{Answer, ApplyMode, ChangeStream, FleetClient, RunEventStream};
pub use http::Http;
pub use local::Local;
pub use server_address::{AddressError, PlainHttp, ServerAddress};
pub use sign_in::sign_in;
pub use trace_collector::{CollectorError, TraceCollector, TraceError};
pub use workers::HttpWorkerApi;
