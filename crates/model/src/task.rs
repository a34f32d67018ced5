//! `task.toml`: what one agent is to do.

use std::collections::BTreeMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_spanned::Spanned;

use crate::checked;
use crate::issue_name::IssueName;
use crate::name::{AgentId, ParameterName, PhaseName, RoleName};
use crate::problem::{Problem, Source};
use crate::template::ContextLimits;
use crate::toml_file;

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
    /// What must hold when it is done.
    #[serde(default)]
    pub verification: Verification,
    /// What it must return.
    #[serde(default)]
    pub output: Output,
    /// The agent program that does it.
    #[serde(default)]
    pub agent: Agent,
    /// What it may spend.
    #[serde(default)]
    pub budget: Budget,
    /// How its worktree is made ready.
    #[serde(default)]
    pub workspace: Workspace,
    /// Parameters of capabilities of your own, by name.
    #[serde(default)]
    #[schemars(with = "BTreeMap<ParameterName, serde_json::Value>")]
    pub parameters: BTreeMap<Spanned<ParameterName>, toml::Value>,
    /// What it is to do.
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
    /// The agent that asked for this one; none when left out, empty or `null`.
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
    /// What the agent may write; nothing when left out.
    #[schemars(with = "Vec<String>")]
    pub files_whitelist: List<PathPattern>,
    /// What it may not write, though the whitelist has it.
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
    /// How many tests must have run and passed, at the least.
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
    /// How many files it may delete.
    #[schemars(with = "Option<u32>")]
    pub max_deleted_files: Option<Spanned<u32>>,
    /// How long a file may be that the agent wrote, in lines.
    #[schemars(with = "Option<u32>")]
    pub max_file_lines: Option<Spanned<u32>>,
    /// How long a function may be that the agent wrote, in lines.
    #[schemars(with = "Option<u32>")]
    pub max_function_lines: Option<Spanned<u32>>,
    /// How many parameters a function may have that the agent wrote.
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

/// `[agent]`: the agent program, and what it is given.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Agent {
    /// Which one: `claude-code`, `codex`, `gemini`, `opencode`, `script`, or one that a manifest
    /// describes.
    #[schemars(with = "Option<String>")]
    pub cli: Option<Line>,
    /// Which model.
    #[schemars(with = "Option<String>")]
    pub model: Option<Line>,
    /// How hard it thinks, in the program's own words.
    #[schemars(with = "Option<String>")]
    pub effort: Option<Line>,
    /// How it is paid for; an API key that it never sees when left out.
    pub login: Login,
    /// Words that stand before everything else that the model is told.
    pub system_prompt: Option<String>,
    /// Agents that it may start by itself.
    pub sub_agents: Vec<SubAgent>,
    /// Templates whose agents it may start as runs of their own, `*` and `?` match; none when left
    /// out.
    #[schemars(with = "Vec<String>")]
    pub allowed_subagents: Vec<Line>,
    /// MCP servers that it may use, by their names in the `.mcp.json` of the base commit.
    #[schemars(with = "Vec<String>")]
    pub mcp_servers: Vec<Line>,
    /// Variables of your environment that it gets; it sees no other.
    #[schemars(with = "Vec<String>")]
    pub secrets: Vec<Line>,
    /// Variables of your environment whose values arrive in files that only it can read, as long as it is at
    /// work: the path of `TOKEN` is in `TOKEN_FILE`.
    #[schemars(with = "Vec<String>")]
    pub secret_files: Vec<Line>,
    /// Variables of your environment that it gets as well and that anybody may see.
    #[schemars(with = "Vec<String>")]
    pub configs: Vec<Line>,
    /// The same, in files: the path of `RULES` is in `RULES_FILE`.
    #[schemars(with = "Vec<String>")]
    pub config_files: Vec<Line>,
    /// Hosts that it can reach besides the model, as `host:port`.
    #[schemars(with = "Vec<String>")]
    pub hosts: Vec<Line>,
    /// What it may load before it begins; anything when left out.
    pub context: Option<ContextLimits>,
    /// Files of the base commit whose texts it is given with its task, by their paths.
    #[schemars(with = "Vec<String>")]
    pub hand_over: Vec<Line>,
    /// After how many minutes without a sign of life it is ended; 10 when left out.
    #[schemars(range(min = 1))]
    pub idle_minutes: Option<u32>,
    /// What the agent program `script` does, one step after the other.
    pub script: Vec<ScriptStep>,
}

