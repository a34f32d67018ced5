//! The fleet: resources of the control plane, declared, listed, watched and deleted.

pub mod access;
pub mod acting;
pub mod api_resources;
pub mod apply;
pub mod audit;
pub mod columns;
pub mod contexts;
pub mod delete;
pub mod describe;
pub mod difference;
mod document_places;
pub mod documents;
pub mod edit;
pub mod explain;
pub mod get;
pub mod json_path;
mod log_format;
pub mod login;
pub mod named;
pub mod runs;
pub mod secrets;
pub mod serve;
mod serve_issues;
mod serve_leader;
mod serve_sign_in;
mod serve_traces;
pub mod tokens;
pub mod trigger;
pub mod wait;
pub mod worker;
pub mod workers;
pub mod workspaces;

use bailiwick_engine::system;
use bailiwick_fleet::ports::FleetError;
use bailiwick_fleet::resources::DeclareError;
use bailiwick_resources::Moment;
use clap::Args;

use crate::failure::Failure;

/// The option for the namespace.
#[derive(Debug, Clone, Args)]
pub struct Namespace {
    /// The namespace; default: that of the context, else `default`
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
}

impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Self {
        match &error {
            FleetError::NotFound { .. }
            | FleetError::AlreadyExists { .. }
            | FleetError::Conflict { .. }
            | FleetError::InvalidContinuation(_) => Self::usage(error.to_string()),
            FleetError::Gone { .. }
            | FleetError::Undecryptable { .. }
            | FleetError::Unavailable(_) => Self::general(error.to_string()),
        }
    }
}

impl From<DeclareError> for Failure {
    fn from(error: DeclareError) -> Self {
        match error {
            DeclareError::Store(error) => error.into(),
            other @ (DeclareError::Recorded { .. }
            | DeclareError::Secret { .. }
            | DeclareError::Shape(_)
            | DeclareError::Faulty { .. }
            | DeclareError::Twice { .. }) => Self::usage(other.to_string()),
        }
    }
}

/// The user name of this process, as the system reports it. Environment variables are ignored, because anyone can
/// set them.
pub fn actor() -> Result<String, Failure> {
    let uid = nix::unistd::Uid::current();
    let known = nix::unistd::User::from_uid(uid).map_err(|error| {
        Failure::general(format!("the system does not say who has the uid {uid}: {error}"))
    })?;
    Ok(known.map_or_else(|| format!("uid:{uid}"), |user| user.name))
}

/// The current time.
pub fn now() -> Moment {
    Moment::from_millis(system::now_ms())
}

/// How long ago that was, in as few letters as people need.
pub fn ago(then: Moment, now: Moment) -> String {
    let seconds = now.millis().saturating_sub(then.millis()) / 1000;
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
