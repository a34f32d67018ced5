//! The page of a run: state, attempts, budget, actions and the transcript.

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::{
    LocalAttempt, LocalEventFilter, LocalJob, LocalJobs, LocalQuestion, LocalRun, LocalRunDetail,
    LocalRunEvents,
};
use bailiwick_server::{ApiError, Session};
use hyper::StatusCode;
use serde::Deserialize;

use crate::actions::{Action, JobView, MAX_JOBS, job_views};
use crate::clock::now;
use crate::event_at::event_at;
use crate::fleet::dispatch::run_of_agent;
use crate::inbox::QuestionCard;
use crate::layout::{Layout, Section, html, see_other};
use crate::runs::RunRow;
use crate::site::{Frame, Site, query};
use crate::text::{Time, dollars, duration, encoded, line, number, shortened, visible};
use crate::transcript::{Content, Row, rows};

/// The events of one page.
pub(crate) const WINDOW: u64 = 500;
/// Events before the window that belong to calls which end inside of it.
const LOOK_BACK: u64 = 60;
const MAX_FACT: usize = 200;
const MAX_TASK: usize = 20_000;

/// A page of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    Transcript,
    Changes,
    Checks,
    Context,
    Policy,
    Cost,
    Lineage,
    Artifacts,
}

impl Tab {
    const ALL: [Self; 8] = [
        Self::Transcript,
        Self::Changes,
        Self::Checks,
        Self::Context,
        Self::Policy,
        Self::Cost,
        Self::Lineage,
        Self::Artifacts,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Transcript => "Transcript",
            Self::Changes => "Changes",
            Self::Checks => "Checks",
            Self::Context => "Context",
            Self::Policy => "Policy",
            Self::Cost => "Cost",
            Self::Lineage => "Lineage",
            Self::Artifacts => "Artifacts",
        }
    }

    /// Where it is below the page of the run, and its part below the run in the API.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Transcript => "",
            Self::Changes => "/changes",
            Self::Checks => "/checks",
            Self::Context => "/context",
            Self::Policy => "/policy",
            Self::Cost => "/cost",
            Self::Lineage => "/lineage",
            Self::Artifacts => "/artifacts",
        }
    }
}

/// A part of the page of a run.
pub(crate) struct RunHeader {
    pub(crate) row: RunRow,
    pub(crate) facts: Vec<Fact>,
    pub(crate) next: Option<String>,
    pub(crate) actions: Vec<Action>,
    pub(crate) jobs: Vec<JobView>,
    /// Older jobs that are not shown.
    pub(crate) older_jobs: usize,
    pub(crate) meters: Vec<Meter>,
    pub(crate) tab: Tab,
    /// The page and the name of the run of the control plane that it works for.
    pub(crate) dispatch: Option<(String, String)>,
}

/// A fact about a run.
pub(crate) struct Fact {
    pub(crate) label: &'static str,
    pub(crate) value: String,
    /// The whole identifier, for a person who copies it.
    pub(crate) whole: Option<String>,
}

/// A limit of the budget and what is used of it.
pub(crate) struct Meter {
    pub(crate) label: &'static str,
    pub(crate) used: String,
    pub(crate) of: String,
    pub(crate) value: u64,
    pub(crate) max: u64,
    pub(crate) is_near: bool,
}

struct AttemptView {
    number: u64,
    /// When it started, in milliseconds.
    from: u64,
    agent: String,
    phase: String,
    ending: String,
    detail: String,
    started: Time,
    elapsed: String,
    tokens: String,
}

#[derive(Template)]
#[template(path = "run.html")]
struct RunPage {
    layout: Layout,
    header: RunHeader,
    attempts: Vec<AttemptView>,
    task: String,
    task_left_out: usize,
    questions: Vec<QuestionCard>,
    rows: Vec<Row>,
    /// The number before the first event of the window.
    after: u64,
    last: u64,
    /// Rows after this number may be new or change.
    since: u64,
    /// Whether there is more than one answer to a page that has the rest.
    has_more: bool,
    /// The event of the address, if there is none with its number.
    no_event: Option<u64>,
    earlier: Option<String>,
    later: Option<String>,
    newest: Option<String>,
    is_live: bool,
    filters: Vec<FilterLink>,
    /// The filter and the text that are searched for.
    filter: &'static str,
    text: String,
}

