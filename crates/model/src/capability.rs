//! `capability.toml`: one limit or duty, with its text, its gate and its check.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_spanned::Spanned;

use crate::name::{CapabilityName, Category, ParameterName};

/// A capability as its file declares it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "capability.toml")]
pub struct Capability {
    /// What it is called and why it exists.
    pub capability: Header,
    /// What it forbids by name or pattern.
    #[serde(default)]
    pub restricts: Restricts,
    /// What a task may set for it.
    #[serde(default)]
    pub parameterized: Parameterized,
    /// What the agent is told.
    #[serde(default)]
    pub text: Text,
    /// How a tool call is stopped.
    #[serde(default)]
    #[schemars(with = "Option<Gate>")]
    pub gate: Option<Spanned<Gate>>,
    /// How the work is checked.
    #[serde(default)]
    #[schemars(with = "Option<Verify>")]
    pub verify: Option<Spanned<Verify>>,
    /// The capability that it was forked from.
    #[serde(default)]
    pub lineage: Option<Lineage>,
    /// The classification by other kits; it limits and grants nothing.
    #[serde(default)]
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub taxonomy: Option<toml::Table>,
}

/// `[capability]`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// `<category>::<slug>`
    #[schemars(with = "CapabilityName")]
    pub name: Spanned<CapabilityName>,
    /// The part in front of `::`, once more.
    #[schemars(with = "Category")]
    pub category: Spanned<Category>,
    /// `<major>.<minor>`
    #[serde(default = "first_version")]
    #[schemars(with = "String", regex(pattern = r"^[0-9]+\.[0-9]+(\.[0-9]+)?$"))]
    pub version: Spanned<String>,
    /// One sentence.
    pub description: String,
    /// Why it exists.
    #[serde(default)]
    pub rationale: String,
}

fn first_version() -> Spanned<String> {
    Spanned::new(0..0, "1.0".to_owned())
}

/// `[restricts]`
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Restricts {
    /// Regular expressions; a command that one of them matches is forbidden.
    #[schemars(with = "Vec<String>")]
    pub tool_patterns: Vec<Spanned<String>>,
    /// Tools that are forbidden altogether.
    #[schemars(with = "Vec<String>")]
    pub tools_denied: Vec<Spanned<String>>,
}

impl Restricts {
    /// Whether it forbids nothing.
    pub fn is_empty(&self) -> bool {
        self.tool_patterns.is_empty() && self.tools_denied.is_empty()
    }
}

/// `[parameterized]`
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Parameterized {
    /// The parameters of a task that mean something to this capability.
    #[schemars(with = "Vec<ParameterName>")]
    pub accepts: Vec<Spanned<ParameterName>>,
}

/// `[text]`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// The prompt fragment, relative to the capability's directory.
    #[schemars(with = "String")]
    pub path: Spanned<String>,
}

impl Default for Text {
    fn default() -> Self {
        Self { path: Spanned::new(0..0, "text.md".to_owned()) }
    }
}

/// `[gate]`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Gate {
    /// The compiled gate, `gates::<module>`; empty if `[restricts]` is all there is.
    #[serde(default = "empty")]
    #[schemars(with = "String")]
    pub rust_module: Spanned<String>,
    /// `PreToolUse:` and the tools it looks at, joined by `|`.
    #[schemars(
        with = "String",
        regex(pattern = r"^PreToolUse:[A-Za-z0-9_*?-]+(\|[A-Za-z0-9_*?-]+)*$")
    )]
    pub event: Spanned<String>,
    /// What happens to a call that it denies.
    #[serde(default)]
    pub severity: GateSeverity,
    /// The environment variable that switches it off with the value `1`.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub bypass_env: Option<Spanned<String>>,
}

fn empty() -> Spanned<String> {
    Spanned::new(0..0, String::new())
}

impl Gate {
    /// The tools that it applies to, if the event is well-formed.
    pub fn tools(&self) -> Option<Vec<&str>> {
        let tools = self.event.get_ref().strip_prefix("PreToolUse:")?;
        let tools: Vec<&str> = tools.split('|').collect();
        let named = |tool: &&str| {
            !tool.is_empty()
                && tool.chars().all(|c| c.is_ascii_alphanumeric() || "_-*?".contains(c))
        };
        tools.iter().all(named).then_some(tools)
    }
}

