//! `bailiwick init`: a commented starting kit and an example task.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use bailiwick_kit::starter::{self, Language};
use clap::Args;
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, DIM, Format, FormatOption, GREEN, styled};
use crate::wire::REPOSITORY_KIT;

/// Write a commented starting kit and an example task into this repository
///
/// What is there already is kept as it is.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cd my-project && bailiwick init")]
pub struct Init {
    /// Show what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: FormatOption,
}

#[derive(Debug, Serialize)]
struct Written {
    path: String,
    created: bool,
}

impl Init {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let repository = context.require_repository()?;
        let language = detect(repository.root())?;
        let mut written = Vec::new();
        for (path, text) in starter::files(language) {
            let path = format!("{REPOSITORY_KIT}/{path}");
            let file = repository.root().join(&path);
            let created = if self.dry_run { !file.exists() } else { write_new(&file, &text)? };
            written.push(Written { path, created });
        }
        if self.format.format == Format::Json {
            return output::json(&written);
        }
        let made = written.iter().filter(|file| file.created).count();
        for file in &written {
            let mark = match file.created {
                true if self.dry_run => styled(GREEN, "would create"),
                true => styled(GREEN, "created"),
                false => styled(DIM, "kept   "),
            };
            output::line(format_args!("{mark}  {}", file.path));
        }
        let kept = written.len() - made;
        output::line(format_args!("{made} new files, {kept} kept; the example is for {language}"));
        output::next_step("edit .bailiwick/tasks/example.toml, then run: bailiwick lint");
        Ok(())
    }
}

fn detect(root: &Path) -> Result<Language, Failure> {
    let entries = fs::read_dir(root)
        .map_err(|error| Failure::general(format!("{} cannot be read: {error}", root.display())))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(Language::detect(&names.collect::<Vec<_>>()))
}

/// Writes a file that is not there yet; whether it did.
fn write_new(file: &Path, text: &str) -> Result<bool, Failure> {
    let write = || -> io::Result<bool> {
        if let Some(directory) = file.parent() {
            fs::create_dir_all(directory)?;
        }
        match fs::File::create_new(file) {
            Ok(mut fresh) => fresh.write_all(text.as_bytes()).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    };
    write()
        .map_err(|error| Failure::general(format!("{} cannot be written: {error}", file.display())))
}
