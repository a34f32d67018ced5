//! `bailiwick claims`: who may write where, and taking that away.

use bailiwick_engine::context::Context;
use bailiwick_engine::system;
use bailiwick_lifecycle::delegation::claim::Released;
use bailiwick_model::claim::{Claim, ClaimOutcome, Fence};
use bailiwick_runner::supervisor::RunDirectory;
use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::output::{self, Column, Format, FormatOption};

/// Show which agents have claimed which paths, and release claims
///
/// If the settings of a repository have a table `claims`, an agent claims the paths that its task
/// may write before it starts. No other agent starts on these paths until its work has landed or
/// was rejected, or until its lease has expired.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  bailiwick claims list\n  bailiwick claims release 17")]
pub struct ClaimsCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List claims, oldest first
    #[command(
        after_help = "Examples:\n  bailiwick claims list\n  bailiwick claims list --all -o json"
    )]
    List {
        /// Include claims that have ended
        #[arg(short, long)]
        all: bool,
        #[command(flatten)]
        format: FormatOption,
    },
    /// Release a claim; the work of its agent can no longer land with it
    #[command(
        after_help = "Examples:\n  bailiwick claims release 17\n  bailiwick claims release 17 --force"
    )]
    Release {
        /// The claim
        #[arg(value_name = "ID")]
        fence: Fence,
        /// Release it even if its agent is running
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        format: FormatOption,
    },
}

impl ClaimsCommand {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        match self.verb {
            Verb::List { all, format } => list(context, all, format.format),
            Verb::Release { fence, force, format } => release(context, fence, force, format.format),
        }
    }
}

fn list(context: &Context, all: bool, format: Format) -> Result<(), Failure> {
    let claims = context.with_store(async |store| Ok(store.claims(None).await?))?;
    let shown: Vec<&Claim> = claims.iter().filter(|claim| all || claim.release.is_none()).collect();
    if format == Format::Json {
        return output::json(&shown);
    }
    if shown.is_empty() {
        output::note("nobody has claimed anything; --all lists what has ended");
        return Ok(());
    }
    let now = system::now_ms();
    let rows: Vec<Vec<String>> = shown.iter().map(|claim| row(claim, now)).collect();
    let columns = [
        Column::number("CLAIM"),
        Column::fixed("AGENT"),
        Column::fixed("STATE"),
        Column::text("PATHS"),
        Column::path("REPOSITORY"),
    ];
    output::table(&columns, &rows);
    Ok(())
}

fn row(claim: &Claim, now: u64) -> Vec<String> {
    let state = match (claim.release, claim.leased_until.checked_sub(now)) {
        (Some(release), _) => release.outcome.to_string(),
        (None, Some(left)) if left > 0 => format!("{} min left", left.div_ceil(60_000)),
        (None, _) => "run out".to_owned(),
    };
    let except = claim.except.iter().map(|glob| format!("not {glob}"));
    let paths: Vec<String> = claim.inside.iter().cloned().chain(except).collect();
    vec![
        claim.fence.to_string(),
        claim.run.to_string(),
        state,
        paths.join(", "),
        claim.repository.clone(),
    ]
}

fn release(context: &Context, fence: Fence, force: bool, format: Format) -> Result<(), Failure> {
    let claims = context.with_store(async |store| Ok(store.claims(None).await?))?;
    let Some(claim) = claims.into_iter().find(|claim| claim.fence == fence) else {
        return Err(Failure::usage(format!("there is no claim {fence}"))
            .help("`bailiwick claims list` shows those that there are"));
    };
    let run = &claim.run;
    let held = RunDirectory::new(&context.state, run.as_str()).is_supervised().unwrap_or(true);
    if held && claim.release.is_none() && !force {
        return Err(Failure::usage(format!("`{run}` is running with claim {fence}"))
            .help(format!("end it first: bailiwick stop {run}; or say --force")));
    }
    let now = system::now_ms();
    let released = context
        .with_store(async |store| Ok(store.release(fence, ClaimOutcome::Revoked, now).await?))?;
    let claim = match released {
        Released::Now(claim) => claim,
        Released::Before(claim) => {
            let outcome = claim.release.map_or("", |release| release.outcome.as_str());
            output::note(format_args!("claim {fence} had ended already ({outcome})"));
            claim
        }
        Released::Unknown => return Err(Failure::usage(format!("there is no claim {fence}"))),
    };
    if format == Format::Json {
        return output::json(&claim);
    }
    output::line(format_args!("released  claim {fence} of {}", claim.run));
    Ok(())
}
