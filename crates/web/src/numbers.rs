//! The numbers: plots made on the server, each with its data as a table, and everything as CSV and JSON.

use std::fmt::Write as _;

use askama::Template;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::LocalRunStage;
use bailiwick_server::{ApiError, NamedCost, Numbers, Session};
use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use serde::Deserialize;

use crate::layout::{Layout, Section, html};
use crate::plot::{Bar, bars, columns};
use crate::site::{Site, query};
use crate::text::{dollars, duration, line, number};

const MAX_NAME: usize = 120;
const DEFAULT_DAYS: u64 = 30;
const SPANS: [u64; 4] = [7, 30, 90, 365];
const DAY_MILLIS: u64 = 86_400_000;

#[derive(Template)]
#[template(path = "numbers.html")]
struct NumbersPage {
    layout: Layout,
    days: u64,
    spans: Vec<(u64, bool)>,
    is_incomplete: bool,
    is_empty: bool,
    plots: Vec<Plot>,
    stages: Vec<(&'static str, &'static str)>,
}

/// A plot and the same numbers as a table.
struct Plot {
    id: &'static str,
    title: &'static str,
    svg: String,
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// What to do if there is nothing to show.
    empty: &'static str,
    has_legend: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Span {
    days: Option<u64>,
}

async fn read(site: &Site, session: &Session, days: u64) -> Result<Numbers, ApiError> {
    site.api.get(session, &format!("/api/v1alpha1/numbers?days={days}")).await
}

fn days_of(parts: &axum::http::request::Parts) -> Result<u64, ApiError> {
    Ok(query::<Span>(parts)?.days.unwrap_or(DEFAULT_DAYS))
}

pub(crate) async fn page(site: &Site, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let days = match days_of(&parts) {
        Ok(days) => days,
        Err(error) => return site.error(Some(&session), &error),
    };
    match numbers_page(site, &session, days).await {
        Ok(page) => html(StatusCode::OK, &page),
        Err(error) => site.error(Some(&session), &error),
    }
}

async fn numbers_page(site: &Site, session: &Session, days: u64) -> Result<NumbersPage, ApiError> {
    let numbers = read(site, session, days).await?;
    let mut layout = site.frame(session, "Numbers").await?.layout;
    layout.section = Section::Numbers;
    let title = |stage: LocalRunStage| match stage {
        LocalRunStage::NeedsYou => "needs you",
        LocalRunStage::Working => "working",
        LocalRunStage::Verifying => "verifying",
        LocalRunStage::ReadyToLand => "ready to land",
        LocalRunStage::Landed => "landed",
        LocalRunStage::Failed => "failed",
    };
    Ok(NumbersPage {
        days,
        spans: SPANS.into_iter().map(|span| (span, span == days)).collect(),
        is_incomplete: numbers.is_incomplete,
        is_empty: numbers.runs.is_empty(),
        plots: plots(&numbers, days),
        stages: LocalRunStage::ALL
            .into_iter()
            .map(|stage| (stage.as_str(), title(stage)))
            .collect(),
        layout,
    })
}

fn plots(numbers: &Numbers, days: u64) -> Vec<Plot> {
    let denials = numbers.denials.iter().map(|one| Bar {
        label: one.name.clone(),
        parts: vec![("failed".to_owned(), one.count)],
        total: number(one.count),
    });
    let denials: Vec<Bar> = denials.collect();
    let phases = numbers.phases.iter().map(|one| Bar {
        label: one.phase.clone(),
        parts: vec![("working".to_owned(), one.median_ms)],
        total: duration(one.median_ms),
    });
    let queue = numbers.queue.iter().map(|one| Bar {
        label: one.day.clone(),
        parts: vec![("verifying".to_owned(), one.median_ms)],
        total: duration(one.median_ms),
    });
    let (phases, queue): (Vec<Bar>, Vec<Bar>) = (phases.collect(), queue.collect());
    let mut all = vec![
        run_plot(numbers, days),
        Plot {
            id: "denials",
            title: "Denied tool calls by rule",
            svg: bars("Denied tool calls by rule", &denials),
            head: vec!["Rule", "Denied"],
            rows: numbers
                .denials
                .iter()
                .map(|one| vec![line(&one.name, MAX_NAME), number(one.count)])
                .collect(),
            empty: "Nothing was denied. What a role forbids: bailiwick explain",
            has_legend: false,
        },
    ];
    let costs = [
        ("stacks", "Cost by stack", &numbers.stacks, "The control plane has started no run."),
        ("roles", "Cost by role", &numbers.roles, "No agent has run in this time."),
        ("models", "Cost by model", &numbers.models, "No agent has run in this time."),
    ];
    all.extend(costs.map(|(id, title, costs, empty)| cost_plot(id, title, costs, empty)));
    all.push(Plot {
        id: "phases",
        title: "Time per phase (median)",
        svg: bars("Time per phase", &phases),
        head: vec!["Phase", "Runs", "Median", "Longest"],
        rows: numbers
            .phases
            .iter()
            .map(|one| {
                vec![
                    line(&one.phase, MAX_NAME),
                    number(one.runs),
                    duration(one.median_ms),
                    duration(one.max_ms),
                ]
            })
            .collect(),
        empty: "No agent has run in this time.",
        has_legend: false,
    });
    all.push(Plot {
        id: "queue",
        title: "Wait in the queue (median)",
        svg: columns("Wait in the queue in milliseconds", &queue),
        head: vec!["Day", "Runs", "Median", "Longest"],
        rows: numbers
            .queue
            .iter()
            .map(|one| {
                vec![
                    line(&one.day, MAX_NAME),
                    number(one.runs),
                    duration(one.median_ms),
                    duration(one.max_ms),
                ]
            })
            .collect(),
        empty: "No run of the control plane has left the queue in this time.",
        has_legend: false,
    });
    all
}

/// Runs per day; days without a run are shown too.
fn run_plot(numbers: &Numbers, days: u64) -> Plot {
    let all = (0..days).map(|day| {
        let at = numbers.since.plus_millis(day.saturating_mul(DAY_MILLIS));
        at.to_string().split('T').next().unwrap_or_default().to_owned()
    });
    let of = |day: &str, stage: LocalRunStage| {
        let same = numbers.runs.iter().filter(|one| one.day == day && one.stage == stage.as_str());
        same.map(|one| one.count).sum::<u64>()
    };
    let mut rows = Vec::new();
    let drawn = all.map(|day| {
        let parts: Vec<(String, u64)> = LocalRunStage::ALL
            .into_iter()
            .map(|stage| (stage.as_str().to_owned(), of(&day, stage)))
            .collect();
        let total: u64 = parts.iter().map(|part| part.1).sum();
        if total > 0 {
            let counts = parts.iter().map(|(_, count)| number(*count));
            rows.push(std::iter::once(day.clone()).chain(counts).collect());
        }
        Bar { label: day, parts, total: number(total) }
    });
    let drawn: Vec<Bar> = drawn.collect();
    Plot {
        id: "runs",
        title: "Runs per day",
        svg: columns("Runs per day by outcome", &drawn),
        head: vec!["Day", "Needs you", "Working", "Verifying", "Ready to land", "Landed", "Failed"],
        rows,
        empty: "No agent has run in this time.",
        has_legend: true,
    }
}

fn cost_plot(
    id: &'static str,
    title: &'static str,
    costs: &[NamedCost],
    empty: &'static str,
) -> Plot {
    // Where no price is known, tokens say which one is large.
    let has_price = costs.iter().any(|one| one.micro_usd > 0);
    let bar = |one: &NamedCost| Bar {
        label: one.name.clone(),
        parts: vec![("landed".to_owned(), if has_price { one.micro_usd } else { one.tokens })],
        total: match has_price {
            true => dollars(one.micro_usd),
            false => format!("{} tokens", number(one.tokens)),
        },
    };
    let drawn: Vec<Bar> = costs.iter().map(bar).collect();
    let row = |one: &NamedCost| {
        vec![
            line(&one.name, MAX_NAME),
            number(one.runs),
            number(one.tokens),
            dollars(one.micro_usd),
        ]
    };
    Plot {
        id,
        title,
        svg: bars(title, &drawn),
        head: vec!["Name", "Runs", "Tokens", "Cost"],
        rows: costs.iter().map(row).collect(),
        empty,
        has_legend: false,
    }
}

pub(crate) async fn csv(site: &Site, request: Request) -> Response {
    download(site, request, "text/csv; charset=utf-8", "csv", csv_text).await
}

pub(crate) async fn json(site: &Site, request: Request) -> Response {
    let text = |numbers: &Numbers| serde_json::to_string_pretty(numbers).unwrap_or_default();
    download(site, request, "application/json", "json", text).await
}

async fn download(
    site: &Site,
    request: Request,
    content_type: &'static str,
    ending: &str,
    render: fn(&Numbers) -> String,
) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let days = match days_of(&parts) {
        Ok(days) => days,
        Err(error) => return site.error(Some(&session), &error),
    };
    let numbers = match read(site, &session, days).await {
        Ok(numbers) => numbers,
        Err(error) => return site.error(Some(&session), &error),
    };
    let mut response = Response::new(Body::from(render(&numbers)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    let name = format!("attachment; filename=\"bailiwick-numbers.{ending}\"");
    if let Ok(name) = HeaderValue::from_str(&name) {
        headers.insert(CONTENT_DISPOSITION, name);
    }
    response
}

/// A field of a table. A spreadsheet must not take a name for a formula.
fn csv_field(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let mark = if is_formula { "'" } else { "" };
    format!("\"{mark}{}\"", text.replace('"', "\"\""))
}

fn csv_text(numbers: &Numbers) -> String {
    let mut out = "table,name,detail,count,tokens,micro_usd,median_ms,max_ms\r\n".to_owned();
    for one in &numbers.runs {
        let (day, stage) = (csv_field(&one.day), csv_field(&one.stage));
        let _ = write!(out, "runs,{day},{stage},{},,,,\r\n", one.count);
    }
    for one in &numbers.denials {
        let _ = write!(out, "denials,{},,{},,,,\r\n", csv_field(&one.name), one.count);
    }
    for (table, costs) in
        [("stacks", &numbers.stacks), ("roles", &numbers.roles), ("models", &numbers.models)]
    {
        for one in costs {
            let name = csv_field(&one.name);
            let _ =
                write!(out, "{table},{name},,{},{},{},,\r\n", one.runs, one.tokens, one.micro_usd);
        }
    }
    for one in &numbers.phases {
        let name = csv_field(&one.phase);
        let _ = write!(out, "phases,{name},,{},,,{},{}\r\n", one.runs, one.median_ms, one.max_ms);
    }
    for one in &numbers.queue {
        let name = csv_field(&one.day);
        let _ = write!(out, "queue,{name},,{},,,{},{}\r\n", one.runs, one.median_ms, one.max_ms);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::csv_field;

    #[test]
    fn csv_field_is_no_formula_and_is_quoted() {
        assert_eq!(csv_field("=cmd()"), "\"'=cmd()\"");
        assert_eq!(csv_field("a\",b"), "\"a\"\",b\"");
    }
}
