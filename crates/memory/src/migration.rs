//! Versions of database migrations: times that are assigned before an agent starts, so that no two agents get the same.

use std::fmt;

use bailiwick_resources::Moment;

use crate::resource::{Resource, ResourceKind};

/// What a pattern of a task has where the version is written when the agent is spawned.
const PLACEHOLDER: &str = "{timestamp}";
/// Year, month, day, hour, minute and second.
const DIGITS: usize = 14;
const SECOND_MS: u64 = 1000;

/// A version, such as `20261119050001`: a second in Coordinated Universal Time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MigrationVersion(Moment);

impl MigrationVersion {
    /// The version of this second.
    pub fn at(moment: Moment) -> Self {
        Self(Moment::from_millis(moment.millis() / SECOND_MS * SECOND_MS))
    }

    /// The version that the text begins with; nothing if it begins with no date and time, or with more digits.
    pub fn leading(text: &str) -> Option<Self> {
        let digits = text.get(..DIGITS).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let rest = text.get(DIGITS..)?;
        if rest.starts_with(|next: char| next.is_ascii_digit()) {
            return None;
        }
        let part = |from: usize, to: usize| digits.and_then(|digits| digits.get(from..to));
        let (date, time) = (
            format!("{}-{}-{}", part(0, 4)?, part(4, 6)?, part(6, 8)?),
            format!("{}:{}:{}", part(8, 10)?, part(10, 12)?, part(12, 14)?),
        );
        let version = format!("{date}T{time}Z").parse().ok().map(Self)?;
        // A leap second is read as the second before it.
        (Some(version.to_string().as_str()) == digits).then_some(version)
    }

    /// The version one second later.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.plus_millis(SECOND_MS))
    }
}

impl fmt::Display for MigrationVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits: String = self.0.to_string().chars().filter(char::is_ascii_digit).collect();
        out.write_str(digits.get(..DIGITS).unwrap_or(&digits))
    }
}

/// How many versions these patterns need.
pub fn placeholders<'a>(patterns: impl IntoIterator<Item = &'a str>) -> usize {
    patterns.into_iter().map(|pattern| pattern.matches(PLACEHOLDER).count()).sum()
}

/// New versions: not before now, and after all that were used.
pub fn assign_versions(
    count: usize,
    now: Moment,
    last_used: Option<MigrationVersion>,
) -> Vec<MigrationVersion> {
    let now = MigrationVersion::at(now);
    let first = last_used.map_or(now, |last| last.next().max(now));
    std::iter::successors(Some(first), |version| Some(version.next())).take(count).collect()
}

/// The pattern with a version in each place; versions that are left over stay in the list.
pub fn with_versions(
    pattern: &str,
    versions: &mut impl Iterator<Item = MigrationVersion>,
) -> String {
    let mut parts = pattern.split(PLACEHOLDER);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match versions.next() {
            Some(version) => text.push_str(&version.to_string()),
            None => text.push_str(PLACEHOLDER),
        }
        text.push_str(part);
    }
    text
}

/// The pattern as it was before it got these versions.
pub fn without_versions(pattern: &str, versions: &[MigrationVersion]) -> String {
    versions
        .iter()
        .fold(pattern.to_owned(), |text, version| text.replace(&version.to_string(), PLACEHOLDER))
}

/// The migration that a pattern is about: files of one directory whose names begin with one version.
pub fn migration_of(pattern: &str) -> Option<Resource> {
    let pattern = pattern.strip_prefix('/').unwrap_or(pattern);
    let (directory, name) = pattern.rsplit_once('/').filter(|(_, name)| !name.is_empty())?;
    if directory.contains(['*', '?', '[', '{', '\\']) {
        return None;
    }
    let version = MigrationVersion::leading(name)?;
    Some(Resource { kind: ResourceKind::Migration, key: format!("{directory}/{version}") })
}
