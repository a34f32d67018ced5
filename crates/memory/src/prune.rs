//! Pruning: a checkpoint that has used most of its budget keeps only the end of its history. The rest goes into a
//! comment, by whose digest it can be found.

use sha2::{Digest as _, Sha256};

use crate::checkpoint::{Checkpoint, MAX_CHAIN, MAX_FILES, MAX_HISTORY, last};

/// The part of the budget after which a checkpoint is pruned, in percent.
const PRUNE_PERCENT: u64 = 80;

/// What was removed from a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    /// The comment.
    pub text: String,
    /// Of the removed part, as hexadecimal SHA-256.
    pub digest: String,
}

/// The pruned checkpoint and the comment that must be posted before it is written; `None` if there is nothing to do.
/// Version, budget, issue and depth never change.
pub fn prune(checkpoint: &Checkpoint) -> Option<(Checkpoint, Archive)> {
    let budget = checkpoint.budget;
    let is_due = budget.consumed.saturating_mul(100) > budget.total.saturating_mul(PRUNE_PERCENT);
    let mut pruned = checkpoint.clone();
    pruned.history_tail = last(pruned.history_tail, MAX_HISTORY);
    pruned.agent_chain = last(pruned.agent_chain, MAX_CHAIN);
    if let Some(task) = &mut pruned.current_task {
        task.files.truncate(MAX_FILES);
    }
    if !is_due || pruned == *checkpoint {
        return None;
    }
    let whole = checkpoint.render().ok()?;
    let digest: String =
        Sha256::digest(whole.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!(
        "## GNS-2 Checkpoint Archive\n\nThe checkpoint before it was pruned, SHA-256 {digest}:\n\n```yaml\n{}\n```\n",
        whole.trim_end()
    );
    Some((pruned, Archive { text, digest }))
}
