//! The changed paths that scope checks compare, and the failures that name them.

use bailiwick_model::globs::Globs;
use bailiwick_model::task::PathPattern;
use bailiwick_model::well_known::{build_output_pattern, report_path};

use super::{Subject, listing};
use crate::verdict::Verdict;

/// A path that a change touches.
pub(super) struct Touched<'a> {
    pub(super) path: &'a str,
    pub(super) is_directory: bool,
    /// Whether it is the agent's own report, as a regular file.
    pub(super) is_report: bool,
}

/// Every touched path: both sides of a rename, and the paths that commits changed and changed back.
pub(super) fn touched<'a>(subject: &Subject<'a>) -> impl Iterator<Item = Touched<'a>> + use<'a> {
    let report = subject.agent.map(|agent| report_path(agent.as_str()));
    let own = report.clone();
    let intermediate = subject.intermediate_paths.iter().map(move |path| Touched {
        path,
        is_directory: false,
        is_report: own.as_deref() == Some(path),
    });
    let changed = subject.changes.iter().flat_map(move |change| {
        let report = report.clone();
        change.paths().map(move |path| Touched {
            path,
            is_directory: change.is_directory(),
            is_report: report.as_deref() == Some(path) && change.is_plain(),
        })
    });
    changed.chain(intermediate)
}

/// The changed paths without the report, sorted and without duplicates.
pub(super) fn sorted(subject: &Subject<'_>) -> Vec<String> {
    let work = touched(&Subject { intermediate_paths: &[], ..*subject })
        .filter(|touched| !touched.is_report);
    let mut paths: Vec<String> = work.map(|touched| touched.path.to_owned()).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The globs of a task.
pub(super) fn globs(patterns: &[PathPattern]) -> Globs {
    Globs::parse(&patterns.iter().map(|pattern| pattern.as_str().to_owned()).collect::<Vec<_>>())
}

/// A failure that names these paths. If all of them are new build output, it says how to ignore them.
pub(super) fn fail_for_touched(subject: &Subject<'_>, paths: &[String], fault: &str) -> Verdict {
    let verdict = fail_for_paths(paths, fault);
    let Some(patterns) = ignorable(subject, paths) else { return verdict };
    let help = format!(
        "help: builds and tests make such files: add {} to .gitignore on the base branch",
        patterns.join(", ")
    );
    match verdict {
        Verdict::Fail { reason, detail: None } => Verdict::fail_with(reason, help),
        Verdict::Fail { reason, detail: Some(detail) } => {
            Verdict::fail_with(reason, format!("{detail}\n\n{help}"))
        }
        pass @ Verdict::Pass { .. } => pass,
    }
}

/// The `.gitignore` lines that cover all these paths; none if git tracks one of them.
fn ignorable(subject: &Subject<'_>, paths: &[String]) -> Option<Vec<String>> {
    let is_new = |path: &String| {
        subject.changes.iter().any(|change| change.path == *path && change.is_addition())
    };
    let mut patterns = Vec::new();
    for path in paths {
        let pattern = format!("`{}`", build_output_pattern(path).filter(|_| is_new(path))?);
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    (!patterns.is_empty()).then_some(patterns)
}

/// A failure that names the first path in the reason and lists all of them in the detail.
pub(super) fn fail_for_paths(paths: &[String], fault: &str) -> Verdict {
    let Some(first) = paths.first() else {
        return Verdict::fail(fault);
    };
    let shown = first.escape_debug();
    match paths.len() {
        1 => Verdict::fail(format!("`{shown}` {fault}")),
        count => {
            let more = count - 1;
            Verdict::fail_with(format!("`{shown}` and {more} more: {fault}"), list(paths))
        }
    }
}

/// The paths, one on a line, shortened to what a verdict shows.
pub(super) fn list(paths: &[String]) -> String {
    let shown: Vec<String> = paths.iter().map(|path| path.escape_debug().to_string()).collect();
    listing::limited(&shown, listing::MAX_LISTED)
}
