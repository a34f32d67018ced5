//! The work of a worker is put into the worktree of its agent on the server, and checked there as that of any other
//! agent. Nothing that the worker says about it is believed: what changed is computed from the commits.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bailiwick_fleet::workers::{FinishReport, QueuedState, WorkerAttempt};
use bailiwick_lifecycle::ports::RunStore as _;
use bailiwick_model::attempt::{Allowance, Attempt, Used};
use bailiwick_model::capability::RunMode;
use bailiwick_model::event::{ExitReason, Phase};
use bailiwick_model::{AgentId, RunStatus};
use bailiwick_source_control::SpawnLock;

use super::evidence::{self, JobsHere, WorkerEvidence};
use super::receiving::{self, CheckError, Refusal};
use crate::context::Context;
use crate::failure::Failure;
use crate::options::{CheckOptions, RunOptions};
use crate::verifying::{AgentWork, Places};
use crate::{launched_for, system};

/// How many pieces of work are checked at the same time.
const MAX_AT_ONCE: usize = 2;
/// How long a check that this machine could not make rests.
const RETRY_DELAY: Duration = Duration::from_secs(30);
/// How long a check rests that waits for workers.
const WAITING_DELAY: Duration = Duration::from_secs(1);

/// The agents whose work is being checked, each on a thread of its own. What a stopped server had not finished is
/// done again.
#[derive(Default)]
pub(super) struct WorkChecks {
    agents: Arc<Mutex<Agents>>,
}

#[derive(Default)]
struct Agents {
    running: BTreeSet<String>,
    /// Those whose last check did not complete.
    paused: BTreeMap<String, PausedCheck>,
}

struct PausedCheck {
    at: Instant,
    rest: Duration,
    why: String,
}

impl Agents {
    /// Whether the work of an agent is to be checked now.
    fn begin(&mut self, agent: &str, now: Instant) -> bool {
        let rests = self
            .paused
            .get(agent)
            .is_some_and(|paused| now.saturating_duration_since(paused.at) < paused.rest);
        !rests && self.running.len() < MAX_AT_ONCE && self.running.insert(agent.to_owned())
    }

    fn end(&mut self, agent: &str, paused: Option<PausedCheck>) {
        self.running.remove(agent);
        match paused {
            Some(paused) => drop(self.paused.insert(agent.to_owned(), paused)),
            None => drop(self.paused.remove(agent)),
        }
    }
}

impl WorkChecks {
    /// Starts to check the work of an attempt, unless that is under way already.
    pub(super) fn start(
        &self,
        context: &Context,
        attempt: WorkerAttempt,
        lease_millis: u64,
    ) -> Result<(), Failure> {
        if !locked(&self.agents).begin(&attempt.agent, Instant::now()) {
            return Ok(());
        }
        let (context, agents) = (context.clone(), Arc::clone(&self.agents));
        let agent = attempt.agent.clone();
        let name = format!("check-{agent}");
        let started = std::thread::Builder::new().name(name).spawn(move || {
            let paused = settle(&context, &attempt, lease_millis);
            locked(&agents).end(&attempt.agent, paused);
        });
        if let Err(error) = started {
            locked(&self.agents).end(&agent, None);
            return Err(Failure::general(format!("no thread can be started: {error}")));
        }
        Ok(())
    }

    /// Why the work of an agent is not checked yet, if it was tried.
    pub(super) fn pause(&self, agent: &str) -> Option<String> {
        locked(&self.agents).paused.get(agent).map(|paused| paused.why.clone())
    }
}

fn locked(agents: &Mutex<Agents>) -> MutexGuard<'_, Agents> {
    agents.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What came of it.
enum Checked {
    /// The lock is kept until that is recorded.
    Done { _lock: SpawnLock },
    /// Another process works on it; it is looked at again.
    Busy,
    /// It was settled meanwhile.
    Settled,
    /// Workers have yet to run this number of commands and tests.
    Waits(usize),
}

