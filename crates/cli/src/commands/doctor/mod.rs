//! `bailiwick doctor`: what this machine can give.

mod agent_programs;
mod described;

use bailiwick_engine::context::Context;
use bailiwick_engine::counted::counted;
use bailiwick_engine::failure::Failure as ServiceFailure;
use bailiwick_engine::preconditions::{self, Shortfall};
use bailiwick_engine::{sources, templates};
use bailiwick_kit::lint::lint;
use bailiwick_runner::sandbox::{self, Level, Part};
use bailiwick_source_control::git::{HeadError, version};
use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{self, Format, FormatOption, GREEN, RED, YELLOW, styled};

/// Check this machine: git, sandbox, agent CLIs, kit
///
/// Starts each installed agent CLI once, in the sandbox and without a key, and lets a scripted
/// model ask it for a command. Only a CLI that asks the gate first and obeys its denial can be used
/// in runs. Results are cached. Programs that .bailiwick/adapters/ describes are listed and not
/// started. Exits with 1 if agents cannot run here.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick doctor\n  bailiwick doctor --quick\n  bailiwick doctor -o json \
                  | jq .agents"
)]
pub struct Doctor {
    /// Do not start the agent CLIs to test whether they obey the gate
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    format: FormatOption,
}

/// The name of the check of the repository.
const REPOSITORY: &str = "repository";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckState {
    Good,
    Note,
    Bad,
}

#[derive(Debug, Serialize)]
struct Check {
    what: String,
    standing: CheckState,
    found: String,
    advice: Option<String>,
}

impl Check {
    fn new(what: &str, standing: CheckState, found: impl Into<String>) -> Self {
        Self { what: what.to_owned(), standing, found: found.into(), advice: None }
    }

    fn advice(mut self, advice: &str) -> Self {
        self.advice = Some(advice.to_owned());
        self
    }
}

impl Doctor {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let mut checks = vec![git(), repository(context), state(context)];
        checks.push(kit(context));
        let level = sandbox::level(preconditions::parts());
        checks.extend(sandbox_parts());
        let agents = agent_programs::look(context, level, self.quick)?;
        checks.extend(agent_programs::checks(&agents));
        let described = described::look(context);
        checks.extend(described::checks(&described));
        let bad = checks.iter().filter(|check| check.standing == CheckState::Bad).count();
        let verdict = verdict(&checks, agent_programs::is_any_installed(&agents));
        match self.format.format {
            Format::Json => output::json(&serde_json::json!({
                "good": bad == 0,
                "sandbox": level,
                "checks": checks,
                "agents": agents,
                "described": described,
                "verdict": verdict,
            }))?,
            Format::Human => {
                show(&checks);
                output::line("");
                let colour = if bad > 0 { RED } else { GREEN };
                output::wrapped("", &styled(colour.bold(), verdict));
            }
        }
        if bad > 0 { Err(Failure::AlreadyReported(1)) } else { Ok(()) }
    }
}

/// All of it in a sentence: whether agents can run here, or what to do first.
fn verdict(checks: &[Check], any_installed: bool) -> String {
    let first = |check: &Check| match check.advice.as_deref().and_then(|text| text.lines().next()) {
        Some(advice) => format!("{} ({})", check.found, advice.trim()),
        None => check.found.clone(),
    };
    if let Some(bad) = checks.iter().find(|check| check.standing == CheckState::Bad) {
        return format!("Agents cannot run here. Fix this first: {}: {}", bad.what, first(bad));
    }
    let unready = |check: &&Check| check.what == REPOSITORY && check.standing == CheckState::Note;
    match (any_installed, checks.iter().find(unready)) {
        (false, _) => "Only scripted agents can run here: install an agent CLI first.".to_owned(),
        (true, Some(check)) => {
            format!("Agents can run on this machine, but not here yet: {}.", first(check))
        }
        (true, None) => "Agents can run here.".to_owned(),
    }
}

