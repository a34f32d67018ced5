//! Reading references: branches, tags and symbolic references.

use super::command::{Git, GitError, Input};

/// How often a reference is read that others create and delete at the same time.
const MAX_TRIES: u32 = 5;

/// The object that a reference names; `None` if it does not exist.
pub(crate) fn resolve_ref(git: &Git, name: &str) -> Result<Option<String>, GitError> {
    let mut tries = 1;
    loop {
        let output = git.output(["show-ref", "--verify", "--hash", name], Input::Nothing)?;
        if output.exit_code == Some(0) {
            return Ok(Some(output.text()));
        }
        // Only with `--quiet` the exit code tells a missing reference from a damaged one.
        let quiet = git.output(["show-ref", "--verify", "--quiet", name], Input::Nothing)?;
        match quiet.exit_code {
            Some(1) => return Ok(None),
            // It was created between the two commands.
            Some(0) if tries < MAX_TRIES => tries += 1,
            Some(_) | None => return Err(output.into_error()),
        }
    }
}

pub(super) fn ref_exists(git: &Git, name: &str) -> Result<bool, GitError> {
    git.succeeds(["show-ref", "--verify", "--quiet", name])
}

/// The reference that a symbolic reference names; `None` if it is not symbolic, as a detached HEAD.
pub(super) fn symbolic_ref(git: &Git, name: &str) -> Result<Option<String>, GitError> {
    let output = git.output(["symbolic-ref", "--quiet", name], Input::Nothing)?;
    match output.exit_code {
        Some(0) => Ok(Some(output.text())),
        Some(1) => Ok(None),
        Some(_) | None => Err(output.into_error()),
    }
}

/// The full name of a branch.
pub(super) fn full_branch_name(branch: &str) -> String {
    if branch.starts_with("refs/heads/") {
        branch.to_owned()
    } else {
        format!("refs/heads/{branch}")
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_testkit::Scratch;

    use super::*;

    #[test]
    fn missing_references_are_distinguished_from_damaged_ones() {
        let scratch = Scratch::repository();
        let commit = scratch.commit("first");
        let git = Git::at(scratch.root());
        assert_eq!(resolve_ref(&git, "refs/heads/main").unwrap(), Some(commit));
        assert_eq!(resolve_ref(&git, "refs/heads/missing").unwrap(), None);
        assert!(ref_exists(&git, "refs/heads/main").unwrap());
        assert!(!ref_exists(&git, "refs/heads/missing").unwrap());
        let missing_object = format!("{}\n", "1".repeat(40));
        std::fs::write(scratch.root().join(".git/refs/heads/damaged"), missing_object).unwrap();
        assert!(resolve_ref(&git, "refs/heads/damaged").is_err());
        let elsewhere = Scratch::bare();
        assert!(resolve_ref(&Git::at(elsewhere.root()), "refs/heads/main").is_err());
    }

    #[test]
    fn detached_head_is_distinguished_from_an_error() {
        let scratch = Scratch::repository();
        scratch.commit("first");
        let git = Git::at(scratch.root());
        assert_eq!(symbolic_ref(&git, "HEAD").unwrap().as_deref(), Some("refs/heads/main"));
        scratch.git(&["checkout", "--quiet", "--detach"]);
        assert_eq!(symbolic_ref(&git, "HEAD").unwrap(), None);
        assert_eq!(symbolic_ref(&git, "refs/remotes/origin/HEAD").unwrap(), None);
        let elsewhere = Scratch::bare();
        assert!(symbolic_ref(&Git::at(elsewhere.root()), "HEAD").is_err());
    }
}
