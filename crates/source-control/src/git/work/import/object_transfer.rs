//! Moving objects from a layer to the repository by way of two temporary object stores.
//!
//! ```text
//! layer ── copy, index packs again ──▶ raw ── new objects of the branch ──▶ one pack
//! pack ── name every object by its content, and check it ──▶ checked ──▶ repository
//! ```
//!
//! A loose object in `raw` may have a wrong name, so nothing that was read there is trusted: a pack
//! contains objects without names, and the history is checked in `checked`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bailiwick_lifecycle::ports::WorkError;

use super::super::scratch_directory::ScratchDirectory;
use super::super::worktree_paths::WorktreePaths;
use super::super::{object_view, work_error};
use super::ImportLimits;
use super::copy_objects::{CopiedSize, ObjectCopy};
use crate::git::command::{Git, GitError, Input};
use crate::git::timeout::Timeout;

/// Enough for a layer of the largest size.
const TIMEOUT: Timeout = Timeout {
    grace: Duration::from_secs(2),
    limit: Duration::from_secs(1_800),
    find_obstacle: |_| None,
};

/// The import of one branch, from `old` to `tip`.
pub(super) struct BranchImport<'a> {
    pub(super) paths: &'a WorktreePaths,
    pub(super) state: &'a Path,
    pub(super) directory: &'a ScratchDirectory,
    pub(super) limits: ImportLimits,
    pub(super) old: &'a str,
    pub(super) tip: &'a str,
    /// What fails, in errors.
    pub(super) what: &'a str,
}

