//! `bailiwick explain`: what a call would do, and what every limit says to it; or why an object of the
//! control plane is as it is.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::PathBuf;

use bailiwick_engine::context::Context;
use bailiwick_engine::failure::Failure as ServiceFailure;
use bailiwick_engine::policy_file::{self, PolicySource, bound_working};
use bailiwick_engine::running::assign;
use bailiwick_gate::{HostContext, look_up};
use bailiwick_lifecycle::supervision::Budget;
use bailiwick_model::attempt::Allowance;
use bailiwick_model::{Problem, RoleName, Task};
use bailiwick_policy::call::{Action, Call};
use bailiwick_policy::decide::{Verdict, decide_effects, lookups, verdicts};
use bailiwick_policy::decision::Outcome;
use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::facts::Enforcement;
use bailiwick_policy::path_policy::EnforcedBy;
use bailiwick_policy::paths::{Place, WriteTarget, write_targets};
use bailiwick_policy::tool::{Tool, ToolName};
use bailiwick_policy::{Decision, Effects, Facts, Policy};
use clap::Args;
use serde_json::{Value, json};

use super::fleet::access::Destination;
use super::fleet::{Namespace, explain as object};
use crate::failure::Failure;
use crate::output::{self, BOLD, DIM, Format, FormatOption, GREEN, RED, YELLOW, styled};

/// Explain what the limits say to a command, or why a resource is in its state
///
/// For a command, prints what it would run and write, and the decision of each limit. Nothing is
/// run. Paths are looked up in the current directory; the kit is read from the working copy. By
/// default the role `developer` applies, with no restriction on files.
///
/// For KIND/NAME, a resource of the control plane, prints its conditions, what their reasons mean
/// and what to do next; for a run also why it waits or failed, its rule, its approvals and its last
/// events.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick explain -- 'cargo test && git push'\n  bailiwick \
                        explain --role edit-local --files 'src/**' -- \\\n      \
                        'sed -i s/a/b/ Cargo.toml'\n  \
                        bailiwick explain --task task.toml -o json -- 'rm -rf build'\n  bailiwick \
                        explain --payload payload.json --dialect codex\n  bailiwick explain run/adr-…\n  \
                        bailiwick explain stack/fixer -o json")]
pub struct Explain {
    #[command(flatten)]
    limits: Limits,
    /// The shell command, or KIND/NAME
    #[arg(value_name = "COMMAND", required_unless_present = "payload", conflicts_with = "payload")]
    command: Vec<String>,
    /// Read the payload of a hook from this file instead; `-` is standard input
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,
    /// The CLI of the payload: claude, codex, gemini or opencode
    #[arg(long, value_name = "CLI", default_value = "claude", value_parser = dialect)]
    dialect: Dialect,
    /// Exit with 2 if the call is denied or needs approval
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    namespace: Namespace,
    #[command(flatten)]
    format: FormatOption,
}

/// The limits to decide by.
#[derive(Debug, Clone, Args)]
pub(crate) struct Limits {
    /// Use this role
    #[arg(long, value_name = "ROLE", value_parser = role, conflicts_with = "task")]
    pub(crate) role: Option<RoleName>,
    /// Use the role and limits of this task
    #[arg(long, value_name = "FILE")]
    pub(crate) task: Option<PathBuf>,
    /// Files that may be written, relative to the repository root (repeatable)
    #[arg(long, value_name = "GLOB", conflicts_with = "task")]
    pub(crate) files: Vec<String>,
    /// Files that may not be written, relative to the repository root (repeatable)
    #[arg(long, value_name = "GLOB", conflicts_with = "task")]
    pub(crate) deny: Vec<String>,
}

fn role(text: &str) -> Result<RoleName, String> {
    RoleName::parse(text).map_err(|error| error.to_string())
}

fn dialect(text: &str) -> Result<Dialect, String> {
    let names = Dialect::ALL.map(Dialect::as_str).join(", ");
    Dialect::parse(text).ok_or_else(|| format!("it is one of {names}"))
}

impl Limits {
    /// The policy to compile; none if neither a task nor a role was named.
    pub(crate) fn what(&self) -> Option<PolicySource> {
        match (&self.task, &self.role) {
            (Some(task), _) => Some(PolicySource::Task(task.clone())),
            (None, Some(role)) => Some(PolicySource::Role {
                role: role.clone(),
                files: self.files.clone(),
                deny: self.deny.clone(),
            }),
            (None, None) => None,
        }
    }