struct FilterLink {
    label: &'static str,
    href: String,
    is_current: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Window {
    after: Option<u64>,
    /// The number of an event that the window must show.
    event: Option<u64>,
    /// A time in milliseconds: the address of the first event that is not before it is opened.
    at: Option<u64>,
    /// Only what is new or changed after this number, for a page that has the rest.
    since: Option<Since>,
    filter: Option<LocalEventFilter>,
    #[serde(default)]
    text: String,
}

/// The events that a page has.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
enum Since {
    /// Those up to this number.
    Event(u64),
    /// All of them: it needs only what is beside them.
    Last,
}

impl TryFrom<String> for Since {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.as_str() {
            "last" => Ok(Self::Last),
            number => number.parse().map(Self::Event),
        }
    }
}

/// Brings the header and the side of a page of a run up to date, and nothing else of it.
pub(crate) fn follow_side(layout: &mut Layout, detail: &LocalRunDetail) {
    let run = encoded(&detail.run.id);
    layout.live = Some(format!("topic=run&run={run}&after={}", detail.last_event));
    layout.updates = format!("{}/local/{run}?since=last", layout.base);
}

impl Window {
    fn is_search(&self) -> bool {
        self.filter.is_some() || !self.text.is_empty()
    }

    /// The query of a search with another filter, after a number.
    fn search(&self, filter: Option<LocalEventFilter>, after: Option<u64>) -> String {
        let pairs = [
            ("filter", filter.map(|filter| filter.as_str().to_owned())),
            ("text", Some(self.text.clone()).filter(|text| !text.is_empty())),
            ("after", after.map(|after| after.to_string())),
        ];
        let set = pairs.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let set: Vec<String> =
            set.map(|(key, value)| format!("{key}={}", encoded(&value))).collect();
        set.join("&")
    }

    fn filters(&self, address: &str) -> Vec<FilterLink> {
        let link = |label, filter| FilterLink {
            label,
            href: match self.search(filter, None).as_str() {
                "" => address.to_owned(),
                query => format!("{address}?{query}"),
            },
            is_current: self.filter == filter,
        };
        let named = LocalEventFilter::ALL.map(|filter| {
            let label = match filter {
                LocalEventFilter::Denied => "Denied",
                LocalEventFilter::Writes => "Writes",
                LocalEventFilter::Commands => "Commands",
                LocalEventFilter::Errors => "Errors",
            };
            link(label, Some(filter))
        });
        std::iter::once(link("All", None)).chain(named).collect()
    }
}

