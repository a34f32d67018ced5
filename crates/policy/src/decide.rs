//! The decision: pure and total. The same policy, call and facts give the same answer for ever.

use crate::call::{Action, Call};
use crate::decision::{Decision, Objection, Outcome, Warning};
use crate::effects::Effects;
use crate::facts::{Facts, Lookups};
use crate::gates::{self, Context};
use crate::paths;
use crate::policy::{Policy, Rule};
use crate::shell::WriteKind;
use crate::tool::{Class, Tool, ToolName, matches};
use crate::tool_lists;
use bailiwick_model::capability::GateSeverity;
use bailiwick_model::module::GateModule;

/// The verdict of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The capability, or the part of the role.
    pub rule: String,
    /// How much its objection counts.
    pub severity: GateSeverity,
    /// Whether the rule applies to this call.
    pub applies: bool,
    /// Its objection, if it has one.
    pub objection: Option<Objection>,
}

pub fn decide(policy: &Policy, call: &Call, facts: &Facts) -> Decision {
    decide_effects(policy, call, &Effects::of(call), facts)
}

/// Decides a call whose effects are worked out already.
pub fn decide_effects(policy: &Policy, call: &Call, effects: &Effects, facts: &Facts) -> Decision {
    let verdicts = verdicts(policy, call, effects, facts);
    conclude(policy, call, effects, &verdicts, facts)
}

/// Whether a tool without file access is always allowed, without a question: for calls that no gate sees.
pub fn is_always_allowed(policy: &Policy, tool: &Tool) -> bool {
    let call = Call {
        cli_tool_name: tool.name.to_owned(),
        tools: vec![ToolName::of(tool)],
        action: Action::NoKnownEffect,
        directory: None,
        ungated_terminal_input: false,
        id: None,
        agent: None,
    };
    decide(policy, &call, &Facts::default()).outcome == Outcome::Allow
}

/// The lookups that are needed to decide a call with these effects. `facts` already contains the root, the home and
/// the directory.
pub fn lookups(call: &Call, effects: &Effects, facts: &Facts) -> Lookups {
    let mut lookups = Lookups::default();
    let facts = with_call_directory(call, facts);
    paths::collect_lookups(effects, &facts, &mut lookups);
    if effects.writes.iter().any(|write| write.kind == WriteKind::WriteBelow) {
        lookups.trees.extend(gates::copied_trees(effects, &facts));
    }
    let programs = effects.runs.iter().filter(|run| !run.builtin).filter_map(|run| run.program());
    lookups.programs.extend(programs);
    lookups.programs.extend(effects.programs_by_path.iter().map(|(_, path)| path.clone()));
    lookups.programs.extend(gates::copied_programs(effects));
    lookups
}

/// The facts with the directory of this call.
fn with_call_directory(call: &Call, facts: &Facts) -> Facts {
    let directory = match (&call.directory, &facts.directory) {
        (Some(own), Some(started)) => Some(paths::join(started, own)),
        (Some(own), None) => own.starts_with('/').then(|| own.clone()),
        (None, started) => started.clone(),
    };
    Facts { directory, ..facts.clone() }
}

/// The verdicts of all rules, in order: the role's tools, built-in protections, the template's tools, the
/// capabilities, the role's patterns; then those of the agents above.
pub fn verdicts(policy: &Policy, call: &Call, effects: &Effects, facts: &Facts) -> Vec<Verdict> {
    let facts = with_call_directory(call, facts);
    let write_targets = paths::write_targets(effects, &facts);
    let of = |policy| own_verdicts(&Context::new(policy, call, effects, &write_targets, &facts));
    let mut verdicts = of(policy);
    for ancestor in &policy.ancestors {
        let who = match &ancestor.limit_owner {
            Some(owner) => format!("{owner} does not allow it"),
            None => {
                let parent = ancestor.agent.as_deref().unwrap_or("the agent above");
                format!("{parent}, which started you, may not")
            }
        };
        verdicts.extend(of(ancestor).into_iter().map(|mut verdict| {
            if let Some(objection) = &mut verdict.objection {
                objection.reason = format!("{who}: {}", objection.reason);
            }
            verdict
        }));
    }
    verdicts
}

