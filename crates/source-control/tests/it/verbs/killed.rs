//! A kill in the middle of a verb: whatever was there is there afterwards, or comes back.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bailiwick_source_control::git::{
    CameBack, Ignored, Rebase, VerbError, Workspace, WorkspaceVerbs,
};
use bailiwick_testkit::Depth;
use bailiwick_testkit::random::Random;

use super::Setup;

const CHILD: &str = "VERBS_AS_A_CHILD";

/// Does verbs over and over, until it is killed.
fn child(told: &str) {
    let mut words = told.split('\n');
    let mut word = || words.next().unwrap().to_owned();
    let (what, checkout, root, state) = (word(), word(), word(), word());
    let verbs = WorkspaceVerbs::new(checkout.as_ref(), root.as_ref(), state.as_ref()).unwrap();
    let path = std::path::Path::new(&root).join("one");
    let workspace = Workspace { path: &path, branch: "work/one", target: "main" };
    loop {
        if what == "away" {
            verbs.archive(&workspace, Ignored::Keep).unwrap();
            verbs.recover(&workspace).unwrap();
        } else {
            let begun = verbs.rebase_start(&workspace).unwrap();
            assert!(matches!(begun, Rebase::Conflicts { .. }));
            verbs.rebase_abort(&workspace).unwrap();
        }
    }
}

/// Starts a child, and kills it after a while.
fn kill_in(setup: &Setup, test: &str, what: &str, after: Duration) {
    let root = setup.path.parent().unwrap();
    let told = [
        what,
        setup.scratch.root().to_str().unwrap(),
        root.to_str().unwrap(),
        setup.scratch.state().to_str().unwrap(),
    ]
    .join("\n");
    let mut running = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, told)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(after);
    assert!(running.try_wait().unwrap().is_none(), "the child did not last");
    running.kill().unwrap();
    running.wait().unwrap();
}

/// A git that outlives its parent holds the lock until it is done.
fn when_free<T>(mut verb: impl FnMut() -> Result<T, VerbError>) -> Result<T, VerbError> {
    let begun = Instant::now();
    loop {
        match verb() {
            Err(error) if error.to_string().contains("is being done") => {
                assert!(begun.elapsed() < Duration::from_secs(60), "{error}");
                std::thread::sleep(Duration::from_millis(20));
            }
            other => return other,
        }
    }
}

#[test]
fn a_kill_while_a_workspace_goes_or_comes_loses_nothing() {
    if let Ok(told) = std::env::var(CHILD) {
        return child(&told);
    }
    let mut random = Random::rotating("a_kill_while_a_workspace_goes");
    let mut seen = [0_usize; 4];
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
            let test = "verbs::killed::a_kill_while_a_workspace_goes_or_comes_loses_nothing";
            let after = Duration::from_millis(30 + u64::try_from(random.below(400)).unwrap());
            kill_in(&setup, test, "away", after);
            let came = when_free(|| setup.verbs.recover(&setup.workspace()));
            let place = match came {
                Ok(CameBack::AsTheyWere) => 0,
                Ok(CameBack::FromBranch) => panic!("case {case}: what was not committed is gone"),
                Ok(CameBack::WithRescued) => 1,
                Err(error) => {
                    assert!(error.to_string().contains("its files are there"), "{case}: {error}");
                    2
                }
            };
            seen[place] += 1;
            assert_eq!(setup.everything(), before, "case {case}");
            assert_eq!(setup.head(), head);
        }
    }
    println!("as they were, with rescued, untouched: {seen:?}");
}

#[test]
fn a_kill_in_a_rebase_can_be_aborted_to_where_it_was() {
    if let Ok(told) = std::env::var(CHILD) {
        return child(&told);
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
        let test = "verbs::killed::a_kill_in_a_rebase_can_be_aborted_to_where_it_was";
        let after = Duration::from_millis(30 + u64::try_from(random.below(400)).unwrap());
        kill_in(&setup, test, "rebase", after);
        // A verb that changes nothing waits for what is left of the other one.
        let _ = when_free(|| setup.verbs.rebase_auto_resolve(&setup.workspace()));
        if setup.verbs.is_rebasing(&setup.workspace()).unwrap() {
            when_free(|| setup.verbs.rebase_abort(&setup.workspace())).unwrap();
            aborted += 1;
        }
        assert_eq!(setup.everything(), before, "case {case}");
    }
    println!("aborted: {aborted}");
}
