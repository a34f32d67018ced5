//! `bailiwick lint`: everything that is wrong with the kit and its tasks.

use std::path::PathBuf;

use bailiwick_engine::context::Context;
use bailiwick_engine::counted::counted;
use bailiwick_engine::failure::Failure as ServiceFailure;
use bailiwick_engine::running::declared::working_problems;
use bailiwick_engine::sources::{self, REPOSITORY_KIT};
use bailiwick_engine::watch::KitState;
use bailiwick_engine::{policy_file, templates};
use bailiwick_kit::lint::{Report, lint};
use bailiwick_kit::{Kit, bind};
use bailiwick_lifecycle::brief;
use bailiwick_model::{Problem, Settings, Source};
use bailiwick_source_control::DirectoryTree;
use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{self, Format, FormatOption, GREEN, RED, YELLOW, styled};

/// Find mistakes in capabilities, roles, agent templates and tasks
///
/// Reads the working copy and says where it differs from the commit that would bind an agent. Agent
/// files of other programs that cannot be imported are warnings, unless a template has their name.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick lint\n  bailiwick lint my-task.toml\n  bailiwick \
                        lint -o json | jq '.problems[].message'")]
pub struct Lint {
    /// Tasks to check; default: those under .bailiwick/tasks/
    tasks: Vec<PathBuf>,
    /// Exit with an error if there are warnings
    #[arg(long)]
    deny_warnings: bool,
    #[command(flatten)]
    format: FormatOption,
}

#[derive(Serialize)]
struct Shown<'a> {
    severity: bailiwick_model::Severity,
    code: &'a str,
    file: &'a str,
    line: Option<usize>,
    column: Option<usize>,
    text: Option<&'a str>,
    message: &'a str,
    help: Option<&'a str>,
}

impl<'a> From<&'a Problem> for Shown<'a> {
    fn from(problem: &'a Problem) -> Self {
        let place = problem.place.line_and_column();
        Self {
            severity: problem.severity,
            code: problem.code,
            file: &problem.place.source.file,
            line: place.map(|(line, _)| line),
            column: place.map(|(_, column)| column),
            text: problem.place.text(),
            message: &problem.message,
            help: problem.help.as_deref(),
        }
    }
}

impl Lint {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let (kit, watch) = sources::watched_kit(context)?;
        let tasks = self.tasks(context)?;
        let sources: Result<Vec<_>, _> =
            tasks.iter().map(|task| sources::read_task(context, task)).collect();
        let templates = templates::working(context)?;
        let sources = sources?;
        let mut report = lint(&kit, &sources).and_templates(&kit, &templates);
        for source in &sources {
            let found = unusable(context, &kit, source)?;
            let new = |problem: &Problem| !report.problems.contains(problem);
            let new: Vec<Problem> = found.into_iter().filter(new).collect();
            report.problems.extend(new);
        }
        if let Some(repository) = context.repository() {
            report = report.and_foreign(&DirectoryTree::new(repository.root()), &templates);
        }
        report.problems.extend(settings_problem(context)?);
        let errors = report.problems.iter().filter(|problem| problem.is_error()).count();
        let warnings = report.problems.len() - errors;
        let failed = errors > 0 || (self.deny_warnings && warnings > 0);
        match self.format.format {
            Format::Json => output::json(&serde_json::json!({
                "capabilities": report.capabilities,
                "roles": report.roles,
                "tasks": report.tasks,
                "templates": report.templates,
                "importable": report.importable,
                "errors": errors,
                "warnings": warnings,
                "problems": report.problems.iter().map(Shown::from).collect::<Vec<_>>(),
            }))?,
            Format::Human => show(&report, errors, warnings),
        }
        // A deleted file is not read, so the watch does not contain it.
        if sources::note(context, watch)? == KitState::Committed {
            sources::note_differences(context)?;
        }
        if failed {
            return Err(Failure::AlreadyReported(1));
        }
        if let (Format::Human, Some(task)) = (self.format.format, tasks.first()) {
            output::next_step(format_args!(
                "see what the agent would be told: bailiwick prepare {}{}",
                example(&tasks).unwrap_or(task).display(),
                context.global_options
            ));
        }
        Ok(())
    }

    fn tasks(&self, context: &Context) -> Result<Vec<PathBuf>, Failure> {
        if !self.tasks.is_empty() {
            return Ok(self.tasks.clone());
        }
        let Some(repository) = context.repository() else { return Ok(Vec::new()) };
        let directory = repository.root().join(REPOSITORY_KIT).join("tasks");
        if !directory.is_dir() {
            return Ok(Vec::new());
        }
        let shorten = |path: PathBuf| match path.strip_prefix(&context.directory) {
            Ok(short) => short.to_owned(),
            Err(_) => path,
        };
        Ok(sources::task_files(&directory)?.into_iter().map(shorten).collect())
    }
}

/// That agent files of other programs are there, if there are any that can be imported.
pub fn importable(files: usize) -> Option<String> {
    let how = "bailiwick agents import --dry-run";
    match files {
        0 => None,
        1 => Some(format!("1 agent file of another program can be imported: {how}")),
        _ => Some(format!("{files} agent files of other programs can be imported: {how}")),
    }
}

fn example(tasks: &[PathBuf]) -> Option<&PathBuf> {
    tasks.iter().find(|task| task.ends_with("tasks/example.toml"))
}

/// Problems that a run of a task would have, although the task itself is valid.
fn unusable(context: &Context, kit: &Kit, source: &Source) -> Result<Vec<Problem>, Failure> {
    // An error of binding was reported already.
    let Ok(bound) = bind(kit, source) else { return Ok(Vec::new()) };
    let mut problems = working_problems(context, source)?;
    problems.extend(brief::compose(&bound).err());
    match policy_file::of_bound(context, &bound, None, None) {
        Err(ServiceFailure::Problems(more)) => problems.extend(more),
        Err(failure) => return Err(failure.into()),
        Ok(_) => {}
    }
    if let (Some(named), Some(repository)) = (&bound.task.task.kit_commit, context.repository())
        && let Err(failure) = sources::kit_commit(&repository, Some(named.as_str()), "HEAD")
    {
        problems.push(Problem::error("cannot-run", source.whole(), failure.to_string()));
    }
    Ok(problems)
}

/// The problem of the repository's settings in the working copy.
fn settings_problem(context: &Context) -> Result<Option<Problem>, Failure> {
    let Some(repository) = context.repository() else { return Ok(None) };
    let name = format!("{REPOSITORY_KIT}/settings.toml");
    match std::fs::read_to_string(repository.root().join(&name)) {
        Ok(text) => Ok(Settings::parse(&Source::new(name, text)).err()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::general(format!("{name} cannot be read: {error}"))),
    }
}

fn show(report: &Report, errors: usize, warnings: usize) {
    for problem in &report.problems {
        output::text_out(output::rendered(problem));
    }
    let verdict = match (errors, warnings) {
        (0, 0) => styled(GREEN, "no problems"),
        (0, _) => styled(YELLOW, counted(warnings, "warning")),
        (_, 0) => styled(RED, counted(errors, "error")),
        _ => {
            let both = [counted(errors, "error"), counted(warnings, "warning")];
            styled(RED, both.join(", "))
        }
    };
    output::line(format_args!(
        "{}, {}, {}, {}: {verdict}",
        counted(report.capabilities, "capability"),
        counted(report.roles, "role"),
        counted(report.templates, "agent template"),
        counted(report.tasks, "task")
    ));
    if let Some(told) = importable(report.importable) {
        output::note(told);
    }
}
