//! The control plane: from deliveries to runs, from runs to results, one turn after the other.
//!
//! ```text
//!  WebhookDelivery ─trigger_controller▶ TriggerExecution + Run + Attempt + Bundle (+ Approval)   one commit
//!  schedule_controller, manual_trigger ──▲         │
//!                                                  ▼
//!  Run queued ─run_queue▶ Run running ─run_controller▶ engine ─▶ Artifact, WriteBack, Run succeeded
//! ```
//!
//! Every turn compares what is there with what should be: nothing depends on having seen a change.
//! What belongs together is one commit, so that a kill at any moment leaves either all of it or nothing, and
//! what reaches the world outside carries a name by which a second try is recognised.

mod api;
mod audit_log;
mod backoff;
mod commit_status;
mod context_sources;
mod costs;
mod definition_status;
mod delivery_filter;
mod error;
mod error_report;
mod event_samples;
mod fetched_commits;
mod forge_polling;
mod idempotency;
mod launch;
mod manual_trigger;
mod mcp_server_status;
mod outcome;
mod ownership;
mod proposals;
mod reconciler;
mod repository_status;
mod required_subagents;
mod retention;
mod revalidation;
mod run_admission;
mod run_controller;
mod run_queue;
mod run_results;
mod run_status;
mod schedule_controller;
mod sessions;
mod subagent_runs;
mod trigger_controller;
mod unreadable_objects;
mod workspace_controller;
mod write_back_controller;

pub use api::QuestionOwner;
pub use backoff::Backoff;
pub use error::{
    CredentialProblem, LaunchRecordProblem, LaunchRefusal, ReconcileError, ServerValueProblem,
    StoredWriteError,
};
pub use outcome::reason_for_retry;
pub use retention::{Pruned, Retention};

use std::sync::Arc;

use bailiwick_resources::{
    AnyObject, DEFAULT_NAMESPACE, Kind, Moment, Object, Repository, Resource,
};

use crate::admission::Inventory;
use crate::ports::{AuditEntry, Engine, FleetError, FleetStore, Selection, World, Write};

/// Whose name stands in the audit log for what the control plane does by itself.
pub const OURSELVES: &str = "bailiwick";

/// What a turn has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// How many things.
    pub done: usize,
    /// What did not work, and of what.
    pub errors: Vec<(String, String)>,
    /// Whether the store did not answer: then nobody can go on.
    pub store_unavailable: bool,
    /// Whether a run has moved: pools are counted again then.
    runs_moved: bool,
    /// What had trouble before, and rests.
    backoff: Backoff,
    /// When it began.
    at: Moment,
}

impl Turn {
    fn note(&mut self, about: &str, result: Result<bool, ReconcileError>) {
        match result {
            Ok(true) => self.done += 1,
            Ok(false) => {}
            // Somebody else was faster; it is looked at again.
            Err(ReconcileError::Store(FleetError::Conflict { .. })) => self.done += 1,
            Err(error) => {
                self.store_unavailable |= error.is_store_unavailable();
                self.errors.push((about.to_owned(), error.to_string()));
            }
        }
    }

    /// Whether this object had trouble with this a short while ago, and is left alone.
    fn is_backing_off(&self, what: &'static str, name: &str) -> bool {
        self.backoff.is_backing_off(what, name, self.at)
    }

    /// Notes what became of an object; one that had trouble rests.
    fn tried(&mut self, what: &'static str, name: &str, result: Result<bool, ReconcileError>) {
        self.runs_moved |= matches!(what, "queue" | "run") && !matches!(result, Ok(false));
        match &result {
            Err(error) if !error.is_retried_at_once() => self.backoff.failed(what, name, self.at),
            Ok(_) | Err(_) => self.backoff.succeeded(what, name),
        }
        self.note(name, result);
    }
}

/// The control plane over a store, an engine and the world.
pub struct ControlPlane<S, E, W> {
    /// Everything that is declared and recorded.
    pub store: Arc<S>,
    /// Who carries attempts out.
    pub engine: Arc<E>,
    /// All else.
    pub world: Arc<W>,
}

impl<S, E, W> Clone for ControlPlane<S, E, W> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            engine: Arc::clone(&self.engine),
            world: Arc::clone(&self.world),
        }
    }
}

impl<S: FleetStore, E: Engine, W: World> ControlPlane<S, E, W> {
    /// Does everything that is wanting, once.
    pub async fn turn(&self) -> Turn {
        self.turn_after(&mut Backoff::default()).await
    }

    /// The same, leaving alone what had trouble a short while ago: a trouble that stands holds up nobody else.
    pub async fn turn_after(&self, backoff: &mut Backoff) -> Turn {
        let backoff_before = std::mem::take(backoff);
        let at = self.world.now();
        let mut turn = Turn { backoff: backoff_before, at, ..Turn::default() };
        self.observe_forges(&mut turn).await;
        self.evaluate_deliveries(&mut turn).await;
        self.fire_schedules(&mut turn).await;
        self.poll_forges(&mut turn).await;
        self.settle_queue(&mut turn).await;
        self.reconcile_workspaces(&mut turn).await;
        self.follow_runs(&mut turn).await;
        self.follow_children(&mut turn).await;
        self.report_statuses(&mut turn).await;
        self.count_pools(&mut turn).await;
        turn.backoff.forget_stale(at);
        *backoff = std::mem::take(&mut turn.backoff);
        turn
    }

