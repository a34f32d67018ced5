//! `bailiwick capabilities`: the limits and duties there are.

use std::path::{Path, PathBuf};

use bailiwick_engine::context::{Context, variable};
use bailiwick_engine::sources::{self, REPOSITORY_KIT};
use bailiwick_kit::fork::{ForkedCapability, fork};
use bailiwick_kit::{FoundCapability, Kit, Layout};
use bailiwick_model::CapabilityName;
use bailiwick_model::dna::Code;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{self, BOLD, Column, DIM, Format, FormatOption, styled};

/// Show and copy capabilities: the limits and duties that roles consist of
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bailiwick capabilities list")]
pub struct Capabilities {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List all capabilities
    #[command(after_help = "Example:\n  bailiwick capabilities list -o json")]
    List {
        #[command(flatten)]
        format: FormatOption,
    },
    /// Show one capability: what it forbids, and its text for the agent
    #[command(after_help = "Example:\n  bailiwick capabilities show scope::files-whitelist")]
    Show {
        /// The capability, `<category>::<slug>`
        name: String,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Copy a capability under a new name
    #[command(after_help = "Example:\n  bailiwick capabilities fork policy::no-git-ops --as \
                            policy::no-git-ops-lax")]
    Fork {
        #[command(flatten)]
        fork: Fork,
        #[command(flatten)]
        format: FormatOption,
    },
}

/// Which capability is copied, and under which name.
#[derive(Debug, Args)]
#[group(skip)]
pub struct Fork {
    /// The capability to copy
    pub(crate) source: String,
    /// The name of the copy, `<category>::<slug>`
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) target: String,
}

impl Capabilities {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let kit = sources::working_kit(context)?;
        match self.verb {
            Verb::List { format } => list(&kit, format.format),
            Verb::Show { name, format } => show(&kit, &name, format.format),
            Verb::Fork { fork, format } => {
                let (root, layout) = match (&context.kit_root, context.repository()) {
                    (Some(root), _) => (context.directory.join(root), layout_of(root)),
                    (None, Some(repository)) => {
                        (repository.root().join(REPOSITORY_KIT), Layout::Plain)
                    }
                    (None, None) => (context.user_kit.clone(), Layout::Plain),
                };
                fork.run(&kit, &root, layout, format.format)
            }
        }
    }
}

fn layout_of(root: &Path) -> Layout {
    let plain = ["capabilities", "roles"].iter().any(|name| root.join(name).is_dir());
    let underscore = ["_capabilities", "_roles"].iter().any(|name| root.join(name).is_dir());
    if plain && !underscore { Layout::Plain } else { Layout::Underscore }
}

fn find(kit: &Kit, text: &str) -> Result<FoundCapability, Failure> {
    let unknown = || {
        let near = kit.nearest_capability(text).map(|near| format!("did you mean `{near}`?"));
        Failure::usage(format!("there is no capability `{text}`"))
            .maybe_help(near.or_else(|| Some("bailiwick capabilities list".to_owned())))
    };
    let name = CapabilityName::parse(text).map_err(|error| {
        Failure::usage(error.to_string()).maybe_help(kit.nearest_capability(text))
    })?;
    let current = match name.renamed_to() {
        Some(new) => {
            output::note(format_args!("`{name}` is called `{new}` now"));
            new
        }
        None => name,
    };
    kit.capability(&current)?.ok_or_else(unknown)
}

fn list(kit: &Kit, format: Format) -> Result<(), Failure> {
    let mut rows = Vec::new();
    let mut objects = Vec::new();
    for name in kit.capability_names()? {
        let Some(found) = kit.capability(&name)? else { continue };
        let mark = |has: bool| if has { "yes" } else { "-" }.to_owned();
        rows.push(vec![
            name.to_string(),
            Code::of(&name).to_string(),
            mark(found.declared.has_gate()),
            mark(found.declared.has_check()),
            found.origin.to_string(),
            found.declared.capability.description.clone(),
        ]);
        objects.push(object(kit, &found));
    }
    match format {
        Format::Json => output::json(&objects),
        Format::Human => {
            let columns = [
                Column::fixed("CAPABILITY"),
                Column::fixed("DNA"),
                Column::fixed("GATE"),
                Column::fixed("CHECK"),
                Column::fixed("FROM"),
                Column::text("DESCRIPTION"),
            ];
            output::table(&columns, &rows);
            output::next_step("bailiwick capabilities show <capability>");
            Ok(())
        }
    }
}

