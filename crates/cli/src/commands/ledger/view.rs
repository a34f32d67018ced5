//! Reading the ledger.

use std::collections::BTreeMap;
use std::str::FromStr;

use bailiwick_engine::agent_names::{Scope, shown};
use bailiwick_engine::agent_state::{AgentState, SupervisorState, UnknownState};
use bailiwick_engine::context::Context;
use bailiwick_engine::verifying::VerificationReport;
use bailiwick_model::{AgentId, Attempt, LedgerNote, Run, RunStatus};
use bailiwick_store::{Event, Store};

use crate::failure::Failure;
use crate::output::{self, BOLD, Column, Format, styled};
use crate::view::line;

/// Which runs are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter {
    /// Those with this status, if it has a word for it.
    status: Option<RunStatus>,
    /// Those in this state.
    state: AgentState,
}

impl FromStr for Filter {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, UnknownState> {
        // Every status has the word of a state.
        Ok(Self { status: text.parse().ok(), state: text.parse()? })
    }
}

/// The states of runs.
pub struct States<'a> {
    context: &'a Context,
    last: BTreeMap<AgentId, Attempt>,
}

impl<'a> States<'a> {
    /// Reads what is known of all attempts.
    pub async fn read(context: &'a Context, store: &Store) -> Result<Self, Failure> {
        let attempts = store.attempts(None).await?.into_iter();
        let last = attempts.map(|attempt| (attempt.run.clone(), attempt)).collect();
        Ok(Self { context, last })
    }

    /// The state of a run.
    pub fn of(&self, run: &Run) -> AgentState {
        AgentState::of(run, self.last.get(&run.id), SupervisorState::observe(self.context, run).0)
    }
}

/// Lists runs.
pub async fn list(
    context: &Context,
    store: &Store,
    filter: Option<Filter>,
    scope: &Scope,
    format: Format,
) -> Result<(), Failure> {
    let states = States::read(context, store).await?;
    let mut runs = store.list(None).await?;
    runs.retain(|run| scope.includes(run));
    if let Some(filter) = filter {
        runs.retain(|run| Some(run.status) == filter.status || states.of(run) == filter.state);
    }
    if format == Format::Json || runs.is_empty() {
        return show_runs(&states, &runs, format);
    }
    let mut headings = COLUMNS;
    let mut rows: Vec<[String; 5]> = runs.iter().map(|run| row(&states, run, &run.name)).collect();
    if *scope == Scope::AllRepositories {
        // The branch repeats the name; the place of a run matters more here.
        let [.., last] = &mut headings;
        *last = Column::path("REPOSITORY");
        for ([.., last], run) in rows.iter_mut().zip(&runs) {
            *last = shown(run.repository.as_deref());
        }
    }
    output::table(&headings, &rows.into_iter().map(Vec::from).collect::<Vec<_>>());
    Ok(())
}

const COLUMNS: [Column; 5] = [
    Column::fixed("RUN"),
    Column::fixed("STATE"),
    Column::fixed("STARTED"),
    Column::text("PARENT"),
    Column::text("BRANCH"),
];

fn row(states: &States<'_>, run: &Run, called: &AgentId) -> [String; 5] {
    [
        called.to_string(),
        states.of(run).to_string(),
        when(run.started_ts),
        run.parent_branch.clone().unwrap_or_else(|| "-".to_owned()),
        run.branch.clone(),
    ]
}

/// Finds runs by the beginning of their identity.
pub async fn find(
    context: &Context,
    store: &Store,
    dna: &str,
    format: Format,
) -> Result<(), Failure> {
    let states = States::read(context, store).await?;
    show_runs(&states, &store.find_by_dna_prefix(dna).await?, format)
}

/// Shows what a run descends from.
pub async fn parents(
    context: &Context,
    store: &Store,
    id: &AgentId,
    format: Format,
) -> Result<(), Failure> {
    let line = store.ancestors(id).await?;
    let states = States::read(context, store).await?;
    let parents = line.get(1..).unwrap_or_default();
    if parents.is_empty() && format == Format::Human {
        output::line(format_args!("(no parents: `{id}` was not started from another run)"));
        return Ok(());
    }
    show_runs(&states, parents, format)
}

/// Lists what descends from a run, or from an identity.
pub async fn descendants(
    context: &Context,
    store: &Store,
    id: &str,
    format: Format,
) -> Result<(), Failure> {
    let runs = match AgentId::parse(id) {
        Ok(id) => {
            let mut runs = store.descendants(&id).await?;
            runs.retain(|run| run.id != id);
            runs
        }
        Err(_) => store.forked_or_created_by(id).await?,
    };
    if runs.is_empty() && format == Format::Human {
        output::line(format_args!("(no descendants: no run was started from `{id}`)"));
        return Ok(());
    }
    show_runs(&States::read(context, store).await?, &runs, format)
}

pub(super) fn show_runs(states: &States<'_>, runs: &[Run], format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        return output::json(&runs);
    }
    if runs.is_empty() {
        output::line("(no runs)");
        output::next_step("bailiwick run <task.toml> starts one");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = runs.iter().map(|run| row(states, run, &run.id).into()).collect();
    output::table(&COLUMNS, &rows);
    Ok(())
}

