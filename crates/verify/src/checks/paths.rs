//! The changed paths that a check of scope asks about, and how it tells of them.

use bailiwick_model::globs::Globs;
use bailiwick_model::task::PathPattern;
use bailiwick_model::well_known::{build_output_pattern, report_path};

use super::Subject;
use crate::verdict::Verdict;

/// How many paths a verdict lists.
const LISTED: usize = 20;

/// A path that a change touches.
pub(super) struct Touched<'a> {
    pub(super) path: &'a str,
    pub(super) is_directory: bool,
    /// Whether it is the agent's own report, as a plain file.
    pub(super) is_report: bool,
}

/// Every path that is touched, both sides of a rename, and what commits touched on the way.
pub(super) fn touched<'a>(subject: &Subject<'a>) -> impl Iterator<Item = Touched<'a>> + use<'a> {
    let report = subject.agent.map(|agent| report_path(agent.as_str()));
    let own = report.clone();
    let passing = subject.passing.iter().map(move |path| Touched {
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
    changed.chain(passing)
}

/// The same paths but for the report, sorted and each once.
pub(super) fn sorted(subject: &Subject<'_>) -> Vec<String> {
    let work = touched(&Subject { passing: &[], ..*subject }).filter(|touched| !touched.is_report);
    let mut paths: Vec<String> = work.map(|touched| touched.path.to_owned()).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The globs of a task, ready to be asked.
pub(super) fn globs(patterns: &[PathPattern]) -> Globs {
    Globs::parse(&patterns.iter().map(|pattern| pattern.as_str().to_owned()).collect::<Vec<_>>())
}

/// A failure over these paths of a change. If all of them are new and made by builds, it says how git is told.
pub(super) fn blame_touched(subject: &Subject<'_>, paths: &[String], fault: &str) -> Verdict {
    let verdict = blame(paths, fault);
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

/// The lines of a `.gitignore` that would leave all these paths out; git ignores only what it does not track.
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

/// A failure over these paths: the first in the sentence, the rest below it.
pub(super) fn blame(paths: &[String], fault: &str) -> Verdict {
    let Some(first) = paths.first() else {
        return Verdict::fail(fault);
    };
    let shown = first.escape_debug();
    match paths.len() {
        1 => Verdict::fail(format!("`{shown}` {fault}")),
        count => {
            let more = count - 1;
            Verdict::fail_with(format!("`{shown}` and {more} more: {fault}"), listed(paths))
        }
    }
}

/// The first paths, a line each, and how many are left out.
pub(super) fn listed(paths: &[String]) -> String {
    let mut lines: Vec<String> =
        paths.iter().take(LISTED).map(|path| path.escape_debug().to_string()).collect();
    if paths.len() > LISTED {
        lines.push(format!("… and {} more", paths.len() - LISTED));
    }
    lines.join("\n")
}
