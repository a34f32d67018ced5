//! A command or tests of a check, on the work of an attempt that another worker has run. Its outcome is sent; whether
//! the check holds is decided by the server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bailiwick_fleet::workers::{
    CheckEvidence, FinishReport, Lease, ProgressReport, ProgressState, RemoteCheck, WorkerError,
};
use bailiwick_lifecycle::ports::{CheckEnvironment, CheckEnvironmentError, Preparation};
use bailiwick_lifecycle::verification::{
    ChangedSetup, JobCommits, Request, Verdicts, VerificationPorts, run_job,
};
use bailiwick_model::capability::RunMode;
use bailiwick_model::event::ExitReason;
use bailiwick_model::{AgentId, CommitId, Source, Task, TreeId};
use bailiwick_runner::checks::{CheckWorkshop, Setup};
use bailiwick_runner::environment::BaseTrust;
use bailiwick_runner::process::{Cancellation, Limits};
use bailiwick_runner::sandbox::{Launcher, Level};
use bailiwick_runner::toolchain::Host;
use bailiwick_source_control::GitWork;
use bailiwick_source_control::git::{Git, is_object_name};
use bailiwick_verify::facts::{Report, ReportError};
use bailiwick_verify::{ExecutedTests, Job, Verdict};

use super::attempts::{Attempts, blocking};
use super::beginning::BeginError;
use super::ending::failed;
use super::repository::WorkerRepository;
use super::requests::report_interval;
use crate::context::Context;
use crate::failure::Failure;

/// Ends the programs of a check when nobody waits for them any more.
struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }
}

/// Verdicts are those of the server: none is stored here.
struct NoVerdicts;

impl Verdicts for NoVerdicts {
    fn find(&self, _key: &str) -> Option<Verdict> {
        None
    }

    fn keep(&mut self, _key: &str, _verdict: &Verdict) {}

    fn find_executed_tests(&self, _key: &str) -> Option<ExecutedTests> {
        None
    }

    fn keep_executed_tests(&mut self, _key: &str, _tests: &ExecutedTests) {}
}

impl Attempts {
    /// Runs the job and sends its outcome. A worker that cannot run it says so, and the server runs it.
    pub(super) async fn run_check(
        self: Arc<Self>,
        (lease, lease_millis): (Lease, u64),
        check: RemoteCheck,
    ) {
        let until = CancelOnDrop(Cancellation::default());
        let work = self.outcome(&lease, check, until.0.clone());
        tokio::pin!(work);
        let evidence = loop {
            tokio::select! {
                done = &mut work => break done,
                is_wanted = self.keep_check(&lease, lease_millis) => {
                    if !is_wanted {
                        until.0.cancelled.store(true, Ordering::Relaxed);
                    }
                }
            }
        };
        let finish = match evidence {
            Ok(evidence) => FinishReport {
                ending: ExitReason::Completed,
                evidence: Some(evidence),
                ..failed(String::new())
            },
            Err(failure) => {
                let why = failure.in_one_line();
                self.context.notices.note(format_args!("{} cannot run: {why}", lease.agent));
                failed(why)
            }
        };
        // A lost lease, or an outcome that is refused: the server runs the job itself.
        let _ = self.end(&lease, Vec::new(), finish).await;
    }

    /// Reports that the job runs; whether it is still wanted.
    async fn keep_check(&self, lease: &Lease, lease_millis: u64) -> bool {
        tokio::time::sleep(report_interval(lease_millis)).await;
        let secret = self.credentials.secret();
        let report = ProgressReport { state: ProgressState::Running, ..ProgressReport::default() };
        match self.api.report(&secret, lease, report).await {
            Ok(answer) => !answer.cancel,
            Err(WorkerError::LeaseLost(_)) => false,
            // The server can be away for a while.
            Err(_) => true,
        }
    }

    async fn outcome(
        &self,
        lease: &Lease,
        check: RemoteCheck,
        until: Cancellation,
    ) -> Result<CheckEvidence, Failure> {
        // The commits of the work have no reference here.
        let needed = self.unreferenced.read().await;
        let repository = self.fetched(lease, &check).await.map_err(|why| match why {
            BeginError::Server(_) | BeginError::Launch(_) => Failure::general(why.to_string()),
            BeginError::Local(failure) => {
                self.preparation.failed(Instant::now());
                failure
            }
        })?;
        self.preparation.succeeded();
        let context = self.context.clone();
        let evidence = blocking(move || run(&context, &repository, &check, until)).await;
        drop(needed);
        evidence
    }

