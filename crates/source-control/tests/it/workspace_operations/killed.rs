//! A kill during an operation: nothing is lost.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bailiwick_source_control::git::{
    IgnoredFiles, OperationError, RebaseOutcome, RestoredFrom, Workspace, WorkspaceOperations,
};
use bailiwick_testkit::Depth;
use bailiwick_testkit::random::Random;

use super::Setup;

const CHILD: &str = "OPERATIONS_AS_A_CHILD";

/// Runs verbs again and again, until it is killed.
fn child(parameters: &str) {
    let mut words = parameters.split('\n');
    let mut word = || words.next().unwrap().to_owned();
    let (what, checkout, root, state) = (word(), word(), word(), word());
    let operations =
        WorkspaceOperations::new(checkout.as_ref(), root.as_ref(), state.as_ref()).unwrap();
    let path = std::path::Path::new(&root).join("one");
    let workspace = Workspace { path: &path, branch: "work/one", target: Some("refs/heads/main") };
    loop {
        if what == "away" {
            operations.archive(&workspace, IgnoredFiles::Keep).unwrap();
            operations.recover(&workspace).unwrap();
        } else {
            let rebase = operations.rebase_start(&workspace).unwrap();
            assert!(matches!(rebase, RebaseOutcome::Conflicts { .. }));
            operations.rebase_abort(&workspace).unwrap();
        }
    }
}

/// Starts a child, and kills it after a while.
fn kill_in(setup: &Setup, test: &str, what: &str, after: Duration) {
    let root = setup.path.parent().unwrap();
    let parameters = [
        what,
        setup.scratch.root().to_str().unwrap(),
        root.to_str().unwrap(),
        setup.scratch.state().to_str().unwrap(),
    ]
    .join("\n");
    let mut running = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, parameters)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(after);
    assert!(running.try_wait().unwrap().is_none(), "the child ended before the kill");
    running.kill().unwrap();
    running.wait().unwrap();
}

/// A git that outlives its parent keeps the lock until it ends.
fn when_free<T>(mut verb: impl FnMut() -> Result<T, OperationError>) -> Result<T, OperationError> {
    let started = Instant::now();
    loop {
        match verb() {
            Err(error) if error.to_string().contains("another operation is changing") => {
                assert!(started.elapsed() < Duration::from_secs(60), "{error}");
                std::thread::sleep(Duration::from_millis(20));
            }
            other => return other,
        }
    }
}

#[test]
fn kill_during_archive_or_recover_loses_nothing() {
    if let Ok(parameters) = std::env::var(CHILD) {
        return child(&parameters);
    }
    let mut random = Random::rotating("a_kill_while_a_workspace_goes");
    let mut counts = [0_usize; 4];
    for case in 0..Depth::from_env().cases(60) {
        let setup = Setup::new();
        setup.write("src/a.rs", "changed\r\n");
        setup.write("staged", "staged\n");
        setup.git(&["add", "staged"]);
        setup.write("staged", "and changed again\n");
        setup.write("new", "new\n");
        setup.write("kept.log", "ignored\n");
        let (before, head) = (setup.everything(), setup.head());
        for _ in 0..2 {
            let test = "workspace_operations::killed::kill_during_archive_or_recover_loses_nothing";
            let after = Duration::from_millis(30 + u64::try_from(random.below(400)).unwrap());
            kill_in(&setup, test, "away", after);
            let recovered = when_free(|| setup.operations.recover(&setup.workspace()));
            let place = match recovered {
                Ok(RestoredFrom::Disk) => 0,
                Ok(RestoredFrom::Branch) => panic!("case {case}: uncommitted files are lost"),
                Ok(RestoredFrom::BranchAndRescue) => 1,
                Err(error) => {
                    assert!(
                        error.to_string().contains("its files already exist"),
                        "{case}: {error}"
                    );
                    2
                }
            };
            counts[place] += 1;
            assert_eq!(setup.everything(), before, "case {case}");
            assert_eq!(setup.head(), head);
        }
    }
    println!("as they were, with rescued, untouched: {counts:?}");
}

#[test]
fn killed_rebase_can_be_aborted() {
    if let Ok(parameters) = std::env::var(CHILD) {
        return child(&parameters);
    }
    let mut random = Random::rotating("a_kill_in_a_rebase");
    let mut aborted = 0;
    for case in 0..Depth::from_env().cases(60) {
        let setup = Setup::new();
        for number in 0..4 {
            setup.write("README.md", &format!("mine {number}\n"));
            setup.git(&["commit", "--quiet", "--all", "-m", "mine"]);
        }
        setup.scratch.write("README.md", "theirs\n");
        setup.scratch.commit("theirs");
        setup.write("notes.txt", "not tracked\n");
        let before = setup.everything();
        let test = "workspace_operations::killed::killed_rebase_can_be_aborted";
        let after = Duration::from_millis(30 + u64::try_from(random.below(400)).unwrap());
        kill_in(&setup, test, "rebase", after);
        // Another operation waits for the git process of the killed one.
        let _ = when_free(|| setup.operations.rebase_auto_resolve(&setup.workspace()));
        if setup.operations.is_rebasing(&setup.workspace()).unwrap() {
            when_free(|| setup.operations.rebase_abort(&setup.workspace())).unwrap();
            aborted += 1;
        }
        assert_eq!(setup.everything(), before, "case {case}");
    }
    println!("aborted: {aborted}");
}
