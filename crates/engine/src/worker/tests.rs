//! A worker with a fake server: what it sends when its own machine or the server fails.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bailiwick_fleet::workers::{
    Assignment, ByteStream, FinishReport, JoinAnswer, JoinRequest, Lease, LeaseError, PollAnswer,
    PollRequest, ProgressAnswer, ProgressReport, RenewRequest, WorkerAnswer, WorkerApi,
    WorkerCapabilities, WorkerError,
};
use bailiwick_model::attempt::{Allowance, Attempt, Used};
use bailiwick_model::event::{ExitReason, Phase};
use bailiwick_model::{AgentId, Source};
use bailiwick_resources::WorkerExit;
use bailiwick_runner::supervisor::RunDirectory;
use bailiwick_store::{Location, Store};
use bailiwick_testkit::Scratch;

use super::attempts::{Attempts, KeptAttempt, Unended};
use super::following::FollowLimits;
use super::identity::{Credentials, Identity};
use super::preparation::Preparation;
use super::{Joining, Worker, own_context};
use crate::fleet::engine::{LocalEngine, Verification};
use crate::notices::Notices;
use crate::spawning::{Naming, SpawnBindings, spawn};

/// An attempt as a server of version 0.1 assigns it.
const POLLED: &str = include_str!("../../../fleet/tests/data/worker-protocol/0.1/poll-answer.json");

const ROLE: &str = "[role]\nname = \"mender\"\ndisplay-name = \"Mender\"\ndescription = \"Mends.\"\n\
    spawnable = true\nclaude-subagent-type = \"general-purpose\"\nisolation = \"worktree\"\n\
    [capabilities]\nrequired = [\"scope::files-whitelist\"]\n\
    [tools]\nallowed = [\"Write\"]\nbash-patterns-allowed = []\n\
    [escalation]\npolicy = \"ask-via-return\"\n";
const TASK: &str = "[task]\nrole = \"mender\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n\
    [body]\ntext = \"Mend it.\"\n";

/// A fake server with prepared responses, which records requests. It has no repositories.
#[derive(Debug, Default)]
struct FakeServer {
    joins: Mutex<VecDeque<Result<JoinAnswer, WorkerError>>>,
    polls: Mutex<VecDeque<Result<PollAnswer, WorkerError>>>,
    /// Answers to reports. Without one, a report is accepted.
    reports: Mutex<VecDeque<WorkerError>>,
    works: Mutex<Vec<Vec<u8>>>,
    finished: Mutex<Vec<FinishReport>>,
}

fn unavailable() -> WorkerError {
    WorkerError::Unavailable("the server is unavailable".to_owned())
}

fn joined() -> JoinAnswer {
    JoinAnswer { worker: "one".to_owned(), credential: "bwc_1".to_owned(), valid_seconds: 3_600 }
}

impl WorkerApi for FakeServer {
    fn join<'a>(&'a self, _: &'a str, _: JoinRequest) -> WorkerAnswer<'a, JoinAnswer> {
        let next = self.joins.lock().unwrap().pop_front();
        Box::pin(async move { next.unwrap_or_else(|| Err(unavailable())) })
    }

    fn renew<'a>(&'a self, _: &'a str, _: RenewRequest) -> WorkerAnswer<'a, JoinAnswer> {
        Box::pin(async { Err(unavailable()) })
    }

    fn poll<'a>(&'a self, _: &'a str, _: PollRequest) -> WorkerAnswer<'a, PollAnswer> {
        let next = self.polls.lock().unwrap().pop_front();
        let nothing = Ok(PollAnswer { assignment: None, drain: false });
        Box::pin(async move { next.unwrap_or(nothing) })
    }

    fn repository<'a>(
        &'a self,
        _: &'a str,
        _: &'a Lease,
        _: &'a [String],
    ) -> WorkerAnswer<'a, Box<dyn ByteStream>> {
        Box::pin(async { Err(WorkerError::Refused("it has no such repository".to_owned())) })
    }

    fn report<'a>(
        &'a self,
        _: &'a str,
        _: &'a Lease,
        _: ProgressReport,
    ) -> WorkerAnswer<'a, ProgressAnswer> {
        let next = self.reports.lock().unwrap().pop_front();
        Box::pin(async move { next.map_or_else(|| Ok(ProgressAnswer::default()), Err) })
    }

    fn send_work<'a>(&'a self, _: &'a str, _: &'a Lease, work: Vec<u8>) -> WorkerAnswer<'a, ()> {
        self.works.lock().unwrap().push(work);
        Box::pin(async { Ok(()) })
    }

    fn finish<'a>(
        &'a self,
        _: &'a str,
        _: &'a Lease,
        finish: FinishReport,
    ) -> WorkerAnswer<'a, ()> {
        self.finished.lock().unwrap().push(finish);
        Box::pin(async { Ok(()) })
    }
}

