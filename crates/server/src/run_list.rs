//! One list of all runs: the agents of this machine, and the runs of the control plane. A run of the control plane that
//! has an agent is listed as that agent, unless a filter is about runs of the control plane.
//!
//! Both lists are sorted by creation, the newest first. A page takes from both as far as it knows that nothing newer
//! is left in the other one, and its cursor has a position in each.

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiwick_fleet::ports::{
    Fleet, FleetStore, LocalRun, LocalRunGroup, LocalRunList, LocalRunQuery, Page, Selection,
};
use bailiwick_resources::{
    AgentDispatchRun, AnyObject, EventSource, Kind, Moment, Object, RunPhase,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::blocking::blocking;
use crate::local_runs::group;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, ok};

const MAX_PAGE_SIZE: u64 = 500;
const DEFAULT_PAGE_SIZE: u64 = 100;
/// Runs of the control plane that are examined for each run of a page. If a filter matches few of them, the page is
/// shorter.
const EXAMINED_PER_RUN: usize = 4;
/// The filters that only runs of the control plane have; the store has an index of each.
pub const FLEET_FILTERS: [&str; 9] =
    ["status", "source", "stack", "taskKind", "pool", "branch", "pullRequest", "issue", "rule"];
/// All query parameters.
pub(crate) const PARAMETERS: &[&str] = &[
    "group",
    "text",
    "status",
    "source",
    "stack",
    "taskKind",
    "pool",
    "branch",
    "pullRequest",
    "issue",
    "rule",
    "limit",
    "continue",
];
/// A position behind the last run.
const END: &str = "end";

/// All runs of a page.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunList {
    /// The runs, the newest first.
    pub items: Vec<ListedRun>,
    /// The cursor of the next page; none on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The number of all agents of this machine; only on the first page without a filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// A run of the list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "origin")]
pub enum ListedRun {
    /// An agent of this machine.
    Local(Box<LocalRun>),
    /// A run of the control plane.
    Fleet(FleetRun),
}

/// A run of the control plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetRun {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The phase.
    pub phase: RunPhase,
    /// What it needs next.
    pub group: LocalRunGroup,
    /// The stack.
    pub stack: String,
    /// The repository.
    pub repository: String,
    /// The kind of the task.
    pub task_kind: String,
    /// The agent on this machine; none if the run waits, or ended before one started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// When it was created.
    pub created_at: Moment,
}

impl FleetRun {
    fn new(object: &AnyObject) -> Option<Self> {
        let run: Object<AgentDispatchRun> = object.typed().ok()?;
        let phase = run.status.phase;
        Some(Self {
            namespace: run.metadata.namespace,
            name: run.metadata.name,
            phase,
            group: match phase {
                RunPhase::Pending | RunPhase::Queued | RunPhase::Running => LocalRunGroup::Working,
                RunPhase::WaitingForApproval => LocalRunGroup::NeedsYou,
                RunPhase::Succeeded | RunPhase::Failed | RunPhase::Cancelled => {
                    LocalRunGroup::Ended
                }
            },
            stack: run.spec.agent_stack,
            repository: run.spec.repository,
            task_kind: run.spec.task_kind,
            agent: run.status.ledger_run_id,
            created_at: run.metadata.creation_timestamp.unwrap_or_default(),
        })
    }

    fn matches(&self, query: &LocalRunQuery) -> bool {
        let text = query.text.as_deref().unwrap_or_default().to_lowercase();
        let fields = [&self.name, &self.stack, &self.repository, &self.task_kind];
        query.group.is_none_or(|group| group == self.group)
            && fields.iter().any(|field| field.to_lowercase().contains(&text))
    }
}

/// A position in both lists; none is the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Cursor {
    local: Option<String>,
    fleet: Option<String>,
}