/// What happens to a call that a gate denies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GateSeverity {
    /// It does not run. Other kits write `enforce`.
    #[default]
    #[serde(alias = "enforce")]
    Block,
    /// The call runs, and the agent receives the reason.
    Warn,
    /// The call runs, and the log records the reason.
    Advisory,
}

/// `[verify]`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Verify {
    /// The check that is compiled in, `verifies::<module>`; empty when `command` is the check.
    #[serde(default = "empty")]
    #[schemars(with = "String")]
    pub rust_module: Spanned<String>,
    /// A shell command that must exit 0 in the root of the tree that is checked.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub command: Option<Spanned<String>>,
    /// The tree to check; `both` for `quality::*` and `scope::*` if left out, `worktree` for the others.
    #[serde(default)]
    pub run_mode: Option<RunMode>,
    /// When it runs.
    #[serde(default)]
    pub when: When,
}

/// The tree that a check measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunMode {
    /// The tree that the agent saw.
    Worktree,
    /// The tree that would land.
    SimulatedMerge,
    /// The worktree first, then the tree that would land.
    Both,
}

/// When a check runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// Once the agent has returned.
    #[default]
    OnReturn,
    /// After each tool call as well.
    PerToolCall,
}

/// `[lineage]`, written by `fork`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lineage {
    /// The capability that this is a copy of.
    #[serde(default)]
    pub fork_from: Option<CapabilityName>,
    /// The capabilities that it descends from.
    #[serde(default)]
    pub parents: Vec<CapabilityName>,
    /// Who made the copy.
    #[serde(default)]
    pub creator: String,
    /// When, in ISO 8601 and UTC.
    #[serde(default)]
    pub created: String,
}

impl Capability {
    /// Its name.
    pub fn name(&self) -> &CapabilityName {
        self.capability.name.get_ref()
    }

    /// Whether it can deny a tool call: by a compiled gate or by `[restricts]`.
    pub fn has_gate(&self) -> bool {
        let module = self.gate.as_ref().map(|gate| gate.get_ref().rust_module.get_ref());
        module.is_some_and(|module| !module.is_empty()) || !self.restricts.is_empty()
    }

    /// Whether it can check the work: by a compiled check or by a command.
    pub fn has_check(&self) -> bool {
        self.verify.as_ref().is_some_and(|verify| {
            let verify = verify.get_ref();
            !verify.rust_module.get_ref().is_empty() || verify.command.is_some()
        })
    }

    /// The tree that it checks; none if it has no check.
    pub fn run_mode(&self) -> Option<RunMode> {
        let verify = self.verify.as_ref().filter(|_| self.has_check())?.get_ref();
        Some(verify.run_mode.unwrap_or(match self.name().category() {
            Category::Quality | Category::Scope => RunMode::Both,
            Category::Policy
            | Category::Safety
            | Category::Output
            | Category::Tools
            | Category::Verify => RunMode::Worktree,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Source;
    use crate::toml_file::parse;

    fn read(text: &str) -> Capability {
        parse(&Source::new("capability.toml", text)).unwrap()
    }

    #[test]
    fn quality_is_checked_on_both_trees_by_default() {
        let head =
            "[capability]\nname = \"quality::x\"\ncategory = \"quality\"\ndescription = \"d\"\n";
        let check = "[verify]\ncommand = \"true\"\n";
        assert_eq!(read(&format!("{head}{check}")).run_mode(), Some(RunMode::Both));
        let explicit = format!("{head}{check}run-mode = \"worktree\"\n");
        assert_eq!(read(&explicit).run_mode(), Some(RunMode::Worktree));
        let scope = format!("{head}{check}").replace("quality", "scope");
        assert_eq!(read(&scope).run_mode(), Some(RunMode::Both));
        let other = format!("{head}{check}").replace("quality", "safety");
        assert_eq!(read(&other).run_mode(), Some(RunMode::Worktree));
        assert_eq!(read(head).run_mode(), None);
    }

    #[test]
    fn tools_are_parsed_from_the_event() {
        let gate = |event: &str| Gate {
            rust_module: empty(),
            event: Spanned::new(0..0, event.to_owned()),
            severity: GateSeverity::Block,
            bypass_env: None,
        };
        assert_eq!(gate("PreToolUse:Edit|Write").tools(), Some(vec!["Edit", "Write"]));
        assert_eq!(gate("PostToolUse:Edit").tools(), None);
        assert_eq!(gate("PreToolUse:Edit||Write").tools(), None);
        assert_eq!(gate("PreToolUse:").tools(), None);
    }
}
