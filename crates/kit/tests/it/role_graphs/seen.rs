//! Counts outcomes: a suite that sees only one of them proves little.

use super::model::{Failure, Graph, MAX_EXTENDS, Resolved, today};

/// The number of times that each outcome was seen.
#[derive(Debug, Default)]
pub(super) struct OutcomeCounts {
    flat: u64,
    relaxed: u64,
    with_warning: u64,
    with_old_name: u64,
    sixteen_follows: u64,
    cycles: u64,
    cycles_beyond_the_start: u64,
    /// Closed by the step that would have been one too many.
    cycles_at_the_limit: u64,
    too_deep: u64,
    missing: u64,
}

impl OutcomeCounts {
    pub(super) fn count(
        &mut self,
        graph: &Graph,
        start: usize,
        outcome: &Result<Resolved, Failure>,
    ) {
        match outcome {
            Ok(resolved) => {
                self.flat += 1;
                self.sixteen_follows += u64::from(resolved.chain.len() == MAX_EXTENDS + 1);
                self.with_warning += u64::from(!resolved.not_inherited.is_empty());
                self.with_old_name += u64::from(!resolved.old_names.is_empty());
                let relaxes = |role: &usize| {
                    graph[*role]
                        .relaxes
                        .iter()
                        .any(|relaxed| !resolved.not_inherited.contains(&(*role, today(*relaxed))))
                };
                self.relaxed += u64::from(resolved.chain.iter().any(relaxes));
            }
            Err(Failure::Cycle(offender)) => {
                self.cycles += 1;
                self.cycles_beyond_the_start += u64::from(*offender != start);
                let roles = roles_before_the_loop(graph, start);
                self.cycles_at_the_limit += u64::from(roles == MAX_EXTENDS + 1);
            }
            Err(Failure::TooDeep) => self.too_deep += 1,
            Err(Failure::Missing(_)) => self.missing += 1,
        }
    }

    /// Fails unless every outcome was seen at least `least` times.
    pub(super) fn assert_varied(&self, least: u64) {
        let Self {
            flat,
            relaxed,
            with_warning,
            with_old_name,
            sixteen_follows,
            cycles,
            cycles_beyond_the_start,
            cycles_at_the_limit,
            too_deep,
            missing,
        } = *self;
        let counts = [
            flat,
            relaxed,
            with_warning,
            with_old_name,
            sixteen_follows,
            cycles,
            cycles_beyond_the_start,
            cycles_at_the_limit,
            too_deep,
            missing,
        ];
        assert!(counts.iter().all(|count| *count >= least), "too few of a kind: {self:?}");
    }
}

/// The number of roles from `start` to the first repeated one.
fn roles_before_the_loop(graph: &Graph, start: usize) -> usize {
    let mut visited = Vec::new();
    let mut at = Some(start);
    while let Some(role) = at.filter(|role| !visited.contains(role)) {
        visited.push(role);
        at = graph.get(role).and_then(|written| written.extends);
    }
    visited.len()
}