    /// A role that was named and does not exist is wrong usage, and no problem in a file.
    pub(crate) fn unknown_role(&self, failure: ServiceFailure) -> Failure {
        let names = |problem: &Problem, role: &RoleName| {
            let named = problem.place.text().map(|text| text.trim_matches('"'));
            problem.code == "unknown-role" && named == Some(role.as_str())
        };
        match (&self.role, failure) {
            (Some(role), ServiceFailure::Problems(problems))
                if problems.iter().all(|problem| names(problem, role)) =>
            {
                let help = problems.into_iter().find_map(|problem| problem.help);
                Failure::usage(format!("there is no role `{role}`"))
                    .help(help.unwrap_or_else(|| "bailiwick roles list".to_owned()))
            }
            (_, failure) => failure.into(),
        }
    }
}

impl Explain {
    /// Runs the command.
    pub fn run(self, context: Context, destination: &Destination) -> Result<(), Failure> {
        if let Some(named) = object::object(&self.command) {
            let fleet = destination.find(context)?;
            return object::run(&fleet, &named, &self.namespace, self.format.format);
        }
        destination.require_local()?;
        let context = &context;
        let what = match self.limits.what() {
            Some(PolicySource::Role { role, files, deny }) if files.is_empty() => {
                PolicySource::Role { role, files: vec!["**".to_owned()], deny }
            }
            Some(what) => what,
            None => {
                let role = role("developer").map_err(Failure::general)?;
                let files = match self.limits.files.as_slice() {
                    [] => vec!["**".to_owned()],
                    files => files.to_vec(),
                };
                PolicySource::Role { role, files, deny: self.limits.deny.clone() }
            }
        };
        policy_file::note_root(context, &[&self.limits.files, &self.limits.deny]);
        let call = self.call(context)?;
        let (bound, compiled) = match bound_working(context, &what) {
            Err(ServiceFailure::Problems(problems))
                if problems.iter().all(|problem| problem.code == "unaccepted-parameter") =>
            {
                let PolicySource::Role { role, .. } = what else { return Err(problems.into()) };
                bound_working(
                    context,
                    &PolicySource::Role { role, files: Vec::new(), deny: Vec::new() },
                )?
            }
            other => other.map_err(|failure| self.limits.unknown_role(failure))?,
        };
        output::problems(&compiled.warnings);
        let root = context
            .repository()
            .map_or_else(|| context.directory.clone(), |found| found.root().to_path_buf());
        let host = HostContext::at(&root, &context.directory)
            .map_err(|error| Failure::general(error.to_string()))?;
        let mut facts = host.facts();
        let effects = Effects::of(&call);
        look_up(&lookups(&call, &effects, &facts), &call, &mut facts);
        let enclosed = Facts { enforcement: Enforcement::Kernel, ..facts.clone() };
        let explained = Explained {
            in_full_sandbox: decide_effects(&compiled.policy, &call, &effects, &enclosed),
            decision: decide_effects(&compiled.policy, &call, &effects, &facts),
            verdicts: verdicts(&compiled.policy, &call, &effects, &facts),
            write_targets: write_targets(&effects, &facts),
            role: compiled.policy.role.clone(),
            enforced: enforced(&compiled.policy),
            budget: RunBudget::of(&bound.task),
            call,
            effects,
            facts,
        };
        match self.format.format {
            Format::Json => output::json(&explained.value())?,
            Format::Human => explained.show(),
        }
        match explained.decision.outcome {
            Outcome::Deny | Outcome::Ask if self.exit_code => Err(Failure::AlreadyReported(2)),
            Outcome::Allow | Outcome::Deny | Outcome::Ask => Ok(()),
        }
    }

    fn call(&self, context: &Context) -> Result<Call, Failure> {
        if let Some(file) = &self.payload {
            let mut bytes = Vec::new();
            if file.as_os_str() == "-" {
                std::io::stdin().lock().read_to_end(&mut bytes)
            } else {
                std::fs::File::open(file).and_then(|mut open| open.read_to_end(&mut bytes))
            }
            .map_err(|error| {
                Failure::general(format!("{} cannot be read: {error}", file.display()))
            })?;
            return self.dialect.read(&bytes, &[]).map_err(|error| {
                Failure::usage(error.to_string()).help("the gate denies such a payload")
            });
        }
        let bash = Tool::named("Bash").map(ToolName::of);
        Ok(Call {
            cli_tool_name: "Bash".to_owned(),
            tools: bash.into_iter().collect(),
            action: Action::Shell(self.command.join(" ")),
            directory: context.directory.to_str().map(str::to_owned),
            ungated_terminal_input: self.dialect == Dialect::Codex,
            id: None,
            agent: None,
        })
    }
}

