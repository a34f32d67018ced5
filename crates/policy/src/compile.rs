//! From what people wrote to what a decision reads.

use bailiwick_model::capability::{Gate, GateSeverity, When};
use bailiwick_model::module::GateModule;
use bailiwick_model::role::EscalationPolicy;
use bailiwick_model::{Capability, Task};

use crate::pattern::{PatternError, Patterns};
use crate::policy::{FORMAT, Policy, Rule};
use crate::tool::in_vocabulary;
use crate::tool_lists::{OWN_SERVER, ToolStack};

/// Everything that a policy is compiled from.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The role's name.
    pub role: &'a str,
    /// The agent that it is for, if it is for one.
    pub agent: Option<&'a str>,
    /// The role's `[tools] allowed`; nothing judges capabilities alone.
    pub tools: Option<&'a [String]>,
    /// The role's `[tools] ask`.
    pub ask: &'a [String],
    /// The role's `[tools] bash-patterns-allowed`.
    pub bash_patterns: &'a [String],
    /// The role's `[escalation] policy`.
    pub escalation: EscalationPolicy,
    /// The role's capabilities, in order.
    pub capabilities: &'a [&'a Capability],
    /// The task, which parameterises them.
    pub task: Option<&'a Task>,
    /// Variables that are set to `1` where this is compiled. Those that a capability names as its bypass switch it off.
    pub set_bypass_variables: &'a [String],
    /// Temporary directories in which anything may be written.
    pub temporary: &'a [String],
    /// Directories that an agent never writes.
    pub protected: &'a [String],
    /// The tool lists of the agent's template and of those above it.
    pub tool_lists: &'a ToolStack,
}

/// A policy that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A pattern cannot be compiled to a table.
    #[error("{whose}: the pattern {error}")]
    Pattern {
        /// The capability or role that has it.
        whose: String,
        error: PatternError,
    },
    /// A gate is named that is not compiled in.
    #[error("{whose}: there is no gate `{path}`")]
    NoSuchGate {
        /// The capability that names it.
        whose: String,
        path: String,
    },
    /// An event that names no tools.
    #[error("{whose}: the event `{event}` names no tools")]
    BadEvent {
        /// The capability that has it.
        whose: String,
        event: String,
    },
}

/// Variables that could switch a capability off, as the capabilities name them.
pub fn bypass_variables(capabilities: &[&Capability]) -> Vec<String> {
    let gates = capabilities.iter().filter_map(|capability| capability.gate.as_ref());
    gates
        .filter_map(|gate| gate.get_ref().bypass_env.as_ref())
        .map(|v| v.get_ref().clone())
        .collect()
}

pub fn compile(sources: &Sources<'_>) -> Result<Policy, CompileError> {
    let mut rules = Vec::new();
    let mut bypassed = Vec::new();
    let dependencies_may_change = sources
        .task
        .and_then(|task| task.verification.allow_dependency_changes.as_ref())
        .is_some_and(|allowed| *allowed.get_ref());
    for capability in sources.capabilities.iter().filter(|capability| capability.has_gate()) {
        if is_bypassed(capability, sources.set_bypass_variables) {
            bypassed.push(capability.name().to_string());
            continue;
        }
        let rule = rule(capability)?;
        if rule.gate == Some(GateModule::SafetyNoDepBump) && dependencies_may_change {
            continue;
        }
        rules.push(rule);
    }
    let shell = (!sources.bash_patterns.is_empty())
        .then(|| patterns(&format!("role {}", sources.role), sources.bash_patterns))
        .transpose()?;
    let scope = sources.task.map(|task| &task.scope);
    let globs = |list: Option<&bailiwick_model::task::List<bailiwick_model::task::PathPattern>>| {
        let entries = list.map(|list| list.get()).unwrap_or_default();
        entries.iter().map(ToString::to_string).collect::<Vec<String>>()
    };
    let most_deleted = sources
        .task
        .and_then(|task| task.verification.max_deleted_files.as_ref())
        .map_or(10, |most| *most.get_ref());
    let vocabulary = |list: &[String]| list.iter().map(|tool| in_vocabulary(tool)).collect();
    Ok(Policy {
        format: FORMAT,
        role: sources.role.to_owned(),
        agent: sources.agent.map(str::to_owned),
        tools: sources.tools.map(vocabulary).map(|tools| with_own(tools, sources.task)),
        approval: vocabulary(sources.ask),
        tool_lists: sources.tool_lists.clone(),
        shell,
        rules,
        whitelist: globs(scope.map(|scope| &scope.files_whitelist)),
        denylist: globs(scope.map(|scope| &scope.files_denylist)),
        temporary: sources.temporary.to_vec(),
        protected: sources.protected.to_vec(),
        dependencies_may_change,
        most_deleted,
        escalation: sources.escalation,
        checks_per_call: checks_per_call(sources.capabilities),
        bypassed,
        read_only: false,
        ask_commands: None,
        limit_owner: None,
        ancestors: Vec::new(),
    })
}

