//! `output::report-format`: the report has its fields, and what it claims was measured.
//!
//! "Not run" and "failed" are honest. What nobody measured is noted, not held against the agent.

use std::collections::BTreeSet;

use bailiwick_model::well_known::report_path;

use super::Subject;
use super::test_tally::{Tally, tally};
use crate::change::{Change, Entry, Mode};
use crate::facts::{Facts, Needs, NoReport, Pass, Report};
use crate::job::{Job, Outcome};
use crate::report::fields::{Field, fields, spelled};
use crate::report::{claims, line_delta, touched};
use crate::verdict::Verdict;

const FILES: [&str; 3] = ["files-touched", "files-changed", "changed-files"];
const LINES: [&str; 2] = ["loc-delta", "lines-changed"];
const TESTS: [&str; 6] =
    ["cargo-test", "cargo-tests", "tests", "test-results", "tests-green", "test"];
const TEST_COUNTS: [&str; 3] = ["test-count", "tests-passed", "tests-run"];
const WARNINGS: [&str; 2] = ["warnings", "no-warnings"];
/// Other fields that speak of a capability under a name that is not its own.
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
    let counted = required(subject).any(|(name, _)| LINES.contains(&name.as_str()));
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
            Compared::False(why) => false_claims.push(format!("`{}`: {why}", field.name)),
            Compared::Agrees => agreed.push(field.name.as_str()),
            Compared::NotMeasured => unmeasured.push(field.name.as_str()),
            Compared::NoClaim => {}
        }
    }
    match false_claims.as_slice() {
        [only] => Verdict::fail(format!("the report is not true: {only}")),
        [first, ..] => {
            Verdict::fail_with(format!("the report is not true: {first}"), false_claims.join("\n"))
        }
        [] => Verdict::pass(evidence(subject, &agreed, &unmeasured)),
    }
}

/// Whether the agent left no report at all, or an empty one.
fn is_missing(facts: &Facts) -> bool {
    facts.report.as_ref().is_some_and(|report| match &report.text {
        Ok(text) => text.trim().is_empty(),
        Err(NoReport::Missing) => true,
        Err(NoReport::Unreadable(_)) => false,
    })
}

fn read(facts: &Facts) -> Result<&str, Verdict> {
    match &facts.report {
        None => Err(Verdict::fail("the report could not be looked for")),
        Some(Report { place, text: Err(why) }) => {
            Err(Verdict::fail(format!("there is no report to read at {place}: {why}")))
        }
        Some(Report { place, text: Ok(text) }) if text.trim().is_empty() => {
            Err(Verdict::fail(format!("the report is empty: {place}")))
        }
        Some(Report { text: Ok(text), .. }) => Ok(text),
    }
}

/// The required fields, in one spelling and as they are written.
fn required<'a>(subject: &Subject<'a>) -> impl Iterator<Item = (String, &'a str)> + use<'a> {
    let fields = subject.task.output.report_fields_required.get();
    fields.iter().map(|field| (spelled(field.as_str()), field.as_str()))
}

/// Every name that a field is looked for under.
fn names(subject: &Subject<'_>, facts: &Facts) -> BTreeSet<String> {
    let known = [&FILES[..], &LINES, &TESTS, &TEST_COUNTS, &WARNINGS].concat();
    let aliases = ALIASES.iter().map(|(alias, _)| *alias);
    let capabilities = facts.measured.iter().flat_map(|(capability, _, _)| {
        [capability.as_str(), capability.rsplit("::").next().unwrap_or_default()]
    });
    let ours = known.into_iter().chain(aliases).chain(capabilities).map(ToOwned::to_owned);
    ours.chain(required(subject).map(|(name, _)| name)).collect()
}

/// Whether a field has the name of a capability, whole or without its category.
fn is_called(capability: &str, name: &str) -> bool {
    capability == name || capability.rsplit("::").next() == Some(name)
}

/// What became of a claim.
enum Compared {
    False(String),
    Agrees,
    NotMeasured,
    NoClaim,
}

fn compare(field: &Field, subject: &Subject<'_>, facts: &Facts) -> Compared {
    let (name, text) = (field.name.as_str(), field.text());
    if FILES.contains(&name) {
        let report = subject.agent.map(|agent| report_path(agent.as_str()));
        let wrong = touched::disagreement(&field.value, subject.changes, report.as_deref());
        wrong.map_or(Compared::Agrees, Compared::False)
    } else if LINES.contains(&name) {
        lines(&text, subject, facts)
    } else if TESTS.contains(&name) {
        tests(&text, facts)
    } else if TEST_COUNTS.contains(&name) {
        let counts: Vec<u64> = claims::first_number(&text).into_iter().collect();
        counted(&counts, facts)
    } else {
        let none = WARNINGS.contains(&name) && claims::claims_none(&text);
        if none || claims::claims_pass(&text) { passed(name, facts) } else { Compared::NoClaim }
    }
}

/// A claimed pass against the verdict of the capability that the field speaks of.
fn passed(name: &str, facts: &Facts) -> Compared {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, of)| *of);
    let speaks = |capability: &str| is_called(capability, name) || Some(capability) == alias;
    let verdict = facts
        .measured
        .iter()
        // The agent saw its own worktree: what a merge made of it is no lie of its.
        .find(|(capability, pass, _)| *pass == Pass::Worktree && speaks(capability));
    match verdict {
        None => Compared::NotMeasured,
        Some((_, _, Verdict::Pass { .. })) => Compared::Agrees,
        Some((capability, _, Verdict::Fail { reason, .. })) => {
            Compared::False(format!("it claims a pass, and {capability} did not: {reason}"))
        }
    }
}

