//! An in-memory store and workspaces that crash on request.

use std::collections::VecDeque;
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use bailiwick_lifecycle::ports::{
    NewRun, Preparation, RunStore, SeenWorkspace, StoreError, TaskDirectory, WorkspaceError,
    Workspaces,
};
use bailiwick_lifecycle::spawn::{Request, Step};
use bailiwick_model::{AgentId, Run, RunState, RunStatus};

use crate::kit_in_memory::id;

/// Where in a step the process crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrashPoint {
    Before,
    Halfway,
    After,
}

impl CrashPoint {
    pub(crate) const ALL: [Self; 3] = [Self::Before, Self::Halfway, Self::After];
}

/// The state that survives a crash.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DurableState {
    pub(crate) run: Option<Run>,
    pub(crate) spec: Option<String>,
    pub(crate) task: Option<TaskDirectory>,
    pub(crate) branch: Option<String>,
    pub(crate) worktree: Option<String>,
    pub(crate) ready: Option<Preparation>,
    /// The completed steps, in order.
    pub(crate) effects: Vec<Step>,
}

/// The ports of the executor.
#[derive(Default)]
pub(crate) struct World {
    durable_state: Mutex<DurableState>,
    /// For each future step: whether and when it crashes.
    crashes: Mutex<VecDeque<Option<CrashPoint>>>,
}

/// The process crashed.
struct Crash;

impl World {
    pub(crate) fn durable_state(&self) -> DurableState {
        self.durable_state.lock().unwrap().clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut DurableState)) {
        change(&mut self.durable_state.lock().unwrap());
    }

    /// Makes a later step crash at this moment; `number` counts from 0.
    pub(crate) fn crash_at(&self, number: usize, moment: CrashPoint) {
        let mut crashes = self.crashes.lock().unwrap();
        crashes.clear();
        crashes.extend(std::iter::repeat_n(None, number));
        crashes.push_back(Some(moment));
    }

    /// Applies the effect of a step, as far as it gets.
    fn step(
        &self,
        step: Step,
        half: impl FnOnce(&mut DurableState),
        whole: impl FnOnce(&mut DurableState),
    ) -> Result<(), Crash> {
        let crash = self.crashes.lock().unwrap().pop_front().flatten();
        let mut durable_state = self.durable_state.lock().unwrap();
        match crash {
            Some(CrashPoint::Before) => return Err(Crash),
            Some(CrashPoint::Halfway) => {
                half(&mut durable_state);
                return Err(Crash);
            }
            Some(CrashPoint::After) | None => {
                whole(&mut durable_state);
                durable_state.effects.push(step);
            }
        }
        if crash.is_none() { Ok(()) } else { Err(Crash) }
    }
}

impl From<Crash> for StoreError {
    fn from(_: Crash) -> Self {
        Self::Database { database: "memory".to_owned(), why: "the process died".to_owned() }
    }
}

impl From<Crash> for WorkspaceError {
    fn from(_: Crash) -> Self {
        Self { what: "memory".to_owned(), why: "the process died".to_owned() }
    }
}

/// A new run as the ledger returns it.
pub(crate) fn recorded_run(run: &NewRun) -> Run {
    Run {
        id: run.id.clone(),
        branch: run.branch.clone(),
        parent_branch: run.parent.clone(),
        spec_sha: run.spec_sha.clone(),
        status: RunStatus::Running,
        started_ts: 1,
        finished_ts: None,
        summary: None,
        worktree_path: run.worktree.clone(),
        dna: run.dna.clone(),
        creator_id: run.creator.clone(),
        fork_parent_id: run.fork_parent.clone(),
        cost_cents: 0,
        provider: String::new(),
        model: String::new(),
        half_spawned: run.half_spawned,
        base: run.base.clone(),
        name: run.id.clone(),
        repository: run.named.as_ref().map(|named| named.repository.clone()),
        state: RunState::HalfSpawned,
    }
}

// A real store or workspace refuses a repeated step; here it fails the test.
impl RunStore for World {
    async fn find(&self, id: &AgentId) -> Result<Option<Run>, StoreError> {
        Ok(self.durable_state().run.filter(|run| run.id == *id))
    }

