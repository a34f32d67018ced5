//! Objects of others in a directory of their own, until it is certain that they are wanted: what is refused leaves
//! nothing in the repository.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::bundle::{self, BundleError, is_object_name};
use super::command::{Git, GitError, Input};
use super::free_space::has_room;
use super::timeout::{Timeout, Until};

const MIB: u64 = 1024 * 1024;
/// The maximum size of one allocation of git while it reads objects of others, besides the size of the pack: a small
/// pack can hold huge objects.
const MAX_ALLOCATION: u64 = 512 * MIB;
/// How much memory git may take for that, besides eight times the size of the pack.
const MAX_MEMORY: u64 = 1024 * MIB;
/// How much memory git may take to read the objects together with those of the repository, besides eight times the size
/// of the pack.
const MAX_READ_MEMORY: u64 = 2048 * MIB;
/// How many directories a tree may have within each other, where git limits that. Each takes two bytes of a path at
/// least, so no file can be deeper.
pub(super) const MAX_TREE_DEPTH: (&str, &str) = ("core.maxTreeDepth", "2048");
/// How long git may take for that, besides a second for each MiB of the pack.
const MIN_TIME: Duration = Duration::from_secs(60);
/// How many objects a bundle may have whose objects are listed.
const MAX_LISTED_OBJECTS: usize = 500_000;
/// The longest line about an object of a pack: its offset, name and checksum.
const MAX_LISTED_LINE: usize = 100;
/// How long listing the objects of a pack may take.
const LIST_LIMIT: Duration = Duration::from_secs(120);
/// How much is written to see whether this machine can store objects.
const PROBE_BYTES: u64 = MIB;
/// How many files git makes for a pack, at most.
const FILES_OF_A_PACK: u64 = 16;
/// How much of git's messages is passed on.
const MAX_MESSAGE_CHARS: usize = 600;
/// The maximum length of the part of a bundle before its pack.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// The header of a pack: `PACK`, its version, and the number of its objects.
const PACK_HEADER_BYTES: usize = 12;
/// Git removes directories with this prefix that were left behind.
const PREFIX: &str = "tmp_objdir-incoming-";
/// Files of a pack in the order in which they appear in a repository. A pack without an index does not count.
const EXTENSIONS: [&str; 3] = ["pack", "rev", "idx"];

/// The objects of a bundle. They are removed when this is dropped, unless they were accepted.
#[derive(Debug)]
pub struct Quarantine {
    directory: TempDir,
    /// The objects of the repository.
    objects: PathBuf,
    git: Git,
    /// The objects that its sender put into it, in order, if they were listed.
    sent: Option<Vec<ObjectName>>,
}

/// The name of an object. One by SHA-1 is shorter, and has zeros at its end.
type ObjectName = [u8; 32];

/// The pack of a bundle.
struct Pack {
    /// Where it begins in the file.
    start: u64,
    length: u64,
    /// How many objects its sender put into it.
    count: usize,
}