struct Explained {
    role: String,
    call: Call,
    effects: Effects,
    facts: Facts,
    write_targets: Vec<WriteTarget>,
    verdicts: Vec<Verdict>,
    /// What enforces the limit of each capability.
    enforced: BTreeMap<String, EnforcedBy>,
    /// The budget of a run with these limits.
    budget: RunBudget,
    /// The decision where no sandbox enforces the limits on paths.
    decision: Decision,
    /// The decision of the gate in a full sandbox.
    in_full_sandbox: Decision,
}

/// The budget of a run.
struct RunBudget {
    allowance: Allowance,
    /// Whether the task names no budget.
    is_default: bool,
}

impl RunBudget {
    fn of(task: &Task) -> Self {
        // Delegation needs limits that a person has set.
        if !task.agent.allowed_subagents.is_empty() {
            return Self { allowance: Budget::of(&task.budget).0, is_default: false };
        }
        let is_default = Budget::is_default(&task.budget);
        Self { allowance: Budget::of_run(&task.budget).0, is_default }
    }

    fn value(&self) -> Value {
        json!({"allowance": self.allowance, "default": self.is_default})
    }

    /// Nothing if it is not limited.
    fn line(&self) -> Option<String> {
        let Allowance { tokens, micro_usd, turns, milliseconds, tool_calls } = self.allowance;
        let limits = [
            tokens.map(|limit| format!("{limit} tokens")),
            micro_usd.map(|limit| format!("{:.2} US dollars", assign::dollars(limit))),
            turns.map(|limit| format!("{limit} turns")),
            milliseconds.map(|limit| format!("{} minutes", limit / 60_000)),
            tool_calls.map(|limit| format!("{limit} tool calls")),
        ];
        let limits: Vec<String> = limits.into_iter().flatten().collect();
        let default = if self.is_default { " (default)" } else { "" };
        (!limits.is_empty()).then(|| format!("budget of a run: {}{default}", limits.join(", ")))
    }
}

fn enforced(policy: &Policy) -> BTreeMap<String, EnforcedBy> {
    let rules = policy.all().flat_map(|policy| &policy.rules);
    rules.filter_map(|rule| Some((rule.capability.clone(), EnforcedBy::of(rule.gate?)))).collect()
}

impl Explained {
    fn value(&self) -> Value {
        let runs = self.effects.runs.iter().map(|run| {
            json!({
                "argv": run.argv.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "builtin": run.builtin,
                "through": run.through,
            })
        });
        let writes = self.write_targets.iter().map(|spot| {
            let (place, path) = placed(&spot.place);
            json!({"named": spot.shown, "place": place, "path": path, "how": how(spot), "by": spot.by})
        });
        let hidden = self
            .effects
            .hidden
            .iter()
            .map(|hidden| json!({"why": hidden.why.as_str(), "text": hidden.text}));
        let verdicts = self.verdicts.iter().map(|verdict| {
            json!({
                "rule": verdict.rule,
                "verdict": word(verdict),
                "severity": verdict.severity,
                "enforced_by": self.enforced_by(verdict).as_str(),
                "reason": verdict.objection.as_ref().map(|objection| &objection.reason),
                "instead": verdict.objection.as_ref().map(|objection| &objection.instead),
            })
        });
        json!({
            "call": self.call.cli_tool_name,
            "role": self.role,
            "root": self.facts.root,
            "runs": runs.collect::<Vec<_>>(),
            "writes": writes.collect::<Vec<_>>(),
            "unseen_scripts": self.effects.scripts_not_in_text.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "hidden": hidden.collect::<Vec<_>>(),
            "left_to_sandbox": self.decision.left_to_sandbox,
            "verdicts": verdicts.collect::<Vec<_>>(),
            "budget": self.budget.value(),
            "decision": self.decision,
            "sandbox": "off",
            "decision_in_full_sandbox": self.in_full_sandbox,
        })
    }

    fn enforced_by(&self, verdict: &Verdict) -> EnforcedBy {
        self.enforced.get(&verdict.rule).copied().unwrap_or(EnforcedBy::Text)
    }

