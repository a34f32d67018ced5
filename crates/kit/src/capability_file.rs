//! Reads one capability: two files, and the rules for both.

use bailiwick_model::capability::{Gate, Verify};
use bailiwick_model::module::{CheckModule, GateModule, NoSuchModule};
use bailiwick_model::{Capability, CapabilityName, Category, Problem, Source, toml_file};

use serde_spanned::Spanned;

use crate::layer::{Layer, Layout};

/// Finds the capability `name` in a layer. Its directory may have the name of an earlier version; the current name
/// takes precedence.
pub(crate) fn find(
    layer: &Layer,
    name: &CapabilityName,
) -> Result<Option<(Capability, Source, Source)>, Vec<Problem>> {
    for written in [name.clone()].into_iter().chain(name.old_names()) {
        let directory = layer.layout.capability(&written);
        let toml = layer.source(&format!("{directory}/capability.toml"))?;
        if toml.is_none() && layer.list(&directory)?.is_empty() {
            continue;
        }
        if toml.as_ref().is_some_and(is_alias) {
            continue;
        }
        let (mut declared, source, text) = read(layer, &written, toml)?;
        let place = declared.capability.name.span();
        declared.capability.name = Spanned::new(place, name.clone());
        return Ok(Some((declared, source, text)));
    }
    Ok(None)
}

/// Whether a file is only an alias. It declares nothing, so the capability itself is searched, here and in the
/// layers below.
fn is_alias(source: &Source) -> bool {
    let table: Option<toml::Table> = source.text.parse().ok();
    let header = table.as_ref().and_then(|table| table.get("capability"));
    header.is_some_and(|header| header.get("alias").is_some() && header.get("category").is_none())
}

/// Reads and checks the capability whose directory is called `name`.
fn read(
    layer: &Layer,
    name: &CapabilityName,
    toml: Option<Source>,
) -> Result<(Capability, Source, Source), Vec<Problem>> {
    let directory = layer.layout.capability(name);
    let Some(source) = toml else {
        return Err(vec![missing(layer, &format!("{directory}/capability.toml"), name)]);
    };
    let mut declared: Capability = toml_file::parse_all(&source)?;
    if layer.layout == Layout::Underscore {
        look_at_denied_tools(&mut declared);
    }
    let mut problems = check(&declared, name, &source);
    let path = declared.text.path.get_ref();
    if path.is_empty() || path.starts_with('/') || path.split('/').any(|part| part == "..") {
        let place = source.at(declared.text.path.span());
        let message = format!("`{path}` is not a file beside capability.toml");
        problems.push(Problem::error("bad-path", place, message));
        return Err(problems);
    }
    match layer.source(&format!("{directory}/{path}")) {
        Err(more) => problems.extend(more),
        Ok(None) => problems.push(missing(layer, &format!("{directory}/{path}"), name)),
        Ok(Some(text)) if problems.is_empty() => return Ok((declared, source, text)),
        Ok(Some(_)) => {}
    }
    Err(problems)
}

/// The capabilities that a layer has, and its directories that cannot be one.
pub(crate) fn names(layer: &Layer) -> Result<(Vec<CapabilityName>, Vec<Problem>), Vec<Problem>> {
    let root = layer.layout.capabilities();
    let (mut names, mut problems) = (Vec::new(), Vec::new());
    for category in visible(layer.list(root)?) {
        let path = format!("{root}/{category}");
        if let Err(error) = category.parse::<Category>() {
            let place = Source::new(layer.shown(&path), "").whole();
            problems.push(Problem::error("bad-name", place, error.to_string()));
            continue;
        }
        for slug in visible(layer.list(&path)?) {
            match CapabilityName::parse(&format!("{category}::{slug}")) {
                Ok(name) => match name.renamed_to() {
                    None => names.push(name),
                    Some(new) => {
                        problems.push(old_name(layer, &name, &new));
                        names.push(new);
                    }
                },
                Err(error) => {
                    let place = Source::new(layer.shown(&format!("{path}/{slug}")), "").whole();
                    problems.push(Problem::error("bad-name", place, error.to_string()));
                }
            }
        }
    }
    Ok((names, problems))
}

/// Leaves out README files and hidden files.
fn visible(names: Vec<String>) -> impl Iterator<Item = String> {
    names.into_iter().filter(|name| !name.starts_with('.') && !name.ends_with(".md"))
}

