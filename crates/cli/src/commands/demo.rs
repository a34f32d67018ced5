//! `bailiwick demo`: the main job, from beginning to end, in a throwaway repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bailiwick_source_control::git::forget_repository;
use bailiwick_store::Location;
use clap::Args;

use super::{explain, init, ledger, lint, prepare, spawn};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, BOLD, DIM, FormatOption, styled};

/// See it work, from beginning to end, in a throwaway repository
///
/// Needs nothing but git; touches nothing of yours.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick demo\n  bailiwick demo --keep")]
pub struct Demo {
    /// Keep the repository, and say where it is
    #[arg(long)]
    keep: bool,
}

const SOURCE: &str = "//! A very small library.\n\n/// Adds.\npub fn add(left: i64, right: i64) -> \
                      i64 {\n    left + right\n}\n";
const MANIFEST: &str = "[package]\nname = \"adder\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

impl Demo {
    /// Does what was asked.
    pub fn run(self) -> Result<(), Failure> {
        let place = tempfile::Builder::new()
            .prefix("bailiwick-demo-")
            .tempdir()
            .map_err(|error| Failure::general(format!("no temporary directory: {error}")))?;
        let context = scene(place.path())?;
        output::line("A small Rust library in a fresh repository. An agent shall work on it.\n");

        chapter(1, "Say what agents may do here", "bailiwick init");
        init::Init::plain().run(&context)?;

        chapter(2, "Is everything right?", "bailiwick lint");
        lint::Lint::plain().run(&context)?;
        git(&context.directory, &["add", "--all"])?;
        git(&context.directory, &["commit", "--quiet", "-m", "Say what agents may do here"])?;
        output::line(styled(DIM, "$ git commit  (an agent is bound by what is committed)"));

        let task = PathBuf::from(".bailiwick/tasks/example.toml");
        chapter(
            3,
            "What would the agent be told?",
            &format!("bailiwick prepare {}", task.display()),
        );
        let format = prepare::Shape::Human;
        let prepare = prepare::Prepare { task: task.clone(), agent_id: None, format };
        show_shortened(&prepare.invocation(&context)?.0.to_string());

        chapter(
            4,
            "Make its worktree, and record it",
            &format!("bailiwick spawn {}", task.display()),
        );
        let base = "HEAD".to_owned();
        let format = FormatOption::default();
        spawn::Spawn { task: task.clone(), agent_id: None, base, format }.run(&context)?;

        chapter(5, "Who was spawned from what?", "bailiwick ledger tree");
        ledger::Ledger::tree().run(&context)?;

        let command = "cargo test && g''it push origin main";
        let shown = format!("bailiwick explain --task {} -- {command:?}", task.display());
        chapter(6, "And if it steps over? The gate answers every tool call", &shown);
        explain::Explain::of_task(task, command).run(&context)?;

        output::line("");
        if self.keep {
            output::line(format_args!("Kept: {}", place.keep().join("adder").display()));
        } else {
            output::line("The throwaway repository is gone again; --keep keeps it.");
        }
        output::next_step("cd your-project && bailiwick init");
        Ok(())
    }
}

fn chapter(number: u8, title: &str, command: &str) {
    output::line(format_args!("\n{}", styled(BOLD, format_args!("── {number}. {title}"))));
    output::line(styled(DIM, format_args!("$ {command}")));
}

/// The beginning and the end: in between stands one section for each limit.
fn show_shortened(text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    let (head, tail) = (22, 44);
    match lines.len().checked_sub(head + tail) {
        Some(hidden) if hidden > 0 => {
            for line in lines.iter().take(head) {
                output::line(line);
            }
            let hint = format!("    … {hidden} lines more: a section for each limit of the role …");
            output::line(styled(DIM, hint));
            for line in lines.iter().skip(head + hidden) {
                output::line(line);
            }
        }
        _ => output::text_out(text),
    }
}

/// A repository with one commit, and a state of its own.
fn scene(place: &Path) -> Result<Context, Failure> {
    let directory = place.join("adder");
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(directory.join("src"))?;
        fs::write(directory.join("Cargo.toml"), MANIFEST)?;
        fs::write(directory.join("src/lib.rs"), SOURCE)
    };
    write().map_err(|error| {
        Failure::general(format!("{} cannot be written: {error}", directory.display()))
    })?;
    git(&directory, &["init", "--quiet", "--initial-branch=main"])?;
    git(&directory, &["add", "--all"])?;
    git(&directory, &["commit", "--quiet", "-m", "Add"])?;
    let state = place.join("state");
    Ok(Context {
        directory,
        database: Location::file(state.join("bailiwick.db")),
        user_kit: place.join("config"),
        kit_root: None,
        repeated: String::new(),
        state,
    })
}

/// Git as the person of the demo would call it.
fn git(directory: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let mut command = Command::new("git");
    forget_repository(&mut command);
    let said = command
        .args(arguments)
        .current_dir(directory)
        .envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")])
        .envs([("GIT_AUTHOR_NAME", "Demo"), ("GIT_AUTHOR_EMAIL", "demo@example.org")])
        .envs([("GIT_COMMITTER_NAME", "Demo"), ("GIT_COMMITTER_EMAIL", "demo@example.org")])
        .output()
        .map_err(|error| {
            Failure::general(format!("git cannot be started: {error}")).help("install git")
        })?;
    if said.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&said.stderr).trim().to_owned();
    Err(Failure::general(format!("git {} failed: {why}", arguments.join(" "))))
}