    /// The repository of a check, with its commits.
    async fn fetched(
        &self,
        lease: &Lease,
        check: &RemoteCheck,
    ) -> Result<WorkerRepository, BeginError> {
        let (directory, name) = (self.directory.clone(), check.repository.clone());
        let opened = move || -> Result<_, Failure> {
            let repository = WorkerRepository::open(&directory, &name)?;
            let has = repository.has()?;
            Ok((repository, has))
        };
        let (repository, has) = blocking(opened).await?;
        let mut bundle = self.fetch(lease, &has).await?;
        let base = check.base.clone();
        let add = move || -> Result<_, Failure> {
            repository.add(&mut bundle, &[&base])?;
            Ok(repository)
        };
        let adding = self.adding.lock().await;
        let repository = blocking(add).await?;
        drop(adding);
        Ok(repository)
    }
}

/// Runs the job in a full sandbox, on nothing but the commits that were sent.
fn run(
    context: &Context,
    repository: &WorkerRepository,
    check: &RemoteCheck,
    until: Cancellation,
) -> Result<CheckEvidence, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::general(error.to_string());
    let job: Job = serde_json::from_value(check.job.clone())
        .map_err(|error| Failure::general(format!("the job cannot be read: {error}")))?;
    let git = Git::at(repository.directory());
    let tree_of = |commit: &str| -> Result<TreeId, Failure> {
        match is_object_name(commit) {
            true => Ok(TreeId::new(git.line(["rev-parse", &format!("{commit}^{{tree}}")])?)),
            false => Err(Failure::general(format!("`{commit}` names no commit"))),
        }
    };
    let commits = JobCommits {
        base: CommitId::new(check.base.as_str()),
        base_tree: tree_of(&check.base)?,
        head: CommitId::new(check.head.as_str()),
        commit: CommitId::new(check.commit.as_str()),
        tree: tree_of(&check.commit)?,
    };
    let tree = commits.tree.to_string();
    let task = Task::parse(&Source::new("the task", check.task.as_str()))?;
    let agent = AgentId::parse("check").map_err(|error| failed(&error))?;
    let directory = repository.directory();
    let work = GitWork::open(directory, directory, &context.state, &agent, None)
        .map_err(|error| failed(&error))?
        .on_commit(commits.base.clone());
    let request = Request {
        agent: None,
        task: &task,
        checks: Vec::new(),
        mode: RunMode::Worktree,
        preparation: Preparation::of(&task),
        changed_setup: ChangedSetup::Refused,
        machine_key: String::new(),
    };
    let limits = Limits { time: Duration::from_millis(check.time_millis), ..Limits::default() };
    let mut open_environment = || -> Result<Box<dyn CheckEnvironment>, CheckEnvironmentError> {
        let launcher = Launcher::own().map_err(|error| CheckEnvironmentError {
            what: "the sandbox cannot be made".to_owned(),
            why: error.to_string(),
            caused_by_agent: false,
        })?;
        let opened = CheckWorkshop::open(Setup {
            state: context.state.clone(),
            repository: check.repository.clone(),
            checkout: directory.to_owned(),
            installed: Vec::new(),
            level: Level::Full,
            limits,
            until: until.clone(),
            launcher,
            host: Host::observe(),
            base: BaseTrust::Trusted,
        })?;
        Ok(Box::new(opened))
    };
    let missing = || Report { place: "the server".to_owned(), text: Err(ReportError::Missing) };
    let world = VerificationPorts {
        work: &work,
        open_environment: &mut open_environment,
        report: &missing,
        copied: &|| None,
        ledger: None,
        verdicts: &mut NoVerdicts,
        evidence: None,
        tell: &mut |_| {},
    };
    let outcome = run_job(&request, world, commits, &job).map_err(|error| failed(&error))?;
    if until.cancelled.load(Ordering::Relaxed) {
        return Err(Failure::general("it was cancelled"));
    }
    let outcome = serde_json::to_value(outcome)
        .map_err(|error| Failure::general(format!("the outcome cannot be written: {error}")))?;
    Ok(CheckEvidence { tree, outcome })
}
