//! All that an agent has made, as one commit: written by git into an index of our own, so that the
//! agent's index and files are only read.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use bailiwick_control::ports::{Base, Snapshot, WorkError};
use bailiwick_model::well_known::report_path;

use super::places::Places;
use super::private::PrivateDirectory;
use super::{index, peculiar, plain, plain_file, programs, trouble};
use crate::git::command::{Git, GitError, Input};
use crate::git::patience::Patience;

/// A worktree of any size is recorded within this time.
const PATIENCE: Patience = Patience {
    grace: Duration::from_secs(2),
    limit: Duration::from_secs(1_800),
    obstacle: plain_file::obstacle,
};

/// What is known of a commit.
struct Known {
    commit: String,
    tree: String,
    date: String,
}

/// The work as it is now.
pub(super) fn take(
    places: &Places,
    state: &Path,
    agent: &str,
    base: &Base,
) -> Result<Snapshot, WorkError> {
    let what = || format!("the work in {} cannot be recorded", places.worktree.display());
    let (history, tree) = std::thread::scope(|scope| {
        let tree = scope.spawn(|| tree_of_files(places, state, agent, base));
        let history = history(places, base);
        let tree = tree.join().unwrap_or_else(|_| Err(trouble(what())("it was given up")));
        (history, tree)
    });
    let (head, merge_base, merge_base_tree) = history?;
    let tree = tree?;
    let commit = if tree == head.tree {
        head.commit.clone()
    } else {
        // The same work gives the same commit, whenever and by whomever it is recorded.
        let date = format!("@{} +0000", head.date);
        let git = plain::signed(plain::git(state, places, &tree)?, plain::OURSELVES, Some(&date));
        let message = format!("The work of {agent}, with what is not committed");
        let line = git.line(["commit-tree", &tree, "-p", &head.commit, "-m", &message]);
        line.map_err(trouble(what()))?
    };
    Ok(Snapshot { head: head.commit, commit, tree, merge_base, merge_base_tree })
}

/// The commit that is checked out, and the one where it left the base.
fn history(places: &Places, base: &Base) -> Result<(Known, String, String), WorkError> {
    let what = || format!("the commit of {} cannot be found", places.worktree.display());
    let git = places.agent_git();
    let head = known(&git, "HEAD")
        .map_err(trouble(what()))?
        .ok_or_else(|| WorkError { what: what(), why: "its branch has no commit".to_owned() })?;
    let what = format!("the work cannot be compared with {}", base.branch);
    let ended = git
        .end_with(["merge-base", base.tip.as_str(), head.commit.as_str()], Input::Nothing)
        .map_err(trouble(what.clone()))?;
    let merge_base = match ended.code {
        Some(0) => String::from_utf8_lossy(&ended.printed).trim().to_owned(),
        Some(1) => {
            let why = format!("{} and {} have no commit in common", base.tip, head.commit);
            return Err(WorkError { what, why });
        }
        Some(_) | None => return Err(trouble(what)(ended.into_error())),
    };
    let tree = if merge_base == head.commit {
        head.tree.clone()
    } else if merge_base == base.tip {
        base.tree.clone()
    } else {
        git.line(["rev-parse", "--verify", &format!("{merge_base}^{{tree}}")])
            .map_err(trouble(what))?
    };
    Ok((head, merge_base, tree))
}

fn known(git: &Git, revision: &str) -> Result<Option<Known>, GitError> {
    let wanted = format!("{revision}^{{commit}}");
    let quiet = ["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted];
    let format = ["log", "-1", "--no-show-signature", "--format=%H %T %ct", "--end-of-options"];
    let text = match git.line(format.into_iter().chain([wanted.as_str(), "--"])) {
        Ok(text) => text,
        Err(error) => return if git.succeeds(quiet)? { Err(error) } else { Ok(None) },
    };
    let parts: Option<[&str; 3]> = text.split(' ').collect::<Vec<_>>().try_into().ok();
    let [commit, tree, date] = parts
        .ok_or_else(|| GitError::Unexpected { command: "log".to_owned(), what: text.clone() })?;
    Ok(Some(Known { commit: commit.to_owned(), tree: tree.to_owned(), date: date.to_owned() }))
}

/// The tree of every file that is tracked or would be, as the worktree has it.
fn tree_of_files(
    places: &Places,
    state: &Path,
    agent: &str,
    base: &Base,
) -> Result<String, WorkError> {
    let what = || format!("the files of {} cannot be recorded", places.worktree.display());
    let directory = PrivateDirectory::make(state).map_err(trouble(what()))?;
    let copy = directory.path().join("index");
    let bytes = copy_index(&places.private.join("index"), &copy).map_err(trouble(what()))?;
    let git = places
        .agent_git()
        .with_patience(PATIENCE)
        .with_variable("GIT_INDEX_FILE", &copy)
        .with_settings(&settings())
        .with_settings(&programs::without_filters(places).map_err(trouble(what()))?);
    if !bytes.is_none_or(|bytes| index::is_plain(&bytes, base.tip.len() / 2)) {
        peculiar::settle(&git, places)?;
    }
    let lock = Input::File(directory.lock());
    let ended = git.end_with(["add", "--all", "--sparse"], lock).map_err(trouble(what()))?;
    if ended.code != Some(0) {
        return Err(trouble(what())(ended.into_error()));
    }
    refuse_nested(&ended.complaint).map_err(|why| WorkError { what: what(), why })?;
    leave_report_out(&git, places, agent, base).map_err(trouble(what()))?;
    git.run_with(["write-tree"], lock)
        .map(|printed| String::from_utf8_lossy(&printed).trim().to_owned())
        .map_err(trouble(what()))
}

/// The agent's report is for whoever reads it, and no part of the work; unless the base has it.
fn leave_report_out(git: &Git, places: &Places, agent: &str, base: &Base) -> Result<(), GitError> {
    let path = report_path(agent);
    if fs::symlink_metadata(places.worktree.join(&path)).is_err() {
        return Ok(());
    }
    if git.succeeds(["cat-file", "-e", &format!("{}:{path}", base.tip)])? {
        return Ok(());
    }
    git.run(["update-index", "--force-remove", "--", &path]).map(drop)
}

/// Git takes a repository inside of the worktree for a submodule, and its files for nothing.
fn refuse_nested(complaint: &str) -> Result<(), String> {
    let mark = "warning: adding embedded git repository: ";
    let nested: Vec<&str> = complaint.lines().filter_map(|line| line.strip_prefix(mark)).collect();
    if nested.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} has a git repository of its own, so that its files would be left out; remove its .git, \
         or have it ignored",
        nested.join(", ")
    ))
}

/// Settings of the repository that would hide changes, write elsewhere, or refuse.
fn settings() -> Vec<(String, String)> {
    [
        ("core.trustctime", "true"),
        ("core.checkStat", "default"),
        ("core.safecrlf", "false"),
        ("core.sparseCheckout", "false"),
        ("core.splitIndex", "false"),
        ("core.untrackedCache", "false"),
        ("core.fsyncMethod", "batch"),
        ("index.sparse", "false"),
        ("index.skipHash", "true"),
        ("add.ignoreErrors", "false"),
        ("advice.addEmbeddedRepo", "false"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
}

/// The bytes of the index; nothing if there is none.
pub(super) fn copy_index(from: &Path, to: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut file = match File::open(from) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let changed = file.metadata()?.modified()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    fs::write(to, &bytes)?;
    // Git looks again at files that are as young as their index: the copy must not look younger.
    File::options().write(true).open(to)?.set_modified(changed)?;
    Ok(Some(bytes))
}
