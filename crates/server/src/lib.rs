//! The HTTP server of the control plane: API, webhooks, event streams, metrics.
//!
//! This crate has no SQL, git or agents: it uses the ports of `fleet`.
//!
//! ```text
//!  request ─▶ serve ─▶ app: host, rate, token, scope, body ─▶ handlers ─┬─▶ objects ──▶ FleetStore
//!             (limits,      │                                          ├─▶ actions ──▶ Fleet
//!              timeouts)    └─▶ telemetry                              ├─▶ webhooks ─▶ both
//!                                                                      └─▶ changes: one reader, many watchers
//! ```
//!
//! `routes` has the table of all routes; the router and the OpenAPI description come from it.

#![expect(missing_docs, reason = "not published: names say what an item is, comments say why")]

mod access;
mod actions;
mod app;
mod bodies;
mod changes;
mod control_loop;
mod handlers;
mod no_control_plane;
mod objects;
mod openapi;
mod problem;
mod request;
mod routes;
mod serve;
mod settings;
mod shutdown;
mod telemetry;
mod tokens;
mod webhooks;
mod write_timeout;

pub use access::{MintedToken, TOKEN_PREFIX, TokenError, mint};
pub use control_loop::ControlLoopMonitor;
pub use no_control_plane::NoControlPlane;
pub use objects::{
    AppliedItem, ApplyAnswer, ApplyRequest, AuditLine, AuditList, ListMetadata, ObjectList,
    SecretValues,
};
pub use openapi::{openapi, schemas};
pub use problem::{ErrorBody, ErrorDetail};
pub use serve::{ServeError, Server};
pub use settings::{Exposure, Limits, Rate, Settings};
pub use tokens::{TokenAnswer, TokenList, TokenRequest, TokenView};
pub use webhooks::DeliveryAnswer;
