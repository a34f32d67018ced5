//! The passes of a verification, with a repository and a check environment of the test.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use bailiwick_lifecycle::landing::{self, LandingRequest, NotLanded};
use bailiwick_lifecycle::ports::{
    Base, CheckEnvironment, CheckEnvironmentError, Commit, Conflict, LandError, Landed, Landing,
    Merge, Method, Preparation, SetUp, Snapshot, Work, WorkError,
};
use bailiwick_lifecycle::verification::{
    ChangedSetup, Evidence, JobEvidence, JobTree, PlannedCheck, Progress, Request, Verdicts,
    Verification, VerificationPorts, check_tree, verify,
};
use bailiwick_model::capability::RunMode;
use bailiwick_model::module::CheckModule;
use bailiwick_model::{CapabilityName, Source, Task};
use bailiwick_model::{CommitId, TreeId};
use bailiwick_verify::change::{Entry, Mode};
use bailiwick_verify::checks::CheckMethod;
use bailiwick_verify::facts::{Report, ReportError, RepositoryFacts, Texts};
use bailiwick_verify::job::{CommandResult, Termination};
use bailiwick_verify::{Change, Check, ExecutedTests, Job, JobOutcome, Pass, Verdict};

use crate::kit_in_memory::id;

/// A repository whose work is the tree `work` on `old`, and whose merge result the test sets.
struct Repository {
    tip: RefCell<String>,
    merge: RefCell<Merge>,
    snapshot_fails: bool,
    materialised: RefCell<Vec<String>>,
    landed: RefCell<Vec<Landing>>,
    changes: Vec<Change>,
    /// How many tests a command reports on a tree.
    tests: BTreeMap<String, u64>,
    /// The trees on which commands ran.
    ran_on: RefCell<Vec<String>>,
    /// How often the base still moves when work lands.
    moves: RefCell<usize>,
}

fn repository(merged: &str) -> Repository {
    Repository {
        tip: RefCell::new("new".to_owned()),
        merge: RefCell::new(Merge::Clean { tree: TreeId::new(merged) }),
        snapshot_fails: false,
        materialised: RefCell::default(),
        landed: RefCell::default(),
        changes: Vec::new(),
        tests: BTreeMap::new(),
        ran_on: RefCell::default(),
        moves: RefCell::new(0),
    }
}

impl Work for Repository {
    fn base(&self) -> Result<Base, WorkError> {
        let tip = self.tip.borrow().clone();
        Ok(Base {
            branch: "refs/heads/main".into(),
            tree: TreeId::new(format!("{tip}-tree")),
            tip: CommitId::new(tip.as_str()),
            found: "told".into(),
        })
    }

    fn snapshot(&self, _base: &Base) -> Result<Snapshot, WorkError> {
        if self.snapshot_fails {
            let (what, why) = ("the worktree".into(), "it is gone".into());
            return Err(WorkError { what, why, caused_by_agent: false });
        }
        Ok(Snapshot {
            head: CommitId::new("head"),
            commit: CommitId::new("commit"),
            tree: TreeId::new("work"),
            merge_base: CommitId::new("old"),
            merge_base_tree: TreeId::new("old-tree"),
        })
    }

    fn changes(&self, _before: &str, _after: &str) -> Result<Vec<Change>, WorkError> {
        Ok(self.changes.clone())
    }

    fn require_submodule_commits(&self, _changes: &[Change]) -> Result<(), WorkError> {
        Ok(())
    }

    fn touched(&self, _work: &Snapshot) -> Result<Vec<String>, WorkError> {
        Ok(Vec::new())
    }

    fn commits(&self, _work: &Snapshot) -> Result<Vec<Commit>, WorkError> {
        Ok(Vec::new())
    }

    fn texts(&self, _: &[Change], _: &[String]) -> Result<BTreeMap<String, Texts>, WorkError> {
        Ok(BTreeMap::new())
    }

    fn merge(&self, _base: &Base, _work: &Snapshot) -> Result<Merge, WorkError> {
        Ok(self.merge.borrow().clone())
    }

