//! Taking back what has landed: the tree of today's base without it.

use bailiwick_lifecycle::ports::{Merge, WorkError};

use super::merge::{self, Sides};
use super::{GitWork, commits, trouble};

/// What taking a landing back would give. Land its tree by `Method::Squash` on the tip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackPlan {
    /// The commit that the base was at before the landing.
    pub before: String,
    /// The tree of the base without the landing, or where that conflicts with what came after.
    pub merge: Merge,
}

impl GitWork {
    /// The tip without what was landed. `before` is where the base was, if the landing made
    /// several commits; otherwise it is the first parent of the one that it made.
    pub fn plan_rollback(
        &self,
        landed: &str,
        before: Option<&str>,
        tip: &str,
    ) -> Result<RollbackPlan, WorkError> {
        let what = || format!("{landed} cannot be taken back");
        let git = self.objects(landed)?;
        let refuse = |why: String| WorkError { what: what(), why, of_tree: false };
        let is_within = |old: &str, new: &str| {
            git.succeeds(["merge-base", "--is-ancestor", old, new]).map_err(trouble(what()))
        };
        if !is_within(landed, tip)? {
            return Err(refuse(format!("it is not in {tip}")));
        }
        let before = match before {
            Some(before) if is_within(before, landed)? => before.to_owned(),
            Some(before) => return Err(refuse(format!("it does not come after {before}"))),
            None => git
                .line(["rev-parse", "--verify", &format!("{landed}^1")])
                .map_err(trouble(what()))?,
        };
        let attributes = commits::tree_of(&git, tip)?;
        let sides =
            Sides { base: Some(landed), ours: tip, theirs: &before, attributes: &attributes };
        let merge = merge::merge(&git, &self.state, &sides).map_err(trouble(what()))?;
        Ok(RollbackPlan { before, merge })
    }
}
