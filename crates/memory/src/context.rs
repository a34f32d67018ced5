//! What an agent is given at its start: little, because old state is on the forge and can be fetched.

use thiserror::Error;

const MAX_COMMENTS: usize = 3;
const MAX_FILES: usize = 3;
const MAX_SKILLS: usize = 1;
const MAX_RULES: usize = 1;
/// The part of the context window that may be filled before the work begins, in percent.
const MAX_PERCENT: u64 = 30;

/// The sizes of what would be loaded, in tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextParts {
    pub checkpoint: u64,
    pub comments: Vec<u64>,
    pub files: Vec<u64>,
    pub skills: Vec<u64>,
    pub rules: Vec<u64>,
}

/// Why a context is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ContextRefusal {
    #[error("{count} {what} are more than the {max} that an agent gets")]
    TooMany { what: &'static str, count: usize, max: usize },
    #[error(
        "the context is thought to take {estimate} tokens; less than {MAX_PERCENT} % of {window} are allowed"
    )]
    TooLarge { estimate: u64, window: u64 },
}

/// The tokens that the context is thought to take, if it may be loaded.
pub fn check_context(parts: &ContextParts, window: u64) -> Result<u64, ContextRefusal> {
    let counted = [
        ("comments", &parts.comments, MAX_COMMENTS),
        ("files", &parts.files, MAX_FILES),
        ("skills", &parts.skills, MAX_SKILLS),
        ("rules", &parts.rules, MAX_RULES),
    ];
    let mut estimate = parts.checkpoint;
    for (what, sizes, max) in counted {
        if sizes.len() > max {
            return Err(ContextRefusal::TooMany { what, count: sizes.len(), max });
        }
        estimate = sizes.iter().fold(estimate, |sum, size| sum.saturating_add(*size));
    }
    let fits = estimate.saturating_mul(100) < window.saturating_mul(MAX_PERCENT);
    if fits { Ok(estimate) } else { Err(ContextRefusal::TooLarge { estimate, window }) }
}
