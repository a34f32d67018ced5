//! Workspace actions of people: who may act, when, and what is recorded. Git is behind a port.
//!
//! ```text
//! inspected ─▶ permitted? ─▶ start recorded ─▶ done ─▶ result recorded
//! ```
//!
//! Refusals are recorded too.

mod creation;

use std::sync::Arc;

use bailiwick_resources::{
    AgentWorkspace, AnyObject, Fault, Kind, LinkSource, Metadata, Object, Repository,
    WorkItemWorkspaceLink, WorkspaceState,
};
use serde_json::{Value, json};

use super::{conflict, settled};
use crate::controllers::ReconcileError;
use crate::controllers::audit_log::{Correlation, subject};
use crate::controllers::forge_access::ForgeAccess;
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::workspace_controller::{
    REMOVAL_REASON, RETIREMENT_ERROR, WorkspaceController, place_of,
};
use crate::ports::{
    ActionError, AgentPresence, Caller, Clock, Commits, Forges, ObjectStore, SecretStore,
    Selection, Target, TokenScope, WorkspaceAnswer, WorkspaceError, WorkspaceOperation,
    WorkspaceReport, WorkspaceRequest, WorkspaceVerb, Worktrees, Write,
};
use crate::workspaces::{permit, state, workspace_link};

/// How long notes may be.
const MAX_NOTES_BYTES: usize = 16 * 1024;

/// Workspaces that people change.
pub(super) struct WorkspaceApi<S, E, W> {
    store: Arc<S>,
    world: Arc<W>,
    forges: Arc<ForgeAccess<S, W>>,
    workspaces: Arc<WorkspaceController<S, E, W>>,
}

impl<S, E, W> WorkspaceApi<S, E, W> {
    pub(super) fn new(
        store: Arc<S>,
        world: Arc<W>,
        forges: Arc<ForgeAccess<S, W>>,
        workspaces: Arc<WorkspaceController<S, E, W>>,
    ) -> Self {
        Self { store, world, forges, workspaces }
    }
}

