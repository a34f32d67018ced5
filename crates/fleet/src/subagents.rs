//! Sub-agents: limits on how many run in parallel, and the contract of what they return.

use std::collections::BTreeMap;

use bailiwick_resources::{AgentSubagent, OutputContract, OutputFormat};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How many sub-agents are running, by where they are counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActiveSubagents {
    pub run: u32,
    /// Of this run, by definition.
    pub by_definition: BTreeMap<String, u32>,
    /// Of this stack, over all its runs.
    pub stack: u32,
    /// In the pool, of any run.
    pub pool: u32,
    /// In the repository, of any run.
    pub repository: u32,
}

/// The limits; nothing means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ParallelLimits {
    /// By the adapter, for one run.
    pub run: Option<u32>,
    /// By the stack's `maxParallelSubagents`.
    pub stack: Option<u32>,
    /// By the pool's capacity.
    pub pool: Option<u32>,
    /// By the repository's policy.
    pub repository: Option<u32>,
}

/// A limit that is reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{active} sub-agents are running {place}, and {most} is the limit; wait for one to end")]
pub struct LimitReached {
    /// Where it is counted.
    pub place: String,
    /// How many there are.
    pub active: u32,
    /// How many may be.
    pub most: u32,
}

/// Whether one more child of this definition may start.
pub fn may_start(
    name: &str,
    definition: &AgentSubagent,
    at_work: &ActiveSubagents,
    limits: &ParallelLimits,
) -> Result<(), LimitReached> {
    let own = at_work.by_definition.get(name).copied().unwrap_or(0);
    let checks = [
        (format!("as `{name}`"), own, Some(definition.max_parallel_tasks)),
        ("for this run".to_owned(), at_work.run, limits.run),
        ("for this stack".to_owned(), at_work.stack, limits.stack),
        ("in this pool".to_owned(), at_work.pool, limits.pool),
        ("in this repository".to_owned(), at_work.repository, limits.repository),
    ];
    for (place, active, most) in checks {
        if let Some(most) = most.filter(|most| active >= *most) {
            return Err(LimitReached { place, active, most });
        }
    }
    Ok(())
}

/// The faults of a child's result; none if its contract is fulfilled.
pub fn contract_faults(contract: &OutputContract, returned: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if returned.trim().is_empty() {
        return vec!["it returned nothing".to_owned()];
    }
    match contract.format {
        OutputFormat::Summary
        | OutputFormat::TestReport
        | OutputFormat::ReleaseReadiness
        | OutputFormat::RiskAssessment => sections(contract, returned, &mut faults),
        OutputFormat::Checklist => {
            let boxes = returned.lines().filter(|line| is_box(line)).count();
            if boxes == 0 {
                faults.push("a checklist has lines such as `- [ ] …` or `- [x] …`".to_owned());
            }
            sections(contract, returned, &mut faults);
        }
        OutputFormat::Patch => patch(returned, &mut faults),
        OutputFormat::Json => match serde_json::from_str::<Value>(unfenced(returned)) {
            Ok(value) => keys(contract, &value, &mut faults),
            Err(error) => faults.push(format!("it is no JSON: {error}")),
        },
        OutputFormat::ReviewComments => comments(contract, returned, &mut faults),
    }
    faults
}

/// Whether there is a way to check a contract at all.
pub fn is_checkable(contract: &OutputContract) -> bool {
    let named = contract.required_sections.iter().all(|name| !name.trim().is_empty());
    // A patch has no sections.
    named && (contract.format != OutputFormat::Patch || contract.required_sections.is_empty())
}

fn is_box(line: &str) -> bool {
    let rest = line.trim_start();
    let rest = rest.strip_prefix(['-', '*', '+']).unwrap_or_default().trim_start();
    ["[ ]", "[x]", "[X]"].iter().any(|mark| rest.starts_with(mark))
}

