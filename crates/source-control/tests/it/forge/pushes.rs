//! Pushes: by compare-and-swap, over HTTP and to a repository on this machine.

use bailiwick_fleet::ports::{Forge as _, ForgeError, WriteBack};
use bailiwick_resources::ForgeKind;
use bailiwick_source_control::forge::open;
use bailiwick_testkit::forge::{Fault, Flavour};

use super::{BOTH, Setup, block_on, declared};

fn push(branch: &str, commit: &str, from: Option<&str>) -> WriteBack {
    let from = from.map(str::to_owned);
    WriteBack::Push { branch: branch.to_owned(), commit: commit.to_owned(), from }
}

#[test]
fn push_moves_a_branch_only_from_the_expected_commit() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        setup.scratch.write("src/c.rs", "fn c() {}\n");
        let newer = setup.scratch.commit("third");
        let at = |name: &str| setup.stand_in.git(&["rev-parse", name]).trim().to_owned();
        let write = |what: &WriteBack| block_on(setup.forge.write("key", what));
        // From another commit, or as if it were new.
        for expected in [Some(setup.main.as_str()), None] {
            let moved = write(&push("feature", &newer, expected));
            let Err(ForgeError::Moved { found, .. }) = &moved else { panic!("{moved:?}") };
            assert_eq!(found, &setup.feature);
            assert_eq!(at("feature"), setup.feature);
        }
        assert!(!write(&push("feature", &newer, Some(&setup.feature))).unwrap().was_there);
        assert_eq!(at("feature"), newer);
        assert!(write(&push("feature", &newer, Some(&setup.feature))).unwrap().was_there);
        // A new branch, and one that must exist.
        let missing_branch = write(&push("fix/new", &newer, Some(&setup.feature)));
        assert!(matches!(missing_branch, Err(ForgeError::Moved { .. })), "{missing_branch:?}");
        assert!(!write(&push("fix/new", &newer, None)).unwrap().was_there);
        assert!(write(&push("fix/new", &newer, None)).unwrap().was_there);
        assert_eq!(at("fix/new"), newer);
        setup.keeps_contract();
    }
}

#[test]
fn concurrent_push_is_not_overwritten() {
    let setup = Setup::new(Flavour::Gitea);
    setup.scratch.write("src/c.rs", "fn c() {}\n");
    let newer = setup.scratch.commit("third");
    let (branch, to) = ("feature".to_owned(), setup.main.clone());
    setup
        .stand_in
        .fail_next("POST /acme/widgets.git/git-receive-pack", Fault::MoveBranch { branch, to });
    let what = push("feature", &newer, Some(&setup.feature));
    let moved = block_on(setup.forge.write("key", &what));
    assert!(matches!(moved, Err(ForgeError::Moved { .. })), "{moved:?}");
    assert_eq!(setup.stand_in.git(&["rev-parse", "feature"]).trim(), setup.main);
}

#[test]
fn invalid_commits_and_branch_names_are_not_pushed() {
    let setup = Setup::new(Flavour::Gitea);
    let missing = "1".repeat(40);
    for (branch, commit) in [
        ("feature", "feature"),
        ("feature", &missing),
        ("--all", &setup.feature),
        ("a..b", &setup.feature),
        ("", &setup.feature),
    ] {
        let refused = block_on(setup.forge.write("key", &push(branch, commit, None)));
        let expected =
            matches!(refused, Err(ForgeError::Refused(_)) | Err(ForgeError::Moved { .. }));
        assert!(expected, "{branch} {commit}: {refused:?}");
    }
    assert_eq!(setup.writes(), 0);
}

#[test]
fn local_repository_supports_only_branches() {
    let setup = Setup::new(Flavour::Gitea);
    let mut repository = declared(&setup.stand_in, setup.scratch.root());
    repository.forge = ForgeKind::Local;
    repository.clone_url = Some(setup.stand_in.repository().display().to_string());
    // No hooks are run.
    let hook = setup.stand_in.repository().join("hooks/update");
    std::fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&hook, executable).unwrap();
    let local = open(&repository, None, &setup.scratch.state()).unwrap();
    assert_eq!(block_on(local.branch("feature")), Ok(Some(setup.feature.clone())));
    let what = push("fix", &setup.feature, None);
    assert!(!block_on(local.write("key", &what)).unwrap().was_there);
    assert!(block_on(local.write("key", &what)).unwrap().was_there);
    let moved = block_on(local.write("key", &push("main", &setup.feature, Some(&setup.feature))));
    assert!(matches!(moved, Err(ForgeError::Moved { .. })), "{moved:?}");
    assert!(block_on(local.write("key", &push("main", &setup.feature, Some(&setup.main)))).is_ok());
    let comment = super::writing::comment(1, "hello");
    let nothing = block_on(local.write("key", &comment));
    assert!(matches!(nothing, Err(ForgeError::Unsupported(_))), "{nothing:?}");
    // The repository itself: a branch that is checked out is not changed.
    repository.clone_url = None;
    let checkout = open(&repository, None, &setup.scratch.state()).unwrap();
    let what = push("feature", &setup.main, Some(&setup.feature));
    let refused = block_on(checkout.write("key", &what));
    assert!(matches!(refused, Err(ForgeError::Refused(_))), "{refused:?}");
    assert!(block_on(checkout.write("key", &push("other", &setup.feature, None))).is_ok());
    assert_eq!(setup.scratch.git(&["rev-parse", "other"]).trim(), setup.feature);
    assert_eq!(setup.writes(), 0);
}
