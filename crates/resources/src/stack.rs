//! A stack: a reusable, runnable configuration of an agent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Fault, KeysRef, Kind, Resource};
use bailiwick_model::task::{Login, ScriptStep};

/// What an agent is made of: program, model, prompt, tools, identity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentStack {
    /// What people call it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// The agent program.
    pub base_agent: BaseAgent,
    /// The adapter that speaks to it; the base agent's own when left out. For `external` the name of
    /// an agent manifest of the settings.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub adapter: String,
    /// The model; the program's own choice when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Who serves the model: `anthropic`, `openai` or `google` itself, or `bedrock` or `vertex`. The one that the
    /// agent program has by itself when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// How hard it is to think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The role of the kit that binds it: the same capabilities, gates and checks as in a task.
    pub role: String,
    /// What it is told.
    #[serde(default)]
    pub prompt: Prompt,
    /// Instructions that the repository brings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents_doc_ref: Option<AgentsDocRef>,
    /// What happens when a call needs a person.
    #[serde(default)]
    pub approval_mode: ApprovalMode,
    /// Commands it may run; when given, no others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_commands: Vec<String>,
    /// Commands it may not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied_commands: Vec<String>,
    /// The tool profile.
    #[serde(default, alias = "toolProfileRef", skip_serializing_if = "Option::is_none")]
    pub tool_policy: Option<String>,
    /// MCP servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_server_refs: Vec<String>,
    /// Skills.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skill_refs: Vec<String>,
    /// Sub-agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subagent_refs: Vec<String>,
    /// How many of them may work at once, over all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel_subagents: Option<u32>,
    /// Pieces of prompt that are always added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_label_refs: Vec<LabelRef>,
    /// How its workspaces are made.
    #[serde(default, alias = "workspacePolicyRef", skip_serializing_if = "Option::is_none")]
    pub workspace_policy: Option<String>,
    /// Where it is executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_pool: Option<String>,
    /// Which secrets it may use at all.
    #[serde(default)]
    pub secret_policy: SecretPolicy,
    /// The identity it runs as.
    pub runtime_identity: RuntimeIdentity,
    /// The bindings and grants it relies on.
    #[serde(default)]
    pub permission_refs: PermissionRefs,
    /// What of its work may be written back.
    #[serde(default)]
    pub write_back_policy: WriteBackPolicy,
    /// Which files it may write, as globs of .gitignore; the role's and the task's own say bind as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<StackScope>,
    /// What a run of it may use.
    #[serde(default)]
    pub budget: StackBudget,
    /// How the work is judged besides what the role demands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verification_commands: Vec<String>,
    /// The login by which the model is paid for, as `run --login` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// Keys of secrets and of config maps that the model's provider needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_secret_refs: Vec<KeysRef>,
    /// Keys of config maps it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_config_refs: Vec<KeysRef>,
    /// What an agent without a model does, step by step; only with the base agent `script`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub script: Vec<ScriptStep>,
}

impl AgentStack {
    /// How the model is paid for, by what `provider` and `login` say together; nothing if neither says a word.
    pub fn payment(&self) -> Result<Option<Login>, String> {
        let login = match self.login.as_deref() {
            None => None,
            Some(word) => Some(Login::parse(word).ok_or_else(|| {
                format!("there is no login `{word}`: api-key, subscription, bedrock, vertex")
            })?),
        };
        let Some(provider) = self.provider.as_deref() else { return Ok(login) };
        let (program, served) = match provider {
            "anthropic" => (BaseAgent::ClaudeCode, &[Login::ApiKey, Login::Subscription][..]),
            "openai" => (BaseAgent::Codex, &[Login::ApiKey][..]),
            "google" => (BaseAgent::Gemini, &[Login::ApiKey][..]),
            "bedrock" => (BaseAgent::ClaudeCode, &[Login::Bedrock][..]),
            "vertex" => (BaseAgent::ClaudeCode, &[Login::Vertex][..]),
            other => {
                return Err(format!(
                    "there is no provider `{other}`: anthropic, openai, google, bedrock, vertex"
                ));
            }
        };
        let own = self.adapter.is_empty() || self.adapter == self.base_agent.as_str();
        let speaks = self.base_agent == program
            || (self.base_agent == BaseAgent::Opencode && provider == "openai");
        if !(own && speaks) {
            let agent = if own { self.base_agent.as_str() } else { self.adapter.as_str() };
            return Err(format!("`{agent}` cannot be held with the provider `{provider}`"));
        }
        match login {
            None => Ok(served.first().copied()),
            Some(login) if served.contains(&login) => Ok(Some(login)),
            Some(login) => {
                let login = login.as_str();
                Err(format!("the login `{login}` does not go with the provider `{provider}`"))
            }
        }
    }
}

