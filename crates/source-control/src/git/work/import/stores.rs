//! Two object stores of ours on the way from a layer to the repository.
//!
//! ```text
//! layer ── copied, packs indexed anew ──▶ raw ── what the branch has more ──▶ one pack
//! pack ── every object named by its content, and checked ──▶ checked ──▶ repository
//! ```
//!
//! A loose object in `raw` may not be what its name says. So nothing that was seen there is
//! believed: a pack carries contents without names, and whether the commits are whole and where
//! they come from is asked of `checked`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bailiwick_control::ports::WorkError;

use super::super::places::Places;
use super::super::private::PrivateDirectory;
use super::super::{plain, trouble};
use super::ImportLimits;
use super::objects::{Gathering, Taken};
use crate::git::command::{Git, GitError, Input};
use crate::git::timeout::Timeout;

/// As long as all of a layer may take.
const TIMEOUT: Timeout = Timeout {
    grace: Duration::from_secs(2),
    limit: Duration::from_secs(1_800),
    find_obstacle: |_| None,
};

/// The way of one branch from `old` to `tip`.
pub(super) struct Way<'a> {
    pub(super) places: &'a Places,
    pub(super) state: &'a Path,
    pub(super) directory: &'a PrivateDirectory,
    pub(super) limits: ImportLimits,
    pub(super) old: &'a str,
    pub(super) tip: &'a str,
    /// What was tried, for errors.
    pub(super) what: &'a str,
}

