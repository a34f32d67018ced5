//! Creating the commits that bring a verified tree onto a branch, and their committer.

use std::path::Path;

use bailiwick_lifecycle::ports::{LandError, Landing, Merge, Method, WorkError};
use bailiwick_model::{CommitId, TreeId};

use super::identity_settings::IdentitySettings;
use super::merge::{self, Sides};
use super::work_error;
use super::worktree_paths::WorktreePaths;
use crate::git::command::{Git, GitError, Input};
use crate::git::identity::{BAILIWICK, with_identity};

/// The person who lands the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Committer {
    pub(super) name: String,
    pub(super) email: String,
}

impl Committer {
    /// Reads the person's git configuration; without a name and an address, Bailiwick is the committer.
    pub(super) fn observe(paths: &WorktreePaths) -> Self {
        Self::of(&IdentitySettings::observe(paths))
            .unwrap_or_else(|| Self { name: BAILIWICK.0.to_owned(), email: BAILIWICK.1.to_owned() })
    }

    /// `committer` counts before `user`.
    fn of(settings: &IdentitySettings) -> Option<Self> {
        let find = |what: &str| {
            let of_section = |section: &str| settings.last(&format!("{section}.{what}"));
            of_section("committer").or_else(|| of_section("user")).map(str::to_owned)
        };
        Some(Self { name: find("name")?, email: find("email")? })
    }

    /// Git that creates commits as this person, now.
    pub(super) fn git_as(&self, git: Git) -> Git {
        with_identity(git, (&self.name, &self.email), None)
    }
}

/// Creates the commits of a landing and returns the last one, which has the verified tree.
pub(super) fn create(
    git: &Git,
    state: &Path,
    committer: &Committer,
    landing: &Landing,
) -> Result<CommitId, LandError> {
    let what = || format!("the commit for {} cannot be created", landing.branch);
    let git = committer.git_as(git.clone());
    let onto = &landing.onto;
    let has_commits = landing.work.head != landing.work.merge_base;
    let commit = match landing.method {
        Method::Merge if has_commits => {
            let work = committed_work(&git, landing).map_err(work_error(what()))?;
            write(&git, &landing.tree, &[onto, &work], landing.message.as_bytes())
        }
        // If the agent made no commit, there is nothing to merge: one commit on the base is enough.
        Method::Merge | Method::Squash => {
            write(&git, &landing.tree, &[onto], landing.message.as_bytes())
        }
        Method::Rebase => return replay(&git, state, landing),
    };
    Ok(commit.map_err(work_error(what()))?)
}

/// The agent's last commit, or a new one on top of it with uncommitted changes.
fn committed_work(git: &Git, landing: &Landing) -> Result<CommitId, GitError> {
    let work = &landing.work;
    if work.commit == work.head {
        return Ok(work.head.clone());
    }
    let subject = landing.message.lines().next().unwrap_or_default();
    let message = format!("{subject}\n\nBailiwick-Agent: {}\n", landing.agent);
    write(git, &work.tree, &[&work.head], message.as_bytes())
}

fn write(
    git: &Git,
    tree: &TreeId,
    parents: &[&CommitId],
    message: &[u8],
) -> Result<CommitId, GitError> {
    let parents = parents.iter().flat_map(|parent| ["-p", parent.as_str()]);
    let arguments = ["commit-tree", "-F", "-", tree.as_str()].into_iter().chain(parents);
    let stdout = git.run_with_input(arguments, Input::Bytes(message))?;
    Ok(CommitId::new(String::from_utf8_lossy(&stdout).trim()))
}

/// A commit of the work that is replayed.
struct Original {
    commit: CommitId,
    /// The first parent.
    parent: CommitId,
    is_merge: bool,
    /// Name, address and date.
    author: [String; 3],
    message: Vec<u8>,
}

