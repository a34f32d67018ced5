//! Adapters of agent programs, and what the programs report.

use std::ffi::OsString;
use std::path::PathBuf;

use bailiwick_fleet::admission::conditions::{AdapterFacts, AdapterProbe, ProgramFacts};
use bailiwick_model::{Problem, Source};
use bailiwick_resources::AgentStack;
use bailiwick_runner::agents::adapter::Adapter;
use bailiwick_runner::agents::{self, Manifest, Probed, probe};
use serde_json::{Value, json};

use crate::context::Context;

/// The programs that are asked what they can do.
pub(in crate::fleet) const PROGRAMS: [&str; 5] =
    ["claude-code", "codex", "gemini", "opencode", "script"];

fn probed(context: &Context, adapter: &dyn Adapter) -> Option<Probed> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    let home = context.state.join("probes");
    std::fs::create_dir_all(&home).ok()?;
    probe(adapter, &path, &home)
}

/// What an agent program says of itself; `None` if it does not answer.
fn program(context: &Context, adapter: &dyn Adapter) -> Option<ProgramFacts> {
    // Our own script needs no program.
    let (version, capabilities) = match adapter.name() {
        "script" => (env!("CARGO_PKG_VERSION").to_owned(), adapter.capabilities("", "")),
        _ => probed(context, adapter).map(|found| (found.version, found.capabilities))?,
    };
    Some(ProgramFacts {
        version,
        models: capabilities.models,
        efforts: capabilities.efforts,
        can_resume: capabilities.resume,
        supports_subagent_dispatch: capabilities.sub_agents,
        supports_mcp: capabilities.mcp,
        missing: capabilities.missing,
    })
}

/// What one agent program can do here; `None` if there is no such adapter.
pub(super) fn capability(context: &Context, name: &str) -> Option<Value> {
    let adapter = adapter_named(context, name).ok()?;
    let Some(program) = program(context, adapter.as_ref()) else {
        return Some(json!({ "installed": false }));
    };
    let mut capability = serde_json::to_value(program).unwrap_or_default();
    if let Some(fields) = capability.as_object_mut() {
        fields.insert("installed".to_owned(), Value::Bool(true));
    }
    Some(capability)
}

/// What the control plane knows of an adapter, whose program may not answer.
fn probe_of(adapter: &dyn Adapter, program: Option<&ProgramFacts>) -> AdapterProbe {
    match program {
        None => {
            let why = format!("`{}` is not installed or does not answer", adapter.program());
            AdapterProbe::Unavailable(why)
        }
        Some(program) => AdapterProbe::Seen(AdapterFacts {
            // It would be started even with options that its help does not name any more.
            is_current: program.missing.is_empty(),
            gates_tools: adapter.dialect().is_some(),
            mcp: program.supports_mcp,
            // Sub-agents are Bailiwick runs, which an agent starts through Bailiwick's MCP server.
            subagents: program.supports_mcp,
            // No program reports a maximum, and approvals work in the same way for all programs.
            max_parallel: None,
            approval_modes: Vec::new(),
        }),
    }
}

/// The name of a stack's adapter; that of its base agent if the stack names none.
fn name_of(stack: &AgentStack) -> String {
    match stack.adapter.as_str() {
        "" => stack.base_agent.as_str().to_owned(),
        adapter => adapter.to_owned(),
    }
}

/// Why a stack's adapter cannot be used.
#[derive(Debug, thiserror::Error)]
enum AdapterError {
    #[error("there is no agent program `{name}`: describe it in {}", file.display())]
    Missing { name: String, file: PathBuf },
    #[error("{}", .0.message)]
    Manifest(Problem),
}

/// One of ours, or one that this machine's user describes. What a commit describes is never asked anything
/// here: it would be run outside of a sandbox.
fn adapter_named(context: &Context, name: &str) -> Result<Box<dyn Adapter>, AdapterError> {
    if let Some(adapter) = agents::adapter(name) {
        return Ok(adapter);
    }
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let file = context.user_kit.join("adapters").join(format!("{name}.toml"));
    let text = if is_plain { std::fs::read_to_string(&file).ok() } else { None };
    let Some(text) = text else {
        return Err(AdapterError::Missing { name: name.to_owned(), file });
    };
    match Manifest::parse(&Source::new(file.display().to_string(), text)) {
        Ok(manifest) => Ok(Box::new(manifest)),
        Err(problem) => Err(AdapterError::Manifest(problem)),
    }
}

/// What is known of the adapter of a stack, and what its program says of itself.
pub(super) fn probe_stack(
    context: &Context,
    stack: &AgentStack,
) -> (AdapterProbe, Option<ProgramFacts>) {
    match adapter_named(context, &name_of(stack)) {
        Ok(adapter) => {
            let program = program(context, adapter.as_ref());
            (probe_of(adapter.as_ref(), program.as_ref()), program)
        }
        Err(error) => (AdapterProbe::Unsupported(error.to_string()), None),
    }
}

/// The adapters that this machine's user describes, by name.
pub(super) fn described(context: &Context) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(context.user_kit.join("adapters")) else {
        return Vec::new();
    };
    let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    files.filter_map(|file| file.strip_suffix(".toml").map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use bailiwick_fleet::admission::conditions::{AdapterProbe, ProgramFacts};
    use bailiwick_model::Source;
    use bailiwick_runner::agents::Manifest;
    use bailiwick_runner::agents::adapter::Adapter;

    use super::probe_of;

    const DESCRIBED: &str = r#"
[adapter]
name = "shell"
program = "sh"
[launch]
arguments = ["-c", "{prompt}"]
[gate]
kind = "none"
"#;

    #[test]
    fn program_without_a_gate_or_with_missing_options_is_detected() {
        let bare = Manifest::parse(&Source::new("adapters/shell.toml", DESCRIBED)).unwrap();
        let claude = bailiwick_runner::agents::adapter("claude-code").unwrap();
        let facts = |adapter: &dyn Adapter, program: &ProgramFacts| match probe_of(
            adapter,
            Some(program),
        ) {
            AdapterProbe::Seen(facts) => facts,
            other @ (AdapterProbe::NotYet
            | AdapterProbe::Unsupported(_)
            | AdapterProbe::Unavailable(_)) => panic!("{other:?}"),
        };
        let complete = ProgramFacts::default();
        let changed = ProgramFacts { missing: vec!["--settings".to_owned()], ..complete.clone() };
        assert!(facts(claude.as_ref(), &complete).gates_tools);
        assert!(!facts(&bare, &complete).gates_tools, "the adapter has no gate");
        assert!(facts(claude.as_ref(), &complete).is_current);
        assert!(!facts(claude.as_ref(), &changed).is_current, "the program's help lacks an option");
        assert!(matches!(probe_of(claude.as_ref(), None), AdapterProbe::Unavailable(_)));
    }
}
