//! The task.toml of a piece of work.

use bailiwick_model::task::{Line, PathPattern, ShellCommand};
use bailiwick_resources::Reason;
use toml::{Table, Value};

use super::network::hosts;
use super::{CompileFault, CompileInput, server_name, servers, subagent_name, values};

pub(super) fn text(input: &CompileInput<'_>, faults: &mut Vec<CompileFault>) -> String {
    let mut task = Table::new();
    let spec = &input.frozen.stack.spec;
    put(&mut task, "task", table([("role", Some(spec.role.clone().into()))]));
    put(&mut task, "scope", scope(input, faults));
    put(&mut task, "verification", verification(input, faults));
    put(&mut task, "agent", agent(input, faults));
    put(&mut task, "budget", budget(input, faults));
    if let Some(policy) = &input.frozen.workspace_policy {
        let list = |texts: &[String]| (!texts.is_empty()).then(|| texts_value(texts));
        let (copy, setup) = (list(&policy.spec.copy), list(&policy.spec.setup));
        put(&mut task, "workspace", table([("copy", copy), ("setup", setup)]));
    }
    let body = match input.child {
        Some(child) => format!("{}\n\n{}", child.spec.role_prompt.trim_end(), input.body),
        None => input.body.to_owned(),
    };
    put(&mut task, "body", table([("text", Some(body.into()))]));
    toml::to_string(&task).unwrap_or_else(|error| {
        faults.push(CompileFault::new(Reason::PermissionRequirementsBlocked, error.to_string()));
        String::new()
    })
}

fn put(task: &mut Table, name: &str, part: Table) {
    if !part.is_empty() {
        task.insert(name.to_owned(), Value::Table(part));
    }
}

fn table<const N: usize>(entries: [(&str, Option<Value>); N]) -> Table {
    entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

fn texts_value(texts: &[String]) -> Value {
    Value::Array(texts.iter().map(|text| Value::String(text.clone())).collect())
}

/// Whether the role supports a parameter. The limits enforce it in any case.
fn takes(input: &CompileInput<'_>, parameter: &str) -> bool {
    input.accepted.iter().any(|name| name == parameter)
}

fn scope(input: &CompileInput<'_>, faults: &mut Vec<CompileFault>) -> Table {
    let Some(scope) = &input.frozen.stack.spec.scope else { return Table::new() };
    let mut list = |name: &str, globs: &[String]| {
        for glob in globs {
            if let Err(why) = PathPattern::try_from(glob.clone()) {
                faults.push(CompileFault::new(Reason::FilesystemScopeTooBroad, why.to_string()));
            }
        }
        (!globs.is_empty() && takes(input, name)).then(|| texts_value(globs))
    };
    let whitelist = list("files-whitelist", &scope.files_whitelist);
    let denylist = list("files-denylist", &scope.files_denylist);
    table([("files-whitelist", whitelist), ("files-denylist", denylist)])
}

fn verification(input: &CompileInput<'_>, faults: &mut Vec<CompileFault>) -> Table {
    let commands = &input.frozen.stack.spec.verification_commands;
    // A child is judged by its contract; the work as a whole by its parent's checks.
    if commands.is_empty() || input.child.is_some() {
        return Table::new();
    }
    for command in commands {
        if let Err(why) = ShellCommand::try_from(command.clone()) {
            faults.push(CompileFault::new(Reason::KitRoleMissing, why.to_string()));
        }
    }
    if !takes(input, "commands") {
        let role = &input.frozen.stack.spec.role;
        let message = format!(
            "the role `{role}` takes no verification commands, so that nothing would run them"
        );
        faults.push(CompileFault::new(Reason::KitRoleMissing, message));
    }
    table([("commands", Some(texts_value(commands)))])
}

fn agent(input: &CompileInput<'_>, faults: &mut Vec<CompileFault>) -> Table {
    let spec = &input.frozen.stack.spec;
    let mut line = |text: &str, what: &str| match Line::try_from(text.to_owned()) {
        Ok(_) => Some(Value::String(text.to_owned())),
        Err(why) => {
            let message = format!("{what}: {why}");
            faults.push(CompileFault::new(Reason::UnsupportedBaseAgent, message));
            None
        }
    };
    let cli = match spec.adapter.as_str() {
        "" => spec.base_agent.as_str(),
        adapter => adapter,
    };
    let model = input
        .child
        .and_then(|child| child.spec.model_override.as_deref())
        .or(spec.model.as_deref());
    let cli = line(cli, "the adapter");
    let model = model.and_then(|model| line(model, "the model"));
    let effort = spec.effort.as_deref().and_then(|effort| line(effort, "the effort"));
    let login = match spec.payment() {
        Ok(login) => login.map(|login| Value::String(login.as_str().to_owned())),
        Err(error) => {
            faults.push(CompileFault::new(Reason::UnsupportedProvider, error.to_string()));
            None
        }
    };
    let some = |texts: Vec<String>| (!texts.is_empty()).then(|| texts_value(&texts));
    let names = servers(input).into_iter().map(|server| server_name(server).to_owned()).collect();
    let hosts = hosts(input, faults);
    // Each of them is a separate run, started through us: agents that a CLI starts internally could not be counted
    // or checked.
    let children = match input.child {
        Some(_) => Vec::new(),
        None => input.frozen.subagents.iter().map(|one| subagent_name(one).to_owned()).collect(),
    };
    let arriving = values::of_agent(input);
    let script = script(input, faults);
    table([
        ("cli", cli),
        ("model", model),
        ("effort", effort),
        ("login", login),
        ("mcp-servers", some(names)),
        ("secrets", some(arriving.secrets)),
        ("secret-files", some(arriving.secret_files)),
        ("configs", some(arriving.configs)),
        ("config-files", some(arriving.config_files)),
        ("hosts", some(hosts)),
        ("allowed-subagents", some(children)),
        ("script", script),
    ])
}

/// The steps of an agent without a model; those whom it starts have none.
fn script(input: &CompileInput<'_>, faults: &mut Vec<CompileFault>) -> Option<Value> {
    let steps = &input.frozen.stack.spec.script;
    if steps.is_empty() || input.child.is_some() {
        return None;
    }
    match Value::try_from(steps) {
        Ok(steps) => Some(steps),
        Err(error) => {
            let message = format!("its script cannot be written: {error}");
            faults.push(CompileFault::new(Reason::UnsupportedBaseAgent, message));
            None
        }
    }
}

fn budget(input: &CompileInput<'_>, faults: &mut Vec<CompileFault>) -> Table {
    let budget = &input.frozen.stack.spec.budget;
    let mut number = |value: Option<u64>, what: &str| {
        let value = value?;
        match i64::try_from(value) {
            Ok(value) if value > 0 => Some(Value::Integer(value)),
            Ok(_) | Err(_) => {
                let message =
                    format!("a budget of {value} {what} lets nothing start; leave it out");
                faults.push(CompileFault::new(Reason::PermissionRequirementsBlocked, message));
                None
            }
        }
    };
    let (tokens, turns) = (number(budget.tokens, "tokens"), number(budget.turns, "turns"));
    let minutes = number(budget.minutes, "minutes");
    let tool_calls = number(budget.tool_calls, "tool calls");
    // Checked like the others, written in dollars.
    let usd = number(budget.micro_usd, "microdollars").and(budget.micro_usd).and_then(|micro| {
        let text = format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000);
        text.parse::<f64>().ok().map(Value::Float)
    });
    table([
        ("tokens", tokens),
        ("usd", usd),
        ("turns", turns),
        ("minutes", minutes),
        ("tool-calls", tool_calls),
    ])
}
