//! The cost of a run: tokens over time, and the sum of each agent.

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::{LocalAgentCost, LocalCostPoint, LocalRunCost};
use hyper::StatusCode;

use crate::layout::{Layout, html};
use crate::plot::{Bar, bars, columns};
use crate::run::{RunHeader, Tab};
use crate::run_part::read;
use crate::site::Site;
use crate::text::{dollars, duration, encoded, line, number};

const MAX_NAME: usize = 200;
/// Columns of the plot.
const MAX_SPANS: u64 = 40;

#[derive(Template)]
#[template(path = "cost.html")]
struct CostPage {
    layout: Layout,
    header: RunHeader,
    missing: Option<String>,
    is_incomplete: bool,
    over_time: String,
    spans: Vec<SpanRow>,
    per_agent: String,
    agents: Vec<AgentRow>,
}

struct SpanRow {
    /// Since the first response.
    from: String,
    own: String,
    subagents: String,
}

struct AgentRow {
    name: String,
    href: Option<String>,
    kind: &'static str,
    responses: String,
    tokens: String,
    cost: String,
}

/// The tokens of a time span: its start since the first response, and those of the agent and of its sub-agents.
#[derive(Debug, PartialEq, Eq)]
struct Span {
    from_ms: u64,
    own: u64,
    subagents: u64,
}

/// Divides the time of all responses into equal spans.
fn spans(points: &[LocalCostPoint]) -> Vec<Span> {
    let times = || points.iter().map(|point| point.at.millis());
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return Vec::new() };
    // A span has at least a second, so that a short run has few of them.
    let width = ((last - first) / MAX_SPANS + 1).max(1_000);
    let count = (last - first) / width + 1;
    let mut all: Vec<Span> =
        (0..count).map(|index| Span { from_ms: index * width, own: 0, subagents: 0 }).collect();
    for point in points {
        let index = usize::try_from((point.at.millis() - first) / width).unwrap_or(usize::MAX);
        let Some(span) = all.get_mut(index) else { continue };
        let sum = if point.agent.is_some() { &mut span.subagents } else { &mut span.own };
        *sum = sum.saturating_add(point.tokens);
    }
    all
}

fn agent_row(base: &str, cost: &LocalAgentCost) -> AgentRow {
    AgentRow {
        name: line(&cost.agent, MAX_NAME),
        href: cost.is_run.then(|| format!("{base}/local/{}", encoded(&cost.agent))),
        kind: if cost.is_run { "agent" } else { "sub-agent of this agent" },
        responses: cost.responses.map_or_else(|| "–".to_owned(), number),
        tokens: number(cost.tokens),
        cost: match (cost.is_run, cost.micro_usd) {
            (_, Some(micro)) => dollars(micro),
            (true, None) => "unknown price".to_owned(),
            (false, None) => "part of the agent".to_owned(),
        },
    }
}

pub(crate) async fn page(site: &Site, name: &str, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let part = match read::<LocalRunCost>(site, &session, name, Tab::Cost).await {
        Ok(part) => part,
        Err(error) => return site.error(Some(&session), &error),
    };
    let (cost, missing) = match part.data {
        Ok(cost) => (cost, None),
        Err(gone) => (LocalRunCost::default(), Some(gone.to_string())),
    };
    let spans = spans(&cost.points);
    let column = |span: &Span| Bar {
        label: duration(span.from_ms),
        parts: vec![("working".to_owned(), span.own), ("needs-you".to_owned(), span.subagents)],
        total: number(span.own.saturating_add(span.subagents)),
    };
    let bar = |cost: &LocalAgentCost| Bar {
        label: cost.agent.clone(),
        parts: vec![("working".to_owned(), cost.tokens)],
        total: number(cost.tokens),
    };
    let page = CostPage {
        layout: part.layout,
        header: part.header,
        missing,
        is_incomplete: cost.is_incomplete,
        over_time: columns("Tokens over time", &spans.iter().map(column).collect::<Vec<_>>()),
        spans: spans
            .iter()
            .map(|span| SpanRow {
                from: duration(span.from_ms),
                own: number(span.own),
                subagents: number(span.subagents),
            })
            .collect(),
        per_agent: bars("Tokens by agent", &cost.agents.iter().map(bar).collect::<Vec<_>>()),
        agents: cost.agents.iter().map(|one| agent_row(&site.base, one)).collect(),
    };
    html(StatusCode::OK, &page)
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::Moment;

    use super::*;

    #[test]
    fn every_token_is_in_one_of_a_few_spans() {
        let point = |millis, agent: Option<&str>, tokens| LocalCostPoint {
            at: Moment::from_millis(millis),
            agent: agent.map(str::to_owned),
            model: String::new(),
            tokens,
        };
        assert_eq!(spans(&[]), []);
        let one = spans(&[point(7, None, 5), point(900, Some("a"), 2)]);
        assert_eq!(one, [Span { from_ms: 0, own: 5, subagents: 2 }]);
        let many: Vec<LocalCostPoint> = (0..10_000).map(|n| point(n * 997, None, 1)).collect();
        let spans = spans(&many);
        assert!(spans.len() <= 40, "{}", spans.len());
        assert_eq!(spans.iter().map(|span| span.own).sum::<u64>(), 10_000);
    }
}
