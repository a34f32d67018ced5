//! Rebases with real conflicts.

use bailiwick_source_control::git::RebaseOutcome;

use super::{Setup, refusal};

/// The target and the workspace have both changed the same line.
fn in_conflict() -> Setup {
    let setup = Setup::new();
    setup.write("README.md", "mine\n");
    setup.git(&["commit", "--quiet", "--all", "-m", "mine"]);
    setup.scratch.write("README.md", "theirs\n");
    setup.scratch.commit("theirs");
    setup
}

fn conflicts() -> RebaseOutcome {
    RebaseOutcome::Conflicts { files: vec!["README.md".to_owned()] }
}

#[test]
fn rebase_without_conflicts_keeps_authors() {
    let setup = Setup::new();
    setup.scratch.write("other.txt", "main\n");
    let main = setup.scratch.commit("main moves");
    let former = setup.head();
    let RebaseOutcome::Done { head } = setup.operations.rebase_start(&setup.workspace()).unwrap()
    else {
        panic!("the rebase has a conflict")
    };
    assert_eq!((head.clone(), setup.git(&["rev-parse", "HEAD^"]).trim()), (setup.head(), &*main));
    assert_ne!(head, former);
    assert_eq!(
        setup.git(&["log", "-1", "--format=%an <%ae> %s"]).trim(),
        "A Person <person@example.org> own"
    );
    assert_eq!(setup.git(&["symbolic-ref", "HEAD"]).trim(), "refs/heads/work/one");
    let status = setup.operations.status(&setup.workspace()).unwrap();
    assert_eq!((status.ahead, status.behind, status.dirty), (1, 0, false));
    // A second rebase changes nothing.
    assert_eq!(
        setup.operations.rebase_start(&setup.workspace()).unwrap(),
        RebaseOutcome::Done { head }
    );
}

#[test]
fn conflict_waits_for_a_person() {
    let setup = in_conflict();
    assert_eq!(setup.operations.rebase_start(&setup.workspace()).unwrap(), conflicts());
    assert!(setup.operations.is_rebasing(&setup.workspace()).unwrap());
    let status = setup.operations.status(&setup.workspace()).unwrap();
    assert_eq!(
        (status.branch.as_str(), status.conflicting_files),
        ("work/one", vec!["README.md".to_owned()])
    );
    // The markers are git's.
    let readme = std::fs::read_to_string(setup.path.join("README.md")).unwrap();
    assert!(readme.contains("<<<<<<< "));
    let why = refusal(setup.operations.rebase_mark_resolved(&setup.workspace()));
    assert!(why.contains("README.md still has conflict markers"), "{why}");
    // No conflict was resolved before, so none is resolved now.
    assert_eq!(setup.operations.rebase_auto_resolve(&setup.workspace()).unwrap(), conflicts());
    setup.write("README.md", "both\n");
    let outcome = setup.operations.rebase_mark_resolved(&setup.workspace()).unwrap();
    assert_eq!(outcome, RebaseOutcome::Done { head: setup.head() });
    assert_eq!(setup.git(&["show", "HEAD:README.md"]), "both\n");
    assert_eq!(
        setup.git(&["merge-base", "main", "HEAD"]),
        setup.scratch.git(&["rev-parse", "main"])
    );
    assert!(!setup.operations.is_rebasing(&setup.workspace()).unwrap());
    assert!(refusal(setup.operations.rebase_abort(&setup.workspace())).contains("no rebase"));
}

#[test]
fn abort_restores_everything_and_keeps_resolved_conflicts() {
    let setup = in_conflict();
    setup.write("notes.txt", "not tracked\n");
    let before = setup.everything();
    assert_eq!(setup.operations.rebase_start(&setup.workspace()).unwrap(), conflicts());
    setup.write("README.md", "half settled\n");
    let saved = setup.operations.rebase_abort(&setup.workspace()).unwrap();
    assert_eq!(setup.everything(), before);
    let name = saved.unwrap();
    assert_eq!(name, "refs/bailiwick/aborted/one");
    assert_eq!(setup.scratch.git(&["show", &format!("{name}:README.md")]), "half settled\n");
}

#[test]
fn conflict_that_a_person_resolved_before_is_resolved_again() {
    let setup = in_conflict();
    let former = setup.head();
    assert_eq!(setup.operations.rebase_start(&setup.workspace()).unwrap(), conflicts());
    setup.write("README.md", "both\n");
    setup.operations.rebase_mark_resolved(&setup.workspace()).unwrap();
    // The same conflict again, as after a reset by hand.
    setup.git(&["reset", "--quiet", "--hard", &former]);
    assert_eq!(setup.operations.rebase_start(&setup.workspace()).unwrap(), conflicts());
    let outcome = setup.operations.rebase_auto_resolve(&setup.workspace()).unwrap();
    assert_eq!(outcome, RebaseOutcome::Done { head: setup.head() });
    assert_eq!(setup.git(&["show", "HEAD:README.md"]), "both\n");
}

#[test]
fn conflict_can_be_resolved_by_deleting_the_file() {
    let setup = Setup::new();
    setup.write("src/a.rs", "fn changed() {}\n");
    setup.git(&["commit", "--quiet", "--all", "-m", "change a"]);
    std::fs::remove_file(setup.scratch.root().join("src/a.rs")).unwrap();
    setup.scratch.commit("main deletes a");
    let stopped = setup.operations.rebase_start(&setup.workspace()).unwrap();
    assert_eq!(stopped, RebaseOutcome::Conflicts { files: vec!["src/a.rs".to_owned()] });
    std::fs::remove_file(setup.path.join("src/a.rs")).unwrap();
    let outcome = setup.operations.rebase_mark_resolved(&setup.workspace()).unwrap();
    assert_eq!(outcome, RebaseOutcome::Done { head: setup.head() });
    assert!(!setup.path.join("src/a.rs").exists());
}

#[test]
fn rebase_is_refused_with_uncommitted_changes() {
    let setup = in_conflict();
    setup.write("src/a.rs", "changed\n");
    let before = setup.everything();
    let why = refusal(setup.operations.rebase_start(&setup.workspace()));
    assert!(why.contains("commit them first"), "{why}");
    assert_eq!(setup.everything(), before);
}
