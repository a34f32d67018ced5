//! Workspace actions of people. Git is elsewhere; here is who may act, when, and what is recorded.
//!
//! ```text
//! inspected ─▶ permitted? ─▶ start recorded ─▶ done ─▶ result recorded
//! ```
//!
//! Refusals are recorded too.

use std::sync::Arc;

use bailiwick_resources::{
    AgentWorkspace, AnyObject, Fault, Kind, LinkSource, Metadata, Object, Ownership, Repository,
    TrustTier, WorkItemKind, WorkItemRef, WorkItemWorkspaceLink, WorkspaceState, is_object_name,
};
use serde_json::{Value, json};

use super::{conflict, settled};
use crate::controllers::ReconcileError;
use crate::controllers::audit_log::{Correlation, subject};
use crate::controllers::forge_access::ForgeAccess;
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::workspace_controller::{KEPT, PUT_AWAY, WorkspaceController, place_of};
use crate::ports::{
    ActionError, AgentPresence, Caller, Clock, Commits, FetchError, Forges, ObjectStore,
    SecretStore, Selection, Target, TokenScope, WorkspaceAnswer, WorkspaceError,
    WorkspaceOperation, WorkspacePlace, WorkspaceReport, WorkspaceRequest, WorkspaceVerb,
    Worktrees, Write,
};
use crate::workspaces::{permit, state, workspace_link, workspace_name};

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
            let message = "whoever may only look changes no workspace".to_owned();
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

    /// The workspace that is meant, if it is as the one who asks has seen it.
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
            // Files are looked at and changed in between: that is done once.
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

    /// Pins it, or writes notes: its files are not touched.
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
            let kept = "pinned: it is kept until somebody unpins it";
            if workspace.spec.pinned { kept } else { "not pinned" }
        };
        // What holds already is not written again.
        if workspace.spec != before {
            let writes = vec![
                Write::Replace(AnyObject::of(&workspace).map_err(ReconcileError::from)?),
                audit_line(caller, &workspace, request, "AgentWorkspaceActionDone", json!({})),
            ];
            self.store.commit(writes, caller.at).await?;
        }
        Ok(answer(&workspace, said.to_owned()))
    }

    /// Everything that reads or changes its files.
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
        // How it stands now, not how it stood when somebody last looked.
        let seen = self.work(&repository, &known, WorkspaceOperation::Look).await?;
        known.status = self.workspaces.standing(&known, &seen).await?;
        permit(verb, &known.spec, &known.status)
            .map_err(|refusal| conflict(REFUSED, refusal.to_string()))?;
        let Some(operation) = operation(verb, request.discard_ignored) else {
            let mut shown = answer(&known, "these wait for somebody".to_owned());
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
        begun.status = self.workspaces.standing(&begun, &seen).await?;
        self.record_done(caller, begun, request, seen).await
    }

    /// A workspace whose files did not go after all.
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
        now.metadata.annotations.remove(PUT_AWAY);
        let writes = vec![Write::Replace(AnyObject::of(&now).map_err(ReconcileError::from)?)];
        self.store.commit(writes, caller.at).await?;
        Ok(())
    }

    /// Writes down how it stands after it.
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
                now.metadata.annotations.remove(PUT_AWAY);
                now.metadata.annotations.remove(KEPT);
                writes.push(Write::Replace(AnyObject::of(&now).map_err(ReconcileError::from)?));
                // It counts from now on how long it is kept.
                workspace.status.last_used_at = Some(caller.at);
                workspace.status.state = state(false, &seen.git, false);
            }
            if let (WorkspaceVerb::RebaseStart, Some(rebase)) = (verb, &mut workspace.status.rebase)
            {
                rebase.attempt_count = rebase.attempt_count.saturating_add(1);
            }
            // A turn may have looked at it meanwhile; what was seen here was seen later.
            workspace.metadata.resource_version = 0;
            writes.push(Write::Status(AnyObject::of(&workspace).map_err(ReconcileError::from)?));
        }
        writes.push(line);
        self.store.commit(writes, caller.at).await?;
        let files = conflicting_paths(&workspace, &seen);
        Ok(WorkspaceAnswer { files, kept: seen.kept, ..answer(&workspace, seen.said) })
    }

    /// The same workspace as it is kept now.
    async fn read_again(
        &self,
        workspace: &Object<AgentWorkspace>,
    ) -> Result<Object<AgentWorkspace>, ActionError> {
        let Metadata { namespace, name, .. } = workspace.metadata.clone();
        self.store.named::<AgentWorkspace>(&Target { namespace, name }).await
    }

    /// A record and its links go; what they were about stays.
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

    /// Parts a work item from it, or forgets a worktree that somebody else has made.
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
                // It is as it was wished to be.
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
            Some("unlink is refused: somebody works in it; wait for the run, or cancel it")
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

    /// Whether a directory is where workspaces are made.
    fn is_ours(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        self.world.workspace_path(name).is_some_and(|ours| ours == path)
    }

    async fn provision(
        &self,
        caller: &Caller,
        namespace: &str,
        request: WorkspaceRequest,
    ) -> Result<WorkspaceAnswer, ActionError> {
        let repository = self.requested_repository(namespace, &request).await?;
        let request = &of_repository(request, &repository);
        let made_up = || workspace_name(&format!("{}\n{}", caller.actor, caller.request));
        let name = named(request)?.unwrap_or_else(made_up);
        let default = format!("refs/heads/{}", repository.spec.default_branch);
        let reference = match &request.reference {
            None => default,
            Some(full) if full.starts_with("refs/") => full.clone(),
            Some(branch) => format!("refs/heads/{branch}"),
        };
        let target = Target { namespace: namespace.to_owned(), name: name.clone() };
        let (workspace, fresh) = match self.store.named::<AgentWorkspace>(&target).await {
            Ok(known) if known.spec.repository == repository.spec.full_name => (known, false),
            Ok(_) => {
                let message = format!("there is a workspace `{name}` of another repository");
                return Err(conflict("NameTaken", message));
            }
            Err(ActionError::NotFound(_)) => {
                (self.to_be_made(&repository, &target, &reference, request)?, true)
            }
            Err(error) => return Err(error),
        };
        if !fresh && workspace.status.state != WorkspaceState::Missing {
            // Twice is once.
            return Ok(answer(&workspace, "it is there already".to_owned()));
        }
        let found = self.forges.fetch_commit(&repository, &reference, None).await;
        let fetch_failed = |fault: FetchError| ActionError::Unavailable(fault.to_string());
        let Some(base) = found.map_err(fetch_failed)? else {
            return Err(ActionError::NotFound(format!("{reference} names no commit")));
        };
        let detail = json!({ "base": base });
        let begins =
            audit_line(caller, &workspace, request, "AgentWorkspaceActionRequested", detail);
        let mut writes = vec![begins];
        if fresh {
            writes.push(Write::Create(AnyObject::of(&workspace).map_err(ReconcileError::from)?));
        }
        writes.extend(self.link_wanting(caller, &workspace, request).await?);
        self.store.commit(writes, caller.at).await?;
        let mut workspace = self.store.named::<AgentWorkspace>(&target).await?;
        match self.work(&repository, &workspace, WorkspaceOperation::Provision { base }).await {
            Ok(seen) => {
                workspace.status = self.workspaces.standing(&workspace, &seen).await?;
                workspace.status.last_used_at = Some(caller.at);
                self.record_done(caller, workspace, request, seen).await
            }
            Err(error) => {
                let mut writes = Vec::new();
                if fresh {
                    writes = self.forgotten(&workspace).await?;
                }
                let detail = json!({ "refused": error.to_string() });
                let event = "AgentWorkspaceActionRefused";
                writes.push(audit_line(caller, &workspace, request, event, detail));
                self.store.commit(writes, caller.at).await?;
                Err(error)
            }
        }
    }

    /// A workspace as it is recorded before it is made.
    fn to_be_made(
        &self,
        repository: &Object<Repository>,
        target: &Target,
        reference: &str,
        request: &WorkspaceRequest,
    ) -> Result<Object<AgentWorkspace>, ActionError> {
        let Some(path) = self.world.workspace_path(&target.name) else {
            return Err(ActionError::Unavailable("no workspaces are made here".to_owned()));
        };
        // What is not one of the repository's own branches or tags may be anybody's.
        let own = reference.starts_with("refs/heads/") || reference.starts_with("refs/tags/");
        let default = repository.spec.default_branch.as_str();
        let spec = AgentWorkspace {
            repository: repository.spec.full_name.clone(),
            workspace_path: path,
            ownership: owner(request.work_item.as_ref()),
            branch: format!("workspace/{}", target.name),
            target_branch: reference.strip_prefix("refs/heads/").unwrap_or(default).to_owned(),
            trust_tier: if own { repository.spec.trust_tier } else { TrustTier::Untrusted },
            policy: None,
            work_item: request.work_item.clone(),
            pinned: false,
            notes: request.notes.clone().unwrap_or_default(),
            run: None,
        };
        let Target { namespace, name } = target.clone();
        let mut workspace = Object::new(Metadata { namespace, ..Metadata::named(name) }, spec);
        workspace.status.state = WorkspaceState::Missing;
        workspace.status.git.missing = true;
        Ok(workspace)
    }

    async fn link(
        &self,
        caller: &Caller,
        namespace: &str,
        request: WorkspaceRequest,
    ) -> Result<WorkspaceAnswer, ActionError> {
        let repository = self.requested_repository(namespace, &request).await?;
        let request = &of_repository(request, &repository);
        let Some(path) = request.path.clone().filter(|path| path.starts_with('/')) else {
            return Err(fault("path", "say which worktree, by a path that begins with /"));
        };
        let given = request.reference.as_deref().unwrap_or(&repository.spec.default_branch);
        let target = given.strip_prefix("refs/heads/").unwrap_or(given).to_owned();
        let place = WorkspacePlace { path, branch: String::new(), target: target.clone() };
        let seen = self.world.work_on(&repository.spec, &place, WorkspaceOperation::Link).await;
        let seen = seen.map_err(action_error)?;
        let full = repository.spec.full_name.as_str();
        let selection = Selection::of(Kind::AgentWorkspace).field("repository", full);
        let all = self.store.all_typed::<AgentWorkspace>(selection).await?;
        let known = all.into_iter().find(|known| known.spec.workspace_path == seen.path);
        if let Some(known) = known {
            return self.link_again(caller, known, request).await;
        }
        let name = named(request)?.unwrap_or_else(|| workspace_name(&seen.path));
        // The worktree of an agent that the ledger knows is that agent's.
        let directory = seen.path.rsplit('/').next().unwrap_or_default();
        let agent = match self.is_ours(&seen.path) {
            true => self.world.worktree(directory).await.map_err(ActionError::Unavailable)?,
            false => None,
        };
        let spec = AgentWorkspace {
            repository: repository.spec.full_name.clone(),
            workspace_path: seen.path.clone(),
            ownership: Ownership::Host,
            branch: seen.git.branch.clone(),
            target_branch: target,
            trust_tier: repository.spec.trust_tier,
            policy: None,
            work_item: request.work_item.clone(),
            pinned: false,
            notes: request.notes.clone().unwrap_or_default(),
            run: agent.map(|_| directory.to_owned()),
        };
        let metadata = Metadata { namespace: namespace.to_owned(), ..Metadata::named(name) };
        let mut workspace = Object::new(metadata, spec);
        workspace.status = self.workspaces.standing(&workspace, &seen).await?;
        workspace.status.last_used_at = Some(caller.at);
        let mut writes =
            vec![Write::Create(AnyObject::of(&workspace).map_err(ReconcileError::from)?)];
        writes.extend(self.link_wanting(caller, &workspace, request).await?);
        let detail = json!({ "path": seen.path });
        writes.push(audit_line(caller, &workspace, request, "AgentWorkspaceActionDone", detail));
        self.store.commit(writes, caller.at).await?;
        Ok(answer(&workspace, format!("linked, on the branch {}", seen.git.branch)))
    }

    /// A worktree that is a workspace already: only the work item may be wanting.
    async fn link_again(
        &self,
        caller: &Caller,
        known: Object<AgentWorkspace>,
        request: &WorkspaceRequest,
    ) -> Result<WorkspaceAnswer, ActionError> {
        if request.name.as_deref().is_some_and(|name| name != known.name()) {
            let message = format!("it is the workspace `{}` already", known.name());
            return Err(conflict("AlreadyLinked", message));
        }
        let mut writes: Vec<Write> =
            self.link_wanting(caller, &known, request).await?.into_iter().collect();
        if writes.is_empty() {
            return Ok(answer(&known, "it is linked already".to_owned()));
        }
        writes.push(audit_line(caller, &known, request, "AgentWorkspaceActionDone", json!({})));
        self.store.commit(writes, caller.at).await?;
        Ok(answer(&known, "joined with its work item".to_owned()))
    }

    /// The link to the work item that was named, if it is wanting.
    async fn link_wanting(
        &self,
        caller: &Caller,
        workspace: &Object<AgentWorkspace>,
        request: &WorkspaceRequest,
    ) -> Result<Option<Write>, ActionError> {
        let Some(item) = request.work_item.clone() else { return Ok(None) };
        let how = match request.action == WorkspaceVerb::Provision {
            true => LinkSource::CreatedFromWorkItem,
            false => LinkSource::LinkedExistingWorkspace,
        };
        let by = (how, caller.actor.as_str());
        let mut link = workspace_link(&workspace.metadata, &workspace.spec.branch, item, by);
        link.status.last_activity_at = Some(caller.at);
        let namespace = &workspace.metadata.namespace;
        let there = self.store.get(Kind::WorkItemWorkspaceLink, namespace, link.name()).await?;
        match there {
            Some(_) => Ok(None),
            None => Ok(Some(Write::Create(AnyObject::of(&link).map_err(ReconcileError::from)?))),
        }
    }

    /// The repository that a request names, by the name of its object or its own.
    async fn requested_repository(
        &self,
        namespace: &str,
        request: &WorkspaceRequest,
    ) -> Result<Object<Repository>, ActionError> {
        let Some(name) = &request.repository else {
            return Err(fault("repository", "say which repository"));
        };
        let target = Target { namespace: namespace.to_owned(), name: name.clone() };
        match self.store.named::<Repository>(&target).await {
            Err(ActionError::NotFound(why)) => {
                self.store.repository(name).await.map_err(|_| ActionError::NotFound(why))
            }
            found => found,
        }
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

/// The code of what would not be right.
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

/// A work item is called by its repository's own name, however the request calls that.
fn of_repository(
    mut request: WorkspaceRequest,
    repository: &Object<Repository>,
) -> WorkspaceRequest {
    if let Some(item) = &mut request.work_item
        && (item.repository.is_empty() || item.repository == repository.name())
    {
        item.repository.clone_from(&repository.spec.full_name);
    }
    request
}

/// The name that a new one is given. It becomes a directory and part of a branch.
fn named(request: &WorkspaceRequest) -> Result<Option<String>, ActionError> {
    match &request.name {
        Some(name) if !is_object_name(name) || name.contains('.') => {
            Err(fault("name", "use a-z, 0-9 and `-`"))
        }
        name => Ok(name.clone()),
    }
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

fn owner(item: Option<&WorkItemRef>) -> Ownership {
    match item.map(|item| item.kind) {
        None => Ownership::Host,
        Some(WorkItemKind::Issue) => Ownership::Issue,
        Some(WorkItemKind::PullRequest) => Ownership::PrRepair,
        Some(WorkItemKind::CheckFailure) => Ownership::PipelineFailure,
        Some(WorkItemKind::ReleaseTask | WorkItemKind::Card) => Ownership::Project,
    }
}

/// What git has to do for a verb; nothing where looking is enough.
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
