//! Why a controller could not finish its work on an object. What was left is tried again.

use bailiwick_resources::{Kind, ObjectError};
use thiserror::Error;

use crate::admission::inventory::InventoryError;
use crate::admission::snapshot::NoStack;
use crate::ports::{EngineError, FetchError, FleetError, ForgeError, WorkspaceError, WorldError};
use crate::triggers::schedule::ScheduleError;

/// Why a controller could not finish its work on an object.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReconcileError {
    #[error(transparent)]
    Store(#[from] FleetError),
    /// A stored object is not what its kind requires.
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Forge(#[from] ForgeError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A kind could not be listed or read.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// A stack could not be resolved.
    #[error(transparent)]
    Snapshot(#[from] NoStack),
    /// An operation on a workspace.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A commit that is missing or cannot be fetched. A forge that does not answer is `Forge`.
    #[error(transparent)]
    Fetch(FetchError),
    /// Git or the file system of this machine.
    #[error(transparent)]
    World(#[from] WorldError),
    /// No `Repository` has this full name.
    #[error("there is no repository `{0}`")]
    RepositoryMissing(String),
    /// The credential of a repository.
    #[error("the credential `{secret}/{key}` {problem}")]
    Credential { secret: String, key: String, problem: CredentialProblem },
    /// The stored launch of an attempt.
    #[error("{attempt}: {problem}")]
    LaunchRecord { attempt: String, problem: LaunchRecordProblem },
    /// An attempt may not be launched.
    #[error(transparent)]
    Launch(#[from] LaunchRefusal),
    /// The stored content of a write-back.
    #[error(transparent)]
    StoredWrite(#[from] StoredWriteError),
    /// The schedule of a rule.
    #[error("its schedule: {0}")]
    Schedule(#[from] ScheduleError),
    /// Facts about a stack that are not available yet.
    #[error("{0}")]
    NotObserved(String),
    /// Something could not be serialized.
    #[error("{what} cannot be written: {error}")]
    Encode {
        what: &'static str,
        /// Why.
        error: String,
    },
    /// The conditions that were computed are not those of the kind.
    #[error("{0} has other conditions than it must have")]
    ConditionsMismatch(Kind),
    /// The status of an object is not a map.
    #[error("{0} has no status")]
    NoStatus(Kind),
}

impl ReconcileError {
    /// Whether the store did not answer: then no controller can continue.
    pub(super) fn is_store_unavailable(&self) -> bool {
        matches!(self, Self::Store(FleetError::Unavailable(_)))
    }

    /// Whether the forge did not answer, or a person must fix the access to it or this machine first: then the same
    /// can succeed later.
    pub(super) fn is_waited_for(&self) -> bool {
        let is_credential = matches!(self, Self::Credential { .. });
        let is_forge = matches!(self, Self::Forge(error) if error.is_temporary());
        is_credential || is_forge || self.is_local()
    }

    /// Whether this machine cannot answer until a person has fixed it.
    fn is_local(&self) -> bool {
        matches!(self, Self::World(error) if error.is_temporary())
    }

    /// Whether a launch that failed with this is tried again later; otherwise the attempt has failed.
    pub(super) fn is_launch_retried(&self) -> bool {
        let is_store = matches!(self, Self::Store(_)) && !self.is_secret_unreadable();
        let is_list = matches!(self, Self::Inventory(InventoryError::Unlistable { .. }));
        is_store || is_list || self.is_local() || matches!(self, Self::Forge(_))
    }

    /// Whether a single secret value cannot be decrypted while the store itself works.
    pub(super) fn is_secret_unreadable(&self) -> bool {
        matches!(self, Self::Store(FleetError::Undecryptable { .. }))
    }

    /// Whether the object is retried immediately rather than after a backoff.
    pub(super) fn is_retried_at_once(&self) -> bool {
        matches!(self, Self::Store(FleetError::Unavailable(_) | FleetError::Conflict { .. }))
    }

    pub(super) fn encode(what: &'static str) -> impl FnOnce(serde_json::Error) -> Self {
        move |error| Self::Encode { what, error: error.to_string() }
    }
}

/// The problem with a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CredentialProblem {
    /// It is not set.
    #[error("is not there")]
    Missing,
    /// It cannot be decrypted. The store's own words may name files and are left out.
    #[error("cannot be opened; set it again")]
    Sealed,
}

/// The problem with the stored launch of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LaunchRecordProblem {
    /// The attempt does not name it.
    #[error("nothing says what it is launched with")]
    Unnamed,
    /// Its bytes are gone.
    #[error("what it is launched with is not kept any more")]
    Gone,
    /// Its bytes are not those that were admitted.
    #[error("what it is launched with is not what was admitted")]
    Altered,
    /// Its bytes are no launch.
    #[error("what it is launched with cannot be read: {0}")]
    Unreadable(String),
}

/// Why an attempt may not be launched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LaunchRefusal {
    /// Today's permissions do not cover what was admitted.
    #[error("PermissionsChanged: {0}")]
    PermissionsChanged(String),
    /// Untrusted work has no trusted kit.
    #[error("TrustedKitMissing: nothing trusted binds it; ask for a new run")]
    TrustedKitMissing,
    /// Earlier attempts have spent the budget.
    #[error("BudgetExhausted: earlier attempts have left nothing of its {0}")]
    BudgetExhausted(&'static str),
    /// The task that was admitted cannot be read.
    #[error("its task cannot be read: {0}")]
    TaskUnreadable(String),
    /// Its pool was deleted after the admission.
    #[error(
        "the pool `{0}` is gone, so nothing says on which machines it may run; create it and retry the run"
    )]
    PoolGone(String),
    /// A secret that was admitted is gone.
    #[error("the secret {0}/{1} is gone")]
    SecretGone(String, String),
    /// A config map that was admitted is gone.
    #[error("the config map {0}/{1} is gone")]
    ConfigGone(String, String),
    /// A value of an MCP server.
    #[error("`{value}` of the MCP server `{server}`: {problem}")]
    ServerValue {
        server: String,
        /// The variable or header.
        value: String,
        problem: ServerValueProblem,
    },
}

/// The problem with a value for an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ServerValueProblem {
    /// No grant covers the secret.
    #[error("no grant lets the secret be mounted")]
    SecretNotGranted,
    /// No grant covers the config map.
    #[error("no grant lets the config map be read")]
    ConfigNotGranted,
    #[error("it is gone")]
    Gone,
}

/// The problem with the stored content of a write-back.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoredWriteError {
    /// It is gone, or is not what was proposed.
    #[error("what was to be written is gone")]
    Gone,
    /// It cannot be read.
    #[error("a write-back cannot be read: {0}")]
    Unreadable(String),
}