/// Checks the work and records what came of it. A failure of this machine says nothing about the work: it stays, and
/// is checked again.
fn settle(context: &Context, attempt: &WorkerAttempt, lease_millis: u64) -> Option<PausedCheck> {
    let checked = check(context, attempt, lease_millis);
    let settled = match &checked {
        Ok(Checked::Busy | Checked::Settled) => return None,
        Ok(Checked::Waits(jobs)) => {
            let why = format!("workers have yet to run commands or tests of its checks: {jobs}");
            return Some(PausedCheck { at: Instant::now(), rest: WAITING_DELAY, why });
        }
        Ok(Checked::Done { .. }) => record(context, attempt, QueuedState::Checked, ""),
        Err(CheckError::Refused(refusal)) => {
            record(context, attempt, QueuedState::Refused, &refusal.to_string())
        }
        Err(CheckError::Server(failure)) => Err(failure.in_one_line()),
    };
    let why = settled.err()?;
    context.notices.note(format_args!("the work of {} is not checked: {why}", attempt.agent));
    let why = format!("its work cannot be checked now, and is tried again: {why}");
    Some(PausedCheck { at: Instant::now(), rest: RETRY_DELAY, why })
}

fn record(
    context: &Context,
    attempt: &WorkerAttempt,
    state: QueuedState,
    detail: &str,
) -> Result<(), String> {
    context
        .with_store(async |store| Ok(store.settle_attempt(&attempt.agent, state, detail).await?))
        .map_err(|failure| failure.in_one_line())
}

fn check(
    context: &Context,
    attempt: &WorkerAttempt,
    lease_millis: u64,
) -> Result<Checked, CheckError> {
    let open = evidence::open_jobs(context, attempt, lease_millis)?;
    if open > 0 {
        return Ok(Checked::Waits(open));
    }
    let id = AgentId::parse(&attempt.agent).map_err(|error| Failure::general(error.to_string()))?;
    let checkout = launched_for::checkout(&context.state, &id)
        .map_err(|error| Failure::general(format!("cannot read its checkout: {error}")))?;
    let checkout: PathBuf =
        checkout.ok_or_else(|| Failure::general("the checkout of the run is not known"))?;
    let context = Context { directory: checkout, ..context.clone() };
    let finish = attempt.finish.as_ref().ok_or_else(|| Failure::general("it has not ended"))?;
    let claim = finish.work.as_ref().ok_or(Refusal::NoWork)?;
    let subject = AgentWork::of_agent(&context, &id, &Places::default())?;
    let lock = match subject.lock(&id) {
        Ok(lock) => lock,
        Err(Failure::AtWork { .. } | Failure::Refused { .. }) => return Ok(Checked::Busy),
        Err(failure) => return Err(failure.into()),
    };
    if !is_unsettled(&context, attempt)? {
        return Ok(Checked::Settled);
    }
    let bundle =
        context.with_store(async |store| Ok(store.work_of_attempt(&attempt.agent).await?))?;
    receiving::receive(&subject, claim, &bundle)?;
    record_attempt(&context, &id, attempt, finish)?;
    subject.recover()?;
    let open_setup = RunOptions::default().open_setup();
    let checks = CheckOptions { open_setup, ..CheckOptions::default() };
    if !evidence::is_permitted(attempt, &subject) {
        subject.verify_and_record(RunMode::Both, checks, &[], &mut |_| {})?;
        return Ok(Checked::Done { _lock: lock });
    }
    // The jobs for workers are queued before any of the others is run here.
    for here in [JobsHere::Wait, JobsHere::Run] {
        let parts = (attempt, &subject, claim);
        let mut evidence = WorkerEvidence::new(&context, parts, lease_millis, here)?;
        let verification = subject.verify_with_evidence(RunMode::Both, checks, &mut evidence)?;
        match (evidence.awaited()?, here) {
            (0, JobsHere::Wait) => {}
            (0, JobsHere::Run) => drop(subject.record_verification(&verification)?),
            (awaited, _) => return Ok(Checked::Waits(awaited)),
        }
    }
    Ok(Checked::Done { _lock: lock })
}

/// Whether the work still waits for its check: a worktree that has moved on must not be reset.
fn is_unsettled(context: &Context, attempt: &WorkerAttempt) -> Result<bool, Failure> {
    let row = context.with_store(async |store| Ok(store.queued_attempt(&attempt.agent).await?))?;
    Ok(row.is_some_and(|row| row.state == QueuedState::Finished && row.fence == attempt.fence))
}

