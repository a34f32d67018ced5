//! Everything that is not committed, as one commit, and back again: byte for byte, with no filter in
//! between.
//!
//! The commit's tree is what the files say; its first parent is the commit they were on, its second
//! one, if it has one, is what was staged.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::{Git, Ignored, Input, VerbError, file, refused};

/// The most that is rescued of what git ignores.
const MOST_IGNORED_BYTES: u64 = 64 << 20;
const MOST_IGNORED_FILES: usize = 20_000;

/// Who signs what we rescue.
const WHO: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "Bailiwick"),
    ("GIT_AUTHOR_EMAIL", "bailiwick@localhost"),
    ("GIT_COMMITTER_NAME", "Bailiwick"),
    ("GIT_COMMITTER_EMAIL", "bailiwick@localhost"),
];

/// What was rescued.
pub(super) struct Rescued {
    /// The commit.
    pub(super) commit: String,
    /// Whether there is more in it than what git ignores.
    pub(super) dirty: bool,
}

/// Git that signs what it makes.
pub(super) fn signing(git: Git) -> Git {
    WHO.iter().fold(git, |git, (name, value)| git.with_env(name, value))
}

/// Makes a commit of all that differs from the one that is checked out; nothing if nothing does.
/// `git` works in `files`. With `index`, what is staged is kept too.
pub(super) fn take(
    git: &Git,
    files: &Path,
    ignored: Ignored,
    index: bool,
    input: Input<'_>,
) -> Result<Option<Rescued>, VerbError> {
    let head = git.line(["rev-parse", "--verify", "HEAD^{commit}"])?;
    let head_tree = git.line(["rev-parse", "--verify", "HEAD^{tree}"])?;
    if git.run(["ls-files", "--stage", "-z"])?.split(|b| *b == 0).any(|e| e.starts_with(b"160000"))
    {
        return Err(refused("it has submodules, which are not rescued", "commit what is in them"));
    }
    let mut changed =
        names(git, &["diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", "HEAD"])?;
    changed.extend(names(git, &["diff", "--cached", "--name-only", "--no-renames", "-z", "HEAD"])?);
    changed.extend(names(git, &["ls-files", "-z", "--others", "--exclude-standard"])?);
    let mut all = changed.clone();
    if ignored == Ignored::Keep {
        let more = names(git, &["ls-files", "-z", "--others", "--ignored", "--exclude-standard"])?;
        require_few(files, &more)?;
        all.extend(more);
    }
    let tree = tree_of(git, files, &all, input)?;
    let staged = if index { Some(git.line(["write-tree"])?) } else { None };
    let staged = staged.filter(|staged| *staged != head_tree);
    if tree == head_tree && staged.is_none() {
        return Ok(None);
    }
    let git = signing(git.clone());
    let message = "What was not committed in a workspace\n";
    let commit = |tree: &str, parents: &[&str]| {
        let mut arguments = vec!["commit-tree", tree, "-m", message];
        for parent in parents {
            arguments.extend(["-p", parent]);
        }
        git.line(arguments)
    };
    let staged = staged.map(|staged| commit(&staged, &[&head])).transpose()?;
    let parents: Vec<&str> = std::iter::once(head.as_str()).chain(staged.as_deref()).collect();
    let commit = commit(&tree, &parents)?;
    Ok(Some(Rescued { commit, dirty: !changed.is_empty() || staged.is_some() }))
}

