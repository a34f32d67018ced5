//! The lineage of a run: a picture of parents and children, and the same as a list.

use std::fmt::Write as _;

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::{LocalLineage, LocalRelation, LocalRelative};
use bailiwick_resources::Moment;
use hyper::StatusCode;

use crate::clock::now;
use crate::layout::{Layout, html};
use crate::run::{RunHeader, Tab};
use crate::run_part::read;
use crate::site::Site;
use crate::text::{Time, encoded, escaped, line};

const MAX_NAME: usize = 200;
const MAX_LABEL: usize = 29;
const ROW: usize = 44;
const INDENT: usize = 36;
const NODE_WIDTH: usize = 228;
/// Deeper agents are drawn at this depth; the list has the true one.
const MAX_DEPTH: usize = 12;

#[derive(Template)]
#[template(path = "lineage.html")]
struct LineagePage {
    layout: Layout,
    header: RunHeader,
    missing: Option<String>,
    is_incomplete: bool,
    picture: String,
    rows: Vec<RelativeRow>,
}

struct RelativeRow {
    href: String,
    name: String,
    state: String,
    origin: String,
    is_this: bool,
    created: Time,
}

fn row(base: &str, this: &str, one: &LocalRelative, now: Moment) -> RelativeRow {
    let parent = line(one.parent.as_deref().unwrap_or_default(), MAX_NAME);
    RelativeRow {
        href: format!("{base}/local/{}", encoded(&one.run)),
        name: line(&one.name, MAX_NAME),
        state: line(&one.state, MAX_NAME),
        origin: match one.relation {
            None => "the first agent".to_owned(),
            Some(LocalRelation::Started) => format!("started by {parent}"),
            Some(LocalRelation::Respawned) => format!("another attempt after {parent}"),
        },
        is_this: one.run == this,
        created: Time::new(one.created_at, now),
    }
}

/// The picture: each agent below the one that it comes from. Every text in it is escaped here.
fn picture(items: &[LocalRelative], this: &str) -> String {
    let depth = |one: &LocalRelative| usize::try_from(one.depth).unwrap_or(0).min(MAX_DEPTH);
    let deepest = items.iter().map(depth).max().unwrap_or_default();
    let (width, height) = (deepest * INDENT + NODE_WIDTH + 8, items.len() * ROW + 8);
    let (mut edges, mut nodes) = (String::new(), String::new());
    for (index, one) in items.iter().enumerate() {
        let (x, y) = (4 + depth(one) * INDENT, 4 + index * ROW);
        let parent = items.iter().position(|other| Some(&other.run) == one.parent.as_ref());
        if let Some((at, above)) = parent.and_then(|at| Some((at, items.get(at)?))) {
            let (from, start) = (4 + depth(above) * INDENT + INDENT / 2, 4 + at * ROW + 36);
            let middle = y + 18;
            let _ = write!(edges, "<path class=\"edge\" d=\"M{from} {start} V{middle} H{x}\"/>");
        }
        let class = if one.run == this { " this" } else { "" };
        let (whole, short) = (escaped(&line(&one.name, 400)), escaped(&line(&one.name, MAX_LABEL)));
        let state = escaped(&line(&one.state, MAX_LABEL));
        let (left, above, below) = (x + 8, y + 14, y + 29);
        let _ = write!(
            nodes,
            "<g class=\"node{class}\"><title>{whole}, {state}</title><rect x=\"{x}\" y=\"{y}\" width=\"{NODE_WIDTH}\" \
             height=\"36\" rx=\"6\"/><text class=\"kind\" x=\"{left}\" y=\"{above}\">{state}</text><text x=\"{left}\" \
             y=\"{below}\">{short}</text></g>"
        );
    }
    format!(
        "<svg class=\"graph\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
         aria-label=\"Parents and children; the list below has the same facts\">{edges}{nodes}</svg>"
    )
}

pub(crate) async fn page(site: &Site, name: &str, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let part = match read::<LocalLineage>(site, &session, name, Tab::Lineage).await {
        Ok(part) => part,
        Err(error) => return site.error(Some(&session), &error),
    };
    let (lineage, missing) = match part.data {
        Ok(lineage) => (lineage, None),
        Err(gone) => (LocalLineage::default(), Some(gone.to_string())),
    };
    let (this, now) = (part.header.row.id.clone(), now());
    let page = LineagePage {
        layout: part.layout,
        header: part.header,
        missing,
        is_incomplete: lineage.is_incomplete,
        picture: picture(&lineage.items, &this),
        rows: lineage.items.iter().map(|one| row(&site.base, &this, one, now)).collect(),
    };
    html(StatusCode::OK, &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_has_an_edge_to_its_parent_and_names_are_escaped() {
        let one = |run: &str, parent: Option<&str>, depth| LocalRelative {
            run: run.to_owned(),
            name: format!("{run}<script>"),
            state: "done".to_owned(),
            parent: parent.map(str::to_owned),
            relation: parent.map(|_| LocalRelation::Started),
            depth,
            created_at: Moment::from_millis(0),
        };
        let items = [one("a", None, 0), one("b", Some("a"), 1), one("c", Some("b"), 90)];
        let svg = picture(&items, "b");
        assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
        assert_eq!(svg.matches("class=\"edge\"").count(), 2, "{svg}");
        assert_eq!(svg.matches("node this").count(), 1, "{svg}");
        assert!(svg.contains("&lt;script&gt;") && !svg.contains("<script>"), "{svg}");
    }
}
