//! Saving all uncommitted changes as one commit, and restoring them byte for byte, without filters.
//!
//! The commit has the tree of the files. Its first parent is HEAD; its second parent, if any, has what
//! was staged.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::{Git, IgnoredFiles, Input, OperationError, file, refused};
use crate::git::identity::{BAILIWICK, with_identity};

/// Ignored files beyond these limits are not rescued.
const MAX_IGNORED_BYTES: u64 = 64 << 20;
const MAX_IGNORED_FILES: usize = 20_000;

/// A commit with uncommitted changes.
pub(super) struct Rescued {
    pub(super) commit: String,
    /// Whether it has more than ignored files.
    pub(super) dirty: bool,
}

/// Creates a commit of all differences from HEAD, if there are any. `git` runs in `files`. With `index`,
/// staged changes are saved too.
pub(super) fn create(
    git: &Git,
    files: &Path,
    ignored: IgnoredFiles,
    index: bool,
    input: Input<'_>,
) -> Result<Option<Rescued>, OperationError> {
    let head = git.line(["rev-parse", "--verify", "HEAD^{commit}"])?;
    let head_tree = git.line(["rev-parse", "--verify", "HEAD^{tree}"])?;
    if git.run(["ls-files", "--stage", "-z"])?.split(|b| *b == 0).any(|e| e.starts_with(b"160000"))
    {
        return Err(refused("it has submodules, which are not rescued", "commit their changes"));
    }
    let mut changed =
        names(git, &["diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", "HEAD"])?;
    changed.extend(names(git, &["diff", "--cached", "--name-only", "--no-renames", "-z", "HEAD"])?);
    changed.extend(names(git, &["ls-files", "-z", "--others", "--exclude-standard"])?);
    let mut all = changed.clone();
    if ignored == IgnoredFiles::Keep {
        let more = names(git, &["ls-files", "-z", "--others", "--ignored", "--exclude-standard"])?;
        require_within_limits(files, &more)?;
        all.extend(more);
    }
    let tree = tree_of(git, files, &all, input)?;
    let staged = if index { Some(git.line(["write-tree"])?) } else { None };
    let staged = staged.filter(|staged| *staged != head_tree);
    if tree == head_tree && staged.is_none() {
        return Ok(None);
    }
    let git = with_identity(git.clone(), BAILIWICK, None);
    let message = "Uncommitted changes of a workspace\n";
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

fn names(git: &Git, arguments: &[&str]) -> Result<BTreeSet<Vec<u8>>, OperationError> {
    let output = git.run(arguments)?;
    let names = output.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

fn require_within_limits(files: &Path, names: &BTreeSet<Vec<u8>>) -> Result<(), OperationError> {
    let size = |name: &Vec<u8>| {
        fs::symlink_metadata(files.join(OsStr::from_bytes(name))).map_or(0, |found| found.len())
    };
    let bytes: u64 = names.iter().map(size).sum();
    if names.len() <= MAX_IGNORED_FILES && bytes <= MAX_IGNORED_BYTES {
        return Ok(());
    }
    let reason = format!("it has {} ignored files with {bytes} bytes", names.len());
    Err(refused(reason, "remove those that can be created again, or discard ignored files"))
}

/// The tree of HEAD with these files as they are on disk.
fn tree_of(
    git: &Git,
    files: &Path,
    names: &BTreeSet<Vec<u8>>,
    input: Input<'_>,
) -> Result<String, OperationError> {
    let (mut removed, mut present) = (Vec::new(), Vec::new());
    for name in names {
        let path = files.join(OsStr::from_bytes(name));
        if name.ends_with(b"/") {
            let reason = format!("{} is another repository", path.display());
            return Err(refused(reason, "move it out of the workspace"));
        }
        let found = fs::symlink_metadata(&path).map(|found| (found.file_type(), found));
        let entry = match found {
            Ok((kind, _)) if kind.is_symlink() => {
                let target = fs::read_link(&path).map_err(file(&path))?;
                Some(("120000", hash(git, target.as_os_str().as_bytes())?))
            }
            Ok((kind, found)) if kind.is_file() => {
                let mode =
                    if found.permissions().mode() & 0o100 == 0 { "100644" } else { "100755" };
                Some((mode, hash(git, &fs::read(&path).map_err(file(&path))?)?))
            }
            // The files in a directory that replaced a file have entries of their own.
            Ok((kind, _)) if kind.is_dir() => None,
            Ok(_) => {
                let reason = format!("{} is neither a file nor a link", path.display());
                return Err(refused(reason, "remove it"));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => None,
            Err(error) => return Err(file(&path)(error)),
        };
        let (list, head) = match entry {
            Some((mode, object)) => (&mut present, format!("{mode} {object}\t")),
            None => (&mut removed, format!("0 {}\t", "0".repeat(40))),
        };
        list.extend_from_slice(head.as_bytes());
        list.extend_from_slice(name);
        list.push(0);
    }
    let scratch = tempfile::Builder::new().prefix("bailiwick-index-").tempdir();
    let scratch = scratch.map_err(file(Path::new("a temporary directory")))?;
    let git = git.clone().with_env("GIT_INDEX_FILE", scratch.path().join("index"));
    git.run_with_input(["read-tree", "HEAD"], input)?;
    // Removed files come first: a new one may need their path.
    removed.extend(present);
    git.run_with_input(["update-index", "-z", "--index-info"], Input::Bytes(&removed))?;
    Ok(git.line(["write-tree"])?)
}

fn hash(git: &Git, bytes: &[u8]) -> Result<String, OperationError> {
    let output =
        git.run_with_input(["hash-object", "-w", "--no-filters", "--stdin"], Input::Bytes(bytes))?;
    Ok(String::from_utf8_lossy(&output).trim().to_owned())
}

/// Restores rescued changes in `files`, which must be at the same commit. If somebody changed a file
/// meanwhile, nothing is restored.
pub(super) fn restore(git: &Git, files: &Path, rescued: &str) -> Result<(), OperationError> {
    let line = git.line(["rev-list", "--parents", "-n", "1", rescued])?;
    let mut parents = line.split(' ').skip(1);
    let (base, staged) = (parents.next().unwrap_or_default(), parents.next());
    let head = git.line(["rev-parse", "--verify", "HEAD^{commit}"])?;
    if head != base {
        let reason = format!("{rescued} was saved at {base}, and the branch is at {head}");
        return Err(refused(reason, "merge it by hand"));
    }
    let changes = changes(git, base, rescued)?;
    for change in &changes {
        let path = files.join(OsStr::from_bytes(&change.name));
        let current = read_file(&path)?;
        let is_expected = current.is_none()
            || current == change.content(git, &change.before)?
            || current == change.content(git, &change.after)?;
        if !is_expected && !path.is_dir() {
            let reason = format!("{} was changed after it was rescued", path.display());
            return Err(refused(reason, "move it away, and recover again"));
        }
    }
    for change in changes.iter().filter(|change| change.after.is_none()) {
        let path = files.join(OsStr::from_bytes(&change.name));
        if read_file(&path)?.is_some() {
            fs::remove_file(&path).map_err(file(&path))?;
        }
        // An empty directory may be in place of a file.
        for above in path.ancestors().skip(1).take_while(|above| *above != files) {
            if fs::remove_dir(above).is_err() {
                break;
            }
        }
    }
    for change in &changes {
        if let Some(content) = change.content(git, &change.after)? {
            // A kill leaves temporary files beside the worktree, not in it.
            let beside = files.parent().unwrap_or(files);
            write(beside, &files.join(OsStr::from_bytes(&change.name)), &content)?;
        }
    }
    if let Some(staged) = staged {
        git.run(["read-tree", &format!("{staged}^{{tree}}")])?;
    }
    Ok(())
}

/// A changed file, with its mode and object before and after.
struct Change {
    name: Vec<u8>,
    before: Option<(String, String)>,
    after: Option<(String, String)>,
}

/// The kind and the bytes of a file.
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
    ) -> Result<Option<Content>, OperationError> {
        let Some((mode, object)) = side else { return Ok(None) };
        let kind = match mode.as_str() {
            "120000" => Kind::Link,
            "100755" => Kind::Executable,
            _ => Kind::Plain,
        };
        Ok(Some((kind, git.run(["cat-file", "blob", object])?)))
    }
}

fn changes(git: &Git, before: &str, after: &str) -> Result<Vec<Change>, OperationError> {
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

/// The content of a path, if it is a file or a link.
fn read_file(path: &Path) -> Result<Option<Content>, OperationError> {
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

/// Writes a file atomically, by a temporary file in `beside`.
fn write(beside: &Path, path: &Path, (kind, bytes): &Content) -> Result<(), OperationError> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(file(parent))?;
    if *kind == Kind::Link {
        let _ = fs::remove_file(path);
        return symlink(OsStr::from_bytes(bytes), path).map_err(file(path));
    }
    let mut temporary =
        tempfile::Builder::new().prefix(".rescued-").tempfile_in(beside).map_err(file(beside))?;
    let mode = if *kind == Kind::Executable { 0o755 } else { 0o644 };
    temporary.write_all(bytes).map_err(file(path))?;
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(mode)).map_err(file(path))?;
    temporary.persist(path).map(drop).map_err(|error| file(path)(error.error))
}
