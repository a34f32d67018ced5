//! Where a piece of work is done: in a workspace of its own, and why not in another.

use bailiwick_resources::{
    AgentWorkspace, AgentWorkspacePolicy, BaseAgent, Kind, Object, Reason, TrustTier,
    WorkspaceMode, WorkspaceState,
};

use super::{Admission, Refused, Step, refuse};
use crate::admission::snapshot::Frozen;

/// Where a piece of work is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceDecision {
    /// In a new one.
    Fresh {
        why: String,
        /// Whether nothing may ever be shared with it.
        isolated: bool,
    },
}

impl WorkspaceDecision {
    /// Why it is done there.
    pub fn why(&self) -> &str {
        match self {
            Self::Fresh { why, .. } => why,
        }
    }
}

/// Chooses where the work is done.
pub fn select_workspace(
    admission: &Admission<'_>,
    frozen: &Frozen,
) -> Result<WorkspaceDecision, Box<Refused>> {
    let step = Step::SelectWorkspace;
    if let Some(missing) = frozen.missing_of(Kind::AgentWorkspacePolicy).next() {
        let code = match missing.unknown {
            true => Reason::AccessReviewUnavailable,
            false => Reason::WorkspaceMissing,
        };
        return Err(refuse(step, code, &missing.object.name, missing.why.clone()));
    }
    let fresh =
        |why: &str, isolated| Ok(WorkspaceDecision::Fresh { why: why.to_owned(), isolated });
    if admission.situation.trust_tier == TrustTier::Untrusted {
        let runs = |policy: &Object<AgentWorkspacePolicy>| {
            !policy.spec.setup.is_empty() || !policy.spec.copy.is_empty()
        };
        if let Some(policy) = frozen.workspace_policy.as_ref().filter(|policy| runs(policy)) {
            let message = "setup and copy of a workspace happen outside of the sandbox, and not for \
                           untrusted work; name another policy in a stack for it";
            return Err(refuse(step, Reason::IsolatedWorkspaceRequired, policy.name(), message));
        }
        let own = match frozen.stack.spec.base_agent {
            BaseAgent::ClaudeCode
            | BaseAgent::Codex
            | BaseAgent::Gemini
            | BaseAgent::Opencode
            | BaseAgent::Script => frozen.stack.spec.adapter.is_empty(),
            BaseAgent::Babysitter | BaseAgent::AgentMuxRemote | BaseAgent::External => false,
        };
        if !own {
            let message =
                "an adapter that the commit could describe is not used for untrusted work";
            return Err(refuse(step, Reason::UnsupportedBaseAgent, frozen.stack.name(), message));
        }
        return fresh("untrusted work shares nothing", true);
    }
    let mode = frozen.workspace_policy.as_ref().map(|policy| policy.spec.mode);
    let item = admission.request.source_refs.work_item.as_ref();
    let (Some(WorkspaceMode::PerWorkItem), Some(item)) = (mode, item) else {
        return fresh("each run has its own", false);
    };
    let known = admission.inventory.readable::<AgentWorkspace>().map_err(|error| {
        refuse(step, Reason::AccessReviewUnavailable, "AgentWorkspace", error.to_string())
    })?;
    let fits = known.iter().find(|workspace| {
        let spec = &workspace.spec;
        let idle = workspace.status.state == WorkspaceState::Idle;
        let same = spec.repository == admission.situation.repository
            && spec.trust_tier == admission.situation.trust_tier
            && spec.work_item.as_ref().is_some_and(|known| known.id == *item)
            && admission.request.branch.as_ref().is_none_or(|branch| *branch == spec.target_branch);
        idle && same && !workspace.status.git.missing
    });
    match fits {
        // A run of the ledger is one worktree, one branch and one base: a second run in them would be judged
        // with the first one's work as its own.
        Some(workspace) => {
            let name = workspace.name();
            let why =
                format!("`{name}` of this work item stays as it is: a run has its own worktree");
            fresh(&why, false)
        }
        None => fresh("no workspace of this work item is free", false),
    }
}
