//! Making, looking at, putting away, bringing back.

use std::fs;
use std::os::unix::fs::symlink;

use bailiwick_source_control::git::{CameBack, Ignored, PutAway};

use super::{Setup, at, refusal};

#[test]
fn a_workspace_is_made_once_and_its_status_is_gits() {
    let setup = Setup::new();
    assert!(setup.verbs.provision(&setup.workspace(), "main").is_ok(), "twice is once");
    let status = setup.verbs.status(&setup.workspace()).unwrap();
    assert_eq!((status.branch.as_str(), status.head), ("work/one", setup.head()));
    assert_eq!((status.ahead, status.behind, status.dirty, status.missing), (1, 0, false, false));
    setup.scratch.write("README.md", "moved\n");
    setup.scratch.commit("main moves");
    setup.write("src/a.rs", "changed\n");
    setup.write("new file", "new\n");
    setup.write("x.log", "ignored\n");
    let status = setup.verbs.status(&setup.workspace()).unwrap();
    assert_eq!((status.ahead, status.behind), (1, 1));
    assert_eq!((status.dirty, status.uncommitted_count), (true, 2));
    // A branch that has commits is not taken for a new one.
    let other = setup.path.with_file_name("two");
    let taken = refusal(setup.verbs.provision(&at(&other, "work/one"), "main"));
    assert!(taken.contains("the branch work/one is there"), "{taken}");
    assert!(!other.exists());
}

#[test]
fn an_existing_worktree_is_linked_and_a_stranger_is_not() {
    let setup = Setup::new();
    let own = setup.scratch.place().join("own");
    setup.scratch.git(&["worktree", "add", "--quiet", "-b", "mine", own.to_str().unwrap()]);
    assert_eq!(setup.verbs.link(&own, "main").unwrap().branch, "mine");
    let stranger = setup.scratch.place().join("stranger");
    fs::create_dir(&stranger).unwrap();
    assert!(refusal(setup.verbs.link(&stranger, "main")).contains("no worktree"));
    // What is outside of the root is not ours to take away.
    for done in [
        setup.verbs.archive(&at(&own, "mine"), Ignored::Discard).map(drop),
        setup.verbs.cleanup(&at(&own, "mine"), Ignored::Discard).map(drop),
    ] {
        assert!(refusal(done).contains("not directly below"));
    }
    // Nor by a link, or by going up.
    let root = setup.path.parent().unwrap();
    symlink(&own, root.join("link")).unwrap();
    assert!(
        refusal(setup.verbs.cleanup(&at(&root.join("link"), "mine"), Ignored::Keep))
            .contains("no directory")
    );
    for path in [root.join("one/../.."), root.join("."), root.join(".."), root.join(".removing")] {
        refusal(setup.verbs.cleanup(&at(&path, "mine"), Ignored::Keep));
    }
    assert!(own.join("README.md").exists());
}

#[test]
fn a_clean_workspace_goes_and_comes_back_from_its_branch() {
    let setup = Setup::new();
    let before = setup.everything();
    let gone = setup.verbs.archive(&setup.workspace(), Ignored::Keep).unwrap();
    assert_eq!(gone, PutAway { rescued: None });
    assert!(!setup.path.exists());
    assert!(setup.verbs.status(&setup.workspace()).unwrap().missing);
    assert_eq!(setup.verbs.archive(&setup.workspace(), Ignored::Keep).unwrap(), gone, "twice");
    assert_eq!(setup.verbs.recover(&setup.workspace()).unwrap(), CameBack::FromBranch);
    assert_eq!(setup.everything(), before);
    assert!(refusal(setup.verbs.recover(&setup.workspace())).contains("files are there"));
}

#[test]
fn what_is_not_committed_forbids_a_cleanup_and_is_rescued_by_an_archive() {
    let setup = Setup::new();
    setup.write("src/a.rs", "changed\r\nwith returns\r\n");
    setup.write("new file", "new\n");
    setup.write("build/out.bin", "made\n");
    let before = setup.everything();
    let why = refusal(setup.verbs.cleanup(&setup.workspace(), Ignored::Keep));
    assert!(why.contains("not committed"), "{why}");
    assert_eq!(setup.everything(), before);
    let gone = setup.verbs.archive(&setup.workspace(), Ignored::Keep).unwrap();
    assert_eq!(gone.rescued.as_deref(), Some("refs/bailiwick/rescue/one"));
    let kept = setup.scratch.git(&["show", "refs/bailiwick/rescue/one:new file"]);
    assert_eq!(kept, "new\n");
    assert_eq!(setup.verbs.recover(&setup.workspace()).unwrap(), CameBack::WithRescued);
    assert_eq!(setup.everything(), before);
    assert!(setup.scratch.git(&["for-each-ref", "refs/bailiwick/rescue"]).is_empty());
}