fn when(seconds: i64) -> String {
    let time = jiff::Timestamp::from_second(seconds);
    time.map_or_else(|_| seconds.to_string(), |time| time.strftime("%F %H:%MZ").to_string())
}

/// Shows one run with everything that happened to it.
pub async fn show(
    context: &Context,
    store: &Store,
    id: &AgentId,
    format: Format,
) -> Result<(), Failure> {
    let run = store.get(id).await?;
    let events = store.events(id.as_str()).await?;
    if format == Format::Json {
        return output::json(&serde_json::json!({ "run": run, "events": events }));
    }
    output::line(styled(BOLD, &run.id));
    let field = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            output::line(format_args!("  {name:10} {value}"));
        }
    };
    let cents = run.cost_cents;
    let state = States::read(context, store).await?.of(&run);
    field("state", Some(state.as_str()));
    field("repository", run.repository.as_deref().map(|place| shown(Some(place))).as_deref());
    if run.id != run.name {
        field("name", Some(run.name.as_str()));
    }
    field("branch", Some(&run.branch));
    field("parent", run.parent_branch.as_deref());
    field("dna", run.dna.as_deref());
    field("spec", Some(&run.spec_sha));
    field("base", run.base.as_deref());
    field("worktree", run.worktree_path.as_deref());
    field("creator", run.creator_id.as_deref());
    field("forked of", run.fork_parent_id.as_deref());
    field("summary", run.summary.as_deref());
    if cents > 0 {
        let cost = format!(
            "{}.{:02} US dollars, {} {}",
            cents / 100,
            cents % 100,
            run.provider,
            run.model
        );
        field("cost", Some(&cost));
    }
    output::line("  events");
    for event in events {
        let Some(text) = described(&event) else { continue };
        let first = format!("    {}  ", when(event.at / 1000));
        let lines = output::folded(text.trim_end(), &first, EVENT_INDENT, MAX_EVENT_LINES);
        lines.iter().for_each(output::line);
    }
    Ok(())
}

/// The indentation of further lines of an event, and how many lines of one are shown.
const EVENT_INDENT: &str = "        ";
const MAX_EVENT_LINES: usize = 4;

/// An event as text for people; none for an event that only programs need.
fn described(event: &Event) -> Option<String> {
    match serde_json::from_str::<bailiwick_model::Event>(&event.detail) {
        Ok(seen) => line(&seen),
        Err(_) => Some(format!("{} {}", event.kind, in_a_line(event))),
    }
}

/// An event as one line: those that contain a whole result are summarised.
fn in_a_line(event: &Event) -> String {
    let text = |name: &str| -> Option<String> {
        let detail: serde_json::Value = serde_json::from_str(&event.detail).ok()?;
        Some(detail.get(name)?.as_str()?.to_owned())
    };
    let short = LedgerNote::parse(&event.kind).and_then(|note| match note {
        LedgerNote::Verified | LedgerNote::VerificationFailed | LedgerNote::Rebased => {
            serde_json::from_str::<VerificationReport>(&event.detail)
                .ok()
                .map(|shown| shown.summary())
        }
        LedgerNote::Landed | LedgerNote::Proposed | LedgerNote::RolledBack => {
            match (text("commit"), text("branch")) {
                (Some(commit), Some(branch)) => Some(format!("{commit:.12} on {branch}")),
                _ => None,
            }
        }
        LedgerNote::NothingChanged
        | LedgerNote::Title
        | LedgerNote::FilesRemoved
        | LedgerNote::LockRevoked => None,
    });
    short.unwrap_or_else(|| event.detail.clone())
}

/// Lists the times that the lock on the file formats was revoked.
pub async fn locks(store: &Store, format: Format) -> Result<(), Failure> {
    let mut events = store.events("").await?;
    events.retain(|event| event.is(LedgerNote::LockRevoked));
    if format == Format::Json {
        return output::json(&events);
    }
    if events.is_empty() {
        output::line("(the lock was never revoked)");
    }
    for event in events {
        output::line(format_args!("{}  {}", when(event.at / 1000), event.detail));
    }
    Ok(())
}

/// Prints the task.toml that a run was given.
pub async fn spec(store: &Store, id: &str, format: Format) -> Result<(), Failure> {
    use bailiwick_lifecycle::ports::RunStore as _;
    let run = match AgentId::parse(id) {
        Ok(id) => store.find(&id).await?,
        Err(_) => None,
    };
    let sha = run.map_or_else(|| id.to_owned(), |run| run.spec_sha);
    match store.spec(&sha).await? {
        Some(text) => match format {
            Format::Human => {
                output::plain(&text);
                Ok(())
            }
            Format::Json => output::json(&serde_json::json!({ "sha": sha, "task_toml": text })),
        },
        None => Err(Failure::usage(format!("no spec is kept for `{id}`"))
            .help("specs are kept for runs made by `bailiwick spawn`; a short SHA must be unique")),
    }
}
