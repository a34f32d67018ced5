//! Reading a commit gives the files of its clean checkout, without uncommitted ones.

use std::collections::BTreeSet;

use bailiwick_kit::{Tree, TreeError};
use bailiwick_source_control::{CommitTree, DirectoryTree, Git};
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, Scratch};

use crate::random_tree::{self, Files};

fn commit_tree(scratch: &Scratch, prefix: &str, directories: &[&str]) -> CommitTree {
    CommitTree::read(&Git::at(scratch.root()), "HEAD", prefix, directories).unwrap()
}

fn checkout(scratch: &Scratch, prefix: &str) -> DirectoryTree {
    DirectoryTree::new(scratch.root().join(prefix))
}

/// Writes and commits random files below `prefix`; returns both trees.
fn committed(
    random: &mut Random,
    scratch: &Scratch,
    prefix: &str,
) -> (Files, CommitTree, DirectoryTree) {
    let count = 1 + random.below(40);
    let files = random_tree::files(random, count);
    for (path, text) in &files {
        scratch.write(&format!("{prefix}/{path}"), text);
    }
    scratch.write("beside/the/prefix", "not ours");
    scratch.commit("random files");
    let tops = random_tree::tops(&files);
    let tops: Vec<&str> = tops.iter().map(String::as_str).collect();
    let tree = commit_tree(scratch, prefix, &tops);
    (files, tree, checkout(scratch, prefix))
}

const PREFIXES: [&str; 4] = [".bailiwick", "deep er/ünd/weiter", "we*ird", "kit"];

#[test]
fn commit_reads_like_its_clean_checkout() {
    let mut random = Random::rotating("trees");
    for case in 0..Depth::from_env().cases(100) {
        let scratch = Scratch::repository();
        let prefix = PREFIXES[case as usize % PREFIXES.len()];
        let (files, commit, directory) = committed(&mut random, &scratch, prefix);
        for (path, text) in &files {
            assert_eq!(commit.read(path).unwrap().as_ref(), Some(text), "{path:?}");
            assert_eq!(directory.read(path).unwrap().as_ref(), Some(text), "{path:?}");
        }
        for path in files.keys() {
            for absent in [format!("{path}x"), format!("no/{path}")] {
                assert_eq!(commit.read(&absent), Ok(None), "{absent:?}");
                assert_eq!(directory.read(&absent), Ok(None), "{absent:?}");
                assert_eq!(commit.list(&absent), Ok(vec![]), "{absent:?}");
                assert_eq!(directory.list(&absent), Ok(vec![]), "{absent:?}");
            }
            // A file in the place of a directory must not read as empty: that uncovers a lower layer.
            let below = format!("{path}/below");
            for tree in [&commit as &dyn Tree, &directory] {
                assert!(tree.read(&below).is_err() && tree.list(&below).is_err(), "{below:?}");
                assert!(tree.list(path).is_err(), "a file was listed as a directory: {path:?}");
            }
        }
        for path in random_tree::directories(&files) {
            let names: BTreeSet<String> = files
                .keys()
                .filter_map(|file| file.strip_prefix(&format!("{path}/")))
                .filter_map(|rest| rest.split('/').next().map(str::to_owned))
                .collect();
            let names: Vec<String> = names.into_iter().collect();
            assert_eq!(commit.list(&path).as_ref(), Ok(&names), "{path:?}");
            assert_eq!(directory.list(&path).as_ref(), Ok(&names), "{path:?}");
        }
    }
}

#[test]
fn root_lists_the_same_names_in_both_trees() {
    let mut random = Random::rotating("roots");
    let scratch = Scratch::repository();
    let (files, commit, directory) = committed(&mut random, &scratch, "kit");
    let names: Vec<String> = random_tree::tops(&files).into_iter().collect();
    assert_eq!(directory.list("").as_ref(), Ok(&names));
    assert_eq!(commit.list("").as_ref(), Ok(&names));
}

