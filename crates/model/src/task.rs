//! `task.toml`: the task of one agent.

mod agent;
mod budget;
mod entry;
mod parse;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_spanned::Spanned;

use crate::issue_name::IssueName;
use crate::name::{AgentId, ParameterName, PhaseName, RoleName};

pub use agent::{Agent, Login, ScriptStep, SubAgent};
pub use budget::Budget;
pub use entry::{CrateName, InvalidEntry, Line, List, PathPattern, RelativePath, ShellCommand};

/// A task as its file declares it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "task.toml")]
pub struct Task {
    /// Who does it.
    pub task: Header,
    /// Which files it is about.
    #[serde(default)]
    pub scope: Scope,
    /// The checks of its result.
    #[serde(default)]
    pub verification: Verification,
    /// The required parts of its report.
    #[serde(default)]
    pub output: Output,
    /// The agent program that does it.
    #[serde(default)]
    pub agent: Agent,
    /// The limits on its usage.
    #[serde(default)]
    pub budget: Budget,
    /// How its worktree is prepared.
    #[serde(default)]
    pub workspace: Workspace,
    /// Parameters of your own capabilities, by name.
    #[serde(default)]
    #[schemars(with = "BTreeMap<ParameterName, serde_json::Value>")]
    pub parameters: BTreeMap<Spanned<ParameterName>, toml::Value>,
    /// The instructions.
    #[serde(default)]
    pub body: Body,
}

/// `[task]`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Header {
    /// The role that binds the agent.
    #[schemars(with = "RoleName")]
    pub role: Spanned<RoleName>,
    /// More roles whose capabilities bind the agent as well: those of the agents above it.
    #[serde(default)]
    #[schemars(with = "Vec<RoleName>")]
    pub bound_by: Vec<Spanned<RoleName>>,
    /// The agent's id; generated if left out or empty.
    #[serde(default, deserialize_with = "empty_as_none")]
    #[schemars(with = "Option<String>")]
    pub agent_id: Option<AgentId>,
    /// The agent that started this one; none when left out, empty or `null`.
    #[serde(default, deserialize_with = "empty_as_none")]
    #[schemars(with = "Option<String>")]
    pub parent_agent: Option<AgentId>,
    /// The commit whose kit and settings bind the agent, in full; the one that it starts from when left out.
    /// Work that is not trusted is bound by another commit than its own.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub kit_commit: Option<Line>,
    /// Another `subagent_type` for Claude Code's Agent tool than the role's.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub claude_subagent_type: Option<Line>,
    /// The issue that the work is bound to: `#3` in this repository, or `owner/name#42` on a forge.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub issue: Option<IssueName>,
    /// The phase that the issue is in when the work has passed: its label `phase::<name>`.
    #[serde(default)]
    pub phase: Option<PhaseName>,
    /// The milestone that the issue has when the work has passed, by its number on the forge.
    #[serde(default)]
    pub milestone: Option<u64>,
}

fn empty_as_none<'de, D: Deserializer<'de>>(input: D) -> Result<Option<AgentId>, D::Error> {
    let text = String::deserialize(input)?;
    if text.is_empty() {
        return Ok(None);
    }
    AgentId::parse(&text).map(Some).map_err(serde::de::Error::custom)
}

/// `[scope]`: globs with the meaning they have in .gitignore, from the repository's root.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Scope {
    /// The files that the agent may write; none when left out.
    #[schemars(with = "Vec<String>")]
    pub files_whitelist: List<PathPattern>,
    /// Exceptions from the whitelist, which it may not write.
    #[schemars(with = "Vec<String>")]
    pub files_denylist: List<PathPattern>,
}

/// `[verification]`
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Verification {
    /// The crates that `cargo check` must pass for; the whole workspace when empty.
    #[schemars(with = "Vec<String>")]
    pub cargo_check_crates: List<CrateName>,
    /// The crates whose tests must pass.
    #[schemars(with = "Vec<String>")]
    pub cargo_test_crates: List<CrateName>,
    /// The minimum number of tests that must have run and passed.
    #[schemars(with = "Option<u32>")]
    pub test_count_min: Option<Spanned<u32>>,
    /// Shell commands that must exit 0 in the root of the tree that is checked.
    #[schemars(with = "Vec<String>")]
    pub commands: List<ShellCommand>,
    /// Lets the task change dependencies.
    #[schemars(with = "Option<bool>")]
    pub allow_dependency_changes: Option<Spanned<bool>>,
    /// Whether the task may remove, skip or reconfigure tests; `refused` when left out.
    #[schemars(with = "Option<TestChanges>")]
    pub test_changes: Option<Spanned<TestChanges>>,
    /// The maximum number of files that it may delete.
    #[schemars(with = "Option<u32>")]
    pub max_deleted_files: Option<Spanned<u32>>,
    /// The maximum length of a file that the agent wrote, in lines.
    #[schemars(with = "Option<u32>")]
    pub max_file_lines: Option<Spanned<u32>>,
    /// The maximum length of a function that the agent wrote, in lines.
    #[schemars(with = "Option<u32>")]
    pub max_function_lines: Option<Spanned<u32>>,
    /// The maximum number of parameters of a function that the agent wrote.
    #[schemars(with = "Option<u32>")]
    pub max_parameters: Option<Spanned<u32>>,
}

/// Whether tests may be removed, skipped or configured otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum TestChanges {
    /// They fail `quality::tests-kept`.
    Refused,
    /// They are named, and pass.
    Allowed,
}

/// `[output]`
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Output {
    /// The fields that the agent's report must have.
    #[schemars(with = "Vec<String>")]
    pub report_fields_required: List<Line>,
}

/// `[workspace]`: how the worktree is made ready before the agent starts.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Workspace {
    /// Files and directories that git does not track, copied from the checkout into the worktree.
    #[schemars(with = "Vec<String>")]
    pub copy: List<RelativePath>,
    /// Shell commands that install what the project needs, run once on the base commit; the agent and
    /// every check see the result.
    #[schemars(with = "Vec<String>")]
    pub setup: List<ShellCommand>,
    /// Hosts that the setup can reach besides the package registries, as `host:port`.
    #[schemars(with = "Vec<String>")]
    pub hosts: Vec<Line>,
    /// Shell commands that fetch dependencies before checks run without a network.
    #[schemars(with = "Vec<String>")]
    pub prefetch: List<ShellCommand>,
}

/// `[body]`
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Body {
    /// The instructions, after those of the role.
    pub text: String,
}
#[cfg(test)]
mod tests;
