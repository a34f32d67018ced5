//! New workspaces: provisioned here, or linked worktrees of people.

use bailiwick_resources::{
    AgentWorkspace, AnyObject, Kind, LinkSource, Metadata, Object, Ownership, Repository,
    TrustTier, WorkItemKind, WorkItemRef, WorkspaceState, is_object_name,
};
use serde_json::json;

use super::{WorkspaceApi, action_error, answer, audit_line, conflict, fault};
use crate::controllers::ReconcileError;
use crate::controllers::objects::ObjectQueries as _;
use crate::ports::{
    ActionError, AgentPresence, Caller, Clock, Commits, FetchError, Forges, ObjectStore,
    SecretStore, Selection, Target, WorkspaceAnswer, WorkspaceOperation, WorkspacePlace,
    WorkspaceRequest, WorkspaceVerb, Worktrees, Write,
};
use crate::workspaces::{workspace_link, workspace_name};

impl<S: ObjectStore + SecretStore, E: AgentPresence, W: Clock + Forges + Commits + Worktrees>
    WorkspaceApi<S, E, W>
{
    pub(super) async fn provision(
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
                (self.planned_workspace(&repository, &target, &reference, request)?, true)
            }
            Err(error) => return Err(error),
        };
        if !fresh && workspace.status.state != WorkspaceState::Missing {
            // The request was repeated.
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
                workspace.status = self.workspaces.observed_status(&workspace, &seen).await?;
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

    /// The record of a workspace before its files exist.
    fn planned_workspace(
        &self,
        repository: &Object<Repository>,
        target: &Target,
        reference: &str,
        request: &WorkspaceRequest,
    ) -> Result<Object<AgentWorkspace>, ActionError> {
        let Some(path) = self.world.workspace_path(&target.name) else {
            return Err(ActionError::Unavailable("no workspaces are made here".to_owned()));
        };
        // Only branches and tags are known to be the repository's own.
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

    pub(super) async fn link(
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
        // A worktree that belongs to an agent of the ledger.
        let directory = seen.path.rsplit('/').next().unwrap_or_default();
        let agent = match self.is_ours(&seen.path) {
            true => {
                let found = self.world.worktree(directory).await;
                found.map_err(|error| ActionError::Unavailable(error.to_string()))?
            }
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
        workspace.status = self.workspaces.observed_status(&workspace, &seen).await?;
        workspace.status.last_used_at = Some(caller.at);
        let mut writes =
            vec![Write::Create(AnyObject::of(&workspace).map_err(ReconcileError::from)?)];
        writes.extend(self.link_wanting(caller, &workspace, request).await?);
        let detail = json!({ "path": seen.path });
        writes.push(audit_line(caller, &workspace, request, "AgentWorkspaceActionDone", detail));
        self.store.commit(writes, caller.at).await?;
        Ok(answer(&workspace, format!("linked, on the branch {}", seen.git.branch)))
    }

    /// A worktree that is already a workspace: only its work item is linked.
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

    /// The write that links the requested work item, if it is not linked.
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

    /// The repository that a request names, by object name or full name.
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
}

/// Replaces the object name of the repository in the work item by its full name.
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

/// The requested name, which becomes a directory and part of a branch.
fn named(request: &WorkspaceRequest) -> Result<Option<String>, ActionError> {
    match &request.name {
        Some(name) if !is_object_name(name) || name.contains('.') => {
            Err(fault("name", "use a-z, 0-9 and `-`"))
        }
        name => Ok(name.clone()),
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
