//! Write-backs: planned purely, approved, and sent once.
//!
//! ```text
//! plan ──▶ Denied                          policy: stack ∩ rule, secrets
//!      ├─▶ Write(Authorised)               policy says at once
//!      └─▶ Ask(AgentApproval)              a person decides, once: decide
//!                 └─▶ authorise ──▶ Authorised ──▶ send ──▶ Next
//! ```
//!
//! There is no other way to get an [`Authorised`], and [`send`] accepts nothing else. An approval is bound to the
//! digest of the exact value that is sent, and to the state of its target.

pub(crate) mod agent_answer;
mod decide;
mod obstacle;
mod plan;
mod policy;
pub(crate) mod proposals;
mod report;
mod secrets;
mod target;

pub use agent_answer::{
    AgentAnswer, RequestedDeployment, RequestedRelease, RequestedRerun, RequestedReview,
    report_kind,
};
pub use decide::{Actor, ActorKind, Answer, Decision, NotAuthorised, NotDecided};
pub use decide::{authorise, decide, expire};
pub use obstacle::{Obstacle, TargetFacts};
pub use plan::{Plan, Proposal, plan};
pub use policy::{Denial, DenialRule, Permission, Policies, may_keep_work, permit};
pub use proposals::{Dependency, Finished, ProposedWrite, calling_nobody, wanted};
pub use report::{Report, check_status};
pub use target::{ABSENT, Target, approved_key, digest, key, target};

use crate::ports::{Forge, ForgeError, WriteBack, Written};

/// A write that policy or a person has allowed, with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorised {
    key: String,
    write: WriteBack,
}

impl Authorised {
    /// The key by which it is written once.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The write.
    pub fn write(&self) -> &WriteBack {
        &self.write
    }
}

/// Sends what was allowed; nothing else writes to a forge.
pub async fn send(forge: &impl Forge, allowed: &Authorised) -> Result<Written, ForgeError> {
    forge.write(&allowed.key, &allowed.write).await
}

/// The next step after a write was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// It is there.
    Done(Written),
    /// Unknown result: retry with the same key.
    TryAgain {
        /// The error.
        why: String,
    },
    /// The target has moved: rebase, then request a new approval.
    RebaseFirst {
        /// The change of the target.
        why: String,
    },
    /// It will not be written.
    Failed {
        /// The forge's message.
        why: String,
    },
}

/// The next step for a response of the forge.
pub fn next(answered: Result<Written, ForgeError>) -> Next {
    match answered {
        Ok(written) => Next::Done(written),
        Err(error @ (ForgeError::Unavailable(_) | ForgeError::Account(_))) => {
            Next::TryAgain { why: error.to_string() }
        }
        Err(error @ ForgeError::Moved { .. }) => Next::RebaseFirst { why: error.to_string() },
        Err(error @ (ForgeError::Refused(_) | ForgeError::Unsupported(_))) => {
            Next::Failed { why: error.to_string() }
        }
    }
}