    async fn record(&self, run: &NewRun, spec: Option<&str>) -> Result<(), StoreError> {
        let whole = |durable_state: &mut DurableState| {
            assert_eq!(durable_state.run, None, "recorded twice");
            durable_state.run = Some(recorded_run(run));
            durable_state.spec = spec.map(str::to_owned);
        };
        Ok(self.step(Step::RecordRun, |_| (), whole)?)
    }

    async fn finish_spawn(&self, id: &AgentId) -> Result<(), StoreError> {
        let whole = |durable_state: &mut DurableState| match &mut durable_state.run {
            Some(run) if run.id == *id && run.half_spawned => run.half_spawned = false,
            other => panic!("there is no spawn to finish: {other:?}"),
        };
        Ok(self.step(Step::FinishSpawn, |_| (), whole)?)
    }

    async fn change_status(
        &self,
        _: &AgentId,
        next: RunStatus,
        _: Option<&str>,
    ) -> Result<(), StoreError> {
        panic!("a spawn does not change a run to {next}")
    }
}

impl Workspaces for World {
    fn observe(&self, _: &AgentId) -> Result<SeenWorkspace, WorkspaceError> {
        let durable_state = self.durable_state();
        Ok(SeenWorkspace {
            task_directory: durable_state.task.is_some(),
            branch: durable_state.branch.is_some(),
            worktree: durable_state.worktree.is_some(),
            obstacle: false,
            ready: durable_state.ready.is_some(),
        })
    }

    fn worktree_path(&self, id: &AgentId) -> PathBuf {
        PathBuf::from("/state/worktrees").join(id.as_str())
    }

    fn write_task(&self, _: &AgentId, files: &TaskDirectory) -> Result<(), WorkspaceError> {
        let whole = |durable_state: &mut DurableState| {
            assert_eq!(durable_state.task, None, "written twice");
            durable_state.task = Some(files.clone());
        };
        Ok(self.step(Step::WriteTask, |_| (), whole)?)
    }

    fn add_worktree(&self, id: &AgentId, base: &str) -> Result<(), WorkspaceError> {
        // A new worktree is not prepared, whatever was recorded for the worktree before it.
        let half = |durable_state: &mut DurableState| {
            durable_state.branch = Some(id.branch());
            durable_state.ready = None;
        };
        let whole = |durable_state: &mut DurableState| {
            assert_eq!(durable_state.worktree, None, "created twice");
            half(durable_state);
            durable_state.worktree = Some(base.to_owned());
        };
        Ok(self.step(Step::AddWorktree, half, whole)?)
    }

    fn make_ready(&self, _: &AgentId, how: &Preparation) -> Result<(), WorkspaceError> {
        let whole = |durable_state: &mut DurableState| {
            assert!(durable_state.worktree.is_some(), "there is no worktree to prepare");
            durable_state.ready = Some(how.clone());
        };
        Ok(self.step(Step::MakeReady, |_| (), whole)?)
    }
}

/// A request that differs for each id.
pub(crate) fn request(name: &str) -> Request {
    let agent = id(name);
    Request {
        run: NewRun {
            id: agent.clone(),
            branch: agent.branch(),
            parent: None,
            spec_sha: format!("sha of {name}"),
            worktree: Some(format!("/state/worktrees/{name}")),
            dna: Some("dna".to_owned()),
            creator: None,
            fork_parent: None,
            half_spawned: true,
            base: Some("base commit".to_owned()),
            named: None,
        },
        files: TaskDirectory { task: format!("task of {name}"), prompt: "prompt".to_owned() },
        base: "base commit".to_owned(),
        preparation: Preparation {
            copy: vec![".env".to_owned()],
            setup: vec!["make".to_owned()],
            prefetch: Vec::new(),
            hosts: Vec::new(),
        },
        id: agent,
    }
}

/// The result of a future that never waits.
pub(crate) fn ready_result<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the future waits, but it must not"),
    }
}