/// The agent programs that a stack can name.
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
    /// Babysitter, by an agent manifest.
    Babysitter,
    /// A remote multiplexer, by an agent manifest.
    AgentMuxRemote,
    /// A scripted agent that needs no model.
    Script,
    /// Anything else, by an agent manifest.
    External,
}

impl BaseAgent {
    /// As it is written.
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

/// What a stack tells its agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Prompt {
    /// Who it is.
    pub system: String,
    /// How it works.
    pub developer: String,
    /// What it does unless it is told otherwise.
    pub task: String,
}

/// Instructions in the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentsDocRef {
    /// Where it is; `repository` is all there is.
    pub source: AgentsDocSource,
    /// The file, read from the base commit.
    pub path: String,
}

/// Where instructions come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AgentsDocSource {
    /// The base commit of the repository.
    Repository,
}

/// What happens when a call needs a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalMode {
    /// A person is asked.
    Prompt,
    /// It is denied.
    Deny,
    /// Nobody is asked; what policy denies stays denied.
    Yolo,
    /// As the tool profile says.
    #[default]
    PolicyDerived,
}

/// A label, and the digest it had when it was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelRef {
    /// Its name.
    pub name: String,
    /// Only as long as its text has this digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// Which secrets a stack may use at all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SecretPolicy {
    /// Whether secrets may reach work on forks, where their grant says so too.
    pub allow_on_forks: bool,
    /// The secrets; none when empty.
    pub allowed_secret_refs: Vec<String>,
}

/// The identity of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuntimeIdentity {
    /// Its AgentServiceAccount.
    pub service_account_ref: String,
}

/// What a stack relies on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PermissionRefs {
    /// AgentRoleBindings.
    pub role_bindings: Vec<String>,
    /// AgentSecretGrants.
    pub secret_grants: Vec<String>,
    /// AgentConfigGrants.
    pub config_grants: Vec<String>,
}

/// A way in which work reaches the forge.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBackTarget {
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
    /// A new pull request.
    OpenPullRequest,
    /// A status or check of a commit.
    CheckStatus,
    /// A check is run again.
    CheckRerun,
    /// A workflow is run again.
    WorkflowRerun,
    /// Notes of a release.
    ReleaseNote,
    /// A yes to a deployment.
    DeploymentApproval,
}

impl WriteBackTarget {
    /// Every one.
    pub const ALL: &[Self] = &[
        Self::IssueComment,
        Self::PullRequestComment,
        Self::PullRequestReview,
        Self::BranchPush,
        Self::CreateBranch,
        Self::OpenPullRequest,
        Self::CheckStatus,
        Self::CheckRerun,
        Self::WorkflowRerun,
        Self::ReleaseNote,
        Self::DeploymentApproval,
    ];
}

/// Whether a person is asked before something is written back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBackMode {
    /// It is never written.
    Denied,
    /// It is written at once.
    Auto,
    /// A person is always asked.
    #[default]
    AlwaysApprove,
    /// A person is asked where the origin is not trusted.
    ApproveOnUntrusted,
}

/// What of the work may be written back, and who is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WriteBackPolicy {
    /// Whether a person is asked before anything is written; narrows `modes`, never widens it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_approval: Option<bool>,
    /// What may be written at all; nothing when empty.
    pub allowed_targets: Vec<WriteBackTarget>,
    /// Who is asked, by target; always a person where nothing is said.
    pub modes: BTreeMap<WriteBackTarget, WriteBackMode>,
    /// Whether a person who started a run by hand may approve what it writes; somebody else has to where
    /// this is not said.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dispatcher_may_approve: bool,
}

/// Which files a stack may write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StackScope {
    /// What it may write.
    pub files_whitelist: Vec<String>,
    /// What it may not.
    pub files_denylist: Vec<String>,
}

/// What a run of a stack may use, with all that it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StackBudget {
    /// Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Millionths of a United States dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
    /// Answers of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Minutes on the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u64>,
    /// Tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
}

/// What the control plane knows of a stack.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentStackStatus {
    /// What its adapter can do, in one schema for all adapters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<serde_json::Value>,
    /// Valid, warning or invalid.
    pub validation: Validation,
    /// Why.
    pub conditions: Vec<Condition>,
    /// The generation that all this speaks of.
    pub observed_generation: u64,
}

/// How a declaration stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Validation {
    /// Everything holds.
    Valid,
    /// It can be used, but something should be looked at.
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
        if let Err(message) = self.payment() {
            let field = if self.provider.is_some() { "spec.provider" } else { "spec.login" };
            faults.push(Fault::new(field, message));
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