    fn with_changes(&self, tree: &TreeId, changes: &[&Change]) -> Result<TreeId, WorkError> {
        Ok(TreeId::new(format!("{tree} with {} changes", changes.len())))
    }

    fn materialise(&self, tree: &TreeId, _: &[&CommitId], _: &Path) -> Result<(), WorkError> {
        self.materialised.borrow_mut().push(tree.to_string());
        Ok(())
    }

    fn repository(&self, _: &Base, _: &Snapshot) -> Result<RepositoryFacts, WorkError> {
        Ok(RepositoryFacts::default())
    }

    fn land(&self, landing: &Landing) -> Result<Landed, LandError> {
        let mut moves = self.moves.borrow_mut();
        if *moves > 0 {
            *moves -= 1;
            let now = format!("newer-{moves}");
            self.tip.replace(now.clone());
            return Err(LandError::Moved { branch: landing.branch.clone(), now });
        }
        self.landed.borrow_mut().push(landing.clone());
        Ok(Landed { commit: CommitId::new("landed"), checkouts: Vec::new() })
    }
}

/// A check environment in which a command fails if its line names the current tree.
struct TestEnvironment<'a> {
    repository: &'a Repository,
}

impl CheckEnvironment for TestEnvironment<'_> {
    fn clear(&mut self) -> Result<&Path, CheckEnvironmentError> {
        Ok(Path::new("/nowhere"))
    }

    fn make_ready(
        &mut self,
        how: &Preparation,
        _: &mut dyn FnMut(&str),
    ) -> Result<(), CheckEnvironmentError> {
        assert!(how.setup.is_empty(), "the setup runs only on the base");
        if !how.prefetch.is_empty() {
            self.repository.materialised.borrow_mut().push("fetched".to_owned());
        }
        Ok(())
    }

    fn set_up(
        &mut self,
        how: &Preparation,
        _: &mut dyn FnMut(&str),
    ) -> Result<SetUp, CheckEnvironmentError> {
        match how.setup.first() {
            Some(line) if line.contains("fails") => {
                let (what, why) = (line.clone(), "it failed".to_owned());
                Err(CheckEnvironmentError {
                    what,
                    why,
                    caused_by_agent: line.contains("of the tree"),
                })
            }
            Some(_) | None => {
                self.repository.materialised.borrow_mut().push("set up".to_owned());
                Ok(SetUp::Shared)
            }
        }
    }

    fn changed(&mut self, _paths: &[String]) {}

    fn run(&mut self, job: &Job, _tell: &mut dyn FnMut(&str)) -> JobOutcome {
        let Job::Command { line } = job else { panic!("only commands here: {job:?}") };
        if line == "cannot run" {
            return JobOutcome::CouldNotRun { why: "no sandbox".to_owned() };
        }
        let tree = self.repository.materialised.borrow().last().cloned().unwrap();
        self.repository.ran_on.borrow_mut().push(tree.clone());
        let code = i32::from(line.split_whitespace().any(|word| word == tree));
        JobOutcome::Commands(vec![CommandResult {
            line: line.clone(),
            ended: Termination::Exit(code),
            tail: String::new(),
            took: Duration::ZERO,
            executed_tests: self.repository.tests.get(&tree).copied(),
        }])
    }
}

#[derive(Default)]
struct StoredVerdicts(BTreeMap<String, Verdict>, BTreeMap<String, ExecutedTests>);

impl Verdicts for StoredVerdicts {
    fn find(&self, key: &str) -> Option<Verdict> {
        self.0.get(key).cloned()
    }

    fn keep(&mut self, key: &str, verdict: &Verdict) {
        self.0.insert(key.to_owned(), verdict.clone());
    }

    fn find_executed_tests(&self, key: &str) -> Option<ExecutedTests> {
        self.1.get(key).cloned()
    }

    fn keep_executed_tests(&mut self, key: &str, tests: &ExecutedTests) {
        self.1.insert(key.to_owned(), tests.clone());
    }
}

