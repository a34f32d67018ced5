//! How deep agents may start agents.

use std::fmt;

/// The message for an agent that may not start another.
pub const REACHED: &str = "Agent depth limit reached. Solve the task yourself.";

/// The depth of an agent below the first one, which is at 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Depth(pub u32);

/// Who sets a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setter {
    /// The role or the template of the agent.
    Template,
    /// The stack, or the settings of the repository.
    Stack,
    /// Its parent.
    Call,
    /// The labels of the issue that its first agent works on.
    Issue,
}

impl fmt::Display for Setter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Template => "the template",
            Self::Stack => "the stack",
            Self::Call => "the call",
            Self::Issue => "the issue",
        })
    }
}

/// Limits on the depth of a line of agents, counted from the first one; none means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Of the role or the template.
    pub template: Option<Depth>,
    /// Of the stack.
    pub stack: Option<Depth>,
    /// Of the call.
    pub call: Option<Depth>,
    /// Of the issue.
    pub issue: Option<Depth>,
}

impl Limits {
    /// The depth limit from the number of levels that a template or an issue permits below an agent at this depth.
    pub fn below(depth: Depth, levels: Option<u32>) -> Option<Depth> {
        levels.map(|levels| Depth(depth.0.saturating_add(levels)))
    }

    /// The smallest, and who set it.
    pub fn smallest(&self) -> Option<(Depth, Setter)> {
        let all = [
            (self.template, Setter::Template),
            (self.stack, Setter::Stack),
            (self.call, Setter::Call),
            (self.issue, Setter::Issue),
        ];
        let set = all.into_iter().filter_map(|(limit, setter)| limit.map(|limit| (limit, setter)));
        set.min_by_key(|(limit, _)| *limit)
    }

    /// Whether an agent of this depth may begin.
    pub fn enter(&self, depth: Depth) -> Result<(), DepthExceeded> {
        match self.smallest() {
            Some((most, setter)) if depth > most => Err(DepthExceeded { depth, most, setter }),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether an agent of this depth may start another; returns the depth of that one.
    pub fn spawn(&self, depth: Depth) -> Result<Depth, DepthExceeded> {
        match depth.0.checked_add(1).map(Depth) {
            Some(child) => self.enter(child).map(|()| child),
            None => Err(DepthExceeded { depth, most: depth, setter: Setter::Stack }),
        }
    }
}

/// The depth limit is exceeded. The agent only gets the text of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{REACHED}")]
pub struct DepthExceeded {
    /// The depth of the new agent.
    pub depth: Depth,
    /// The limit.
    pub most: Depth,
    /// Which limit it is.
    pub setter: Setter,
}

impl DepthExceeded {
    /// The same for people: which limit, and who set it.
    pub fn reason(&self) -> String {
        let Self { depth, most, setter } = self;
        format!("depth {} is beyond {}, which {setter} allows at most", depth.0, most.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest of the limits.
    fn minimum(all: [Option<u32>; 4]) -> u64 {
        all.iter().flatten().copied().map(u64::from).min().unwrap_or(u64::MAX)
    }

    #[test]
    fn smallest_limit_applies_at_every_depth() {
        let choices = [None, Some(0), Some(1), Some(2), Some(u32::MAX)];
        let pairs = choices.into_iter().flat_map(|one| choices.map(|other| (one, other)));
        for (template, stack) in pairs.clone() {
            for (call, issue) in pairs.clone() {
                let all = [template, stack, call, issue];
                let [template, stack, call, issue] = all.map(|limit| limit.map(Depth));
                let limits = Limits { template, stack, call, issue };
                let max = minimum(all);
                for depth in [0, 1, 2, 3, u32::MAX] {
                    let at = u64::from(depth);
                    assert_eq!(limits.enter(Depth(depth)).is_ok(), at <= max, "{limits:?}");
                    let fits = at < max && depth < u32::MAX;
                    assert_eq!(limits.spawn(Depth(depth)).is_ok(), fits, "{limits:?} {depth}");
                }
            }
        }
    }

    #[test]
    fn agent_at_the_depth_limit_runs_but_cannot_spawn() {
        let limits = Limits { stack: Some(Depth(1)), ..Limits::default() };
        assert_eq!(limits.spawn(Depth(0)), Ok(Depth(1)));
        assert_eq!(limits.enter(Depth(1)), Ok(()));
        let refused = limits.spawn(Depth(1)).unwrap_err();
        assert_eq!(refused.to_string(), "Agent depth limit reached. Solve the task yourself.");
        assert_eq!(refused.reason(), "depth 2 is beyond 1, which the stack allows at most");
        assert_eq!(Limits::below(Depth(2), Some(0)), Some(Depth(2)));
    }
}
