//! The workspaces of runs: recorded once there are files, linked to work items, inspected when a run has
//! ended, archived when their retention is over.
//!
//! This happens before runs are followed, so that a started run is recorded before it can end.

use std::sync::Arc;

use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AgentSession, AgentWorkspace, AgentWorkspacePolicy,
    AgentWorkspaceStatus, AnyObject, Kind, LinkSource, LinkStatus, Object, Resource, RunPhase,
    WorkItemKind, WorkItemRef, WorkItemSessionLink, WorkItemWorkspaceLink, WorkspaceState,
};
use serde_json::json;

use super::audit_log::{Correlation, subject};
use super::launch::agent_of;
use super::objects::ObjectQueries as _;
use super::run_controller::metadata_beside;
use super::summary::Task;
use super::{CONTROL_PLANE_ACTOR, ReconcileError, ReconcileSummary};
use crate::ports::{
    AgentPresence, Clock, ObjectStore, RunWorktree, Selection, WorkspaceError, WorkspaceOperation,
    WorkspacePlace, WorkspaceReport, WorktreeOrigin, Worktrees, Write,
};
use crate::workspaces::{
    is_due, made_for, rebase_surface, session_link, state, work_items, workspace_link,
    workspace_name,
};

/// The annotation of a workspace whose files are being removed: why.
pub(super) const REMOVAL_REASON: &str = "bailiwick.dev/put-away";
/// The annotation of a workspace that could not be retired: why.
pub(super) const RETIREMENT_ERROR: &str = "bailiwick.dev/kept-because";

/// The annotation of a workspace with the files of another: its name.
pub(super) const TAKEN_OVER: &str = "bailiwick.dev/taken-over-from";
/// The annotation of a new workspace where that of the work item could not be reused: why.
pub(super) const NOT_REUSED: &str = "bailiwick.dev/not-reused-because";

/// Records, inspects and retires workspaces.
pub(super) struct WorkspaceController<S, E, W> {
    store: Arc<S>,
    engine: Arc<E>,
    world: Arc<W>,
}

impl<S, E, W> WorkspaceController<S, E, W> {
    pub(super) fn new(store: Arc<S>, engine: Arc<E>, world: Arc<W>) -> Self {
        Self { store, engine, world }
    }
}

impl<S: ObjectStore, E: AgentPresence, W: Clock + Worktrees> WorkspaceController<S, E, W> {
    /// Records the workspaces of active runs, and updates recorded ones.
    pub(super) async fn reconcile_workspaces(self: &Arc<Self>, summary: &mut ReconcileSummary) {
        for phase in [RunPhase::Running, RunPhase::WaitingForApproval] {
            let selection = Selection::of(Kind::AgentDispatchRun).field("status", phase.as_str());
            let runs = match self.store.all_typed::<AgentDispatchRun>(selection).await {
                Ok(runs) => runs,
                Err(error) => return summary.record("workspaces", Err(error)),
            };
            for run in runs.into_iter().filter(|run| run.status.started_at.is_some()) {
                let name = run.name().to_owned();
                if !summary.is_backing_off(Task::RecordWorkspace, &name) {
                    let this = Arc::clone(self);
                    let work = Box::pin(async move { this.record_workspace(&run).await });
                    summary.run(&self.world, Task::RecordWorkspace, &name, work).await;
                }
            }
        }
        for state in ["active", "idle", "missing"] {
            let selection = Selection::of(Kind::AgentWorkspace).field("state", state);
            let known = match self.store.all_typed::<AgentWorkspace>(selection).await {
                Ok(known) => known,
                Err(error) => return summary.record("workspaces", Err(error)),
            };
            for workspace in known {
                let name = workspace.name().to_owned();
                if !summary.is_backing_off(Task::Workspace, &name) {
                    let this = Arc::clone(self);
                    let work = Box::pin(async move { this.look_after(workspace).await });
                    summary.run(&self.world, Task::Workspace, &name, work).await;
                }
            }
        }
    }