    fn show(&self) {
        let title = match &self.call.action {
            Action::Shell(command) | Action::ShellAndFiles(command, _) => {
                command.lines().collect::<Vec<_>>().join(" ⏎ ")
            }
            Action::TerminalInput | Action::Files(_) | Action::NoKnownEffect => {
                self.call.cli_tool_name.clone()
            }
        };
        let mut branches = Vec::new();
        let runs = self.effects.runs.iter().map(|run| {
            let words: Vec<String> = run.argv.iter().map(ToString::to_string).collect();
            let through = match run.through.as_slice() {
                [] => String::new(),
                through => format!("  through {}", through.join(", ")),
            };
            let builtin = if run.builtin { "  the shell itself" } else { "" };
            let words = words.join(" ").replace('\n', " ⏎ ");
            format!("{words}{}", styled(DIM, format_args!("{through}{builtin}")))
        });
        branches.push(("runs", runs.collect::<Vec<_>>()));
        let writes = self.write_targets.iter().map(|spot| {
            let (place, path) = placed(&spot.place);
            let path = path.filter(|path| *path != spot.shown).unwrap_or_default();
            let detail = format!("{} by {}, {place} {path}", how(spot), spot.by);
            format!("{}  {}", spot.shown, styled(DIM, detail.trim_end()))
        });
        branches.push(("writes", writes.collect()));
        let scripts = self.effects.scripts_not_in_text.iter().map(ToString::to_string);
        branches.push(("scripts that are not read", scripts.collect()));
        let hidden = self.effects.hidden.iter();
        let hidden = hidden.map(|hidden| format!("{}  {}", hidden.text, hidden.why.words()));
        branches
            .push(("not known before it runs", hidden.map(|text| styled(YELLOW, text)).collect()));
        branches.push(("left to the sandbox", self.decision.left_to_sandbox.clone()));
        branches.retain(|(_, lines)| !lines.is_empty());
        output::line(styled(BOLD, title));
        for (title, lines) in &branches {
            output::line(format_args!("├─ {title}"));
            for (index, line) in lines.iter().enumerate() {
                let corner = if index + 1 == lines.len() { "└─" } else { "├─" };
                let line = line.replace(['\n', '\r'], " ");
                output::line(format_args!("│  {corner} {line}"));
            }
        }
        let outcome = outcome(&self.decision);
        // Most decisions are the same for every sandbox level.
        match self.decision.outcome == self.in_full_sandbox.outcome {
            true => output::line(format_args!("└─ role {}: {outcome}", self.role)),
            false => {
                let enclosed = self::outcome(&self.in_full_sandbox);
                output::line(format_args!("├─ role {} in a full sandbox: {enclosed}", self.role));
                output::line(format_args!("└─ role {} without one: {outcome}", self.role));
            }
        }
        let shown: Vec<&Verdict> = self.verdicts.iter().filter(|verdict| verdict.applies).collect();
        for (index, verdict) in shown.iter().enumerate() {
            let last = index + 1 == shown.len();
            let corner = if last { "└─" } else { "├─" };
            let mark = match word(verdict) {
                "deny" => styled(RED, "✗"),
                "allow" => styled(GREEN, "✓"),
                _ => styled(YELLOW, "!"),
            };
            let held = match self.enforced_by(verdict) {
                EnforcedBy::Kernel => "text and kernel",
                EnforcedBy::Text => "text",
            };
            output::line(format_args!(
                "   {corner} {mark} {}  {}",
                verdict.rule,
                styled(DIM, held)
            ));
            if let Some(objection) = &verdict.objection {
                let bar = if last { "        " } else { "   │    " };
                output::wrapped_behind(bar, bar, &objection.reason);
                let below = format!("{bar}         ");
                output::wrapped_behind(&format!("{bar}instead: "), &below, &objection.instead);
            }
        }
        if let Some(line) = self.budget.line() {
            output::line(styled(DIM, line));
        }
    }
}

fn outcome(decision: &Decision) -> String {
    match decision.outcome {
        Outcome::Allow => styled(GREEN.bold(), "allowed"),
        Outcome::Ask => styled(YELLOW.bold(), "a person has to approve it"),
        Outcome::Deny => styled(RED.bold(), "denied"),
    }
}

fn placed(place: &Place) -> (&'static str, Option<String>) {
    match place {
        Place::Inside { path, .. } => ("inside", Some(path.clone())),
        Place::Outside(path) => ("outside", Some(path.clone())),
        Place::Unknown => ("unknown", None),
    }
}

fn how(spot: &WriteTarget) -> &'static str {
    use bailiwick_policy::shell::WriteKind;
    match spot.kind {
        WriteKind::Change => "changed",
        WriteKind::WriteBelow => "filled",
        WriteKind::Delete => "deleted",
        WriteKind::DeleteTree => "deleted with all below",
    }
}

fn word(verdict: &Verdict) -> &'static str {
    use bailiwick_model::capability::GateSeverity;
    match (&verdict.objection, verdict.severity, verdict.applies) {
        (None, _, true) => "allow",
        (None, _, false) => "not applicable",
        (Some(_), GateSeverity::Block, _) => "deny",
        (Some(_), GateSeverity::Warn, _) => "warn",
        (Some(_), GateSeverity::Advisory, _) => "advisory",
    }
}