fn old_name(layer: &Layer, old: &CapabilityName, new: &CapabilityName) -> Problem {
    let place = Source::new(layer.shown(&layer.layout.capability(old)), "").whole();
    Problem::warning("old-name", place, format!("`{old}` is the old name of `{new}`")).help(
        format!("rename the directory to {}, and the name in it", layer.layout.capability(new)),
    )
}

fn missing(layer: &Layer, path: &str, name: &CapabilityName) -> Problem {
    let place = Source::new(layer.shown(path), "").whole();
    Problem::error(
        "missing-artefact",
        place,
        format!("the file is missing, so `{name}` cannot hold"),
    )
    .help("a capability is a directory with capability.toml and the text that it names")
}

fn check(declared: &Capability, name: &CapabilityName, source: &Source) -> Vec<Problem> {
    let mut problems = check_header(declared, name, source);
    problems.extend(check_restricts(declared, source));
    if let Some(gate) = &declared.gate {
        problems.extend(check_gate(gate.get_ref(), source));
        if !declared.has_gate() && !says_none(&gate.get_ref().rust_module) {
            let message =
                "this gate stops nothing: it names no rust-module, and [restricts] is empty";
            problems.push(Problem::error("nothing-enforced", source.at(gate.span()), message));
        }
    }
    problems.extend(never_fires(declared, source));
    if let Some(verify) = &declared.verify {
        problems.extend(check_verify(verify.get_ref(), source));
        if !declared.has_check() && !says_none(&verify.get_ref().rust_module) {
            let message = "this check measures nothing: it names neither rust-module nor command";
            problems.push(Problem::error("nothing-enforced", source.at(verify.span()), message));
        }
    }
    if problems.is_empty() && !declared.has_gate() && !declared.has_check() {
        let place = source.at(declared.capability.name.span());
        let message = format!("nothing enforces `{name}`: it has neither gate nor check");
        problems.push(
            Problem::error("nothing-enforced", place, message)
                .help("give it [restricts] for a gate, or [verify] command for a check"),
        );
    }
    problems
}

/// How the kei tools write "no gate" or "no check": an empty value.
fn says_none(module: &Spanned<String>) -> bool {
    module.get_ref().is_empty() && !module.span().is_empty()
}

fn check_header(declared: &Capability, name: &CapabilityName, source: &Source) -> Vec<Problem> {
    let header = &declared.capability;
    let mut problems = Vec::new();
    if header.name.get_ref() != name {
        let message =
            format!("the name is `{}`, but the directory says `{name}`", header.name.get_ref());
        let place = source.at(header.name.span());
        problems.push(
            Problem::error("name-mismatch", place, message)
                .help(format!("write name = \"{name}\", or move the directory")),
        );
    } else if *header.category.get_ref() != name.category() {
        let place = source.at(header.category.span());
        let message = format!("the category must be `{}`, as in the name", name.category());
        problems.push(Problem::error("name-mismatch", place, message));
    }
    let parts: Vec<&str> = header.version.get_ref().split('.').collect();
    let number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !(2..=3).contains(&parts.len()) || !parts.iter().all(number) {
        let place = source.at(header.version.span());
        let message = format!("`{}` is not a version", header.version.get_ref());
        problems.push(Problem::error("bad-version", place, message).help("write \"1.0\""));
    }
    problems
}

fn check_restricts(declared: &Capability, source: &Source) -> Vec<Problem> {
    let patterns = declared
        .restricts
        .tool_patterns
        .iter()
        .filter_map(|pattern| bad_pattern(pattern.get_ref(), source.at(pattern.span())));
    let tools = declared.restricts.tools_denied.iter().filter_map(|tool| {
        let place = source.at(tool.span());
        tool.get_ref()
            .trim()
            .is_empty()
            .then(|| Problem::error("bad-tool", place, "an empty text names no tool"))
    });
    patterns.chain(tools).collect()
}

/// A problem if `pattern` is no regular expression.
pub(crate) fn bad_pattern(pattern: &str, place: bailiwick_model::Place) -> Option<Problem> {
    let error = regex_syntax::Parser::new().parse(pattern).err()?;
    let why = match &error {
        regex_syntax::Error::Parse(error) => error.kind().to_string(),
        regex_syntax::Error::Translate(error) => error.kind().to_string(),
        other => other.to_string(),
    };
    let message = format!("`{pattern}` is not a regular expression: {why}");
    Some(Problem::error("bad-pattern", place, message))
}