    /// Records the workspace of a run that has a worktree, with its links.
    async fn record_workspace(
        &self,
        run: &Object<AgentDispatchRun>,
    ) -> Result<bool, ReconcileError> {
        let Some(last) = run.status.attempts.last() else { return Ok(false) };
        let Some(attempt) = self.store.typed::<AgentDispatchAttempt>(last).await? else {
            return Ok(false);
        };
        let agent = agent_of(&attempt);
        let name = workspace_name(&agent);
        let mut writes = Vec::new();
        let workspace = match self.store.typed::<AgentWorkspace>(&name).await? {
            Some(mut known) => {
                let joined = known.status.runs.iter().any(|one| one == run.name());
                if !joined || known.status.state != WorkspaceState::Active {
                    if !joined {
                        known.status.runs.push(run.name().to_owned());
                    }
                    known.status.state = WorkspaceState::Active;
                    known.status.last_used_at = Some(self.world.now());
                    writes.push(Write::Status(AnyObject::of(&known)?));
                }
                known
            }
            None => {
                let found = self.world.worktree(&agent).await?;
                let Some(found) = found else { return Ok(false) };
                let mut made = self.first_seen(run, &attempt, (name, &found)).await?;
                match &found.origin {
                    WorktreeOrigin::New => {}
                    WorktreeOrigin::NotReused(why) => {
                        made.metadata.annotations.insert(NOT_REUSED.to_owned(), why.clone());
                    }
                    WorktreeOrigin::TakenOver(earlier) => {
                        let earlier = workspace_name(earlier);
                        writes.extend(self.given_to(&earlier, &mut made).await?);
                    }
                }
                writes.push(Write::Create(AnyObject::of(&made)?));
                let detail = json!({
                    "run": run.name(),
                    "agent": agent,
                    "takenOverFrom": made.metadata.annotations.get(TAKEN_OVER),
                    "notReused": made.metadata.annotations.get(NOT_REUSED),
                });
                let joined = Correlation::of_run(run).with("workspace", Some(made.name()));
                let now = self.world.now();
                writes.push(joined.line(now, "AgentWorkspaceRecorded", subject(&made), detail));
                made
            }
        };
        writes.extend(self.links(run, &workspace, RunChange::AtWork).await?);
        if run.status.workspace.as_deref() != Some(workspace.name()) {
            let mut named = run.clone();
            named.status.workspace = Some(workspace.name().to_owned());
            writes.push(Write::Status(AnyObject::of(&named)?));
        }
        if writes.is_empty() {
            return Ok(false);
        }
        self.store.commit(writes, self.world.now()).await?;
        Ok(true)
    }

    /// The writes that record that `made` now owns the files of a workspace.
    async fn given_to(
        &self,
        earlier: &str,
        made: &mut Object<AgentWorkspace>,
    ) -> Result<Vec<Write>, ReconcileError> {
        made.metadata.annotations.insert(TAKEN_OVER.to_owned(), earlier.to_owned());
        let Some(mut known) = self.store.typed::<AgentWorkspace>(earlier).await? else {
            return Ok(Vec::new());
        };
        made.spec.notes.clone_from(&known.spec.notes);
        let why = format!("its files were taken over by {}", made.name());
        known.metadata.annotations.insert(REMOVAL_REASON.to_owned(), why);
        let replaced = Write::Replace(AnyObject::of(&known)?);
        // The write before has changed the version.
        known.metadata.resource_version = 0;
        known.status.state = WorkspaceState::Archived;
        known.status.git.missing = true;
        known.status.rebase = None;
        Ok(vec![replaced, Write::Status(AnyObject::of(&known)?)])
    }

