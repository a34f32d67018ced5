//! Compiles the matcher of a rule to patterns of bounded number, size and cost.

use bailiwick_model::globs::Globs as PathGlobs;
use bailiwick_resources::{Globs as GlobLists, Matcher, PayloadMatch, Reason};
use regex::{Regex, RegexBuilder};
use serde_json_path::JsonPath;
use thiserror::Error;

use super::{CompiledMatcher, Patterns, Sides};
use crate::triggers::text::beginning;

/// The maximum length of a pattern or a query.
const MAX_PATTERN_LENGTH: usize = 1024;
/// How many of them a field may have.
const MAX_PATTERNS: usize = 64;
/// How many `..` a query may have: each one multiplies the work.
const MAX_DESCENTS: usize = 2;

#[derive(Default)]
struct Compiler {
    faults: Vec<(Reason, String)>,
}

/// Compiles a matcher, or returns all of its faults.
pub fn compile(matcher: &Matcher) -> Result<CompiledMatcher, Vec<(Reason, String)>> {
    let mut compiler = Compiler::default();
    let compiled = CompiledMatcher {
        repository: compiler.globs("repository", &matcher.repository, Target::Repository),
        workflow: compiler.globs("workflow", &matcher.workflow, Target::Other),
        job: compiler.globs("job", &matcher.job, Target::Other),
        step: compiler.globs("step", &matcher.step, Target::Other),
        check: compiler.globs("check", &matcher.check, Target::Other),
        branches: compiler.sides("branches", &matcher.branches, Target::Branch),
        paths: compiler.paths(&matcher.paths),
        labels: compiler.globs("labels", &matcher.labels, Target::Other),
        actors: compiler.sides("actors", &matcher.actors, Target::Other),
        body: compiler.expressions("body", &matcher.body, Reason::InvalidGlob),
        payload: compiler.queries(&matcher.payload),
        failure_signature: compiler.expressions(
            "failureSignature",
            &matcher.failure_signature,
            Reason::UnsupportedFailureSignature,
        ),
        written: matcher.clone(),
    };
    for name in &matcher.mention {
        if name.trim().is_empty() || name.chars().any(char::is_whitespace) {
            let message =
                format!("match.mention: `{name}` is not a single word such as `@bailiwick`");
            compiler.faults.push((Reason::InvalidGlob, message));
        }
    }
    if compiler.faults.is_empty() { Ok(compiled) } else { Err(compiler.faults) }
}

/// What a glob matches: in branches and repositories `*` stops at a slash, and only branches are case-sensitive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Repository,
    Branch,
    Other,
}

impl Compiler {
    fn fault(&mut self, reason: Reason, field: &str, message: impl std::fmt::Display) {
        self.faults.push((reason, format!("match.{field}: {message}")));
    }

    fn limit_count(&mut self, field: &str, count: usize, reason: Reason) {
        if count > MAX_PATTERNS {
            self.fault(reason, field, format!("at most {MAX_PATTERNS} entries are supported"));
        }
    }

    fn globs(&mut self, field: &str, written: &[String], target: Target) -> Patterns {
        self.limit_count(field, written.len(), Reason::InvalidGlob);
        let mut patterns = Vec::new();
        for glob in written {
            match glob_expression(glob, target).and_then(|text| expression(&text)) {
                Ok(pattern) => patterns.push(pattern),
                Err(why) => self.fault(Reason::InvalidGlob, field, format!("`{glob}`: {why}")),
            }
        }
        Patterns(patterns)
    }

    fn sides(&mut self, field: &str, lists: &GlobLists, target: Target) -> Sides<Patterns> {
        Sides {
            include: self.globs(&format!("{field}.include"), &lists.include, target),
            exclude: self.globs(&format!("{field}.exclude"), &lists.exclude, target),
        }
    }

    fn paths(&mut self, lists: &GlobLists) -> Sides<PathGlobs> {
        for glob in lists.include.iter().chain(&lists.exclude) {
            if glob.trim().is_empty() || glob.len() > MAX_PATTERN_LENGTH {
                let message = format!("`{}` is empty or too long", beginning(glob, 64));
                self.fault(Reason::InvalidGlob, "paths", message);
            }
            if glob.starts_with('!') {
                self.fault(
                    Reason::InvalidGlob,
                    "paths",
                    format!("`{glob}`: {}", PatternError::Negated),
                );
            }
        }
        self.limit_count("paths", lists.include.len() + lists.exclude.len(), Reason::InvalidGlob);
        Sides {
            include: PathGlobs::parse(&lists.include),
            exclude: PathGlobs::parse(&lists.exclude),
        }
    }