/// Checks headings of Markdown, ignoring depth, case and colon.
fn sections(contract: &OutputContract, returned: &str, faults: &mut Vec<String>) {
    let plain = |text: &str| text.trim().trim_matches(['*', '_', ':', ' ']).to_lowercase();
    let headings: Vec<String> = returned
        .lines()
        .filter_map(|line| {
            let line = line.trim_start();
            let heading = line.trim_start_matches('#');
            let marked = heading.len() < line.len() && heading.starts_with(' ');
            let bold =
                line.starts_with("**") && line.trim_end().trim_end_matches(':').ends_with("**");
            (marked || bold).then(|| plain(heading))
        })
        .collect();
    for wanted in &contract.required_sections {
        if !headings.contains(&plain(wanted)) {
            faults.push(format!("the section `{wanted}` is missing"));
        }
    }
}

fn keys(contract: &OutputContract, value: &Value, faults: &mut Vec<String>) {
    for wanted in &contract.required_sections {
        if value.get(wanted).is_none() {
            faults.push(format!("the key `{wanted}` is missing"));
        }
    }
}

/// The inside of a fence, where the whole is one.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inside = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inside.and_then(|inside| inside.split_once('\n')).map_or(text, |(_, body)| body)
}

/// Checks that it has the form of a unified diff; git decides whether it applies.
fn patch(returned: &str, faults: &mut Vec<String>) {
    let text = unfenced(returned);
    let lines = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    let (old, new, hunks) = (lines("--- "), lines("+++ "), lines("@@ -"));
    let binary = lines("GIT binary patch") + lines("rename from ") + lines("old mode ");
    if binary == 0 && (old == 0 || old != new || hunks == 0) {
        faults.push("it is no unified diff: each file has `---`, `+++` and hunks".to_owned());
    }
    for header in text.lines().filter(|line| line.starts_with("@@ -")) {
        if !is_hunk_header(header) {
            faults.push(format!("`{header}` is no head of a hunk"));
        }
    }
}

fn is_hunk_header(line: &str) -> bool {
    let mut words = line.split(' ');
    let range = |word: Option<&str>, sign: char| {
        word.and_then(|word| word.strip_prefix(sign)).is_some_and(|numbers| {
            numbers.split(',').count() <= 2 && numbers.split(',').all(|n| n.parse::<u64>().is_ok())
        })
    };
    words.next() == Some("@@")
        && range(words.next(), '-')
        && range(words.next(), '+')
        && words.next() == Some("@@")
}

/// JSON with path, line and body, or lines such as `src/a.rs:3: …`.
fn comments(contract: &OutputContract, returned: &str, faults: &mut Vec<String>) {
    let text = unfenced(returned);
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let list = value.as_array().or_else(|| value.get("comments").and_then(Value::as_array));
        let Some(list) = list else {
            faults.push("a review is a list of comments, or has one under `comments`".to_owned());
            return;
        };
        for (at, comment) in list.iter().enumerate() {
            let path = comment.get("path").and_then(Value::as_str).is_some_and(|p| !p.is_empty());
            let line = comment.get("line").and_then(Value::as_u64).is_some_and(|line| line > 0);
            let body = comment.get("body").and_then(Value::as_str).is_some_and(|b| !b.is_empty());
            if !(path && line && body) {
                faults.push(format!("comment {} needs path, line and body", at + 1));
            }
        }
        keys(contract, &value, faults);
        return;
    }
    let placed = text.lines().filter(|line| {
        let mut parts = line.trim_start_matches(['-', '*', ' ', '`']).splitn(3, ':');
        let path = parts.next().is_some_and(|path| !path.is_empty() && !path.contains(' '));
        let number = parts.next().map(|n| n.trim_matches('`'));
        let line = number.is_some_and(|n| n.parse::<u64>().is_ok_and(|n| n > 0));
        path && line && parts.next().is_some_and(|body| !body.trim().is_empty())
    });
    if placed.count() == 0 {
        faults.push("a comment says where it belongs, as `src/a.rs:3: …`".to_owned());
    }
    sections(contract, text, faults);
}
