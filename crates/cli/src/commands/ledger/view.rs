//! Reading the ledger.

use std::str::FromStr;

use bailiwick_model::run::UnknownStatus;
use bailiwick_model::{AgentId, Run, RunState, RunStatus};
use bailiwick_store::{Event, Store};
use serde::Serialize;

use crate::agent_names::{Scope, shown};
use crate::failure::Failure;
use crate::output::{self, BOLD, Column, Format, GREEN, RED, YELLOW, styled};
use crate::running::view::line;
use crate::verifying::Shown;

/// Which runs are listed: by their status, or by a state that a status covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// Runs with this status.
    Status(RunStatus),
    /// Runs in this state.
    State(RunState),
}

impl FromStr for Filter {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        let states = [RunState::Ready, RunState::RolledBack];
        match states.into_iter().find(|state| state.as_str() == text) {
            Some(state) => Ok(Self::State(state)),
            None => text.parse().map(Self::Status),
        }
    }
}

/// Lists runs.
pub async fn list(
    store: &Store,
    filter: Option<Filter>,
    scope: &Scope,
    format: Format,
) -> Result<(), Failure> {
    let mut runs = match filter {
        Some(Filter::Status(status)) => store.list(Some(status)).await?,
        Some(Filter::State(_)) | None => store.list(None).await?,
    };
    runs.retain(|run| scope.includes(run));
    if let Some(Filter::State(state)) = filter {
        runs.retain(|run| run.state == state);
    }
    if format == Format::Json || runs.is_empty() {
        return show_runs(&runs, format);
    }
    let mut headings = COLUMNS;
    let mut rows: Vec<[String; 5]> = runs.iter().map(|run| row(run, &run.name)).collect();
    if *scope == Scope::AllRepositories {
        // The branch says no more than the name; where a run is, matters more here.
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
    Column::fixed("STATUS"),
    Column::fixed("STARTED"),
    Column::text("PARENT"),
    Column::text("BRANCH"),
];

fn row(run: &Run, called: &AgentId) -> [String; 5] {
    [
        called.to_string(),
        standing(run),
        when(run.started_ts),
        run.parent_branch.clone().unwrap_or_else(|| "-".to_owned()),
        run.branch.clone(),
    ]
}

/// Finds runs by the beginning of their identity.
pub async fn find(store: &Store, dna: &str, format: Format) -> Result<(), Failure> {
    show_runs(&store.with_dna(dna).await?, format)
}

/// Shows what a run descends from.
pub async fn parents(store: &Store, id: &AgentId, format: Format) -> Result<(), Failure> {
    let line = store.ancestors(id).await?;
    show_runs(line.get(1..).unwrap_or_default(), format)
}

/// Lists what descends from a run, or from an identity.
pub async fn descendants(store: &Store, id: &str, format: Format) -> Result<(), Failure> {
    let runs = match AgentId::parse(id) {
        Ok(id) => {
            let mut runs = store.descendants(&id).await?;
            runs.retain(|run| run.id != id);
            runs
        }
        Err(_) => store.forked_or_created_by(id).await?,
    };
    show_runs(&runs, format)
}

fn show_runs(runs: &[Run], format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        return output::json(&runs);
    }
    if runs.is_empty() {
        output::line("(no runs)");
        output::next_step("bailiwick run <task.toml> starts one");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = runs.iter().map(|run| row(run, &run.id).into()).collect();
    output::table(&COLUMNS, &rows);
    Ok(())
}

fn standing(run: &Run) -> String {
    match run.half_spawned {
        true => format!("{} (half spawned)", run.status),
        false => run.state.to_string(),
    }
}

fn when(seconds: i64) -> String {
    let time = jiff::Timestamp::from_second(seconds);
    time.map_or_else(|_| seconds.to_string(), |time| time.strftime("%F %H:%MZ").to_string())
}

/// Shows one run with everything that happened to it.
pub async fn show(store: &Store, id: &AgentId, format: Format) -> Result<(), Failure> {
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
    field("status", Some(&standing(&run)));
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

/// What stands before further lines of an event, and how many lines of one are shown.
const EVENT_INDENT: &str = "        ";
const MAX_EVENT_LINES: usize = 4;

/// What an event says to a person; nothing for one of a run that only programs need.
fn described(event: &Event) -> Option<String> {
    match serde_json::from_str::<bailiwick_model::Event>(&event.detail) {
        Ok(seen) => line(&seen),
        Err(_) => Some(format!("{} {}", event.kind, in_a_line(event))),
    }
}

/// What an event says, in a line: those that keep a whole result for programs are summed up.
fn in_a_line(event: &Event) -> String {
    let text = |name: &str| -> Option<String> {
        let detail: serde_json::Value = serde_json::from_str(&event.detail).ok()?;
        Some(detail.get(name)?.as_str()?.to_owned())
    };
    let short = match event.kind.as_str() {
        "verified" | "verification-failed" => {
            serde_json::from_str::<Shown>(&event.detail).ok().map(|shown| shown.summary())
        }
        "landed" | "proposed" | "rolled-back" => match (text("commit"), text("branch")) {
            (Some(commit), Some(branch)) => Some(format!("{commit:.12} on {branch}")),
            _ => None,
        },
        _ => None,
    };
    short.unwrap_or_else(|| event.detail.clone())
}

/// Lists the times that the lock on the file formats was revoked.
pub async fn locks(store: &Store, format: Format) -> Result<(), Failure> {
    let mut events = store.events("").await?;
    events.retain(|event| event.kind == "lock-revoked");
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
    use bailiwick_control::ports::RunStore as _;
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

/// A run with what was started from it.
#[derive(Debug, Serialize)]
pub struct Branching {
    run: Run,
    children: Vec<Branching>,
}

/// Shows runs and what was started from them.
pub async fn tree(store: &Store, id: Option<&AgentId>, format: Format) -> Result<(), Failure> {
    let roots = forest(store, id).await?;
    if format == Format::Json {
        return output::json(&roots);
    }
    if roots.is_empty() {
        return show_runs(&[], format);
    }
    for root in &roots {
        output::line(label(&root.run));
        branches(&root.children, "");
    }
    if let Some(root) = roots.first() {
        output::next_step(format_args!("bailiwick ledger show {}", root.run.id));
    }
    Ok(())
}

/// The trees below `id`, or all trees.
pub async fn forest(store: &Store, id: Option<&AgentId>) -> Result<Vec<Branching>, Failure> {
    let mut left = match id {
        Some(id) => store.descendants(id).await?,
        None => store.list(None).await?,
    };
    let is_child = |run: &Run, all: &[Run]| {
        let parent = run.parent_branch.as_deref();
        all.iter().any(|other| other.id != run.id && is_parent(other, parent))
    };
    let mut roots = Vec::new();
    let all = left.clone();
    let first: Vec<Run> = match id {
        Some(id) => all.iter().filter(|run| run.id == *id).cloned().collect(),
        None => all.iter().filter(|run| !is_child(run, &all)).cloned().collect(),
    };
    for run in first {
        left.retain(|other| other.id != run.id);
        roots.push(grow(run, &mut left));
    }
    // Runs that are each other's parents have no root: each such ring begins at its oldest.
    while let Some(run) = left.first().cloned() {
        left.remove(0);
        roots.push(grow(run, &mut left));
    }
    Ok(roots)
}

fn is_parent(run: &Run, parent: Option<&str>) -> bool {
    parent == Some(run.id.as_str()) || parent == Some(run.branch.as_str())
}

fn grow(run: Run, left: &mut Vec<Run>) -> Branching {
    let (children, others): (Vec<Run>, Vec<Run>) =
        left.drain(..).partition(|other| is_parent(&run, other.parent_branch.as_deref()));
    *left = others;
    let children = children.into_iter().map(|child| grow(child, left)).collect();
    Branching { run, children }
}

fn label(run: &Run) -> String {
    let colour = match run.state {
        RunState::HalfSpawned | RunState::Ready | RunState::Running => YELLOW,
        RunState::Done | RunState::Merged => GREEN,
        RunState::Failed | RunState::Rejected | RunState::RolledBack => RED,
    };
    format!("{} [{}] branch={}", run.id, styled(colour, standing(run)), run.branch)
}

fn branches(children: &[Branching], indent: &str) {
    for (index, child) in children.iter().enumerate() {
        let last = index + 1 == children.len();
        let (arm, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        output::line(format_args!("{indent}{arm}{}", label(&child.run)));
        branches(&child.children, &format!("{indent}{below}"));
    }
}

/// The tree as the seed prints it: an indent for each step down.
pub fn seed_tree(tree: &Branching, depth: usize) {
    let run = &tree.run;
    let indent = "  ".repeat(depth);
    output::line(format_args!("{indent}{} [{}] branch={}", run.id, run.status, run.branch));
    for child in &tree.children {
        seed_tree(child, depth + 1);
    }
}
