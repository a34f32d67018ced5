//! Comparing files with a commit by the names of their blobs.

use bailiwick_source_control::Repository;
use bailiwick_source_control::git::CommittedFiles;
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, Scratch};

use crate::random_tree;

fn committed(scratch: &Scratch, prefix: &str) -> Option<CommittedFiles> {
    let repository = Repository::discover(&scratch.root()).unwrap();
    repository.start_listing(prefix).unwrap().finish().unwrap()
}

#[test]
fn committed_content_is_distinguished_from_any_other() {
    let mut random = Random::rotating("listings");
    for case in 0..Depth::from_env().cases(60) {
        let scratch = Scratch::bare();
        let format = ["--object-format=sha1", "--object-format=sha256"][case as usize % 2];
        scratch.git(&["init", "--quiet", format]);
        let prefix = ["kit", "deep er/ünd", "we*ird"][case as usize % 3];
        let count = 1 + random.below(30);
        let files = random_tree::files(&mut random, count);
        for (path, text) in &files {
            scratch.write(&format!("{prefix}/{path}"), text);
        }
        scratch.write("beside", "not ours");
        scratch.commit("first");
        for path in files.keys() {
            scratch.write(&format!("{prefix}/{path}"), "changed since");
        }
        let committed = committed(&scratch, prefix).unwrap();
        for (path, text) in &files {
            assert!(committed.matches(path, Some(text)), "{path:?}");
            assert!(!committed.matches(path, Some(&format!("{text} "))), "{path:?}");
            assert!(!committed.matches(path, Some("changed since")), "{path:?}");
            assert!(!committed.matches(path, None), "{path:?}");
            let absent = format!("{path}/below");
            assert!(committed.matches(&absent, None), "{absent:?}");
            assert!(!committed.matches(&absent, Some("")), "{absent:?}");
        }
        assert!(committed.matches("beside", None), "a file outside of the prefix does not match");
    }
}

#[test]
fn link_or_submodule_does_not_match_its_target() {
    let scratch = Scratch::repository();
    scratch.write("kit/plain", "text");
    let commit = scratch.commit("first");
    std::os::unix::fs::symlink("plain", scratch.root().join("kit/link")).unwrap();
    scratch.git(&["add", "--all"]);
    let submodule = format!("160000,{commit},kit/submodule");
    scratch.git(&["update-index", "--add", "--cacheinfo", &submodule]);
    scratch.git(&["commit", "--quiet", "-m", "odd"]);
    let committed = committed(&scratch, "kit").unwrap();
    assert!(committed.matches("plain", Some("text")));
    for name in ["link", "submodule"] {
        assert!(!committed.matches(name, Some("text")), "{name}");
        assert!(!committed.matches(name, None), "{name}");
    }
}

#[test]
fn listing_is_empty_without_a_commit_or_a_directory() {
    let scratch = Scratch::repository();
    assert_eq!(committed(&scratch, "kit"), None);
    scratch.write("kit/x", "text");
    scratch.write("file", "text");
    scratch.commit("first");
    for prefix in ["no-such", "file", "kit/x", "--help"] {
        assert_eq!(committed(&scratch, prefix), None, "{prefix:?}");
    }
    for (prefix, path) in [("kit", "x"), ("kit/", "x"), ("", "kit/x")] {
        let committed = committed(&scratch, prefix).unwrap();
        assert!(committed.matches(path, Some("text")), "{prefix:?}");
    }
}