impl Quarantine {
    /// Reads the objects of a bundle from a file. Git checks each of them, and that nothing is missing. `base` is a
    /// commit of this repository that they build on.
    pub fn receive(git: &Git, bundle: &mut File, base: Option<&str>) -> Result<Self, BundleError> {
        let pack = read_header(bundle)?;
        let objects = object_directory(git)?;
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&objects);
        let directory = made.map_err(at("make a directory in", &objects))?;
        let packs = directory.path().join("pack");
        std::fs::create_dir(&packs).map_err(at("make", &packs))?;
        let inside = git
            .clone()
            .with_settings([MAX_TREE_DEPTH])
            .with_timeout(bundle::TIMEOUT)
            .with_max_memory(max_memory(MAX_READ_MEMORY, &pack))
            .with_env("GIT_OBJECT_DIRECTORY", directory.path())
            .with_env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(&objects)?);
        let received = Self { directory, objects, git: inside, sent: None };
        received.index(bundle, &pack, base)?;
        Ok(received)
    }

    /// The same for a bundle in memory. Its objects are listed, so it may not have too many.
    pub fn receive_bytes(
        git: &Git,
        bundle: &[u8],
        base: Option<&str>,
    ) -> Result<Self, BundleError> {
        let mut file = bundle::temporary_file(&object_directory(git)?)?;
        file.write_all(bundle).map_err(|error| GitError::io("write a bundle", error))?;
        let count = read_header(&mut file)?.count;
        if count > MAX_LISTED_OBJECTS {
            return Err(BundleError::TooManyObjects { limit: MAX_LISTED_OBJECTS });
        }
        let mut received = Self::receive(git, &mut file, base)?;
        received.sent = Some(received.list(count)?);
        Ok(received)
    }

    /// Git that sees these objects and those of the repository, with limited time and memory. If it fails or takes too
    /// long, the objects can be the reason.
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// Whether an object is in a bundle whose objects were listed. One that git took from the repository to complete the
    /// bundle is not.
    pub fn has(&self, object: &str) -> bool {
        let sent = self.sent.as_deref().unwrap_or_default();
        object_name(object).is_some_and(|name| sent.binary_search(&name).is_ok())
    }

    /// Moves the objects into the repository.
    pub fn accept(self) -> Result<(), BundleError> {
        let from = self.directory.path().join("pack");
        let to = self.objects.join("pack");
        std::fs::create_dir_all(&to).map_err(at("make", &to))?;
        for extension in EXTENSIONS {
            for file in files_with(&from, extension)? {
                let Some(name) = file.file_name() else { continue };
                std::fs::rename(&file, to.join(name)).map_err(at("move", &file))?;
            }
        }
        Ok(())
    }

    /// Has git check and index the pack. Git exits with the same code for broken objects and for a machine that fails,
    /// so the machine is tried then; if it works, and git refuses the pack again, the pack is at fault.
    fn index(&self, bundle: &mut File, pack: &Pack, base: Option<&str>) -> Result<(), BundleError> {
        let first = match self.index_once(bundle, pack) {
            Ok(()) => return Ok(()),
            Err(error @ GitError::Failed { exit_code: Some(128), .. }) => error,
            Err(error) => return Err(interrupted(error)),
        };
        self.require_working_store(pack.length, base)?;
        match self.index_once(bundle, pack) {
            Ok(()) => Ok(()),
            Err(GitError::Failed { exit_code: Some(128), stderr, .. }) => {
                Err(BundleError::Corrupt(stderr.chars().take(MAX_MESSAGE_CHARS).collect()))
            }
            // What is told is why git refused it.
            Err(GitError::Failed { exit_code: Some(_), .. }) => {
                Err(BundleError::Interrupted(first))
            }
            Err(error) => Err(interrupted(error)),
        }
    }

    fn index_once(&self, bundle: &mut File, pack: &Pack) -> Result<(), GitError> {
        let sought = bundle.seek(SeekFrom::Start(pack.start));
        sought.map_err(|error| GitError::io("read a bundle", error))?;
        let limit = MIN_TIME.saturating_add(Duration::from_secs(pack.length / MIB));
        let git = self
            .git
            .clone()
            .with_timeout(Timeout { limit, ..bundle::TIMEOUT })
            .with_max_memory(max_memory(MAX_MEMORY, pack))
            .with_env("GIT_ALLOC_LIMIT", MAX_ALLOCATION.saturating_add(pack.length).to_string());
        // Each thread would need as much memory.
        let index = ["index-pack", "--stdin", "--fix-thin", "--strict", "--threads=1"];
        git.run_with_input(index, Input::File(bundle)).map(drop)
    }

    /// Fails if this machine cannot store as much as was sent, or cannot read the repository.
    fn require_working_store(&self, length: u64, base: Option<&str>) -> Result<(), GitError> {
        let probe = self.directory.path().join("probe");
        let needed = length.saturating_mul(2);
        let zeros = io::repeat(0).take(needed.min(PROBE_BYTES));
        let written = File::create(&probe).and_then(|mut file| {
            io::copy(&mut { zeros }, &mut file)?;
            file.sync_all()?;
            match has_room(self.directory.path(), FILES_OF_A_PACK, needed)? {
                true => Ok(()),
                false => Err(io::ErrorKind::StorageFull.into()),
            }
        });
        written.map_err(at("write", &probe))?;
        std::fs::remove_file(&probe).map_err(at("remove", &probe))?;
        let write = ["hash-object", "-w", "--stdin"];
        let name = self.git.run_with_input(write, Input::Bytes(b"probe"))?;
        let name = String::from_utf8_lossy(&name).trim().to_owned();
        self.git.run(["cat-file", "blob", &name])?;
        if let Some(base) = base {
            self.git.run(["rev-list", "--objects", "--max-count=1", base])?;
        }
        Ok(())
    }

    /// The names of the objects that the sender put into the pack: git appends those that it takes from the repository.
    fn list(&self, count: usize) -> Result<Vec<ObjectName>, BundleError> {
        let unreadable = |error: io::Error| GitError::io("read a list of objects", error);
        // Git appends at most one for each that was sent.
        let limit = count.saturating_mul(2 * MAX_LISTED_LINE);
        let mut all = Vec::new();
        for index in files_with(&self.directory.path().join("pack"), "idx")? {
            let index = File::open(&index).map_err(at("open", &index))?;
            let mut listing = bundle::temporary_file(self.directory.path())?;
            let until = Until { limit: LIST_LIMIT, is_cancelled: &|| false };
            let into = (&mut listing, limit);
            let is_whole = self.git.run_into(&["show-index"], Input::File(&index), into, until);
            if !is_whole.map_err(interrupted)? {
                return Err(BundleError::TooManyObjects { limit: count });
            }
            listing.seek(SeekFrom::Start(0)).map_err(unreadable)?;
            for line in BufReader::new(listing).lines() {
                all.extend(offset_and_name(&line.map_err(unreadable)?));
            }
        }
        all.sort_unstable();
        let mut sent: Vec<ObjectName> = all.into_iter().take(count).map(|(_, name)| name).collect();
        sent.sort_unstable();
        Ok(sent)
    }
}