fn planned(name: &str, line: &str, on: RunMode) -> PlannedCheck {
    let capability = CapabilityName::parse(name).unwrap();
    PlannedCheck { check: Check { capability, method: CheckMethod::Command(line.to_owned()) }, on }
}

fn task() -> Task {
    Task::parse(&Source::new("t", "[task]\nrole = \"x\"\n")).unwrap()
}

fn run(
    repository: &Repository,
    checks: &[PlannedCheck],
    mode: RunMode,
    stored: &mut StoredVerdicts,
) -> Verification {
    run_with(repository, checks, mode, stored, (Preparation::default(), ChangedSetup::Refused))
}

fn run_with(
    repository: &Repository,
    checks: &[PlannedCheck],
    mode: RunMode,
    stored: &mut StoredVerdicts,
    (preparation, changed_setup): (Preparation, ChangedSetup),
) -> Verification {
    run_copying(repository, checks, mode, stored, (preparation, changed_setup), &|| None)
}

fn run_copying(
    repository: &Repository,
    checks: &[PlannedCheck],
    mode: RunMode,
    stored: &mut StoredVerdicts,
    (preparation, changed_setup): (Preparation, ChangedSetup),
    copied: &dyn Fn() -> Option<String>,
) -> Verification {
    let task = task();
    let request = Request {
        agent: None,
        task: &task,
        checks: checks.to_vec(),
        mode,
        preparation,
        changed_setup,
        machine_key: "stamp".to_owned(),
    };
    let mut workshop = || -> Result<Box<dyn CheckEnvironment + '_>, CheckEnvironmentError> {
        Ok(Box::new(TestEnvironment { repository }))
    };
    let missing = || Report { place: "nowhere".into(), text: Err(ReportError::Missing) };
    verify(
        &request,
        VerificationPorts {
            work: repository,
            open_environment: &mut workshop,
            report: &missing,
            copied,
            ledger: None,
            verdicts: stored,
            evidence: None,
            tell: &mut |_: Progress<'_>| {},
        },
    )
}

fn summaries(verification: &Verification) -> Vec<(String, Pass, bool, bool)> {
    let result = |result: &bailiwick_lifecycle::verification::CheckResult| {
        (result.capability.clone(), result.pass, result.verdict.is_pass(), result.reused)
    };
    verification.results.iter().map(result).collect()
}

#[test]
fn check_that_fails_in_the_worktree_is_not_repeated_for_the_merge() {
    let repository = repository("merged");
    let checks = [
        planned("quality::fails-alone", "fails on work", RunMode::Both),
        planned("quality::fails-merged", "fails on merged", RunMode::Both),
        planned("quality::holds", "holds", RunMode::Both),
        planned("quality::only-merged", "holds", RunMode::SimulatedMerge),
    ];
    let verification = run(&repository, &checks, RunMode::Both, &mut StoredVerdicts::default());
    let (worktree, merged) = (Pass::Worktree, Pass::SimulatedMerge);
    let expected = [
        ("quality::fails-alone", worktree, false, false),
        ("quality::fails-merged", worktree, true, false),
        ("quality::holds", worktree, true, false),
        ("quality::fails-merged", merged, false, false),
        ("quality::holds", merged, true, false),
        ("quality::only-merged", merged, true, false),
    ];
    let expected =
        expected.map(|(name, pass, passes, reused)| (name.to_owned(), pass, passes, reused));
    assert_eq!(summaries(&verification), expected);
    assert_eq!(
        *repository.materialised.borrow(),
        ["work", "merged"],
        "each tree is checked out once"
    );
    assert!(!verification.all_passed());
    let worktree_only =
        run(&repository, &checks[2..], RunMode::Worktree, &mut StoredVerdicts::default());
    assert!(worktree_only.all_passed());
    assert_eq!(worktree_only.left_out, ["quality::only-merged"]);
    assert_eq!(worktree_only.merged, None);
}

