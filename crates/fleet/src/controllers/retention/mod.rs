//! Deletes old objects in batches. Objects that are still needed stay.
//!
//! | what | is deleted when | with it |
//! |---|---|---|
//! | a run | its retention period is over; no question about it is open; its parent run and its child runs have ended; no person has linked its sessions to a work item; its workspace is neither pinned nor in use | attempts, bundles, artifacts, reviews, approvals, sessions and the links that were made with them, its events |
//! | an execution | its retention period is over, and the longest window for repeated events, too; its run is deleted | |
//! | a delivery | the rules have evaluated it; its retention period is over; its executions are deleted | |
//! | a line of the audit log | it is as old as those are kept | |
//! | a sign-in | it expired a day ago | |
//! | a commit that was fetched | it was kept for an hour, and no run needs it (`fetched_commits`) | |
//!
//! Blobs are deleted with the last object that names their digest; the store does that. Related objects are deleted
//! in one commit, at the versions that were read: whatever changed meanwhile stays.

mod fetched_commits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bailiwick_resources::{
    AgentApproval, AgentDispatchRun, AgentSession, AgentTriggerExecution, AgentWorkspace,
    AnyObject, ApprovalPhase, Kind, LinkSource, Moment, Object, RunPhase, Span, WebhookDelivery,
    WorkItemSessionLink, WorkspaceState,
};

use super::{CONTROL_PLANE_ACTOR, ReconcileError, ReconcileSummary};
use crate::ports::{
    AgentEvents, AuditEntry, Clock, Commits, FleetError, FleetStore, Selection, Write,
};
use crate::triggers::dedupe::MAX_WINDOW_MILLIS;

const BATCH_SIZE: usize = 50;
const MAX_AUDIT_LINES: usize = 500;
/// How long an expired sign-in stays in the list of tokens.
const KEPT_SESSION_MILLIS: u64 = 24 * 60 * 60 * 1_000;
/// Kinds that belong to a run and are deleted with it; each has the field `run`.
const OWNED_KINDS: [Kind; 6] = [
    Kind::AgentDispatchAttempt,
    Kind::AgentContextBundle,
    Kind::AgentArtifact,
    Kind::AgentReviewArtifact,
    Kind::AgentApproval,
    Kind::AgentSession,
];

/// The retention periods, and where the next batch starts.
#[derive(Debug, Clone)]
pub struct Retention {
    keep: Span,
    keep_audit: Span,
    /// Where the next batch of each list starts, so that remaining objects do not block those after them.
    places: BTreeMap<&'static str, String>,
    /// Fetched commits that no run needs, and since when that is known.
    pub(super) unneeded: BTreeMap<(String, String), Moment>,
    /// When fetched commits were last checked.
    pub(super) looked: Option<Moment>,
}

/// The result of a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    pub count: usize,
    /// Runs of the ledger whose events can be deleted.
    pub agents: Vec<String>,
}

impl Retention {
    pub fn new(keep: Span, keep_audit: Span) -> Self {
        let (places, unneeded) = (BTreeMap::new(), BTreeMap::new());
        Self { keep, keep_audit, places, unneeded, looked: None }
    }

    /// Deletes one batch; the next call continues after it.
    pub async fn portion<S: FleetStore>(
        &mut self,
        store: &S,
        now: Moment,
    ) -> Result<Pruned, ReconcileError> {
        let mut pruned = Pruned::default();
        for phase in RunPhase::ALL.into_iter().filter(|phase| phase.is_final()) {
            let list = phase.as_str();
            let ended = Selection::of(Kind::AgentDispatchRun).field("status", list);
            for run in self.next(store, list, ended, now).await? {
                // Unreadable objects stay and block nothing.
                let Ok(run) = run.typed::<AgentDispatchRun>() else { continue };
                if let Some(writes) = self.run(store, &run, now).await? {
                    let count = gone(store, writes, now).await?;
                    if count > 0 {
                        pruned.agents.extend(agents(&run));
                    }
                    pruned.count += count;
                }
            }
        }
        let executions = Selection::of(Kind::AgentTriggerExecution);
        for object in self.next(store, "executions", executions, now).await? {
            if self.execution_is_over(store, &object, now).await? {
                pruned.count += gone(store, vec![delete(&object)], now).await?;
            }
        }
        let deliveries = Selection::of(Kind::WebhookDelivery).field("evaluated", "true");
        for object in self.next(store, "deliveries", deliveries, now).await? {
            if self.delivery_is_over(store, &object, now).await? {
                pruned.count += gone(store, vec![delete(&object)], now).await?;
            }
        }
        let before = Moment::from_millis(now.millis().saturating_sub(KEPT_SESSION_MILLIS));
        let sessions = store.forget_sessions(before, BATCH_SIZE).await?;
        pruned.count += usize::try_from(sessions).unwrap_or(usize::MAX);
        let before = Moment::from_millis(now.millis().saturating_sub(self.keep_audit.millis()));
        let lines = store.forget_audit(before, MAX_AUDIT_LINES).await?;
        pruned.count += usize::try_from(lines).unwrap_or(usize::MAX);
        Ok(pruned)
    }