#[test]
fn directory_is_not_a_file_in_either_tree() {
    let scratch = Scratch::repository();
    scratch.write("kit/roles/x.toml/inner", "a directory where a file should be");
    scratch.commit("odd");
    let (commit, directory) = (commit_tree(&scratch, "kit", &["roles"]), checkout(&scratch, "kit"));
    let (of_commit, of_directory) = (commit.read("roles/x.toml"), directory.read("roles/x.toml"));
    assert_eq!(
        of_commit.is_err(),
        of_directory.is_err(),
        "the commit says {of_commit:?}, the checkout {of_directory:?}"
    );
}

#[test]
fn uncommitted_files_are_not_in_the_commit() {
    let scratch = Scratch::repository();
    for name in ["changed", "deleted", "staged", "same"] {
        scratch.write(&format!("kit/roles/{name}"), "committed");
    }
    scratch.write("kit/.gitignore", "ignored\n");
    scratch.commit("first");
    scratch.write("kit/roles/changed", "later");
    scratch.write("kit/roles/staged", "later");
    scratch.write("kit/roles/staged-new", "later");
    scratch.git(&["add", "kit/roles/staged", "kit/roles/staged-new"]);
    scratch.write("kit/roles/untracked", "later");
    scratch.write("kit/roles/ignored", "later");
    std::fs::remove_file(scratch.root().join("kit/roles/deleted")).unwrap();
    let names = |tree: &dyn Tree| tree.list("roles").unwrap();
    let text = |tree: &dyn Tree, name: &str| tree.read(&format!("roles/{name}")).unwrap();
    let commit = commit_tree(&scratch, "kit", &["roles"]);
    assert_eq!(names(&commit), ["changed", "deleted", "same", "staged"]);
    for name in names(&commit) {
        assert_eq!(text(&commit, &name).as_deref(), Some("committed"), "{name}");
    }
    // The control: the working copy contains all of them.
    let directory = checkout(&scratch, "kit");
    let present = ["changed", "ignored", "same", "staged", "staged-new", "untracked"];
    assert_eq!(names(&directory), present);
    assert_eq!(text(&directory, "changed").as_deref(), Some("later"));
}

#[test]
fn older_commit_keeps_its_files() {
    let scratch = Scratch::repository();
    scratch.write("kit/roles/x", "one");
    let first = scratch.commit("first");
    scratch.write("kit/roles/x", "two");
    let second = scratch.commit("second");
    for (commit, text) in [(first.as_str(), "one"), (second.as_str(), "two"), ("HEAD~1", "one")] {
        let git = Git::at(scratch.root().join("kit"));
        let tree = CommitTree::read(&git, commit, "kit", &["roles"]).unwrap();
        assert_eq!(tree.read("roles/x").unwrap().as_deref(), Some(text), "{commit}");
    }
    let unknown = CommitTree::read(&Git::at(scratch.root()), "no-such-commit", "kit", &["roles"]);
    assert!(unknown.is_err());
}

#[test]
fn only_files_below_the_prefix_are_read() {
    let scratch = Scratch::repository();
    for path in ["a/roles/x", "a/b/roles/x", "ab/roles/x", "roles/x", "a/other/x"] {
        scratch.write(path, path);
    }
    scratch.commit("first");
    for (prefix, path) in [("", "roles/x"), ("a", "a/roles/x"), ("a/", "a/roles/x")] {
        let tree = commit_tree(&scratch, prefix, &["roles"]);
        assert_eq!(tree.read("roles/x").unwrap().as_deref(), Some(path), "{prefix:?}");
        assert_eq!(tree.list("roles").unwrap(), ["x"]);
        for outside in ["a/roles/x", "other/x", "b/roles/x"] {
            assert_eq!(tree.read(outside), Ok(None), "{prefix:?} has {outside:?}");
        }
    }
    assert_eq!(commit_tree(&scratch, "nothing", &["roles"]).list("roles"), Ok(vec![]));
}

fn refused<T: std::fmt::Debug>(read: Result<T, TreeError>, path: &str) {
    match read {
        Ok(there) => panic!("{path:?} reads as {there:?}"),
        Err(error) => assert_eq!(error.path, path),
    }
}

fn symlink(scratch: &Scratch, target: &str, path: &str) {
    std::os::unix::fs::symlink(target, scratch.root().join(path)).unwrap();
}

