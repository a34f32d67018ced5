//! Fetched commits are retained by references and released one by one.

use bailiwick_source_control::Repository;
use bailiwick_source_control::git::{Git, release_commit, retain_commit, retained_commits};
use bailiwick_testkit::Scratch;

fn names(git: &Git) -> Vec<String> {
    retained_commits(git).unwrap().into_iter().map(|retained| retained.name).collect()
}

#[test]
fn releasing_a_commit_removes_only_its_reference() {
    let scratch = Scratch::repository();
    scratch.write("a", "one\n");
    let first = scratch.commit("one");
    scratch.write("a", "two\n");
    let second = scratch.commit("two");
    let (first, second) = (first.trim().to_owned(), second.trim().to_owned());
    let repository = Repository::discover(&scratch.root()).unwrap();
    let git = &repository.git();
    assert_eq!(names(git), [""; 0]);
    for (name, commit) in
        [(first.as_str(), &first), (second.as_str(), &second), ("by-17-0", &second)]
    {
        scratch.git(&["update-ref", &format!("refs/bailiwick/fetched/{name}"), commit]);
    }
    scratch.git(&["update-ref", "refs/bailiwick/other/x", &first]);
    let mut all = vec![first.clone(), second.clone(), "by-17-0".to_owned()];
    all.sort();
    assert_eq!(names(git), all);
    // Both loose and packed references are removed.
    scratch.git(&["pack-refs", "--all"]);
    let before = scratch.git(&["rev-parse", "HEAD"]);
    let retained = retained_commits(git).unwrap();
    let find = |name: &str| retained.iter().find(|retained| retained.name == name).unwrap();
    release_commit(git, find(&first)).unwrap();
    release_commit(git, find("by-17-0")).unwrap();
    assert_eq!(names(git), [second]);
    assert_eq!(scratch.git(&["rev-parse", "HEAD"]), before);
    assert_eq!(scratch.git(&["rev-parse", "refs/bailiwick/other/x"]).trim(), first);
    // A second release is not an error.
    release_commit(git, find(&first)).unwrap();
}

#[test]
fn retained_commit_outlives_its_branch() {
    let scratch = Scratch::repository();
    scratch.write("a", "one\n");
    scratch.commit("one");
    scratch.write("a", "two\n");
    let second = scratch.commit("two").trim().to_owned();
    let repository = Repository::discover(&scratch.root()).unwrap();
    let git = &repository.git();
    retain_commit(git, &second).unwrap();
    retain_commit(git, &second).unwrap();
    assert_eq!(names(git), std::slice::from_ref(&second));
    scratch.git(&["reset", "--hard", "HEAD~1"]);
    scratch.git(&["reflog", "expire", "--expire=now", "--all"]);
    scratch.git(&["update-ref", "-d", "ORIG_HEAD"]);
    scratch.git(&["gc", "--prune=now", "--quiet"]);
    assert_eq!(repository.commit(&second).unwrap(), Some(second.clone()));
    // Positive control: without its reference, it is collected.
    retained_commits(git)
        .unwrap()
        .iter()
        .for_each(|retained| release_commit(git, retained).unwrap());
    scratch.git(&["gc", "--prune=now", "--quiet"]);
    assert_eq!(repository.commit(&second).unwrap(), None);
}

/// Another process may need the commit between the listing and the release.
#[test]
fn commit_that_was_retained_again_is_not_released() {
    let scratch = Scratch::repository();
    scratch.write("a", "one\n");
    let commit = scratch.commit("one").trim().to_owned();
    let repository = Repository::discover(&scratch.root()).unwrap();
    let git = &repository.git();
    retain_commit(git, &commit).unwrap();
    let first = retained_commits(git).unwrap().remove(0);
    retain_commit(git, &commit).unwrap();
    let second = retained_commits(git).unwrap().remove(0);
    assert_eq!(first.name, second.name);
    assert!(first.at.is_some() && first.at <= second.at, "{first:?} {second:?}");
    release_commit(git, &first).unwrap();
    assert_eq!(names(git), std::slice::from_ref(&commit));
    release_commit(git, &second).unwrap();
    assert_eq!(names(git), [""; 0]);
    // A reference of an older version has no time.
    scratch.git(&["update-ref", &format!("refs/bailiwick/fetched/{commit}"), &commit]);
    assert_eq!(retained_commits(git).unwrap().remove(0).at, None);
}