    fn is_old(&self, at: Moment, now: Moment) -> bool {
        now.millis().saturating_sub(at.millis()) >= self.keep.millis()
    }

    /// The next old objects of a list. Lists are ordered by creation: behind the first young object there are no old
    /// ones.
    async fn next<S: FleetStore>(
        &mut self,
        store: &S,
        list: &'static str,
        selection: Selection,
        now: Moment,
    ) -> Result<Vec<AnyObject>, ReconcileError> {
        let after = self.places.remove(list);
        let page = store.list(&Selection { limit: BATCH_SIZE, after, ..selection }).await?;
        let made = |object: &AnyObject| object.metadata.creation_timestamp.unwrap_or(now);
        let old = |object: &AnyObject| self.is_old(made(object), now);
        let some: Vec<AnyObject> = page.objects.iter().filter(|one| old(one)).cloned().collect();
        if some.len() == page.objects.len()
            && let Some(next) = page.next
        {
            self.places.insert(list, next);
        }
        Ok(some)
    }

    /// The writes that delete a run and what belongs to it; nothing if it stays.
    async fn run<S: FleetStore>(
        &self,
        store: &S,
        run: &Object<AgentDispatchRun>,
        now: Moment,
    ) -> Result<Option<Vec<Write>>, ReconcileError> {
        let ended = run.status.completed_at.or(run.metadata.creation_timestamp).unwrap_or(now);
        let over = run.status.phase.is_final() && self.is_old(ended, now);
        if !over || is_needed(store, run).await? {
            return Ok(None);
        }
        let mut writes = vec![note(run, now)];
        for kind in OWNED_KINDS {
            for object in belonging(store, kind, run).await? {
                if kind == Kind::AgentApproval {
                    let asked =
                        |one: Object<AgentApproval>| one.status.phase == ApprovalPhase::Pending;
                    if object.typed::<AgentApproval>().map_or(true, asked) {
                        return Ok(None);
                    }
                }
                if kind == Kind::AgentSession {
                    let Some(links) = links_to_go(store, &object).await? else { return Ok(None) };
                    writes.extend(links.iter().map(delete));
                }
                writes.push(delete(&object));
            }
        }
        writes.push(delete(&AnyObject::of(run)?));
        Ok(Some(writes))
    }

    async fn execution_is_over<S: FleetStore>(
        &self,
        store: &S,
        object: &AnyObject,
        now: Moment,
    ) -> Result<bool, ReconcileError> {
        let Ok(execution) = object.typed::<AgentTriggerExecution>() else { return Ok(false) };
        let execution = execution.spec;
        let longest = self.keep.millis().max(MAX_WINDOW_MILLIS);
        if now.millis().saturating_sub(execution.at.millis()) < longest {
            return Ok(false);
        }
        let Some(run) = execution.dispatch_run else { return Ok(true) };
        let place = &object.metadata.namespace;
        Ok(store.get(Kind::AgentDispatchRun, place, &run).await?.is_none())
    }