#[test]
fn tree_is_checked_once_with_the_same_parameters() {
    let mut repository = repository("work");
    repository.merge = RefCell::new(Merge::Clean { tree: TreeId::new("work") });
    repository.tip.replace("old".to_owned());
    let checks = [planned("quality::holds", "holds", RunMode::Both)];
    let mut stored = StoredVerdicts::default();
    let first = run(&repository, &checks, RunMode::Both, &mut stored);
    let reused: Vec<bool> = first.results.iter().map(|result| result.reused).collect();
    assert_eq!(reused, [false, true], "the merge has the tree of the worktree");
    let second = run(&repository, &checks, RunMode::Both, &mut stored);
    assert!(second.results.iter().all(|result| result.reused));
    assert_eq!(repository.materialised.borrow().len(), 1);
    let other = [planned("quality::holds", "holds too", RunMode::Both)];
    let third = run(&repository, &other, RunMode::Both, &mut stored);
    assert!(!third.results[0].reused, "another command is another check");
    let failing = [planned("quality::fails", "fails on work", RunMode::Both)];
    for _ in 0..2 {
        let failed = run(&repository, &failing, RunMode::Both, &mut stored);
        assert!(!failed.results[0].reused && !failed.all_passed(), "a failed check runs again");
    }
}

/// Files that a task copies from the checkout are in no tree: their digest is part of the key.
#[test]
fn tree_with_unchanged_copied_files_is_checked_once() {
    let repository = repository("work");
    repository.tip.replace("old".to_owned());
    let checks = [planned("quality::holds", "holds", RunMode::Both)];
    let copy = Preparation { copy: vec!["node_modules".to_owned()], ..Preparation::default() };
    let mut stored = StoredVerdicts::default();
    let mut reused = |copied: &dyn Fn() -> Option<String>| -> Vec<bool> {
        let done = run_copying(
            &repository,
            &checks,
            RunMode::Both,
            &mut stored,
            (copy.clone(), ChangedSetup::Refused),
            copied,
        );
        done.results.iter().map(|result| result.reused).collect()
    };
    let unchanged = || Some("one".to_owned());
    assert_eq!(reused(&unchanged), [false, true], "the merge has the tree of the worktree");
    assert_eq!(reused(&unchanged), [true, true], "a landing right after it");
    assert_eq!(repository.materialised.borrow().len(), 1, "the command ran once");
    assert_eq!(reused(&|| Some("two".to_owned())), [false, true], "other copied files");
    assert_eq!(reused(&|| None), [false, false], "copied files that cannot be read");
    let count = RefCell::new(0);
    let changing = || {
        *count.borrow_mut() += 1;
        Some(format!("change {}", count.borrow()))
    };
    assert_eq!(reused(&changing), [false, false], "copied files that change while the check runs");
}

#[test]
fn verification_fails_if_nothing_can_be_checked() {
    let mut without_worktree = repository("merged");
    without_worktree.snapshot_fails = true;
    let checks = [planned("quality::holds", "holds", RunMode::Both)];
    let verification =
        run(&without_worktree, &checks, RunMode::Both, &mut StoredVerdicts::default());
    assert!(!verification.all_passed() && verification.results.len() == 1);
    let none = run(&repository("merged"), &[], RunMode::Both, &mut StoredVerdicts::default());
    assert!(!none.all_passed(), "nothing was checked");
    let conflicting = repository("merged");
    let conflict = Conflict { path: "a.txt".into(), why: "content".into() };
    conflicting.merge.replace(Merge::Conflicts(vec![conflict]));
    let verification = run(&conflicting, &checks, RunMode::Both, &mut StoredVerdicts::default());
    let failed: Vec<_> = verification.failed().collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].capability, "bailiwick::trial-merge");
    let Verdict::Fail { detail, .. } = &failed[0].verdict else {
        panic!("the merge check must fail")
    };
    assert_eq!(detail.as_deref(), Some("a.txt: content"));
}