/// How an agent program is paid for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Login {
    /// An API key of your environment, which stays with the supervisor.
    #[default]
    ApiKey,
    /// The login that the program keeps in your home directory; it is copied to the agent.
    Subscription,
    /// Amazon Bedrock, with the AWS variables of your environment.
    Bedrock,
    /// Google Vertex AI, with the Google variables of your environment.
    Vertex,
}

impl Login {
    /// What a word in the file means.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::ApiKey, Self::Subscription, Self::Bedrock, Self::Vertex];
        all.into_iter().find(|login| login.as_str() == word)
    }

    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiKey => "api-key",
            Self::Subscription => "subscription",
            Self::Bedrock => "bedrock",
            Self::Vertex => "vertex",
        }
    }
}

/// `[[agent.sub-agents]]`: an agent that the agent may start by itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SubAgent {
    /// What it is called.
    #[schemars(with = "String")]
    pub name: Line,
    /// When to use it.
    pub description: String,
    /// What it is told.
    pub prompt: String,
    /// The tools that it has; those of the agent when left out.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
    /// Its model; the agent's when left out.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub model: Option<Line>,
}

/// `[[agent.script]]`: one step of a scripted agent, which needs no model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "do")]
pub enum ScriptStep {
    /// Says something.
    Say {
        /// What.
        text: String,
    },
    /// Runs a shell command.
    Shell {
        /// The command.
        command: String,
    },
    /// Makes a file, or replaces its content.
    Write {
        /// The file.
        path: String,
        /// All of its text.
        text: String,
    },
    /// Changes the first place where a file has a text.
    Edit {
        /// The file.
        path: String,
        /// The text that is there.
        old: String,
        /// The text that takes its place.
        new: String,
    },
    /// Looks at a file.
    Read {
        /// The file.
        path: String,
    },
    /// Waits.
    Wait {
        /// How long.
        milliseconds: u64,
    },
    /// Ends with this exit code; 0 comes by itself behind the last step.
    Exit {
        /// The code.
        code: u8,
    },
}

/// `[budget]`: what the agent and all that it starts may spend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Budget {
    /// Tokens, in and out.
    #[schemars(with = "Option<u64>", range(min = 1))]
    #[serde(deserialize_with = "some_positive")]
    pub tokens: Option<u64>,
    /// Money, in United States dollars.
    #[schemars(with = "Option<f64>", range(min = 0.000_001))]
    #[serde(deserialize_with = "some_amount")]
    pub usd: Option<f64>,
    /// Answers of the model.
    #[schemars(with = "Option<u64>", range(min = 1))]
    #[serde(deserialize_with = "some_positive")]
    pub turns: Option<u64>,
    /// Minutes on the clock.
    #[schemars(with = "Option<u64>", range(min = 1))]
    #[serde(deserialize_with = "some_positive")]
    pub minutes: Option<u64>,
    /// Tool calls.
    #[schemars(with = "Option<u64>", range(min = 1))]
    #[serde(deserialize_with = "some_positive")]
    pub tool_calls: Option<u64>,
    /// Whether a run without `tokens`, `usd` and `turns` has none of these limits, in the place of the default.
    pub unlimited: bool,
}

fn some_positive<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    match u64::deserialize(input)? {
        0 => Err(serde::de::Error::custom("a budget of 0 lets nothing start; leave the key out")),
        limit => Ok(Some(limit)),
    }
}

fn some_amount<'de, D: Deserializer<'de>>(input: D) -> Result<Option<f64>, D::Error> {
    let amount = f64::deserialize(input)?;
    if amount.is_finite() && amount > 0.0 {
        Ok(Some(amount))
    } else {
        Err(serde::de::Error::custom("a budget must be more than 0; leave the key out"))
    }
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
    /// The instructions, behind everything that the role says.
    pub text: String,
}

/// A list that remembers where it stands in the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct List<T>(Spanned<Vec<T>>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Spanned::new(0..0, Vec::new()))
    }
}

impl<T> List<T> {
    /// The entries.
    pub fn get(&self) -> &[T] {
        self.0.get_ref()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.get().is_empty()
    }

    /// Where it stands.
    pub fn span(&self) -> Range<usize> {
        self.0.span()
    }

    fn set(&self) -> Option<Range<usize>> {
        (!self.is_empty()).then(|| self.0.span())
    }
}

macro_rules! checked_entry {
    ($(#[$doc:meta])* $name:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(String);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                checked::text(input)
            }
        }

        impl $name {
            /// As it is written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }

        impl From<$name> for String {
            fn from(checked: $name) -> String {
                checked.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                let check: fn(&str) -> Result<(), &'static str> = $check;
                match check(&text) {
                    Ok(()) => Ok(Self(text)),
                    Err(why) => Err(format!("`{text}` {why}")),
                }
            }
        }
    };
}

