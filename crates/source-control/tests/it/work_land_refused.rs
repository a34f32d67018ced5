//! Work that does not land: the branch and every checkout stay unchanged.

use std::fs;
use std::path::PathBuf;

use bailiwick_lifecycle::ports::{LandError, Landing, Method};
use bailiwick_model::CommitId;
use bailiwick_testkit::Scratch;

use crate::agent::{Agent, repository};
use crate::work_land::{land, landing, ready, status, tip};
use crate::workspaces::snapshot;

/// An action of a person at the same time.
type Happening = fn(&Scratch);

/// The branch has not moved, and the checkout is unchanged.
pub(crate) fn refused(scratch: &Scratch, agent: &Agent, wanted: &Landing) -> LandError {
    let before = (tip(scratch), status(scratch), snapshot(&scratch.root()), index(scratch));
    let error = land(agent, wanted).unwrap_err();
    let after = (tip(scratch), status(scratch), snapshot(&scratch.root()), index(scratch));
    assert_eq!(before, after, "{error}");
    assert_eq!(crate::work_recover::leftovers(scratch), Vec::<PathBuf>::new(), "{error}");
    error
}

fn index(scratch: &Scratch) -> Vec<u8> {
    fs::read(scratch.root().join(".git/index")).unwrap()
}

#[test]
fn checkout_with_uncommitted_changes_is_refused_and_unchanged() {
    let changes: [(&str, Happening); 9] = [
        ("README.md", |scratch| scratch.write("README.md", "changed by hand\n")),
        ("src/lib.rs", |scratch| scratch.write("src/lib.rs", "changed by hand\n")),
        ("staged.txt", |scratch| {
            scratch.write("staged.txt", "staged\n");
            scratch.git(&["add", "staged.txt"]);
        }),
        ("README.md", |scratch| drop(scratch.git(&["rm", "--quiet", "README.md"]))),
        ("src/deep/er.rs", |scratch| {
            fs::remove_file(scratch.root().join("src/deep/er.rs")).unwrap()
        }),
        ("new/file.txt", |scratch| scratch.write("new/file.txt", "in the way\n")),
        ("new", |scratch| scratch.write("new", "in the way\n")),
        ("new/file.txt/deep", |scratch| scratch.write("new/file.txt/deep", "in the way\n")),
        ("new/file.txt", |scratch| {
            fs::write(scratch.root().join(".git/info/exclude"), "new/\n").unwrap();
            scratch.write("new/file.txt", "in the way, and ignored\n");
        }),
    ];
    for (path, change) in changes {
        let scratch = repository();
        fs::create_dir_all(scratch.root().join(".git/info")).unwrap();
        let (agent, wanted) = ready(&scratch);
        change(&scratch);
        let error = refused(&scratch, &agent, &wanted);
        let LandError::Unclean { branch, changes, checkout } = error else {
            panic!("{path}: {error:?}")
        };
        assert_eq!(branch, "refs/heads/main");
        assert_eq!(changes, [path]);
        assert_eq!(checkout, scratch.root().canonicalize().unwrap());
    }
}

#[test]
fn untracked_files_elsewhere_do_not_stop_a_landing() {
    let scratch = repository();
    let (agent, wanted) = ready(&scratch);
    scratch.write("notes.txt", "mine\n");
    scratch.write("new/other.txt", "mine\n");
    scratch.write("target/out", "built\n");
    land(&agent, &wanted).unwrap();
    assert_eq!(status(&scratch), "?? new/other.txt\n?? notes.txt\n");
    assert_eq!(scratch.read("new/file.txt"), "new\n");
    assert!(!scratch.root().join("src/deep").exists());
}

#[test]
fn branch_in_use_is_refused() {
    let uses: [(&str, Happening); 4] = [
        ("a merge is in progress", |scratch| {
            scratch.git(&["checkout", "--quiet", "-b", "side", "main"]);
            scratch.commit("side");
            scratch.git(&["checkout", "--quiet", "main"]);
            scratch.git(&["merge", "--quiet", "--no-ff", "--no-commit", "side"]);
        }),
        ("a rebase is in progress", |scratch| {
            let mut rebase = scratch.command("git");
            rebase.args(["rebase", "--quiet", "--exec", "false", "HEAD~1"]);
            assert!(!rebase.output().unwrap().status.success());
        }),
        ("a bisection is in progress", |scratch| {
            scratch.git(&["bisect", "start", "HEAD", "HEAD~2"]);
        }),
        ("another git is running there", |scratch| {
            fs::write(scratch.root().join(".git/index.lock"), "").unwrap();
        }),
    ];
    for (what, begin) in uses {
        let scratch = repository();
        for text in ["two\n", "three\n"] {
            scratch.write("more.txt", text);
            scratch.commit(text);
        }
        let (agent, wanted) = ready(&scratch);
        begin(&scratch);
        let before = (tip(&scratch), index(&scratch), snapshot(&scratch.root()));
        let error = land(&agent, &wanted).unwrap_err();
        let LandError::Held { why, checkout, .. } = error else { panic!("{what}: {error:?}") };
        assert!(why.contains(what), "{what}: {why}");
        assert_eq!(checkout, scratch.root().canonicalize().unwrap(), "{what}");
        assert_eq!((tip(&scratch), index(&scratch), snapshot(&scratch.root())), before, "{what}");
    }
}

#[test]
fn moved_or_deleted_branch_is_reported() {
    let scratch = repository();
    let (agent, wanted) = ready(&scratch);
    scratch.write("theirs.txt", "theirs\n");
    let current = scratch.commit("theirs");
    assert_eq!(
        refused(&scratch, &agent, &wanted),
        LandError::Moved { branch: wanted.branch.clone(), now: current }
    );
    scratch.git(&["checkout", "--quiet", "--detach"]);
    scratch.git(&["branch", "--quiet", "-D", "main"]);
    let error = land(&agent, &wanted).unwrap_err();
    assert!(
        matches!(&error, LandError::Moved { now, .. } if now.contains("does not exist")),
        "{error}"
    );
}

#[test]
fn commits_of_the_branch_are_never_dropped() {
    let scratch = repository();
    let (agent, mut wanted) = ready(&scratch);
    scratch.write("theirs.txt", "theirs\n");
    wanted.expected = Some(CommitId::new(scratch.commit("theirs")));
    let error = refused(&scratch, &agent, &wanted).to_string();
    assert!(error.contains("commits that the work was not verified with"), "{error}");
}

#[test]
fn empty_work_is_not_landed() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("a", "a\n");
    agent.commit(&scratch, "there");
    fs::remove_file(agent.worktree.join("a")).unwrap();
    for method in [Method::Merge, Method::Squash, Method::Rebase] {
        let error = refused(&scratch, &agent, &landing(&agent, method));
        assert!(matches!(error, LandError::Nothing { .. }), "{error}");
    }
}
