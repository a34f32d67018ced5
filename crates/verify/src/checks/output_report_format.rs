//! `output::report-format`: the report has its fields, and its claims agree with what was measured.
//!
//! "Not run" and "failed" are honest values. A claim that was not measured is noted and does not fail.

use std::collections::BTreeSet;

use bailiwick_model::well_known::report_path;

use super::Subject;
use crate::change::{Change, Entry, Mode};
use crate::facts::{Facts, Needs, Pass, Report, ReportError};
use crate::job::{Job, JobOutcome};
use crate::report::fields::{Field, fields, normalized};
use crate::report::{claims, line_delta, touched};
use crate::test_tally::{Tally, tally};
use crate::verdict::Verdict;

const FILES_FIELDS: [&str; 3] = ["files-touched", "files-changed", "changed-files"];
const LINES_FIELDS: [&str; 2] = ["loc-delta", "lines-changed"];
const TESTS_FIELDS: [&str; 6] =
    ["cargo-test", "cargo-tests", "tests", "test-results", "tests-green", "test"];
const TEST_COUNT_FIELDS: [&str; 3] = ["test-count", "tests-passed", "tests-run"];
const WARNINGS_FIELDS: [&str; 2] = ["warnings", "no-warnings"];
/// Other names of fields for the verdict of a capability.
const ALIASES: [(&str, &str); 8] = [
    ("cargo-check", "quality::cargo-check-green"),
    ("check", "quality::cargo-check-green"),
    ("build", "quality::cargo-check-green"),
    ("compiles", "quality::cargo-check-green"),
    ("commands", "quality::commands-green"),
    ("warnings", "quality::no-warnings"),
    ("function-size", "quality::constructor-pattern"),
    ("dependencies", "safety::no-dep-bump"),
];

pub(super) fn needs(subject: &Subject<'_>) -> Needs {
    let counted = required(subject).any(|(name, _)| LINES_FIELDS.contains(&name.as_str()));
    let texts = with_lines(subject).filter(|_| counted).map(|change| change.path.clone());
    Needs { report: true, texts: texts.collect(), ..Needs::default() }
}

pub(super) fn judge(subject: &Subject<'_>, facts: &Facts) -> Verdict {
    if required(subject).next().is_none() && is_missing(facts) {
        return Verdict::pass("the task requires no report fields, and there is no report");
    }
    let text = match read(facts) {
        Ok(text) => text,
        Err(verdict) => return verdict,
    };
    let names = names(subject, facts);
    let found = fields(text, &|name| names.contains(name));
    let has = |name: &str| found.iter().any(|field| field.name == name && field.has_value());
    let missing: Vec<&str> =
        required(subject).filter(|(name, _)| !has(name)).map(|(_, written)| written).collect();
    if !missing.is_empty() {
        let list = missing.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        return Verdict::fail(format!("the report gives no value for {list}"));
    }
    let (mut false_claims, mut agreed, mut unmeasured) = (Vec::new(), Vec::new(), Vec::new());
    for field in found.iter().filter(|field| field.has_value()) {
        match compare(field, subject, facts) {
            ClaimResult::False(why) => false_claims.push(format!("`{}`: {why}", field.name)),
            ClaimResult::Agrees => agreed.push(field.name.as_str()),
            ClaimResult::NotMeasured => unmeasured.push(field.name.as_str()),
            ClaimResult::NoClaim => {}
        }
    }
    match false_claims.as_slice() {
        [only] => Verdict::fail(format!("the report is false: {only}")),
        [first, ..] => {
            Verdict::fail_with(format!("the report is false: {first}"), false_claims.join("\n"))
        }
        [] => Verdict::pass(evidence(subject, &agreed, &unmeasured)),
    }
}

/// Whether the agent left no report, or an empty one.
fn is_missing(facts: &Facts) -> bool {
    facts.report.as_ref().is_some_and(|report| match &report.text {
        Ok(text) => text.trim().is_empty(),
        Err(ReportError::Missing) => true,
        Err(ReportError::Unreadable(_)) => false,
    })
}

fn read(facts: &Facts) -> Result<&str, Verdict> {
    match &facts.report {
        None => Err(Verdict::fail("the report was not looked up")),
        Some(Report { place, text: Err(why) }) => {
            Err(Verdict::fail(format!("cannot read the report at {place}: {why}")))
        }
        Some(Report { place, text: Ok(text) }) if text.trim().is_empty() => {
            Err(Verdict::fail(format!("the report is empty: {place}")))
        }
        Some(Report { text: Ok(text), .. }) => Ok(text),
    }
}

