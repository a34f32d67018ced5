//! The control plane over HTTP: API, webhooks, events, metrics.
//!
//! It knows HTTP and nothing of SQL, git or agents: those come in by the ports of `control`.
//!
//! ```text
//!  request ─▶ serve ─▶ app: host, rate, token, scope, body ─▶ handlers ─┬─▶ objects ──▶ FleetStore
//!             (caps,        │                                          ├─▶ actions ──▶ Fleet
//!              time-outs)   └─▶ telemetry                              ├─▶ webhooks ─▶ both
//!                                                                      └─▶ changes: one reader, many watchers
//! ```
//!
//! The routes stand in one table, `routes`; the router and the description of the API come from it.

mod access;
mod actions;
mod app;
mod asked;
mod bodies;
mod changes;
mod handlers;
mod objects;
mod openapi;
mod paced;
mod problem;
mod pulse;
mod routes;
mod serve;
mod settings;
mod stop;
mod telemetry;
mod tokens;
mod unwired;
mod webhooks;

pub use access::{Minted, TOKEN_PREFIX, TokenError, mint};
pub use objects::{
    AppliedItem, ApplyAnswer, ApplyRequest, AuditLine, AuditList, ListMetadata, ObjectList,
    SecretValues,
};
pub use openapi::{openapi, schemas};
pub use problem::{ErrorBody, ErrorDetail};
pub use pulse::Pulse;
pub use serve::{ServeError, Server};
pub use settings::{Limits, Rate, Reach, Settings};
pub use tokens::{TokenAnswer, TokenList, TokenRequest, TokenView};
pub use unwired::Unwired;
pub use webhooks::DeliveryAnswer;