#[test]
fn ignored_files_are_kept_unless_somebody_says_otherwise() {
    let setup = Setup::new();
    setup.write("keep.log", "secret notes\n");
    setup.verbs.cleanup(&setup.workspace(), Ignored::Keep).unwrap();
    assert!(!setup.path.exists());
    assert_eq!(setup.verbs.recover(&setup.workspace()).unwrap(), CameBack::WithRescued);
    assert_eq!(fs::read_to_string(setup.path.join("keep.log")).unwrap(), "secret notes\n");
    // Too much to be rescued is a refusal, not a loss.
    let big = fs::File::create(setup.path.join("big.log")).unwrap();
    big.set_len(65 << 20).unwrap();
    let why = refusal(setup.verbs.archive(&setup.workspace(), Ignored::Keep));
    assert!(why.contains("git ignores 2 files"), "{why}");
    assert!(setup.path.join("big.log").exists() && setup.path.join("keep.log").exists());
    assert_eq!(
        setup.verbs.archive(&setup.workspace(), Ignored::Discard).unwrap(),
        PutAway { rescued: None }
    );
}

#[test]
fn what_cannot_be_rescued_stays() {
    let setup = Setup::new();
    // A repository inside, which git would take for one entry.
    setup.git(&["init", "--quiet", "inner"]);
    setup.write("inner/file", "x\n");
    let why = refusal(setup.verbs.archive(&setup.workspace(), Ignored::Keep));
    assert!(why.contains("a repository of its own"), "{why}");
    assert!(setup.path.join("inner/file").exists());
    fs::remove_dir_all(setup.path.join("inner")).unwrap();
    // A commit that is on no branch.
    setup.git(&["checkout", "--quiet", "--detach"]);
    let why = refusal(setup.verbs.archive(&setup.workspace(), Ignored::Keep));
    assert!(why.contains("not on its branch"), "{why}");
    setup.git(&["checkout", "--quiet", "work/one"]);
    // A merge that waits.
    setup.git(&["checkout", "--quiet", "-b", "side", "main"]);
    setup.write("src/own.rs", "other\n");
    setup.git(&["add", "--all"]);
    setup.git(&["commit", "--quiet", "-m", "side"]);
    setup.git(&["checkout", "--quiet", "work/one"]);
    let mut merge = setup.scratch.command("git");
    assert!(!merge.current_dir(&setup.path).args(["merge", "side"]).status().unwrap().success());
    let why = refusal(setup.verbs.archive(&setup.workspace(), Ignored::Keep));
    assert!(why.contains("conflicts"), "{why}");
    let status = setup.verbs.status(&setup.workspace()).unwrap();
    assert_eq!(status.conflicting_files, ["src/own.rs"]);
}

#[test]
fn files_that_went_away_come_back_and_a_lost_branch_from_what_was_rescued() {
    let setup = Setup::new();
    let head = setup.head();
    fs::remove_dir_all(&setup.path).unwrap();
    assert!(setup.verbs.status(&setup.workspace()).unwrap().missing);
    assert_eq!(setup.verbs.recover(&setup.workspace()).unwrap(), CameBack::FromBranch);
    assert_eq!(setup.head(), head);
    setup.write("new file", "new\n");
    setup.verbs.archive(&setup.workspace(), Ignored::Keep).unwrap();
    setup.scratch.git(&["update-ref", "-d", "refs/heads/work/one"]);
    assert_eq!(setup.verbs.recover(&setup.workspace()).unwrap(), CameBack::WithRescued);
    assert_eq!((setup.head(), setup.path.join("new file").exists()), (head, true));
    let nothing = setup.path.with_file_name("never");
    let why = refusal(setup.verbs.recover(&at(&nothing, "never")));
    assert!(why.contains("nothing to recover it from"), "{why}");
}

#[test]
fn a_branch_that_moved_on_does_not_get_old_files() {
    let setup = Setup::new();
    setup.write("src/own.rs", "unfinished\n");
    setup.verbs.archive(&setup.workspace(), Ignored::Keep).unwrap();
    setup.scratch.git(&["update-ref", "refs/heads/work/one", "main"]);
    let why = refusal(setup.verbs.recover(&setup.workspace()));
    assert!(why.contains("merge it by hand"), "{why}");
    let kept = setup.scratch.git(&["show", "refs/bailiwick/rescue/one:src/own.rs"]);
    assert_eq!(kept, "unfinished\n");
    // Nor is it overwritten by the next one.
    setup.write("other", "x\n");
    setup.verbs.archive(&setup.workspace(), Ignored::Keep).unwrap();
    let older = setup.scratch.git(&[
        "for-each-ref",
        "--format=%(refname)",
        "refs/bailiwick/rescued-before",
    ]);
    assert_eq!(older.lines().count(), 1, "{older}");
}