    async fn first_seen(
        &self,
        run: &Object<AgentDispatchRun>,
        attempt: &Object<AgentDispatchAttempt>,
        (name, found): (String, &RunWorktree),
    ) -> Result<Object<AgentWorkspace>, ReconcileError> {
        let repository = self.store.repository(&run.spec.repository).await?;
        let snapshot = &attempt.spec.agent_stack_snapshot.objects;
        let policy = snapshot.iter().find(|one| one.object.kind == Kind::AgentWorkspacePolicy);
        let default = || repository.spec.default_branch.clone();
        let spec = AgentWorkspace {
            repository: run.spec.repository.clone(),
            workspace_path: found.path.clone(),
            ownership: made_for(&run.spec),
            branch: found.branch.clone(),
            target_branch: run.spec.branch.clone().unwrap_or_else(default),
            trust_tier: run.spec.trust_tier,
            policy: policy.map(|one| one.object.name.clone()),
            work_item: work_items(&run.spec).into_iter().next(),
            pinned: false,
            notes: String::new(),
            run: Some(agent_of(attempt)),
        };
        let mut workspace = Object::new(metadata_beside(&run.metadata, name), spec);
        // Its agent is running: git is read after its end.
        workspace.status.state = WorkspaceState::Active;
        workspace.status.git.branch.clone_from(&workspace.spec.branch);
        workspace.status.git.head.clone_from(&run.spec.sha);
        workspace.status.last_used_at = Some(self.world.now());
        workspace.status.runs.push(run.name().to_owned());
        Ok(workspace)
    }

    /// The writes that link the work items of a run with its workspace and sessions.
    async fn links(
        &self,
        run: &Object<AgentDispatchRun>,
        workspace: &Object<AgentWorkspace>,
        happened: RunChange,
    ) -> Result<Vec<Write>, ReconcileError> {
        let mut items = work_items(&run.spec);
        items.extend(run.status.opened_issue.map(|number| WorkItemRef {
            kind: WorkItemKind::Issue,
            repository: run.spec.repository.clone(),
            id: number.to_string(),
        }));
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let by = match run.spec.trigger_rule {
            Some(_) => LinkSource::AutomationDerived,
            None => LinkSource::CreatedFromWorkItem,
        };
        let whose = run.spec.source_event.actor.as_deref().unwrap_or(CONTROL_PLANE_ACTOR);
        let branch = &workspace.spec.branch;
        let mut writes = Vec::new();
        for item in &items {
            let link = workspace_link(&workspace.metadata, branch, item.clone(), (by, whose));
            writes.extend(self.joined::<WorkItemWorkspaceLink>(link, run, happened).await?);
        }
        let selection = Selection::of(Kind::AgentSession).field("run", run.name());
        for session in self.store.all_typed::<AgentSession>(selection).await? {
            for item in &items {
                let link = session_link(&session.metadata, branch, item.clone(), (by, whose));
                writes.extend(self.joined::<WorkItemSessionLink>(link, run, happened).await?);
            }
        }
        Ok(writes)
    }

    /// The writes that add a run to a link; none if it is already there.
    async fn joined<L: Link>(
        &self,
        mut link: Object<L>,
        run: &Object<AgentDispatchRun>,
        happened: RunChange,
    ) -> Result<Vec<Write>, ReconcileError> {
        let now = Some(self.world.now());
        let Some(mut known) = self.store.typed::<L>(link.name()).await? else {
            link.spec.runs_mut().push(run.name().to_owned());
            link.status.last_activity_at = now;
            return Ok(vec![Write::Create(AnyObject::of(&link)?)]);
        };
        let mut writes = Vec::new();
        let is_new = !known.spec.runs().iter().any(|one| one == run.name());
        if is_new {
            known.spec.runs_mut().push(run.name().to_owned());
            writes.push(Write::Replace(AnyObject::of(&known)?));
            // The write before has changed the version.
            known.metadata.resource_version = 0;
        }
        if is_new || happened == RunChange::Ended {
            known.status.last_activity_at = now;
            writes.push(Write::Status(AnyObject::of(&known)?));
        }
        Ok(writes)
    }

    async fn look_after(&self, workspace: Object<AgentWorkspace>) -> Result<bool, ReconcileError> {
        match workspace.status.state {
            WorkspaceState::Active => {
                if self.is_at_work(&workspace).await? {
                    return Ok(false);
                }
                self.has_ended(workspace).await
            }
            WorkspaceState::Idle if !self.world.has_files(&workspace.spec.workspace_path) => {
                self.looked_at(workspace).await
            }
            WorkspaceState::Idle => self.retire(workspace).await,
            WorkspaceState::Missing if self.world.has_files(&workspace.spec.workspace_path) => {
                self.looked_at(workspace).await
            }
            WorkspaceState::Missing | WorkspaceState::Archived => Ok(false),
        }
    }