#[test]
fn links_submodules_and_binary_files_are_errors_and_hide_no_other_file() {
    let scratch = Scratch::repository();
    scratch.write("kit/roles/plain", "text");
    let commit = scratch.commit("first");
    symlink(&scratch, "plain", "kit/roles/link");
    symlink(&scratch, "nowhere", "kit/roles/dangling");
    std::fs::write(scratch.root().join("kit/roles/bytes"), b"\xff\xfe\x00").unwrap();
    scratch.git(&["add", "--all"]);
    let submodule = format!("160000,{commit},kit/roles/submodule");
    scratch.git(&["update-index", "--add", "--cacheinfo", &submodule]);
    scratch.git(&["commit", "--quiet", "-m", "odd"]);
    let tree = commit_tree(&scratch, "kit", &["roles"]);
    for name in ["bytes", "dangling", "link", "submodule"] {
        refused(tree.read(&format!("roles/{name}")), &format!("roles/{name}"));
    }
    assert_eq!(tree.read("roles/plain").unwrap().as_deref(), Some("text"));
    assert_eq!(tree.list("roles").unwrap(), ["bytes", "dangling", "link", "plain", "submodule"]);
    refused(checkout(&scratch, "kit").read("roles/bytes"), "roles/bytes");
}

/// A kit behind a link must not look like a missing kit: the embedded one would be used.
#[test]
fn path_through_a_link_or_a_submodule_is_an_error() {
    let scratch = Scratch::repository();
    scratch.write("elsewhere/x.toml", "text");
    std::fs::create_dir(scratch.root().join("kit")).unwrap();
    symlink(&scratch, "../elsewhere", "kit/roles");
    let commit = scratch.commit("first");
    let submodule = format!("160000,{commit},kit/capabilities");
    scratch.git(&["update-index", "--add", "--cacheinfo", &submodule]);
    scratch.git(&["commit", "--quiet", "-m", "odd"]);
    let checkout = checkout(&scratch, "kit").read("roles/x.toml").unwrap();
    assert_eq!(checkout.as_deref(), Some("text"), "the control: the working copy has it");
    let tree = commit_tree(&scratch, "kit", &["roles", "capabilities"]);
    for directory in ["roles", "capabilities"] {
        assert!(tree.list(directory).is_err(), "{directory} was listed as empty");
        assert!(tree.read(&format!("{directory}/x.toml")).is_err(), "{directory}/x.toml is absent");
    }
}

#[test]
fn prefix_that_is_a_link_is_an_error() {
    let scratch = Scratch::repository();
    scratch.write("elsewhere/roles/x.toml", "text");
    symlink(&scratch, "elsewhere", ".bailiwick");
    scratch.commit("first");
    assert!(checkout(&scratch, ".bailiwick").read("roles/x.toml").unwrap().is_some());
    match CommitTree::read(&Git::at(scratch.root()), "HEAD", ".bailiwick", &["roles"]) {
        Err(_) => {}
        Ok(tree) => assert!(tree.list("roles").is_err(), "a kit behind a link reads as no kit"),
    }
}

#[test]
fn name_that_is_not_utf8_is_an_error_in_both_trees() {
    use std::os::unix::ffi::OsStrExt as _;
    let scratch = Scratch::repository();
    scratch.write("kit/roles/plain", "text");
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    std::fs::write(scratch.root().join("kit/roles").join(name), "text").unwrap();
    scratch.commit("first");
    assert!(checkout(&scratch, "kit").list("roles").is_err());
    match CommitTree::read(&Git::at(scratch.root()), "HEAD", "kit", &["roles"]) {
        Err(_) => {}
        Ok(tree) => {
            let listed = tree.list("roles");
            assert!(listed.is_err(), "the commit invents a name: {listed:?}");
        }
    }
}

#[test]
fn more_files_than_fit_into_a_pipe_are_read() {
    let scratch = Scratch::repository();
    for number in 0..2_500 {
        scratch.write(&format!("kit/roles/{number}"), &format!("{number}\n").repeat(20));
    }
    scratch.commit("many");
    let tree = commit_tree(&scratch, "kit", &["roles"]);
    assert_eq!(tree.list("roles").unwrap().len(), 2_500);
    for number in 0..2_500 {
        let text = tree.read(&format!("roles/{number}")).unwrap();
        assert_eq!(text, Some(format!("{number}\n").repeat(20)));
    }
}