    fn expressions(&mut self, field: &str, written: &[String], reason: Reason) -> Patterns {
        self.limit_count(field, written.len(), reason);
        let mut patterns = Vec::new();
        for text in written {
            match expression(text) {
                Ok(pattern) => patterns.push(pattern),
                Err(why) => self.fault(reason, field, format!("`{text}`: {why}")),
            }
        }
        Patterns(patterns)
    }

    fn queries(&mut self, written: &[PayloadMatch]) -> Vec<(PayloadMatch, JsonPath)> {
        let reason = Reason::InvalidJsonPath;
        self.limit_count("payload", written.len(), reason);
        let mut queries = Vec::new();
        for wanted in written {
            let text = &wanted.json_path;
            if text.len() > MAX_PATTERN_LENGTH || text.matches("..").count() > MAX_DESCENTS {
                let message = format!(
                    "`{}` is too long, or has more than {MAX_DESCENTS} `..`",
                    beginning(text, 64)
                );
                self.fault(reason, "payload", message);
                continue;
            }
            if wanted.one_of.as_ref().is_some_and(Vec::is_empty) {
                self.fault(reason, "payload", format!("`{text}`: oneOf is empty; nothing matches"));
            }
            match JsonPath::parse(text) {
                Ok(query) => queries.push((wanted.clone(), query)),
                Err(why) => self.fault(reason, "payload", format!("`{text}`: {why}")),
            }
        }
        queries
    }
}

/// Why a glob or a regular expression cannot be used.
#[derive(Debug, Error)]
enum PatternError {
    #[error("it is empty or too long")]
    Length,
    #[error("list it under exclude, without the `!`")]
    Negated,
    #[error("write one glob for each alternative, without braces")]
    Braces,
    #[error("nothing follows its `\\`")]
    TrailingBackslash,
    #[error("its `[` is not closed")]
    UnclosedBracket,
    #[error(transparent)]
    Expression(#[from] regex::Error),
}

/// Compiles a regular expression with limits on its size.
fn expression(text: &str) -> Result<Regex, PatternError> {
    if text.is_empty() || text.len() > 2 * MAX_PATTERN_LENGTH {
        return Err(PatternError::Length);
    }
    let mut builder = RegexBuilder::new(text);
    Ok(builder.size_limit(1 << 20).dfa_size_limit(1 << 20).nest_limit(64).build()?)
}

/// A glob as a regular expression over the whole name.
fn glob_expression(glob: &str, target: Target) -> Result<String, PatternError> {
    if glob.trim().is_empty() || glob.len() > MAX_PATTERN_LENGTH {
        return Err(PatternError::Length);
    }
    if glob.starts_with('!') {
        return Err(PatternError::Negated);
    }
    let (one, many, mut out) = match target {
        Target::Repository => ("[^/]", "[^/]*", "(?is)^".to_owned()),
        Target::Branch => ("[^/]", "[^/]*", "(?s)^".to_owned()),
        Target::Other => (".", ".*", "(?is)^".to_owned()),
    };
    let mut rest = glob.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '*' if rest.next_if_eq(&'*').is_some() => out.push_str(".*"),
            '*' => out.push_str(many),
            '?' => out.push_str(one),
            '[' => out.push_str(&class(&mut rest)?),
            '{' | '}' => return Err(PatternError::Braces),
            '\\' => {
                let next = rest.next().ok_or(PatternError::TrailingBackslash)?;
                out.push_str(&regex::escape(&next.to_string()));
            }
            _ => out.push_str(&regex::escape(&next.to_string())),
        }
    }
    out.push('$');
    Ok(out)
}

/// The rest of a class of characters, behind its `[`.
fn class(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<String, PatternError> {
    let mut out = "[".to_owned();
    if rest.next_if(|next| matches!(next, '!' | '^')).is_some() {
        out.push('^');
    }
    let mut any = false;
    for next in rest.by_ref() {
        match next {
            ']' if any => {
                out.push(']');
                return Ok(out);
            }
            '-' if any => out.push('-'),
            _ => {
                any = true;
                out.push_str(&regex::escape(&next.to_string()));
            }
        }
    }
    Err(PatternError::UnclosedBracket)
}
