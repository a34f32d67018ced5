//! `.bailiwick/settings.toml`: how a repository wants work verified and landed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::{Problem, Source};
use crate::toml_file;

/// The settings of a repository. All of them have a default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "settings.toml")]
pub struct Settings {
    /// How work lands.
    pub land: Land,
    /// How checks run.
    pub checks: Checks,
}

/// `[land]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Land {
    /// What becomes of the agent's commits.
    pub method: LandMethod,
    /// The branch that work lands on; found when left out.
    pub base: Option<String>,
}

/// What becomes of the agent's commits.
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
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_a_default_and_nothing_unknown_is_taken() {
        let read = |text: &str| Settings::parse(&Source::new("settings.toml", text));
        assert_eq!(read("").unwrap(), Settings::default());
        let settings = read("[land]\nmethod = \"squash\"\nbase = \"trunk\"\n").unwrap();
        assert_eq!(settings.land.method, LandMethod::Squash);
        assert_eq!(settings.land.base.as_deref(), Some("trunk"));
        for bad in ["[land]\nmethod = \"ff\"\n", "[lands]\n", "[checks]\nminutes = 0\n"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
