//! What people can do with a workspace, and what is known of its git status.

use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::{TokenScope, WorkspaceAnswer, WorkspaceRequest, WorkspaceVerb};
use bailiwick_resources::{
    AgentWorkspace, AgentWorkspaceStatus, AnyObject, Kind, RebaseState, WorkspaceState,
};
use bailiwick_server::{ApiError, Session};
use serde::Deserialize;

use super::object_path;
use crate::change::{bad_request, change_and_show};
use crate::site::Site;
use crate::text::{encoded, line, visible};

const MAX_NAME: usize = 120;

/// What the page of a workspace has beside its conditions.
pub(crate) struct WorkspacePanel {
    pub(crate) facts: Vec<(&'static str, String)>,
    /// The whole text: what a form shortens is lost when it is saved.
    pub(crate) notes: String,
    /// Whether hidden characters are shown as marks, which saving would write.
    pub(crate) has_marks: bool,
    pub(crate) version: u64,
    pub(crate) can_act: bool,
    pub(crate) verbs: Vec<VerbView>,
}

/// An action on a workspace.
pub(crate) struct VerbView {
    pub(crate) verb: &'static str,
    pub(crate) label: &'static str,
    /// Why it is not possible now; empty if it is.
    pub(crate) obstacle: &'static str,
    pub(crate) removes_files: bool,
}

/// The label of an action, and why it is not possible now.
fn offer(
    verb: WorkspaceVerb,
    spec: &AgentWorkspace,
    status: &AgentWorkspaceStatus,
) -> Option<(&'static str, &'static str)> {
    let has_files = matches!(status.state, WorkspaceState::Active | WorkspaceState::Idle);
    let rebase = status.rebase.as_ref().map(|rebase| rebase.state);
    let conflicts = rebase == Some(RebaseState::RebaseConflicts);
    let needs = |is_so: bool, obstacle: &'static str| if is_so { "" } else { obstacle };
    let idle = needs(status.state == WorkspaceState::Idle, "a run uses it, or it has no files");
    let conflict = needs(conflicts, "there are no conflicts");
    let found = match verb {
        // These two make a workspace; notes have a form of their own.
        WorkspaceVerb::Provision | WorkspaceVerb::LinkExisting | WorkspaceVerb::NotesSave => {
            return None;
        }
        WorkspaceVerb::Unlink => {
            ("Unlink from work item", needs(spec.work_item.is_some(), "it has no work item"))
        }
        WorkspaceVerb::Pin => ("Pin", needs(!spec.pinned, "it is pinned")),
        WorkspaceVerb::Unpin => ("Unpin", needs(spec.pinned, "it is not pinned")),
        WorkspaceVerb::Archive => ("Archive files", idle),
        WorkspaceVerb::Cleanup => {
            ("Clean up", needs(status.state != WorkspaceState::Active, "a run uses it"))
        }
        WorkspaceVerb::Recover => ("Recover files", needs(!has_files, "its files are there")),
        WorkspaceVerb::RebaseStart => {
            let obstacle = if conflicts { "a rebase waits for its conflicts" } else { idle };
            ("Rebase", obstacle)
        }
        WorkspaceVerb::RebaseAutoResolve => ("Resolve as before", conflict),
        WorkspaceVerb::RebaseOpenInEditor => ("List conflicts", conflict),
        WorkspaceVerb::RebaseMarkResolved => ("Conflicts are resolved", conflict),
        WorkspaceVerb::RebaseAbort => ("Abort the rebase", conflict),
    };
    Some(found)
}

impl WorkspacePanel {
    /// The actions that are not possible now.
    pub(crate) fn obstacles(&self) -> Vec<&VerbView> {
        self.verbs.iter().filter(|one| !one.obstacle.is_empty()).collect()
    }

    pub(crate) fn has_obstacles(&self) -> bool {
        !self.obstacles().is_empty()
    }

