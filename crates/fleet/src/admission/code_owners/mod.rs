//! CODEOWNERS files: who owns the files of a repository, in the grammar of its forge.

mod gitea;
mod github;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bailiwick_resources::ForgeKind;
use regex::{Regex, RegexBuilder};
use thiserror::Error;

/// The largest file that is read, in bytes.
pub const MAX_FILE_BYTES: usize = 256 * 1024;
/// The maximum number of rules.
const MAX_RULES: usize = 1_000;
/// The maximum memory of one compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 256 * 1024;
/// How often a pattern is compared with a path, for one file.
const MAX_COMPARISONS: usize = 20_000_000;

/// The grammar of a CODEOWNERS file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grammar {
    /// Patterns like those of .gitignore; the last rule that matches counts.
    Github,
    /// Regular expressions for whole paths; every rule that matches counts.
    Gitea,
}

impl Grammar {
    /// The grammar of a forge; nothing where there are no accounts.
    pub fn of(forge: ForgeKind) -> Option<Self> {
        match forge {
            ForgeKind::Github => Some(Self::Github),
            ForgeKind::Gitea => Some(Self::Gitea),
            ForgeKind::Generic | ForgeKind::Local => None,
        }
    }

    /// The places where the forge looks for the file. The first one that exists counts.
    pub fn places(self) -> &'static [&'static str] {
        match self {
            Self::Github => &[".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"],
            // The last one is Forgejo's alone.
            Self::Gitea => {
                &["CODEOWNERS", "docs/CODEOWNERS", ".gitea/CODEOWNERS", ".forgejo/CODEOWNERS"]
            }
        }
    }
}

/// Why a CODEOWNERS file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CodeOwnersError {
    #[error("it is larger than {MAX_FILE_BYTES} bytes")]
    TooLarge,
    #[error("it has more than {MAX_RULES} rules")]
    TooManyRules,
    #[error("line {line} cannot be read: {why}")]
    Line { line: usize, why: LineError },
    #[error("the repository has too many files to compare all of them with its rules")]
    TooManyComparisons,
}

/// Why a line cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LineError {
    #[error("`!` is not supported")]
    Negation,
    #[error("`[` and `]` are not supported")]
    CharacterRange,
    #[error("`***` is not a pattern")]
    ThreeStars,
    #[error("an owner is `@user`, `@organization/team` or a mail address")]
    Owner,
    #[error("the pattern is too large")]
    Pattern,
}

/// An owner, as a CODEOWNERS file names it. Names are compared without regard to case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// An account of the forge.
    User(String),
    /// A team, as `organization/team`.
    Team(String),
    /// A mail address.
    Mail(String),
}

impl Owner {
    /// Whether this is one of a person's accounts. A team is none, whoever its members are.
    pub fn is_one_of(&self, accounts: &[String]) -> bool {
        match self {
            Self::User(name) | Self::Mail(name) => {
                accounts.iter().any(|account| account.eq_ignore_ascii_case(name))
            }
            Self::Team(_) => false,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) | Self::Team(name) => write!(formatter, "@{name}"),
            Self::Mail(address) => formatter.write_str(address),
        }
    }
}

/// A rule of a file.
#[derive(Debug, Clone)]
struct Rule {
    pattern: Regex,
    /// Whether it applies to the paths that the pattern does not match.
    negated: bool,
    owners: BTreeSet<Owner>,
}

impl Rule {
    fn applies_to(&self, path: &str) -> bool {
        self.pattern.is_match(path) != self.negated
    }
}

/// A CODEOWNERS file.
#[derive(Debug, Clone)]
pub struct CodeOwners {
    grammar: Grammar,
    rules: Vec<Rule>,
}

/// Files that have the same owners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedFiles {
    /// Their owners; none if nobody owns them.
    pub owners: BTreeSet<Owner>,
    /// One of the files.
    pub example: String,
}

impl CodeOwners {
    /// Reads a file.
    pub fn parse(grammar: Grammar, text: &str) -> Result<Self, CodeOwnersError> {
        if text.len() > MAX_FILE_BYTES {
            return Err(CodeOwnersError::TooLarge);
        }
        // Counted before any of them is compiled.
        let lines = text.lines().map(str::trim_start);
        if lines.filter(|line| !line.is_empty() && !line.starts_with('#')).count() > MAX_RULES {
            return Err(CodeOwnersError::TooManyRules);
        }
        let mut rules = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let rule = match grammar {
                Grammar::Github => github::rule(line),
                Grammar::Gitea => Ok(gitea::rule(line)),
            };
            let at = |why| CodeOwnersError::Line { line: number + 1, why };
            rules.extend(rule.map_err(at)?);
        }
        Ok(Self { grammar, rules })
    }

    /// The owners of a file.
    pub fn owners_of(&self, path: &str) -> BTreeSet<Owner> {
        let mut matching = self.rules.iter().filter(|rule| rule.applies_to(path));
        match self.grammar {
            Grammar::Github => {
                matching.next_back().map(|rule| rule.owners.clone()).unwrap_or_default()
            }
            Grammar::Gitea => matching.flat_map(|rule| rule.owners.iter().cloned()).collect(),
        }
    }

    /// The files with their owners, grouped by them.
    pub fn group(&self, paths: &[String]) -> Result<Vec<OwnedFiles>, CodeOwnersError> {
        if paths.len().saturating_mul(self.rules.len()) > MAX_COMPARISONS {
            return Err(CodeOwnersError::TooManyComparisons);
        }
        let mut groups = BTreeMap::new();
        for path in paths {
            groups.entry(self.owners_of(path)).or_insert_with(|| path.clone());
        }
        let groups = groups.into_iter();
        Ok(groups.map(|(owners, example)| OwnedFiles { owners, example }).collect())
    }
}

/// A pattern for whole paths. Its memory is bounded, and so is its time: it never backtracks.
fn compiled(expression: &str) -> Option<Regex> {
    let mut builder = RegexBuilder::new(expression);
    builder.size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
    builder.build().ok()
}

#[cfg(test)]
mod tests;