fn check_gate(gate: &Gate, source: &Source) -> Vec<Problem> {
    let mut problems = Vec::new();
    let module = gate.rust_module.get_ref();
    if !module.is_empty()
        && let Err(error) = GateModule::parse(module)
    {
        problems.push(no_module(&error, source.at(gate.rust_module.span()), "[restricts]"));
    }
    if gate.tools().is_none() {
        let place = source.at(gate.event.span());
        let message = format!("`{}` is not an event", gate.event.get_ref());
        problems.push(
            Problem::error("bad-event", place, message).help(
                "write \"PreToolUse:\" and tools joined by |, as in \"PreToolUse:Edit|Write\"",
            ),
        );
    }
    if let Some(variable) = gate.bypass_env.as_ref().filter(|name| !name.get_ref().is_empty()) {
        let name = variable.get_ref();
        let begins = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        if !begins || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            let message = format!("`{name}` cannot be the name of an environment variable");
            problems.push(Problem::error("bad-variable", source.at(variable.span()), message));
        }
    }
    problems
}

/// A denied tool that the gate does not apply to is not denied at all.
fn never_fires(declared: &Capability, source: &Source) -> Vec<Problem> {
    let Some(gate) = declared.gate.as_ref().map(Spanned::get_ref) else { return Vec::new() };
    let Some(tools) = gate.tools() else { return Vec::new() };
    let looked_at = |tool: &str| tools.iter().any(|pattern| matches(pattern, tool));
    let restricts = &declared.restricts;
    let patterns = restricts.tool_patterns.first().filter(|_| !looked_at("Bash"));
    let denied = restricts.tools_denied.iter().filter(|tool| !looked_at(tool.get_ref()));
    let problem = |place: &Spanned<String>, tool: &str| {
        let message = format!("the gate's event does not look at {tool}, so this forbids nothing");
        Problem::error("never-fires", source.at(place.span()), message)
            .help(format!("write event = \"{}|{tool}\"", gate.event.get_ref()))
    };
    let patterns = patterns.map(|pattern| problem(pattern, "Bash"));
    patterns.into_iter().chain(denied.map(|tool| problem(tool, tool.get_ref()))).collect()
}

/// Whether a name matches a pattern of `*` and `?`.
fn matches(pattern: &str, name: &str) -> bool {
    let mut rest = name.chars();
    let Some(first) = pattern.chars().next() else { return name.is_empty() };
    let after = pattern.get(first.len_utf8()..).unwrap_or_default();
    match first {
        '*' => {
            matches(after, name)
                || rest
                    .next()
                    .is_some_and(|c| matches(pattern, name.get(c.len_utf8()..).unwrap_or_default()))
        }
        _ => rest
            .next()
            .is_some_and(|c| (first == '?' || first == c) && matches(after, rest.as_str())),
    }
}

/// Other kits deny tools that the event of their gate does not name. Here the gate applies to them, too.
fn look_at_denied_tools(declared: &mut Capability) {
    let Some(gate) = declared.gate.as_mut() else { return };
    let place = gate.span();
    let mut gate = gate.get_ref().clone();
    let Some(tools) = gate.tools() else { return };
    let mut event = gate.event.get_ref().clone();
    let denied = declared.restricts.tools_denied.iter().map(Spanned::get_ref);
    for tool in denied.filter(|tool| !tools.iter().any(|pattern| matches(pattern, tool))) {
        event = format!("{event}|{tool}");
    }
    gate.event = Spanned::new(gate.event.span(), event);
    declared.gate = Some(Spanned::new(place, gate));
}

fn check_verify(verify: &Verify, source: &Source) -> Vec<Problem> {
    let mut problems = Vec::new();
    let module = verify.rust_module.get_ref();
    if !module.is_empty()
        && let Err(error) = CheckModule::parse(module)
    {
        let place = source.at(verify.rust_module.span());
        problems.push(no_module(&error, place, "[verify] command"));
    }
    if let Some(command) = &verify.command
        && command.get_ref().trim().is_empty()
    {
        let place = source.at(command.span());
        problems.push(Problem::error("bad-command", place, "an empty command checks nothing"));
    }
    problems
}

fn no_module(error: &NoSuchModule, place: bailiwick_model::Place, instead: &str) -> Problem {
    let help = match error.near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("leave it empty and use {instead}: that needs no code"),
    };
    Problem::error("no-such-module", place, error.to_string()).help(help)
}
