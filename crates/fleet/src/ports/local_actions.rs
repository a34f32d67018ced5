//! Actions on the agents of this machine: which there are, whether one is possible now, and jobs for long ones.

use bailiwick_resources::Moment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TokenScope;

/// An action on an agent.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum LocalVerb {
    /// Stops the agent; its work is kept.
    Stop,
    /// Sends the agent a message.
    Message,
    /// Continues an agent that has ended.
    Resume,
    /// Checks the work, on its own tree and merged onto the base.
    Verify,
    /// Verifies the work on the base and lands exactly that tree.
    Land,
    /// Rejects the work; it is kept and does not land.
    Reject,
    /// Creates a new agent for the same task.
    Respawn,
    /// Reverts landed work.
    Rollback,
    /// Removes the worktree and private files.
    Remove,
}

impl LocalVerb {
    /// Every action.
    pub const ALL: [Self; 9] = [
        Self::Stop,
        Self::Message,
        Self::Resume,
        Self::Verify,
        Self::Land,
        Self::Reject,
        Self::Respawn,
        Self::Rollback,
        Self::Remove,
    ];

    /// The word in paths.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Message => "message",
            Self::Resume => "resume",
            Self::Verify => "verify",
            Self::Land => "land",
            Self::Reject => "reject",
            Self::Respawn => "respawn",
            Self::Rollback => "rollback",
            Self::Remove => "remove",
        }
    }

    /// The scope that a token needs for it.
    pub const fn scope(self) -> TokenScope {
        match self {
            Self::Stop
            | Self::Message
            | Self::Resume
            | Self::Verify
            | Self::Land
            | Self::Reject
            | Self::Respawn
            | Self::Rollback
            | Self::Remove => TokenScope::Operator,
        }
    }

    /// Whether it runs checks, which can take longer than a request: then it is a job.
    pub const fn is_job(self) -> bool {
        match self {
            Self::Verify | Self::Land | Self::Rollback => true,
            Self::Stop
            | Self::Message
            | Self::Resume
            | Self::Reject
            | Self::Respawn
            | Self::Remove => false,
        }
    }
}

/// An action, and whether the state of the agent permits it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalAction {
    /// The action.
    pub action: LocalVerb,
    /// Why it is not possible now; none if it is possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impossible: Option<String>,
    /// Whether a person must write something with it.
    #[serde(default)]
    pub needs_text: bool,
}

/// The words of a person with an action.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LocalVerbRequest {
    /// The message, or the reason of the action. Only messages are required.
    #[serde(default)]
    pub text: String,
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LocalJobState {
    /// It works.
    Running,
    /// The action was performed.
    Succeeded,
    /// The action was not performed; the message says why.
    Failed,
}

/// An action that takes long. The server that started it knows it until it restarts; what came of it is in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalJob {
    /// The ID.
    pub id: String,
    /// The ID of the agent.
    pub run: String,
    /// The action.
    pub action: LocalVerb,
    /// The person who started it.
    pub actor: String,
    /// The state.
    pub state: LocalJobState,
    /// The steps so far, the oldest first; only the newest ones of very many.
    pub progress: Vec<String>,
    /// What was done, or why not; empty while it works.
    pub message: String,
    /// When it started.
    pub started_at: Moment,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Moment>,
}

/// Jobs of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalJobs {
    /// The jobs, the newest first.
    pub items: Vec<LocalJob>,
}