fn max_memory(least: u64, pack: &Pack) -> u64 {
    least.saturating_add(pack.length.saturating_mul(8))
}

/// Where the objects of a repository are.
fn object_directory(git: &Git) -> Result<PathBuf, GitError> {
    let objects = git.directory().join(git.line(["rev-parse", "--git-path", "objects"])?);
    std::path::absolute(&objects).map_err(at("find", &objects))
}

/// A line of `git show-index`: the offset, the name and the checksum of an object.
fn offset_and_name(line: &str) -> Option<(u64, ObjectName)> {
    let mut words = line.split(' ');
    let offset = words.next()?.parse().ok()?;
    Some((offset, object_name(words.next()?)?))
}

fn object_name(text: &str) -> Option<ObjectName> {
    if !is_object_name(text) {
        return None;
    }
    let mut name = ObjectName::default();
    for (byte, digits) in name.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(name)
}

/// Where the pack of a bundle is.
fn read_header(bundle: &mut File) -> Result<Pack, BundleError> {
    let unreadable = |error: io::Error| GitError::io("read a bundle", error);
    let length = bundle.seek(SeekFrom::End(0)).map_err(unreadable)?;
    bundle.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    let mut first = Vec::new();
    let limit = u64::try_from(MAX_HEADER_BYTES).unwrap_or(u64::MAX);
    (&*bundle).take(limit).read_to_end(&mut first).map_err(unreadable)?;
    let is_bundle = first.starts_with(b"# v2 git bundle\n")
        || first.starts_with(b"# v3 git bundle\n@object-format=sha256\n");
    let end = first.windows(2).position(|pair| pair == b"\n\n").map(|end| end + 2);
    let (true, Some(end)) = (is_bundle, end) else { return Err(BundleError::Malformed) };
    let header = first.get(end..).and_then(|pack| pack.first_chunk::<PACK_HEADER_BYTES>());
    let Some(&[b'P', b'A', b'C', b'K', _, _, _, _, a, b, c, d]) = header else {
        return Err(BundleError::Malformed);
    };
    let start = u64::try_from(end).unwrap_or(u64::MAX);
    let count = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    Ok(Pack { start, length: length.saturating_sub(start), count })
}