checked_entry!(
    /// A short text in one line.
    Line,
    |text| {
        if text.trim().is_empty() {
            Err("is empty")
        } else if text.chars().any(char::is_control) {
            Err("has a line break or another control character in it")
        } else if text.chars().count() > 128 {
            Err("is longer than 128 characters")
        } else {
            Ok(())
        }
    }
);

checked_entry!(
    /// The name of a Rust crate.
    CrateName,
    |text| {
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(inside) {
            Ok(())
        } else {
            Err("is not the name of a crate")
        }
    }
);

checked_entry!(
    /// A glob with the meaning it has in .gitignore.
    PathPattern,
    |text| {
        if text.trim().is_empty() {
            Err("is an empty pattern, which would match nothing")
        } else if text.starts_with('!') {
            Err("begins with `!`: a pattern cannot be negated; use files-denylist")
        } else if text.contains(['\0', '\n', '\r']) {
            Err("has a character that no path has")
        } else if text.split('/').any(|part| part == "..") {
            Err("has `..` in it: a pattern cannot leave the repository")
        } else if text.matches("**").count() > 4 || text.matches('*').count() > 32 {
            // Each one more multiplies the ways in which a path can be tried.
            Err("has more than four `**`, or more than 32 `*`: say it more simply")
        } else {
            Ok(())
        }
    }
);

checked_entry!(
    /// A path inside the repository.
    RelativePath,
    |text| {
        if text.trim().is_empty() || text.starts_with('/') {
            Err("is not a path relative to the repository's root")
        } else if text.contains('\0') || text.split('/').any(|part| part == ".." || part == ".git") {
            Err("has `..` or `.git` in it: it cannot leave the repository")
        } else {
            Ok(())
        }
    }
);

checked_entry!(
    /// A command line for `/bin/sh -c`.
    ShellCommand,
    |text| {
        if text.trim().is_empty() {
            Err("is empty: it would check nothing")
        } else if text.contains('\0') {
            Err("has a NUL in it")
        } else {
            Ok(())
        }
    }
);

impl Task {
    /// Reads a task. The seed's literal `parent-agent = null` is no TOML, yet taken as "none".
    pub fn parse(source: &Source) -> Result<Self, Problem> {
        match toml_file::parse(source) {
            Err(problem) => match null_parent_as_empty(source, &problem) {
                Some(mended) => toml_file::parse(&mended).map_err(|later| later.shown_in(source)),
                None => Err(problem),
            },
            read => read,
        }
    }

    /// Everything that is wrong with a task of which this was found first.
    pub fn problems(source: &Source, first: Problem) -> Vec<Problem> {
        let mended = Source::new(source.file.clone(), Self::normalised_text(source));
        match toml_file::parse_all::<Self>(&mended) {
            Ok(_) => vec![first],
            Err(all) => all.into_iter().map(|problem| problem.shown_in(source)).collect(),
        }
    }

    /// The text with a literal `parent-agent = null` made TOML; unchanged where there is none.
    pub fn normalised_text(source: &Source) -> String {
        let problem = toml_file::syntax(source).err();
        problem
            .and_then(|problem| null_parent_as_empty(source, &problem))
            .map_or_else(|| source.text.to_string(), |mended| mended.text.to_string())
    }

    /// The parameters that it sets, each with its place in the file.
    pub fn parameters_set(&self) -> Vec<(String, Range<usize>)> {
        let Verification {
            cargo_check_crates,
            cargo_test_crates,
            test_count_min,
            commands,
            allow_dependency_changes,
            test_changes,
            max_deleted_files,
            max_file_lines,
            max_function_lines,
            max_parameters,
        } = &self.verification;
        let number = |value: &Option<Spanned<u32>>| value.as_ref().map(Spanned::span);
        let built_in = [
            ("files-whitelist", self.scope.files_whitelist.set()),
            ("files-denylist", self.scope.files_denylist.set()),
            ("cargo-check-crates", cargo_check_crates.set()),
            ("cargo-test-crates", cargo_test_crates.set()),
            ("test-count-min", number(test_count_min)),
            ("commands", commands.set()),
            ("allow-dependency-changes", allow_dependency_changes.as_ref().map(Spanned::span)),
            ("test-changes", test_changes.as_ref().map(Spanned::span)),
            ("max-deleted-files", number(max_deleted_files)),
            ("max-file-lines", number(max_file_lines)),
            ("max-function-lines", number(max_function_lines)),
            ("max-parameters", number(max_parameters)),
            ("report-fields-required", self.output.report_fields_required.set()),
        ];
        let built_in =
            built_in.into_iter().filter_map(|(name, span)| Some((name.to_owned(), span?)));
        let own = self.parameters.keys().map(|name| (name.get_ref().to_string(), name.span()));
        built_in.chain(own).collect()
    }
}

