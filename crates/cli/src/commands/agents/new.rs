//! `bailiwick agents new`: a template to be filled in.

use std::path::{Path, PathBuf};

use bailiwick_engine::context::Context;
use bailiwick_engine::{sources, templates};
use bailiwick_kit::templates::discovery::{IN_KIT, OURS};
use bailiwick_kit::templates::file::NO_TEMPLATE;
use bailiwick_kit::templates::{FoundTemplate, skeleton};
use bailiwick_model::template::AgentType;
use clap::Args;

use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};

/// Create an agent template to fill in
///
/// Writes to .bailiwick/agents/ of the repository, or to your own kit outside of a repository.
/// Never overwrites a file.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bailiwick agents new auditor")]
pub struct New {
    /// The agent type: snake_case or kebab-case
    name: String,
    #[command(flatten)]
    format: FormatOption,
}

impl New {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let agent_type =
            AgentType::parse(&self.name).map_err(|error| Failure::usage(error.to_string()))?;
        if agent_type.as_str() == NO_TEMPLATE {
            let text = format!("`{NO_TEMPLATE}` is what an agent without a template is called");
            return Err(Failure::usage(text).help("choose another name"));
        }
        let covered = templates::working(context)?.find(agent_type.as_str()).ok();
        let directory = directory(context)?;
        let file = write(&directory, &agent_type)?;
        if self.format.format == Format::Json {
            return output::json(&serde_json::json!({
                "agent_type": agent_type,
                "file": file.display().to_string(),
            }));
        }
        output::line(format_args!("wrote {}", file.display()));
        if let Some(FoundTemplate { source, origin, .. }) = covered {
            output::note(format_args!("it goes before {} ({origin})", source.file));
        }
        output::next_step(format_args!(
            "fill it in, then run: bailiwick lint && bailiwick agents show {agent_type}"
        ));
        Ok(())
    }
}

fn directory(context: &Context) -> Result<PathBuf, Failure> {
    Ok(match (sources::kit_root(context)?, context.repository()) {
        (Some(root), _) => root.join(IN_KIT),
        (None, Some(repository)) => repository.root().join(OURS),
        (None, None) => templates::user_directory(context),
    })
}

fn write(directory: &Path, agent_type: &AgentType) -> Result<PathBuf, Failure> {
    let refuse = |error: std::io::Error| {
        Failure::general(format!("{} cannot be written: {error}", directory.display()))
    };
    std::fs::create_dir_all(directory).map_err(refuse)?;
    let taken = |path: &Path| {
        Failure::usage(format!("{} exists already", path.display()))
            .help("edit it, or choose another name")
    };
    // In any spelling: two files for one type are refused when they are read.
    for entry in std::fs::read_dir(directory).map_err(refuse)? {
        let path = entry.map_err(refuse)?.path();
        let ending = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("md"));
        let stem = path.file_stem().and_then(|stem| AgentType::parse(stem.to_str()?).ok());
        if ending && stem.as_ref() == Some(agent_type) {
            return Err(taken(&path));
        }
    }
    let file = directory.join(format!("{agent_type}.md"));
    let written = templates::write_new(&file, &skeleton::skeleton(agent_type)).map_err(refuse)?;
    if written { Ok(file) } else { Err(taken(&file)) }
}