fn names(git: &Git, arguments: &[&str]) -> Result<BTreeSet<Vec<u8>>, VerbError> {
    let output = git.run(arguments)?;
    let names = output.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

fn require_few(files: &Path, names: &BTreeSet<Vec<u8>>) -> Result<(), VerbError> {
    let size = |name: &Vec<u8>| {
        fs::symlink_metadata(files.join(OsStr::from_bytes(name))).map_or(0, |found| found.len())
    };
    let bytes: u64 = names.iter().map(size).sum();
    if names.len() <= MOST_IGNORED_FILES && bytes <= MOST_IGNORED_BYTES {
        return Ok(());
    }
    let reason = format!("git ignores {} files of {bytes} bytes in it", names.len());
    Err(refused(reason, "remove what can be made again, or say that it may be discarded"))
}

/// The tree of the commit with these files as they are on disk.
fn tree_of(
    git: &Git,
    files: &Path,
    names: &BTreeSet<Vec<u8>>,
    input: Input<'_>,
) -> Result<String, VerbError> {
    let (mut gone, mut there) = (Vec::new(), Vec::new());
    for name in names {
        let path = files.join(OsStr::from_bytes(name));
        if name.ends_with(b"/") {
            let reason = format!("{} is a repository of its own", path.display());
            return Err(refused(reason, "move it out of the workspace"));
        }
        let found = fs::symlink_metadata(&path).map(|found| (found.file_type(), found));
        let (mode, object) = match found {
            Ok((kind, _)) if kind.is_symlink() => {
                let target = fs::read_link(&path).map_err(file(&path))?;
                ("120000", hash(git, target.as_os_str().as_bytes())?)
            }
            Ok((kind, found)) if kind.is_file() => {
                let mode =
                    if found.permissions().mode() & 0o100 == 0 { "100644" } else { "100755" };
                (mode, hash(git, &fs::read(&path).map_err(file(&path))?)?)
            }
            // A directory in the place of a file has files of its own in the list.
            Ok((kind, _)) if kind.is_dir() => ("", String::new()),
            Ok(_) => {
                let reason = format!("{} is neither a file nor a link", path.display());
                return Err(refused(reason, "remove it"));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => ("", String::new()),
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => ("", String::new()),
            Err(error) => return Err(file(&path)(error)),
        };
        if mode.is_empty() {
            gone.extend_from_slice(format!("0 {}\t", "0".repeat(40)).as_bytes());
            gone.extend_from_slice(name);
            gone.push(0);
        } else {
            there.extend_from_slice(format!("{mode} {object}\t").as_bytes());
            there.extend_from_slice(name);
            there.push(0);
        }
    }
    let scratch = tempfile::Builder::new().prefix("bailiwick-index-").tempdir();
    let scratch = scratch.map_err(file(Path::new("a temporary directory")))?;
    let git = git.clone().with_env("GIT_INDEX_FILE", scratch.path().join("index"));
    git.run_with_input(["read-tree", "HEAD"], input)?;
    // What goes makes room for what comes.
    gone.extend(there);
    git.run_with_input(["update-index", "-z", "--index-info"], Input::Bytes(&gone))?;
    Ok(git.line(["write-tree"])?)
}

fn hash(git: &Git, bytes: &[u8]) -> Result<String, VerbError> {
    let output =
        git.run_with_input(["hash-object", "-w", "--no-filters", "--stdin"], Input::Bytes(bytes))?;
    Ok(String::from_utf8_lossy(&output).trim().to_owned())
}

/// Puts everything that was rescued back into `files`, which are on the commit it was taken on. What
/// somebody wrote there meanwhile is not touched: then nothing is put back.
pub(super) fn put_back(git: &Git, files: &Path, rescued: &str) -> Result<(), VerbError> {
    let line = git.line(["rev-list", "--parents", "-n", "1", rescued])?;
    let mut parents = line.split(' ').skip(1);
    let (base, staged) = (parents.next().unwrap_or_default(), parents.next());
    let head = git.line(["rev-parse", "--verify", "HEAD^{commit}"])?;
    if head != base {
        let reason = format!("{rescued} was taken on {base}, and the branch is at {head}");
        return Err(refused(reason, "merge it by hand"));
    }
    let changes = changes(git, base, rescued)?;
    for change in &changes {
        let path = files.join(OsStr::from_bytes(&change.name));
        let there = seen(&path)?;
        let allowed = there.is_none()
            || there == change.content(git, &change.before)?
            || there == change.content(git, &change.after)?;
        if !allowed && !path.is_dir() {
            let reason = format!("{} is neither as it was nor as it was rescued", path.display());
            return Err(refused(reason, "put it aside, and recover again"));
        }
    }
    for change in changes.iter().filter(|change| change.after.is_none()) {
        let path = files.join(OsStr::from_bytes(&change.name));
        if seen(&path)?.is_some() {
            fs::remove_file(&path).map_err(file(&path))?;
        }
        // A directory that is empty now may be where a file belongs.
        for above in path.ancestors().skip(1).take_while(|above| *above != files) {
            if fs::remove_dir(above).is_err() {
                break;
            }
        }
    }
    for change in &changes {
        if let Some(content) = change.content(git, &change.after)? {
            // Beside the worktree: what a kill leaves there is nobody's file.
            let beside = files.parent().unwrap_or(files);
            write(beside, &files.join(OsStr::from_bytes(&change.name)), &content)?;
        }
    }
    if let Some(staged) = staged {
        git.run(["read-tree", &format!("{staged}^{{tree}}")])?;
    }
    Ok(())
}

/// A file that is one way before and another way after: mode and object, where it is there.
struct Change {
    name: Vec<u8>,
    before: Option<(String, String)>,
    after: Option<(String, String)>,
}

/// A file: its kind and its bytes.
type Content = (Kind, Vec<u8>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Executable,
    Link,
}

impl Change {
    fn content(
        &self,
        git: &Git,
        side: &Option<(String, String)>,
    ) -> Result<Option<Content>, VerbError> {
        let Some((mode, object)) = side else { return Ok(None) };
        let kind = match mode.as_str() {
            "120000" => Kind::Link,
            "100755" => Kind::Executable,
            _ => Kind::Plain,
        };
        Ok(Some((kind, git.run(["cat-file", "blob", object])?)))
    }
}

fn changes(git: &Git, before: &str, after: &str) -> Result<Vec<Change>, VerbError> {
    let output = git.run(["diff-tree", "-r", "-z", "--no-renames", before, after])?;
    let mut parts = output.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    let mut changes = Vec::new();
    while let (Some(head), Some(name)) = (parts.next(), parts.next()) {
        let head = String::from_utf8_lossy(head).into_owned();
        let words: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        let side = |mode: usize, object: usize| {
            let (mode, object) = (words.get(mode)?, words.get(object)?);
            (*mode != "000000").then(|| ((*mode).to_owned(), (*object).to_owned()))
        };
        changes.push(Change { name: name.to_vec(), before: side(0, 2), after: side(1, 3) });
    }
    Ok(changes)
}

/// What is at a path, if it is a file or a link.
fn seen(path: &Path) -> Result<Option<Content>, VerbError> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(None) };
    if found.is_symlink() {
        let target = fs::read_link(path).map_err(file(path))?;
        return Ok(Some((Kind::Link, target.as_os_str().as_bytes().to_vec())));
    }
    if !found.is_file() {
        return Ok(None);
    }
    let executable = found.permissions().mode() & 0o100 != 0;
    let kind = if executable { Kind::Executable } else { Kind::Plain };
    Ok(Some((kind, fs::read(path).map_err(file(path))?)))
}

/// Writes a file so that it is there whole or not at all, by way of another directory.
fn write(beside: &Path, path: &Path, (kind, bytes): &Content) -> Result<(), VerbError> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(file(parent))?;
    if *kind == Kind::Link {
        let _ = fs::remove_file(path);
        return symlink(OsStr::from_bytes(bytes), path).map_err(file(path));
    }
    let mut fresh =
        tempfile::Builder::new().prefix(".rescued-").tempfile_in(beside).map_err(file(beside))?;
    let mode = if *kind == Kind::Executable { 0o755 } else { 0o644 };
    fresh.write_all(bytes).map_err(file(path))?;
    fs::set_permissions(fresh.path(), fs::Permissions::from_mode(mode)).map_err(file(path))?;
    fresh.persist(path).map(drop).map_err(|error| file(path)(error.error))
}
