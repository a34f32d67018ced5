//! Commits that travel from one machine to another, as a git bundle.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::Duration;

use thiserror::Error;

use super::command::{Git, GitError, Input};
use super::quarantine::Quarantine;
use super::timeout::{Timeout, Until};

/// How many commits that the receiver has are considered.
pub const MAX_KNOWN_COMMITS: usize = 256;

/// The name under which the commits of a bundle are listed in it.
const REFERENCE: &str = "refs/bailiwick/bundle";
/// How long git may take to pack commits.
const PACK_LIMIT: Duration = Duration::from_secs(1_200);
/// How long git may take for files of others.
pub(super) const TIMEOUT: Timeout = Timeout {
    grace: Duration::from_secs(120),
    limit: Duration::from_secs(480),
    find_obstacle: |_| None,
};

#[derive(Debug, Error)]
pub enum BundleError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("{0}")]
    Unreadable(String),
    #[error("it is no git bundle")]
    Malformed,
    /// Git refuses the objects.
    #[error("its objects are broken or incomplete: {0}")]
    Corrupt(String),
    /// Git did not come to an end with the objects. They can be the reason, and so can this machine.
    #[error("git cannot read its objects: {0}")]
    Interrupted(GitError),
    #[error("the commits take more than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("it has more than {limit} objects")]
    TooManyObjects { limit: usize },
}

/// A bundle with everything that these commits need, without what `has` needs. Commits of `has` that are not in this
/// repository are ignored, and so are those after the first `MAX_KNOWN_COMMITS`. It is written to a file in `directory`
/// first.
pub fn create_bundle(
    git: &Git,
    (commits, has): (&[&str], &[&str]),
    directory: &Path,
    limit: usize,
) -> Result<Vec<u8>, BundleError> {
    let mut file = temporary_file(directory)?;
    write_bundle(git, (commits, has), limit, &mut file, &|| false)?;
    let mut bundle = Vec::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bundle));
    read.map_err(|error| GitError::io("read a bundle", error))?;
    Ok(bundle)
}

/// Writes the same into a file, unless it is cancelled. No more than a small part of it is in memory.
pub fn write_bundle(
    git: &Git,
    (commits, has): (&[&str], &[&str]),
    limit: usize,
    file: &mut File,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<(), BundleError> {
    let known = existing_commits(git, has.get(..MAX_KNOWN_COMMITS).unwrap_or(has))?;
    let mut header = match commits.iter().any(|commit| commit.len() == 64) {
        true => "# v3 git bundle\n@object-format=sha256\n".to_owned(),
        false => "# v2 git bundle\n".to_owned(),
    };
    let mut revisions = String::new();
    for commit in &known {
        header += &format!("-{commit}\n");
        revisions += &format!("^{commit}\n");
    }
    for (number, commit) in commits.iter().enumerate() {
        header += &format!("{commit} {REFERENCE}/{number}\n");
        revisions += &format!("{commit}\n");
    }
    header.push('\n');
    let written = file.write_all(header.as_bytes());
    written.map_err(|error| GitError::io("write a bundle", error))?;
    let pack = ["pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q"];
    let space = limit.saturating_sub(header.len());
    let until = Until { limit: PACK_LIMIT, is_cancelled };
    match git.run_into(&pack, Input::Bytes(revisions.as_bytes()), (file, space), until)? {
        true => Ok(()),
        false => Err(BundleError::TooLarge { limit }),
    }
}

/// A file without a name, for a bundle.
pub fn temporary_file(directory: &Path) -> Result<File, GitError> {
    tempfile::tempfile_in(directory).map_err(|error| {
        GitError::io(format!("make a file for a bundle in {}", directory.display()), error)
    })
}

/// Those of these names that are full names of commits in a repository.
pub fn existing_commits<'a>(git: &Git, names: &[&'a str]) -> Result<Vec<&'a str>, GitError> {
    let names: Vec<&'a str> = names.iter().copied().filter(|name| is_object_name(name)).collect();
    if names.is_empty() {
        return Ok(names);
    }
    let input: String = names.iter().map(|name| format!("{name}\n")).collect();
    let listed =
        git.run_with_input(["cat-file", "--batch-check"], Input::Bytes(input.as_bytes()))?;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let commits: BTreeSet<&str> = listed.lines().filter_map(listed_commit).collect();
    Ok(names.into_iter().filter(|name| commits.contains(name)).collect())
}

/// The name in a line `<name> commit <size>`.
fn listed_commit(line: &str) -> Option<&str> {
    let mut words = line.split(' ');
    let name = words.next()?;
    (words.next() == Some("commit")).then_some(name)
}

/// Adds the objects of a bundle to a repository. Git checks each of them, and that nothing is missing; no reference
/// changes.
pub fn unpack_bundle(git: &Git, bundle: &[u8]) -> Result<(), BundleError> {
    Quarantine::receive_bytes(git, bundle, None)?.accept()
}

/// The same for a bundle in a file.
pub fn unpack_bundle_file(git: &Git, bundle: &mut File) -> Result<(), BundleError> {
    Quarantine::receive(git, bundle, None)?.accept()
}

