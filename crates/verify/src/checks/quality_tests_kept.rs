//! `quality::tests-kept`: the change takes no test away, skips none and leaves their configuration alone.
//!
//! Judged from the change alone: what each changed file has before and after. Nothing is run.

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
use super::{Subject, switched_off};
use crate::change::{Change, Entry, Mode};
use crate::facts::{Facts, Needs};
use crate::verdict::Verdict;

/// How many signs a verdict lists.
const LISTED: usize = 20;

pub(super) fn needs(subject: &Subject<'_>) -> Needs {
    let manifests = switched_off::manifests(subject);
    let mut texts: Vec<String> =
        relevant(subject).chain(manifests).map(|change| change.path.clone()).collect();
    texts.dedup();
    Needs { texts, ..Needs::default() }
}

pub(super) fn judge(subject: &Subject<'_>, facts: &Facts) -> Verdict {
    let signals = match signals(subject, facts) {
        Ok(signals) => signals,
        Err(why) => return Verdict::fail(why),
    };
    let Some(first) = signals.first() else {
        return Verdict::pass("no test was removed or skipped, and none is configured otherwise");
    };
    let more = match signals.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    match allowance(subject) {
        TestChanges::Allowed => {
            let named: Vec<String> = signals.iter().take(LISTED).map(Signal::to_string).collect();
            let rest = signals.len() - named.len();
            let rest = if rest == 0 { String::new() } else { format!("; and {rest} more") };
            Verdict::pass(format!("the task allows: {}{rest}", named.join("; ")))
        }
        TestChanges::Refused => {
            let mut lines: Vec<String> =
                signals.iter().take(LISTED).map(Signal::to_string).collect();
            if signals.len() > LISTED {
                lines.push(format!("… and {} more", signals.len() - LISTED));
            }
            lines.push(
                "help: undo it; if the task needs it, a person writes `test-changes = \"allowed\"` \
                 under [verification] of the task"
                    .to_owned(),
            );
            Verdict::fail_with(format!("tests may be weaker: {first}{more}"), lines.join("\n"))
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
    /// A file with tests is gone, or is no longer where a runner looks.
    Deleted { path: String },
    /// A file with tests has no code any more.
    Emptied { path: String },
    /// There are fewer tests in a file, and they did not move to another.
    Fewer { path: String, before: usize, after: usize },
    /// A test has nothing left that could fail.
    Hollow { path: String, test: String },
    /// A test is skipped that was not.
    Skipped { path: String, test: String },
    /// A group of tests is skipped.
    GroupSkipped { path: String },
    /// Only some tests run.
    Focused { path: String },
    /// A module with tests is no longer compiled.
    Excluded { path: String, module: String },
    /// A manifest switches tests off.
    SwitchedOff(String),
    /// What says how tests run is another text.
    Configuration { path: String, part: Option<String> },
}

impl fmt::Display for Signal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleted { path } => write!(out, "`{}` had tests, and is gone", shown(path)),
            Self::Emptied { path } => write!(out, "`{}` was emptied", shown(path)),
            Self::Fewer { path, before, after } => {
                write!(out, "`{}` has {after} of its {before} tests", shown(path))
            }
            Self::Hollow { path, test } => {
                write!(out, "`{}`: the test `{}` checks nothing any more", shown(path), shown(test))
            }
            Self::Skipped { path, test } => {
                write!(out, "`{}`: the test `{}` is skipped", shown(path), shown(test))
            }
            Self::GroupSkipped { path } => {
                write!(out, "`{}` skips a group of tests", shown(path))
            }
            Self::Focused { path } => {
                write!(out, "`{}` lets only some tests run, and skips the others", shown(path))
            }
            Self::Excluded { path, module } => {
                write!(out, "`{}` leaves the module `{}` out", shown(path), shown(module))
            }
            Self::SwitchedOff(what) => write!(out, "{what}"),
            Self::Configuration { path, part: None } => {
                write!(out, "`{}` configures tests, and was changed", shown(path))
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

/// The changes that are about tests, by the paths of both sides.
fn relevant<'a>(subject: &Subject<'a>) -> impl Iterator<Item = &'a Change> + use<'a> {
    let is_one = |path: &str| Language::of(path).is_some() || configuration::is_one(path);
    subject.changes.iter().filter(move |change| change.paths().any(is_one))
}

/// One side of a change: the path, and the text of a plain file.
#[derive(Debug, Clone)]
struct Side<'a> {
    path: &'a str,
    text: Option<Cow<'a, str>>,
}

/// A changed file with the tests that it had and has.
struct Changed<'a> {
    before: Side<'a>,
    after: Side<'a>,
    language: Option<Language>,
    was: Suite,
    is: Suite,
}

