//! `kei-capability check NAME`: one capability judges one tool call, whatever the role lists.
//!
//! Keeps no log. Everything that goes wrong is a denial: exit 2 with a reason on standard error. A capability without a
//! gate does not apply: exit 0, and a note.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bailiwick_gate::{GateError, HostContext, HostError, look_up, repository_around};
use bailiwick_kit::{FoundCapability, Kit, Layer, Layout, Origin, resolve};
use bailiwick_model::capability::Capability;
use bailiwick_model::module::GateModule;
use bailiwick_model::role::EscalationPolicy;
use bailiwick_model::{CapabilityName, NameError, Problem, Source, Task};
use bailiwick_policy::compile::{CompileError, Sources, bypass_variables};
use bailiwick_policy::decide::{decide_effects, lookups};
use bailiwick_policy::dialects::{AllowedReply, Dialect, Unreadable};
use bailiwick_policy::{Call, Decision, Effects, Facts, Policy, ToolStack, compile};
use bailiwick_source_control::DirectoryTree;

/// Judges the call on standard input.
pub fn run(name: &str) -> ExitCode {
    let name = name.to_owned();
    bailiwick_gate::run_with_deadline(move || {
        let decision =
            decide(&name).unwrap_or_else(|error| Decision::undecidable(error.to_string()));
        Dialect::Claude.answer(&decision, AllowedReply::Silent)
    })
}

