//! Which git is installed, and whether it is new enough.

use std::fmt;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use thiserror::Error;

/// The oldest git that is supported: `merge-tree --write-tree` came with 2.38, and 2.39 is tested.
pub const MINIMUM: GitVersion = GitVersion::new(2, 39);

/// A version of git.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GitVersion {
    major: u32,
    minor: u32,
    patch: u32,
}

/// Why the installed git cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnsupportedGit {
    /// Git is not installed or cannot be executed.
    #[error("git cannot be started: {why}; git {MINIMUM} or newer is needed")]
    Missing {
        /// The error of the operating system.
        why: String,
    },
    /// Git is too old.
    #[error("git {found} is too old: git {MINIMUM} or newer is needed")]
    TooOld {
        /// The version that is installed.
        found: GitVersion,
    },
    /// The output of `git --version` cannot be parsed.
    #[error(
        "`git --version` printed {printed:?}, which names no version; git {MINIMUM} or newer is needed"
    )]
    Unknown {
        /// What it printed.
        printed: String,
    },
}

impl GitVersion {
    /// A version without a patch number.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor, patch: 0 }
    }

    /// Parses the output of `git --version`.
    pub fn parse(printed: &str) -> Option<Self> {
        let version = printed.trim().strip_prefix("git version ")?;
        let mut numbers = version.split(['.', ' ', '-']).map(|part| part.parse().ok());
        let (major, minor) = (numbers.next()??, numbers.next()??);
        Some(Self { major, minor, patch: numbers.next().flatten().unwrap_or_default() })
    }

    /// Whether `git --attr-source` exists.
    pub(super) fn has_attr_source(self) -> bool {
        self >= Self::new(2, 41)
    }

    /// Whether `git merge-tree --merge-base` exists.
    pub(super) fn has_merge_base(self) -> bool {
        self >= Self::new(2, 40)
    }
}

impl fmt::Display for GitVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.patch > 0 { write!(f, ".{}", self.patch) } else { Ok(()) }
    }
}

/// The version of the git on `PATH`, or why it cannot be used. Git runs once per process.
pub fn supported() -> Result<GitVersion, UnsupportedGit> {
    static INSTALLED: OnceLock<Result<GitVersion, UnsupportedGit>> = OnceLock::new();
    INSTALLED.get_or_init(|| require_minimum(&run_git_version()?)).clone()
}

fn run_git_version() -> Result<String, UnsupportedGit> {
    let output = Command::new("git").arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| UnsupportedGit::Missing { why: error.to_string() })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn require_minimum(printed: &str) -> Result<GitVersion, UnsupportedGit> {
    match GitVersion::parse(printed) {
        Some(found) if found >= MINIMUM => Ok(found),
        Some(found) => Err(UnsupportedGit::TooOld { found }),
        None => Err(UnsupportedGit::Unknown { printed: printed.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_all_distributions_are_parsed() {
        for (printed, version) in [
            ("git version 2.39.5\n", "2.39.5"),
            ("git version 2.47.3", "2.47.3"),
            ("git version 2.52.0-rc1", "2.52"),
            ("git version 2.39.5 (Apple Git-154)", "2.39.5"),
            ("git version 2.45.1.windows.1", "2.45.1"),
            ("git version 3.0", "3.0"),
        ] {
            assert_eq!(GitVersion::parse(printed).unwrap().to_string(), version, "{printed}");
        }
        for printed in ["", "git version", "git version two", "hg version 2.39.5"] {
            assert_eq!(GitVersion::parse(printed), None, "{printed}");
        }
    }

    #[test]
    fn old_git_is_refused_with_its_version_and_the_minimum() {
        assert_eq!(require_minimum("git version 2.39.0"), Ok(GitVersion::new(2, 39)));
        let refused = require_minimum("git version 2.34.1").unwrap_err().to_string();
        assert_eq!(refused, "git 2.34.1 is too old: git 2.39 or newer is needed");
        assert!(matches!(require_minimum("nothing"), Err(UnsupportedGit::Unknown { .. })));
    }
}