/// A setup can fail because of the tree; a missing sandbox is not the fault of the tree.
#[test]
fn check_that_cannot_run_differs_from_a_check_that_fails() {
    for (line, setup, trouble) in [
        ("holds", None, None),
        ("fails on work", None, None),
        ("cannot run", None, Some("no sandbox")),
        ("holds", Some("fails because of the tree"), None),
        ("holds", Some("fails"), Some("fails: it failed")),
    ] {
        let repository = repository("merged");
        let task = task();
        let setup = setup.map(str::to_owned).into_iter().collect();
        let request = Request {
            agent: None,
            task: &task,
            checks: vec![planned("quality::own", line, RunMode::Worktree)],
            mode: RunMode::Worktree,
            preparation: Preparation { setup, ..Preparation::default() },
            changed_setup: ChangedSetup::Refused,
            machine_key: "stamp".to_owned(),
        };
        let repository = &repository;
        let mut workshop = || -> Result<Box<dyn CheckEnvironment + '_>, CheckEnvironmentError> {
            Ok(Box::new(TestEnvironment { repository }))
        };
        let missing = || Report { place: "nowhere".into(), text: Err(ReportError::Missing) };
        let (base, mut stored) = (repository.base().unwrap(), StoredVerdicts::default());
        let work = repository.snapshot(&base).unwrap();
        let ports = VerificationPorts {
            work: repository,
            open_environment: &mut workshop,
            report: &missing,
            copied: &|| None,
            ledger: None,
            verdicts: &mut stored,
            evidence: None,
            tell: &mut |_: Progress<'_>| {},
        };
        let checked = check_tree(&request, ports, &base, &work);
        assert_eq!(checked.results.len(), 1, "{line}");
        assert_eq!(checked.trouble.as_deref(), trouble, "{line}");
    }
}

/// While the network is available, no code of the agent runs.
#[test]
fn dependencies_are_fetched_on_the_tree_before_the_changes() {
    let repository = repository("merged");
    let checks = [planned("quality::holds", "holds", RunMode::Both)];
    let fetch = Preparation { prefetch: vec!["cargo fetch".to_owned()], ..Preparation::default() };
    let fetch = (fetch, ChangedSetup::Refused);
    let done = run_with(&repository, &checks, RunMode::Both, &mut StoredVerdicts::default(), fetch);
    assert!(done.all_passed());
    let trees = repository.materialised.borrow();
    assert_eq!(*trees, ["old-tree", "fetched", "work", "new-tree", "fetched", "merged"]);
}

/// The setup has network access, so it runs on the base; it uses the agent's lock file only if a person allows that.
#[test]
fn setup_runs_on_the_base_unless_changed_files_are_allowed() {
    let checks = [planned("quality::holds", "holds", RunMode::Both)];
    let setup = || Preparation { setup: vec!["npm ci".to_owned()], ..Preparation::default() };
    let changed = |path: &str| {
        let entry = || Some(Entry { mode: Mode::File, object: "0".repeat(40) });
        let (before, after) = (entry(), entry());
        Change { path: path.to_owned(), from: None, copied: false, before, after }
    };
    let lock = ["package-lock.json", ".npmrc", "src/a.js"].map(changed).to_vec();
    for (changes, allowed, passes, trees) in [
        (
            vec![changed("src/a.js")],
            ChangedSetup::Refused,
            true,
            &["old-tree", "set up", "work", "new-tree", "set up", "merged"][..],
        ),
        (lock.clone(), ChangedSetup::Refused, false, &[]),
        (
            lock,
            ChangedSetup::Allowed,
            true,
            &[
                "old-tree with 1 changes",
                "set up",
                "work",
                "new-tree with 1 changes",
                "set up",
                "merged",
            ],
        ),
    ] {
        let repository = Repository { changes, ..repository("merged") };
        let stored = &mut StoredVerdicts::default();
        let done = run_with(&repository, &checks, RunMode::Both, stored, (setup(), allowed));
        assert_eq!(done.all_passed(), passes, "{allowed:?}");
        assert_eq!(*repository.materialised.borrow(), trees);
        if !passes {
            let Verdict::Fail { reason, .. } = &done.results[0].verdict else {
                panic!("the check must fail")
            };
            assert!(reason.contains("package-lock.json"), "{reason}");
            assert!(reason.contains("--allow-setup"), "{reason}");
        }
    }
}

