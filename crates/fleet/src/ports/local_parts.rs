//! What the page of a run shows besides its transcript: context, policy, cost, lineage and artifacts.

use bailiwick_resources::Moment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an agent was told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRunContext {
    /// The texts that the prompt was made from, in order.
    pub layers: Vec<LocalContextLayer>,
    /// Why layers are missing; none if all are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The prompt as the agent was given it; none if its file was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<LocalContextLayer>,
}

/// A text that an agent was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalContextLayer {
    /// What it is: `task`, `capability`, `source`, `skill` or `prompt`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Where it comes from: a file, or a file of a commit.
    pub origin: String,
    /// Its SHA-256 in hexadecimal; of a skill the commit or the package.
    pub digest: String,
    /// Its size.
    pub bytes: u64,
    /// The text; empty for a skill, which has several files.
    pub text: String,
}

/// The limits of an agent, as they were compiled when it was created.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRunPolicy {
    /// The SHA-256 of the policy file.
    pub digest: String,
    /// The role.
    pub role: String,
    /// The rules, in the order in which they decide.
    pub rules: Vec<LocalRule>,
    /// Where files may be written; globs.
    pub writable: Vec<String>,
    /// Where files may not be written; globs.
    pub denied: Vec<String>,
    /// The tools that may be used, as globs; none if the role does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The tools and commands that a person must approve each time.
    pub approval: Vec<String>,
    /// Whether nothing at all may be written.
    pub is_read_only: bool,
    /// Rules that were switched off when the policy was compiled.
    pub bypassed: Vec<String>,
}

/// A rule of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRule {
    /// Its name.
    pub rule: String,
    /// The file that states it; empty if its commit cannot be read any more.
    pub file: String,
    /// What happens to a call that it objects to: `block`, `warn` or `advisory`.
    pub severity: String,
    /// What enforces it: `text` or `kernel`.
    pub enforced_by: String,
    /// The tools that it looks at; globs.
    pub tools: Vec<String>,
    /// The commands that it denies.
    pub commands: Vec<String>,
    /// The agent or limit above this agent that it belongs to; none if it is the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<String>,
}

/// What the policy of an agent says to a command. Nothing is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalExplanation {
    /// The decision: `allow`, `ask` or `deny`.
    pub decision: String,
    /// The rule that decided; none if no rule objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why; empty if no rule objects.
    pub reason: String,
    /// What the agent may do instead; empty if no rule objects.
    pub instead: String,
    /// The programs that the command would run.
    pub runs: Vec<String>,
    /// The files that it would write.
    pub writes: Vec<String>,
    /// What cannot be seen from the command, and is left to the sandbox.
    pub left_to_sandbox: Vec<String>,
    /// What each rule that applies says.
    pub verdicts: Vec<LocalVerdict>,
    /// The sandbox level that the answer holds for: that of the last attempt. None before the first attempt, when the
    /// answer is that of no sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
}

/// What one rule says to a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalVerdict {
    /// The rule.
    pub rule: String,
    /// `allow`, `deny`, `warn` or `advisory`.
    pub verdict: String,
    /// Why; empty if it does not object.
    pub reason: String,
    /// What the agent may do instead; empty if it does not object.
    pub instead: String,
}

/// What an agent and the agents below it have used, over time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRunCost {
    /// Responses of models, the oldest first.
    pub points: Vec<LocalCostPoint>,
    /// Whether older responses are left out because there are too many.
    pub is_incomplete: bool,
    /// The sum of each agent: this one, its sub-agents, and the agents that it started.
    pub agents: Vec<LocalAgentCost>,
}

/// What one response of a model used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalCostPoint {
    /// When.
    pub at: Moment,
    /// The sub-agent; none for the agent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model, as it names itself.
    pub model: String,
    /// Tokens, in and out.
    pub tokens: u64,
}

/// What one agent has used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalAgentCost {
    /// The ID of the agent, or the name of the sub-agent.
    pub agent: String,
    /// Whether it is an agent with a page of its own.
    pub is_run: bool,
    /// Responses of models; none if they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responses: Option<u64>,
    /// Tokens, in and out.
    pub tokens: u64,
    /// Millionths of a United States dollar; none if the price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
}

/// Where an agent comes from, and which agents come from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalLineage {
    /// The agents, each after the one that it comes from.
    pub items: Vec<LocalRelative>,
    /// Whether agents are left out because there are too many.
    pub is_incomplete: bool,
}

/// An agent of a lineage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRelative {
    /// The ID.
    pub run: String,
    /// The name in its repository.
    pub name: String,
    /// The state as in the record: `running`, `done`, `failed`, `merged` or `rejected`.
    pub state: String,
    /// The ID of the agent that it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// How it comes from it; none for the first agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation: Option<LocalRelation>,
    /// How far it is from the first agent.
    pub depth: u32,
    /// When it was created.
    pub created_at: Moment,
}

/// How an agent comes from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LocalRelation {
    /// The other agent started it.
    Started,
    /// It is another attempt at the same task.
    Respawned,
}

/// The files of an agent that can be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalArtifacts {
    /// The files.
    pub items: Vec<LocalArtifact>,
}

/// A file of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalArtifact {
    /// Its name, for its address.
    pub name: String,
    /// What it is, in one sentence.
    pub about: String,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256 in hexadecimal; empty if it cannot be read.
    pub digest: String,
    /// Why it cannot be read; none if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}
