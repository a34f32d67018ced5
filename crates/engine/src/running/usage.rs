//! What attempts have used.

use bailiwick_model::attempt::{Attempt, Used};
use bailiwick_runner::supervisor::Progress;

/// What attempts have used together.
pub(super) fn total(attempts: &[Attempt]) -> Used {
    attempts.iter().fold(Used::default(), |sum, attempt| Used {
        tokens: sum.tokens.saturating_add(attempt.used.tokens),
        micro_usd: sum.micro_usd.saturating_add(attempt.used.micro_usd),
        turns: sum.turns.saturating_add(attempt.used.turns),
        tool_calls: sum.tool_calls.saturating_add(attempt.used.tool_calls),
        denied: sum.denied.saturating_add(attempt.used.denied),
    })
}

/// How long attempts took together, in milliseconds.
pub(super) fn time(attempts: &[Attempt]) -> u64 {
    let took = |attempt: &Attempt| {
        attempt.ended_at.map_or(0, |ended| ended.saturating_sub(attempt.started_at))
    };
    attempts.iter().map(took).fold(0, u64::saturating_add)
}

/// Progress counts what earlier attempts have used; an attempt only what is its own.
pub(super) fn apply(attempt: &mut Attempt, progress: &Progress, before: &Used) {
    attempt.used = Used {
        tokens: progress.used.tokens.saturating_sub(before.tokens),
        micro_usd: progress.used.micro_usd.saturating_sub(before.micro_usd),
        turns: progress.used.turns.saturating_sub(before.turns),
        tool_calls: progress.used.tool_calls.saturating_sub(before.tool_calls),
        denied: progress.used.denied.saturating_sub(before.denied),
    };
    attempt.budget = progress.budget;
    if progress.session.is_some() {
        attempt.session.clone_from(&progress.session);
    }
    if !progress.model.is_empty() {
        attempt.model.clone_from(&progress.model);
    }
}