    /// Records how a run left its workspace.
    async fn has_ended(&self, workspace: Object<AgentWorkspace>) -> Result<bool, ReconcileError> {
        let mut writes = Vec::new();
        if let Some(name) = workspace.status.runs.last()
            && let Some(run) = self.store.typed::<AgentDispatchRun>(name).await?
        {
            writes = self.links(&run, &workspace, RunChange::Ended).await?;
        }
        let mut next = self.observed_now(&workspace).await?;
        next.status.last_used_at = Some(self.world.now());
        writes.push(Write::Status(AnyObject::of(&next)?));
        self.store.commit(writes, self.world.now()).await?;
        Ok(true)
    }

    async fn looked_at(&self, workspace: Object<AgentWorkspace>) -> Result<bool, ReconcileError> {
        let next = self.observed_now(&workspace).await?;
        if next.status == workspace.status {
            return Ok(false);
        }
        let writes = vec![Write::Status(AnyObject::of(&next)?)];
        self.store.commit(writes, self.world.now()).await?;
        Ok(true)
    }

    async fn observed_now(
        &self,
        workspace: &Object<AgentWorkspace>,
    ) -> Result<Object<AgentWorkspace>, ReconcileError> {
        let repository = self.store.repository(&workspace.spec.repository).await?;
        let place = place_of(&workspace.spec);
        let seen = self.world.work_on(&repository.spec, &place, WorkspaceOperation::Look).await?;
        let mut next = workspace.clone();
        next.status = self.observed_status(workspace, &seen).await?;
        Ok(next)
    }

    /// The status of a workspace, from a report of its files.
    pub(super) async fn observed_status(
        &self,
        workspace: &Object<AgentWorkspace>,
        seen: &WorkspaceReport,
    ) -> Result<AgentWorkspaceStatus, ReconcileError> {
        let before = &workspace.status;
        let at_work = self.is_at_work(workspace).await?;
        let away = workspace.metadata.annotations.contains_key(REMOVAL_REASON);
        let now = state(away, &seen.git, at_work);
        let known = before.rebase.as_ref();
        let settled = known.map(|known| known.resolved_files.iter().chain(&known.unresolved_files));
        let mut resolved: Vec<String> = settled.into_iter().flatten().cloned().collect();
        resolved.retain(|file| !seen.git.conflicting_files.contains(file));
        resolved.sort_unstable();
        resolved.dedup();
        let surface = rebase_surface(
            &workspace.spec.target_branch,
            &seen.git,
            seen.rebasing,
            self.is_verified(workspace).await?,
            known.map_or(0, |known| known.attempt_count),
            resolved,
        );
        Ok(AgentWorkspaceStatus {
            state: now,
            git: seen.git.clone(),
            rebase: (!seen.git.missing).then_some(surface),
            ..before.clone()
        })
    }

    /// Whether an active run uses it, or an agent without a run.
    pub(super) async fn is_at_work(
        &self,
        workspace: &Object<AgentWorkspace>,
    ) -> Result<bool, ReconcileError> {
        let Some(agent) = &workspace.spec.run else { return Ok(false) };
        for run in self.runs_in(workspace).await? {
            if !run.status.phase.is_final() {
                return Ok(true);
            }
        }
        Ok(self.engine.is_running(agent).await?)
    }

    async fn runs_in(
        &self,
        workspace: &Object<AgentWorkspace>,
    ) -> Result<Vec<Object<AgentDispatchRun>>, ReconcileError> {
        let mut runs = Vec::new();
        for name in &workspace.status.runs {
            runs.extend(self.store.typed::<AgentDispatchRun>(name).await?);
        }
        Ok(runs)
    }

    async fn is_verified(
        &self,
        workspace: &Object<AgentWorkspace>,
    ) -> Result<bool, ReconcileError> {
        let runs = self.runs_in(workspace).await?;
        Ok(runs.last().is_some_and(|run| run.status.phase == RunPhase::Succeeded))
    }

