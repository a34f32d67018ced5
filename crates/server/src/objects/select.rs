//! Selects objects by query parameters.

use bailiwick_fleet::ports::{Selection, indexed_fields};
use bailiwick_resources::Kind;

use crate::problem::Problem;
use crate::request::ApiRequest;

const DEFAULT_PAGE_SIZE: u64 = 500;
const MAX_PAGE_SIZE: u64 = 1_000;

const PARAMETERS: &[&str] = &[
    "namespace",
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "order",
    "watch",
    "resourceVersion",
];

/// Parses `a=b,c=d`.
pub(super) fn pairs(parameter: &str, text: &str) -> Result<Vec<(String, String)>, Problem> {
    let pair = |part: &str| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let (key, value) = (key.trim(), value.trim_start_matches('=').trim());
        let is_valid = !key.is_empty() && !value.is_empty() && !key.ends_with('!');
        is_valid.then(|| (key.to_owned(), value.to_owned())).ok_or_else(|| {
            Problem::bad_request(format!(
                "`{part}` in {parameter} is not a selector: write key=value,key=value"
            ))
        })
    };
    text.split(',').map(pair).collect()
}

/// Accepts only the indexed fields of the kind.
fn fields(kind: Kind, text: &str) -> Result<Vec<(String, String)>, Problem> {
    let known = indexed_fields(kind);
    let pairs = pairs("fieldSelector", text)?;
    match pairs.iter().find(|(name, _)| !known.iter().any(|(field, _)| field == name)) {
        Some((name, _)) => {
            let names: Vec<&str> = known.iter().map(|(field, _)| *field).collect();
            let have = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Err(Problem::bad_request(format!(
                "{kind} cannot be selected by `{name}`; its fields are {have}"
            )))
        }
        None => Ok(pairs),
    }
}

pub(super) fn selection(request: &ApiRequest) -> Result<Selection, Problem> {
    request.allow_query(PARAMETERS)?;
    let kind = request.kind()?;
    let mut selection = Selection::of(kind);
    selection.namespace = request.named_namespace().map(str::to_owned);
    if let Some(text) = request.query.get("labelSelector") {
        selection.labels = pairs("labelSelector", text)?.into_iter().collect();
    }
    if let Some(text) = request.query.get("fieldSelector") {
        selection.fields = fields(kind, text)?.into_iter().collect();
    }
    let limit = request.number("limit")?.unwrap_or(DEFAULT_PAGE_SIZE);
    if !(1..=MAX_PAGE_SIZE).contains(&limit) {
        return Err(Problem::bad_request(format!("`limit` must be from 1 to {MAX_PAGE_SIZE}")));
    }
    selection.limit = usize::try_from(limit).unwrap_or(1);
    selection.after = request.query.get("continue").cloned();
    selection.newest_first = match request.query.get("order").map(String::as_str) {
        None | Some("oldest") => false,
        Some("newest") => true,
        Some(other) => {
            return Err(Problem::bad_request(format!("`order={other}`: write oldest or newest")));
        }
    };
    Ok(selection)
}