fn show(kit: &Kit, name: &str, format: Format) -> Result<(), Failure> {
    let found = find(kit, name)?;
    if format == Format::Json {
        let mut object = object(kit, &found);
        if let Value::Object(fields) = &mut object {
            fields.insert("text".to_owned(), json!(found.text.text.as_ref()));
        }
        return output::json(&object);
    }
    let declared = &found.declared;
    output::line(styled(BOLD, declared.name()));
    output::wrapped("  ", &declared.capability.description);
    output::line("");
    output::line(format_args!("  from     {} ({})", found.source.file, found.origin));
    output::line(format_args!("  dna      {}", Code::of(declared.name())));
    let gate = match &declared.gate {
        Some(gate) => {
            let gate = gate.get_ref();
            format!("{} ({})", gate.event.get_ref(), shown(&json!(gate.severity)))
        }
        None if declared.has_gate() => "by what it restricts".to_owned(),
        None => "none".to_owned(),
    };
    output::line(format_args!("  gate     {gate}"));
    let (patterns, tools) = restricts(declared);
    for (index, entry) in patterns.iter().chain(&tools).enumerate() {
        let title = if index == 0 { "forbids" } else { "" };
        output::line(format_args!("  {title:7}  {entry}"));
    }
    let bypass = declared.gate.as_ref().and_then(|gate| gate.get_ref().bypass_env.as_ref());
    if let Some(variable) = bypass {
        output::line(format_args!("  bypass   {}=1", variable.get_ref()));
    }
    let check = match (declared.run_mode(), &declared.verify) {
        (Some(mode), Some(verify)) => {
            let verify = verify.get_ref();
            let module = Some(verify.rust_module.get_ref().clone()).filter(|name| !name.is_empty());
            let command = verify.command.as_ref().map(|command| format!("`{}`", command.get_ref()));
            let how: Vec<String> = module.into_iter().chain(command).collect();
            let (mode, when) = (shown(&json!(mode)), shown(&json!(verify.when)));
            format!("{} on {mode}, {when}", how.join(" and "))
        }
        _ => "none".to_owned(),
    };
    output::line(format_args!("  check    {check}"));
    let accepts: Vec<&str> =
        declared.parameterized.accepts.iter().map(|name| name.get_ref().as_str()).collect();
    if !accepts.is_empty() {
        output::line(format_args!("  accepts  {}", accepts.join(", ")));
    }
    if let Some(source) = declared.lineage.as_ref().and_then(|lineage| lineage.fork_from.as_ref()) {
        output::line(format_args!("  fork of  {source}"));
    }
    if !declared.capability.rationale.is_empty() {
        output::wrapped("  why      ", &declared.capability.rationale);
    }
    output::line(format_args!("\n{}", styled(DIM, "What the agent is told:")));
    output::line(found.text.text.trim_end());
    Ok(())
}

