//! A claim: an exclusive lease on paths, with the fence that proves it when landing.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::globs::Area;
use crate::name::AgentId;

/// The number of a claim. Numbers only increase and are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub u64);

impl fmt::Display for Fence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl std::str::FromStr for Fence {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// An exclusive lease on paths of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// Its number.
    pub fence: Fence,
    /// Who has it.
    pub run: AgentId,
    /// The runs above this one that share their claims with it.
    pub line: Vec<AgentId>,
    /// The repository, by its path.
    pub repository: String,
    /// The claimed paths: globs as in .gitignore.
    pub inside: Vec<String>,
    /// Exceptions from those paths.
    pub except: Vec<String>,
    /// When it was claimed, in milliseconds since 1970.
    pub taken_at: u64,
    /// When others may claim the paths.
    pub leased_until: u64,
    /// How it ended.
    pub release: Option<Release>,
}

/// How a claim ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Release {
    pub outcome: ClaimOutcome,
    /// When, in milliseconds since 1970.
    pub at: u64,
}

/// How a claim ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimOutcome {
    /// The work has landed.
    Done,
    /// The work failed.
    Failed,
    /// Another claim was in the way.
    Conflict,
    /// Its time was over.
    Expired,
    /// A person revoked it.
    Revoked,
}

impl ClaimOutcome {
    /// Every outcome.
    pub const ALL: [Self; 5] =
        [Self::Done, Self::Failed, Self::Conflict, Self::Expired, Self::Revoked];

    /// The stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Conflict => "conflict",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }

    /// The outcome for a stored word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == word)
    }
}

impl fmt::Display for ClaimOutcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.as_str())
    }
}

impl Claim {
    /// The paths that it is on.
    pub fn area(&self) -> Area {
        Area::new(&self.inside, &self.except)
    }

    /// Whether it excludes others at this time.
    pub fn is_live(&self, now: u64) -> bool {
        self.release.is_none() && now < self.leased_until
    }
}
