//! `bailiwick init`: a commented starting kit and an example task.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use bailiwick_engine::context::Context;
use bailiwick_engine::counted::counted;
use bailiwick_engine::sources::REPOSITORY_KIT;
use bailiwick_kit::starter::{self, Files, Project};
use bailiwick_runner::agents;
use bailiwick_source_control::{DirectoryTree, Repository};
use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{self, DIM, Format, FormatOption, GREEN, styled};

/// Write a commented starting kit and an example task into this repository
///
/// Recognises the build tools of the repository; the example task installs and tests with them.
/// Existing files are kept.
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

/// One build tool as `-o json` shows it.
#[derive(Debug, Serialize)]
struct Recognised {
    tool: String,
    directory: String,
    evidence: String,
    missing_programs: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct Report {
    stacks: Vec<Recognised>,
    setup: Vec<String>,
    commands: Vec<String>,
    notes: Vec<String>,
    files: Vec<Written>,
}

impl Init {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let repository = context.require_repository()?;
        let project = detect(&repository)?;
        let mut written = Vec::new();
        for (path, text) in starter::files(&project) {
            let path = format!("{REPOSITORY_KIT}/{path}");
            let file = repository.root().join(&path);
            let created = if self.dry_run { !file.exists() } else { write_new(&file, &text)? };
            written.push(Written { path, created });
        }
        let stacks = project.stacks.iter().map(recognised).collect();
        let notes = project.notes.iter().map(ToString::to_string).collect();
        let Project { setup, commands, .. } = project;
        let report = Report { stacks, setup, commands, notes, files: written };
        if self.format.format == Format::Json {
            return output::json(&report);
        }
        self.show_files(&report.files);
        show_stacks(&report);
        output::next_step("edit .bailiwick/tasks/example.toml, then run: bailiwick lint");
        Ok(())
    }

    fn show_files(&self, files: &[Written]) {
        let made = files.iter().filter(|file| file.created).count();
        for file in files {
            let mark = match file.created {
                true if self.dry_run => styled(GREEN, "would create"),
                true => styled(GREEN, "created"),
                false => styled(DIM, "kept   "),
            };
            output::line(format_args!("{mark}  {}", file.path));
        }
        let new = counted(made, "new file");
        output::line(format_args!("{new}, {} kept", files.len() - made));
    }
}

fn show_stacks(report: &Report) {
    for Recognised { tool, directory, evidence, .. } in &report.stacks {
        let place = if directory.is_empty() { String::new() } else { format!(" in {directory}") };
        output::line(format_args!("recognised {tool}{place} ({evidence})"));
    }
    if report.stacks.is_empty() {
        output::line("recognised no build tool");
    }
    if report.commands.is_empty() {
        output::note("no test command was found: write one into [verification] of the example");
    }
    for note in &report.notes {
        output::note(note);
    }
    for stack in report.stacks.iter().filter(|stack| !stack.missing_programs.is_empty()) {
        let programs = stack.missing_programs.join(" and ");
        output::note(format_args!(
            "{} needs {programs}, not found on PATH: install it",
            stack.tool
        ));
    }
}

fn recognised(stack: &starter::Stack) -> Recognised {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let unused = stack.setup.is_empty() && stack.commands.is_empty();
    let missing = |program: &&&str| !unused && agents::on_path(&path, program).is_none();
    Recognised {
        tool: stack.tool.to_string(),
        directory: stack.directory.clone(),
        evidence: stack.evidence.clone(),
        missing_programs: stack.programs.iter().filter(missing).copied().collect(),
    }
}

/// Reads the files that git tracks or would track. A name that is not UTF-8 is left out.
fn detect(repository: &Repository) -> Result<Project, Failure> {
    let listed = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = repository.git().run(listed)?;
    let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let own = |name: &String| !name.starts_with(&format!("{REPOSITORY_KIT}/"));
    let paths = names.filter_map(|name| String::from_utf8(name.to_vec()).ok()).filter(own);
    let tree = DirectoryTree::new(repository.root());
    Ok(Project::detect(&Files::new(paths.collect(), &tree)))
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