    /// None if it is another object.
    pub(crate) fn new(session: &Session, object: &AnyObject) -> Option<Self> {
        let workspace = object.typed::<AgentWorkspace>().ok()?;
        let (spec, status) = (workspace.spec, workspace.status);
        let git = &status.git;
        let yes = |flag: bool| if flag { "yes".to_owned() } else { "no".to_owned() };
        let rebase = status.rebase.as_ref().map(|rebase| super::word(&rebase.state));
        let work_item =
            spec.work_item.as_ref().map(|item| format!("{}#{}", item.repository, item.id));
        let facts = [
            ("State", super::word(&status.state)),
            ("Branch", spec.branch.clone()),
            ("Target", spec.target_branch.clone()),
            ("Head", git.head.clone()),
            ("Ahead", git.ahead.to_string()),
            ("Behind", git.behind.to_string()),
            ("Uncommitted", git.uncommitted_count.to_string()),
            ("Conflicts", git.conflicting_files.join(", ")),
            ("Rebase", rebase.unwrap_or_default()),
            ("Pinned", yes(spec.pinned)),
            ("Work item", work_item.unwrap_or_default()),
            ("Runs", status.runs.join(", ")),
            ("Path", spec.workspace_path.clone()),
        ];
        let facts = facts.into_iter().filter(|(_, value)| !value.is_empty());
        let verbs = WorkspaceVerb::ALL.into_iter().filter_map(|verb| {
            let (label, obstacle) = offer(verb, &spec, &status)?;
            let removes_files = matches!(verb, WorkspaceVerb::Archive | WorkspaceVerb::Cleanup);
            Some(VerbView { verb: verb.as_str(), label, obstacle, removes_files })
        });
        let can_act = session.scope() >= TokenScope::Operator;
        let notes = visible(&spec.notes);
        Some(Self {
            facts: facts.map(|(label, value)| (label, line(&value, MAX_NAME))).collect(),
            has_marks: notes != spec.notes.replace("\r\n", "\n"),
            notes,
            version: object.metadata.resource_version,
            verbs: if can_act { verbs.collect() } else { Vec::new() },
            can_act,
        })
    }
}

#[derive(Deserialize)]
struct WorkspaceForm {
    action: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    notes: String,
    #[serde(default)]
    discard: String,
    version: Option<u64>,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    repository: String,
    #[serde(default)]
    reference: String,
    #[serde(default)]
    path: String,
}

/// An action on a workspace that exists.
pub(crate) async fn act(
    site: &Site,
    (namespace, name): (&str, &str),
    request: Request,
) -> Response {
    change_and_show(site, request, async |session: &Session, form| {
        perform(site, session, namespace, Some(name), form).await
    })
    .await
}

/// A new workspace, or a worktree that becomes one.
pub(crate) async fn create(site: &Site, request: Request) -> Response {
    change_and_show(site, request, async |session: &Session, form: WorkspaceForm| {
        let namespace = match form.namespace.as_str() {
            "" => bailiwick_resources::DEFAULT_NAMESPACE.to_owned(),
            namespace => namespace.to_owned(),
        };
        perform(site, session, &namespace, None, form).await
    })
    .await
}

async fn perform(
    site: &Site,
    session: &Session,
    namespace: &str,
    name: Option<&str>,
    form: WorkspaceForm,
) -> Result<String, ApiError> {
    let verb = WorkspaceVerb::parse(&form.action);
    let verb = verb.ok_or_else(|| bad_request("there is no such action"))?;
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    let request = WorkspaceRequest {
        // A browser ends lines with both.
        notes: (verb == WorkspaceVerb::NotesSave).then(|| form.notes.replace("\r\n", "\n")),
        repository: given(form.repository),
        reference: given(form.reference),
        path: given(form.path),
        discard_ignored: !form.discard.is_empty(),
        reason: form.reason,
        expected_version: form.version,
        ..WorkspaceRequest::of(verb)
    };
    let path = match name {
        Some(name) => format!("/api/v1alpha1/workspaces/{}/action", encoded(name)),
        None => "/api/v1alpha1/workspaces".to_owned(),
    };
    let path = format!("{path}?namespace={}", encoded(namespace));
    let answer: WorkspaceAnswer = site.api.post(session, &path, &request).await?;
    if verb == WorkspaceVerb::Cleanup {
        return Ok(format!("{}/board", site.base));
    }
    Ok(object_path(&site.base, namespace, Kind::AgentWorkspace, &answer.workspace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_possible_workspace_actions_are_enabled() {
        let spec: AgentWorkspace = serde_json::from_value(serde_json::json!({
            "repository": "o/n", "workspacePath": "/w", "ownership": "host", "branch": "b",
            "targetBranch": "main", "trustTier": "trusted", "pinned": true,
        }))
        .unwrap();
        let status = AgentWorkspaceStatus::default();
        let possible =
            |verb| offer(verb, &spec, &status).is_some_and(|(_, obstacle)| obstacle.is_empty());
        let all = WorkspaceVerb::ALL.into_iter().filter(|verb| possible(*verb));
        let names: Vec<&str> = all.map(WorkspaceVerb::as_str).collect();
        assert_eq!(names, ["unpin", "archive", "cleanup", "rebase-start"]);
    }
}