impl Cursor {
    fn parse(text: &str) -> Result<Self, Problem> {
        let invalid = || Problem::bad_request("`continue` is not a cursor of this list");
        let (local, fleet) = text.split_once('~').ok_or_else(invalid)?;
        let part = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Ok(Self { local: part(local), fleet: part(fleet) })
    }

    /// None if both lists are at their end.
    fn text(&self) -> Option<String> {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let (local, fleet) = (part(&self.local), part(&self.fleet));
        (local != END || fleet != END).then(|| format!("{local}~{fleet}"))
    }
}

/// Where a list continues.
fn after(next: Option<String>) -> Option<String> {
    Some(next.unwrap_or_else(|| END.to_owned()))
}

/// The filters of a request.
#[derive(Debug)]
struct Filters {
    query: LocalRunQuery,
    /// Indexed fields of runs of the control plane.
    fields: BTreeMap<String, String>,
}

impl Filters {
    fn parse(query: &BTreeMap<String, String>) -> Result<Self, Problem> {
        let set =
            |key: &str| query.get(key).map(|text| text.trim()).filter(|text| !text.is_empty());
        let fields = FLEET_FILTERS.iter().filter_map(|key| Some((*key, set(key)?)));
        let fields: BTreeMap<String, String> =
            fields.map(|(key, text)| (key.to_owned(), text.to_owned())).collect();
        if let Some(phase) = fields.get("status")
            && !RunPhase::ALL.iter().any(|known| known.as_str() == phase)
        {
            let known = RunPhase::ALL.map(RunPhase::as_str).join(", ");
            return Err(Problem::bad_request(format!("`status={phase}`: it is one of {known}")));
        }
        if let Some(source) = fields.get("source")
            && serde_json::from_value::<EventSource>(source.as_str().into()).is_err()
        {
            return Err(Problem::bad_request(format!(
                "`source={source}` is not a source of events"
            )));
        }
        for key in ["pullRequest", "issue"] {
            if fields.get(key).is_some_and(|number| number.parse::<u64>().is_err()) {
                return Err(Problem::bad_request(format!("`{key}` must be a number")));
            }
        }
        let group = set("group").map(group).transpose()?;
        let text = set("text").map(str::to_owned);
        Ok(Self { query: LocalRunQuery { group, text, after: None, limit: 0 }, fields })
    }
}

/// Whether this is the query of a list of runs, without a cursor and a size.
pub(crate) fn check_query(query: &BTreeMap<String, String>) -> Result<(), Problem> {
    let is_filter =
        |key: &String| PARAMETERS.contains(&key.as_str()) && key != "limit" && key != "continue";
    if let Some(key) = query.keys().find(|key| !is_filter(key)) {
        return Err(Problem::bad_request(format!("`{key}` is not a filter of runs")));
    }
    Filters::parse(query).map(drop)
}

pub(crate) async fn list<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(PARAMETERS)?;
    let limit = request.number("limit")?.unwrap_or(DEFAULT_PAGE_SIZE).clamp(1, MAX_PAGE_SIZE);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let Filters { query, fields } = Filters::parse(&request.query)?;
    let cursor = request.query.get("continue").map(|text| Cursor::parse(text)).transpose()?;
    let mut cursor = cursor.unwrap_or_default();
    let only_fleet = !fields.is_empty();
    if only_fleet || app.local_runs.is_none() {
        cursor.local = after(None);
    }
    let query =
        LocalRunQuery { after: cursor.local.clone().filter(|local| local != END), limit, ..query };
    let local = match cursor.local.as_deref() == Some(END) {
        true => LocalRunList::default(),
        false => local_page(app, &query).await?,
    };
    let mut selection = Selection::of(Kind::AgentDispatchRun);
    selection.newest_first = true;
    selection.fields = fields;
    selection.limit = limit.saturating_mul(EXAMINED_PER_RUN);
    selection.after = cursor.fleet.clone().filter(|fleet| fleet != END);
    let fleet = match cursor.fleet.as_deref() == Some(END) {
        true => Page::default(),
        false => app.store.list(&selection).await?,
    };
    let (local_next, total) = (local.next.clone(), local.total);
    let merged = merge(local, &fleet, &query, only_fleet);
    let local = match (merged.has_local, merged.local_taken) {
        (false, _) if cursor.local.as_deref() == Some(END) => cursor.local,
        (false, _) => after(local_next),
        (true, 0) => cursor.local,
        (true, taken) => {
            after(local_page(app, &LocalRunQuery { limit: taken, ..query.clone() }).await?.next)
        }
    };
    let fleet = match (merged.has_fleet, merged.examined) {
        (false, _) if cursor.fleet.as_deref() == Some(END) => cursor.fleet,
        (false, _) => after(fleet.next.clone()),
        (true, None) => cursor.fleet,
        (true, Some(examined)) => {
            selection.limit = examined;
            after(app.store.list(&selection).await?.next)
        }
    };
    ok(&RunList { items: merged.items, next: Cursor { local, fleet }.text(), total })
}