/// Whether a text is the full name of an object.
pub fn is_object_name(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use bailiwick_testkit::Scratch;

    use super::*;

    const LIMIT: usize = 1 << 20;

    #[test]
    fn commits_arrive_complete_and_git_accepts_the_bundle() {
        let (from, to) = (Scratch::repository(), Scratch::repository());
        let long: String = (0..2_000).map(|number| format!("{}\n", number * number)).collect();
        from.write("src/a.txt", &long);
        let first = from.commit("first");
        from.write("src/b.txt", "two\n");
        let second = from.commit("second");
        let (from_git, to_git) = (Git::at(from.root()), Git::at(to.root()));
        let complete =
            create_bundle(&from_git, (&[&first], &[]), &std::env::temp_dir(), LIMIT).unwrap();
        let file = from.place().join("whole.bundle");
        std::fs::write(&file, &complete).unwrap();
        from.git(&["bundle", "verify", file.to_str().unwrap()]);
        unpack_bundle(&to_git, &complete).unwrap();
        assert_eq!(to.git(&["show", &format!("{first}:src/a.txt")]), long);
        let unknown = "0".repeat(40);
        let increment = create_bundle(
            &from_git,
            (&[&second], &[&first, &unknown]),
            &std::env::temp_dir(),
            LIMIT,
        )
        .unwrap();
        assert!(increment.len() < complete.len(), "{} {}", increment.len(), complete.len());
        unpack_bundle(&to_git, &increment).unwrap();
        assert_eq!(to.git(&["show", &format!("{second}:src/b.txt")]), "two\n");
        assert_eq!(to.git(&["rev-list", "--count", &second]).trim(), "2");
    }

    #[test]
    fn incomplete_damaged_or_large_bundle_is_refused() {
        let (from, to) = (Scratch::repository(), Scratch::repository());
        from.write("src/a.txt", "one\n");
        let first = from.commit("first");
        from.write("src/b.txt", "two\n");
        let second = from.commit("second");
        let (from_git, to_git) = (Git::at(from.root()), Git::at(to.root()));
        // The commit that it builds on is missing.
        let increment =
            create_bundle(&from_git, (&[&second], &[&first]), &std::env::temp_dir(), LIMIT)
                .unwrap();
        assert!(unpack_bundle(&to_git, &increment).is_err());
        let mut complete =
            create_bundle(&from_git, (&[&second], &[]), &std::env::temp_dir(), LIMIT).unwrap();
        unpack_bundle(&to_git, &complete).unwrap();
        let middle = complete.len() - 30;
        complete[middle] ^= 1;
        let broken = unpack_bundle(&to_git, &complete);
        assert!(matches!(broken, Err(BundleError::Corrupt(_))), "{broken:?}");
        // The repository causes the error, not the bundle.
        let nowhere = unpack_bundle(&Git::at(to.place().join("nowhere")), &increment);
        assert!(matches!(nowhere, Err(BundleError::Git(_))), "{nowhere:?}");
        for wrong in [&b""[..], b"PACK", b"# v2 git bundle\n\n", b"# v9 git bundle\n\nPACK"] {
            assert!(matches!(unpack_bundle(&to_git, wrong), Err(BundleError::Malformed)));
        }
        let large = create_bundle(&from_git, (&[&second], &[]), &std::env::temp_dir(), 100);
        assert!(matches!(large, Err(BundleError::TooLarge { limit: 100 })));
    }

    #[test]
    fn packing_stops_when_it_is_cancelled() {
        let scratch = Scratch::repository();
        scratch.write("a.txt", "one\n");
        scratch.commit("first");
        let git = Git::at(scratch.root());
        // This git waits forever: the command reads a pipe without input.
        let (reader, _writer) = std::io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(reader));
        let run = |limit: Duration, is_cancelled: &(dyn Fn() -> bool + Sync)| {
            let mut file = temporary_file(scratch.place()).unwrap();
            let until = Until { limit, is_cancelled };
            let pack = ["pack-objects", "--revs", "--stdout", "-q"];
            git.run_into(&pack, Input::File(&pipe), (&mut file, LIMIT), until)
        };
        let hour = Duration::from_secs(3_600);
        for stopped in [run(hour, &|| true), run(Duration::ZERO, &|| false)] {
            assert!(matches!(stopped, Err(GitError::TimedOut { .. })), "{stopped:?}");
        }
    }

    #[test]
    fn only_full_names_of_commits_count_as_commits() {
        let scratch = Scratch::repository();
        scratch.write("a.txt", "one\n");
        let commit = scratch.commit("first");
        let tree = scratch.git(&["rev-parse", "HEAD^{tree}"]).trim().to_owned();
        let unknown = "1".repeat(40);
        let names = ["HEAD", &tree, &unknown, &commit];
        let git = Git::at(scratch.root());
        assert_eq!(existing_commits(&git, &names).unwrap(), [commit.as_str()]);
        assert!(existing_commits(&git, &["HEAD"]).unwrap().is_empty());
    }
}