/// The verdicts of one policy, without those above it.
fn own_verdicts(context: &Context<'_>) -> Vec<Verdict> {
    let &Context { policy, call, effects, .. } = context;
    let mut verdicts = vec![
        always("role::tools", policy.tools.is_some(), gates::role_tools::judge(context)),
        always("bailiwick::protected", true, gates::protected::judge(context)),
    ];
    if !policy.tool_lists.is_unlimited() {
        verdicts.push(always(tool_lists::RULE, true, policy.tool_lists.objection(call)));
    }
    if policy.read_only {
        verdicts.push(always("template::read-only", true, gates::read_only::judge(context)));
    }
    for rule in &policy.rules {
        let applies = applies(rule, call, effects);
        let objection = applies.then(|| judge(context, rule)).flatten();
        verdicts.push(Verdict {
            rule: rule.capability.clone(),
            severity: rule.severity,
            applies,
            objection,
        });
    }
    let patterns = policy.shell.as_ref().filter(|_| policy.tools.is_some());
    let shell = is_shell(call) && patterns.is_some();
    let objection = patterns.and_then(|patterns| {
        gates::tools_bash_allowlist::objection(context, patterns, "role::bash-patterns-allowed")
    });
    verdicts.push(always("role::bash-patterns-allowed", shell, objection.filter(|_| shell)));
    verdicts
}

fn always(rule: &str, applies: bool, objection: Option<Objection>) -> Verdict {
    Verdict { rule: rule.to_owned(), severity: GateSeverity::Block, applies, objection }
}

/// Whether a call runs a command, also by a tool of an MCP server.
fn is_shell(call: &Call) -> bool {
    let runs = match &call.action {
        Action::Shell(_) | Action::ShellAndFiles(..) | Action::TerminalInput => true,
        Action::Files(_) | Action::NoKnownEffect => false,
    };
    runs || call
        .tools
        .iter()
        .any(|tool| matches!(tool.class(), Class::Shell | Class::TerminalInput))
}

/// A rule applies to the tools of its event; one for writing tools applies to everything else that writes files,
/// too.
fn applies(rule: &Rule, call: &Call, effects: &Effects) -> bool {
    let looks_at = |tool: &ToolName| rule.tools.iter().any(|glob| matches(glob, tool.as_str()));
    let at_writing = rule.tools.iter().any(|glob| matches(glob, "Write") || matches(glob, "Edit"));
    let denied = |tool: &ToolName| rule.tools_denied.iter().any(|g| matches(g, tool.as_str()));
    let closes = rule.gate == Some(GateModule::ToolsDenyTools)
        && gates::tools_deny_tools::closes_writing(rule);
    call.tools.iter().any(|tool| looks_at(tool) || denied(tool))
        || (closes && (is_shell(call) || !effects.writes.is_empty()))
        || (at_writing && !effects.writes.is_empty() && !is_shell(call))
        || (rule.tools.iter().any(|glob| matches(glob, "Bash")) && is_shell(call))
}

fn judge(context: &Context<'_>, rule: &Rule) -> Option<Objection> {
    rule.gate
        .and_then(|module| gates::judge(module, context, rule))
        .or_else(|| gates::restricted(context, rule))
}

fn conclude(
    policy: &Policy,
    call: &Call,
    effects: &Effects,
    verdicts: &[Verdict],
    facts: &Facts,
) -> Decision {
    let objecting = |severity: GateSeverity| {
        verdicts
            .iter()
            .filter(move |verdict| verdict.severity == severity)
            .filter_map(|verdict| verdict.objection.clone())
    };
    let warnings = [GateSeverity::Warn, GateSeverity::Advisory].into_iter().flat_map(|severity| {
        objecting(severity).map(move |objection| Warning { severity, objection })
    });
    let warnings = warnings.collect();
    let left_to_sandbox = gates::programs_left_to_sandbox(effects);
    if let Some(because) = objecting(GateSeverity::Block).next() {
        let escalation = Some(policy.escalation);
        return Decision { warnings, left_to_sandbox, escalation, ..Decision::deny(because) };
    }
    let asks = |tool: &&ToolName| {
        let mut globs = policy.all().flat_map(|policy| &policy.approval);
        globs.any(|glob| matches(glob, tool.as_str()))
    };
    if let Some(tool) = call.tools.iter().find(asks) {
        let because = Objection::new(
            "role::ask",
            format!("a person has to approve each use of {tool}"),
            "wait for the answer, or continue with what needs no approval",
        );
        let because = Some(because);
        let outcome = Outcome::Ask;
        return Decision { outcome, because, warnings, left_to_sandbox, escalation: None };
    }
    if let Some(because) =
        policy.all().find_map(|one| approval_objection(one, call, effects, facts))
    {
        let because = Some(because);
        let outcome = Outcome::Ask;
        return Decision { outcome, because, warnings, left_to_sandbox, escalation: None };
    }
    Decision { warnings, left_to_sandbox, ..Decision::allow() }
}

/// Why a command needs an approval.
fn approval_objection(
    policy: &Policy,
    call: &Call,
    effects: &Effects,
    facts: &Facts,
) -> Option<Objection> {
    let patterns = policy.ask_commands.as_ref()?;
    let context = Context::new(policy, call, effects, &[], facts);
    gates::commands_needing_approval(&context, patterns)
}