/// Its restrictions: patterns of commands, and tools.
fn restricts(declared: &bailiwick_model::Capability) -> (Vec<String>, Vec<String>) {
    let texts = |list: &[serde_spanned::Spanned<String>]| {
        list.iter().map(|text| text.get_ref().clone()).collect()
    };
    (texts(&declared.restricts.tool_patterns), texts(&declared.restricts.tools_denied))
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn object(kit: &Kit, found: &FoundCapability) -> Value {
    let declared = &found.declared;
    let accepts: Vec<&str> =
        declared.parameterized.accepts.iter().map(|name| name.get_ref().as_str()).collect();
    let (patterns, tools) = restricts(declared);
    let gate = declared.gate.as_ref().map(|gate| gate.get_ref());
    let verify = declared.verify.as_ref().map(|verify| verify.get_ref());
    json!({
        "name": declared.name(),
        "code": Code::of(declared.name()).to_string(),
        "category": declared.name().category(),
        "version": declared.capability.version.get_ref(),
        "description": declared.capability.description,
        "gate": declared.has_gate(),
        "check": declared.has_check(),
        "run_mode": declared.run_mode(),
        "accepts": accepts,
        "origin": found.origin,
        "overrides": kit.overridden_capabilities(declared.name()),
        "restricts": { "tool_patterns": patterns, "tools_denied": tools },
        "severity": gate.map(|gate| gate.severity),
        "event": gate.map(|gate| gate.event.get_ref()),
        "bypass_env": gate.and_then(|gate| gate.bypass_env.as_ref()).map(|name| name.get_ref()),
        "when": verify.map(|verify| verify.when),
        "command": verify.and_then(|verify| verify.command.as_ref()).map(|text| text.get_ref()),
        "rationale": declared.capability.rationale,
        "forked_from": declared.lineage.as_ref().and_then(|lineage| lineage.fork_from.as_ref()),
        "file": found.source.file.as_ref(),
    })
}

impl Fork {
    /// Copies the capability into the kit at `root`.
    pub(crate) fn run(
        &self,
        kit: &Kit,
        root: &Path,
        layout: Layout,
        format: Format,
    ) -> Result<(), Failure> {
        let target = CapabilityName::parse(&self.target)
            .map_err(|error| Failure::usage(error.to_string()))?;
        let source = find(kit, &self.source)?;
        if let Some(new) = target.renamed_to() {
            return Err(Failure::usage(format!("`{target}` is an old name of `{new}`")));
        }
        let creator = variable("KEI_CREATOR_ID")?.unwrap_or_else(|| "unknown".to_owned());
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let forked = fork(&source, &target, &creator, &now)?;
        let directory = root.join(layout.capability(&target));
        write(&directory, &forked)?;
        if format == Format::Json {
            return output::json(&json!({
                "source": source.declared.name(),
                "name": target,
                "directory": directory.display().to_string(),
                "fields_rewritten": forked.fields_rewritten,
            }));
        }
        output::line(format_args!("forked {} → {target}", source.declared.name()));
        output::line(format_args!("  dir: {}", directory.display()));
        output::line(format_args!("  fields rewritten: {}", forked.fields_rewritten));
        output::line(
            "  next: edit text.md to say what is different; ensure that [gate].rust-module and \
             [verify].rust-module still do what the new slug promises, or empty them and use \
             [restricts] and [verify] command",
        );
        Ok(())
    }
}

/// Writes the copy in one go; a directory that is there is never touched.
fn write(directory: &Path, forked: &ForkedCapability) -> Result<(), Failure> {
    let refuse = |error: std::io::Error| {
        Failure::usage(format!("{} cannot be written: {error}", directory.display()))
    };
    if std::fs::symlink_metadata(directory).is_ok() {
        let text = format!("{} exists already; a fork never overwrites", directory.display());
        return Err(Failure::usage(text).help("choose another name with --as"));
    }
    let parent: PathBuf = directory.parent().unwrap_or(directory).to_owned();
    std::fs::create_dir_all(&parent).map_err(refuse)?;
    let fresh = tempfile::Builder::new().prefix(".fork-").tempdir_in(&parent).map_err(refuse)?;
    std::fs::write(fresh.path().join("capability.toml"), &forked.toml).map_err(refuse)?;
    let text = fresh.path().join(&forked.text_path);
    if let Some(parent) = text.parent() {
        std::fs::create_dir_all(parent).map_err(refuse)?;
    }
    std::fs::write(text, &forked.text).map_err(refuse)?;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(fresh.path(), open).map_err(refuse)?;
    std::fs::rename(fresh.path(), directory).map_err(refuse)?;
    let _renamed = fresh.keep();
    Ok(())
}
