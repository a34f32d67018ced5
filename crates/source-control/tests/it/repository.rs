//! Finding a repository, resolving revisions, listing differences.

use std::collections::BTreeMap;
use std::path::Path;

use bailiwick_source_control::Repository;
use bailiwick_source_control::git::DifferenceKind;
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, Scratch};

fn open(scratch: &Scratch) -> Repository {
    Repository::discover(&scratch.root()).unwrap()
}

/// The top of the working tree that contains `directory`, by git.
fn top_by_git(scratch: &Scratch, directory: &Path) -> Option<String> {
    let mut git = scratch.command("git");
    let output =
        git.current_dir(directory).args(["rev-parse", "--show-toplevel"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap().trim_end().to_owned();
    output.status.success().then_some(text)
}

fn agrees_with_git(scratch: &Scratch, directory: &str) -> Option<String> {
    let directory = scratch.place().canonicalize().unwrap().join(directory);
    let found = Repository::discover(&directory).map(|found| found.root().display().to_string());
    assert_eq!(found, top_by_git(scratch, &directory), "from {}", directory.display());
    found
}

#[test]
fn repository_is_found_where_git_finds_it() {
    let scratch = Scratch::repository();
    scratch.write("a b/ü/x", "x");
    scratch.write("tasks/x", "x");
    scratch.commit("first");
    scratch.git(&["worktree", "add", "--quiet", "-b", "other", "../linked"]);
    scratch.git(&["init", "--quiet", "tasks/nested"]);
    for inside in ["repo", "repo/a b", "repo/a b/ü", "linked", "linked/a b/ü", "repo/tasks/nested"]
    {
        assert!(agrees_with_git(&scratch, inside).is_some(), "{inside}");
    }
    for outside in ["", "home", "state"] {
        assert_eq!(agrees_with_git(&scratch, outside), None, "{outside}");
    }
    let linked = Repository::discover(&scratch.place().join("linked/a b")).unwrap();
    assert_eq!(linked.root(), scratch.place().join("linked"));
    assert_eq!(linked.git().directory(), scratch.place().join("linked"));
}

#[test]
fn empty_git_directory_is_not_a_repository() {
    let scratch = Scratch::repository();
    scratch.write("sub/x", "x");
    scratch.commit("first");
    std::fs::create_dir(scratch.root().join("sub/.git")).unwrap();
    agrees_with_git(&scratch, "repo/sub");
}

#[test]
fn revision_is_resolved_as_git_resolves_it() {
    let scratch = Scratch::repository();
    scratch.write("x", "one");
    let first = scratch.commit("first");
    scratch.git(&["tag", "-a", "-m", "annotated", "v1"]);
    scratch.git(&["branch", "topic/ünïcode"]);
    scratch.write("x", "two");
    let second = scratch.commit("second");
    let repository = open(&scratch);
    let found = |revision: &str| repository.commit(revision).unwrap();
    for revision in ["HEAD", "main", "refs/heads/main", "@", &second, second.split_at(10).0] {
        assert_eq!(found(revision).as_ref(), Some(&second), "{revision}");
    }
    for revision in ["HEAD~1", "v1", "topic/ünïcode", "main^", &first] {
        assert_eq!(found(revision).as_ref(), Some(&first), "{revision}");
    }
    let garbage = [
        "",
        "no-such-branch",
        "HEAD~9",
        "HEAD:x",
        "--help",
        "-h",
        "--all",
        "--output=made",
        "main..HEAD",
        "a b",
        "$(touch made)",
        "0000000000000000000000000000000000000000",
        "@{upstream}",
        "new\nline",
    ];
    for revision in garbage {
        assert_eq!(found(revision), None, "{revision:?}");
    }
    assert!(!scratch.root().join("made").exists());
}

#[test]
fn empty_repository_has_no_commit() {
    let scratch = Scratch::repository();
    assert_eq!(open(&scratch).commit("HEAD").unwrap(), None);
    assert_eq!(open(&scratch).commit("main").unwrap(), None);
    scratch.commit("first");
    assert!(open(&scratch).commit("HEAD").unwrap().is_some());
}

#[test]
fn linked_worktree_has_its_own_commit() {
    let scratch = Scratch::repository();
    let first = scratch.commit("first");
    scratch.git(&["worktree", "add", "--quiet", "-b", "other", "../linked"]);
    let second = scratch.commit("second");
    let linked = Repository::discover(&scratch.place().join("linked")).unwrap();
    assert_eq!(linked.commit("HEAD").unwrap(), Some(first));
    assert_eq!(open(&scratch).commit("HEAD").unwrap(), Some(second));
}

fn differences(scratch: &Scratch, paths: &[&str]) -> BTreeMap<String, DifferenceKind> {
    let found = open(scratch).differences(paths).unwrap();
    let count = found.len();
    let found: BTreeMap<_, _> =
        found.into_iter().map(|difference| (difference.path, difference.kind)).collect();
    assert_eq!(found.len(), count, "a path occurs twice");
    found
}

const NAMES: [&str; 9] = [
    "plain",
    "with space",
    "new\nline",
    "ünïcode",
    "a -> b",
    "quo\"te",
    "tab\there",
    " lead",
    "-dash",
];

#[test]
fn differences_match_the_changes() {
    let mut random = Random::rotating("differences");
    for _ in 0..Depth::from_env().cases(60) {
        let scratch = Scratch::repository();
        scratch.write(".gitignore", "*.ignored\n");
        for name in NAMES {
            scratch.write(&format!("kit/{name}"), "one\n");
            scratch.write(&format!("beside/{name}"), "one\n");
        }
        scratch.commit("first");
        let mut expected = BTreeMap::new();
        for name in NAMES {
            let path = format!("kit/{name}");
            match random.below(8) {
                0 => {
                    scratch.write(&path, "two\n");
                    expected.insert(path, DifferenceKind::Changed);
                }
                1 => {
                    scratch.write(&path, "two\n");
                    scratch.git(&["add", "--", &path]);
                    expected.insert(path, DifferenceKind::Changed);
                }
                2 => {
                    std::fs::remove_file(scratch.root().join(&path)).unwrap();
                    expected.insert(path, DifferenceKind::Deleted);
                }
                3 => {
                    scratch.git(&["rm", "--quiet", "--", &path]);
                    expected.insert(path, DifferenceKind::Deleted);
                }
                4 => {
                    let path = format!("{path}.ignored");
                    scratch.write(&path, "new\n");
                    expected.insert(path, DifferenceKind::Ignored);
                }
                5 => {
                    let path = format!("kit/new directory/{name}");
                    scratch.write(&path, "new\n");
                    expected.insert(path, DifferenceKind::NotCommitted);
                }
                _ => {}
            }
            scratch.write(&format!("beside/{name}"), "two\n");
        }
        assert_eq!(differences(&scratch, &["kit"]), expected);
        assert_eq!(differences(&scratch, &["kit", "no-such-place"]), expected);
        assert_eq!(differences(&scratch, &["beside"]).len(), NAMES.len());
    }
}

#[test]
fn files_of_an_ignored_directory_are_listed_one_by_one() {
    let scratch = Scratch::repository();
    scratch.write(".gitignore", "kit/\n");
    scratch.commit("first");
    scratch.write("kit/one", "1\n");
    scratch.write("kit/below/two", "2\n");
    let found = differences(&scratch, &["kit"]);
    let expected =
        ["kit/below/two", "kit/one"].map(|path| (path.to_owned(), DifferenceKind::Ignored));
    assert_eq!(found, BTreeMap::from(expected));
}

#[test]
fn staged_new_file_is_not_committed() {
    let scratch = Scratch::repository();
    scratch.commit("first");
    scratch.write("kit/staged", "new\n");
    scratch.git(&["add", "kit/staged"]);
    scratch.write("kit/staged-then-changed", "new\n");
    scratch.git(&["add", "kit/staged-then-changed"]);
    scratch.write("kit/staged-then-changed", "newer\n");
    let found = differences(&scratch, &["kit"]);
    let expected = ["kit/staged", "kit/staged-then-changed"];
    let expected = expected.map(|path| (path.to_owned(), DifferenceKind::NotCommitted));
    assert_eq!(found, BTreeMap::from(expected));
}

#[test]
fn clean_checkout_has_no_difference_and_a_renamed_file_has_two() {
    let scratch = Scratch::repository();
    scratch.write("kit/old", "a text that is long enough to be taken for a move\n");
    scratch.commit("first");
    assert_eq!(differences(&scratch, &["kit"]), BTreeMap::new());
    scratch.git(&["config", "status.renames", "copies"]);
    scratch.git(&["mv", "kit/old", "kit/new"]);
    let found = differences(&scratch, &["kit"]);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["kit/new", "kit/old"]);
    assert_eq!(found["kit/old"], DifferenceKind::Deleted);
}

#[test]
fn path_with_wildcards_is_literal() {
    let scratch = Scratch::repository();
    for path in ["a*/x", "ab/x", "[k]/x", "k/x", ":(top)/x"] {
        scratch.write(path, "one\n");
    }
    scratch.commit("first");
    for path in ["a*/x", "ab/x", "[k]/x", "k/x", ":(top)/x"] {
        scratch.write(path, "two\n");
    }
    for path in ["a*", "ab", "[k]", "k", ":(top)"] {
        let found = differences(&scratch, &[path]);
        assert_eq!(found.into_keys().collect::<Vec<_>>(), [format!("{path}/x")]);
    }
}

#[test]
fn personal_settings_hide_no_difference() {
    let scratch = Scratch::repository();
    scratch.write("kit/x", "one\n");
    scratch.commit("first");
    scratch.git(&["config", "status.showUntrackedFiles", "no"]);
    scratch.git(&["config", "status.relativePaths", "true"]);
    scratch.git(&["config", "core.quotePath", "true"]);
    scratch.git(&["config", "color.status", "always"]);
    scratch.write("kit/ü", "new\n");
    let expected = BTreeMap::from([("kit/ü".to_owned(), DifferenceKind::NotCommitted)]);
    assert_eq!(differences(&scratch, &["kit"]), expected);
}

#[test]
fn missing_commit_is_distinguished_from_a_damaged_one() {
    use bailiwick_source_control::git::HeadError;
    let scratch = Scratch::repository();
    let head = || open(&scratch).head();
    assert!(matches!(head(), Err(HeadError::NoCommit)));
    scratch.write("a", "a\n");
    scratch.commit("first");
    let first = head().unwrap();
    scratch.git(&["symbolic-ref", "HEAD", "refs/heads/elsewhere"]);
    assert!(
        matches!(head(), Err(HeadError::Unborn { branch }) if branch == "refs/heads/elsewhere")
    );
    scratch.git(&["update-ref", "refs/heads/elsewhere", &first]);
    assert_eq!(head().unwrap(), first);
    let git = scratch.root().join(".git");
    let (directory, name) = first.split_at(2);
    let object = git.join("objects").join(directory).join(name);
    let moved_file = scratch.place().join("aside");
    std::fs::rename(&object, &moved_file).unwrap();
    assert!(matches!(head(), Err(HeadError::Missing { .. })));
    std::fs::rename(&moved_file, &object).unwrap();
    std::fs::write(git.join("config"), "[core\n").unwrap();
    assert!(matches!(head(), Err(HeadError::Git(_))), "the repository cannot be read");
    assert!(open(&scratch).commit("HEAD").is_err());
}