fn landing_request() -> LandingRequest {
    LandingRequest {
        agent: id("ag-1"),
        branch: None,
        method: Method::Merge,
        message: "m".to_owned(),
    }
}

#[test]
fn moved_base_is_verified_again_before_landing() {
    let repository = repository("merged");
    repository.moves.replace(2);
    let checks = [planned("quality::holds", "holds", RunMode::Both)];
    let count = RefCell::new(0);
    let mut verify_again = || {
        *count.borrow_mut() += 1;
        run(&repository, &checks, RunMode::Both, &mut StoredVerdicts::default())
    };
    let done = landing::land(&landing_request(), &repository, &mut verify_again, &mut |_| {
        Ok::<_, Infallible>(())
    })
    .unwrap();
    assert_eq!(*count.borrow(), 3);
    assert_eq!(done.onto, "newer-0", "the base that was verified last");
    let landed = repository.landed.borrow();
    assert_eq!(landed[0].expected.as_deref(), Some("newer-0"));
    assert_eq!(landed[0].tree, "merged");
}

#[test]
fn failed_or_always_moving_work_does_not_land() {
    let repository = repository("merged");
    let failing = [planned("quality::fails", "fails on merged", RunMode::Both)];
    let mut verify = || run(&repository, &failing, RunMode::Both, &mut StoredVerdicts::default());
    let refused = landing::land(&landing_request(), &repository, &mut verify, &mut |_| {
        Ok::<_, Infallible>(())
    });
    assert!(matches!(refused, Err(NotLanded::Failed(_))));
    let passing = [planned("quality::holds", "holds", RunMode::Both)];
    let mut worktree_only =
        || run(&repository, &passing, RunMode::Worktree, &mut StoredVerdicts::default());
    let refused = landing::land(&landing_request(), &repository, &mut worktree_only, &mut |_| {
        Ok::<_, Infallible>(())
    });
    assert!(matches!(refused, Err(NotLanded::Failed(_))), "nothing lands without a merge pass");
    repository.moves.replace(1000);
    let mut verify = || run(&repository, &passing, RunMode::Both, &mut StoredVerdicts::default());
    let refused = landing::land(&landing_request(), &repository, &mut verify, &mut |_| {
        Ok::<_, Infallible>(())
    });
    assert!(matches!(refused, Err(NotLanded::KeptMoving { .. })));
    assert!(repository.landed.borrow().is_empty());
}

/// A role that runs `test` and requires that its tests are kept.
fn kept_tests() -> Vec<PlannedCheck> {
    let capability = CapabilityName::parse("quality::tests-kept").unwrap();
    let method = CheckMethod::Module(CheckModule::QualityTestsKept);
    let tests_kept = PlannedCheck { check: Check { capability, method }, on: RunMode::Both };
    vec![tests_kept, planned("quality::test", "test", RunMode::Both)]
}

fn with_tests(counts: &[(&str, u64)]) -> Repository {
    let tests = counts.iter().map(|(tree, count)| ((*tree).to_owned(), *count)).collect();
    Repository { tests, ..repository("merged") }
}

#[test]
fn work_that_executes_fewer_tests_than_its_base_fails_the_check() {
    let counts = [("old-tree", 5), ("work", 4), ("new-tree", 5), ("merged", 5)];
    let repository = with_tests(&counts);
    let verification =
        run(&repository, &kept_tests(), RunMode::Both, &mut StoredVerdicts::default());
    let failed: Vec<_> = verification.failed().collect();
    let [failed] = failed.as_slice() else { panic!("{failed:?}") };
    assert_eq!((failed.capability.as_str(), failed.pass), ("quality::tests-kept", Pass::Worktree));
    let Verdict::Fail { reason, .. } = &failed.verdict else { panic!() };
    assert!(reason.ends_with("`test` executed 4 tests, 5 on the base"), "{reason}");
    // Positive control: as many tests as on the base.
    let same = with_tests(&[("old-tree", 4), ("work", 4), ("new-tree", 5), ("merged", 6)]);
    let verification = run(&same, &kept_tests(), RunMode::Both, &mut StoredVerdicts::default());
    assert!(verification.all_passed(), "{verification:?}");
}

