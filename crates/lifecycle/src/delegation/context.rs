//! Limits on what an agent loads before it starts: a share of the model's context window, and numbers of items.

use bailiwick_model::template::ContextLimits;
use serde::Serialize;

/// The kind of a context entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A file of the repository.
    File,
    /// A skill.
    Skill,
    /// A rule.
    Rule,
    /// Always present: the prompt, the state of the work, the last comments.
    Given,
}

impl Kind {
    fn many(self) -> &'static str {
        match self {
            Self::File => "files",
            Self::Skill => "skills",
            Self::Rule => "rules",
            Self::Given => "given texts",
        }
    }
}

/// An item to load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Load {
    pub kind: Kind,
    /// Its path or name.
    pub name: String,
    /// Its estimated size in tokens.
    pub tokens: u64,
}

/// The record of a load, allowed or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The item.
    #[serde(flatten)]
    pub load: Load,
    /// Tokens loaded with it, or that would have been.
    pub total: u64,
    /// Tokens that may be loaded.
    pub most: u64,
    /// Why it was not loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The loaded items of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    limits: ContextLimits,
    window: u64,
    tokens: u64,
    loaded: Vec<Load>,
}

/// Why the context share is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the share of the window is {0}, and must be above 0 and at most 1")]
pub struct BadShare(pub f64);

impl Context {
    /// An empty context for a model with this context window, in tokens.
    pub fn new(limits: ContextLimits, window: u64) -> Result<Self, BadShare> {
        let share = limits.window_share;
        match share.is_finite() && share > 0.0 && share <= 1.0 {
            true => Ok(Self { limits, window, tokens: 0, loaded: Vec::new() }),
            false => Err(BadShare(share)),
        }
    }

    /// The maximum size of all items, in tokens.
    pub fn most(&self) -> u64 {
        // In millionths, so that a third of a window is the same on every machine.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share is above 0 and at most 1"
        )]
        let millionths = (self.limits.window_share * 1_000_000.0).round() as u64;
        let most = u128::from(self.window) * u128::from(millionths) / 1_000_000;
        u64::try_from(most).unwrap_or(u64::MAX)
    }

    /// The size of the loaded items, in tokens.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Loads an item. An item that is loaded already costs nothing. The entry must be recorded in any case.
    #[must_use]
    pub fn load(mut self, load: Load) -> (Self, Entry) {
        let again = |other: &Load| other.kind == load.kind && other.name == load.name;
        let most = self.most();
        if self.loaded.iter().any(again) {
            let total = self.tokens;
            return (self, Entry { load, total, most, refused: None });
        }
        let total = self.tokens.saturating_add(load.tokens);
        let refused = self.too_many(load.kind).or_else(|| {
            (total > most).then(|| {
                format!(
                    "with it {total} tokens would be loaded, and {most} may be: {} of a window of \
                     {}; load something smaller, or a part of it",
                    self.limits.window_share, self.window
                )
            })
        });
        if refused.is_none() {
            self.tokens = total;
            self.loaded.push(load.clone());
        }
        (self, Entry { load, total, most, refused })
    }

    fn too_many(&self, kind: Kind) -> Option<String> {
        let most = match kind {
            Kind::File => self.limits.files,
            Kind::Skill => self.limits.skills,
            Kind::Rule => self.limits.rules,
            Kind::Given => return None,
        };
        let have = self.loaded.iter().filter(|load| load.kind == kind).count();
        let full = u32::try_from(have).unwrap_or(u32::MAX) >= most;
        full.then(|| {
            let many = kind.many();
            format!("{have} {many} are loaded, and at most {most} may be; ask for others on demand")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_testkit::random::Random;

    fn load(kind: Kind, name: &str, tokens: u64) -> Load {
        Load { kind, name: name.to_owned(), tokens }
    }

    #[test]
    fn loads_stay_within_the_limits_and_each_load_is_recorded() {
        let mut random = Random::rotating("context");
        for _ in 0..500 {
            let limits = ContextLimits {
                window_share: [0.1, 0.3, 1.0][random.below(3)],
                files: u32::try_from(random.below(4)).unwrap(),
                skills: 1,
                rules: 1,
            };
            let mut context = Context::new(limits, 10_000).unwrap();
            let (mut names, mut tokens) = (Vec::new(), 0);
            let max_tokens = [(0.1, 1_000), (0.3, 3_000), (1.0, 10_000)]
                .iter()
                .find(|(share, _)| *share == limits.window_share)
                .map(|(_, max_tokens)| *max_tokens)
                .unwrap();
            for _ in 0..20 {
                let kind = [Kind::File, Kind::Skill, Kind::Rule, Kind::Given][random.below(4)];
                let name = format!("n{}", random.below(8));
                let size = u64::try_from(random.below(1_500)).unwrap();
                let count = names.iter().filter(|(other, _)| *other == kind).count();
                let allowed = match kind {
                    Kind::File => usize::try_from(limits.files).unwrap(),
                    Kind::Skill | Kind::Rule => 1,
                    Kind::Given => usize::MAX,
                };
                let already_loaded = names.contains(&(kind, name.clone()));
                let fits = already_loaded || (count < allowed && tokens + size <= max_tokens);
                let (updated, entry) = context.load(load(kind, &name, size));
                assert_eq!(entry.refused.is_none(), fits, "{entry:?}");
                assert_eq!((entry.load.name.as_str(), entry.most), (name.as_str(), max_tokens));
                if fits && !already_loaded {
                    names.push((kind, name));
                    tokens += size;
                }
                assert_eq!(updated.tokens(), tokens);
                context = updated;
            }
        }
    }

    #[test]
    fn refusal_says_what_to_do_instead() {
        let context = Context::new(ContextLimits::default(), 1_000).unwrap();
        let (context, entry) = context.load(load(Kind::File, "big.rs", 301));
        let why = entry.refused.unwrap();
        assert!(
            why.contains("301") && why.contains("300") && why.contains("load something smaller")
        );
        let (context, _) = context.load(load(Kind::Skill, "one", 1));
        let (_, entry) = context.load(load(Kind::Skill, "two", 1));
        assert!(entry.refused.unwrap().contains("at most 1"));
    }

    #[test]
    fn invalid_share_of_the_window_is_refused() {
        for share in [0.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
            let limits = ContextLimits { window_share: share, ..ContextLimits::default() };
            assert!(Context::new(limits, 1_000).is_err(), "{share}");
        }
    }
}
