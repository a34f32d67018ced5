//! Creating, inspecting, archiving and recovering workspaces.

use std::fs;
use std::os::unix::fs::symlink;

use bailiwick_source_control::git::{Archived, IgnoredFiles, RestoredFrom};

use super::{Setup, at, refusal};

#[test]
fn workspace_is_created_once_and_has_the_status_of_git() {
    let setup = Setup::new();
    assert!(
        setup.operations.provision(&setup.workspace(), "main").is_ok(),
        "a repeated provision failed"
    );
    let status = setup.operations.status(&setup.workspace()).unwrap();
    assert_eq!((status.branch.as_str(), status.head), ("work/one", setup.head()));
    assert_eq!((status.ahead, status.behind, status.dirty, status.missing), (1, 0, false, false));
    setup.scratch.write("README.md", "moved\n");
    setup.scratch.commit("main moves");
    setup.write("src/a.rs", "changed\n");
    setup.write("new file", "new\n");
    setup.write("x.log", "ignored\n");
    let status = setup.operations.status(&setup.workspace()).unwrap();
    assert_eq!((status.ahead, status.behind), (1, 1));
    assert_eq!((status.dirty, status.uncommitted_count), (true, 2));
    // A branch with commits is not used as a new one.
    let other = setup.path.with_file_name("two");
    let reason = refusal(setup.operations.provision(&at(&other, "work/one"), "main"));
    assert!(reason.contains("the branch work/one exists"), "{reason}");
    assert!(!other.exists());
}

#[test]
fn only_a_worktree_of_the_repository_can_be_linked() {
    let setup = Setup::new();
    let linked = setup.scratch.place().join("own");
    setup.scratch.git(&["worktree", "add", "--quiet", "-b", "mine", linked.to_str().unwrap()]);
    assert_eq!(setup.operations.link(&linked, Some("refs/heads/main")).unwrap().branch, "mine");
    let stranger = setup.scratch.place().join("stranger");
    fs::create_dir(&stranger).unwrap();
    assert!(refusal(setup.operations.link(&stranger, None)).contains("not a worktree"));
    // A worktree outside of the root cannot be removed.
    for outcome in [
        setup.operations.archive(&at(&linked, "mine"), IgnoredFiles::Discard).map(drop),
        setup.operations.cleanup(&at(&linked, "mine"), IgnoredFiles::Discard).map(drop),
    ] {
        assert!(refusal(outcome).contains("not directly below"));
    }
    // Nor through a link or `..`.
    let root = setup.path.parent().unwrap();
    symlink(&linked, root.join("link")).unwrap();
    assert!(
        refusal(setup.operations.cleanup(&at(&root.join("link"), "mine"), IgnoredFiles::Keep))
            .contains("not a directory")
    );
    for path in [root.join("one/../.."), root.join("."), root.join(".."), root.join(".removing")] {
        refusal(setup.operations.cleanup(&at(&path, "mine"), IgnoredFiles::Keep));
    }
    assert!(linked.join("README.md").exists());
}

#[test]
fn clean_workspace_is_archived_and_recovered_from_its_branch() {
    let setup = Setup::new();
    let before = setup.everything();
    let archived = setup.operations.archive(&setup.workspace(), IgnoredFiles::Keep).unwrap();
    assert_eq!(archived, Archived { rescue_ref: None });
    assert!(!setup.path.exists());
    assert!(setup.operations.status(&setup.workspace()).unwrap().missing);
    assert_eq!(
        setup.operations.archive(&setup.workspace(), IgnoredFiles::Keep).unwrap(),
        archived,
        "twice"
    );
    assert_eq!(setup.operations.recover(&setup.workspace()).unwrap(), RestoredFrom::Branch);
    assert_eq!(setup.everything(), before);
    assert!(refusal(setup.operations.recover(&setup.workspace())).contains("files already exist"));
}

#[test]
fn uncommitted_changes_forbid_a_cleanup_and_are_rescued_by_an_archive() {
    let setup = Setup::new();
    setup.write("src/a.rs", "changed\r\nwith returns\r\n");
    setup.write("new file", "new\n");
    setup.write("build/out.bin", "made\n");
    let before = setup.everything();
    let why = refusal(setup.operations.cleanup(&setup.workspace(), IgnoredFiles::Keep));
    assert!(why.contains("uncommitted changes"), "{why}");
    assert_eq!(setup.everything(), before);
    let archived = setup.operations.archive(&setup.workspace(), IgnoredFiles::Keep).unwrap();
    assert_eq!(archived.rescue_ref.as_deref(), Some("refs/bailiwick/rescue/one"));
    let rescued = setup.scratch.git(&["show", "refs/bailiwick/rescue/one:new file"]);
    assert_eq!(rescued, "new\n");
    assert_eq!(
        setup.operations.recover(&setup.workspace()).unwrap(),
        RestoredFrom::BranchAndRescue
    );
    assert_eq!(setup.everything(), before);
    assert!(setup.scratch.git(&["for-each-ref", "refs/bailiwick/rescue"]).is_empty());
}

