//! The engine on a scratch repository.

use std::sync::Arc;

use bailiwick_fleet::ports::{Engine as _, LaunchedState};
use bailiwick_lifecycle::ports::{NewRun, RunStore as _};
use bailiwick_model::attempt::{Allowance, Attempt, Used};
use bailiwick_model::event::{ExitReason, Phase};
use bailiwick_model::{AgentId, LedgerNote};
use bailiwick_runner::supervisor::RunDirectory;
use bailiwick_store::{Location, Store};
use bailiwick_testkit::Scratch;

use super::{LocalEngine, Verification};
use crate::context::Context;
use crate::database::Database;
use crate::launched_for;
use crate::notices::Notices;
use crate::verifying::VerificationReport;

async fn wait_briefly_until(condition: impl Fn() -> bool) {
    for _ in 0..200 {
        if condition() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// An engine that was started outside of a repository.
async fn engine(scratch: &Scratch) -> LocalEngine {
    let database = Location::file(scratch.state().join("bailiwick.db"));
    let store = Arc::new(Store::open(database.clone()).await.unwrap());
    let context = Context {
        directory: scratch.place().join("home"),
        state: scratch.state(),
        user_kit: scratch.place().join("config"),
        kit_root: None,
        database: Database::at(database),
        global_options: String::new(),
        notices: Notices::default(),
    };
    LocalEngine::new(context, store, Verification::Here)
}

/// Begins a run.
async fn begin_run(engine: &LocalEngine, base: &str) -> (AgentId, Attempt) {
    let id = AgentId::parse("one").unwrap();
    let run = NewRun {
        id: id.clone(),
        branch: "agent/one".to_owned(),
        parent: None,
        spec_sha: "0".repeat(64),
        worktree: None,
        dna: None,
        creator: None,
        fork_parent: None,
        half_spawned: false,
        base: Some(base.to_owned()),
        named: None,
    };
    engine.store.record(&run, None).await.unwrap();
    let attempt = Attempt {
        run: id.clone(),
        number: 1,
        cli: "script".to_owned(),
        version: String::new(),
        model: String::new(),
        login: String::new(),
        sandbox: String::new(),
        session: None,
        phase: Phase::Working,
        ending: None,
        detail: "Done.".to_owned(),
        exhausted: None,
        started_at: 1,
        ended_at: None,
        used: Used::default(),
        budget: Allowance::default(),
    };
    engine.store.begin_attempt(&attempt).await.unwrap();
    (id, attempt)
}

#[tokio::test]
async fn run_is_held_while_a_process_has_its_lock() {
    let scratch = Scratch::bare();
    let engine = engine(&scratch).await;
    let is_running = async |agent: &str| engine.is_running(agent).await.unwrap();
    assert!(!is_running("one").await, "the run is unknown");
    let lock = RunDirectory::new(&scratch.state(), "one").lock().unwrap();
    assert!(is_running("one").await);
    assert!(!is_running("two").await);
    drop(lock);
    let directory = RunDirectory::new(&scratch.state(), "one");
    wait_briefly_until(|| !directory.is_supervised().unwrap()).await;
    assert!(!is_running("one").await);
    assert!(engine.is_running("no id").await.is_err());
}

/// The result depends neither on the engine's directory nor on the run's worktree.
#[tokio::test]
async fn verified_work_is_read_from_the_checkout_of_the_run() {
    let scratch = Scratch::repository();
    scratch.write("src/a.txt", "before\n");
    let base = scratch.commit("before");
    scratch.write("src/a.txt", "after\n");
    let work = scratch.commit("after");
    let tree = scratch.git(&["rev-parse", "HEAD^{tree}"]).trim().to_owned();
    let engine = engine(&scratch).await;
    let (id, mut attempt) = begin_run(&engine, &base).await;
    (attempt.phase, attempt.ending) = (Phase::Over, Some(ExitReason::Completed));
    engine.store.update_attempt(&attempt).await.unwrap();
    let shown = VerificationReport {
        agent_id: Some(id.to_string()),
        base_branch: None,
        base: Some(base.clone()),
        work: Some(work.clone()),
        worktree_tree: Some(tree.clone()),
        merged_tree: None,
        passed: Vec::new(),
        failed: Vec::new(),
        left_out: Vec::new(),
    };
    let shown = serde_json::to_string(&shown).unwrap();
    engine.store.append_run_note(&id, LedgerNote::Verified, &shown).await.unwrap();
    let error = engine.state("one").await.unwrap_err();
    assert!(error.to_string().contains("not in a git repository"), "{error}");
    let checkout = scratch.root().display().to_string();
    launched_for::write_checkout(&scratch.state(), &id, &checkout).unwrap();
    let launched = engine.state("one").await.unwrap().unwrap();
    assert_eq!(launched.state, LaunchedState::Verified);
    let found = launched.work.unwrap();
    assert_eq!((found.base, found.commit, found.tree), (base, work, tree));
    assert_eq!(found.files, ["src/a.txt"]);
    let patch = String::from_utf8_lossy(&found.patch);
    assert!(patch.contains("+after"), "{patch}");
    let history = String::from_utf8(found.history.unwrap()).unwrap();
    assert!(history.contains("+after") && !history.contains("before"), "{history}");
    assert!(found.verified && !found.merges);
    assert_eq!(found.report.as_deref(), Some("Done."));
}

/// After its supervisor was killed, granted files are removed, and the run can be locked again.
#[tokio::test]
async fn reading_the_state_removes_granted_files_but_not_the_lock() {
    let scratch = Scratch::bare();
    let engine = engine(&scratch).await;
    begin_run(&engine, &"0".repeat(40)).await;
    let directory = RunDirectory::new(&scratch.state(), "one");
    directory.make().unwrap();
    std::fs::create_dir(directory.granted()).unwrap();
    std::fs::write(directory.granted().join("KEY"), "x").unwrap();
    let running = directory.lock().unwrap();
    engine.state("one").await.unwrap();
    assert!(directory.granted().exists(), "an attempt is running");
    drop(running);
    // A process that another test forks now keeps the lock until it calls exec.
    wait_briefly_until(|| !directory.is_supervised().unwrap()).await;
    let lock = directory.path().join("lock");
    std::fs::write(&lock, "somebody").unwrap();
    engine.state("one").await.unwrap();
    assert!(!directory.granted().exists());
    assert_eq!(std::fs::read_to_string(&lock).unwrap(), "somebody");
}
