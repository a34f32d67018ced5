//! Whether a rule matches an event, and if not, why. An unknown field does not match.

mod compile;

use bailiwick_model::globs::Globs as PathGlobs;
use bailiwick_resources::{Globs as GlobLists, Matcher, PayloadMatch};
use regex::Regex;
use serde::Serialize;
use serde_json::Value;
use serde_json_path::JsonPath;

use super::event::SourceEvent;
use super::mention::mentions;
use super::text::{beginning, clipped, visible};

pub use compile::compile;

/// How much of a text is searched.
const MAX_SEARCHED_BYTES: usize = 1024 * 1024;
/// A rule's matcher, ready.
#[derive(Debug, Clone)]
pub struct CompiledMatcher {
    written: Matcher,
    repository: Patterns,
    workflow: Patterns,
    job: Patterns,
    step: Patterns,
    check: Patterns,
    branches: Sides<Patterns>,
    paths: Sides<PathGlobs>,
    labels: Patterns,
    actors: Sides<Patterns>,
    body: Patterns,
    payload: Vec<(PayloadMatch, JsonPath)>,
    failure_signature: Patterns,
}

#[derive(Debug, Clone, Default)]
struct Patterns(Vec<Regex>);

impl Patterns {
    fn find(&self, text: &str) -> bool {
        self.0.iter().any(|pattern| pattern.is_match(text))
    }
}

/// The included and excluded patterns.
#[derive(Debug, Clone, Default)]
struct Sides<T> {
    include: T,
    exclude: T,
}

/// Whether an event is meant, field by field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MatchReport {
    /// Whether every field agreed.
    pub matched: bool,
    /// The fields that the rule demands.
    pub fields: Vec<FieldReport>,
}

/// The result for one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldReport {
    /// The field, as in a rule.
    pub field: String,
    /// Whether it agreed.
    pub agreed: bool,
    /// The patterns of the rule.
    pub expected: String,
    /// The value of the event.
    pub found: String,
}

impl MatchReport {
    fn of(fields: Vec<FieldReport>) -> Self {
        Self { matched: fields.iter().all(|field| field.agreed), fields }
    }

    /// The matching fields, as an execution records them.
    pub fn agreements(&self) -> Vec<String> {
        let agreed = self.fields.iter().filter(|field| field.agreed);
        agreed.map(|field| format!("{}: {}", field.field, field.found)).collect()
    }

    /// The fields that do not match, on one line.
    pub fn objections(&self) -> String {
        let other = self.fields.iter().filter(|field| !field.agreed);
        let lines: Vec<String> = other
            .map(|field| format!("{} is {}, not {}", field.field, field.found, field.expected))
            .collect();
        lines.join("; ")
    }
}

impl CompiledMatcher {
    /// Whether an event is meant.
    pub fn matches(&self, event: &SourceEvent) -> MatchReport {
        let written = &self.written;
        let mut fields = Vec::new();
        let repository = Some(&event.repository);
        let named = [
            ("repository", &written.repository, &self.repository, repository),
            ("workflow", &written.workflow, &self.workflow, event.workflow.as_ref()),
            ("job", &written.job, &self.job, event.job.as_ref()),
            ("step", &written.step, &self.step, event.step.as_ref()),
            ("check", &written.check, &self.check, event.check.as_ref()),
        ];
        for (field, wanted, patterns, found) in named {
            if !wanted.is_empty() {
                let agreed = found.is_some_and(|found| patterns.find(found));
                fields.push(report(field, agreed, any_of(wanted), or_unknown(found)));
            }
        }
        fields.extend(self.event_types(event));
        if !written.conclusion.is_empty() {
            let found = event.conclusion.as_ref();
            let same = |found: &String| {
                written.conclusion.iter().any(|word| word.eq_ignore_ascii_case(found))
            };
            let agreed = found.is_some_and(same);
            let expected = any_of(&written.conclusion);
            fields.push(report("conclusion", agreed, expected, or_unknown(found)));
        }
        let sided = [
            ("branches", &written.branches, &self.branches, event.branch.as_ref()),
            ("actors", &written.actors, &self.actors, event.actor.as_ref()),
        ];
        for (field, wanted, sides, found) in sided {
            if !wanted.is_empty() {
                let included = |found: &String| {
                    (wanted.include.is_empty() || sides.include.find(found))
                        && !sides.exclude.find(found)
                };
                let agreed = found.is_some_and(included);
                fields.push(report(field, agreed, both(wanted), or_unknown(found)));
            }
        }
        fields.extend(self.paths(event));
        fields.extend(self.labels(event));
        fields.extend(self.texts(event));
        fields.extend(self.payload(event));
        if written.pull_request_required == Some(true) {
            let found = event.pull_request;
            let text = found.map_or("none".to_owned(), |number| format!("#{number}"));
            let expected = "a pull request".to_owned();
            fields.push(report("pullRequestRequired", found.is_some(), expected, text));
        }
        MatchReport::of(fields)
    }

    fn event_types(&self, event: &SourceEvent) -> Option<FieldReport> {
        let wanted = &self.written.event_types;
        if wanted.is_empty() {
            return None;
        }
        let mut names = vec![event.event.clone()];
        if let Some(action) = &event.action {
            names.push(action.clone());
            names.push(format!("{}.{action}", event.event));
        }
        let agreed = names.iter().any(|name| wanted.contains(name));
        Some(report("eventTypes", agreed, any_of(wanted), any_of(&names)))
    }