impl<S: ObjectStore + SecretStore, E: AgentPresence, W: Clock + Forges + Commits + Worktrees>
    WorkspaceApi<S, E, W>
{
    pub(super) async fn act_on_named_workspace(
        &self,
        caller: &Caller,
        namespace: &str,
        workspace: Option<&str>,
        request: WorkspaceRequest,
    ) -> Result<WorkspaceAnswer, ActionError> {
        if caller.scope < TokenScope::Operator {
            let message = "scope `viewer` cannot modify workspaces".to_owned();
            return Err(ActionError::Denied { message, reasons: Vec::new() });
        }
        match (request.action, workspace) {
            (WorkspaceVerb::Provision, None) => self.provision(caller, namespace, request).await,
            (WorkspaceVerb::LinkExisting, None) => self.link(caller, namespace, request).await,
            (WorkspaceVerb::Provision | WorkspaceVerb::LinkExisting, Some(_)) => {
                Err(fault("action", "a new workspace is named by `name`"))
            }
            (_, None) => Err(fault("name", "say which workspace")),
            (verb, Some(name)) => {
                let target = Target { namespace: namespace.to_owned(), name: name.to_owned() };
                self.act_on_known_workspace(caller, &target, verb, &request).await
            }
        }
    }

    /// The named workspace, if it has the expected version.
    async fn as_expected(
        &self,
        target: &Target,
        request: &WorkspaceRequest,
    ) -> Result<Object<AgentWorkspace>, ActionError> {
        let known = self.store.named::<AgentWorkspace>(target).await?;
        let version = known.metadata.resource_version;
        if request.expected_version.is_some_and(|wanted| wanted != version) {
            let message = format!("{} is of version {version}; look at it again", target.name);
            return Err(conflict("StaleVersion", message));
        }
        Ok(known)
    }

    async fn act_on_known_workspace(
        &self,
        caller: &Caller,
        target: &Target,
        verb: WorkspaceVerb,
        request: &WorkspaceRequest,
    ) -> Result<WorkspaceAnswer, ActionError> {
        match verb {
            WorkspaceVerb::Pin | WorkspaceVerb::Unpin | WorkspaceVerb::NotesSave => {
                settled(|| self.write_about(caller, target, request)).await
            }
            WorkspaceVerb::Unlink => settled(|| self.unlink(caller, target, request)).await,
            // These change files, so they are not repeated after a conflict.
            WorkspaceVerb::Provision
            | WorkspaceVerb::LinkExisting
            | WorkspaceVerb::Archive
            | WorkspaceVerb::Cleanup
            | WorkspaceVerb::Recover
            | WorkspaceVerb::RebaseStart
            | WorkspaceVerb::RebaseAutoResolve
            | WorkspaceVerb::RebaseOpenInEditor
            | WorkspaceVerb::RebaseMarkResolved
            | WorkspaceVerb::RebaseAbort => {
                let workspace = self.as_expected(target, request).await?;
                let done = self.change_files(caller, &workspace, request).await;
                if let Err(ActionError::Conflict { code, message }) = &done
                    && code == REFUSED
                {
                    self.audit_refusal(caller, &workspace, request, message).await?;
                }
                done
            }
        }
    }

    /// Pins a workspace or saves notes.
    async fn write_about(
        &self,
        caller: &Caller,
        target: &Target,
        request: &WorkspaceRequest,
    ) -> Result<WorkspaceAnswer, ActionError> {
        let mut workspace = self.as_expected(target, request).await?;
        let before = workspace.spec.clone();
        let said = if request.action == WorkspaceVerb::NotesSave {
            workspace.spec.notes = notes(request)?;
            "noted"
        } else {
            workspace.spec.pinned = request.action == WorkspaceVerb::Pin;
            let kept = "pinned: it is kept until it is unpinned";
            if workspace.spec.pinned { kept } else { "not pinned" }
        };
        if workspace.spec != before {
            let writes = vec![
                Write::Replace(AnyObject::of(&workspace).map_err(ReconcileError::from)?),
                audit_line(caller, &workspace, request, "AgentWorkspaceActionDone", json!({})),
            ];
            self.store.commit(writes, caller.at).await?;
        }
        Ok(answer(&workspace, said.to_owned()))
    }

    /// Performs an action on the files of a workspace.
    async fn change_files(
        &self,
        caller: &Caller,
        workspace: &Object<AgentWorkspace>,
        request: &WorkspaceRequest,
    ) -> Result<WorkspaceAnswer, ActionError> {
        let verb = request.action;
        let repository = self.store.repository(&workspace.spec.repository).await?;
        let mut known = workspace.clone();
        if let (WorkspaceVerb::RebaseStart, Some(onto)) = (verb, &request.reference) {
            known.spec.target_branch = onto.strip_prefix("refs/heads/").unwrap_or(onto).to_owned();
        }
        // The current state decides, not the recorded one.
        let seen = self.work(&repository, &known, WorkspaceOperation::Look).await?;
        known.status = self.workspaces.observed_status(&known, &seen).await?;
        permit(verb, &known.spec, &known.status)
            .map_err(|refusal| conflict(REFUSED, refusal.to_string()))?;
        let Some(operation) = operation(verb, request.discard_ignored) else {
            let mut shown = answer(&known, "these files have conflicts".to_owned());
            shown.files = conflicting_paths(&known, &seen);
            return Ok(shown);
        };
        let begins =
            audit_line(caller, &known, request, "AgentWorkspaceActionRequested", json!({}));
        let away = matches!(verb, WorkspaceVerb::Archive | WorkspaceVerb::Cleanup);
        let mut begun = if away {
            self.workspaces.begin_to_put_away(&known, verb.as_str(), vec![begins]).await?
        } else {
            let writes = match known.spec == workspace.spec {
                true => vec![begins],
                false => {
                    vec![
                        Write::Replace(AnyObject::of(&known).map_err(ReconcileError::from)?),
                        begins,
                    ]
                }
            };
            let written = self.store.commit(writes, caller.at).await?.objects;
            if let Some(now) = written.first() {
                known.metadata.resource_version = now.metadata.resource_version;
            }
            known.clone()
        };
        let seen = match self.work(&repository, &begun, operation).await {
            Ok(seen) => seen,
            Err(error) => {
                self.restore_record(&begun, away, caller).await?;
                return Err(error);
            }
        };
        begun.status = self.workspaces.observed_status(&begun, &seen).await?;
        self.record_done(caller, begun, request, seen).await
    }

    /// Unmarks a workspace whose files were not removed after all.
    async fn restore_record(
        &self,
        begun: &Object<AgentWorkspace>,
        away: bool,
        caller: &Caller,
    ) -> Result<(), ActionError> {
        if !away || !self.world.has_files(&begun.spec.workspace_path) {
            return Ok(());
        }
        let mut now = self.read_again(begun).await?;
        now.metadata.annotations.remove(REMOVAL_REASON);
        let writes = vec![Write::Replace(AnyObject::of(&now).map_err(ReconcileError::from)?)];
        self.store.commit(writes, caller.at).await?;
        Ok(())
    }

    /// Records the result of an action.
    async fn record_done(
        &self,
        caller: &Caller,
        mut workspace: Object<AgentWorkspace>,
        request: &WorkspaceRequest,
        seen: WorkspaceReport,
    ) -> Result<WorkspaceAnswer, ActionError> {
        let verb = request.action;
        let detail = json!({ "kept": seen.kept, "head": seen.git.head, "said": seen.said });
        let line = audit_line(caller, &workspace, request, "AgentWorkspaceActionDone", detail);
        let mut writes = Vec::new();
        if verb == WorkspaceVerb::Cleanup {
            workspace.metadata.resource_version = 0;
            writes.extend(self.forgotten(&workspace).await?);
            workspace.status.state = WorkspaceState::Archived;
        } else {
            if verb == WorkspaceVerb::Recover {
                let mut now = self.read_again(&workspace).await?;
                now.metadata.annotations.remove(REMOVAL_REASON);
                now.metadata.annotations.remove(RETIREMENT_ERROR);
                writes.push(Write::Replace(AnyObject::of(&now).map_err(ReconcileError::from)?));
                // Its retention starts again.
                workspace.status.last_used_at = Some(caller.at);
                workspace.status.state = state(false, &seen.git, false);
            }
            if let (WorkspaceVerb::RebaseStart, Some(rebase)) = (verb, &mut workspace.status.rebase)
            {
                rebase.attempt_count = rebase.attempt_count.saturating_add(1);
            }
            // A controller may have updated it meanwhile; this status is newer.
            workspace.metadata.resource_version = 0;
            writes.push(Write::Status(AnyObject::of(&workspace).map_err(ReconcileError::from)?));
        }
        writes.push(line);
        self.store.commit(writes, caller.at).await?;
        let files = conflicting_paths(&workspace, &seen);
        Ok(WorkspaceAnswer { files, kept: seen.kept, ..answer(&workspace, seen.said) })
    }

    async fn read_again(
        &self,
        workspace: &Object<AgentWorkspace>,
    ) -> Result<Object<AgentWorkspace>, ActionError> {
        let Metadata { namespace, name, .. } = workspace.metadata.clone();
        self.store.named::<AgentWorkspace>(&Target { namespace, name }).await
    }

    /// The writes that delete a record and its links.
    async fn forgotten(
        &self,
        workspace: &Object<AgentWorkspace>,
    ) -> Result<Vec<Write>, ActionError> {
        let Metadata { namespace, name, resource_version, .. } = workspace.metadata.clone();
        let kind = Kind::AgentWorkspace;
        let selection =
            Selection::of(Kind::WorkItemWorkspaceLink).field("workspace", name.as_str());
        let mut writes = vec![Write::Delete { kind, namespace, name, version: resource_version }];
        for link in self.store.all(selection).await? {
            let Metadata { namespace, name, resource_version, .. } = link.metadata;
            let version = resource_version;
            writes.push(Write::Delete { kind: link.kind, namespace, name, version });
        }
        Ok(writes)
    }

    /// Unlinks a work item, or a worktree of a person.
    async fn unlink(
        &self,
        caller: &Caller,
        target: &Target,
        request: &WorkspaceRequest,
    ) -> Result<WorkspaceAnswer, ActionError> {
        let workspace = self.as_expected(target, request).await?;
        let line = audit_line(caller, &workspace, request, "AgentWorkspaceActionDone", json!({}));
        if let Some(item) = &request.work_item {
            let by = (LinkSource::LinkedExistingWorkspace, caller.actor.as_str());
            let link = workspace_link(&workspace.metadata, "", item.clone(), by);
            let target = Target {
                namespace: workspace.metadata.namespace.clone(),
                name: link.name().to_owned(),
            };
            let said = match self.store.named::<WorkItemWorkspaceLink>(&target).await {
                // There is nothing to do.
                Err(ActionError::NotFound(_)) => "they were not joined",
                Err(error) => return Err(error),
                Ok(link) => {
                    let Target { namespace, name } = target;
                    let version = link.metadata.resource_version;
                    let kind = Kind::WorkItemWorkspaceLink;
                    let writes = vec![Write::Delete { kind, namespace, name, version }, line];
                    self.store.commit(writes, caller.at).await?;
                    "parted"
                }
            };
            return Ok(answer(&workspace, said.to_owned()));
        }
        let refused = if self.workspaces.is_at_work(&workspace).await? {
            Some("unlink is refused: a run uses it; wait for the run, or cancel it")
        } else if self.is_ours(&workspace.spec.workspace_path) {
            Some("unlink is refused: it was made here; archive it, or clean it up")
        } else {
            None
        };
        if let Some(message) = refused {
            self.audit_refusal(caller, &workspace, request, message).await?;
            return Err(conflict(REFUSED, message));
        }
        let mut writes = self.forgotten(&workspace).await?;
        writes.push(line);
        self.store.commit(writes, caller.at).await?;
        Ok(answer(&workspace, "forgotten; its files are where they were".to_owned()))
    }

    /// Whether a directory was created by the control plane.
    fn is_ours(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        self.world.workspace_path(name).is_some_and(|ours| ours == path)
    }

    async fn work(
        &self,
        repository: &Object<Repository>,
        workspace: &Object<AgentWorkspace>,
        operation: WorkspaceOperation,
    ) -> Result<WorkspaceReport, ActionError> {
        let place = place_of(&workspace.spec);
        self.world.work_on(&repository.spec, &place, operation).await.map_err(action_error)
    }

    async fn audit_refusal(
        &self,
        caller: &Caller,
        workspace: &Object<AgentWorkspace>,
        request: &WorkspaceRequest,
        why: &str,
    ) -> Result<(), ActionError> {
        let detail = json!({ "refused": why });
        let line = audit_line(caller, workspace, request, "AgentWorkspaceActionRefused", detail);
        self.store.commit(vec![line], caller.at).await?;
        Ok(())
    }
}