async fn attempts(scratch: &Scratch, server: &Arc<FakeServer>) -> Arc<Attempts> {
    worker(scratch, server).await.attempts
}

/// A worker that has joined.
async fn worker(scratch: &Scratch, server: &Arc<FakeServer>) -> Worker {
    let directory = scratch.place().join("own");
    std::fs::create_dir_all(directory.join("attempts")).unwrap();
    std::fs::create_dir_all(directory.join("state")).unwrap();
    let context = own_context(&directory, Notices::default());
    let store = Store::open(Location::file(directory.join("state/bailiwick.db"))).await.unwrap();
    let store = Arc::new(store);
    let engine = LocalEngine::new(context.clone(), Arc::clone(&store), Verification::ByServer);
    let identity = Identity::new("https://fleet.example", "inside", joined());
    let api: Arc<dyn WorkerApi> = Arc::<FakeServer>::clone(server);
    let credentials = Arc::new(Credentials::new(directory.clone(), identity));
    let attempts = Attempts {
        api: Arc::clone(&api),
        credentials: Arc::clone(&credentials),
        context,
        engine,
        directory: directory.clone(),
        values: None,
        adding: tokio::sync::Mutex::default(),
        unreferenced: tokio::sync::RwLock::default(),
        preparation: Preparation::default(),
        follow_limits: FollowLimits {
            unbegun_looks: 1,
            unreadable_looks: 1,
            packing: Duration::from_secs(10),
            unauthorized: Duration::from_secs(2),
        },
    };
    Worker {
        api,
        credentials,
        attempts: Arc::new(attempts),
        store,
        slots: 1,
        notices: Notices::default(),
        lacks: None,
        _lock: File::create(directory.join("lock")).unwrap(),
    }
}