#[test]
fn ignored_files_are_kept_unless_discarded() {
    let setup = Setup::new();
    setup.write("keep.log", "secret notes\n");
    setup.operations.cleanup(&setup.workspace(), IgnoredFiles::Keep).unwrap();
    assert!(!setup.path.exists());
    assert_eq!(
        setup.operations.recover(&setup.workspace()).unwrap(),
        RestoredFrom::BranchAndRescue
    );
    assert_eq!(fs::read_to_string(setup.path.join("keep.log")).unwrap(), "secret notes\n");
    // Files that are too large to be rescued cause a refusal, not a loss.
    let big = fs::File::create(setup.path.join("big.log")).unwrap();
    big.set_len(65 << 20).unwrap();
    let why = refusal(setup.operations.archive(&setup.workspace(), IgnoredFiles::Keep));
    assert!(why.contains("has 2 ignored files"), "{why}");
    assert!(setup.path.join("big.log").exists() && setup.path.join("keep.log").exists());
    assert_eq!(
        setup.operations.archive(&setup.workspace(), IgnoredFiles::Discard).unwrap(),
        Archived { rescue_ref: None }
    );
}

#[test]
fn workspace_that_cannot_be_rescued_is_not_removed() {
    let setup = Setup::new();
    // An embedded repository, which git would list as one entry.
    setup.git(&["init", "--quiet", "inner"]);
    setup.write("inner/file", "x\n");
    let why = refusal(setup.operations.archive(&setup.workspace(), IgnoredFiles::Keep));
    assert!(why.contains("another repository"), "{why}");
    assert!(setup.path.join("inner/file").exists());
    fs::remove_dir_all(setup.path.join("inner")).unwrap();
    // A commit that is on no branch.
    setup.git(&["checkout", "--quiet", "--detach"]);
    let why = refusal(setup.operations.archive(&setup.workspace(), IgnoredFiles::Keep));
    assert!(why.contains("not on its branch"), "{why}");
    setup.git(&["checkout", "--quiet", "work/one"]);
    // A merge in progress.
    setup.git(&["checkout", "--quiet", "-b", "side", "main"]);
    setup.write("src/own.rs", "other\n");
    setup.git(&["add", "--all"]);
    setup.git(&["commit", "--quiet", "-m", "side"]);
    setup.git(&["checkout", "--quiet", "work/one"]);
    let mut merge = setup.scratch.command("git");
    assert!(!merge.current_dir(&setup.path).args(["merge", "side"]).status().unwrap().success());
    let why = refusal(setup.operations.archive(&setup.workspace(), IgnoredFiles::Keep));
    assert!(why.contains("conflicts"), "{why}");
    let status = setup.operations.status(&setup.workspace()).unwrap();
    assert_eq!(status.conflicting_files, ["src/own.rs"]);
}

#[test]
fn deleted_files_and_a_deleted_branch_are_recovered() {
    let setup = Setup::new();
    let head = setup.head();
    fs::remove_dir_all(&setup.path).unwrap();
    assert!(setup.operations.status(&setup.workspace()).unwrap().missing);
    assert_eq!(setup.operations.recover(&setup.workspace()).unwrap(), RestoredFrom::Branch);
    assert_eq!(setup.head(), head);
    setup.write("new file", "new\n");
    setup.operations.archive(&setup.workspace(), IgnoredFiles::Keep).unwrap();
    setup.scratch.git(&["update-ref", "-d", "refs/heads/work/one"]);
    assert_eq!(
        setup.operations.recover(&setup.workspace()).unwrap(),
        RestoredFrom::BranchAndRescue
    );
    assert_eq!((setup.head(), setup.path.join("new file").exists()), (head, true));
    let nothing = setup.path.with_file_name("never");
    let why = refusal(setup.operations.recover(&at(&nothing, "never")));
    assert!(why.contains("nothing to recover it from"), "{why}");
}

#[test]
fn rescued_files_are_not_restored_on_a_moved_branch() {
    let setup = Setup::new();
    setup.write("src/own.rs", "unfinished\n");
    setup.operations.archive(&setup.workspace(), IgnoredFiles::Keep).unwrap();
    setup.scratch.git(&["update-ref", "refs/heads/work/one", "main"]);
    let why = refusal(setup.operations.recover(&setup.workspace()));
    assert!(why.contains("merge it by hand"), "{why}");
    let rescued = setup.scratch.git(&["show", "refs/bailiwick/rescue/one:src/own.rs"]);
    assert_eq!(rescued, "unfinished\n");
    // Nor is it overwritten by the next rescue.
    setup.write("other", "x\n");
    setup.operations.archive(&setup.workspace(), IgnoredFiles::Keep).unwrap();
    let older = setup.scratch.git(&[
        "for-each-ref",
        "--format=%(refname)",
        "refs/bailiwick/rescued-before",
    ]);
    assert_eq!(older.lines().count(), 1, "{older}");
}
