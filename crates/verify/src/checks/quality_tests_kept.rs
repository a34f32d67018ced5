//! `quality::tests-kept`: the change removes no test, skips none and does not change their configuration,
//! and no fewer tests are executed than on the base.

mod configuration;
mod languages;
mod suite;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use bailiwick_model::task::TestChanges;

use self::languages::Language;
use self::suite::{Suite, Test};
use super::disabled_tests::UnreadableManifest;
use super::{Subject, disabled_tests, listing};
use crate::change::{Change, Entry, Mode};
use crate::executed_tests::Comparison;
use crate::facts::{Facts, Needs};
use crate::verdict::Verdict;

pub(super) fn needs(subject: &Subject<'_>) -> Needs {
    let manifests = disabled_tests::manifests(subject);
    let mut texts: Vec<String> =
        relevant(subject).chain(manifests).map(|change| change.path.clone()).collect();
    texts.dedup();
    Needs { texts, executed_tests: true, ..Needs::default() }
}

pub(super) fn judge(subject: &Subject<'_>, facts: &Facts) -> Verdict {
    let signals = match signals(subject, facts) {
        Ok(signals) => signals,
        Err(error) => return Verdict::fail(error.to_string()),
    };
    let counts: Vec<String> =
        facts.executed_tests.iter().flatten().map(Comparison::to_string).collect();
    let Some(first) = signals.first() else {
        let kept = "no test was removed or skipped, and their configuration is unchanged";
        let evidence: Vec<String> = [kept.to_owned()].into_iter().chain(counts).collect();
        return Verdict::pass(evidence.join("; "));
    };
    let lines: Vec<String> = signals.iter().map(Signal::to_string).collect();
    let more = match signals.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    match allowance(subject) {
        TestChanges::Allowed => {
            let listed = listing::limited(&lines, listing::MAX_LISTED).replace('\n', "; ");
            let counts = counts.into_iter().filter(|counts| !lines.contains(counts));
            let allowed = format!("the task allows: {listed}");
            Verdict::pass([allowed].into_iter().chain(counts).collect::<Vec<_>>().join("; "))
        }
        TestChanges::Refused => {
            let listed = listing::limited(&lines, listing::MAX_LISTED);
            let help = "help: undo it; if the task needs it, a person writes `test-changes = \
                        \"allowed\"` under [verification] of the task";
            Verdict::fail_with(
                format!("tests may be weaker: {first}{more}"),
                format!("{listed}\n{help}"),
            )
        }
    }
}

fn allowance(subject: &Subject<'_>) -> TestChanges {
    let set = subject.task.verification.test_changes.as_ref();
    set.map_or(TestChanges::Refused, |set| *set.get_ref())
}

/// A sign that the change weakens tests.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Signal {
    /// A file with tests was deleted, or moved to where no test runner looks.
    Deleted { path: String },
    /// A file with tests has no code left.
    Emptied { path: String },
    /// A file has fewer tests, and they did not move to another file.
    Fewer { path: String, before: usize, after: usize },
    /// A test no longer checks anything.
    Hollow { path: String, test: String },
    /// A test is newly skipped.
    Skipped { path: String, test: String },
    /// A group of tests is newly skipped.
    GroupSkipped { path: String },
    /// A focused test keeps the others from running.
    Focused { path: String },
    /// A module with tests is no longer compiled.
    Excluded { path: String, module: String },
    /// A setting of a manifest disables tests.
    Disabled(String),
    /// A command executes fewer tests than on the base.
    FewerExecuted(Comparison),
    /// A file, or a part of it, that configures tests was changed.
    Configuration { path: String, part: Option<String> },
}

impl fmt::Display for Signal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleted { path } => write!(out, "`{}` had tests and was deleted", shown(path)),
            Self::Emptied { path } => write!(out, "`{}` was emptied", shown(path)),
            Self::Fewer { path, before, after } => {
                write!(out, "`{}` has {after} of its {before} tests", shown(path))
            }
            Self::Hollow { path, test } => {
                write!(
                    out,
                    "`{}`: the test `{}` no longer checks anything",
                    shown(path),
                    shown(test)
                )
            }
            Self::Skipped { path, test } => {
                write!(out, "`{}`: the test `{}` is skipped", shown(path), shown(test))
            }
            Self::GroupSkipped { path } => {
                write!(out, "`{}` skips a group of tests", shown(path))
            }
            Self::Focused { path } => {
                write!(out, "`{}` focuses some tests and skips the others", shown(path))
            }
            Self::Excluded { path, module } => {
                write!(out, "`{}` no longer includes the module `{}`", shown(path), shown(module))
            }
            Self::Disabled(what) => write!(out, "{what}"),
            Self::FewerExecuted(counts) => write!(out, "{counts}"),
            Self::Configuration { path, part: None } => {
                write!(out, "`{}` configures tests and was changed", shown(path))
            }
            Self::Configuration { path, part: Some(part) } => {
                write!(out, "`{}` configures tests, and `{}` was changed", shown(path), shown(part))
            }
        }
    }
}