/// Records the attempt in the ledger of the server, once.
fn record_attempt(
    context: &Context,
    id: &AgentId,
    attempt: &WorkerAttempt,
    finish: &FinishReport,
) -> Result<(), Failure> {
    let (summary, cost, now) = (&finish.summary, attempt.cost(), system::now_ms());
    let mut record = Attempt {
        run: id.clone(),
        number: 1,
        cli: summary.cli.clone(),
        version: summary.version.clone(),
        model: summary.model.clone(),
        login: summary.login.clone(),
        sandbox: summary.sandbox.clone(),
        session: attempt.report.session.clone(),
        phase: Phase::Over,
        ending: Some(ExitReason::Completed),
        detail: finish.detail.clone(),
        exhausted: None,
        started_at: now,
        ended_at: Some(now),
        used: Used {
            tokens: cost.tokens,
            micro_usd: cost.micro_usd,
            turns: cost.turns,
            tool_calls: cost.tool_calls,
            denied: cost.denied,
        },
        budget: Allowance::default(),
    };
    context.with_store(async |store| {
        let known = store.attempts(Some(id)).await?;
        match known.first() {
            None => record.number = store.begin_attempt(&record).await?,
            // It was recorded before, and its work was not checked.
            Some(known) => (record.number, record.started_at) = (known.number, known.started_at),
        }
        store.update_attempt(&record).await?;
        let run = store.get(id).await?;
        if run.status == RunStatus::Running {
            let worker = format!("completed by the worker {}", attempt.worker);
            store.change_status(id, RunStatus::Done, Some(&worker)).await?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use bailiwick_fleet::ports::{Engine as _, LaunchedState};
    use bailiwick_fleet::workers::{
        AttemptSummary, NewWorker, NewWorkerToken, QueuedAttempt, WorkClaim, WorkerCapabilities,
    };
    use bailiwick_model::Source;
    use bailiwick_resources::ChecksOn;
    use bailiwick_source_control::git::{Git, create_bundle};
    use bailiwick_store::{Location, Store};
    use bailiwick_testkit::Scratch;

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
        launched_for::note(&context.state, &id, &scratch.root().display().to_string()).unwrap();
        Scene { scratch, context, base }
    }

    impl Scene {
        /// A commit of another machine on this one, with this file.
        fn elsewhere(&self, on: &[&str], path: &str) -> String {
            let other = Scratch::repository();
            let from = self.scratch.root().display().to_string();
            other.git(&["fetch", "--quiet", &from, "HEAD:refs/heads/base"]);
            match on.first() {
                Some(commit) => drop(other.git(&["checkout", "--quiet", "--detach", commit])),
                None => drop(other.git(&["checkout", "--quiet", "--orphan", "new"])),
            }
            other.write(path, "mended\n");
            let made = other.commit("Mend it");
            let git = Git::at(other.root());
            let bundle = create_bundle(&git, &[&made], &[&self.base], usize::MAX).unwrap();
            std::fs::write(self.scratch.place().join("bundle"), bundle).unwrap();
            made
        }

        /// What the server finds when a worker claims this work.
        fn state(&self, head: &str, commit: &str) -> (LaunchedState, String) {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            let bundle = std::fs::read(self.scratch.place().join("bundle")).unwrap();
            runtime.block_on(async {
                let store = Store::open(self.context.database.location().clone()).await.unwrap();
                finish(
                    &store,
                    bundle,
                    WorkClaim { head: head.to_owned(), commit: commit.to_owned() },
                )
                .await;
                let engine = FleetEngine::new(self.context.clone(), Arc::new(store), HOUR);
                for _ in 0..600 {
                    let state = engine.state("mend-1").await.unwrap().unwrap();
                    if state.state != LaunchedState::Running {
                        let files = state.work.map(|work| work.files.join(" "));
                        return (state.state, files.unwrap_or(state.detail));
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                panic!("it is not checked")
            })
        }
    }

    /// A worker claims the attempt, sends a bundle and says that it is done.
    async fn finish(store: &Store, bundle: Vec<u8>, work: WorkClaim) {
        let (pool, name) = ("inside".to_owned(), "one".to_owned());
        let attempt = QueuedAttempt {
            agent: "mend-1".to_owned(),
            attempt: "mend-1".to_owned(),
            pool: pool.clone(),
            labels: BTreeMap::new(),
            launch: b"{}".to_vec(),
            checks_on: ChecksOn::Server,
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
        };
        store.finish_attempt("one", &lease, &finish).await.unwrap().unwrap();
    }

    #[test]
    fn honest_work_is_verified_and_its_files_are_computed_here() {
        let scene = scene();
        let made = scene.elsewhere(&[&scene.base], "src/b.txt");
        assert_eq!(scene.state(&made, &made), (LaunchedState::Verified, "src/b.txt".to_owned()));
    }

    #[test]
    fn work_outside_of_the_scope_is_rejected_by_the_checks_of_the_server() {
        let scene = scene();
        let made = scene.elsewhere(&[&scene.base], "other.txt");
        let (state, files) = scene.state(&made, &made);
        assert_eq!((state, files.as_str()), (LaunchedState::Rejected, "other.txt"));
    }

    #[test]
    fn work_that_does_not_continue_the_base_is_refused() {
        let scene = scene();
        let made = scene.elsewhere(&[], "src/b.txt");
        let (state, why) = scene.state(&made, &made);
        assert_eq!(state, LaunchedState::EnforcementLost);
        assert!(why.contains("do not continue"), "{why}");
    }

    #[test]
    fn commit_that_is_not_on_the_head_is_refused() {
        let scene = scene();
        let made = scene.elsewhere(&[&scene.base], "src/b.txt");
        let (state, why) = scene.state(&made, &scene.base);
        assert_eq!(state, LaunchedState::EnforcementLost);
        assert!(why.contains("is not a commit on"), "{why}");
    }

    #[test]
    fn commit_that_was_not_sent_is_refused() {
        let scene = scene();
        let made = scene.elsewhere(&[&scene.base], "src/b.txt");
        let unknown = "1".repeat(40);
        let (state, why) = scene.state(&made, &unknown);
        assert_eq!(state, LaunchedState::EnforcementLost);
        assert!(why.contains("was not sent"), "{why}");
    }

    #[test]
    fn commit_that_another_attempt_sent_is_refused_and_leaves_nothing() {
        let scene = scene();
        let theirs = scene.elsewhere(&[&scene.base], "src/b.txt");
        let git = Git::at(scene.scratch.root());
        let bundle = std::fs::read(scene.scratch.place().join("bundle")).unwrap();
        bailiwick_source_control::git::unpack_bundle(&git, &bundle).unwrap();
        let own = scene.elsewhere(&[&scene.base], "src/c.txt");
        let (state, why) = scene.state(&theirs, &theirs);
        assert_eq!(state, LaunchedState::EnforcementLost);
        assert!(why.contains("was not sent"), "{why}");
        assert!(git.run(["cat-file", "-e", &theirs]).is_ok(), "the control");
        assert!(
            git.run(["cat-file", "-e", &own]).is_err(),
            "refused objects are in the repository"
        );
    }

    #[test]
    fn bundle_that_is_none_is_refused() {
        let scene = scene();
        let made = scene.elsewhere(&[&scene.base], "src/b.txt");
        std::fs::write(scene.scratch.place().join("bundle"), "PACK").unwrap();
        let (state, why) = scene.state(&made, &made);
        assert_eq!(state, LaunchedState::EnforcementLost);
        assert!(why.contains("no git bundle"), "{why}");
    }

    #[test]
    fn commits_without_a_bundle_are_refused() {
        let scene = scene();
        let made = scene.elsewhere(&[&scene.base], "src/b.txt");
        std::fs::write(scene.scratch.place().join("bundle"), "").unwrap();
        let (state, why) = scene.state(&made, &made);
        assert_eq!(state, LaunchedState::EnforcementLost);
        assert!(why.contains("sent no commits"), "{why}");
    }

    #[test]
    fn failed_check_is_tried_again_later() {
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
}
