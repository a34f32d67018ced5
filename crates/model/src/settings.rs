//! `.bailiwick/settings.toml`: how a repository wants work verified and landed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::{Problem, Source};
use crate::toml_file;

/// The settings of a repository. All of them have a default.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "settings.toml")]
pub struct Settings {
    /// How work lands.
    pub land: Land,
    /// How checks run.
    pub checks: Checks,
    /// How runs are executed.
    pub run: Runs,
    /// The limits of agents that start others.
    pub delegation: Delegation,
    /// Whether agents claim the paths that they may write; they do not when left out.
    pub claims: Option<Claims>,
    /// The prices of models, by a glob of their names; required if a budget is in dollars.
    pub prices: BTreeMap<String, Price>,
}

/// `[run]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Runs {
    /// The agent program of tasks that name none; `claude-code` when left out.
    pub cli: Option<String>,
    /// How many seconds a call waits for a person's approval; 300 when left out.
    #[schemars(range(min = 1, max = 3600))]
    pub approval_seconds: Option<u32>,
    /// How many MiB an agent may add to the disk in an attempt: in its worktree, its home and its
    /// temporary directory together; 20480 when left out.
    #[schemars(range(min = 1))]
    pub disk_mib: Option<u32>,
    /// Whether verified work lands automatically.
    pub land: AutoLand,
}

/// How many levels of agents may be below the first one where nothing says it.
pub const DEFAULT_MAX_DEPTH: u32 = 2;

/// `[delegation]`: what agents that start others are held to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Delegation {
    /// How many levels of agents may be below the first one; 2 when left out.
    pub max_depth: Option<u32>,
    /// The maximum number of agents of one tree that run at the same time; 12 when left out.
    #[schemars(range(min = 1))]
    pub most_at_once: Option<u32>,
}

/// Whether verified work lands automatically.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AutoLand {
    /// A person is asked if one is there; otherwise the work waits for `bailiwick land`.
    #[default]
    Ask,
    /// It lands automatically.
    Auto,
    /// Never.
    Never,
}

/// `[claims]`: an agent claims the paths that its task lets it write, before it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Claims {
    /// What happens to an agent whose paths are already claimed.
    pub on_overlap: OnOverlap,
    /// After how many minutes others may claim the paths; 240 when left out.
    #[schemars(range(min = 1, max = 44640))]
    pub lease_minutes: Option<u32>,
    /// How many minutes an agent waits before it is refused; 60 when left out.
    #[schemars(range(min = 1, max = 44640))]
    pub wait_minutes: Option<u32>,
    /// Directories that are claimed as a whole by an agent that may write any part of them, such as `src/parser/`.
    pub modules: Vec<String>,
}

/// What happens to an agent whose paths are already claimed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnOverlap {
    /// It does not start.
    #[default]
    Refuse,
    /// It starts when they are free.
    Wait,
}

/// A month.
const MAX_MINUTES: u32 = 31 * 24 * 60;

impl Claims {
    /// The duration of a claim, in milliseconds.
    pub fn lease(&self) -> u64 {
        u64::from(self.lease_minutes.unwrap_or(240)) * 60_000
    }

    /// How long an agent waits, in milliseconds.
    pub fn wait_timeout(&self) -> u64 {
        u64::from(self.wait_minutes.unwrap_or(60)) * 60_000
    }

    /// The key that has a value which cannot be.
    fn wrong(&self) -> Option<&'static str> {
        let bad = |minutes: Option<u32>| minutes.is_some_and(|n| !(1..=MAX_MINUTES).contains(&n));
        match (bad(self.lease_minutes), bad(self.wait_minutes)) {
            (true, _) => Some("lease-minutes"),
            (false, true) => Some("wait-minutes"),
            (false, false) => None,
        }
    }

    /// The first module that is no directory of the repository.
    fn wrong_module(&self) -> Option<&str> {
        let is_module = |module: &&String| {
            let named = module.strip_suffix('/').unwrap_or_default();
            !named.contains(['*', '?', '[', '\\'])
                && named.split('/').all(|part| !matches!(part, "" | "." | ".."))
        };
        self.modules.iter().find(|module| !is_module(module)).map(String::as_str)
    }
}