/// The required fields: the normalised name, and the name as written.
fn required<'a>(subject: &Subject<'a>) -> impl Iterator<Item = (String, &'a str)> + use<'a> {
    let fields = subject.task.output.report_fields_required.get();
    fields.iter().map(|field| (normalized(field.as_str()), field.as_str()))
}

/// Every name of a field that the report can have.
fn names(subject: &Subject<'_>, facts: &Facts) -> BTreeSet<String> {
    let known =
        [&FILES_FIELDS[..], &LINES_FIELDS, &TESTS_FIELDS, &TEST_COUNT_FIELDS, &WARNINGS_FIELDS]
            .concat();
    let aliases = ALIASES.iter().map(|(alias, _)| *alias);
    let capabilities = facts.measured.iter().flat_map(|(capability, _, _)| {
        [capability.as_str(), capability.rsplit("::").next().unwrap_or_default()]
    });
    let ours = known.into_iter().chain(aliases).chain(capabilities).map(ToOwned::to_owned);
    ours.chain(required(subject).map(|(name, _)| name)).collect()
}

/// Whether a field has the name of a capability, with or without its category.
fn is_named(capability: &str, name: &str) -> bool {
    capability == name || capability.rsplit("::").next() == Some(name)
}

/// The comparison of a claim with what was measured.
enum ClaimResult {
    False(String),
    Agrees,
    NotMeasured,
    NoClaim,
}

fn compare(field: &Field, subject: &Subject<'_>, facts: &Facts) -> ClaimResult {
    let (name, text) = (field.name.as_str(), field.text());
    if FILES_FIELDS.contains(&name) {
        let report = subject.agent.map(|agent| report_path(agent.as_str()));
        let difference = touched::disagreement(&field.value, subject.changes, report.as_deref());
        difference.map_or(ClaimResult::Agrees, ClaimResult::False)
    } else if LINES_FIELDS.contains(&name) {
        lines(&text, subject, facts)
    } else if TESTS_FIELDS.contains(&name) {
        tests(&text, facts)
    } else if TEST_COUNT_FIELDS.contains(&name) {
        let counts: Vec<u64> = claims::first_number(&text).into_iter().collect();
        counted(&counts, facts)
    } else {
        let none = WARNINGS_FIELDS.contains(&name) && claims::claims_none(&text);
        if none || claims::claims_pass(&text) { passed(name, facts) } else { ClaimResult::NoClaim }
    }
}

/// Compares a claimed pass with the verdict of the capability that the field is about.
fn passed(name: &str, facts: &Facts) -> ClaimResult {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, of)| *of);
    let is_about = |capability: &str| is_named(capability, name) || Some(capability) == alias;
    let verdict = facts
        .measured
        .iter()
        // The agent saw only its own worktree, not the merge.
        .find(|(capability, pass, _)| *pass == Pass::Worktree && is_about(capability));
    match verdict {
        None => ClaimResult::NotMeasured,
        Some((_, _, Verdict::Pass { .. })) => ClaimResult::Agrees,
        Some((capability, _, Verdict::Fail { reason, .. })) => {
            ClaimResult::False(format!("it claims a pass, but {capability} failed: {reason}"))
        }
    }
}

fn tests(text: &str, facts: &Facts) -> ClaimResult {
    let counts = claims::passed_counts(text);
    let number = if counts.is_empty() { ClaimResult::NoClaim } else { counted(&counts, facts) };
    if matches!(number, ClaimResult::False(_)) || !claims::claims_pass(text) {
        return number;
    }
    let tallies = tallies(facts);
    match tallies.iter().find(|(tally, _)| !tally.is_clean()) {
        // Tests below the required minimum still passed.
        None if !tallies.is_empty() => ClaimResult::Agrees,
        None => passed("tests-green", facts),
        Some((tally, _)) => {
            let fault = tally.faults.first().map(|(fault, _)| fault);
            let why = tally.failed.first().or(fault).cloned().unwrap_or_default();
            ClaimResult::False(format!("it claims a pass, but the tests failed: {why}"))
        }
    }
}