    /// Archives a workspace whose retention is over. One that cannot be archived gets an annotation with the reason.
    async fn retire(&self, workspace: Object<AgentWorkspace>) -> Result<bool, ReconcileError> {
        let Some(policy) = &workspace.spec.policy else { return Ok(false) };
        if workspace.metadata.annotations.contains_key(RETIREMENT_ERROR) {
            return Ok(false);
        }
        let Some(policy) = self.store.typed::<AgentWorkspacePolicy>(policy).await? else {
            return Ok(false);
        };
        let now = self.world.now();
        if !is_due(&policy.spec, &workspace.spec, &workspace.status, now) {
            return Ok(false);
        }
        // The current state decides: a person may have used it again.
        let fresh = self.observed_now(&workspace).await?;
        if !is_due(&policy.spec, &fresh.spec, &fresh.status, now) {
            return self.looked_at(workspace).await;
        }
        let repository = self.store.repository(&workspace.spec.repository).await?;
        let mut begun = self.begin_to_put_away(&workspace, "retention", Vec::new()).await?;
        let joined = Correlation::of_workspace(&workspace);
        let place = place_of(&workspace.spec);
        let operation = WorkspaceOperation::Archive { discard_ignored: false };
        let writes = match self.world.work_on(&repository.spec, &place, operation).await {
            Ok(seen) => {
                begun.status = self.observed_status(&begun, &seen).await?;
                let detail = json!({ "policy": policy.name(), "kept": seen.kept });
                vec![
                    Write::Status(AnyObject::of(&begun)?),
                    joined.line(now, "AgentWorkspaceRetired", subject(&begun), detail),
                ]
            }
            Err(failed @ WorkspaceError::Failed(_)) => return Err(failed.into()),
            Err(refused @ WorkspaceError::Refused { .. }) => {
                let annotations = &mut begun.metadata.annotations;
                annotations.remove(REMOVAL_REASON);
                annotations.insert(RETIREMENT_ERROR.to_owned(), refused.to_string());
                let detail = json!({ "policy": policy.name(), "reason": refused.to_string() });
                vec![
                    Write::Replace(AnyObject::of(&begun)?),
                    joined.line(now, "AgentWorkspaceKept", subject(&begun), detail),
                ]
            }
        };
        self.store.commit(writes, now).await?;
        Ok(true)
    }

    /// Records that the files of a workspace will be removed, before they are: after a kill the record explains why
    /// they are missing.
    pub(super) async fn begin_to_put_away(
        &self,
        workspace: &Object<AgentWorkspace>,
        why: &str,
        mut writes: Vec<Write>,
    ) -> Result<Object<AgentWorkspace>, ReconcileError> {
        let mut begun = workspace.clone();
        begun.metadata.annotations.remove(RETIREMENT_ERROR);
        begun.metadata.annotations.insert(REMOVAL_REASON.to_owned(), why.to_owned());
        writes.insert(0, Write::Replace(AnyObject::of(&begun)?));
        let applied = self.store.commit(writes, self.world.now()).await?;
        let version = applied.objects.first().map_or(0, |one| one.metadata.resource_version);
        begun.metadata.resource_version = version;
        Ok(begun)
    }
}

pub(super) fn place_of(workspace: &AgentWorkspace) -> WorkspacePlace {
    WorkspacePlace {
        path: workspace.workspace_path.clone(),
        branch: workspace.branch.clone(),
        target: workspace.target_branch.clone(),
    }
}

/// Why the links of a run are updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunChange {
    /// It is running.
    AtWork,
    /// It has just ended.
    Ended,
}

/// A link that names runs.
trait Link: Resource<Status = LinkStatus> {
    fn runs(&self) -> &[String];
    fn runs_mut(&mut self) -> &mut Vec<String>;
}

impl Link for WorkItemWorkspaceLink {
    fn runs(&self) -> &[String] {
        &self.run_refs
    }

    fn runs_mut(&mut self) -> &mut Vec<String> {
        &mut self.run_refs
    }
}

impl Link for WorkItemSessionLink {
    fn runs(&self) -> &[String] {
        &self.run_refs
    }

    fn runs_mut(&mut self) -> &mut Vec<String> {
        &mut self.run_refs
    }
}
