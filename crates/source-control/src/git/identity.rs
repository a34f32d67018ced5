//! The author and committer of commits that git creates for us.

use super::command::Git;

/// Name and e-mail address of an author or a committer.
pub(super) type Identity<'a> = (&'a str, &'a str);

/// Who creates commits that no person asked for.
pub(super) const BAILIWICK: Identity<'static> = ("Bailiwick", "bailiwick@localhost");

/// Git that creates commits as `identity`, at `date` if one is given.
pub(super) fn with_identity(git: Git, (name, email): Identity<'_>, date: Option<&str>) -> Git {
    let mut git = git;
    for role in ["AUTHOR", "COMMITTER"] {
        git = git
            .with_env(&format!("GIT_{role}_NAME"), name)
            .with_env(&format!("GIT_{role}_EMAIL"), email);
        if let Some(date) = date {
            git = git.with_env(&format!("GIT_{role}_DATE"), date);
        }
    }
    git
}

/// Git that creates commits for `name`, which git may not accept as it is.
pub(crate) fn committer(git: Git, name: &str) -> Git {
    let is_kept = |one: &char| one.is_alphanumeric() || " ._-".contains(*one);
    let name: String = name.chars().filter(is_kept).collect();
    let name = if name.trim().is_empty() { BAILIWICK.0 } else { name.trim() };
    with_identity(git, (name, BAILIWICK.1), None)
}
