//! Limits on top of an agent's policy: those of a stack, its tool profile, its repository. Each becomes a separate
//! policy above the agent's, with the same rules, so that rights only shrink.

use bailiwick_model::capability::GateSeverity;
use bailiwick_model::module::GateModule;
use bailiwick_model::role::EscalationPolicy;
use bailiwick_model::template::ToolLists;
use serde::{Deserialize, Serialize};

use crate::compile::CompileError;
use crate::pattern::{PatternError, PatternFault, Patterns};
use crate::policy::{FORMAT, Policy, Rule};
use crate::tool::in_vocabulary;
use crate::tool_lists::ToolStack;

/// Limits, of which every one has to allow a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Limits(pub Vec<Limit>);

/// The limits of one declaration. Fields that are not set limit nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limit {
    /// Its owner, such as `the stack ci-fixer`.
    #[serde(rename = "whose")]
    pub owner: String,
    /// Which tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_tools: Option<Vec<String>>,
    /// Which tools not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_tools: Vec<String>,
    /// Tools that a person has to approve each time, as globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ask_tools: Vec<String>,
    /// Commands that may run; no others. See [`command_pattern`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_commands: Option<Vec<String>>,
    /// Commands that may not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_commands: Vec<String>,
    /// Commands that a person has to approve each time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ask_commands: Vec<String>,
    /// Whether nothing may be written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// The writable files, as globs of .gitignore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whitelist: Option<Vec<String>>,
    /// Exceptions from them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denylist: Vec<String>,
}

/// A command as people write it, as an expression: words that the command begins with, `*` for any
/// characters and `?` for one. `cargo test` means `cargo test --all` too, and not `cargo testing`.
pub fn command_pattern(written: &str) -> Result<String, PatternFault> {
    let words: Vec<&str> = written.split_whitespace().collect();
    // A final `*` is implied.
    let words = match words.as_slice() {
        [first @ .., "*"] if !first.is_empty() => first,
        all => all,
    };
    if words.is_empty() {
        return Err(PatternFault::EmptyCommand);
    }
    if written.chars().any(char::is_control) {
        return Err(PatternFault::ControlCharacter);
    }
    let mut out = String::from("(?s)^");
    for c in words.join(" ").chars() {
        match c {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            c if c.is_alphanumeric() || c == ' ' || c == '_' => out.push(c),
            c if c.is_ascii() => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out.push_str("(?: |$)");
    Ok(out)
}

impl Limit {
    /// The limit as a policy.
    pub fn compile(&self) -> Result<Policy, CompileError> {
        let mut rules = Vec::new();
        if !self.deny_commands.is_empty() {
            rules.push(self.rule(
                "limit::denied-commands",
                None,
                &["Bash"],
                &self.deny_commands,
            )?);
        }
        if self.whitelist.is_some() {
            let gate = Some(GateModule::ScopeFilesWhitelist);
            rules.push(self.rule("limit::files-whitelist", gate, &WRITING, &[])?);
        }
        if !self.denylist.is_empty() {
            let gate = Some(GateModule::ScopeFilesDenylist);
            rules.push(self.rule("limit::files-denylist", gate, &WRITING, &[])?);
        }
        let lists = ToolLists {
            allow_list: self.allow_tools.clone(),
            deny_list: (!self.deny_tools.is_empty()).then(|| self.deny_tools.clone()),
        };
        let shell = self.allow_commands.as_deref().map(|list| self.patterns(list)).transpose()?;
        // A list without entries allows nothing, which no pattern can express.
        let no_shell = shell.as_ref().is_some_and(Patterns::is_empty);
        let mut tool_lists = ToolStack::unlimited().narrowed_by(&self.owner, &lists);
        if no_shell {
            let closed = Some(vec!["Bash".to_owned()]);
            let lists = ToolLists { allow_list: None, deny_list: closed };
            tool_lists = tool_lists.narrowed_by(&self.owner, &lists);
        }
        Ok(Policy {
            format: FORMAT,
            role: self.owner.clone(),
            agent: None,
            tools: Some(vec!["*".to_owned()]),
            approval: self.ask_tools.iter().map(|tool| in_vocabulary(tool)).collect(),
            tool_lists,
            shell: shell.filter(|_| !no_shell),
            rules,
            whitelist: self.whitelist.clone().unwrap_or_default(),
            denylist: self.denylist.clone(),
            temporary: Vec::new(),
            protected: Vec::new(),
            dependencies_may_change: false,
            most_deleted: u32::MAX,
            escalation: EscalationPolicy::default(),
            checks_per_call: Vec::new(),
            bypassed: Vec::new(),
            read_only: self.read_only,
            ask_commands: match self.ask_commands.is_empty() {
                true => None,
                false => Some(self.patterns(&self.ask_commands)?),
            },
            limit_owner: Some(self.owner.clone()),
            ancestors: Vec::new(),
        })
    }

    /// The commands that it denies, as patterns.
    pub fn denied_patterns(&self) -> Result<Patterns, CompileError> {
        self.patterns(&self.deny_commands)
    }

    fn rule(
        &self,
        name: &str,
        gate: Option<GateModule>,
        tools: &[&str],
        commands: &[String],
    ) -> Result<Rule, CompileError> {
        Ok(Rule {
            capability: name.to_owned(),
            gate,
            tools: tools.iter().map(ToString::to_string).collect(),
            severity: GateSeverity::Block,
            patterns: self.patterns(commands)?,
            tools_denied: Vec::new(),
        })
    }

    fn patterns(&self, written: &[String]) -> Result<Patterns, CompileError> {
        if written.is_empty() {
            return Ok(Patterns::default());
        }
        let wrong = |pattern: &str, why: PatternFault| CompileError::Pattern {
            whose: self.owner.clone(),
            error: PatternError { pattern: pattern.to_owned(), why },
        };
        let expressions: Result<Vec<String>, CompileError> = written
            .iter()
            .map(|text| command_pattern(text).map_err(|why| wrong(text, why)))
            .collect();
        let mut patterns = Patterns::compile(&expressions?)
            .map_err(|error| CompileError::Pattern { whose: self.owner.clone(), error })?;
        // People read in a denial what they have written.
        patterns.written = written.to_vec();
        Ok(patterns)
    }
}

/// The tools that write files.
const WRITING: [&str; 4] = ["Write", "Edit", "NotebookEdit", "Bash"];

impl Limits {
    /// A policy with these limits on top of it. Temporary directories and the agent's own report are
    /// those of the policy.
    pub fn apply_to(&self, mut policy: Policy) -> Result<Policy, CompileError> {
        for limit in &self.0 {
            let mut compiled = limit.compile()?;
            compiled.agent = policy.agent.clone();
            compiled.temporary = policy.temporary.clone();
            policy.ancestors.push(compiled);
        }
        Ok(policy)
    }
}