/// Its label, what is used, the limit if there is one, and how both are written.
type Limit = (&'static str, u64, Option<u64>, fn(u64) -> String);

fn meters(run: &LocalRun) -> Vec<Meter> {
    let (used, budget) = (&run.used, &run.budget);
    let limits = [
        ("Tokens", used.tokens, budget.tokens, number as fn(u64) -> String),
        ("Cost", used.micro_usd, budget.micro_usd, dollars),
        ("Turns", used.turns, budget.turns, number),
        ("Tool calls", used.tool_calls, budget.tool_calls, number),
        ("Time", used.elapsed_ms, budget.elapsed_ms, duration),
    ];
    let meter = |(label, value, max, text): Limit| {
        let max = max?;
        let (used, of) = (text(value), text(max));
        let is_near = value.saturating_mul(10) >= max.saturating_mul(8);
        Some(Meter { label, used, of, value: value.min(max), max, is_near })
    };
    limits.into_iter().filter_map(meter).collect()
}

impl RunHeader {
    /// Every page of the run, and whether it is this one.
    pub(crate) fn tabs(&self) -> [(Tab, bool); 8] {
        Tab::ALL.map(|tab| (tab, tab == self.tab))
    }

    /// Reads what the page of a run has beside the run itself.
    pub(crate) async fn read(
        site: &Site,
        session: &Session,
        detail: &LocalRunDetail,
        tab: Tab,
    ) -> Result<Self, ApiError> {
        let jobs = jobs(site, session, &detail.run.id).await?;
        let dispatch = run_of_agent(site, session, &detail.run.id).await?;
        let dispatch = dispatch.map(|run| run.link(&site.base));
        Ok(Self { dispatch, ..Self::new(site, session, detail, &jobs, tab) })
    }

    fn new(
        site: &Site,
        session: &Session,
        detail: &LocalRunDetail,
        jobs: &[LocalJob],
        tab: Tab,
    ) -> Self {
        let run = &detail.run;
        let short = |text: &str| text.chars().take(12).collect::<String>();
        let attempt = detail.attempts.last();
        let version = match run.agent_version.as_str() {
            "" => run.agent.clone(),
            version => format!("{} {version}", run.agent),
        };
        let facts = [
            ("Repository", run.repository.clone()),
            ("Role", run.role.clone()),
            ("Agent", version),
            ("Model", run.model.clone()),
            ("Branch", run.branch.clone()),
            ("Base", run.base.as_deref().map(short).unwrap_or_default()),
            ("Started from", run.parent.clone().unwrap_or_default()),
            ("Sandbox", run.sandbox.clone()),
            ("Login", attempt.map(|attempt| attempt.login.clone()).unwrap_or_default()),
            ("Tokens", number(run.used.tokens)),
            ("Tool calls", number(run.used.tool_calls)),
            ("Denied", number(run.used.denied)),
            ("Working time", duration(run.used.elapsed_ms)),
            ("Identity", detail.dna.clone()),
        ];
        let facts = facts.into_iter().filter(|(_, value)| !value.is_empty());
        let fact = |(label, value): (&'static str, String)| {
            let whole = match label {
                "Base" => run.base.as_deref(),
                "Identity" => Some(detail.dna.as_str()),
                _ => None,
            };
            Fact { label, value: line(&value, MAX_FACT), whole: whole.map(visible) }
        };
        let actions = detail.actions.iter().filter_map(|action| Action::new(session, action));
        Self {
            row: RunRow::new(&site.base, run, now()),
            facts: facts.map(fact).collect(),
            next: run.next.as_deref().map(|next| line(&format!("bailiwick {next}"), MAX_FACT)),
            actions: actions.collect(),
            jobs: job_views(jobs, now()),
            older_jobs: jobs.len().saturating_sub(MAX_JOBS),
            meters: meters(run),
            tab,
            dispatch: None,
        }
    }
}

fn attempt_view(attempt: &LocalAttempt) -> AttemptView {
    AttemptView {
        number: attempt.number,
        from: attempt.started_at.millis(),
        agent: line(&format!("{} {}", attempt.agent, attempt.model), MAX_FACT),
        phase: attempt.phase.clone(),
        ending: attempt.ending.clone().unwrap_or_default(),
        detail: line(&attempt.detail, MAX_FACT),
        started: Time::new(attempt.started_at, now()),
        elapsed: duration(attempt.used.elapsed_ms),
        tokens: number(attempt.used.tokens),
    }
}

/// The number before the window: the newest events, unless the address names others.
fn window_start(window: &Window, last: u64) -> u64 {
    match (window.after, window.event) {
        (Some(after), _) => after,
        (None, Some(event)) => event.min(last).saturating_sub(1) / WINDOW * WINDOW,
        (None, None) => last.saturating_sub(1) / WINDOW * WINDOW,
    }
}

/// The first row that a later event may change: the last one, and calls without a result.
fn first_that_can_change(rows: &[Row], shown: u64) -> Option<u64> {
    let waits = |row: &&Row| match &row.content {
        // Some programs report no result of what was denied.
        Content::Call(call) if call.is_denied() => {
            call.result.is_none() && shown.saturating_sub(row.last) < LOOK_BACK
        }
        Content::Call(call) => call.result.is_none(),
        Content::Text(_)
        | Content::Thinking(_)
        | Content::Person { .. }
        | Content::Note { .. }
        | Content::Problem { .. }
        | Content::Good { .. } => false,
    };
    rows.iter().filter(waits).chain(rows.last()).map(|row| row.first).min()
}

pub(crate) async fn page(site: &Site, name: &str, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let window = match query::<Window>(&parts) {
        Ok(window) => window,
        Err(error) => return site.error(Some(&session), &error),
    };
    if let Some(at) = window.at {
        let address = format!("{}/local/{}", site.base, encoded(name));
        return match event_at(site, &session, name, at).await {
            Ok(Some(event)) => see_other(&format!("{address}?event={event}#e{event}")),
            Ok(None) => see_other(&address),
            Err(error) => site.error(Some(&session), &error),
        };
    }
    match run_page(site, &session, name, &window).await {
        Ok(page) => html(StatusCode::OK, &page),
        Err(error) => site.error(Some(&session), &error),
    }
}

/// The jobs of a run, the newest first.
async fn jobs(site: &Site, session: &Session, run: &str) -> Result<Vec<LocalJob>, ApiError> {
    let path = format!("/api/v1alpha1/local/jobs?run={}", encoded(run));
    Ok(site.api.get::<LocalJobs>(session, &path).await?.items)
}

async fn run_page(
    site: &Site,
    session: &Session,
    name: &str,
    window: &Window,
) -> Result<RunPage, ApiError> {
    let api = &site.api;
    let own = format!("/api/v1alpha1/local/runs/{}", encoded(name));
    let detail: LocalRunDetail = api.get(session, &own).await?;
    let after = match window.is_search() {
        true => window.after.unwrap_or_default(),
        false => window_start(window, detail.last_event),
    };
    let since = window.since.filter(|_| !window.is_search()).map(|since| match since {
        Since::Event(number) => number,
        Since::Last => detail.last_event,
    });
    let (after, from) = match since {
        Some(since) => (since, since),
        None if window.is_search() => (after, after),
        None => (after, after.saturating_sub(LOOK_BACK)),
    };
    let limit = WINDOW + (after - from);
    let events = match window.is_search() {
        true => format!("{own}/events?{}&limit={limit}", window.search(window.filter, Some(after))),
        false => format!("{own}/events?after={from}&limit={limit}"),
    };
    let events: LocalRunEvents = api.get(session, &events).await?;
    let header = RunHeader::read(site, session, &detail, Tab::Transcript).await?;
    let Frame { mut layout, waiting } =
        site.frame(session, line(&detail.run.name, MAX_FACT)).await?;
    let now = now();
    let mut rows = rows(&events.events, &detail.worktree, now);
    rows.retain(|row| row.last > after);
    let shown = events.events.last().map_or(after, |event| event.number);
    let can_change = first_that_can_change(&rows, shown);
    let address = format!("{}/local/{}", site.base, encoded(name));
    let is_newest = shown >= events.last && !window.is_search();
    let is_live = is_newest && !events.ended;
    let later = match (window.is_search(), events.next) {
        (true, next) => {
            next.map(|next| format!("{address}?{}", window.search(window.filter, Some(next))))
        }
        (false, _) => (!is_newest).then(|| format!("{address}?after={shown}")),
    };
    let earlier = (after > 0 && !window.is_search())
        .then(|| format!("{address}?after={}", after.saturating_sub(WINDOW)));
    layout.section = Section::Runs;
    layout.live = is_newest.then(|| format!("topic=run&run={}&after={shown}", encoded(name)));
    let own_questions = |question: &&LocalQuestion| question.run == detail.run.id;
    let (task, task_left_out) = shortened(&detail.task, MAX_TASK);
    Ok(RunPage {
        header,
        attempts: detail.attempts.iter().map(attempt_view).collect(),
        task,
        task_left_out,
        questions: waiting
            .questions
            .iter()
            .filter(own_questions)
            .map(|question| QuestionCard::new(&site.base, session, question, now))
            .collect(),
        since: can_change.map_or(shown, |first| first.saturating_sub(1)),
        has_more: since.is_some() && shown < events.last,
        rows,
        after,
        last: events.last,
        no_event: window.event.filter(|event| *event == 0 || *event > detail.last_event),
        earlier,
        later,
        newest: (!is_newest).then(|| address.clone()),
        is_live,
        filters: window.filters(&address),
        filter: window.filter.map(LocalEventFilter::as_str).unwrap_or_default(),
        text: window.text.clone(),
        layout,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_window_is_shown_unless_another_is_requested() {
        let at = |after, event| Window { after, event, ..Window::default() };
        assert_eq!(window_start(&at(None, None), 0), 0);
        assert_eq!(window_start(&at(None, None), 500), 0);
        assert_eq!(window_start(&at(None, None), 501), 500);
        assert_eq!(window_start(&at(None, Some(501)), 9_000), 500);
        assert_eq!(window_start(&at(None, Some(500)), 9_000), 0);
        assert_eq!(window_start(&at(Some(7), None), 9_000), 7);
        assert_eq!(window_start(&at(None, Some(9_999)), 700), 500);
    }
}
