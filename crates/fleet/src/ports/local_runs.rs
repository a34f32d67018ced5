//! The agents of this machine, as the API shows them: those that `bailiwick ps` lists, with or without a control plane.

use std::fmt::Debug;

use bailiwick_model::Event;
use bailiwick_resources::Moment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{
    LocalAction, LocalArtifacts, LocalClaims, LocalExplanation, LocalLineage, LocalRunContext,
    LocalRunCost, LocalRunCounts, LocalRunPolicy, LocalRunStage, LocalVerb, MeasuredRun,
};

/// Why a request about an agent of this machine failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LocalRunError {
    /// There is no such agent or question.
    #[error("{0}")]
    NotFound(String),
    /// The agent is not in a state that permits it.
    #[error("{message}")]
    Refused {
        /// What is wrong, in one sentence.
        message: String,
        /// The way out, if there is one.
        advice: Option<String>,
    },
    /// It failed here or now.
    #[error("{0}")]
    Unavailable(String),
}

/// What an agent waits for, from a person's point of view.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum LocalRunGroup {
    /// A person must answer, decide or repair something.
    NeedsYou,
    /// The agent works.
    Working,
    /// The agent was spawned and not started.
    Ready,
    /// Nothing more happens by itself, and nothing waits.
    Ended,
}

/// What a run used. Its attempts are added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRunUsage {
    /// Tokens, in and out.
    pub tokens: u64,
    /// Millionths of a United States dollar; 0 if the price is unknown.
    pub micro_usd: u64,
    /// Answers of the model.
    pub turns: u64,
    /// Tool calls that were decided.
    pub tool_calls: u64,
    /// Tool calls that were denied.
    pub denied: u64,
    /// The duration of all attempts in milliseconds.
    pub elapsed_ms: u64,
}

/// What a run may use; a limit that is left out does not exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRunBudget {
    /// Tokens, in and out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Millionths of a United States dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
    /// Answers of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
}

/// An agent of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRun {
    /// The ID, unique on this machine.
    pub id: String,
    /// The name in its repository.
    pub name: String,
    /// The directory of the repository; empty if it is unknown.
    pub repository: String,
    /// The state, as `bailiwick ps` and `bailiwick status` show it.
    pub state: String,
    /// What the agent waits for.
    pub group: LocalRunGroup,
    /// How far its work is.
    pub stage: LocalRunStage,
    /// The next command for a person, without `bailiwick`; none if there is nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Whether it is an attempt of a run of the control plane, which decides about its work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_managed: bool,
    /// The role that limits the agent; empty if the task is unknown.
    pub role: String,
    /// The branch of the agent.
    pub branch: String,
    /// The commit on which the agent started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The agent or branch that it was started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The agent CLI of the latest attempt; empty before the first one.
    pub agent: String,
    /// The version of the agent CLI.
    pub agent_version: String,
    /// The model; empty if the agent CLI chooses.
    pub model: String,
    /// The level of the sandbox.
    pub sandbox: String,
    /// The number of attempts.
    pub attempts: u64,
    /// When the run was created.
    pub created_at: Moment,
    /// When the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Moment>,
    /// What all attempts used.
    pub used: LocalRunUsage,
    /// What the run may use.
    pub budget: LocalRunBudget,
    /// The number of questions that wait for a person.
    pub questions: u64,
    /// The last words of the agent, or why the run failed.
    pub summary: String,
}

/// One execution of an agent CLI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalAttempt {
    /// The number, counted from 1.
    pub number: u64,
    /// The agent CLI.
    pub agent: String,
    /// The version of the agent CLI.
    pub agent_version: String,
    /// The model; empty if the agent CLI chooses.
    pub model: String,
    /// How the model is paid for.
    pub login: String,
    /// The level of the sandbox.
    pub sandbox: String,
    /// The phase: `preparing`, `proving`, `working`, `verifying` or `over`.
    pub phase: String,
    /// How it ended; none while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
    /// The ending in words.
    pub detail: String,
    /// When it started.
    pub started_at: Moment,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Moment>,
    /// What it used.
    pub used: LocalRunUsage,
}

