//! A named agent that a stack may delegate to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ApprovalPolicy, ApprovalReason, Condition, Fault, Kind, Resource};

/// An agent that a stack can delegate to. It can never have more rights than its stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSubagent {
    /// The name that the parent uses. If left out, the name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// When the parent should use it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The prompt that describes its role.
    pub role_prompt: String,
    /// The kinds of tasks that it is for, at least one.
    pub task_kinds: Vec<SubagentTask>,
    /// The model. If left out, the model of the stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_override: Option<String>,
    /// The AgentServiceAccount that it runs as. It must not have more rights than that of the stack. If left out, the
    /// same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_identity_override: Option<String>,
    /// The tools that it may use, out of those of its stack. If left out, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_refs: Option<Vec<String>>,
    /// The MCP servers that it may use, out of those of its stack. If empty, none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_server_refs: Vec<String>,
    /// The skills that it loads, out of those of its stack. If empty, none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skill_refs: Vec<String>,
    /// Its access to files. The default is `read-only`.
    #[serde(default)]
    pub workspace_scope: WorkspaceScope,
    /// The maximum number of its runs at the same time. The default is 1.
    #[serde(default = "one")]
    pub max_parallel_tasks: u32,
    /// The output that it must return.
    #[serde(default)]
    pub output_contract: OutputContract,
    /// How much of the parent's context it receives. The default is `summary-only`.
    #[serde(default)]
    pub context_policy: ContextPolicy,
    /// The actions that need an approval. Only `tool-call` is allowed.
    #[serde(default)]
    pub approval_policy: ApprovalPolicy,
    /// If false, a run fails if it started this sub-agent and no run of the sub-agent succeeded. The default is false.
    #[serde(default)]
    pub optional: bool,
}

fn one() -> u32 {
    1
}

/// A kind of task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubagentTask {
    /// Research.
    Research,
    /// Implementation.
    Implementation,
    /// Validation, such as running tests.
    Validation,
    /// Review.
    Review,
    /// Triage.
    Triage,
    /// Checking a release.
    ReleaseCheck,
}

impl SubagentTask {
    /// The name in documents.
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

/// The access of a sub-agent to files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkspaceScope {
    /// It can only read. This is the default.
    #[default]
    ReadOnly,
    /// It can write. Handled like `isolated-worktree`.
    BranchLocal,
    /// It can write in its own worktree and branch.
    IsolatedWorktree,
    /// It has no access to files or to a shell.
    NoWorkspace,
}

/// The output that a sub-agent must return.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OutputContract {
    /// The format. The default is `summary`.
    pub format: OutputFormat,
    /// Headings or keys that the output must contain.
    pub required_sections: Vec<String>,
}

/// The format of an output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutputFormat {
    /// Markdown. This is the default.
    #[default]
    Summary,
    /// A patch.
    Patch,
    /// Markdown with checkboxes.
    Checklist,
    /// JSON.
    Json,
    /// Comments with file and line.
    ReviewComments,
    /// A test report.
    TestReport,
    /// A report on whether a release is ready.
    ReleaseReadiness,
    /// A list of risks.
    RiskAssessment,
}

/// How much of its parent's context a sub-agent receives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ContextPolicy {
    /// Only the message of its parent. This is the default.
    #[default]
    SummaryOnly,
    /// The message of its parent, and the sources that the parent names out of its own context.
    SelectedSources,
    /// The whole context of its parent, without secrets.
    FullRedacted,
    /// The message of its parent, and the outputs of finished sub-agents that the parent names.
    ArtifactOnly,
    /// Only the message of its parent, like `summary-only`.
    NoContext,
}

/// The status of a definition that stacks use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DefinitionStatus {
    /// The conditions of the definition.
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    pub observed_generation: u64,
}

/// An empty status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NoStatus {}

impl Resource for AgentSubagent {
    const KIND: Kind = Kind::AgentSubagent;
    type Status = DefinitionStatus;

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if self.role_prompt.trim().is_empty() {
            faults.push(Fault::new("spec.rolePrompt", "it must say who the sub-agent is"));
        }
        if self.task_kinds.is_empty() {
            faults.push(Fault::new("spec.taskKinds", "name at least one"));
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