fn shown(text: &str) -> std::str::EscapeDebug<'_> {
    text.escape_debug()
}

/// The changes of files that can have or configure tests, by the paths of both sides.
fn relevant<'a>(subject: &Subject<'a>) -> impl Iterator<Item = &'a Change> + use<'a> {
    let is_relevant =
        |path: &str| Language::of(path).is_some() || configuration::can_configure_tests(path);
    subject.changes.iter().filter(move |change| change.paths().any(is_relevant))
}

/// One side of a change: the path, and the text if it is a regular file.
#[derive(Debug, Clone)]
struct Side<'a> {
    path: &'a str,
    text: Option<Cow<'a, str>>,
}

/// A changed file with its tests before and after.
struct Changed<'a> {
    before: Side<'a>,
    after: Side<'a>,
    language: Option<Language>,
    old_tests: Suite,
    new_tests: Suite,
}

/// Why the tests before and after cannot be compared.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("`{}` could not be read: its text is not known", path.escape_debug())]
    UnknownText { path: String },
    #[error("the executed tests were not counted")]
    NotCounted,
    #[error(transparent)]
    Manifest(#[from] UnreadableManifest),
}

fn signals(subject: &Subject<'_>, facts: &Facts) -> Result<Vec<Signal>, ReadError> {
    let mut files = Vec::new();
    for change in relevant(subject) {
        files.push(read(change, facts)?);
    }
    let disabled = disabled_tests::find(subject, facts)?;
    let executed = facts.executed_tests.as_ref().ok_or(ReadError::NotCounted)?;
    let fewer = executed.iter().filter(|counts| counts.is_fewer()).cloned();
    let mut found: Vec<Signal> = disabled.into_iter().map(Signal::Disabled).collect();
    found.extend(fewer.map(Signal::FewerExecuted));
    for file in &files {
        found.extend(test_signals(file, &files));
        let sides = [&file.before, &file.after];
        let configured = sides.map(|side| configuration::parts(side.path, side.text.as_deref()));
        let part = configuration::difference(&configured);
        let path = if configuration::can_configure_tests(file.after.path) {
            &file.after
        } else {
            &file.before
        };
        let path = path.path.to_owned();
        found.extend(part.map(|part| Signal::Configuration { path, part }));
    }
    Ok(found)
}

fn read<'a>(change: &'a Change, facts: &'a Facts) -> Result<Changed<'a>, ReadError> {
    let unknown = || ReadError::UnknownText { path: change.path.clone() };
    let texts = facts.texts.get(&change.path).ok_or_else(unknown)?;
    // A copy counts as a new file.
    let before = change.before.as_ref().filter(|_| !change.copied);
    let text = |entry: Option<&Entry>, text: &'a Option<Vec<u8>>| match entry {
        None => Ok(None),
        Some(entry) => match entry.mode {
            Mode::File | Mode::Executable => match text {
                Some(bytes) => Ok(Some(String::from_utf8_lossy(bytes))),
                None => Err(unknown()),
            },
            Mode::Link | Mode::Submodule => Ok(None),
        },
    };
    let from = change.from.as_deref().unwrap_or(&change.path);
    let before = Side { path: from, text: text(before, &texts.before)? };
    let after = Side { path: &change.path, text: text(change.after.as_ref(), &texts.after)? };
    let suite = |side: &Side<'_>| match (Language::of(side.path), &side.text) {
        (Some(language), Some(text)) => suite::read(language, side.path, text),
        (None, _) | (_, None) => Suite::default(),
    };
    let (old_tests, new_tests) = (suite(&before), suite(&after));
    let language = Language::of(before.path).or(Language::of(after.path));
    Ok(Changed { before, after, language, old_tests, new_tests })
}

