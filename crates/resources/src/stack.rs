//! A stack: a reusable, runnable configuration of an agent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Condition, Fault, KeysRef, Kind, Resource};
use bailiwick_model::task::{Login, ScriptStep};

/// A definition of an agent: its program, model, prompt, tools and identity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentStack {
    /// The name that is shown to people. If left out, there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// The agent program.
    pub base_agent: BaseAgent,
    /// The adapter that controls the program. If left out, the adapter of the base agent. For `external`, the name of
    /// an adapter file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub adapter: String,
    /// The model. If left out, the program chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model provider: `anthropic`, `openai`, `google`, `bedrock` or `vertex`. If left out, the provider that the
    /// agent program uses by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The reasoning effort of the model, as the agent program names it. If left out, the default of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The role from the kit: the agent gets its capabilities, gates and checks, as in a task.
    pub role: String,
    /// The prompts of the agent.
    #[serde(default)]
    pub prompt: Prompt,
    /// A file of instructions in the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents_doc_ref: Option<AgentsDocRef>,
    /// What happens when a tool call needs an approval.
    #[serde(default)]
    pub approval_mode: ApprovalMode,
    /// Commands that the agent may run; all others are denied. If empty, the stack sets no such limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_commands: Vec<String>,
    /// Commands that the agent may not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied_commands: Vec<String>,
    /// The name of the AgentToolProfile.
    #[serde(default, alias = "toolProfileRef", skip_serializing_if = "Option::is_none")]
    pub tool_policy: Option<String>,
    /// The names of the AgentMcpServers that the agent may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_server_refs: Vec<String>,
    /// The names of the AgentSkills that are loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skill_refs: Vec<String>,
    /// The names of the AgentSubagents that the agent may delegate to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subagent_refs: Vec<String>,
    /// The maximum number of sub-agents that run at the same time. If left out, the stack sets no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel_subagents: Option<u32>,
    /// Context labels whose text is always added to the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_label_refs: Vec<LabelRef>,
    /// The name of the AgentWorkspacePolicy.
    #[serde(default, alias = "workspacePolicyRef", skip_serializing_if = "Option::is_none")]
    pub workspace_policy: Option<String>,
    /// The name of the RunnerPool. A rule or a request can name another one. If left out everywhere, a suitable pool is
    /// chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_pool: Option<String>,
    /// The secrets that the agent may use.
    #[serde(default)]
    pub secret_policy: SecretPolicy,
    /// The identity that the agent runs as.
    pub runtime_identity: RuntimeIdentity,
    /// The role bindings and grants that the stack depends on.
    #[serde(default)]
    pub permission_refs: PermissionRefs,
    /// What the agent's runs may write back to the forge.
    #[serde(default)]
    pub write_back_policy: WriteBackPolicy,
    /// The files that the agent may write. The limits of the role and of the task apply as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<StackScope>,
    /// The budget of one run.
    #[serde(default)]
    pub budget: StackBudget,
    /// Commands that check the work, in addition to the checks of the role. The role must accept verification commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verification_commands: Vec<String>,
    /// The login that pays for the model: `api-key`, `subscription`, `bedrock` or `vertex`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// Keys of secrets that the model provider needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_secret_refs: Vec<KeysRef>,
    /// Keys of config maps that the stack needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_config_refs: Vec<KeysRef>,
    /// The steps of a scripted agent. Only with the base agent `script`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub script: Vec<ScriptStep>,
}

impl AgentStack {
    /// The login that `provider` and `login` result in. `None` if both are left out.
    pub fn payment(&self) -> Result<Option<Login>, PaymentError> {
        let unknown = |word: &str| PaymentError::UnknownLogin(word.to_owned());
        let login = match self.login.as_deref() {
            None => None,
            Some(word) => Some(Login::parse(word).ok_or_else(|| unknown(word))?),
        };
        let Some(provider) = self.provider.as_deref() else { return Ok(login) };
        let (program, served) = match provider {
            "anthropic" => (BaseAgent::ClaudeCode, &[Login::ApiKey, Login::Subscription][..]),
            "openai" => (BaseAgent::Codex, &[Login::ApiKey][..]),
            "google" => (BaseAgent::Gemini, &[Login::ApiKey][..]),
            "bedrock" => (BaseAgent::ClaudeCode, &[Login::Bedrock][..]),
            "vertex" => (BaseAgent::ClaudeCode, &[Login::Vertex][..]),
            other => return Err(PaymentError::UnknownProvider(other.to_owned())),
        };
        let own = self.adapter.is_empty() || self.adapter == self.base_agent.as_str();
        let speaks = self.base_agent == program
            || (self.base_agent == BaseAgent::Opencode && provider == "openai");
        if !(own && speaks) {
            let agent = if own { self.base_agent.as_str() } else { self.adapter.as_str() };
            let agent = agent.to_owned();
            return Err(PaymentError::UnsupportedAgent { agent, provider: provider.to_owned() });
        }
        match login {
            None => Ok(served.first().copied()),
            Some(login) if served.contains(&login) => Ok(Some(login)),
            Some(login) => Err(PaymentError::LoginOfOther {
                login: login.as_str().to_owned(),
                provider: provider.to_owned(),
            }),
        }
    }
}

