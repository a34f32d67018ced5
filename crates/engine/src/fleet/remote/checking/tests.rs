//! The work of a worker, received and checked by a real store and real git.

use bailiwick_fleet::ports::{Engine as _, FleetStore, LaunchedState, Write};
use bailiwick_fleet::workers::{
    AttemptSummary, NewWorker, NewWorkerToken, QueuedAttempt, WorkClaim, WorkerCapabilities,
};
use bailiwick_model::Source;
use bailiwick_resources::{
    API_VERSION, AnyObject, ChecksOn, DEFAULT_NAMESPACE, Kind, Metadata, Moment, PodGrants,
};
use bailiwick_source_control::git::{BundleError, Git, GitError, Input, create_bundle};
use bailiwick_store::{Location, Store};
use bailiwick_testkit::Scratch;
use serde_json::json;

use super::*;
use crate::database::Database;
use crate::fleet::remote::FleetEngine;
use crate::notices::Notices;
use crate::spawning::{Naming, SpawnBindings, spawn};

const ROLE: &str = "[role]\nname = \"mender\"\ndisplay-name = \"Mender\"\ndescription = \"Mends.\"\n\
    spawnable = true\nclaude-subagent-type = \"general-purpose\"\nisolation = \"worktree\"\n\
    [capabilities]\nrequired = [\"scope::files-whitelist\"]\n\
    [tools]\nallowed = [\"Write\"]\nbash-patterns-allowed = []\n\
    [escalation]\npolicy = \"ask-via-return\"\n";
const TASK: &str = "[task]\nrole = \"mender\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n\
    [body]\ntext = \"Mend it.\"\n";
const HOUR: u64 = 3_600_000;

struct Scene {
    scratch: Scratch,
    context: Context,
    base: String,
}

/// A server whose agent `mend-1` runs on a worker.
fn scene() -> Scene {
    let scratch = Scratch::repository();
    scratch.write(".bailiwick/roles/mender.toml", ROLE);
    scratch.write("src/a.txt", "one\n");
    let base = scratch.commit("start");
    let context = Context {
        directory: scratch.root(),
        state: scratch.state(),
        user_kit: scratch.place().join("config"),
        kit_root: None,
        database: Database::at(Location::file(scratch.state().join("bailiwick.db"))),
        global_options: String::new(),
        notices: Notices::default(),
    };
    let id = AgentId::parse("mend-1").unwrap();
    let source = Source::new("the task", TASK);
    spawn(&context, &source, Naming::Exactly(&id), &base, SpawnBindings::default()).unwrap();
    launched_for::write_checkout(&context.state, &id, &scratch.root().display().to_string())
        .unwrap();
    Scene { scratch, context, base }
}

impl Scene {
    /// Creates a commit on another machine, on top of the given commit, with this file.
    fn commit_on_another_machine(&self, on: &[&str], path: &str) -> String {
        let other = Scratch::repository();
        let from = self.scratch.root().display().to_string();
        other.git(&["fetch", "--quiet", &from, "HEAD:refs/heads/base"]);
        match on.first() {
            Some(commit) => drop(other.git(&["checkout", "--quiet", "--detach", commit])),
            None => drop(other.git(&["checkout", "--quiet", "--orphan", "new"])),
        }
        other.write(path, "mended\n");
        let new_commit = other.commit("Mend it");
        let git = Git::at(other.root());
        let bundle =
            create_bundle(&git, (&[&new_commit], &[&self.base]), &std::env::temp_dir(), usize::MAX)
                .unwrap();
        std::fs::write(self.scratch.place().join("bundle"), bundle).unwrap();
        new_commit
    }

    /// The state that the server reports when a worker sends this work.
    fn state(&self, head: &str, commit: &str) -> (LaunchedState, String) {
        self.state_if(head, commit, false)
    }