/// What a page takes from both lists.
struct Merged {
    items: Vec<ListedRun>,
    local_taken: usize,
    /// Whether agents are left over.
    has_local: bool,
    /// Runs of the control plane up to the last one that was taken.
    examined: Option<usize>,
    has_fleet: bool,
}

fn merge(local: LocalRunList, fleet: &Page, query: &LocalRunQuery, only_fleet: bool) -> Merged {
    let created = |object: &AnyObject| object.metadata.creation_timestamp.unwrap_or_default();
    // Nothing older than the last examined run of a list that continues is shown: something newer may follow there.
    let local_end = match (&local.next, local.items.last()) {
        (Some(_), last) => Some(last.map_or(Moment::from_millis(u64::MAX), |run| run.created_at)),
        (None, _) => None,
    };
    let fleet_end = fleet.next.as_ref().and_then(|_| fleet.objects.last()).map(created);
    let mut locals = local.items.into_iter().peekable();
    let matching = fleet.objects.iter().enumerate().filter_map(|(index, object)| {
        let run = FleetRun::new(object)?;
        // An agent is in the other list.
        let is_listed = (only_fleet || run.agent.is_none()) && run.matches(query);
        is_listed.then_some((index, run))
    });
    let mut fleets = matching.peekable();
    let (mut items, mut local_taken, mut examined) = (Vec::new(), 0, None);
    while items.len() < query.limit {
        let one = locals.peek().filter(|run| fleet_end.is_none_or(|end| run.created_at >= end));
        let other =
            fleets.peek().filter(|(_, run)| local_end.is_none_or(|end| run.created_at >= end));
        let takes_local = match (one, other) {
            (Some(one), Some((_, other))) => one.created_at >= other.created_at,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => break,
        };
        if takes_local {
            local_taken += 1;
            items.extend(locals.next().map(|run| ListedRun::Local(Box::new(run))));
        } else if let Some((index, run)) = fleets.next() {
            examined = Some(index + 1);
            items.push(ListedRun::Fleet(run));
        }
    }
    let (has_local, has_fleet) = (locals.peek().is_some(), fleets.peek().is_some());
    Merged { items, local_taken, has_local, examined, has_fleet }
}

async fn local_page<S, F>(
    app: &Arc<App<S, F>>,
    query: &LocalRunQuery,
) -> Result<LocalRunList, Problem> {
    let query = query.clone();
    blocking(app, move |runs| runs.list(&query)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_has_a_position_in_both_lists() {
        let cursor = Cursor { local: Some("7.a".to_owned()), fleet: None };
        assert_eq!(cursor.text().as_deref(), Some("7.a~"));
        assert_eq!(Cursor::parse("7.a~").unwrap(), cursor);
        let end = Cursor { local: after(None), fleet: after(None) };
        assert_eq!(end.text(), None, "there is no page after the last one");
        assert!(Cursor::parse("7.a").is_err());
    }
}