/// Compares a claimed number of passed tests with the counted one.
fn counted(counts: &[u64], facts: &Facts) -> ClaimResult {
    let tallies = tallies(facts);
    let (sum, largest) = (counts.iter().copied().fold(0, u64::saturating_add), counts.iter().max());
    let (Some(largest), false) = (largest, tallies.is_empty()) else {
        return ClaimResult::NotMeasured;
    };
    let fits = |(tally, documented): &(Tally, u64)| {
        let passed = u64::try_from(tally.passed).unwrap_or(u64::MAX);
        let listed = u64::try_from(tally.passed - tally.custom).unwrap_or(u64::MAX);
        // Cargo also prints documentation tests, and does not count programs with a custom harness.
        [passed, listed].iter().any(|count| {
            [*count, count.saturating_add(*documented)]
                .iter()
                .any(|all| *all == sum || all == largest)
        })
    };
    if tallies.iter().any(fits) {
        return ClaimResult::Agrees;
    }
    let measured = tallies.iter().map(|(tally, _)| tally.passed.to_string());
    let measured = measured.collect::<Vec<_>>().join(" and ");
    ClaimResult::False(format!("it claims that {sum} tests passed, but {measured} did"))
}

/// The counted tests of each job, with the number of passed documentation tests.
fn tallies(facts: &Facts) -> Vec<(Tally, u64)> {
    let runs = facts.jobs.iter().filter(|(job, _)| match job {
        Job::CargoTest { .. } => true,
        Job::Command { .. } | Job::CargoCheck { .. } => false,
    });
    runs.filter_map(|(_, outcome)| Some((tally(outcome)?, documentation_tests(outcome)))).collect()
}

fn documentation_tests(outcome: &JobOutcome) -> u64 {
    let crates = match outcome {
        JobOutcome::Tests { crates, .. } => crates.as_slice(),
        JobOutcome::CouldNotRun { .. }
        | JobOutcome::TreeChanged { .. }
        | JobOutcome::Commands(_) => &[],
    };
    let runs = crates.iter().filter_map(|tests| tests.documentation.as_ref());
    let lines =
        runs.flat_map(|run| run.tail.lines()).filter(|line| line.starts_with("test result:"));
    lines.flat_map(claims::passed_counts).fold(0, u64::saturating_add)
}

fn lines(text: &str, subject: &Subject<'_>, facts: &Facts) -> ClaimResult {
    let Some(claim) = line_delta::parse(text) else { return ClaimResult::NotMeasured };
    let report = subject.agent.map(|agent| report_path(agent.as_str()));
    let mut files = Vec::new();
    for change in with_lines(subject).filter(|change| Some(&change.path) != report.as_ref()) {
        let Some(texts) = facts.texts.get(&change.path) else { return ClaimResult::NotMeasured };
        let mut texts = texts.clone();
        texts.before = texts.before.filter(|_| !change.copied);
        files.push(texts);
    }
    let lines = line_delta::count(files.iter());
    if claim.agrees(&lines) {
        return ClaimResult::Agrees;
    }
    let (added, removed) = (lines.added.0, lines.removed.0);
    ClaimResult::False(format!(
        "it claims `{}`, but it is {:+} lines (at least +{added} -{removed})",
        text.lines().next().unwrap_or_default(),
        lines.net
    ))
}

/// The changes except submodules, which have no lines.
fn with_lines<'a>(subject: &Subject<'a>) -> impl Iterator<Item = &'a Change> + use<'a> {
    let is_submodule =
        |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| entry.mode == Mode::Submodule);
    let has_submodule =
        move |change: &Change| is_submodule(&change.before) || is_submodule(&change.after);
    subject.changes.iter().filter(move |change| !has_submodule(change))
}

fn evidence(subject: &Subject<'_>, agreed: &[&str], unmeasured: &[&str]) -> String {
    let count = subject.task.output.report_fields_required.get().len();
    let mut text = match count {
        0 => "there is a report; no fields are required".to_owned(),
        1 => "the report has the required field".to_owned(),
        _ => format!("the report has the {count} required fields"),
    };
    if !agreed.is_empty() {
        text += &format!("; as measured: {}", agreed.join(", "));
    }
    if !unmeasured.is_empty() {
        text += &format!("; claimed but not measured: {}", unmeasured.join(", "));
    }
    text
}

#[cfg(test)]
mod tests;