/// `[prices."GLOB"]`: United States dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Price {
    /// Tokens that the model reads.
    pub input: f64,
    /// Tokens that it writes.
    pub output: f64,
    /// The price of tokens read from the cache; that of `input` when left out.
    #[serde(default)]
    pub cache_read: Option<f64>,
    /// The price of tokens written to the cache; that of `input` when left out.
    #[serde(default)]
    pub cache_write: Option<f64>,
}

impl Price {
    fn is_one(&self) -> bool {
        let all = [Some(self.input), Some(self.output), self.cache_read, self.cache_write];
        all.into_iter().flatten().all(|price| price.is_finite() && price >= 0.0)
    }
}

/// `[land]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Land {
    /// What happens to the agent's commits.
    pub method: LandMethod,
    /// The branch that work lands on; found when left out.
    pub base: Option<String>,
}

/// What happens to the agent's commits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LandMethod {
    /// A merge commit.
    #[default]
    Merge,
    /// One commit on the base.
    Squash,
    /// Each commit again, on the base.
    Rebase,
}

/// `[checks]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Checks {
    /// How many minutes one command of a check may take; 30 when left out.
    #[schemars(range(min = 1))]
    pub minutes: Option<u32>,
}

impl Settings {
    /// Reads the settings of a repository.
    pub fn parse(source: &Source) -> Result<Self, Problem> {
        let settings: Self = toml_file::parse(source)?;
        if settings.checks.minutes == Some(0) {
            let message = "`minutes` is 0: no command could run";
            return Err(Problem::error("bad-value", source.whole(), message)
                .help("leave it out for 30, or give a number above 0"));
        }
        if matches!(settings.run.approval_seconds, Some(seconds) if !(1..=3600).contains(&seconds))
        {
            let message = "`approval-seconds` is not between 1 and 3600";
            return Err(
                Problem::error("bad-value", source.whole(), message).help("leave it out for 300")
            );
        }
        if settings.run.disk_mib == Some(0) {
            let message = "`disk-mib` is 0: no agent could write anything";
            return Err(Problem::error("bad-value", source.whole(), message)
                .help("leave it out for 20480, or give a number above 0"));
        }
        if let Some(key) = settings.claims.as_ref().and_then(Claims::wrong) {
            let message = format!("`{key}` is not between 1 and {MAX_MINUTES}");
            return Err(Problem::error("bad-value", source.whole(), message)
                .help("give minutes, or leave it out"));
        }
        if let Some(module) = settings.claims.as_ref().and_then(Claims::wrong_module) {
            let message = format!("the module `{module}` is no directory");
            return Err(Problem::error("bad-value", source.whole(), message).help(
                "name a directory from the repository's root, with a slash at its end: `src/parser/`",
            ));
        }
        if let Some((glob, _)) = settings.prices.iter().find(|(_, price)| !price.is_one()) {
            let message = format!("a price of `{glob}` is below 0 or no number");
            return Err(Problem::error("bad-value", source.whole(), message)
                .help("give dollars for a million tokens"));
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_defaults_and_invalid_values_are_refused() {
        let read = |text: &str| Settings::parse(&Source::new("settings.toml", text));
        assert_eq!(read("").unwrap(), Settings::default());
        let settings = read("[land]\nmethod = \"squash\"\nbase = \"trunk\"\n").unwrap();
        assert_eq!(settings.land.method, LandMethod::Squash);
        assert_eq!(settings.land.base.as_deref(), Some("trunk"));
        for bad in [
            "[land]\nmethod = \"ff\"\n",
            "[lands]\n",
            "[checks]\nminutes = 0\n",
            "[claims]\nlease-minutes = 0\n",
            "[claims]\nwait-minutes = 44641\n",
            "[claims]\non-overlap = \"ask\"\n",
            "[claims]\nmodules = [\"src/*/\"]\n",
            "[claims]\nmodules = [\"/src/\"]\n",
            "[claims]\nmodules = [\"src/../\"]\n",
            "[claims]\nmodules = [\"src/parser\"]\n",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert_eq!(read("").unwrap().claims, None);
        let modules = read("[claims]\nmodules = [\"src/parser/\"]\n").unwrap().claims.unwrap();
        assert_eq!(modules.modules, ["src/parser/"]);
        let claims = read("[claims]\non-overlap = \"wait\"\n").unwrap().claims.unwrap();
        assert_eq!((claims.on_overlap, claims.lease()), (OnOverlap::Wait, 240 * 60_000));
    }
}