fn tests(text: &str, facts: &Facts) -> Compared {
    let counts = claims::passed_counts(text);
    let number = if counts.is_empty() { Compared::NoClaim } else { counted(&counts, facts) };
    if matches!(number, Compared::False(_)) || !claims::claims_pass(text) {
        return number;
    }
    let tallies = tallies(facts);
    match tallies.iter().find(|(tally, _)| !tally.is_clean()) {
        // Too few tests can be true tests all the same.
        None if !tallies.is_empty() => Compared::Agrees,
        None => passed("tests-green", facts),
        Some((tally, _)) => {
            let fault = tally.faults.first().map(|(fault, _)| fault);
            let why = tally.failed.first().or(fault).cloned().unwrap_or_default();
            Compared::False(format!("it claims a pass, and the tests did not: {why}"))
        }
    }
}

/// A claimed number of passed tests against those that were counted.
fn counted(counts: &[u64], facts: &Facts) -> Compared {
    let tallies = tallies(facts);
    let (sum, most) = (counts.iter().copied().fold(0, u64::saturating_add), counts.iter().max());
    let (Some(most), false) = (most, tallies.is_empty()) else { return Compared::NotMeasured };
    let fits = |(tally, documented): &(Tally, u64)| {
        let passed = u64::try_from(tally.passed).unwrap_or(u64::MAX);
        let listed = u64::try_from(tally.passed - tally.own).unwrap_or(u64::MAX);
        // Cargo prints documentation tests beside the others, and counts no harness of its own.
        [passed, listed].iter().any(|count| {
            [*count, count.saturating_add(*documented)].iter().any(|all| *all == sum || all == most)
        })
    };
    if tallies.iter().any(fits) {
        return Compared::Agrees;
    }
    let measured = tallies.iter().map(|(tally, _)| tally.passed.to_string());
    let measured = measured.collect::<Vec<_>>().join(" and ");
    Compared::False(format!("it claims that {sum} tests passed, and {measured} did"))
}

/// The tests that were run, with how many documentation tests say that they passed.
fn tallies(facts: &Facts) -> Vec<(Tally, u64)> {
    let runs = facts.jobs.iter().filter(|(job, _)| match job {
        Job::CargoTest { .. } => true,
        Job::Command { .. } | Job::CargoCheck { .. } => false,
    });
    runs.filter_map(|(_, outcome)| Some((tally(outcome)?, documented(outcome)))).collect()
}

fn documented(outcome: &Outcome) -> u64 {
    let crates = match outcome {
        Outcome::Tests { crates, .. } => crates.as_slice(),
        Outcome::CouldNotRun { .. } | Outcome::TreeChanged { .. } | Outcome::Commands(_) => &[],
    };
    let runs = crates.iter().filter_map(|tests| tests.documentation.as_ref());
    let lines =
        runs.flat_map(|run| run.tail.lines()).filter(|line| line.starts_with("test result:"));
    lines.flat_map(claims::passed_counts).fold(0, u64::saturating_add)
}

fn lines(text: &str, subject: &Subject<'_>, facts: &Facts) -> Compared {
    let Some(claim) = line_delta::parse(text) else { return Compared::NotMeasured };
    let report = subject.agent.map(|agent| report_path(agent.as_str()));
    let mut files = Vec::new();
    for change in with_lines(subject).filter(|change| Some(&change.path) != report.as_ref()) {
        let Some(texts) = facts.texts.get(&change.path) else { return Compared::NotMeasured };
        let mut texts = texts.clone();
        texts.before = texts.before.filter(|_| !change.copied);
        files.push(texts);
    }
    let lines = line_delta::count(files.iter());
    if claim.agrees(&lines) {
        return Compared::Agrees;
    }
    let (added, removed) = (lines.added.0, lines.removed.0);
    Compared::False(format!(
        "it claims `{}`, and it is {:+} lines (at least +{added} -{removed})",
        text.lines().next().unwrap_or_default(),
        lines.net
    ))
}

/// The changes that have lines: a submodule has none.
fn with_lines<'a>(subject: &Subject<'a>) -> impl Iterator<Item = &'a Change> + use<'a> {
    let is_submodule =
        |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| entry.mode == Mode::Submodule);
    let lacks = move |change: &Change| is_submodule(&change.before) || is_submodule(&change.after);
    subject.changes.iter().filter(move |change| !lacks(change))
}

fn evidence(subject: &Subject<'_>, agreed: &[&str], unmeasured: &[&str]) -> String {
    let count = subject.task.output.report_fields_required.get().len();
    let mut told = match count {
        0 => "there is a report; no fields are required".to_owned(),
        1 => "the report has the field that is required".to_owned(),
        _ => format!("the report has the {count} fields that are required"),
    };
    if !agreed.is_empty() {
        told += &format!("; as measured: {}", agreed.join(", "));
    }
    if !unmeasured.is_empty() {
        told += &format!("; claimed, with nothing to compare with: {}", unmeasured.join(", "));
    }
    told
}

#[cfg(test)]
mod tests;