/// Why `provider` and `login` of a stack result in no login.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PaymentError {
    #[error("there is no login `{0}`: api-key, subscription, bedrock, vertex")]
    UnknownLogin(String),
    #[error("there is no provider `{0}`: anthropic, openai, google, bedrock, vertex")]
    UnknownProvider(String),
    #[error("`{agent}` cannot use the provider `{provider}`")]
    UnsupportedAgent { agent: String, provider: String },
    #[error("the login `{login}` cannot be used with the provider `{provider}`")]
    LoginOfOther { login: String, provider: String },
}

/// The agent program of a stack.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum BaseAgent {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// OpenCode.
    Opencode,
    /// Babysitter. It needs an agent manifest.
    Babysitter,
    /// A remote agent multiplexer. It needs an agent manifest.
    AgentMuxRemote,
    /// A scripted agent that needs no model.
    Script,
    /// Any other program. It needs an agent manifest.
    External,
}

impl BaseAgent {
    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Babysitter => "babysitter",
            Self::AgentMuxRemote => "agent-mux-remote",
            Self::Script => "script",
            Self::External => "external",
        }
    }
}

/// The prompts of a stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Prompt {
    /// The system prompt.
    pub system: String,
    /// The developer prompt: instructions on how to work.
    pub developer: String,
    /// The default task, if the run has none.
    pub task: String,
}

/// A file of instructions in the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentsDocRef {
    /// The source of the file. Only `repository` is supported.
    pub source: AgentsDocSource,
    /// The path of the file. It is read from the base commit.
    pub path: String,
}

/// The source of a file of instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AgentsDocSource {
    /// The base commit of the repository.
    Repository,
}

/// What happens when a tool call needs an approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalMode {
    /// A person is asked.
    Prompt,
    /// The call is denied.
    Deny,
    /// Nobody is asked. Calls that policy denies stay denied.
    Yolo,
    /// The tool profile decides. This is the default.
    #[default]
    PolicyDerived,
}

/// A reference to a context label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelRef {
    /// The name of the AgentContextLabel.
    pub name: String,
    /// The expected digest of its text. If the text has another digest, the label is refused. If left out, any text is
    /// accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The secrets that a stack may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SecretPolicy {
    /// If true, secrets may be used in work on forks, if their grant allows it too.
    pub allow_on_forks: bool,
    /// The names of the secrets. If empty, the stack may use none.
    pub allowed_secret_refs: Vec<String>,
}

/// The identity of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuntimeIdentity {
    /// The name of the AgentServiceAccount.
    pub service_account_ref: String,
}

/// The role bindings and grants that a stack depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PermissionRefs {
    /// The names of AgentRoleBindings.
    pub role_bindings: Vec<String>,
    /// The names of AgentSecretGrants.
    pub secret_grants: Vec<String>,
    /// The names of AgentConfigGrants.
    pub config_grants: Vec<String>,
}

/// A kind of write to the forge.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBackTarget {
    /// A new issue.
    OpenIssue,
    /// A comment on an issue.
    IssueComment,
    /// A comment on a pull request.
    PullRequestComment,
    /// A review of a pull request.
    PullRequestReview,
    /// A push to an existing branch.
    BranchPush,
    /// A new branch.
    CreateBranch,
    /// The files of a run that names the next agent of its issue, on a reference that is no branch.
    WorkReference,
    /// A new pull request.
    OpenPullRequest,
    /// A status or check of a commit.
    CheckStatus,
    /// A rerun of a check.
    CheckRerun,
    /// A rerun of a workflow.
    WorkflowRerun,
    /// Release notes.
    ReleaseNote,
    /// An approval of a deployment.
    DeploymentApproval,
}

impl WriteBackTarget {
    /// All targets.
    pub const ALL: &[Self] = &[
        Self::OpenIssue,
        Self::IssueComment,
        Self::PullRequestComment,
        Self::PullRequestReview,
        Self::BranchPush,
        Self::CreateBranch,
        Self::WorkReference,
        Self::OpenPullRequest,
        Self::CheckStatus,
        Self::CheckRerun,
        Self::WorkflowRerun,
        Self::ReleaseNote,
        Self::DeploymentApproval,
    ];
}