    /// All objects of a kind that these fields select.
    async fn all(&self, mut selection: Selection) -> Result<Vec<AnyObject>, ReconcileError> {
        let mut found = Vec::new();
        loop {
            let page = self.store.list(&selection).await?;
            found.extend(page.objects);
            if page.next.is_none() {
                return Ok(found);
            }
            selection.after = page.next;
        }
    }

    /// All objects of a kind that these fields select and that can be read.
    async fn all_typed<R: Resource>(
        &self,
        selection: Selection,
    ) -> Result<Vec<Object<R>>, ReconcileError> {
        let found = self.all(selection).await?;
        // What cannot be read is reported by `report_unreadable`; the others need not wait for it.
        Ok(found.iter().filter_map(|object| object.typed::<R>().ok()).collect())
    }

    async fn typed<R: Resource>(&self, name: &str) -> Result<Option<Object<R>>, ReconcileError> {
        let found = self.store.get(R::KIND, DEFAULT_NAMESPACE, name).await?;
        Ok(found.map(|object| object.typed::<R>()).transpose()?)
    }

    /// Everything that admission looks at. A kind that cannot be listed is unknown, not empty.
    async fn inventory(&self) -> Inventory {
        let mut inventory = Inventory::default();
        for &kind in Kind::ALL {
            let looked_at = match kind {
                Kind::AgentDispatchRun
                | Kind::AgentDispatchAttempt
                | Kind::WorkItemSessionLink
                | Kind::WorkItemWorkspaceLink
                | Kind::AgentSession
                | Kind::AgentApproval
                | Kind::AgentContextBundle
                | Kind::AgentArtifact
                | Kind::AgentReviewArtifact
                | Kind::AgentTriggerExecution
                | Kind::WebhookDelivery => false,
                Kind::AgentStack
                | Kind::AgentSubagent
                | Kind::AgentToolProfile
                | Kind::AgentMcpServer
                | Kind::AgentSkill
                | Kind::AgentServiceAccount
                | Kind::AgentRoleBinding
                | Kind::AgentSecretGrant
                | Kind::AgentConfigGrant
                | Kind::AgentCapabilityRequirement
                | Kind::AgentTriggerRule
                | Kind::AgentContextLabel
                | Kind::AgentWorkspacePolicy
                | Kind::AgentWorkspace
                | Kind::Repository
                | Kind::RunnerPool
                | Kind::ServiceAccount
                | Kind::Role
                | Kind::RoleBinding
                | Kind::Secret
                | Kind::ConfigMap => true,
            };
            if !looked_at {
                continue;
            }
            match self.all(Selection::of(kind)).await {
                Ok(objects) => objects.into_iter().for_each(|object| inventory.add(object)),
                Err(error) => inventory = inventory.unlistable(kind, error.to_string()),
            }
        }
        inventory
    }

    /// The repository of this full name.
    async fn repository(&self, full_name: &str) -> Result<Object<Repository>, ReconcileError> {
        let all = self.all_typed::<Repository>(Selection::of(Kind::Repository)).await?;
        let found = all
            .into_iter()
            .find(|repository| repository.spec.full_name.eq_ignore_ascii_case(full_name));
        found.ok_or_else(|| ReconcileError::RepositoryMissing(full_name.to_owned()))
    }

    /// The forge of a repository, with its credential.
    async fn forge(&self, repository: &Object<Repository>) -> Result<W::Forge, ReconcileError> {
        let credential = match &repository.spec.credential_ref {
            None => None,
            Some(key) => {
                let namespace = &repository.metadata.namespace;
                let found = self.store.secret_value(namespace, &key.name, &key.key).await;
                let problem = match found {
                    Ok(Some(value)) => Ok(value),
                    Ok(None) => Err(CredentialProblem::Missing),
                    Err(FleetError::Unopened { .. }) => Err(CredentialProblem::Sealed),
                    Err(error) => return Err(error.into()),
                };
                let (secret, key) = (key.name.clone(), key.key.clone());
                Some(problem.map_err(|problem| ReconcileError::Credential {
                    secret,
                    key,
                    problem,
                })?)
            }
        };
        Ok(self.world.forge(&repository.spec, credential.as_deref())?)
    }

    fn audit(&self, event: &str, subject: String, detail: serde_json::Value) -> Write {
        Write::Audit(AuditEntry {
            at: self.world.now(),
            actor: OURSELVES.to_owned(),
            event: event.to_owned(),
            subject,
            correlation: std::collections::BTreeMap::new(),
            detail,
        })
    }
}
