//! Planning a rollback: the tree of the base without one landing.

use bailiwick_lifecycle::ports::{Merge, WorkError};
use bailiwick_model::CommitId;

use super::merge::{self, Sides};
use super::{GitWork, landing_commits, work_error};

/// The result of a rollback. Land its tree by `Method::Squash` on the tip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackPlan {
    /// The commit of the base before the landing.
    pub before: CommitId,
    /// The tree of the base without the landing, or its conflicts with later commits.
    pub merge: Merge,
}

impl GitWork {
    /// Plans to remove a landing from `tip`. `before` is the commit of the base before it, if the landing
    /// made several commits; otherwise it is the first parent of `landed`.
    pub fn plan_rollback(
        &self,
        landed: &CommitId,
        before: Option<&CommitId>,
        tip: &CommitId,
    ) -> Result<RollbackPlan, WorkError> {
        let what = || format!("{landed} cannot be rolled back");
        let git = self.object_git(landed)?;
        let refuse = |why: String| WorkError { what: what(), why, caused_by_agent: false };
        let is_within = |old: &str, new: &str| {
            git.succeeds(["merge-base", "--is-ancestor", old, new]).map_err(work_error(what()))
        };
        if !is_within(landed, tip)? {
            return Err(refuse(format!("{tip} does not contain it")));
        }
        let before = match before {
            Some(before) if is_within(before, landed)? => before.clone(),
            Some(before) => return Err(refuse(format!("it is not a descendant of {before}"))),
            None => git
                .line(["rev-parse", "--verify", &format!("{landed}^1")])
                .map(CommitId::new)
                .map_err(work_error(what()))?,
        };
        let attributes = landing_commits::tree_of(&git, tip)?;
        let sides =
            Sides { base: Some(landed), ours: tip, theirs: &before, attributes: &attributes };
        let merge = merge::merge(&git, &self.state, &sides).map_err(work_error(what()))?;
        Ok(RollbackPlan { before, merge })
    }
}