/// An agent of this machine with its attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRunDetail {
    /// The agent.
    pub run: LocalRun,
    /// The attempts, the oldest first.
    pub attempts: Vec<LocalAttempt>,
    /// The task as it was given; empty if it is unknown.
    pub task: String,
    /// The identity of the agent.
    pub dna: String,
    /// The directory in which the agent works; empty if it is unknown.
    pub worktree: String,
    /// The number of the last event.
    pub last_event: u64,
    /// Every action, with the reason if it is not possible now.
    pub actions: Vec<LocalAction>,
}

/// Which agents to list, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalRunQuery {
    /// Only this group.
    pub group: Option<LocalRunGroup>,
    /// Only agents with this text in the name, role, agent CLI, model or repository.
    pub text: Option<String>,
    /// The cursor from the previous page.
    pub after: Option<String>,
    /// The size of a page.
    pub limit: usize,
}

/// A page of agents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRunList {
    /// The agents, the newest first.
    pub items: Vec<LocalRun>,
    /// The cursor of the next page; none on the last page.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// How many agents there are, on all pages; none if a filter is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// Events of an agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRunEvents {
    /// The events, the oldest first, as `bailiwick logs -o json` prints them.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub events: Vec<Event>,
    /// The number of the last event of the agent.
    pub last: u64,
    /// Whether the agent is not running: no more events follow unless it is started again.
    pub ended: bool,
    /// After which number a search continues; none if it has examined every event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Events that people look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LocalEventFilter {
    /// Tool calls that were denied.
    Denied,
    /// Files that were written.
    Writes,
    /// Commands.
    Commands,
    /// What failed.
    Errors,
}

impl LocalEventFilter {
    /// Every filter.
    pub const ALL: [Self; 4] = [Self::Denied, Self::Writes, Self::Commands, Self::Errors];

    /// The word in addresses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Writes => "writes",
            Self::Commands => "commands",
            Self::Errors => "errors",
        }
    }
}

/// Which events of an agent to find.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalEventQuery {
    /// Only events after this number.
    pub after: u64,
    /// At most this many.
    pub limit: u32,
    /// Only events of this kind.
    pub filter: Option<LocalEventFilter>,
    /// Only events with this text, in any case.
    pub text: String,
}

/// A check of an agent's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalCheck {
    /// The capability.
    pub capability: String,
    /// Whether the tree is the work merged onto the base, and not the work as it is.
    pub merged: bool,
    /// Whether it passed.
    pub passed: bool,
    /// What was measured, or why it failed.
    pub found: String,
    /// The output of a failed check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Whether the verdict was reached before, on the same tree with the same parameters.
    pub reused: bool,
}

/// A verification of an agent's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalVerification {
    /// When it ended.
    pub at: Moment,
    /// The branch that the work is to land on; empty if it is unknown.
    pub base_branch: String,
    /// The commit of the branch.
    pub base: String,
    /// The commit with the work.
    pub work: String,
    /// The tree of the work.
    pub tree: String,
    /// The tree that would land.
    pub merged_tree: String,
    /// The checks; failed ones first.
    pub checks: Vec<LocalCheck>,
    /// Checks that were left out.
    pub left_out: Vec<String>,
}

/// The verifications of an agent's work.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalVerifications {
    /// The verifications, the newest first.
    pub items: Vec<LocalVerification>,
}

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalFileChange {
    /// The path in the repository.
    pub path: String,
    /// The previous path of a renamed file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<String>,
    /// Added lines; none if the file is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<u64>,
    /// Removed lines; none if the file is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
}

/// What an agent changed, committed or not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRunDiff {
    /// The changed files.
    pub files: Vec<LocalFileChange>,
    /// New files outside of the agent's scope, which do not land.
    pub left_out: Vec<String>,
    /// The whole change as `git diff` prints it.
    pub patch: String,
}

/// A question of an agent that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalQuestion {
    /// The ID of the agent.
    pub run: String,
    /// The name of the agent in its repository.
    pub name: String,
    /// The directory of the repository; empty if it is unknown.
    pub repository: String,
    /// The ID of the question; it is unique for the agent.
    pub question: String,
    /// What is asked, as the agent's tool call says.
    pub about: String,
    /// When it was asked; none if the event is not stored yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Moment>,
    /// When it is denied without an answer; none if the supervisor of the agent does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Moment>,
    /// The number of the event, for a link to the transcript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// The tool and its input exactly as the model asked for them, if the call was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<LocalToolCall>,
    /// The rule that asks, if the policy of the agent says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<LocalAskingRule>,
}

