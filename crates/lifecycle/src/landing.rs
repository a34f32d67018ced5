//! Landing: only a tree that was verified on the current base lands.

use bailiwick_model::{AgentId, CommitId, Run, TreeId};
use thiserror::Error;

use crate::ports::{LandError, Landed, Landing, Method, Work};
use crate::verification::Verification;

/// The number of attempts when the base keeps moving.
const ATTEMPTS: usize = 5;

/// The requested landing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandingRequest {
    /// Whose work.
    pub agent: AgentId,
    /// A branch to create instead of advancing the base, by its full name.
    pub branch: Option<String>,
    /// How.
    pub method: Method,
    /// The message, with its trailers.
    pub message: String,
}

/// Work that has landed, with the verification behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandResult {
    /// The verification.
    pub verification: Verification,
    /// The branch that moved.
    pub branch: String,
    /// The base on which it was verified.
    pub onto: CommitId,
    /// The tree that was verified there.
    pub tree: TreeId,
    pub landed: Landed,
}

/// Progress of a landing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LandEvent<'a> {
    /// The landing is about to be tried. It is recorded, so that it can be added to the ledger if we are killed
    /// before.
    Landing(&'a Landing),
    /// The base moved, and the new merge is verified.
    Moved {
        /// The branch.
        branch: &'a str,
        /// The current commit.
        now: &'a str,
    },
}

/// Why work did not land; `E` is the error of the observer that stopped it.
#[derive(Debug, Error)]
pub enum NotLanded<E> {
    /// The verification failed.
    #[error("the work was verified and does not hold")]
    Failed(Box<Verification>),
    /// The branch could not be advanced.
    #[error(transparent)]
    Refused(#[from] LandError),
    /// The observer stopped it.
    #[error("{0}")]
    Stopped(E),
    /// The base moved each time that the work was verified on it.
    #[error("{branch} moved {ATTEMPTS} times while the work was verified; try again")]
    KeptMoving {
        /// The branch.
        branch: String,
    },
}

/// Verifies, then lands exactly the tree that was verified; if the base moved meanwhile, verifies the
/// new merge first. `watch` is called before each attempt to land, with the reason if it is repeated.
pub fn land<W: Work, E>(
    request: &LandingRequest,
    work: &W,
    verify: &mut dyn FnMut() -> Verification,
    watch: &mut dyn FnMut(LandEvent<'_>) -> Result<(), E>,
) -> Result<LandResult, NotLanded<E>> {
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let verification = verify();
        let (Some(base), Some(snapshot), Some(tree), true) = (
            &verification.base,
            &verification.work,
            &verification.merged,
            verification.all_passed(),
        ) else {
            return Err(NotLanded::Failed(Box::new(verification)));
        };
        let (branch, expected) = match &request.branch {
            Some(branch) => (branch.clone(), None),
            None => (base.branch.clone(), Some(base.tip.clone())),
        };
        let onto = base.tip.clone();
        // The commit itself records the verified base, so that a missing ledger entry can be restored.
        let landing = Landing {
            agent: request.agent.to_string(),
            branch: branch.clone(),
            expected,
            onto: onto.clone(),
            work: snapshot.clone(),
            tree: tree.clone(),
            method: request.method,
            message: format!("{}Bailiwick-Base: {onto}\n", request.message),
        };
        watch(LandEvent::Landing(&landing)).map_err(NotLanded::Stopped)?;
        match work.land(&landing) {
            Ok(landed) => {
                let tree = landing.tree;
                return Ok(LandResult { verification, branch, onto, tree, landed });
            }
            Err(LandError::Moved { branch, now }) if request.branch.is_none() => {
                watch(LandEvent::Moved { branch: &branch, now: &now })
                    .map_err(NotLanded::Stopped)?;
                last = branch;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(NotLanded::KeptMoving { branch: last })
}

/// The commit message of a landing: a title, and trailers with its origin.
pub fn message(title: &str, run: &Run, policy: Option<&str>) -> String {
    let mut text = format!("{}\n\nBailiwick-Agent: {}\n", title.trim(), run.id);
    if let Some(dna) = &run.dna {
        text += &format!("Bailiwick-DNA: {dna}\n");
    }
    if let Some(policy) = policy {
        text += &format!("Bailiwick-Policy: sha256:{policy}\n");
    }
    text += &format!("Bailiwick-Spec: sha256:{}\n", run.spec_sha);
    text
}
