//! `bailiwick agents assemble`: agent files from manifests.

use std::path::{Path, PathBuf};

use bailiwick_engine::context::Context;
use bailiwick_engine::{sources, system};
use bailiwick_kit::Kit;
use bailiwick_kit::manifest::{self, AssembledFile, Manifest, Program, assemble};
use bailiwick_model::Source;
use bailiwick_model::template::AgentType;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{self, Format, FormatOption};

/// The first line of an assembled file, which may be assembled again.
const MADE: &str = "# Assembled from the manifest ";

/// Make agent files from manifests, with the texts of the role of the kit that they name
///
/// Prints the file, or writes it into a directory. Without a name, all manifests of the kit.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick agents assemble critic\n  bailiwick agents assemble \
                        --for codex --out .codex/agents\n  bailiwick agents assemble \
                        ./mine.toml -o json"
)]
pub struct Assemble {
    /// Manifests of the kit by name, or files; all of the kit if none is named
    #[arg(value_name = "NAME|FILE")]
    manifests: Vec<String>,
    /// The program that will read them
    #[arg(long = "for", value_name = "PROGRAM", default_value = "claude")]
    program: For,
    /// Write into this directory instead of printing
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite files that this command did not write
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    format: FormatOption,
}

/// A program that has agent files.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum For {
    Claude,
    Codex,
    Gemini,
    Opencode,
}

impl For {
    fn program(self) -> Program {
        match self {
            Self::Claude => Program::Claude,
            Self::Codex => Program::Codex,
            Self::Gemini => Program::Gemini,
            Self::Opencode => Program::Opencode,
        }
    }
}

impl Assemble {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let kit = sources::working_kit(context)?;
        let program = self.program.program();
        let mut made = Vec::new();
        for manifest in self.chosen(context, &kit)? {
            let file = assemble(&kit, &manifest, program)?;
            made.push((manifest, file));
        }
        if let Some(directory) = &self.out {
            self.write(&context.directory.join(directory), &made)?;
        }
        for (manifest, file) in &made {
            output::problems(&file.warnings);
            for note in &file.notes {
                output::note(format_args!("{}: {note}", manifest.name.get_ref()));
            }
        }
        if self.format.format == Format::Json {
            let objects: Vec<Value> = made.iter().map(|made| self.object(made)).collect();
            return output::json(&objects);
        }
        self.show(&made);
        Ok(())
    }

    fn chosen(&self, context: &Context, kit: &Kit) -> Result<Vec<Manifest>, Failure> {
        if !self.manifests.is_empty() {
            return self.manifests.iter().map(|text| named(context, kit, text)).collect();
        }
        let mut chosen = Vec::new();
        for name in manifest::names(kit)? {
            chosen.extend(manifest::find(kit, &name)?.map(|found| found.manifest));
        }
        Ok(chosen)
    }

    fn write(&self, directory: &Path, made: &[(Manifest, AssembledFile)]) -> Result<(), Failure> {
        // All files are checked before one is written.
        for (_, file) in made {
            let target = directory.join(&file.file_name);
            let there = target.symlink_metadata().is_ok();
            let ours = std::fs::read_to_string(&target).is_ok_and(|text| text.contains(MADE));
            if there && !ours && !self.force {
                let text = format!("{} was not made by this command", target.display());
                return Err(Failure::usage(text).help("say --force to write over it"));
            }
        }
        std::fs::create_dir_all(directory).map_err(|error| {
            Failure::general(format!("{} cannot be made: {error}", directory.display()))
        })?;
        made.iter().try_for_each(|(_, file)| {
            Ok(system::write_whole(&directory.join(&file.file_name), &file.text)?)
        })
    }

    fn show(&self, made: &[(Manifest, AssembledFile)]) {
        let Some(directory) = &self.out else {
            for (_, file) in made {
                if made.len() > 1 {
                    output::line(format_args!("==> {} <==", file.file_name));
                }
                output::plain(&file.text);
            }
            return;
        };
        for (_, file) in made {
            output::line(format_args!("wrote {}", directory.join(&file.file_name).display()));
        }
        let home = self.program.program().directory();
        if directory.as_path() != Path::new(home) {
            output::next_step(format_args!("{} reads {home}", self.program.program()));
        }
    }

    fn object(&self, (manifest, file): &(Manifest, AssembledFile)) -> Value {
        let path = self.out.as_ref().map(|directory| directory.join(&file.file_name));
        json!({
            "agent": manifest.name.get_ref(),
            "for": self.program.program(),
            "substrate_role": manifest.substrate_role.as_ref().map(|role| role.get_ref()),
            "manifest": manifest.source.file.as_ref(),
            "file": file.file_name,
            "written": path.map(|path| path.display().to_string()),
            "notes": file.notes,
            "text": file.text,
        })
    }
}

/// A manifest of the kit, or a file: what has a slash or ends in `.toml`.
fn named(context: &Context, kit: &Kit, text: &str) -> Result<Manifest, Failure> {
    if text.contains('/') || text.ends_with(".toml") {
        let read = std::fs::read_to_string(context.directory.join(text))
            .map_err(|error| Failure::general(format!("{text} cannot be read: {error}")))?;
        return Ok(manifest::read(&Source::new(text, read))?);
    }
    let unknown = || {
        let near = manifest::nearest_name(kit, text).map(|near| format!("did you mean `{near}`?"));
        Failure::usage(format!("there is no manifest `{text}`"))
            .maybe_help(near.or_else(|| Some("a file is named with its path".to_owned())))
    };
    let name = AgentType::parse(text).map_err(|_| unknown())?;
    let found = manifest::find(kit, &name)?.ok_or_else(unknown)?;
    Ok(found.manifest)
}
