//! The control plane: one controller for each concern, each with only the ports that it uses.
//!
//! ```text
//!  WebhookDelivery ─TriggerController▶ TriggerExecution + Run + Attempt + Bundle (+ Approval)   one commit
//!  ScheduleController, RuleApi ─────────▲      │
//!                                              ▼
//!  Run queued ─RunQueue▶ Run running ─RunController▶ engine ─▶ Artifact, WriteBack, Run succeeded
//! ```
//!
//! A controller compares the stored state with the wanted one: nothing depends on having seen a change. Related
//! writes are one commit, so that a kill at any moment leaves all of them or none. Every external effect has an
//! idempotency key, by which a repetition is recognised.

mod api;
mod audit_log;
mod background_jobs;
mod backoff;
mod commit_status;
mod costs;
mod dependencies;
mod error;
mod forge_access;
mod forge_health;
mod idempotency;
mod launch;
mod objects;
mod outcome;
mod pod_grants;
mod prepared_launch;
mod redaction;
mod repository_controller;
mod retention;
mod run_admission;
mod run_controller;
mod run_queries;
mod run_queue;
mod run_results;
mod run_status;
mod schedule_controller;
mod sessions;
mod status_reconciler;
mod subagent_runs;
mod summary;
mod timed_forge;
mod tool_approvals;
mod trigger_controller;
mod workspace_controller;
mod write_back_controller;
mod write_targets;

pub use api::{Api, QuestionOwner};
pub use backoff::RetryTable;
pub use error::{
    CredentialProblem, LaunchRecordProblem, LaunchRefusal, ReconcileError, ServerValueProblem,
    StoredWriteError,
};
pub use outcome::reason_for_retry;
pub use retention::{Pruned, Retention};
pub use summary::ReconcileSummary;

use std::sync::Arc;

use background_jobs::BackgroundJobs;
use commit_status::CommitStatusController;
use forge_access::ForgeAccess;
use launch::Launcher;
use redaction::Redaction;
use repository_controller::RepositoryController;
use retention::RetentionController;
use run_admission::RunAdmission;
use run_controller::RunController;
use run_queue::{Revalidator, RunQueue};
use run_status::RunStatusWriter;
use schedule_controller::ScheduleController;
use sessions::SessionRecorder;
use status_reconciler::StatusReconciler;
use subagent_runs::SubagentController;
use tool_approvals::ToolApprovals;
use trigger_controller::TriggerController;
use workspace_controller::WorkspaceController;
use write_back_controller::WriteBackController;

use crate::ports::{Engine, FleetStore, World};

/// The actor of the control plane in the audit log.
pub const CONTROL_PLANE_ACTOR: &str = "bailiwick";

/// The controllers over one store, one engine and one world, and the API in front of them.
pub struct ControlPlane<S, E, W> {
    /// Everything that is declared and recorded.
    pub store: Arc<S>,
    /// Runs attempts.
    pub engine: Arc<E>,
    /// The clock, repositories, forges and agent programs.
    pub world: Arc<W>,
    /// Requests of people and programs.
    pub api: Arc<Api<S, E, W>>,
    repositories: Arc<RepositoryController<S, W>>,
    triggers: Arc<TriggerController<S, W>>,
    schedules: Arc<ScheduleController<S, W>>,
    queue: Arc<RunQueue<S, W>>,
    workspaces: Arc<WorkspaceController<S, E, W>>,
    runs: Arc<RunController<S, E, W>>,
    subagents: Arc<SubagentController<S, E, W>>,
    commit_statuses: Arc<CommitStatusController<S, W>>,
    statuses: StatusReconciler<S, W>,
    retention: RetentionController<S, E, W>,
    jobs: Arc<BackgroundJobs>,
}