/// The signals of one file; `all` are the changed files, between which tests can move.
fn test_signals(file: &Changed<'_>, all: &[Changed<'_>]) -> Vec<Signal> {
    let path = file.after.path.to_owned();
    let mut found: Vec<Signal> = lost_tests(file, all).into_iter().collect();
    let others = || all.iter().filter(|other| other.language == file.language);
    for test in &file.old_tests.tests {
        let here: Vec<&Test> = file.new_tests.named(&test.name).collect();
        let now = if here.is_empty() {
            others().flat_map(|other| other.new_tests.named(&test.name)).collect()
        } else {
            here
        };
        if test.does_something && !now.is_empty() && now.iter().all(|now| !now.does_something) {
            found.push(Signal::Hollow { path: path.clone(), test: test.name.clone() });
        }
    }
    // A new skipped test counts only if it can be an old test under a new name.
    let renames = others().any(|other| !other.old_tests.missing_from(&other.new_tests).is_empty());
    for test in file.new_tests.tests.iter().filter(|test| test.is_skipped) {
        let was: Vec<&Test> =
            others().flat_map(|other| other.old_tests.named(&test.name)).collect();
        if was.iter().all(|was| !was.is_skipped) && (renames || !was.is_empty()) {
            found.push(Signal::Skipped { path: path.clone(), test: test.name.clone() });
        }
    }
    let sum = |count: fn(&Changed<'_>) -> usize| others().map(count).sum::<usize>();
    let is_old = file.before.text.is_some();
    if is_old
        && file.new_tests.group_skips > file.old_tests.group_skips
        && sum(|file| file.new_tests.group_skips) > sum(|file| file.old_tests.group_skips)
    {
        found.push(Signal::GroupSkipped { path: path.clone() });
    }
    if file.new_tests.focuses > file.old_tests.focuses {
        found.push(Signal::Focused { path: path.clone() });
    }
    for module in
        file.old_tests.modules.iter().filter(|module| !file.new_tests.modules.contains(module))
    {
        let is_its_file = |other: &Changed<'_>| {
            let path = other.before.path;
            path.ends_with(&format!("/{module}.rs")) || path.ends_with(&format!("/{module}/mod.rs"))
        };
        let moves = |other: &Changed<'_>| other.after.path != other.before.path;
        let is_gone = |other: &Changed<'_>| other.after.text.is_none() || moves(other);
        // The signals of the file of that module cover its tests.
        if file.after.text.is_some()
            && !all.iter().any(|other| is_its_file(other) && is_gone(other))
        {
            found.push(Signal::Excluded { path: path.clone(), module: module.clone() });
        }
    }
    found
}

/// A signal if the file lost tests that no other changed file has gained.
fn lost_tests(file: &Changed<'_>, all: &[Changed<'_>]) -> Option<Signal> {
    let text = file.before.text.as_deref()?;
    let (before, after) = (file.old_tests.tests.len(), file.new_tests.tests.len());
    let language = Language::of(file.before.path)?;
    let gone = file.after.text.is_none() || Language::of(file.after.path).is_none();
    let now = file.after.text.as_deref().unwrap_or_default();
    let path = file.before.path.to_owned();
    if before == 0 {
        // The tests cannot be listed, so the file as a whole counts.
        let is_test_file = languages::is_test_name(&path) || language == Language::Other;
        let empty = suite::is_blank(language, now) && !suite::is_blank(language, text);
        return match (is_test_file && !suite::is_blank(language, text), gone, empty) {
            (true, true, _) => Some(Signal::Deleted { path }),
            (true, false, true) => Some(Signal::Emptied { path }),
            (true, false, false) | (false, _, _) => None,
        };
    }
    let same_language = || all.iter().filter(|other| other.language == file.language);
    let moved = file.old_tests.missing_from(&file.new_tests).into_iter().filter(|name| {
        let was: usize = same_language().map(|other| other.old_tests.count(name)).sum();
        was <= same_language().map(|other| other.new_tests.count(name)).sum()
    });
    let moved: usize = moved
        .map(|name| file.old_tests.count(name).saturating_sub(file.new_tests.count(name)))
        .sum();
    if before <= after + moved {
        return None;
    }
    Some(if gone {
        Signal::Deleted { path }
    } else if suite::is_blank(language, now) {
        Signal::Emptied { path }
    } else {
        Signal::Fewer { path, before, after: after + moved }
    })
}