/// Why a capability cannot judge a call.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckError {
    #[error("TASK_TOML is not set, so there is no task")]
    NoTask,
    #[error("TASK_TOML {} cannot be read: {error}", path.display())]
    TaskFile { path: PathBuf, error: std::io::Error },
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Call(#[from] Unreadable),
    #[error(transparent)]
    Directory(#[from] std::io::Error),
    #[error(transparent)]
    Name(#[from] NameError),
    /// The first of what is wrong in files that people wrote, with its place.
    #[error("{0}")]
    Problem(String),
    #[error("there is no capability `{0}`")]
    NoCapability(CapabilityName),
    #[error("`{0}` has no gate: it is checked when the agent returns")]
    NoGate(CapabilityName),
    #[error(transparent)]
    Compile(#[from] CompileError),
}

fn decide(name: &str) -> Result<Decision, CheckError> {
    let task_file = variable("TASK_TOML").ok_or(CheckError::NoTask)?;
    let payload = bailiwick_gate::read(&mut std::io::stdin().lock())?;
    let call = Dialect::Claude.read(&payload, &[])?;
    let facts = host_context(&call, &variable)?.facts();
    let task_file = Path::new(&task_file);
    let text = std::fs::read_to_string(task_file)
        .map_err(|error| CheckError::TaskFile { path: task_file.to_owned(), error })?;
    let source = Source::new(task_file.display().to_string(), text);
    let kit = kit(Some(task_file), Path::new(&facts.root), &variable);
    let found = find(&kit, name)?;
    if !found.declared.has_gate() {
        Task::parse(&source).map_err(|problem| first(&[problem]))?;
        bailiwick_gate::print_note(&format!(
            "note: `{}` has no gate, so that it does not apply: it is checked when the agent returns",
            found.declared.name()
        ));
        return Ok(Decision::allow());
    }
    let policy = policy(&kit, &found, &source, &variable)?;
    Ok(judged(&policy, &call, facts))
}

/// Decides a call by a policy, once what it needs is looked up.
pub(super) fn judged(policy: &Policy, call: &Call, mut facts: Facts) -> Decision {
    let effects = Effects::of(call);
    look_up(&lookups(call, &effects, &facts), call, &mut facts);
    decide_effects(policy, call, &effects, &facts)
}

/// How a variable is looked up.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The capability of this name; an old name finds the new one, with a warning.
pub(super) fn find(kit: &Kit, name: &str) -> Result<FoundCapability, CheckError> {
    let asked = CapabilityName::parse(name)?;
    let asked = match asked.renamed_to() {
        Some(new) => {
            bailiwick_gate::print_note(&format!("warning: `{asked}` is called `{new}` now"));
            new
        }
        None => asked,
    };
    let found = kit.capability(&asked).map_err(|problems| first(&problems))?;
    found.ok_or(CheckError::NoCapability(asked))
}

/// The policy of this capability alone, with the parameters of the task and its role.
pub(super) fn policy(
    kit: &Kit,
    found: &FoundCapability,
    source: &Source,
    variable: Variables<'_>,
) -> Result<Policy, CheckError> {
    let task = Task::parse(source).map_err(|problem| first(&[problem]))?;
    let capability = &found.declared;
    if !capability.has_gate() {
        return Err(CheckError::NoGate(capability.name().clone()));
    }
    // The role configures an allowlist; the other gates do not need it.
    let (patterns, escalation) = if lists_commands(capability) {
        let role = resolve(kit, task.task.role.get_ref(), source.at(task.task.role.span()))
            .map_err(|problems| first(&problems))?;
        (role.bash_patterns, role.escalation)
    } else {
        (Vec::new(), EscalationPolicy::default())
    };
    let agent = task.task.agent_id.as_ref().map(ToString::to_string);
    let set = |name: &String| variable(name).as_deref() == Some("1");
    let set_bypass_variables: Vec<String> =
        bypass_variables(&[capability]).into_iter().filter(set).collect();
    Ok(compile(&Sources {
        role: task.task.role.get_ref().as_str(),
        agent: agent.as_deref(),
        tools: None,
        ask: &[],
        bash_patterns: &patterns,
        escalation,
        capabilities: &[capability],
        task: Some(&task),
        set_bypass_variables: &set_bypass_variables,
        temporary: &[],
        protected: &[],
        tool_lists: &ToolStack::unlimited(),
    })?)
}

fn lists_commands(capability: &Capability) -> bool {
    let module = capability.gate.as_ref().map(|gate| gate.get_ref().rust_module.get_ref());
    module.and_then(|path| GateModule::parse(path).ok()) == Some(GateModule::ToolsBashAllowlist)
}

/// The embedded kit, the user's, and that of the repository in which the task lies, unless that is
/// the agent's own workspace: it could write its limits there.
pub(super) fn kit(task_file: Option<&Path>, workspace: &Path, variable: Variables<'_>) -> Kit {
    let mut layers = Vec::new();
    let main = variable("MAIN_REPO").map(PathBuf::from);
    let around = || {
        let file = std::fs::canonicalize(task_file?).ok()?;
        repository_around(file.parent()?)
    };
    let outside =
        |root: &PathBuf| std::fs::canonicalize(root).is_ok_and(|root| !root.starts_with(workspace));
    if let Some(root) = main.or_else(around).filter(outside) {
        if root.join("_capabilities").is_dir() || root.join("_roles").is_dir() {
            layers.push(layer(Origin::Repository, Layout::Underscore, &root));
        }
        layers.push(layer(Origin::Repository, Layout::Plain, &root.join(".bailiwick")));
    }
    let config = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let config =
        config.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".config")));
    if let Some(config) = config {
        layers.push(layer(Origin::User, Layout::Plain, &config.join("bailiwick")));
    }
    Kit::over_embedded(layers)
}

fn layer(origin: Origin, layout: Layout, root: &Path) -> Layer {
    let shown = format!("{}/", root.display());
    Layer::new(origin, layout, &shown, Box::new(DirectoryTree::new(root)))
}

/// The workspace: the variable of the agent program, else the repository of the call.
pub(super) fn host_context(
    call: &Call,
    variable: Variables<'_>,
) -> Result<HostContext, CheckError> {
    let here = std::env::current_dir()?;
    let directory = call.directory.as_deref().map_or_else(|| here.clone(), |own| here.join(own));
    let named = variable("WORKTREE_PATH").or_else(|| variable("CLAUDE_PROJECT_DIR"));
    match named.map(PathBuf::from).or_else(|| repository_around(&directory)) {
        Some(root) => Ok(HostContext::at(&root, &directory)?),
        None => Ok(HostContext::rooted_at(&directory)?),
    }
}

fn first(problems: &[Problem]) -> CheckError {
    let first = problems.first();
    CheckError::Problem(
        first.map_or_else(String::new, |problem| format!("{}: {}", problem.place, problem.message)),
    )
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
