//! Whether a checkout can be used now. Git has the same exit code for a full disk, a missing mount and a wrong request.

use std::path::Path;

use thiserror::Error;

use super::free_space::has_room;
use super::repository::Repository;

/// The room that a fetch needs at least: with less, git fails at once.
const MIN_FREE_FILES: u64 = 16;
const MIN_FREE_BYTES: u64 = 256 * 1024;

/// Why a checkout cannot be used until a person has changed something on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CheckoutProblem {
    /// The directory is missing or cannot be read.
    #[error(
        "the checkout {path} cannot be read: {why}; check its path and whether its disk is mounted"
    )]
    Unreadable { path: String, why: String },
    /// The directory is in no repository.
    #[error("the checkout {0} is not in a git repository; clone the repository there")]
    NoRepository(String),
    /// Git does not read the repository.
    #[error("git cannot use the checkout {path}: {why}")]
    Unusable { path: String, why: String },
    /// Nothing more can be fetched.
    #[error("the disk of the checkout {0} is full; free some space")]
    DiskFull(String),
}

/// Why a checkout cannot be used, if it cannot.
pub fn checkout_problem(checkout: &Path) -> Option<CheckoutProblem> {
    let path = checkout.display().to_string();
    if let Err(error) = std::fs::read_dir(checkout) {
        return Some(CheckoutProblem::Unreadable { path, why: error.to_string() });
    }
    let Some(repository) = Repository::discover(checkout) else {
        return Some(CheckoutProblem::NoRepository(path));
    };
    let git = repository.git();
    let common_dir = match git.line(["rev-parse", "--path-format=absolute", "--git-common-dir"]) {
        Ok(common_dir) => common_dir,
        Err(error) => return Some(CheckoutProblem::Unusable { path, why: error.to_string() }),
    };
    match has_room(Path::new(&common_dir), MIN_FREE_FILES, MIN_FREE_BYTES) {
        Ok(true) => None,
        Ok(false) => Some(CheckoutProblem::DiskFull(path)),
        Err(error) => Some(CheckoutProblem::Unusable { path, why: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_testkit::Scratch;

    use super::*;

    #[test]
    fn checkout_without_a_repository_has_a_problem_until_it_is_cloned() {
        let scratch = Scratch::repository();
        assert_eq!(checkout_problem(&scratch.root()), None, "a repository without commits");
        scratch.commit("first");
        assert_eq!(checkout_problem(&scratch.root()), None);
        let missing = scratch.place().join("missing");
        let found = checkout_problem(&missing);
        assert!(matches!(found, Some(CheckoutProblem::Unreadable { .. })), "{found:?}");
        std::fs::create_dir(&missing).unwrap();
        let found = checkout_problem(&missing);
        assert!(matches!(found, Some(CheckoutProblem::NoRepository(_))), "{found:?}");
        std::fs::remove_file(scratch.root().join(".git/HEAD")).unwrap();
        std::fs::write(scratch.root().join(".git/HEAD"), "nothing\n").unwrap();
        let found = checkout_problem(&scratch.root());
        assert!(matches!(found, Some(CheckoutProblem::Unusable { .. })), "{found:?}");
    }
}
