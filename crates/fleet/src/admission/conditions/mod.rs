//! The conditions of each kind, worked out from what is really there.
//!
//! Each function takes facts and returns exactly the conditions of its kind, in order. What was not observed yet is
//! unknown, and unknown is never ready.

mod definitions;
mod facts;
mod grants;
mod identities;
mod pool;
mod requirement;
mod run;
mod stack;
mod stack_parts;

use bailiwick_resources::{ConditionType, Finding, Reason, Standing};

pub use definitions::{
    context_label_conditions, mcp_server_conditions, runner_pool_conditions, skill_conditions,
    subagent_conditions, tool_profile_conditions, workspace_policy_conditions,
};
pub use facts::{
    AdapterFacts, AdapterProbe, AuthorFacts, KitRole, McpProbe, ProgramFacts, RoleFacts,
    SkillProbe, StackFacts,
};
pub use grants::{config_grant_conditions, secret_grant_conditions};
pub use identities::{role_binding_conditions, service_account_conditions};
pub use pool::stack_pool;
pub use requirement::{requirement_conditions, requirement_status};
pub use run::{
    ApprovalFacts, ArtifactFacts, ContextFacts, RunFacts, RunnerFacts, SessionFacts,
    WorkspaceFacts, run_conditions,
};
pub use stack::{StackInput, stack_conditions, validation_of};
pub(crate) use stack_parts::mode_allowed;
pub use stack_parts::{
    capabilities_resolved, context_labels_valid, mcp_healthy, policy_admitted, server_refusal,
    skills_validated, subagents_valid, tools_admitted,
};

/// The findings for one condition: the first fault decides, then the first doubt.
#[derive(Debug, Clone)]
pub(crate) struct Judgement {
    kind: ConditionType,
    fault: Option<(Reason, String)>,
    doubt: Option<(Reason, String)>,
}

impl Judgement {
    pub(crate) fn of(kind: ConditionType) -> Self {
        Self { kind, fault: None, doubt: None }
    }

    pub(crate) fn fault(&mut self, reason: Reason, message: impl Into<String>) {
        self.fault.get_or_insert_with(|| (reason, message.into()));
    }

    pub(crate) fn doubt(&mut self, reason: Reason, message: impl Into<String>) {
        self.doubt.get_or_insert_with(|| (reason, message.into()));
    }

    /// A fault, or a doubt where the facts are unknown.
    pub(crate) fn fault_or_doubt(&mut self, reason: Reason, message: impl Into<String>) {
        match reason == Reason::AccessReviewUnavailable || reason == Reason::NotYetObserved {
            true => self.doubt(reason, message),
            false => self.fault(reason, message),
        }
    }

    pub(crate) fn end(self, reason: Reason, message: impl Into<String>) -> Finding {
        match (self.fault, self.doubt) {
            (Some((reason, message)), _) => Finding::fails(self.kind, reason, message),
            (None, Some((reason, message))) => Finding::unknown(self.kind, reason, message),
            (None, None) => Finding::holds(self.kind, reason, message),
        }
    }
}

/// The findings with the one that sums them up.
pub(crate) fn with_ready(mut findings: Vec<Finding>) -> Vec<Finding> {
    let names = |standing: Standing| {
        let meant = findings.iter().filter(move |finding| finding.status == standing);
        meant.map(|finding| finding.kind.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (failing, unknown) = (names(Standing::False), names(Standing::Unknown));
    let kind = ConditionType::Ready;
    let ready = match (failing.is_empty(), unknown.is_empty()) {
        (true, true) => Finding::holds(kind, Reason::AllConditionsMet, "all conditions are met"),
        (false, _) => {
            Finding::fails(kind, Reason::RequirementsUnmet, format!("not met: {failing}"))
        }
        (true, false) => {
            Finding::unknown(kind, Reason::RequirementsUnknown, format!("not known: {unknown}"))
        }
    };
    findings.push(ready);
    findings
}