fn show(checks: &[Check]) {
    let longest = checks.iter().map(|check| check.what.chars().count()).max().unwrap_or(0);
    // Behind the mark, the name, and two spaces after each.
    let indent = " ".repeat("good".len() + 2 + longest + 2);
    for check in checks {
        let mark = match check.standing {
            CheckState::Good => styled(GREEN, "good"),
            CheckState::Note => styled(YELLOW, "note"),
            CheckState::Bad => styled(RED, "bad "),
        };
        let title = format!("{mark}  {:longest$}  ", check.what);
        output::wrapped_behind(&title, &indent, &check.found);
        for line in check.advice.iter().flat_map(|advice| advice.lines()) {
            output::wrapped_behind(&indent, &indent, line);
        }
    }
}

fn git() -> Check {
    match version::supported() {
        Ok(version) => Check::new("git", CheckState::Good, format!("git version {version}")),
        Err(error) => Check::new("git", CheckState::Bad, error.to_string())
            .advice("install a newer git and put it first on PATH"),
    }
}

fn repository(context: &Context) -> Check {
    match context.repository() {
        Some(repository) => {
            let root = repository.root().display().to_string();
            match repository.head() {
                Ok(_) => Check::new(REPOSITORY, CheckState::Good, root),
                Err(HeadError::NoCommit) => {
                    Check::new(REPOSITORY, CheckState::Note, format!("{root} has no commit"))
                        .advice("an agent needs a base: commit once")
                }
                Err(error) => Check::new(REPOSITORY, CheckState::Bad, error.to_string()),
            }
        }
        None => Check::new(REPOSITORY, CheckState::Note, "this directory is in no git repository")
            .advice("go to one, or make one: git init && git commit --allow-empty -m start"),
    }
}

fn state(context: &Context) -> Check {
    let database = context.database.to_string();
    match context.with_store(async |store| Ok(store.list(None).await?.len())) {
        Ok(runs) => {
            let found = format!("{database}, {}", counted(runs, "run"));
            Check::new("ledger", CheckState::Good, found)
        }
        Err(ServiceFailure::Failed { text, .. } | ServiceFailure::Refused { text, .. }) => {
            Check::new("ledger", CheckState::Bad, text)
        }
        Err(at_work @ ServiceFailure::AtWork { .. }) => {
            Check::new("ledger", CheckState::Bad, at_work.to_string())
        }
        Err(ServiceFailure::Problems(_)) => Check::new("ledger", CheckState::Bad, database),
    }
}

fn kit(context: &Context) -> Check {
    let Ok(kit) = sources::working_kit(context) else {
        return Check::new("kit", CheckState::Bad, "it cannot be read").advice("bailiwick lint");
    };
    let Ok(templates) = templates::working(context) else {
        return Check::new("kit", CheckState::Bad, "its templates cannot be read")
            .advice("bailiwick lint");
    };
    let report = lint(&kit, &[]).and_templates(&kit, &templates);
    let errors = report.problems.iter().filter(|problem| problem.is_error()).count();
    let found = format!(
        "{}, {}, {}",
        counted(report.capabilities, "capability"),
        counted(report.roles, "role"),
        counted(report.templates, "agent template")
    );
    match (errors, report.problems.len()) {
        (0, 0) => Check::new("kit", CheckState::Good, found),
        (0, warnings) => {
            let found = format!("{found}, {}", counted(warnings, "warning"));
            Check::new("kit", CheckState::Note, found).advice("bailiwick lint")
        }
        (errors, _) => {
            let found = format!("{found}, {}", counted(errors, "error"));
            Check::new("kit", CheckState::Bad, found).advice("bailiwick lint")
        }
    }
}

fn sandbox_parts() -> Vec<Check> {
    let parts = preconditions::parts();
    let shortfall = Shortfall::of(parts);
    let summary = match sandbox::level(parts) {
        Level::Full => Check::new("sandbox", CheckState::Good, "full"),
        Level::Partial => {
            Check::new("sandbox", CheckState::Note, shortfall.what()).advice(&shortfall.fix())
        }
        Level::Off => {
            Check::new("sandbox", CheckState::Bad, shortfall.what()).advice(&shortfall.fix())
        }
    };
    let part = |part: &Part| {
        let standing = if part.works { CheckState::Good } else { CheckState::Note };
        Check::new(&format!("  {}", part.name), standing, part.seen.clone())
    };
    [summary].into_iter().chain(parts.iter().map(part)).collect()
}
