//! Reading `task.toml`, with the literal `null` that is accepted for `parent-agent`.

use std::ops::Range;

use serde_spanned::Spanned;

use super::{Task, Verification};
use crate::problem::{Problem, Source};
use crate::toml_file;

impl Task {
    /// Reads a task. The literal `parent-agent = null` is not TOML, but is accepted and means none.
    pub fn parse(source: &Source) -> Result<Self, Problem> {
        match toml_file::parse(source) {
            Err(problem) => match null_parent_as_empty(source, &problem) {
                Some(replaced) => {
                    toml_file::parse(&replaced).map_err(|later| later.shown_in(source))
                }
                None => Err(problem),
            },
            read => read,
        }
    }

    /// All problems of a task whose first problem is known.
    pub fn problems(source: &Source, first: Problem) -> Vec<Problem> {
        let replaced = Source::new(source.file.clone(), Self::normalised_text(source));
        match toml_file::parse_all::<Self>(&replaced) {
            Ok(_) => vec![first],
            Err(all) => all.into_iter().map(|problem| problem.shown_in(source)).collect(),
        }
    }

    /// The text as TOML: a literal `parent-agent = null` is replaced.
    pub fn normalised_text(source: &Source) -> String {
        let problem = toml_file::syntax(source).err();
        problem
            .and_then(|problem| null_parent_as_empty(source, &problem))
            .map_or_else(|| source.text.to_string(), |replaced| replaced.text.to_string())
    }

    /// The parameters that the task sets, each with its place in the file.
    pub fn parameters_set(&self) -> Vec<(String, Range<usize>)> {
        let Verification {
            cargo_check_crates,
            cargo_test_crates,
            test_count_min,
            commands,
            allow_dependency_changes,
            test_changes,
            max_deleted_files,
            max_file_lines,
            max_function_lines,
            max_parameters,
        } = &self.verification;
        let number = |value: &Option<Spanned<u32>>| value.as_ref().map(Spanned::span);
        let built_in = [
            ("files-whitelist", self.scope.files_whitelist.span_if_set()),
            ("files-denylist", self.scope.files_denylist.span_if_set()),
            ("cargo-check-crates", cargo_check_crates.span_if_set()),
            ("cargo-test-crates", cargo_test_crates.span_if_set()),
            ("test-count-min", number(test_count_min)),
            ("commands", commands.span_if_set()),
            ("allow-dependency-changes", allow_dependency_changes.as_ref().map(Spanned::span)),
            ("test-changes", test_changes.as_ref().map(Spanned::span)),
            ("max-deleted-files", number(max_deleted_files)),
            ("max-file-lines", number(max_file_lines)),
            ("max-function-lines", number(max_function_lines)),
            ("max-parameters", number(max_parameters)),
            ("report-fields-required", self.output.report_fields_required.span_if_set()),
        ];
        let built_in =
            built_in.into_iter().filter_map(|(name, span)| Some((name.to_owned(), span?)));
        let own = self.parameters.keys().map(|name| (name.get_ref().to_string(), name.span()));
        built_in.chain(own).collect()
    }
}

/// Replaces the `null` at which the TOML parser stopped by an empty string of the same width, so that all other
/// text keeps its line and column.
fn null_parent_as_empty(source: &Source, problem: &Problem) -> Option<Source> {
    let start = problem.place.span.as_ref()?.start;
    let (before, after) = (source.text.get(..start)?, source.text.get(start..)?);
    let line = before.rsplit('\n').next()?;
    let key = line.trim().strip_suffix('=')?.trim();
    let rest = after.strip_prefix("null")?;
    let ends = rest.lines().next().unwrap_or_default().trim_start();
    let whole = key == "parent-agent" && (ends.is_empty() || ends.starts_with('#'));
    whole.then(|| Source::new(source.file.clone(), format!("{before}\"\"  {rest}")))
}