    /// The same, for an attempt that is cancelled before its work is checked.
    fn state_if(&self, head: &str, commit: &str, is_cancelled: bool) -> (LaunchedState, String) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let bundle = std::fs::read(self.scratch.place().join("bundle")).unwrap();
        runtime.block_on(async {
            let store = Store::open(self.context.database.location().clone()).await.unwrap();
            finish(&store, bundle, WorkClaim { head: head.to_owned(), commit: commit.to_owned() })
                .await;
            if is_cancelled {
                store.cancel_attempt("mend-1").await.unwrap();
            }
            let engine = FleetEngine::new(self.context.clone(), Arc::new(store), HOUR);
            for _ in 0..600 {
                let state = engine.state("mend-1").await.unwrap().unwrap();
                if state.state != LaunchedState::Running {
                    let files = state.work.map(|work| work.files.join(" "));
                    return (state.state, files.unwrap_or(state.detail));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            panic!("the work is not checked")
        })
    }
}

/// A worker claims the attempt, sends a bundle and reports its end.
async fn finish(store: &Store, bundle: Vec<u8>, work: WorkClaim) {
    let (pool, name) = ("inside".to_owned(), "one".to_owned());
    let attempt = QueuedAttempt {
        agent: "mend-1".to_owned(),
        attempt: "mend-1".to_owned(),
        pool: pool.clone(),
        labels: BTreeMap::new(),
        launch: b"{}".to_vec(),
        checks_on: ChecksOn::Server,
        pod_grants: PodGrants::default(),
    };
    store.queue_attempt(&attempt).await.unwrap();
    let token = NewWorkerToken {
        digest: "token".to_owned(),
        pool: pool.clone(),
        created_by: "ada".to_owned(),
        valid_millis: HOUR,
        agent: None,
    };
    store.add_worker_token(&token).await.unwrap();
    let worker = NewWorker {
        name,
        pool,
        labels: BTreeMap::new(),
        capabilities: WorkerCapabilities::default(),
        version: "1.0.0".to_owned(),
        credential: "credential".to_owned(),
    };
    assert!(store.join_worker("token", &worker, HOUR).await.unwrap());
    let worker = store.worker_with_credential("credential", HOUR).await.unwrap().unwrap();
    let lease = store.claim_attempt(&worker, HOUR, None).await.unwrap().unwrap().lease;
    store.store_work("one", &lease, bundle).await.unwrap().unwrap();
    let finish = FinishReport {
        ending: ExitReason::Completed,
        detail: "done".to_owned(),
        summary: AttemptSummary::default(),
        work: Some(work),
        evidence: None,
        not_begun: false,
    };
    store.finish_attempt("one", &lease, &finish).await.unwrap().unwrap();
}

#[test]
fn work_is_verified_and_its_files_are_computed_by_the_server() {
    let scene = scene();
    let commit = scene.commit_on_another_machine(&[&scene.base], "src/b.txt");
    assert_eq!(scene.state(&commit, &commit), (LaunchedState::Verified, "src/b.txt".to_owned()));
}

#[test]
fn work_of_a_cancelled_attempt_is_not_verified() {
    let scene = scene();
    let commit = scene.commit_on_another_machine(&[&scene.base], "src/b.txt");
    let stopped = (LaunchedState::Stopped, "cancelled".to_owned());
    assert_eq!(scene.state_if(&commit, &commit, true), stopped);
}

#[test]
fn work_with_an_invalid_path_is_refused() {
    let scene = scene();
    let other = Scratch::repository();
    let from = scene.scratch.root().display().to_string();
    other.git(&["fetch", "--quiet", &from, "HEAD:refs/heads/base"]);
    other.git(&["read-tree", &scene.base]);
    other.write("a.txt", "mended\n");
    let blob = other.git(&["hash-object", "-w", "a.txt"]).trim().to_owned();
    let entry = format!("100644,{blob},src/{}", "n".repeat(256));
    other.git(&["update-index", "--add", "--cacheinfo", &entry]);
    let tree = other.git(&["write-tree"]).trim().to_owned();
    let commit = ["commit-tree", "-m", "long", "-p", &scene.base, &tree];
    let long = other.git(&commit).trim().to_owned();
    let git = Git::at(other.root());
    let bundle =
        create_bundle(&git, (&[&long], &[&scene.base]), &std::env::temp_dir(), usize::MAX).unwrap();
    std::fs::write(scene.scratch.place().join("bundle"), bundle).unwrap();
    let (state, detail) = scene.state(&long, &long);
    assert_eq!(state, LaunchedState::EnforcementLost);
    assert!(detail.contains("is too long"), "{detail}");
}

#[test]
fn work_out_of_scope_is_rejected_by_the_server_checks() {
    let scene = scene();
    let commit = scene.commit_on_another_machine(&[&scene.base], "other.txt");
    let (state, files) = scene.state(&commit, &commit);
    assert_eq!((state, files.as_str()), (LaunchedState::Rejected, "other.txt"));
}

#[test]
fn work_that_is_not_based_on_the_base_is_refused() {
    let scene = scene();
    let commit = scene.commit_on_another_machine(&[], "src/b.txt");
    let (state, detail) = scene.state(&commit, &commit);
    assert_eq!(state, LaunchedState::EnforcementLost);
    assert!(detail.contains("do not continue"), "{detail}");
}

#[test]
fn commit_that_is_not_on_the_head_is_refused() {
    let scene = scene();
    let commit = scene.commit_on_another_machine(&[&scene.base], "src/b.txt");
    let (state, detail) = scene.state(&commit, &scene.base);
    assert_eq!(state, LaunchedState::EnforcementLost);
    assert!(detail.contains("is not a commit on"), "{detail}");
}

#[test]
fn commit_that_was_not_sent_is_refused() {
    let scene = scene();
    let commit = scene.commit_on_another_machine(&[&scene.base], "src/b.txt");
    let unknown = "1".repeat(40);
    let (state, detail) = scene.state(&commit, &unknown);
    assert_eq!(state, LaunchedState::EnforcementLost);
    assert!(detail.contains("was not sent"), "{detail}");
}

#[test]
fn commit_of_another_attempt_is_refused_and_nothing_is_stored() {
    let scene = scene();
    let theirs = scene.commit_on_another_machine(&[&scene.base], "src/b.txt");
    let git = Git::at(scene.scratch.root());
    let bundle = std::fs::read(scene.scratch.place().join("bundle")).unwrap();
    bailiwick_source_control::git::unpack_bundle(&git, &bundle).unwrap();
    let own = scene.commit_on_another_machine(&[&scene.base], "src/c.txt");
    let (state, detail) = scene.state(&theirs, &theirs);
    assert_eq!(state, LaunchedState::EnforcementLost);
    assert!(detail.contains("was not sent"), "{detail}");
    assert!(git.run(["cat-file", "-e", &theirs]).is_ok(), "the control");
    assert!(
        git.run(["cat-file", "-e", &own]).is_err(),
        "refused objects are not in the repository"
    );
}

/// Otherwise a worker that knows the object id could read a file of another run.
#[test]
fn file_of_another_attempt_is_refused() {
    let scene = scene();
    let other = Scratch::repository();
    let from = scene.scratch.root().display().to_string();
    other.git(&["fetch", "--quiet", &from, "HEAD:refs/heads/base"]);
    other.git(&["checkout", "--quiet", "--detach", &scene.base]);
    other.write("src/b.txt", "of another run\n");
    let theirs = other.commit("Theirs");
    let git = Git::at(other.root());
    let bundle =
        create_bundle(&git, (&[&theirs], &[&scene.base]), &std::env::temp_dir(), usize::MAX)
            .unwrap();
    let here = Git::at(scene.scratch.root());
    bailiwick_source_control::git::unpack_bundle(&here, &bundle).unwrap();
    other.git(&["checkout", "--quiet", "--detach", &scene.base]);
    other.git(&["checkout", "--quiet", &theirs, "--", "src/b.txt"]);
    let own = other.commit("Own");
    // The commit and its trees, but not the file.
    let sent = format!(
        "{own}\n{}{}",
        other.git(&["rev-parse", &format!("{own}^{{tree}}")]),
        other.git(&["rev-parse", &format!("{own}:src")])
    );
    let pack = ["pack-objects", "--stdout", "-q"];
    let pack = git.run_with_input(pack, Input::Bytes(sent.as_bytes())).unwrap();
    let header = format!("# v2 git bundle\n-{}\n{own} refs/bailiwick/bundle/0\n\n", scene.base);
    let bundle = [header.as_bytes(), &pack].concat();
    std::fs::write(scene.scratch.place().join("bundle"), bundle).unwrap();
    let (state, detail) = scene.state(&own, &own);
    assert_eq!(state, LaunchedState::EnforcementLost);
    assert!(detail.contains("the object"), "{detail}");
}

#[test]
fn invalid_bundle_is_refused() {
    let scene = scene();
    let commit = scene.commit_on_another_machine(&[&scene.base], "src/b.txt");
    std::fs::write(scene.scratch.place().join("bundle"), "PACK").unwrap();
    let (state, detail) = scene.state(&commit, &commit);
    assert_eq!(state, LaunchedState::EnforcementLost);
    assert!(detail.contains("no git bundle"), "{detail}");
}

#[test]
fn commits_without_a_bundle_are_refused() {
    let scene = scene();
    let commit = scene.commit_on_another_machine(&[&scene.base], "src/b.txt");
    std::fs::write(scene.scratch.place().join("bundle"), "").unwrap();
    let (state, detail) = scene.state(&commit, &commit);
    assert_eq!(state, LaunchedState::EnforcementLost);
    assert!(detail.contains("sent no commits"), "{detail}");
}

/// Otherwise a bundle that makes git too slow would be read again and again.
#[test]
fn undecidable_work_is_refused_after_a_few_attempts() {
    let undecided = || {
        let slow = GitError::TimedOut { command: String::new(), reason: "slow".to_owned() };
        CheckError::from(BundleError::Interrupted(slow))
    };
    assert!(matches!(undecided(), CheckError::Undecided(_)));
    let mut agents = Agents::default();
    let counted: Vec<bool> = (0..MAX_TRIES).map(|_| agents.count_undecided("mend-1")).collect();
    assert_eq!(counted, [false, false, true]);
    assert!(!agents.count_undecided("mend-2"), "each attempt is counted separately");
    agents.end("mend-1", None);
    assert!(!agents.count_undecided("mend-1"));
}

/// Git accepts such objects one by one, and then does not walk through them.
#[test]
fn work_with_too_many_nested_directories_counts_as_the_reason() {
    let scene = scene();
    let id = AgentId::parse("mend-1").unwrap();
    let subject = AgentWork::of_agent(&scene.context, &id, &WorkOptions::default()).unwrap();
    let receive = |depth: usize| {
        let other = Scratch::repository();
        let from = scene.scratch.root().display().to_string();
        other.git(&["fetch", "--quiet", &from, "HEAD:refs/heads/base"]);
        let git = Git::at(other.root());
        let path = format!("src/{}a.txt", "d/".repeat(depth));
        let import = format!(
            "commit refs/heads/deep\ncommitter A <a@example.org> 1700000000 +0000\ndata 4\ndeep\n\
             from {}\nM 100644 inline {path}\ndata 3\none\n\ndone\n",
            scene.base
        );
        let fast_import = ["fast-import", "--quiet", "--done"];
        git.run_with_input(fast_import, Input::Bytes(import.as_bytes())).unwrap();
        let commit = git.line(["rev-parse", "refs/heads/deep"]).unwrap();
        // A hostile worker packs without walking through the trees.
        let list = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"];
        let all = git.run(list).unwrap();
        let pack = ["pack-objects", "--stdout", "-q"];
        let pack = git.run_with_input(pack, Input::Bytes(&all)).unwrap();
        let header = format!("# v2 git bundle\n{commit} refs/bailiwick/bundle/0\n\n");
        let claim = WorkClaim { head: commit.clone(), commit };
        receiving::receive(&subject, &claim, &[header.as_bytes(), &pack].concat())
    };
    let deep = receive(5_000);
    assert!(matches!(deep, Err(CheckError::Undecided(_))), "{deep:?}");
    receive(20).unwrap();
}

#[test]
fn workers_run_checks_only_while_their_pool_says_so() {
    let scene = scene();
    let permits = || evidence::pool_permits(&scene.context, "inside").unwrap();
    assert!(!permits(), "there is no such pool");
    for (checks_on, trust_tier, is_permitted) in [
        ("workers", "trusted", true),
        ("server", "trusted", false),
        ("workers", "untrusted", false),
        ("workers", "trusted", true),
    ] {
        let mut pool = AnyObject {
            api_version: API_VERSION.to_owned(),
            kind: Kind::RunnerPool,
            metadata: Metadata::named("inside"),
            spec: json!({
                "capacity": 1,
                "trustTier": trust_tier,
                "serviceAccountRef": "runner",
                "runsOn": "workers",
                "checksOn": checks_on,
            }),
            status: serde_json::Value::Null,
        };
        let written = scene.context.with_store(async |store| {
            let found = FleetStore::get(store, Kind::RunnerPool, DEFAULT_NAMESPACE, "inside").await;
            let write = match found.unwrap() {
                None => Write::Create(pool),
                Some(found) => {
                    pool.metadata = found.metadata;
                    Write::Replace(pool)
                }
            };
            FleetStore::commit(store, vec![write], Moment::default()).await.unwrap();
            Ok(())
        });
        written.unwrap();
        assert_eq!(permits(), is_permitted, "{checks_on} {trust_tier}");
    }
}

#[test]
fn check_that_panics_gives_its_slot_back() {
    let agents = Arc::new(Mutex::new(Agents::default()));
    let start = Instant::now();
    for agent in ["mend-1", "mend-2"] {
        assert!(locked(&agents).begin(agent, start));
    }
    assert!(!locked(&agents).begin("mend-3", start), "the control: no slot is free");
    let slot = CheckSlot::new(Arc::clone(&agents), "mend-1".to_owned());
    let panicked = std::thread::spawn(move || {
        let _slot = slot;
        panic!("a fault of ours");
    });
    assert!(panicked.join().is_err());
    assert!(!locked(&agents).begin("mend-1", start), "it is not tried again at once");
    assert!(locked(&agents).begin("mend-3", start));
    locked(&agents).end("mend-3", None);
    assert!(locked(&agents).begin("mend-1", Instant::now() + RETRY_DELAY));
}

#[test]
fn failed_check_is_retried_later() {
    let (mut agents, start) = (Agents::default(), Instant::now());
    assert!(agents.begin("mend-1", start));
    assert!(!agents.begin("mend-1", start));
    let why = "the disk is full".to_owned();
    agents.end("mend-1", Some(PausedCheck { at: start, rest: RETRY_DELAY, why }));
    assert!(!agents.begin("mend-1", start));
    assert!(agents.begin("mend-1", start + RETRY_DELAY));
    agents.end("mend-1", None);
    assert!(agents.begin("mend-1", start));
}