impl<S: FleetStore, E: Engine, W: World> ControlPlane<S, E, W> {
    /// Builds the controllers.
    pub fn new(store: Arc<S>, engine: Arc<E>, world: Arc<W>) -> Self {
        let (s, e, w) = (|| Arc::clone(&store), || Arc::clone(&engine), || Arc::clone(&world));
        let forges = Arc::new(ForgeAccess::new(s(), w()));
        let redaction = Arc::new(Redaction::new(s(), w()));
        let run_statuses = Arc::new(RunStatusWriter::new(s(), w()));
        let sessions = Arc::new(SessionRecorder::new(s(), w()));
        let workspaces = Arc::new(WorkspaceController::new(s(), e(), w()));
        let admission =
            Arc::new(RunAdmission::new(s(), w(), Arc::clone(&forges), Arc::clone(&redaction)));
        let triggers =
            Arc::new(TriggerController::new(s(), w(), Arc::clone(&forges), Arc::clone(&admission)));
        let approvals = Arc::new(ToolApprovals::new(s(), e(), w()));
        let subagents = Arc::new(SubagentController::new(
            s(),
            e(),
            w(),
            Arc::clone(&approvals),
            Arc::clone(&run_statuses),
            Arc::clone(&redaction),
        ));
        let revalidator =
            Revalidator::new(s(), w(), Arc::clone(&forges), Arc::clone(&run_statuses));
        let write_backs = WriteBackController::new(
            s(),
            w(),
            Arc::clone(&forges),
            Arc::clone(&run_statuses),
            Arc::clone(&redaction),
        );
        let api = Api::new((s(), e(), w()), &forges, &admission, &sessions, &triggers, &workspaces);
        Self {
            api: Arc::new(api),
            repositories: Arc::new(RepositoryController::new(s(), w(), Arc::clone(&forges))),
            schedules: Arc::new(ScheduleController::new(s(), w(), Arc::clone(&triggers))),
            queue: Arc::new(RunQueue::new(s(), w(), revalidator, Arc::clone(&run_statuses))),
            runs: Arc::new(RunController {
                store: s(),
                engine: e(),
                world: w(),
                launcher: Launcher::new(s(), e(), w(), Arc::clone(&forges)),
                approvals,
                sessions,
                subagents: Arc::clone(&subagents),
                write_backs,
                statuses: Arc::clone(&run_statuses),
                redaction,
            }),
            commit_statuses: Arc::new(CommitStatusController::new(s(), w(), forges)),
            statuses: StatusReconciler::new(s(), w(), run_statuses),
            retention: RetentionController::new(s(), e(), w()),
            jobs: Arc::default(),
            triggers,
            workspaces,
            subagents,
            store,
            engine,
            world,
        }
    }

    /// Moves everything that is due one step on.
    pub async fn advance(&self) -> ReconcileSummary {
        self.advance_with(&mut RetryTable::default()).await
    }

    /// The same, skipping objects that failed recently: an object that keeps failing delays no other. Slow work,
    /// such as that of a slow forge, runs beside the passes.
    pub async fn advance_with(&self, retries: &mut RetryTable) -> ReconcileSummary {
        self.advance_by_steps(retries, &|_| {}).await
    }

    /// The same; `begin` receives the name of each step before it begins.
    pub async fn advance_by_steps(
        &self,
        retries: &mut RetryTable,
        begin: &(dyn Fn(&'static str) + Send + Sync),
    ) -> ReconcileSummary {
        let started_at = self.world.now();
        let jobs = Arc::clone(&self.jobs);
        let mut summary = ReconcileSummary::starting(started_at, std::mem::take(retries), jobs);
        begin("observing forges");
        self.repositories.observe_forges(&mut summary).await;
        begin("evaluating deliveries");
        self.triggers.evaluate_deliveries(&mut summary).await;
        begin("firing schedules");
        self.schedules.fire_schedules(&mut summary).await;
        begin("polling forges");
        self.repositories.poll_forges(&mut summary).await;
        begin("starting runs");
        self.queue.settle_queue(&mut summary).await;
        begin("recording workspaces");
        self.workspaces.reconcile_workspaces(&mut summary).await;
        begin("following runs");
        self.runs.follow_runs(&mut summary).await;
        begin("following sub-agents");
        self.subagents.follow_children(&mut summary).await;
        begin("reporting commit statuses");
        self.commit_statuses.report_statuses(&mut summary).await;
        begin("counting pools");
        self.queue.count_pools(&mut summary).await;
        summary.retries.forget_stale(started_at);
        *retries = std::mem::take(&mut summary.retries);
        summary
    }

    /// Waits until work beside a pass has finished.
    pub async fn wait_for_finished(&self) {
        self.jobs.wait_for_finished().await;
    }

    /// Updates the status of everything that is declared.
    pub async fn reconcile_statuses(&self) -> ReconcileSummary {
        self.statuses.reconcile().await
    }

    /// Deletes a batch of expired objects.
    pub async fn prune(&self, retention: &mut Retention) -> ReconcileSummary {
        self.retention.prune(retention).await
    }
}
