//! Commits that travel from one machine to another, as a git bundle.

use thiserror::Error;

use super::command::{Git, GitError, Input};

/// The name under which the commits of a bundle are listed in it.
const REFERENCE: &str = "refs/bailiwick/bundle";

#[derive(Debug, Error)]
pub enum BundleError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("{0}")]
    Unreadable(String),
    #[error("it is no git bundle")]
    Malformed,
    #[error("the commits take {length} bytes, and the limit is {limit}")]
    TooLarge { length: usize, limit: usize },
}

/// A bundle with everything that these commits need, without what `has` needs. Commits of `has` that are not in this
/// repository are ignored.
pub fn create_bundle(
    git: &Git,
    commits: &[&str],
    has: &[&str],
    limit: usize,
) -> Result<Vec<u8>, BundleError> {
    let mut known = Vec::new();
    for commit in has.iter().filter(|commit| is_object_name(commit)) {
        if git.succeeds(["cat-file", "-e", &format!("{commit}^{{commit}}")])? {
            known.push(*commit);
        }
    }
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
    let pack = ["pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q"];
    let pack = git.run_with_input(pack, Input::Bytes(revisions.as_bytes()))?;
    let mut bundle = header.into_bytes();
    bundle.extend(pack);
    match bundle.len() > limit {
        true => Err(BundleError::TooLarge { length: bundle.len(), limit }),
        false => Ok(bundle),
    }
}

/// Adds the objects of a bundle to a repository. Git checks each of them, and that nothing is missing; no reference
/// changes.
pub fn unpack_bundle(git: &Git, bundle: &[u8]) -> Result<(), BundleError> {
    let end = bundle.windows(2).position(|pair| pair == b"\n\n").ok_or(BundleError::Malformed)?;
    let (header, pack) = bundle.split_at(end + 2);
    let is_bundle = header.starts_with(b"# v2 git bundle\n")
        || header.starts_with(b"# v3 git bundle\n@object-format=sha256\n");
    if !is_bundle || !pack.starts_with(b"PACK") {
        return Err(BundleError::Malformed);
    }
    git.run_with_input(["index-pack", "--stdin", "--fix-thin", "--strict"], Input::Bytes(pack))?;
    Ok(())
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
    fn commits_arrive_with_all_that_they_need_and_git_accepts_the_bundle() {
        let (from, to) = (Scratch::repository(), Scratch::repository());
        let long: String = (0..2_000).map(|number| format!("{}\n", number * number)).collect();
        from.write("src/a.txt", &long);
        let first = from.commit("first");
        from.write("src/b.txt", "two\n");
        let second = from.commit("second");
        let (from_git, to_git) = (Git::at(from.root()), Git::at(to.root()));
        let whole = create_bundle(&from_git, &[&first], &[], LIMIT).unwrap();
        let file = from.place().join("whole.bundle");
        std::fs::write(&file, &whole).unwrap();
        from.git(&["bundle", "verify", file.to_str().unwrap()]);
        unpack_bundle(&to_git, &whole).unwrap();
        assert_eq!(to.git(&["show", &format!("{first}:src/a.txt")]), long);
        let unknown = "0".repeat(40);
        let more = create_bundle(&from_git, &[&second], &[&first, &unknown], LIMIT).unwrap();
        assert!(more.len() < whole.len(), "{} {}", more.len(), whole.len());
        unpack_bundle(&to_git, &more).unwrap();
        assert_eq!(to.git(&["show", &format!("{second}:src/b.txt")]), "two\n");
        assert_eq!(to.git(&["rev-list", "--count", &second]).trim(), "2");
    }

    #[test]
    fn a_bundle_that_is_incomplete_broken_or_large_is_refused() {
        let (from, to) = (Scratch::repository(), Scratch::repository());
        from.write("src/a.txt", "one\n");
        let first = from.commit("first");
        from.write("src/b.txt", "two\n");
        let second = from.commit("second");
        let (from_git, to_git) = (Git::at(from.root()), Git::at(to.root()));
        // What it builds on is not there.
        let more = create_bundle(&from_git, &[&second], &[&first], LIMIT).unwrap();
        assert!(unpack_bundle(&to_git, &more).is_err());
        let mut whole = create_bundle(&from_git, &[&second], &[], LIMIT).unwrap();
        unpack_bundle(&to_git, &whole).unwrap();
        let middle = whole.len() - 30;
        whole[middle] ^= 1;
        assert!(unpack_bundle(&to_git, &whole).is_err());
        for wrong in [&b""[..], b"PACK", b"# v2 git bundle\n\n", b"# v9 git bundle\n\nPACK"] {
            assert!(matches!(unpack_bundle(&to_git, wrong), Err(BundleError::Malformed)));
        }
        let large = create_bundle(&from_git, &[&second], &[], 100);
        assert!(matches!(large, Err(BundleError::TooLarge { limit: 100, .. })));
    }
}
