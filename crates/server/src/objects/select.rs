//! Which objects are asked for, as parameters say it.

use bailiwick_fleet::ports::{Selection, indexed_fields};
use bailiwick_resources::Kind;

use crate::asked::Asked;
use crate::problem::Problem;

/// How many objects come at once, if nobody says otherwise.
const PAGE: u64 = 500;
/// How many come at most.
const MOST: u64 = 1_000;

/// The parameters that select.
pub(super) const KNOWN: &[&str] = &[
    "namespace",
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "order",
    "watch",
    "resourceVersion",
];

/// Pairs as `a=b,c=d`.
pub(super) fn pairs(parameter: &str, text: &str) -> Result<Vec<(String, String)>, Problem> {
    let pair = |part: &str| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let (key, value) = (key.trim(), value.trim_start_matches('=').trim());
        let plain = !key.is_empty() && !value.is_empty() && !key.ends_with('!');
        plain.then(|| (key.to_owned(), value.to_owned())).ok_or_else(|| {
            Problem::bad(format!(
                "`{part}` in {parameter} is no selector: write key=value,key=value"
            ))
        })
    };
    text.split(',').map(pair).collect()
}

/// Only fields by which this kind can be selected.
pub(super) fn fields(kind: Kind, text: &str) -> Result<Vec<(String, String)>, Problem> {
    let known = indexed_fields(kind);
    let pairs = pairs("fieldSelector", text)?;
    match pairs.iter().find(|(name, _)| !known.iter().any(|(field, _)| field == name)) {
        Some((name, _)) => {
            let names: Vec<&str> = known.iter().map(|(field, _)| *field).collect();
            let have = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Err(Problem::bad(format!("{kind} is not selected by `{name}`; it has {have}")))
        }
        None => Ok(pairs),
    }
}

pub(super) fn selection(asked: &Asked) -> Result<Selection, Problem> {
    asked.known_query(KNOWN)?;
    let kind = asked.kind()?;
    let mut selection = Selection::of(kind);
    selection.namespace = asked.named_namespace().map(str::to_owned);
    if let Some(text) = asked.query.get("labelSelector") {
        selection.labels = pairs("labelSelector", text)?.into_iter().collect();
    }
    if let Some(text) = asked.query.get("fieldSelector") {
        selection.fields = fields(kind, text)?.into_iter().collect();
    }
    let limit = asked.number("limit")?.unwrap_or(PAGE);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::bad(format!("`limit` must be from 1 to {MOST}")));
    }
    selection.limit = usize::try_from(limit).unwrap_or(1);
    selection.after = asked.query.get("continue").cloned();
    selection.newest_first = match asked.query.get("order").map(String::as_str) {
        None | Some("oldest") => false,
        Some("newest") => true,
        Some(other) => {
            return Err(Problem::bad(format!("`order={other}`: write oldest or newest")));
        }
    };
    Ok(selection)
}