    async fn delivery_is_over<S: FleetStore>(
        &self,
        store: &S,
        object: &AnyObject,
        now: Moment,
    ) -> Result<bool, ReconcileError> {
        let Ok(delivery) = object.typed::<WebhookDelivery>() else { return Ok(false) };
        if !delivery.status.evaluated || !self.is_old(delivery.spec.received_at, now) {
            return Ok(false);
        }
        for execution in &delivery.status.executions {
            let place = &object.metadata.namespace;
            if store.get(Kind::AgentTriggerExecution, place, execution).await?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Deletes objects in one commit; none if one of them has changed.
async fn gone<S: FleetStore>(
    store: &S,
    writes: Vec<Write>,
    now: Moment,
) -> Result<usize, FleetError> {
    let count = writes.iter().filter(|write| matches!(write, Write::Delete { .. })).count();
    match store.commit(writes, now).await {
        Ok(_) => Ok(count),
        Err(FleetError::Conflict { .. } | FleetError::NotFound { .. }) => Ok(0),
        Err(error) => Err(error),
    }
}

fn delete(object: &AnyObject) -> Write {
    Write::Delete {
        kind: object.kind,
        namespace: object.metadata.namespace.clone(),
        name: object.metadata.name.clone(),
        version: object.metadata.resource_version,
    }
}

fn note(run: &Object<AgentDispatchRun>, now: Moment) -> Write {
    Write::Audit(AuditEntry {
        at: now,
        actor: CONTROL_PLANE_ACTOR.to_owned(),
        event: "AgentDispatchRunForgotten".to_owned(),
        subject: format!("AgentDispatchRun/{}/{}", run.metadata.namespace, run.name()),
        correlation: BTreeMap::new(),
        detail: serde_json::json!({ "phase": run.status.phase, "ended": run.status.completed_at }),
    })
}

fn agents(run: &Object<AgentDispatchRun>) -> BTreeSet<String> {
    run.status.attempts.iter().cloned().chain(run.status.ledger_run_id.clone()).collect()
}

async fn all<S: FleetStore>(
    store: &S,
    mut selection: Selection,
) -> Result<Vec<AnyObject>, FleetError> {
    let mut found = Vec::new();
    loop {
        let page = store.list(&selection).await?;
        found.extend(page.objects);
        if page.next.is_none() {
            return Ok(found);
        }
        selection.after = page.next;
    }
}

async fn belonging<S: FleetStore>(
    store: &S,
    kind: Kind,
    run: &Object<AgentDispatchRun>,
) -> Result<Vec<AnyObject>, FleetError> {
    let namespace = Some(run.metadata.namespace.clone());
    all(store, Selection { namespace, ..Selection::of(kind).field("run", run.name()) }).await
}

async fn is_needed<S: FleetStore>(
    store: &S,
    run: &Object<AgentDispatchRun>,
) -> Result<bool, ReconcileError> {
    let place = &run.metadata.namespace;
    // An unreadable run may be active.
    let at_work = |object: &AnyObject| {
        object.typed::<AgentDispatchRun>().map_or(true, |run| !run.status.phase.is_final())
    };
    if let Some(parent) = &run.spec.parent_run
        && let Some(parent) = store.get(Kind::AgentDispatchRun, place, parent).await?
        && at_work(&parent)
    {
        return Ok(true);
    }
    let children = Selection::of(Kind::AgentDispatchRun).field("parent", run.name());
    for child in all(store, children).await? {
        if at_work(&child) {
            return Ok(true);
        }
    }
    let mut workspaces = Vec::new();
    for name in run.spec.workspace_ref.iter().chain(&run.status.workspace) {
        workspaces.extend(store.get(Kind::AgentWorkspace, place, name).await?);
    }
    for agent in agents(run) {
        let mine = Selection::of(Kind::AgentWorkspace).field("run", agent);
        workspaces.extend(all(store, mine).await?);
    }
    for workspace in workspaces {
        let used = |one: Object<AgentWorkspace>| {
            one.spec.pinned || one.status.state == WorkspaceState::Active
        };
        if workspace.typed::<AgentWorkspace>().map_or(true, used) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The automatic links of a session, which are deleted with it; nothing if a person has linked it, so that it stays.
async fn links_to_go<S: FleetStore>(
    store: &S,
    session: &AnyObject,
) -> Result<Option<Vec<AnyObject>>, ReconcileError> {
    let Ok(session) = session.typed::<AgentSession>() else { return Ok(None) };
    // An unreadable link may be a person's.
    let by_itself = |link: &AnyObject| {
        link.typed::<WorkItemSessionLink>().is_ok_and(|link| match link.spec.link_source {
            LinkSource::AutomationDerived | LinkSource::CreatedFromWorkItem => true,
            LinkSource::LinkedSession | LinkSource::LinkedExistingWorkspace => false,
        })
    };
    let mut found = Vec::new();
    let own = session.name();
    let theirs = Some(session.spec.agent_session_id.as_str()).filter(|name| *name != own);
    for name in std::iter::once(own).chain(theirs) {
        let links = Selection::of(Kind::WorkItemSessionLink).field("session", name);
        found.extend(all(store, links).await?);
    }
    Ok(found.iter().all(by_itself).then_some(found))
}

/// Deletes expired objects.
pub(super) struct RetentionController<S, E, W> {
    store: Arc<S>,
    engine: Arc<E>,
    world: Arc<W>,
}

impl<S, E, W> RetentionController<S, E, W> {
    pub(super) fn new(store: Arc<S>, engine: Arc<E>, world: Arc<W>) -> Self {
        Self { store, engine, world }
    }
}

impl<S: FleetStore, E: AgentEvents, W: Clock + Commits> RetentionController<S, E, W> {
    /// Deletes a batch.
    pub(super) async fn prune(&self, retention: &mut Retention) -> ReconcileSummary {
        let mut summary = ReconcileSummary::default();
        match retention.portion(self.store.as_ref(), self.world.now()).await {
            Ok(pruned) => {
                summary.done += pruned.count;
                for agent in pruned.agents {
                    // The run is deleted: if this fails, its events only use space.
                    let forgotten = self.engine.forget(&agent).await;
                    summary.record(&agent, forgotten.map(|()| false).map_err(ReconcileError::from));
                }
            }
            Err(error) => summary.record("retention", Err(error)),
        }
        self.prune_fetched(retention, &mut summary).await;
        summary
    }
}
