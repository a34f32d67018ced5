//! Detects test programs that forge results: they are started with arguments that select no test.
//!
//! A test runs code of the change in its own process, which can write the result and exit, even before `main`. Code
//! that does this without reading its arguments also reports a result when no test is selected.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// Arguments with which no test runs.
pub(super) struct Challenge {
    pub(super) test: String,
    skipped: bool,
}

impl Challenge {
    pub(super) fn arguments(&self) -> Vec<&str> {
        match self.skipped {
            true => vec!["--exact", &self.test, "--skip", &self.test],
            false => vec!["--exact", &self.test],
        }
    }
}

/// A test that does not exist, with an unpredictable name, and an existing test that is skipped.
pub(super) fn all(tests: &[&String]) -> Vec<Challenge> {
    let random = RandomState::new().build_hasher().finish();
    let count = u64::try_from(tests.len()).unwrap_or(u64::MAX).max(1);
    let chosen = usize::try_from(random % count).ok().and_then(|number| tests.get(number));
    let Some(chosen) = chosen else { return Vec::new() };
    let missing = Challenge { test: format!("{chosen}_{:04x}", random >> 48), skipped: false };
    let missing = Some(missing).filter(|missing| !tests.contains(&&missing.test));
    let skipped = Challenge { test: (*chosen).clone(), skipped: true };
    missing.into_iter().chain([skipped]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenge_never_selects_an_existing_test() {
        assert!(all(&[]).is_empty());
        let name = "tests::one".to_owned();
        let challenges = all(&[&name]);
        assert_eq!(challenges.len(), 2);
        assert!(challenges[0].test.starts_with("tests::one_") && !challenges[0].skipped);
        assert_eq!(challenges[1].arguments(), ["--exact", "tests::one", "--skip", "tests::one"]);
    }
}
