//! The choice of a workspace: a new one, or that of the work item.

use bailiwick_resources::{
    AgentWorkspacePolicy, BaseAgent, Kind, Object, Reason, TrustTier, WorkspaceMode,
};

use super::{Admission, Refused, Step, refuse};
use crate::admission::snapshot::FrozenStack;

/// The workspace of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceDecision {
    /// In a new one.
    Fresh {
        why: String,
        /// Whether nothing may ever be shared with it.
        isolated: bool,
    },
    /// In that of its work item, if it is free when the run starts.
    OfWorkItem,
}

impl WorkspaceDecision {
    /// Why it is done there.
    pub fn why(&self) -> &str {
        match self {
            Self::Fresh { why, .. } => why,
            Self::OfWorkItem => "that of the work item, if it can be reused when the run starts",
        }
    }
}

/// Chooses where the work is done.
pub fn select_workspace(
    admission: &Admission<'_>,
    frozen: &FrozenStack,
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
    let refs = &admission.request.source_refs;
    let has_item = refs.issue.is_some()
        || refs.pull_request.is_some()
        || refs.check.is_some()
        || refs.work_item.is_some();
    match (mode, has_item) {
        // Which one is decided when the run starts: an earlier run may end while this one waits.
        (Some(WorkspaceMode::PerWorkItem), true) => Ok(WorkspaceDecision::OfWorkItem),
        (Some(WorkspaceMode::PerWorkItem), false) => fresh("the run has no work item", false),
        (Some(WorkspaceMode::PerRun) | None, _) => fresh("each run has its own", false),
    }
}
