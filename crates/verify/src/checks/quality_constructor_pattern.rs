//! `quality::constructor-pattern`: files and functions stay small, measured by a parser.
//!
//! Only what the agent added or made longer counts. A function is identified by its qualified name, or
//! by its body if it was renamed or moved between changed files.

use std::collections::BTreeMap;

use super::{Subject, listing};
use crate::change::{Change, Mode};
use crate::facts::{Facts, Needs};
use crate::measure::{self, Function, MeasureError, Measured};
use crate::verdict::Verdict;

const DEFAULT_MAX_FILE_LINES: u32 = 200;
const DEFAULT_MAX_FUNCTION_LINES: u32 = 30;

pub(super) fn needs(subject: &Subject<'_>) -> Needs {
    let texts = subject.changes.iter().filter(|change| is_measured(change));
    Needs { texts: texts.map(|change| change.path.clone()).collect(), ..Needs::default() }
}

pub(super) fn judge(subject: &Subject<'_>, facts: &Facts) -> Verdict {
    let limits = Limits::of(subject);
    let mut files = Vec::new();
    for change in subject.changes.iter().filter(|change| is_measured(change)) {
        match File::read(change, facts) {
            Ok(file) => files.push(file),
            Err(why) => {
                let path = change.path.escape_debug();
                return Verdict::fail(format!("`{path}` could not be measured: {why}"));
            }
        }
    }
    let mut faults: Vec<String> = files.iter().filter_map(|file| too_long(file, limits)).collect();
    faults.extend(too_large_functions(&files, limits));
    match faults.first() {
        None => Verdict::pass(limits.evidence(&files)),
        Some(first) if faults.len() == 1 => Verdict::fail(first.clone()),
        Some(first) => {
            let reason = format!("{first}, and {} more", faults.len() - 1);
            Verdict::fail_with(reason, listing::limited(&faults, listing::MAX_LISTED))
        }
    }
}

/// Whether it is a source file, or was one before it was deleted.
fn is_measured(change: &Change) -> bool {
    let entry = change.after.as_ref().or(change.before.as_ref());
    let plain = entry.is_some_and(|entry| match entry.mode {
        Mode::File | Mode::Executable => true,
        Mode::Link | Mode::Submodule => false,
    });
    plain && measure::is_source(&change.path)
}

#[derive(Clone, Copy)]
struct Limits {
    file: u32,
    function: u32,
    parameters: Option<u32>,
}

impl Limits {
    fn of(subject: &Subject<'_>) -> Self {
        let verification = &subject.task.verification;
        let file = verification.max_file_lines.as_ref();
        let function = verification.max_function_lines.as_ref();
        Self {
            file: file.map_or(DEFAULT_MAX_FILE_LINES, |limit| *limit.get_ref()),
            function: function.map_or(DEFAULT_MAX_FUNCTION_LINES, |limit| *limit.get_ref()),
            parameters: verification.max_parameters.as_ref().map(|limit| *limit.get_ref()),
        }
    }

    fn evidence(self, files: &[File<'_>]) -> String {
        let (count, functions) =
            (files.len(), files.iter().map(|file| file.after.functions.len()).sum::<usize>());
        let parameters = self.parameters.map(|limit| format!(", {limit} parameters per function"));
        format!(
            "{count} source files and {functions} functions: none was added or grew beyond {} \
             lines per file, {} lines per function{}",
            self.file,
            self.function,
            parameters.unwrap_or_default()
        )
    }
}

/// A changed source file, measured on both sides.
struct File<'a> {
    path: &'a str,
    /// Lines before and after, if the file exists there.
    lines: (Option<usize>, Option<usize>),
    before: Measured,
    after: Measured,
}

impl<'a> File<'a> {
    fn read(change: &'a Change, facts: &Facts) -> Result<Self, MeasureError> {
        let texts = facts.texts.get(&change.path).ok_or(MeasureError::UnknownText)?;
        // A copy counts as a new file.
        let before = texts.before.as_deref().filter(|_| !change.copied);
        let after = texts.after.as_deref();
        if change.after.is_some() != after.is_some() {
            return Err(MeasureError::UnknownText);
        }
        if before.is_some_and(is_generated) {
            return Ok(Self::unmeasured(&change.path));
        }
        let from = change.from.as_deref().unwrap_or(&change.path);
        Ok(Self {
            path: &change.path,
            lines: (before.map(measure::count_lines), after.map(measure::count_lines)),
            // If the old text does not parse, everything counts as new.
            before: before
                .map_or(Ok(Measured::default()), |text| parsed(from, text))
                .unwrap_or_default(),
            after: after.map_or(Ok(Measured::default()), |text| parsed(&change.path, text))?,
        })
    }