/// What a failure of git means, if git may have failed because of the objects.
fn interrupted(error: GitError) -> BundleError {
    match error {
        GitError::Failed { .. } | GitError::TimedOut { .. } => BundleError::Interrupted(error),
        GitError::Missing { .. }
        | GitError::Unsupported(_)
        | GitError::UnexpectedOutput { .. }
        | GitError::Io { .. } => BundleError::Git(error),
    }
}

fn files_with(directory: &Path, extension: &str) -> Result<Vec<PathBuf>, GitError> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(at("read", directory))? {
        let path = entry.map_err(at("read", directory))?.path();
        if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    Ok(files)
}

/// A path in quotes: git separates directories with colons.
fn quoted(path: &Path) -> Result<String, GitError> {
    let text = path.to_str().ok_or_else(|| {
        GitError::io(format!("use {}", path.display()), io::Error::other("it is not UTF-8"))
    })?;
    Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

fn at(action: &str, path: &Path) -> impl FnOnce(io::Error) -> GitError {
    let action = format!("{action} {}", path.display());
    move |error| GitError::io(action, error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use bailiwick_testkit::Scratch;

    use super::*;
    use crate::git::bundle::create_bundle;

    const LIMIT: usize = 1 << 20;

    fn objects(scratch: &Scratch) -> Vec<String> {
        let list_objects = ["cat-file", "--batch-check=%(objectname)", "--batch-all-objects"];
        scratch.git(&list_objects).lines().map(str::to_owned).collect()
    }

    /// Two repositories with the same commit, and a further commit in the first.
    fn pair() -> (Scratch, Scratch, String, String) {
        let (from, to) = (Scratch::repository(), Scratch::repository());
        let text: String = (0..500).map(|number| format!("{}\n", number * number)).collect();
        from.write("src/a.txt", &text);
        let base = from.commit("first");
        to.git(&["fetch", "--quiet", &from.root().display().to_string(), "HEAD"]);
        from.write("src/a.txt", &format!("{text}more\n"));
        let commit = from.commit("second");
        (from, to, base, commit)
    }

    #[test]
    fn refused_objects_leave_no_files_and_accepted_ones_are_stored() {
        let (from, to, base, commit) = pair();
        let (from_git, git) = (Git::at(from.root()), Git::at(to.root()));
        let bundle =
            create_bundle(&from_git, (&[&commit], &[&base]), &std::env::temp_dir(), LIMIT).unwrap();
        let before = objects(&to);
        let received = Quarantine::receive_bytes(&git, &bundle, Some(&base)).unwrap();
        received.git().run(["cat-file", "-e", &commit]).unwrap();
        assert!(git.run(["cat-file", "-e", &commit]).is_err(), "it is not in the repository yet");
        assert!(received.has(&commit) && !received.has(&base));
        drop(received);
        let store = to.root().join(".git/objects");
        let remaining = || {
            let names = std::fs::read_dir(&store).unwrap().flatten();
            names.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)).count()
        };
        assert_eq!((objects(&to), remaining()), (before.clone(), 0));
        Quarantine::receive_bytes(&git, &bundle, Some(&base)).unwrap().accept().unwrap();
        assert_eq!(remaining(), 0);
        assert!(objects(&to).len() > before.len());
        git.run(["cat-file", "-e", &commit]).unwrap();
        // The same bundle again changes nothing.
        Quarantine::receive_bytes(&git, &bundle, Some(&base)).unwrap().accept().unwrap();
    }

    /// Git completes a thin pack with objects of the repository: those were not sent.
    #[test]
    fn objects_that_complete_a_thin_pack_were_not_sent() {
        let (from, to, base, commit) = pair();
        let bundle = create_bundle(
            &Git::at(from.root()),
            (&[&commit], &[&base]),
            &std::env::temp_dir(),
            LIMIT,
        )
        .unwrap();
        let git = Git::at(to.root());
        let received = Quarantine::receive_bytes(&git, &bundle, Some(&base)).unwrap();
        let old = to.git(&["rev-parse", &format!("{base}:src/a.txt")]).trim().to_owned();
        let new = from.git(&["rev-parse", &format!("{commit}:src/a.txt")]).trim().to_owned();
        let index = files_with(&received.directory.path().join("pack"), "idx").unwrap().remove(0);
        let file = File::open(index).unwrap();
        let listed = received.git().run_with_input(["show-index"], Input::File(&file)).unwrap();
        let listed = String::from_utf8(listed).unwrap();
        assert!(listed.contains(&old), "the control: git has appended the old file");
        assert!(received.has(&new) && !received.has(&old));
    }

    #[test]
    fn bundle_with_too_many_objects_is_refused() {
        let (from, to, base, commit) = pair();
        let from_git = Git::at(from.root());
        let bundle =
            create_bundle(&from_git, (&[&commit], &[&base]), &std::env::temp_dir(), LIMIT).unwrap();
        let git = Git::at(to.root());
        Quarantine::receive_bytes(&git, &bundle, Some(&base)).unwrap();
        let pack = bundle.windows(4).position(|four| four == b"PACK").unwrap();
        for (count, is_refused) in [(MAX_LISTED_OBJECTS + 1, true), (MAX_LISTED_OBJECTS, false)] {
            let mut bundle = bundle.clone();
            let count = u32::try_from(count).unwrap().to_be_bytes();
            bundle[pack + 8..pack + 12].copy_from_slice(&count);
            let refused = Quarantine::receive_bytes(&git, &bundle, Some(&base)).unwrap_err();
            let found = matches!(refused, BundleError::TooManyObjects { .. });
            assert_eq!(found, is_refused, "{refused:?}");
        }
    }

    /// A small pack can make git use all memory or time; that is not a temporary failure of the machine.
    #[test]
    fn git_that_uses_too_much_is_stopped_and_not_reported_as_a_machine_error() {
        let scratch = Scratch::repository();
        let git = Git::at(scratch.root());
        let large = vec![b'x'; 64 << 20];
        let write = ["hash-object", "--stdin"];
        let within = |bytes: u64| {
            let git = git.clone().with_max_memory(bytes);
            git.run_with_input(write, Input::Bytes(&large))
        };
        assert!(within(1 << 30).is_ok(), "the control");
        let refused = within(16 << 20).unwrap_err();
        assert!(matches!(refused, GitError::Failed { .. }), "{refused:?}");
        assert!(matches!(interrupted(refused), BundleError::Interrupted(_)));
        let slow = GitError::TimedOut { command: String::new(), reason: String::new() };
        assert!(matches!(interrupted(slow), BundleError::Interrupted(_)));
        let full = GitError::io("write", io::ErrorKind::StorageFull.into());
        assert!(matches!(interrupted(full), BundleError::Git(_)));
    }

    #[test]
    fn failing_machine_is_distinguished_from_a_damaged_bundle() {
        let (from, to, base, commit) = pair();
        let (from_git, git) = (Git::at(from.root()), Git::at(to.root()));
        let mut bundle =
            create_bundle(&from_git, (&[&commit], &[]), &std::env::temp_dir(), LIMIT).unwrap();
        let store = to.root().join(".git/objects");
        let set_mode = |mode: u32| {
            std::fs::set_permissions(&store, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        // Root may write everywhere.
        if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
            set_mode(0o500);
            let refused = Quarantine::receive_bytes(&git, &bundle, Some(&base));
            set_mode(0o700);
            assert!(matches!(refused, Err(BundleError::Git(_))), "{refused:?}");
        }
        // The base is missing: that is about the repository, whatever git reports about the bundle.
        let middle = bundle.len() - 30;
        bundle[middle] ^= 1;
        let unknown = "1".repeat(40);
        let refused = Quarantine::receive_bytes(&git, &bundle, Some(&unknown));
        assert!(matches!(refused, Err(BundleError::Git(_))), "{refused:?}");
        let refused = Quarantine::receive_bytes(&git, &bundle, Some(&base));
        assert!(matches!(refused, Err(BundleError::Corrupt(_))), "{refused:?}");
    }
}