/// Replaces the `null` at which the TOML parser stopped by an empty string of the same width, so
/// that every other place in the file keeps its line and column.
fn null_parent_as_empty(source: &Source, problem: &Problem) -> Option<Source> {
    let start = problem.place.span.as_ref()?.start;
    let (before, after) = (source.text.get(..start)?, source.text.get(start..)?);
    let line = before.rsplit('\n').next()?;
    let key = line.trim().strip_suffix('=')?.trim();
    let rest = after.strip_prefix("null")?;
    let ends = rest.lines().next().unwrap_or_default().trim_start();
    let whole = key == "parent-agent" && (ends.is_empty() || ends.starts_with('#'));
    whole.then(|| Source::new(source.file.clone(), format!("{before}\"\"  {rest}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Task, Problem> {
        Task::parse(&Source::new("task.toml", text))
    }

    #[test]
    fn null_empty_and_absent_parents_all_mean_none() {
        for parent in
            ["parent-agent = null", "parent-agent = null  # none", "parent-agent = \"\"", ""]
        {
            let task = read(&format!("[task]\nrole = \"x\"\n{parent}\n[body]\ntext = \"go\"\n"));
            assert_eq!(task.unwrap().task.parent_agent, None, "{parent}");
        }
        let some = read("[task]\nrole = \"x\"\nparent-agent = \"ag-1\"\n").unwrap();
        assert_eq!(some.task.parent_agent.unwrap().as_str(), "ag-1");
    }

    #[test]
    fn null_elsewhere_is_an_error_and_in_a_body_it_is_text() {
        assert!(read("[task]\nrole = null\n").is_err());
        assert!(read("[task]\nrole = \"x\"\nparent-agent = nullify\n").is_err());
        let text = "[task]\nrole = \"x\"\n[body]\ntext = \"\"\"\nparent-agent = null\n\"\"\"\n";
        assert_eq!(read(text).unwrap().body.text, "parent-agent = null\n");
    }

    #[test]
    fn a_mended_null_moves_no_other_line() {
        let text = "[task]\nrole = \"x\"\nparent-agent = null\nrolle = \"y\"\n";
        let problem = read(text).unwrap_err();
        assert_eq!(
            (problem.code, problem.place.to_string().as_str()),
            ("unknown-key", "task.toml:4:1")
        );
        assert!(problem.place.source.text.contains("parent-agent = null"), "as it is written");
        assert!(Task::normalised_text(&Source::new("t", text)).contains("parent-agent = \"\""));
    }

    #[test]
    fn the_typo_that_once_allowed_everything_is_an_error() {
        let text = "[task]\nrole = \"x\"\n[scope]\nfiles_whitelist = [\"a/**\"]\n";
        let problem = read(text).unwrap_err();
        assert_eq!(problem.place.to_string(), "task.toml:4:1");
        assert!(problem.help.unwrap().contains("`files-whitelist`"));
    }

    #[test]
    fn patterns_stay_inside_the_repository() {
        for bad in ["", "../x", "a/../../b", "!a", "a\\nb", "**/a/**/b/**/c/**/d/**"] {
            let text = format!("[task]\nrole = \"x\"\n[scope]\nfiles-whitelist = [\"{bad}\"]\n");
            assert!(read(&text).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn only_what_is_set_counts_as_a_parameter() {
        let text = "[task]\nrole = \"x\"\n[verification]\ncargo-test-crates = []\ntest-count-min = 3\n\
                    [parameters]\nhouse-style = \"tabs\"\n";
        let names: Vec<String> =
            read(text).unwrap().parameters_set().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["test-count-min", "house-style"]);
    }

    #[test]
    fn a_budget_of_nothing_is_refused() {
        for bad in ["tokens = 0", "usd = 0.0", "usd = nan", "usd = -1.0", "turns = -1"] {
            assert!(read(&format!("[task]\nrole = \"x\"\n[budget]\n{bad}\n")).is_err(), "{bad}");
        }
        assert!(read("[task]\nrole = \"x\"\n[budget]\nusd = 2.5\nturns = 9\n").is_ok());
    }
}