    fn unmeasured(path: &'a str) -> Self {
        let (before, after) = (Measured::default(), Measured::default());
        Self { path, lines: (None, None), before, after }
    }
}

fn parsed(path: &str, text: &[u8]) -> Result<Measured, MeasureError> {
    if !measure::has_parser(path) {
        return Ok(Measured::default());
    }
    let text = std::str::from_utf8(text).map_err(|_| MeasureError::NotUtf8)?;
    measure::measure(path, text).unwrap_or_else(|| Ok(Measured::default()))
}

/// Whether a file was marked as generated before the work began.
fn is_generated(text: &[u8]) -> bool {
    let head = text.split(|byte| *byte == b'\n').take(10);
    let head = String::from_utf8_lossy(&head.collect::<Vec<_>>().join(&b'\n')).to_lowercase();
    let marked = head.contains("code generated") || head.contains("automatically generated");
    head.contains("@generated") || (marked && head.contains("do not edit"))
}

fn too_long(file: &File<'_>, limits: Limits) -> Option<String> {
    let (before, now) = (file.lines.0.unwrap_or(0), file.lines.1?);
    let limit = usize::try_from(limits.file).unwrap_or(usize::MAX);
    let path = file.path.escape_debug();
    let grew = match file.lines.0 {
        Some(_) => format!(" (it had {before})"),
        None => String::new(),
    };
    (now > limit && now > before)
        .then(|| format!("{path} has {now} lines{grew}: the limit is {limit}"))
}

/// The functions that newly exceed a limit.
fn too_large_functions(files: &[File<'_>], limits: Limits) -> Vec<String> {
    let function_limit = usize::try_from(limits.function).unwrap_or(usize::MAX);
    let parameter_limit =
        limits.parameters.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let exceeds = |function: &Function| {
        function.lines > function_limit || function.parameters > parameter_limit
    };
    let mut bodies: BTreeMap<&str, Vec<&Function>> = BTreeMap::new();
    for function in files.iter().flat_map(|file| &file.before.functions).filter(|one| exceeds(one))
    {
        bodies.entry(&function.body).or_default().push(function);
    }
    let mut suspects = Vec::new();
    for file in files {
        for (function, before) in with_previous(file) {
            let longer = function.lines > before.map_or(0, |before| before.lines);
            let wider = function.parameters > before.map_or(0, |before| before.parameters);
            let lines = function.lines > function_limit && longer;
            let parameters = function.parameters > parameter_limit && wider;
            if lines || parameters {
                suspects.push((file, function, before, lines, parameters));
            } else {
                // It stayed in its place, so its old body must not match a moved function.
                take_existing(&mut bodies, function);
            }
        }
    }
    let mut faults = Vec::new();
    for (file, function, before, lines, parameters) in suspects {
        if take_existing(&mut bodies, function) {
            continue;
        }
        let at = format!("{}:{} {}", file.path.escape_debug(), function.line, function.path);
        if lines {
            let grew = before.map(|before| format!(" (it had {})", before.lines));
            faults.push(format!(
                "{at} has {} lines{}: the limit is {function_limit}",
                function.lines,
                grew.unwrap_or_default()
            ));
        }
        if parameters {
            let count = function.parameters;
            faults.push(format!("{at} has {count} parameters: the limit is {parameter_limit}"));
        }
    }
    faults
}

/// Removes an old function with the same body that was at least as large; whether there was one.
fn take_existing(bodies: &mut BTreeMap<&str, Vec<&Function>>, function: &Function) -> bool {
    let Some(same) = bodies.get_mut(function.body.as_str()) else { return false };
    let no_smaller = |before: &&Function| {
        before.lines >= function.lines && before.parameters >= function.parameters
    };
    let Some(index) = same.iter().position(no_smaller) else { return false };
    same.swap_remove(index);
    true
}

/// Each function with its previous version; functions with the same name are matched by length.
fn with_previous<'a>(file: &'a File<'_>) -> Vec<(&'a Function, Option<&'a Function>)> {
    let by_path = |measured: &'a Measured| {
        let mut map: BTreeMap<&str, Vec<&Function>> = BTreeMap::new();
        for function in &measured.functions {
            map.entry(&function.path).or_default().push(function);
        }
        map.values_mut().for_each(|same| same.sort_by_key(|one| std::cmp::Reverse(one.lines)));
        map
    };
    let before = by_path(&file.before);
    let after = by_path(&file.after);
    let pairs = after.into_iter().flat_map(|(path, same)| {
        let was = before.get(path).cloned().unwrap_or_default();
        same.into_iter()
            .enumerate()
            .map(move |(index, function)| (function, was.get(index).copied()))
            .collect::<Vec<_>>()
    });
    pairs.collect()
}

#[cfg(test)]
mod tests;
