//! A named agent that a stack may delegate to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ApprovalPolicy, ApprovalReason, Fault, Kind, Resource};

/// A child of a stack: it can only have less than its parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSubagent {
    /// What its parent calls it; the object's own name when left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// When it should be asked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Who it is.
    pub role_prompt: String,
    /// What it is for.
    pub task_kinds: Vec<SubagentTask>,
    /// Another model than its parent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_override: Option<String>,
    /// Another identity than its parent's, with no more rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_identity_override: Option<String>,
    /// Its tools, out of its parent's; all of them when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_refs: Option<Vec<String>>,
    /// Its MCP servers, out of its parent's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_server_refs: Vec<String>,
    /// Its skills, out of its parent's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skill_refs: Vec<String>,
    /// What it may do to files.
    #[serde(default)]
    pub workspace_scope: WorkspaceScope,
    /// How many of it may work at once.
    #[serde(default = "one")]
    pub max_parallel_tasks: u32,
    /// What it must return.
    #[serde(default)]
    pub output_contract: OutputContract,
    /// What it is given of its parent's context.
    #[serde(default)]
    pub context_policy: ContextPolicy,
    /// Who must be asked for what it does.
    #[serde(default)]
    pub approval_policy: ApprovalPolicy,
    /// Whether its parent may go on without it. A run whose agent has started one that is not, and got nothing
    /// good of it, fails.
    #[serde(default)]
    pub optional: bool,
}

fn one() -> u32 {
    1
}

/// What a sub-agent is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubagentTask {
    /// Finding out.
    Research,
    /// Changing.
    Implementation,
    /// Trying.
    Validation,
    /// Judging.
    Review,
    /// Sorting.
    Triage,
    /// Looking over a release.
    ReleaseCheck,
}

impl SubagentTask {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Research => "research",
            Self::Implementation => "implementation",
            Self::Validation => "validation",
            Self::Review => "review",
            Self::Triage => "triage",
            Self::ReleaseCheck => "release-check",
        }
    }
}

/// What a sub-agent may do to files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkspaceScope {
    /// Reads only.
    #[default]
    ReadOnly,
    /// Writes on a branch of its parent.
    BranchLocal,
    /// Writes in a worktree of its own.
    IsolatedWorktree,
    /// Sees no files.
    NoWorkspace,
}

/// What a sub-agent must return.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OutputContract {
    /// Its form.
    pub format: OutputFormat,
    /// Headings or keys that must be there.
    pub required_sections: Vec<String>,
}

/// The form of what is returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutputFormat {
    /// Markdown.
    #[default]
    Summary,
    /// A patch that applies.
    Patch,
    /// Markdown with boxes.
    Checklist,
    /// JSON.
    Json,
    /// Comments with file and line.
    ReviewComments,
    /// What was tested and how it went.
    TestReport,
    /// Whether a release can go out.
    ReleaseReadiness,
    /// What could go wrong.
    RiskAssessment,
}

/// What a sub-agent is given of its parent's context.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ContextPolicy {
    /// Its task, as its parent tells it.
    #[default]
    SummaryOnly,
    /// The sources that its parent names. It has no way to, so that it is refused.
    SelectedSources,
    /// Everything, without secrets.
    FullRedacted,
    /// Artifacts alone. None is handed on, so that it is refused.
    ArtifactOnly,
    /// Nothing but its task.
    NoContext,
}

/// Sub-agents have no status of their own; their stack speaks for them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NoStatus {}

impl Resource for AgentSubagent {
    const KIND: Kind = Kind::AgentSubagent;
    type Status = NoStatus;

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if self.role_prompt.trim().is_empty() {
            faults.push(Fault::new("spec.rolePrompt", "it must say who the sub-agent is"));
        }
        if self.task_kinds.is_empty() {
            faults.push(Fault::new("spec.taskKinds", "name at least one"));
        }
        match self.context_policy {
            ContextPolicy::SummaryOnly | ContextPolicy::FullRedacted | ContextPolicy::NoContext => {
            }
            ContextPolicy::SelectedSources | ContextPolicy::ArtifactOnly => {
                let message = "a parent has no way to name sources or artifacts: it tells a sub-agent what it \
                               needs, so write summary-only or full-redacted";
                faults.push(Fault::new("spec.contextPolicy", message));
            }
        }
        let calls = |reason: &ApprovalReason| *reason == ApprovalReason::ToolCall;
        if !self.approval_policy.require_for.iter().all(calls) {
            let message = "a sub-agent gets no secrets and writes nothing back: only tool-call can be asked for";
            faults.push(Fault::new("spec.approvalPolicy.requireFor", message));
        }
        if self.max_parallel_tasks == 0 {
            faults.push(Fault::new("spec.maxParallelTasks", "it must be at least 1"));
        }
        faults
    }
}