/// Replays each commit of the work on the base. Uncommitted changes become the last commit, with the
/// message of the landing.
fn replay(git: &Git, state: &Path, landing: &Landing) -> Result<CommitId, LandError> {
    let how = "rebasing";
    let what = || format!("the commits for {} cannot be created", landing.branch);
    let other = |why: String| LandError::OtherTree { how, why };
    let mut tip = landing.onto.clone();
    let mut tip_tree = tree_of(git, &landing.onto)?;
    for original in originals(git, landing).map_err(work_error(what()))? {
        if original.is_merge {
            let commit = original.commit;
            let why =
                format!("{commit} is a merge, which cannot be replayed; land by merge or squash");
            return Err(other(why));
        }
        let sides = Sides {
            base: Some(&original.parent),
            ours: &tip,
            theirs: &original.commit,
            attributes: &tip,
        };
        let tree = match merge::merge(git, state, &sides).map_err(work_error(what()))? {
            Merge::Clean { tree } => tree,
            Merge::Conflicts(conflicts) => {
                let paths: Vec<String> = conflicts.into_iter().map(|one| one.path).collect();
                let why = format!("{} conflicts in {}", original.commit, paths.join(", "));
                return Err(other(why));
            }
        };
        // As git does, skip changes that the base already has.
        if tree == tip_tree {
            continue;
        }
        let is_uncommitted =
            original.commit == landing.work.commit && landing.work.commit != landing.work.head;
        let commit = if is_uncommitted {
            write(git, &tree, &[&tip], landing.message.as_bytes())
        } else {
            let [name, email, date] = &original.author;
            let git = git
                .clone()
                .with_env("GIT_AUTHOR_NAME", name)
                .with_env("GIT_AUTHOR_EMAIL", email)
                .with_env("GIT_AUTHOR_DATE", date);
            write(&git, &tree, &[&tip], &original.message)
        };
        tip = commit.map_err(work_error(what()))?;
        tip_tree = tree;
    }
    if tip_tree == landing.tree {
        return Ok(tip);
    }
    Err(other(format!("the last commit has the tree {tip_tree}, not {}", landing.tree)))
}

/// The commits of the work, the oldest first.
fn originals(git: &Git, landing: &Landing) -> Result<Vec<Original>, GitError> {
    let range = format!("{}..{}", landing.work.merge_base, landing.work.commit);
    let format = "--format=%H%x00%P%x00%an%x00%ae%x00%ad%x00%B%x00";
    let order = ["log", "--reverse", "--topo-order", "--no-show-signature", "--no-mailmap"];
    let options = ["--date=raw", "--encoding=UTF-8", format, &range, "--"];
    let stdout = git.run(order.into_iter().chain(options))?;
    let mut fields = stdout.split(|byte| *byte == 0);
    let mut originals = Vec::new();
    let text = |field: &[u8]| String::from_utf8_lossy(field).trim().to_owned();
    while let Some(commit) = fields.next().map(text).filter(|commit| !commit.is_empty()) {
        let next: Vec<&[u8]> = fields.by_ref().take(5).collect();
        let [parents, name, email, date, message] = next.as_slice() else {
            return Err(GitError::UnexpectedOutput { command: "log".to_owned(), output: commit });
        };
        let parents = text(parents);
        let is_merge = parents.contains(' ');
        let parent = CommitId::new(parents.split(' ').next().unwrap_or_default());
        let author = [text(name), text(email), format!("@{}", text(date))];
        let message = (*message).to_owned();
        let commit = CommitId::new(commit);
        originals.push(Original { commit, parent, is_merge, author, message });
    }
    Ok(originals)
}

pub(super) fn tree_of(git: &Git, commit: &CommitId) -> Result<TreeId, WorkError> {
    git.line(["rev-parse", "--verify", &format!("{commit}^{{tree}}")])
        .map(TreeId::new)
        .map_err(work_error(format!("the tree of {commit} cannot be found")))
}

#[cfg(test)]
mod tests {
    use super::{Committer, IdentitySettings};

    #[test]
    fn committer_needs_a_name_and_an_address() {
        let committer = |text: &str| {
            Committer::of(&IdentitySettings::parse(text))
                .map(|identity| (identity.name, identity.email))
        };
        let known = Some(("B".to_owned(), "b@c".to_owned()));
        assert_eq!(committer("user.name\nA\0user.email\nb@c\0user.name\nB\0"), known);
        assert_eq!(
            committer("user.name\nA\0user.email\na\0committer.name\nB\0committer.email\nb@c\0"),
            known
        );
        assert_eq!(committer("user.name\nA\0"), None);
        assert_eq!(committer("user.name\nA\0user.email\n \0"), None);
        assert_eq!(committer(""), None);
    }
}