impl BranchImport<'_> {
    /// Git that sees the objects of the layer and of the repository.
    pub(super) fn raw(&self, upper: &Path) -> Result<Git, WorkError> {
        let objects = self.store("raw").map_err(work_error(self.what))?;
        let mut copy = ObjectCopy {
            from: &upper.join("objects"),
            known: &self.paths.objects_dir(),
            to: &objects,
            length: self.tip.len(),
            limits: self.limits,
            copied: CopiedSize::default(),
        };
        let packs = copy.run().map_err(work_error(self.what))?;
        let git = self.git(&objects)?;
        for pack in &packs {
            self.index(&git, &[], pack)?;
        }
        self.borrow(&objects).map_err(work_error(self.what))?;
        Ok(git)
    }

    /// The new objects of the branch as a pack; `None` if there are none.
    pub(super) fn pack(&self, raw: &Git) -> Result<Option<PathBuf>, WorkError> {
        let listed = self.missing(raw)?;
        if listed.is_empty() {
            return Ok(None);
        }
        let path = self.directory.path().join("packed");
        fs::create_dir(&path).map_err(work_error(self.what))?;
        let arguments = ["pack-objects".as_ref(), "-q".as_ref(), "--window=0".as_ref()];
        let prefix = path.join("pack");
        let arguments = arguments.into_iter().chain([prefix.as_os_str()]);
        let input = self.directory.lock_with(&listed).map_err(work_error(self.what))?;
        let stdout =
            raw.run_with_input(arguments, Input::File(input)).map_err(work_error(self.what))?;
        let name = format!("pack-{}.pack", String::from_utf8_lossy(&stdout).trim());
        let pack = path.join(name);
        let length = fs::metadata(&pack).map_err(work_error(self.what))?.len();
        if length > self.limits.bytes {
            return Err(self.refuse(format!(
                "the commits have {length} bytes, and the limit of an import is {}",
                self.limits.bytes
            )));
        }
        Ok(Some(pack))
    }

    /// The names of the objects that no reference of the repository reaches.
    fn missing(&self, raw: &Git) -> Result<Vec<u8>, WorkError> {
        self.require_commit(raw)?;
        let format = ["for-each-ref", "--format=%(objectname)"];
        let known = self.paths.git().line(format).map_err(work_error(self.what))?;
        let mut input = format!("{}\n^{}\n", self.tip, self.old);
        for known in known.lines() {
            input.push_str(&format!("^{known}\n"));
        }
        let arguments =
            ["rev-list", "--objects", "--no-object-names", "--ignore-missing", "--stdin"];
        let listed = raw
            .run_with_input(arguments, Input::Bytes(input.as_bytes()))
            .map_err(work_error(self.what))?;
        let count = listed.iter().filter(|byte| **byte == b'\n').count();
        if u64::try_from(count).is_ok_and(|count| count <= self.limits.objects) {
            return Ok(listed);
        }
        Err(self.refuse(format!(
            "the commits have {count} objects, and the limit of an import is {}",
            self.limits.objects
        )))
    }

    /// Checks every object of the pack, and that the commits are complete and descend from the old one;
    /// returns their number.
    pub(super) fn check(&self, pack: Option<&Path>) -> Result<u64, WorkError> {
        let objects = self.store("checked").map_err(work_error(self.what))?;
        self.borrow(&objects).map_err(work_error(self.what))?;
        let git = self.git(&objects)?;
        if let Some(pack) = pack {
            // Without the old pack index, whose names are not trusted.
            let named = objects.join("pack").join(pack.file_name().unwrap_or_default());
            fs::hard_link(pack, &named).map_err(work_error(self.what))?;
            self.index(&git, &["--strict"], &named)?;
        }
        self.require_commit(&git)?;
        let run = |arguments: &[&str]| git.line(arguments).map_err(work_error(self.what));
        let not_old = format!("^{}", self.old);
        run(&["rev-list", "--objects", "--quiet", self.tip, &not_old])?;
        if !self.is_descendant(&git).map_err(work_error(self.what))? {
            return Err(self.refuse(format!(
                "its history was rewritten: {} is not a descendant of {}, its commit in the repository",
                self.tip, self.old
            )));
        }
        let count = run(&["rev-list", "--count", self.tip, &not_old])?;
        count.parse().map_err(work_error(self.what))
    }

    /// Adds a checked pack to the repository.
    pub(super) fn add_pack(&self, pack: &Path) -> Result<(), WorkError> {
        let pack = File::open(pack).map_err(work_error(self.what))?;
        let git = self.git(&self.paths.objects_dir())?;
        let added = git.run_with_input(["index-pack", "--stdin"], Input::File(&pack));
        added.map(drop).map_err(work_error(self.what))
    }

    fn is_descendant(&self, git: &Git) -> Result<bool, GitError> {
        let arguments = ["merge-base", "--is-ancestor", self.old, self.tip];
        let output = git.output(arguments, Input::Nothing)?;
        match output.exit_code {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(output.into_error()),
        }
    }

    fn require_commit(&self, git: &Git) -> Result<(), WorkError> {
        let kind = git.line(["cat-file", "-t", self.tip]).map_err(work_error(self.what))?;
        if kind == "commit" {
            return Ok(());
        }
        Err(self.refuse(format!("{} is a {kind} and not a commit", self.tip)))
    }

    /// Writes the index of a pack: it names objects by their contents.
    fn index(&self, git: &Git, options: &[&str], pack: &Path) -> Result<(), WorkError> {
        let options = ["index-pack"].into_iter().chain(options.iter().copied()).map(OsStr::new);
        let arguments = options.chain([pack.as_os_str()]);
        let indexed = git.run_with_input(arguments, Input::File(self.directory.lock()));
        indexed.map(drop).map_err(work_error(self.what))
    }

    fn git(&self, objects: &Path) -> Result<Git, WorkError> {
        let git = object_view::git_over(self.state, self.paths, self.tip, objects)?;
        // A small file can declare a huge size.
        let git = git.with_env("GIT_ALLOC_LIMIT", self.limits.bytes.to_string());
        Ok(git.with_timeout(TIMEOUT))
    }

    /// Creates an empty object store.
    fn store(&self, name: &str) -> io::Result<PathBuf> {
        let objects = self.directory.path().join(name);
        fs::create_dir_all(objects.join("info"))?;
        fs::create_dir_all(objects.join("pack"))?;
        Ok(objects)
    }

    /// Makes an object store borrow the objects of the repository.
    fn borrow(&self, objects: &Path) -> io::Result<()> {
        let known = self.paths.objects_dir();
        let known = known.as_os_str().as_bytes();
        if known.contains(&b'\n') {
            return Err(io::Error::other("the path of the repository contains a line break"));
        }
        fs::write(objects.join("info/alternates"), [known, b"\n"].concat())
    }

    fn refuse(&self, why: String) -> WorkError {
        WorkError { what: self.what.to_owned(), why, caused_by_agent: false }
    }
}