fn signals(subject: &Subject<'_>, facts: &Facts) -> Result<Vec<Signal>, String> {
    let mut files = Vec::new();
    for change in relevant(subject) {
        files.push(read(change, facts)?);
    }
    let off = switched_off::found(subject, facts)?;
    let mut found: Vec<Signal> = off.into_iter().map(Signal::SwitchedOff).collect();
    for file in &files {
        found.extend(of_tests(file, &files));
        let sides = [&file.before, &file.after];
        let configured = sides.map(|side| configuration::parts(side.path, side.text.as_deref()));
        let part = configuration::difference(&configured);
        let path = if configuration::is_one(file.after.path) { &file.after } else { &file.before };
        let path = path.path.to_owned();
        found.extend(part.map(|part| Signal::Configuration { path, part }));
    }
    Ok(found)
}

fn read<'a>(change: &'a Change, facts: &'a Facts) -> Result<Changed<'a>, String> {
    let unknown = || format!("`{}` could not be read: its text is not known", shown(&change.path));
    let texts = facts.texts.get(&change.path).ok_or_else(unknown)?;
    // A copy is new, and its original stays.
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
    let (was, is) = (suite(&before), suite(&after));
    let language = Language::of(before.path).or(Language::of(after.path));
    Ok(Changed { before, after, language, was, is })
}

/// What a file says about its tests; `all` are the changed files that tests may have moved between.
fn of_tests(file: &Changed<'_>, all: &[Changed<'_>]) -> Vec<Signal> {
    let path = file.after.path.to_owned();
    let mut found: Vec<Signal> = lost(file, all).into_iter().collect();
    let others = || all.iter().filter(|other| other.language == file.language);
    for test in &file.was.tests {
        let here: Vec<&Test> = file.is.named(&test.name).collect();
        let now = if here.is_empty() {
            others().flat_map(|other| other.is.named(&test.name)).collect()
        } else {
            here
        };
        if test.does_something && !now.is_empty() && now.iter().all(|now| !now.does_something) {
            found.push(Signal::Hollow { path: path.clone(), test: test.name.clone() });
        }
    }
    // A new test takes nothing away, unless it is an old one under another name.
    let renames = others().any(|other| !other.was.missing_from(&other.is).is_empty());
    for test in file.is.tests.iter().filter(|test| test.is_skipped) {
        let was: Vec<&Test> = others().flat_map(|other| other.was.named(&test.name)).collect();
        if was.iter().all(|was| !was.is_skipped) && (renames || !was.is_empty()) {
            found.push(Signal::Skipped { path: path.clone(), test: test.name.clone() });
        }
    }
    let sum = |of: fn(&Changed<'_>) -> usize| others().map(of).sum::<usize>();
    let is_old = file.before.text.is_some();
    if is_old
        && file.is.group_skips > file.was.group_skips
        && sum(|file| file.is.group_skips) > sum(|file| file.was.group_skips)
    {
        found.push(Signal::GroupSkipped { path: path.clone() });
    }
    if file.is.focuses > file.was.focuses {
        found.push(Signal::Focused { path: path.clone() });
    }
    for module in file.was.modules.iter().filter(|module| !file.is.modules.contains(module)) {
        let is_its_file = |other: &Changed<'_>| {
            let path = other.before.path;
            path.ends_with(&format!("/{module}.rs")) || path.ends_with(&format!("/{module}/mod.rs"))
        };
        let moves = |other: &Changed<'_>| other.after.path != other.before.path;
        let gone = |other: &Changed<'_>| other.after.text.is_none() || moves(other);
        // Its own file tells what became of the tests.
        if file.after.text.is_some() && !all.iter().any(|other| is_its_file(other) && gone(other)) {
            found.push(Signal::Excluded { path: path.clone(), module: module.clone() });
        }
    }
    found
}

/// Whether tests of a file are gone that no other changed file has gained.
fn lost(file: &Changed<'_>, all: &[Changed<'_>]) -> Option<Signal> {
    let text = file.before.text.as_deref()?;
    let (before, after) = (file.was.tests.len(), file.is.tests.len());
    let language = Language::of(file.before.path)?;
    let gone = file.after.text.is_none() || Language::of(file.after.path).is_none();
    let now = file.after.text.as_deref().unwrap_or_default();
    let path = file.before.path.to_owned();
    if before == 0 {
        // Tests that cannot be told apart: the file itself is what counts.
        let is_one = languages::is_test_name(&path) || language == Language::Other;
        let empty = suite::is_blank(language, now) && !suite::is_blank(language, text);
        return match (is_one && !suite::is_blank(language, text), gone, empty) {
            (true, true, _) => Some(Signal::Deleted { path }),
            (true, false, true) => Some(Signal::Emptied { path }),
            (true, false, false) | (false, _, _) => None,
        };
    }
    let alike = || all.iter().filter(|other| other.language == file.language);
    let moved = file.was.missing_from(&file.is).into_iter().filter(|name| {
        let was: usize = alike().map(|other| other.was.count(name)).sum();
        was <= alike().map(|other| other.is.count(name)).sum()
    });
    let moved: usize =
        moved.map(|name| file.was.count(name).saturating_sub(file.is.count(name))).sum();
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
