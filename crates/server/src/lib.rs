//! The HTTP server of the control plane: API, webhooks, event streams, metrics.
//!
//! This crate has no SQL, git or agents: it uses the ports of `fleet`.
//!
//! ```text
//!  request ─▶ serve ─▶ router: host, rate, token, scope, body ─▶ handlers ─┬─▶ objects ──▶ FleetStore
//!             (limits,      │                                             ├─▶ actions ──▶ Fleet
//!              timeouts)    └─▶ telemetry                                 ├─▶ webhooks ─▶ both
//!                                                                         ├─▶ local_runs ─▶ LocalRuns
//!                                                                         ├─▶ workers ──▶ WorkerApi
//!                                                                         └─▶ changes ──▶ hub
//! ```
//!
//! `routes` has the table of all routes; the router and the OpenAPI description come from it. `app` is the state that
//! handlers share. Modules are imported in one direction.

mod access;
mod actions;
mod answers;
mod app;
mod blocking;
mod bodies;
mod browsers;
mod changes;
mod client_user;
mod connections;
mod control_loop;
mod frame;
mod handlers;
mod hub;
mod ids;
mod job_list;
mod local_jobs;
mod local_parts;
mod local_runs;
mod network;
mod no_control_plane;
mod numbers;
mod objects;
mod openapi;
mod openid;
mod pages;
mod problem;
mod request;
mod router;
mod routes;
mod run_list;
mod saved_filters;
mod serve;
mod settings;
mod shutdown;
mod sign_in;
mod sign_in_settings;
mod stage_counts;
mod stream_slots;
mod telemetry;
mod tokens;
mod webhook_targets;
mod webhooks;
mod workers;
mod write_check;
mod write_timeout;

pub use access::{MintedToken, TOKEN_PREFIX, TokenError, mint, mint_session};
pub use answers::{RecentAnswer, RecentAnswers};
pub use browsers::{
    CookieRules, SameSite, cookie, cookie_name, is_loopback, is_same_origin, set_cookie,
};
pub use client_user::{client_user, knows_client_users};
pub use control_loop::{ControlLoopMonitor, ServerRole};
pub use network::{InvalidNetwork, Network};
pub use no_control_plane::NoControlPlane;
pub use numbers::{DayCount, NamedCost, NamedCount, Numbers, PhaseTime, QueueWait};
pub use objects::{
    AppliedItem, ApplyAnswer, ApplyRequest, AuditLine, AuditList, DiffAnswer, ListMetadata,
    ObjectList, SecretValues,
};
pub use openapi::{openapi, schemas};
pub use pages::{Api, ApiError, PAGES, Pages, Session, SignInError, StreamPermit};
pub use problem::{ErrorBody, ErrorDetail};
pub use run_list::{FLEET_FILTERS, FleetRun, ListedRun, RunList};
pub use saved_filters::{SaveFilterRequest, SavedFilters};
pub use serve::{ServeError, Server};
pub use settings::{Exposure, Limits, Rate, Settings};
pub use sign_in::{
    DeviceAnswer, DeviceSignInError, DeviceTokenRequest, IdTokenRequest, sign_in_by_device,
};
pub use sign_in_settings::{SignInSettings, SignInSettingsError};
pub use stage_counts::{StageCount, StageCounts};
pub use stream_slots::StreamRefusal;
pub use tokens::{TokenAnswer, TokenList, TokenRequest, TokenView, WhoAmI};
pub use webhooks::DeliveryAnswer;
pub use workers::{FinishRequest, ReportRequest, RepositoryRequest};