/// Whether a write-back needs an approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBackMode {
    /// The write-back is denied.
    Denied,
    /// It is written without an approval.
    Auto,
    /// It always needs an approval. This is the default.
    #[default]
    AlwaysApprove,
    /// It needs an approval if the origin of the run is untrusted.
    ApproveOnUntrusted,
}

/// What may be written back, and what needs an approval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WriteBackPolicy {
    /// If true, every write-back needs an approval, whatever `modes` says. If false or left out, `modes` decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_approval: Option<bool>,
    /// The allowed write-backs. If empty, nothing may be written back.
    pub allowed_targets: Vec<WriteBackTarget>,
    /// The approval mode for each target. The default is `always-approve`.
    pub modes: BTreeMap<WriteBackTarget, WriteBackMode>,
    /// If true, the person who started a run by hand may approve its write-backs. If left out, somebody else must.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dispatcher_may_approve: bool,
}

impl WriteBackPolicy {
    /// Whether a target needs an approval. Nobody can be asked when a run hands its issue on, so without a mode the files
    /// of a trusted run are written, and those of another one stay on their machine.
    pub fn mode(&self, target: WriteBackTarget) -> WriteBackMode {
        let default = match target {
            WriteBackTarget::WorkReference => WriteBackMode::ApproveOnUntrusted,
            WriteBackTarget::OpenIssue
            | WriteBackTarget::IssueComment
            | WriteBackTarget::PullRequestComment
            | WriteBackTarget::PullRequestReview
            | WriteBackTarget::BranchPush
            | WriteBackTarget::CreateBranch
            | WriteBackTarget::OpenPullRequest
            | WriteBackTarget::CheckStatus
            | WriteBackTarget::CheckRerun
            | WriteBackTarget::WorkflowRerun
            | WriteBackTarget::ReleaseNote
            | WriteBackTarget::DeploymentApproval => WriteBackMode::default(),
        };
        self.modes.get(&target).copied().unwrap_or(default)
    }
}

/// The files that a stack may write, as .gitignore globs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StackScope {
    /// Files that it may write.
    pub files_whitelist: Vec<String>,
    /// Files that it may not write.
    pub files_denylist: Vec<String>,
}

/// The budget of one run, including its sub-agents. A limit that is left out does not apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StackBudget {
    /// The maximum number of tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The maximum cost in millionths of a US dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
    /// The maximum number of model responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// The maximum duration in minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u64>,
    /// The maximum number of tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
}

/// The status of a stack.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentStackStatus {
    /// The capabilities of its adapter, in the same schema for all adapters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<serde_json::Value>,
    /// The result of the validation.
    pub validation: Validation,
    /// The conditions of the stack.
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    pub observed_generation: u64,
}

/// The result of a validation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Validation {
    /// All checks pass.
    Valid,
    /// It can be used, but has warnings.
    Warning,
    /// It cannot be used.
    #[default]
    Invalid,
}

impl Resource for AgentStack {
    const KIND: Kind = Kind::AgentStack;
    type Status = AgentStackStatus;

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if bailiwick_model::RoleName::parse(&self.role).is_err() {
            let message = format!("`{}` is no role of the kit", self.role);
            faults.push(Fault::new("spec.role", message));
        }
        let manifest = matches!(
            self.base_agent,
            BaseAgent::Babysitter | BaseAgent::AgentMuxRemote | BaseAgent::External
        );
        if manifest && self.adapter.is_empty() {
            let message = "name the agent manifest of the settings that says how it is started";
            faults.push(Fault::new("spec.adapter", message));
        }
        if self.runtime_identity.service_account_ref.is_empty() {
            let message = "name an AgentServiceAccount";
            faults.push(Fault::new("spec.runtimeIdentity.serviceAccountRef", message));
        }
        if let Err(error) = self.payment() {
            let field = if self.provider.is_some() { "spec.provider" } else { "spec.login" };
            faults.push(Fault::new(field, error.to_string()));
        }
        let scripted = self.base_agent == BaseAgent::Script && self.adapter.is_empty();
        if !self.script.is_empty() && !scripted {
            let message = "only the base agent `script` plays one";
            faults.push(Fault::new("spec.script", message));
        }
        if let Some(doc) = &self.agents_doc_ref
            && (doc.path.is_empty()
                || doc.path.starts_with('/')
                || doc.path.split('/').any(|part| part == ".." || part == ".git"))
        {
            let message = format!("`{}` is not a path inside of the repository", doc.path);
            faults.push(Fault::new("spec.agentsDocRef.path", message));
        }
        faults
    }
}
