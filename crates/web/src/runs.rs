//! The list of runs: filters in the address, pages by cursor.

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::{LocalRun, LocalRunGroup};
use bailiwick_resources::{Kind, Moment};
use bailiwick_server::{FleetRun, ListedRun, RunList};
use hyper::StatusCode;

use crate::clock::now;
use crate::fleet::{object_path, word};
use crate::layout::{Layout, Section, html};
use crate::run_filter::{Field, RunsQuery};
use crate::saved_filters::{self, Saved};
use crate::site::{Site, query};
use crate::text::{Time, duration, encoded, line, number};

pub(crate) const PAGE_SIZE: usize = 50;
const MAX_NAME: usize = 80;
const MAX_SUMMARY: usize = 160;

#[derive(Template)]
#[template(path = "runs.html")]
struct RunsPage {
    layout: Layout,
    filters: Vec<Filter>,
    text: String,
    group: String,
    /// The other filters.
    fields: Vec<Field>,
    /// Whether one of them is set.
    has_fields: bool,
    saved: Vec<Saved>,
    /// The query that can be saved; empty if no filter is set.
    query: String,
    rows: Vec<RunRow>,
    total: Option<String>,
    next: Option<String>,
    /// Whether a filter is set or a later page is shown.
    is_filtered: bool,
    /// Whether a later page is shown.
    is_later: bool,
}

struct Filter {
    label: &'static str,
    href: String,
    is_current: bool,
}

/// A line of the list.
pub(crate) struct RunRow {
    pub(crate) id: String,
    pub(crate) href: String,
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) group: &'static str,
    /// Where it is on the board; empty if only the control plane knows it.
    pub(crate) stage: &'static str,
    pub(crate) role: String,
    pub(crate) agent: String,
    pub(crate) repository: String,
    pub(crate) summary: String,
    pub(crate) created: Time,
    pub(crate) elapsed: String,
    pub(crate) tokens: String,
    pub(crate) denied: String,
    pub(crate) has_denied: bool,
    pub(crate) questions: u64,
}

impl RunRow {
    fn listed(base: &str, run: &ListedRun, now: Moment) -> Self {
        match run {
            ListedRun::Local(run) => Self::new(base, run, now),
            ListedRun::Fleet(run) => Self::of_fleet(base, run, now),
        }
    }

    /// A run of the control plane; what only agents have is empty.
    fn of_fleet(base: &str, run: &FleetRun, now: Moment) -> Self {
        let place = run.repository.rsplit('/').next().unwrap_or_default();
        Self {
            id: format!("fleet-{}-{}", run.namespace, run.name),
            href: match &run.agent {
                Some(agent) => format!("{base}/local/{}", encoded(agent)),
                None => object_path(base, &run.namespace, Kind::AgentDispatchRun, &run.name),
            },
            name: line(&run.name, MAX_NAME),
            state: word(&run.phase).replace('-', " "),
            group: group_name(run.group),
            stage: "",
            role: line(&run.task_kind, MAX_NAME),
            agent: line(&run.stack, MAX_NAME),
            repository: line(place, MAX_NAME),
            summary: String::new(),
            created: Time::new(run.created_at, now),
            elapsed: "–".to_owned(),
            tokens: "–".to_owned(),
            denied: "–".to_owned(),
            has_denied: false,
            questions: 0,
        }
    }

    pub(crate) fn new(base: &str, run: &LocalRun, now: Moment) -> Self {
        let agent = match run.model.as_str() {
            "" => run.agent.clone(),
            model => format!("{} · {model}", run.agent),
        };
        let place = run.repository.rsplit('/').next().unwrap_or_default();
        Self {
            id: run.id.clone(),
            href: format!("{base}/local/{}", encoded(&run.id)),
            name: line(&run.name, MAX_NAME),
            state: line(&run.state, MAX_NAME),
            group: group_name(run.group),
            stage: run.stage.as_str(),
            role: line(&run.role, MAX_NAME),
            agent: line(&agent, MAX_NAME),
            repository: line(place, MAX_NAME),
            summary: line(&run.summary, MAX_SUMMARY),
            created: Time::new(run.created_at, now),
            elapsed: duration(run.used.elapsed_ms),
            tokens: number(run.used.tokens),
            denied: number(run.used.denied),
            has_denied: run.used.denied > 0,
            questions: run.questions,
        }
    }
}

pub(crate) fn group_name(group: LocalRunGroup) -> &'static str {
    match group {
        LocalRunGroup::NeedsYou => "needs-you",
        LocalRunGroup::Working => "working",
        LocalRunGroup::Ready => "ready",
        LocalRunGroup::Ended => "ended",
    }
}

const FILTERS: [(&str, &str); 5] = [
    ("All", ""),
    ("Needs you", "needs-you"),
    ("Working", "working"),
    ("Ready", "ready"),
    ("Ended", "ended"),
];

pub(crate) async fn page(site: &Site, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let query = match query::<RunsQuery>(&parts) {
        Ok(query) => query,
        Err(error) => return site.error(Some(&session), &error),
    };
    let frame = match site.frame(&session, "Runs").await {
        Ok(frame) => frame,
        Err(error) => return site.error(Some(&session), &error),
    };
    let path = query.api_path(PAGE_SIZE);
    let list: RunList = match site.api.get(&session, &path).await {
        Ok(list) => list,
        Err(error) => return site.error(Some(&session), &error),
    };
    let saved = match saved_filters::read(site, &session, &query.filter()).await {
        Ok(saved) => saved,
        Err(error) => return site.error(Some(&session), &error),
    };
    let mut layout = frame.layout;
    layout.section = Section::Runs;
    // A later page stays as it is: new runs would move its rows.
    let live = || format!("topic=runs&filter={}", encoded(&query.filter()));
    layout.live = query.after.is_empty().then(live);
    let address = |query: String| match query.as_str() {
        "" => format!("{}/runs", site.base),
        query => format!("{}/runs?{query}", site.base),
    };
    let filter = |(label, group): (&'static str, &str)| Filter {
        label,
        href: address(query.in_group(group).filter()),
        is_current: query.group == group,
    };
    let now = now();
    let page = RunsPage {
        filters: FILTERS.into_iter().map(filter).collect(),
        fields: query.fields(),
        has_fields: query.has_fields(),
        saved,
        query: query.filter(),
        rows: list.items.iter().map(|run| RunRow::listed(&site.base, run, now)).collect(),
        total: list.total.map(number),
        next: list.next.map(|next| address(query.page(&next))),
        is_filtered: !query.page(&query.after).is_empty(),
        is_later: !query.after.is_empty(),
        text: query.text,
        group: query.group,
        layout,
    };
    html(StatusCode::OK, &page)
}
