//! `bailiwick doctor`: what this machine can give.

use bailiwick_kit::lint::lint;
use bailiwick_runner::{agents, sandbox};
use bailiwick_source_control::Git;
use clap::Args;
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption, GREEN, RED, YELLOW, styled};
use crate::{templates, wire};

/// The oldest git that can do a trial merge the way it is needed.
const OLDEST_GIT: (u32, u32) = (2, 41);

/// Say what this machine can give: git, sandbox, agent programs, kit
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bailiwick doctor -o json | jq .checks")]
pub struct Doctor {
    #[command(flatten)]
    format: FormatOption,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Standing {
    Good,
    Note,
    Bad,
}

#[derive(Debug, Serialize)]
struct Check {
    what: String,
    standing: Standing,
    found: String,
    advice: Option<String>,
}

impl Check {
    fn new(what: &str, standing: Standing, found: impl Into<String>) -> Self {
        Self { what: what.to_owned(), standing, found: found.into(), advice: None }
    }

    fn advice(mut self, advice: &str) -> Self {
        self.advice = Some(advice.to_owned());
        self
    }
}

impl Doctor {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let mut checks = vec![git(), repository(context), state(context)];
        checks.push(kit(context));
        let parts = sandbox::probe();
        let level = sandbox::level(&parts);
        checks.extend(sandbox_parts(parts));
        checks.extend(agent_programs()?);
        let bad = checks.iter().filter(|check| check.standing == Standing::Bad).count();
        match self.format.format {
            Format::Json => output::json(&serde_json::json!({
                "good": bad == 0,
                "sandbox": level,
                "checks": checks,
            }))?,
            Format::Human => show(&checks),
        }
        if bad > 0 { Err(Failure::Said(1)) } else { Ok(()) }
    }
}

fn show(checks: &[Check]) {
    for check in checks {
        let mark = match check.standing {
            Standing::Good => styled(GREEN, "good"),
            Standing::Note => styled(YELLOW, "note"),
            Standing::Bad => styled(RED, "bad "),
        };
        let room = output::width().saturating_sub(26);
        output::line(format_args!(
            "{mark}  {:18}  {}",
            check.what,
            output::shortened(&check.found, room)
        ));
        if let Some(advice) = &check.advice {
            output::line(format_args!("{:26}{advice}", ""));
        }
    }
}

fn git() -> Check {
    let said = Git::at(".").line(["--version"]);
    let Ok(said) = said else {
        return Check::new("git", Standing::Bad, "not found").advice("install git 2.41 or newer");
    };
    let mut numbers =
        said.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok());
    let version: Option<(u32, u32)> = numbers.next().zip(numbers.next());
    match version {
        Some(version) if version >= OLDEST_GIT => Check::new("git", Standing::Good, said),
        _ => Check::new("git", Standing::Bad, said).advice("git 2.41 or newer is needed"),
    }
}

fn repository(context: &Context) -> Check {
    match context.repository() {
        Some(repository) => {
            let root = repository.root().display().to_string();
            match repository.commit("HEAD") {
                Ok(Some(_)) => Check::new("repository", Standing::Good, root),
                Ok(None) => {
                    Check::new("repository", Standing::Note, format!("{root} has no commit"))
                        .advice("an agent needs a base: commit once")
                }
                Err(error) => Check::new("repository", Standing::Bad, error.to_string()),
            }
        }
        None => Check::new("repository", Standing::Note, "this directory is in no git repository"),
    }
}

fn state(context: &Context) -> Check {
    let database = context.database.to_string();
    match wire::with_store(context, async |store| Ok(store.list(None).await?.len())) {
        Ok(1) => Check::new("ledger", Standing::Good, format!("{database}, 1 run")),
        Ok(runs) => Check::new("ledger", Standing::Good, format!("{database}, {runs} runs")),
        Err(Failure::Message { text, .. }) => Check::new("ledger", Standing::Bad, text),
        Err(_) => Check::new("ledger", Standing::Bad, database),
    }
}

fn kit(context: &Context) -> Check {
    let Ok(kit) = wire::working_kit(context) else {
        return Check::new("kit", Standing::Bad, "it cannot be read").advice("bailiwick lint");
    };
    let Ok(templates) = templates::working(context) else {
        return Check::new("kit", Standing::Bad, "its templates cannot be read")
            .advice("bailiwick lint");
    };
    let report = lint(&kit, &[]).and_templates(&kit, &templates);
    let errors = report.problems.iter().filter(|problem| problem.is_error()).count();
    let found = format!(
        "{} capabilities, {} roles, {} agent templates",
        report.capabilities, report.roles, report.templates
    );
    match (errors, report.problems.len()) {
        (0, 0) => Check::new("kit", Standing::Good, found),
        (0, warnings) => {
            let found = format!("{found}, {warnings} warnings");
            Check::new("kit", Standing::Note, found).advice("bailiwick lint")
        }
        (errors, _) => Check::new("kit", Standing::Bad, format!("{found}, {errors} errors"))
            .advice("bailiwick lint"),
    }
}

fn sandbox_parts(parts: Vec<sandbox::Part>) -> Vec<Check> {
    let (standing, level) = match sandbox::level(&parts) {
        sandbox::Level::Full => (Standing::Good, "full"),
        sandbox::Level::Partial => (Standing::Note, "partial"),
        sandbox::Level::Off => (Standing::Note, "off"),
    };
    let mut checks = vec![Check::new("sandbox", standing, format!("could be {level} here"))];
    checks.extend(parts.into_iter().map(|part| {
        let standing = if part.works { Standing::Good } else { Standing::Note };
        Check::new(&format!("  {}", part.name), standing, part.seen)
    }));
    checks
}

fn agent_programs() -> Result<Vec<Check>, Failure> {
    let home = tempfile::tempdir()
        .map_err(|error| Failure::general(format!("no temporary directory: {error}")))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let check = |agent: agents::FoundAgent| match (agent.path, agent.version) {
        (Some(path), Some(version)) => {
            Check::new(agent.name, Standing::Good, format!("{version}, {}", path.display()))
        }
        (Some(path), None) => {
            Check::new(agent.name, Standing::Note, format!("{} does not answer", path.display()))
        }
        (None, _) => Check::new(agent.name, Standing::Note, "not installed"),
    };
    Ok(agents::find(&path, home.path()).into_iter().map(check).collect())
}