    fn paths(&self, event: &SourceEvent) -> Option<FieldReport> {
        let wanted = &self.written.paths;
        if wanted.is_empty() {
            return None;
        }
        let Some(paths) = &event.changed_paths else {
            return Some(report("paths", false, both(wanted), "unknown".to_owned()));
        };
        let meant = |path: &&String| {
            (wanted.include.is_empty() || self.paths.include.matches(path, false))
                && !self.paths.exclude.matches(path, false)
        };
        let first = paths.iter().find(meant);
        let found = match first {
            Some(path) => quote(path),
            None => format!("none of {} changed paths", paths.len()),
        };
        Some(report("paths", first.is_some(), both(wanted), found))
    }

    fn labels(&self, event: &SourceEvent) -> Option<FieldReport> {
        let wanted = &self.written.labels;
        if wanted.is_empty() {
            return None;
        }
        let agreed = event.labels.iter().any(|label| self.labels.find(label));
        let found = if event.labels.is_empty() { "none".to_owned() } else { any_of(&event.labels) };
        Some(report("labels", agreed, any_of(wanted), found))
    }

    fn texts(&self, event: &SourceEvent) -> Vec<FieldReport> {
        let written = &self.written;
        let body = event.body.as_deref().map(|body| beginning(body, MAX_SEARCHED_BYTES));
        let mut fields = Vec::new();
        if !written.mention.is_empty() {
            let first =
                written.mention.iter().find(|name| body.is_some_and(|body| mentions(body, name)));
            let found = match (body, first) {
                (None, _) => "unknown".to_owned(),
                (Some(_), Some(_)) if event.by_agent => "written by the agent itself".to_owned(),
                (Some(_), Some(name)) => quote(name),
                (Some(_), None) => "not mentioned outside of code and quotations".to_owned(),
            };
            let agreed = first.is_some() && !event.by_agent;
            fields.push(report("mention", agreed, any_of(&written.mention), found));
        }
        let log = event.failure_log.as_deref().map(|log| ending(log, MAX_SEARCHED_BYTES));
        let searched = [
            ("body", &written.body, &self.body, body),
            ("failureSignature", &written.failure_signature, &self.failure_signature, log),
        ];
        for (field, wanted, patterns, text) in searched {
            if wanted.is_empty() {
                continue;
            }
            let first =
                text.and_then(|text| patterns.0.iter().find_map(|pattern| pattern.find(text)));
            let found = match (text, first) {
                (None, _) => "unknown".to_owned(),
                (Some(_), Some(found)) => quote(found.as_str()),
                (Some(text), None) => format!("not found in {} bytes", text.len()),
            };
            fields.push(report(field, first.is_some(), any_of(wanted), found));
        }
        fields
    }

    fn payload(&self, event: &SourceEvent) -> Vec<FieldReport> {
        let one = |(wanted, query): &(PayloadMatch, JsonPath)| {
            let nodes = query.query(&event.payload);
            let first = match &wanted.one_of {
                None => nodes.first(),
                Some(values) => {
                    nodes.iter().copied().find(|node| values.iter().any(|value| same(value, node)))
                }
            };
            let expected = match &wanted.one_of {
                None => "anything".to_owned(),
                Some(values) => any_of(&values.iter().map(Value::to_string).collect::<Vec<_>>()),
            };
            let found = match (first, nodes.first()) {
                (Some(node), _) | (None, Some(node)) => quote(&node.to_string()),
                (None, None) => "nothing".to_owned(),
            };
            report(&format!("payload {}", wanted.json_path), first.is_some(), expected, found)
        };
        self.payload.iter().map(one).collect()
    }
}

/// Numbers are the same if their values are.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        (one, other) => one == other,
    }
}

fn report(field: &str, agreed: bool, expected: String, found: String) -> FieldReport {
    FieldReport { field: field.to_owned(), agreed, expected, found }
}

/// The end of a text: where logs report errors.
fn ending(text: &str, most: usize) -> &str {
    let mut start = text.len().saturating_sub(most);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default()
}

/// Untrusted text, shortened to one line.
fn quote(text: &str) -> String {
    let line = visible(beginning(text, 512)).replace(['\n', '\t'], " ");
    format!("`{}`", clipped(&line, 120).replace('\n', " "))
}

fn any_of(words: &[String]) -> String {
    let shown: Vec<String> = words.iter().take(8).map(|word| quote(word)).collect();
    let more =
        if words.len() > 8 { format!(" or {} more", words.len() - 8) } else { String::new() };
    format!("{}{more}", shown.join(" or "))
}

fn both(lists: &GlobLists) -> String {
    match (lists.include.is_empty(), lists.exclude.is_empty()) {
        (_, true) => any_of(&lists.include),
        (true, false) => format!("anything but {}", any_of(&lists.exclude)),
        (false, false) => format!("{} but not {}", any_of(&lists.include), any_of(&lists.exclude)),
    }
}

fn or_unknown(found: Option<&String>) -> String {
    found.map_or("unknown".to_owned(), |found| quote(found))
}