/// The fixture's repository name has hyphens; workers accept only letters and digits.
fn assignment() -> Assignment {
    let text = POLLED.replace("app-2d711642b726b044", "app2d711642b726b044");
    let polled: PollAnswer = serde_json::from_str(&text).unwrap();
    polled.assignment.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempt_that_cannot_be_prepared_is_returned_and_polling_stops() {
    let (scratch, server) = (Scratch::bare(), Arc::new(FakeServer::default()));
    let attempts = attempts(&scratch, &server).await;
    assert!(attempts.can_prepare().await);
    // The directory cannot be written, as on a full disk.
    let repositories = scratch.place().join("own/repositories");
    std::fs::write(&repositories, "").unwrap();
    let ended = Arc::clone(&attempts).begin(assignment()).await;
    assert!(matches!(ended, Err(Unended::NotBegun(_))), "{ended:?}");
    let finished = server.finished.lock().unwrap().clone();
    assert!(finished.len() == 1 && finished[0].not_begun, "{finished:?}");
    assert!(attempts.followed().unwrap().is_empty());
    assert!(!attempts.can_prepare().await);
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    assert!(!attempts.can_prepare().await, "the worker still cannot write");
    std::fs::remove_file(&repositories).unwrap();
    tokio::time::sleep(Duration::from_millis(4_100)).await;
    assert!(attempts.can_prepare().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempt_whose_repository_the_server_refuses_fails() {
    let (scratch, server) = (Scratch::bare(), Arc::new(FakeServer::default()));
    let attempts = attempts(&scratch, &server).await;
    let ended = Arc::clone(&attempts).begin(assignment()).await;
    assert_eq!(ended, Ok(()));
    let finished = server.finished.lock().unwrap().clone();
    assert!(finished.len() == 1 && !finished[0].not_begun, "{finished:?}");
    assert!(finished[0].detail.contains("no such repository"), "{finished:?}");
    assert!(attempts.can_prepare().await && attempts.followed().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn join_is_retried_while_the_server_is_unavailable() {
    let request = || JoinRequest {
        version: super::VERSION.to_owned(),
        pool: "inside".to_owned(),
        name: "one".to_owned(),
        labels: std::collections::BTreeMap::new(),
        capabilities: WorkerCapabilities::default(),
    };
    let join = async |server: &FakeServer, wait: Duration| {
        let joining = Joining { api: server, wait, notices: &Notices::default() };
        let token = Some("token".to_owned());
        joining.identify("https://fleet.example", None, token, request()).await
    };
    let answers = || VecDeque::from([Err(unavailable()), Err(unavailable()), Ok(joined())]);
    let server = FakeServer { joins: Mutex::new(answers()), ..FakeServer::default() };
    assert!(
        join(&server, Duration::ZERO).await.is_err(),
        "without a wait the first failure is final"
    );
    let server = FakeServer { joins: Mutex::new(answers()), ..FakeServer::default() };
    assert_eq!(join(&server, Duration::from_secs(60)).await.unwrap().worker, "one");
    // A refusal is final.
    let refused = VecDeque::from([Err(WorkerError::JoinRefused), Ok(joined())]);
    let server = FakeServer { joins: Mutex::new(refused), ..FakeServer::default() };
    assert!(join(&server, Duration::from_secs(60)).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_for_one_attempt_waits_for_an_unavailable_server() {
    let scratch = Scratch::bare();
    let assigned = PollAnswer { assignment: Some(assignment()), drain: false };
    let polls =
        VecDeque::from([Err(unavailable()), Err(unavailable()), Err(unavailable()), Ok(assigned)]);
    let server = Arc::new(FakeServer { polls: Mutex::new(polls), ..FakeServer::default() });
    // The server is unavailable for longer than the worker waits for an attempt.
    let wait = Duration::from_millis(300);
    let outcome = worker(&scratch, &server).await.run_once(wait, std::future::pending()).await;
    assert_eq!(outcome.unwrap().exit, WorkerExit::Done);
    assert_eq!(server.finished.lock().unwrap().len(), 1);
    let other = Scratch::bare();
    let outcome = worker(&other, &server).await.run_once(wait, std::future::pending()).await;
    assert_eq!(outcome.unwrap().exit, WorkerExit::NothingToDo, "the control");
}

/// An attempt that this worker has launched.
fn kept(scratch: &Scratch) -> KeptAttempt {
    KeptAttempt {
        lease: Lease { agent: "fixer-1".to_owned(), fence: 1 },
        lease_millis: 60_000,
        repository: scratch.root(),
        commits: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempt_is_returned_only_after_its_agent_has_been_stopped() {
    let (scratch, server) = (Scratch::repository(), Arc::new(FakeServer::default()));
    let attempts = attempts(&scratch, &server).await;
    // The database does not know the run, and its supervisor runs.
    let run = RunDirectory::new(&attempts.context.state, "fixer-1");
    std::fs::create_dir_all(run.control_socket().parent().unwrap()).unwrap();
    let lock = File::create(run.control_socket().with_file_name("lock")).unwrap();
    lock.lock().unwrap();
    let socket = UnixListener::bind(run.control_socket()).unwrap();
    let followed = tokio::spawn(Arc::clone(&attempts).go_on(kept(&scratch)));
    let recorded = Arc::clone(&server);
    let supervisor = tokio::task::spawn_blocking(move || {
        let (stream, _) = socket.accept().unwrap();
        let mut request = String::new();
        BufReader::new(stream).read_line(&mut request).unwrap();
        // It takes a while to end.
        std::thread::sleep(Duration::from_secs(2));
        let finished = recorded.finished.lock().unwrap().len();
        drop(lock);
        (request, finished)
    });
    let (request, finished_before) = supervisor.await.unwrap();
    assert!(request.contains("stop"), "{request}");
    assert_eq!(finished_before, 0, "its agent still runs");
    assert_eq!(followed.await.unwrap(), Ok(()));
    let finished = server.finished.lock().unwrap().clone();
    assert!(finished.len() == 1 && finished[0].not_begun, "{finished:?}");
}

/// An attempt whose agent has completed: it has changed a file of its worktree.
async fn completed(scratch: &Scratch, attempts: &Attempts) -> (KeptAttempt, std::path::PathBuf) {
    scratch.write(".bailiwick/roles/mender.toml", ROLE);
    scratch.write("src/a.txt", "one\n");
    let base = scratch.commit("start");
    let kept = kept(scratch);
    let context = attempts.context_in(&kept);
    let id = AgentId::parse(&kept.lease.agent).unwrap();
    let spawned = tokio::task::spawn_blocking(move || {
        let source = Source::new("the task", TASK);
        spawn(&context, &source, Naming::Exactly(&id), &base, SpawnBindings::default()).unwrap();
        (context, id)
    });
    let (context, id) = spawned.await.unwrap();
    let worktree = context.state.join("worktrees").join(id.as_str());
    std::fs::write(worktree.join("src/a.txt"), "two\n").unwrap();
    let attempt = Attempt {
        run: id,
        number: 1,
        cli: "script".to_owned(),
        version: String::new(),
        model: String::new(),
        login: String::new(),
        sandbox: "full".to_owned(),
        session: None,
        phase: Phase::Over,
        ending: Some(ExitReason::Completed),
        detail: "Done.".to_owned(),
        exhausted: None,
        started_at: 1,
        ended_at: Some(2),
        used: Used::default(),
        budget: Allowance::default(),
    };
    let store = Store::open(context.database.location().clone()).await.unwrap();
    store.begin_attempt(&attempt).await.unwrap();
    store.update_attempt(&attempt).await.unwrap();
    (kept, worktree)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn completed_work_is_sent_once_it_can_be_packed() {
    let (scratch, server) = (Scratch::repository(), Arc::new(FakeServer::default()));
    let attempts = attempts(&scratch, &server).await;
    let (kept, worktree) = completed(&scratch, &attempts).await;
    let objects = scratch.root().join(".git/objects");
    let away = objects.with_file_name("away");
    std::fs::rename(&objects, &away).unwrap();
    let followed = tokio::spawn(Arc::clone(&attempts).go_on(kept));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(server.finished.lock().unwrap().is_empty(), "git cannot read the repository");
    assert!(worktree.exists());
    std::fs::rename(&away, &objects).unwrap();
    assert_eq!(followed.await.unwrap(), Ok(()));
    let finished = server.finished.lock().unwrap().clone();
    assert!(finished.len() == 1 && finished[0].work.is_some(), "{finished:?}");
    assert_eq!(server.works.lock().unwrap().len(), 1);
    assert!(!worktree.exists(), "the server has the work");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_completed_work_that_cannot_be_packed_are_kept() {
    let (scratch, server) = (Scratch::repository(), Arc::new(FakeServer::default()));
    let attempts = attempts(&scratch, &server).await;
    let (kept, worktree) = completed(&scratch, &attempts).await;
    let objects = scratch.root().join(".git/objects");
    std::fs::rename(&objects, objects.with_file_name("away")).unwrap();
    // The attempt is followed as after a restart of the worker.
    crate::system::write_json(&attempts.file(&kept.lease.agent), &kept).unwrap();
    assert_eq!(Arc::clone(&attempts).go_on(kept).await, Ok(()));
    let finished = server.finished.lock().unwrap().clone();
    assert!(finished.len() == 1 && finished[0].ending == ExitReason::Failed, "{finished:?}");
    let place = worktree.display().to_string();
    assert!(finished[0].detail.contains(&place), "{finished:?}");
    assert!(!finished[0].not_begun, "nobody begins it again");
    assert_eq!(std::fs::read_to_string(worktree.join("src/a.txt")).unwrap(), "two\n");
    assert!(attempts.followed().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_survives_a_credential_that_is_not_valid_for_a_while() {
    let (scratch, server) = (Scratch::repository(), Arc::new(FakeServer::default()));
    let attempts = attempts(&scratch, &server).await;
    let (kept, worktree) = completed(&scratch, &attempts).await;
    crate::system::write_json(&attempts.file(&kept.lease.agent), &kept).unwrap();
    let refuse = |count: usize| {
        let refused = std::iter::repeat_n(WorkerError::Unauthorized, count);
        *server.reports.lock().unwrap() = refused.collect();
    };
    // Longer than this worker tries: the attempt stays for its next process.
    refuse(1_000);
    let ended = Arc::clone(&attempts).go_on(kept.clone()).await;
    assert_eq!(ended, Err(Unended::Dropped));
    assert!(worktree.exists() && server.finished.lock().unwrap().is_empty());
    assert_eq!(attempts.followed().unwrap(), [kept.lease.agent.as_str()]);
    refuse(3);
    assert_eq!(Arc::clone(&attempts).go_on(kept.clone()).await, Ok(()));
    assert_eq!(server.works.lock().unwrap().len(), 1);
    assert!(!worktree.exists() && attempts.followed().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_an_attempt_with_a_lost_lease_are_removed() {
    let (scratch, server) = (Scratch::repository(), Arc::new(FakeServer::default()));
    let attempts = attempts(&scratch, &server).await;
    let (kept, worktree) = completed(&scratch, &attempts).await;
    server.reports.lock().unwrap().push_back(WorkerError::LeaseLost(LeaseError));
    let ended = Arc::clone(&attempts).go_on(kept).await;
    assert_eq!(ended, Err(Unended::Dropped));
    assert!(!worktree.exists() && server.works.lock().unwrap().is_empty());
}