/// Why a person is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalAskingRule {
    /// The rule.
    pub rule: String,
    /// Why, in one sentence.
    pub reason: String,
}

/// A tool call of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalToolCall {
    /// The tool.
    pub tool: String,
    /// The input.
    pub input: serde_json::Value,
}

/// The questions that wait for a person.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalQuestions {
    /// The questions, the oldest first.
    pub items: Vec<LocalQuestion>,
}

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LocalAnswer {
    /// The call may run.
    Approve,
    /// The call is denied.
    Deny,
}

/// A person's answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LocalAnswerRequest {
    /// The answer.
    pub answer: LocalAnswer,
    /// What is asked, as the person saw it; the answer is refused if it is another.
    pub about: String,
    /// The reason of a denial; the agent is told.
    #[serde(default)]
    pub reason: String,
}

/// The result of an action or an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalOutcome {
    /// The ID of the agent; of the new one after a respawn.
    pub run: String,
    /// What was done, in one sentence.
    pub message: String,
}

/// The agents of this machine. The calls block: they read files, run git and wait for supervisors.
pub trait LocalRuns: Debug + Send + Sync + 'static {
    /// Lists agents, the newest first.
    fn list(&self, query: &LocalRunQuery) -> Result<LocalRunList, LocalRunError>;

    /// Counts all agents by stage.
    fn count(&self) -> Result<LocalRunCounts, LocalRunError>;

    /// Reads an agent.
    fn read(&self, run: &str) -> Result<LocalRunDetail, LocalRunError>;

    /// Reads events after a number.
    fn events(&self, run: &str, after: u64, limit: u32) -> Result<LocalRunEvents, LocalRunError>;

    /// Finds events.
    fn search(&self, run: &str, query: &LocalEventQuery) -> Result<LocalRunEvents, LocalRunError>;

    /// Reads the verifications of an agent's work.
    fn verifications(&self, run: &str) -> Result<LocalVerifications, LocalRunError>;

    /// Reads what an agent changed.
    fn diff(&self, run: &str) -> Result<LocalRunDiff, LocalRunError>;

    /// Reads what an agent was told.
    fn context(&self, run: &str) -> Result<LocalRunContext, LocalRunError>;

    /// Reads the limits of an agent.
    fn policy(&self, run: &str) -> Result<LocalRunPolicy, LocalRunError>;

    /// Says what the policy of an agent decides about a command. Nothing is run.
    fn explain(&self, run: &str, command: &str) -> Result<LocalExplanation, LocalRunError>;

    /// Reads what an agent has used.
    fn cost(&self, run: &str) -> Result<LocalRunCost, LocalRunError>;

    /// Reads where an agent comes from, and which agents come from it.
    fn lineage(&self, run: &str) -> Result<LocalLineage, LocalRunError>;

    /// Lists the files of an agent that can be read.
    fn artifacts(&self, run: &str) -> Result<LocalArtifacts, LocalRunError>;

    /// Reads a file of an agent.
    fn artifact(&self, run: &str, name: &str) -> Result<Vec<u8>, LocalRunError>;

    /// Lists the questions that wait; of one agent, or of all.
    fn questions(&self, run: Option<&str>) -> Result<LocalQuestions, LocalRunError>;

    /// Lists the claims that are in force.
    fn claims(&self) -> Result<LocalClaims, LocalRunError>;

    /// Measures the runs that were created since a time, at most `limit` of them, the newest first.
    fn measure(&self, since: Moment, limit: usize) -> Result<Vec<MeasuredRun>, LocalRunError>;

    /// Answers a question.
    fn answer(
        &self,
        run: &str,
        question: &str,
        request: &LocalAnswerRequest,
    ) -> Result<LocalOutcome, LocalRunError>;

    /// Performs an action; `tell` gets each step of a long one.
    fn act(
        &self,
        run: &str,
        verb: LocalVerb,
        text: &str,
        tell: &mut dyn FnMut(String),
    ) -> Result<LocalOutcome, LocalRunError>;
}