/// An agent that may start others has the tools for it.
fn with_own(mut tools: Vec<String>, task: Option<&Task>) -> Vec<String> {
    if task.is_some_and(|task| !task.agent.allowed_subagents.is_empty()) {
        tools.push(format!("mcp__{OWN_SERVER}__*"));
    }
    tools
}

fn is_bypassed(capability: &Capability, set_bypass_variables: &[String]) -> bool {
    let variable = capability.gate.as_ref().and_then(|gate| gate.get_ref().bypass_env.as_ref());
    variable.is_some_and(|variable| set_bypass_variables.contains(variable.get_ref()))
}

fn rule(capability: &Capability) -> Result<Rule, CompileError> {
    let whose = capability.name().to_string();
    let texts = |list: &[serde_spanned::Spanned<String>]| -> Vec<String> {
        list.iter().map(|text| text.get_ref().clone()).collect()
    };
    let written = texts(&capability.restricts.tool_patterns);
    let denied = texts(&capability.restricts.tools_denied);
    let (gate, tools, severity) =
        match capability.gate.as_ref().map(serde_spanned::Spanned::get_ref) {
            None => (None, vec!["*".to_owned()], GateSeverity::Block),
            Some(gate) => (module(&whose, gate)?, tools(&whose, gate)?, gate.severity),
        };
    Ok(Rule {
        patterns: patterns(&whose, &written)?,
        tools_denied: denied.iter().map(|tool| in_vocabulary(tool)).collect(),
        capability: whose,
        gate,
        tools,
        severity,
    })
}

fn module(whose: &str, gate: &Gate) -> Result<Option<GateModule>, CompileError> {
    let path = gate.rust_module.get_ref();
    if path.is_empty() {
        return Ok(None);
    }
    let missing = |_| CompileError::NoSuchGate { whose: whose.to_owned(), path: path.clone() };
    GateModule::parse(path).map(Some).map_err(missing)
}

fn tools(whose: &str, gate: &Gate) -> Result<Vec<String>, CompileError> {
    let event = gate.event.get_ref();
    let bad = || CompileError::BadEvent { whose: whose.to_owned(), event: event.clone() };
    let named = gate.tools().ok_or_else(bad)?;
    let mut tools: Vec<String> = named.into_iter().map(in_vocabulary).collect();
    tools.dedup();
    Ok(tools)
}

fn patterns(whose: &str, written: &[String]) -> Result<Patterns, CompileError> {
    if written.is_empty() {
        return Ok(Patterns::default());
    }
    Patterns::compile(written)
        .map_err(|error| CompileError::Pattern { whose: whose.to_owned(), error })
}

fn checks_per_call(capabilities: &[&Capability]) -> Vec<String> {
    let marked = capabilities.iter().filter(|capability| {
        let verify = capability.verify.as_ref().map(serde_spanned::Spanned::get_ref);
        capability.has_check() && verify.is_some_and(|verify| verify.when == When::PerToolCall)
    });
    marked.map(|capability| capability.name().to_string()).collect()
}