#[test]
fn tests_of_a_base_are_counted_once() {
    let repository = with_tests(&[("old-tree", 5), ("work", 5), ("new-tree", 6), ("merged", 6)]);
    let mut stored = StoredVerdicts::default();
    assert!(run(&repository, &kept_tests(), RunMode::Both, &mut stored).all_passed());
    assert_eq!(*repository.ran_on.borrow(), ["work", "old-tree", "merged", "new-tree"]);
    let second = run(&repository, &kept_tests(), RunMode::Both, &mut stored);
    assert!(second.all_passed());
    let evidence: Vec<_> = second.results.iter().map(|result| &result.verdict).collect();
    assert!(format!("{evidence:?}").contains("`test` executed 6 tests, 6 on the base"));
    assert_eq!(repository.ran_on.borrow().len(), 4, "no command runs again");
}

/// Another machine that ran every command on the tree `work`, with five tests each.
struct OtherMachine;

impl JobEvidence for OtherMachine {
    fn find(&mut self, job: &Job, tree: &JobTree) -> Evidence {
        let Job::Command { line } = job else { panic!("only commands here: {job:?}") };
        if tree.tree.as_str() != "work" {
            return Evidence::RunHere;
        }
        Evidence::Outcome(JobOutcome::Commands(vec![CommandResult {
            line: line.clone(),
            ended: Termination::Exit(0),
            tail: String::new(),
            took: Duration::ZERO,
            executed_tests: Some(5),
        }]))
    }
}

/// With a pool whose workers run the jobs, each job runs on a base only once.
#[test]
fn test_counts_of_this_machine_are_stored_and_of_others_are_not() {
    let repository = with_tests(&[("old-tree", 5)]);
    let (task, mut stored, mut other_machine) = (task(), StoredVerdicts::default(), OtherMachine);
    for _ in 0..2 {
        let request = Request {
            agent: None,
            task: &task,
            checks: kept_tests(),
            mode: RunMode::Worktree,
            preparation: Preparation::default(),
            changed_setup: ChangedSetup::Refused,
            machine_key: "stamp".to_owned(),
        };
        let repository = &repository;
        let mut workshop = || -> Result<Box<dyn CheckEnvironment + '_>, CheckEnvironmentError> {
            Ok(Box::new(TestEnvironment { repository }))
        };
        let missing = || Report { place: "nowhere".into(), text: Err(ReportError::Missing) };
        let ports = VerificationPorts {
            work: repository,
            open_environment: &mut workshop,
            report: &missing,
            copied: &|| None,
            ledger: None,
            verdicts: &mut stored,
            evidence: Some(&mut other_machine),
            tell: &mut |_: Progress<'_>| {},
        };
        assert!(verify(&request, ports).all_passed());
    }
    assert_eq!(*repository.ran_on.borrow(), ["old-tree"]);
    assert_eq!(
        (stored.0.len(), stored.1.len()),
        (0, 1),
        "results of another machine are not stored"
    );
}

#[test]
fn failed_job_is_not_compared_with_the_base() {
    let repository = with_tests(&[("old-tree", 5), ("work", 1)]);
    let mut checks = kept_tests();
    checks[1] = planned("quality::test", "test work", RunMode::Both);
    let verification = run(&repository, &checks, RunMode::Worktree, &mut StoredVerdicts::default());
    let failed: Vec<_> = verification.failed().map(|result| result.capability.as_str()).collect();
    assert_eq!(failed, ["quality::test"]);
    assert_eq!(*repository.ran_on.borrow(), ["work"]);
}