impl Way<'_> {
    /// Git over what the layer has, on top of what the repository has.
    pub(super) fn raw(&self, upper: &Path) -> Result<Git, WorkError> {
        let objects = self.store("raw").map_err(trouble(self.what))?;
        let mut gathering = Gathering {
            from: &upper.join("objects"),
            known: &self.places.objects(),
            to: &objects,
            length: self.tip.len(),
            limits: self.limits,
            taken: Taken::default(),
        };
        let packs = gathering.gather().map_err(trouble(self.what))?;
        let git = self.git(&objects)?;
        for pack in &packs {
            self.index(&git, &[], pack)?;
        }
        self.borrow(&objects).map_err(trouble(self.what))?;
        Ok(git)
    }

    /// What the branch has more than the repository, as a pack; nothing if it has nothing more.
    pub(super) fn pack(&self, raw: &Git) -> Result<Option<PathBuf>, WorkError> {
        let listed = self.missing(raw)?;
        if listed.is_empty() {
            return Ok(None);
        }
        let place = self.directory.path().join("packed");
        fs::create_dir(&place).map_err(trouble(self.what))?;
        let arguments = ["pack-objects".as_ref(), "-q".as_ref(), "--window=0".as_ref()];
        let prefix = place.join("pack");
        let arguments = arguments.into_iter().chain([prefix.as_os_str()]);
        let input = self.directory.lock_with(&listed).map_err(trouble(self.what))?;
        let printed = raw.run_with_input(arguments, Input::File(input)).map_err(trouble(self.what))?;
        let name = format!("pack-{}.pack", String::from_utf8_lossy(&printed).trim());
        let pack = place.join(name);
        let length = fs::metadata(&pack).map_err(trouble(self.what))?.len();
        if length > self.limits.bytes {
            return Err(self.refuse(format!(
                "the commits have {length} bytes, and {} is the most that is taken",
                self.limits.bytes
            )));
        }
        Ok(Some(pack))
    }

    /// Names of the objects that the repository's references do not reach.
    fn missing(&self, raw: &Git) -> Result<Vec<u8>, WorkError> {
        self.require_commit(raw)?;
        let format = ["for-each-ref", "--format=%(objectname)"];
        let known = self.places.git().line(format).map_err(trouble(self.what))?;
        let mut input = format!("{}\n^{}\n", self.tip, self.old);
        for known in known.lines() {
            input.push_str(&format!("^{known}\n"));
        }
        let arguments =
            ["rev-list", "--objects", "--no-object-names", "--ignore-missing", "--stdin"];
        let listed =
            raw.run_with_input(arguments, Input::Bytes(input.as_bytes())).map_err(trouble(self.what))?;
        let count = listed.iter().filter(|byte| **byte == b'\n').count();
        if u64::try_from(count).is_ok_and(|count| count <= self.limits.objects) {
            return Ok(listed);
        }
        Err(self.refuse(format!(
            "the commits have {count} objects, and {} is the most that is taken",
            self.limits.objects
        )))
    }

    /// Checks every object of the pack, and that the commits are whole and come after the old one;
    /// gives how many there are.
    pub(super) fn check(&self, pack: Option<&Path>) -> Result<u64, WorkError> {
        let objects = self.store("checked").map_err(trouble(self.what))?;
        self.borrow(&objects).map_err(trouble(self.what))?;
        let git = self.git(&objects)?;
        if let Some(pack) = pack {
            // Without the index that says what the objects were called before.
            let named = objects.join("pack").join(pack.file_name().unwrap_or_default());
            fs::hard_link(pack, &named).map_err(trouble(self.what))?;
            self.index(&git, &["--strict"], &named)?;
        }
        self.require_commit(&git)?;
        let run = |arguments: &[&str]| git.line(arguments).map_err(trouble(self.what));
        let not_old = format!("^{}", self.old);
        run(&["rev-list", "--objects", "--quiet", self.tip, &not_old])?;
        if !self.comes_after(&git).map_err(trouble(self.what))? {
            return Err(self.refuse(format!(
                "its history was rewritten: {} does not come after {}, where the repository has it",
                self.tip, self.old
            )));
        }
        let count = run(&["rev-list", "--count", self.tip, &not_old])?;
        count.parse().map_err(trouble(self.what))
    }

    /// Brings a pack that was checked into the repository, where it appears at once.
    pub(super) fn bring(&self, pack: &Path) -> Result<(), WorkError> {
        let pack = File::open(pack).map_err(trouble(self.what))?;
        let git = self.git(&self.places.objects())?;
        let brought = git.run_with_input(["index-pack", "--stdin"], Input::File(&pack));
        brought.map(drop).map_err(trouble(self.what))
    }

    fn comes_after(&self, git: &Git) -> Result<bool, GitError> {
        let arguments = ["merge-base", "--is-ancestor", self.old, self.tip];
        let output = git.output(arguments, Input::Nothing)?;
        match output.exit_code {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(output.into_error()),
        }
    }

    fn require_commit(&self, git: &Git) -> Result<(), WorkError> {
        let kind = git.line(["cat-file", "-t", self.tip]).map_err(trouble(self.what))?;
        if kind == "commit" {
            return Ok(());
        }
        Err(self.refuse(format!("{} is a {kind} and no commit", self.tip)))
    }

    /// Names the objects of a pack of ours by their contents.
    fn index(&self, git: &Git, options: &[&str], pack: &Path) -> Result<(), WorkError> {
        let options = ["index-pack"].into_iter().chain(options.iter().copied()).map(OsStr::new);
        let arguments = options.chain([pack.as_os_str()]);
        let indexed = git.run_with_input(arguments, Input::File(self.directory.lock()));
        indexed.map(drop).map_err(trouble(self.what))
    }

    fn git(&self, objects: &Path) -> Result<Git, WorkError> {
        let git = plain::over(self.state, self.places, self.tip, objects)?;
        // A small file can say that it is a huge one.
        let git = git.with_env("GIT_ALLOC_LIMIT", self.limits.bytes.to_string());
        Ok(git.with_timeout(TIMEOUT))
    }

    /// An empty store of ours.
    fn store(&self, name: &str) -> io::Result<PathBuf> {
        let objects = self.directory.path().join(name);
        fs::create_dir_all(objects.join("info"))?;
        fs::create_dir_all(objects.join("pack"))?;
        Ok(objects)
    }

    /// Has a store of ours borrow what the repository has.
    fn borrow(&self, objects: &Path) -> io::Result<()> {
        let known = self.places.objects();
        let known = known.as_os_str().as_bytes();
        if known.contains(&b'\n') {
            return Err(io::Error::other("the repository's path has more than one line"));
        }
        fs::write(objects.join("info/alternates"), [known, b"\n"].concat())
    }

    fn refuse(&self, why: String) -> WorkError {
        WorkError { what: self.what.to_owned(), why, of_tree: false }
    }
}