/// The code of a refused action.
const REFUSED: &str = "WorkspaceRefused";

fn action_error(trouble: WorkspaceError) -> ActionError {
    match trouble {
        refused @ WorkspaceError::Refused { .. } => conflict(REFUSED, refused.to_string()),
        WorkspaceError::Failed(why) => ActionError::Unavailable(why),
    }
}

fn fault(field: &str, message: &str) -> ActionError {
    ActionError::Invalid(vec![Fault::new(field, message)])
}

fn notes(request: &WorkspaceRequest) -> Result<String, ActionError> {
    match &request.notes {
        None => Err(fault("notes", "say what is to be noted; an empty text clears them")),
        Some(notes) if notes.len() > MAX_NOTES_BYTES => {
            Err(fault("notes", &format!("they are longer than {MAX_NOTES_BYTES} bytes")))
        }
        Some(notes) => Ok(notes.clone()),
    }
}

/// The git operation of a verb; nothing where reading is enough.
fn operation(verb: WorkspaceVerb, discard_ignored: bool) -> Option<WorkspaceOperation> {
    match verb {
        WorkspaceVerb::Archive => Some(WorkspaceOperation::Archive { discard_ignored }),
        WorkspaceVerb::Cleanup => Some(WorkspaceOperation::Cleanup { discard_ignored }),
        WorkspaceVerb::Recover => Some(WorkspaceOperation::Recover),
        WorkspaceVerb::RebaseStart => Some(WorkspaceOperation::RebaseStart),
        WorkspaceVerb::RebaseAutoResolve => Some(WorkspaceOperation::RebaseAutoResolve),
        WorkspaceVerb::RebaseMarkResolved => Some(WorkspaceOperation::RebaseMarkResolved),
        WorkspaceVerb::RebaseAbort => Some(WorkspaceOperation::RebaseAbort),
        WorkspaceVerb::RebaseOpenInEditor
        | WorkspaceVerb::Provision
        | WorkspaceVerb::LinkExisting
        | WorkspaceVerb::Unlink
        | WorkspaceVerb::Pin
        | WorkspaceVerb::Unpin
        | WorkspaceVerb::NotesSave => None,
    }
}

fn conflicting_paths(workspace: &Object<AgentWorkspace>, seen: &WorkspaceReport) -> Vec<String> {
    let path = &workspace.spec.workspace_path;
    seen.git.conflicting_files.iter().map(|file| format!("{path}/{file}")).collect()
}

fn audit_line(
    caller: &Caller,
    workspace: &Object<AgentWorkspace>,
    request: &WorkspaceRequest,
    event: &str,
    mut detail: Value,
) -> Write {
    if let Some(detail) = detail.as_object_mut() {
        detail.insert("verb".to_owned(), json!(request.action));
        if !request.reason.is_empty() {
            detail.insert("reason".to_owned(), json!(request.reason));
        }
    }
    Correlation::of_workspace(workspace).line_of(caller, event, subject(workspace), detail)
}

fn answer(workspace: &Object<AgentWorkspace>, message: String) -> WorkspaceAnswer {
    WorkspaceAnswer {
        accepted: true,
        workspace: workspace.name().to_owned(),
        state: workspace.status.state,
        rebase: workspace.status.rebase.as_ref().map(|rebase| rebase.state),
        files: Vec::new(),
        kept: None,
        message,
    }
}
