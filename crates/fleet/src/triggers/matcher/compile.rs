//! Compiles the matcher of a rule to patterns of bounded number, size and cost.

use bailiwick_model::globs::Globs as PathGlobs;
use bailiwick_resources::{Globs as GlobLists, Matcher, PayloadMatch, Reason};
use regex::{Regex, RegexBuilder};
use serde_json_path::JsonPath;

use super::{CompiledMatcher, Patterns, Sides};
use crate::triggers::text::beginning;

/// The longest that a pattern or a query may be.
const MAX_PATTERN_LENGTH: usize = 1024;
/// How many of them one field may have.
const MAX_PATTERNS: usize = 64;
/// How often a query may look at everything below: each one multiplies the work.
const MAX_DESCENTS: usize = 2;

#[derive(Default)]
struct Compiler {
    faults: Vec<(Reason, String)>,
}

/// Compiles a matcher, or returns all of its faults.
pub fn compile(matcher: &Matcher) -> Result<CompiledMatcher, Vec<(Reason, String)>> {
    let mut compiler = Compiler::default();
    let compiled = CompiledMatcher {
        repository: compiler.globs("repository", &matcher.repository, Named::Repository),
        workflow: compiler.globs("workflow", &matcher.workflow, Named::Thing),
        job: compiler.globs("job", &matcher.job, Named::Thing),
        step: compiler.globs("step", &matcher.step, Named::Thing),
        check: compiler.globs("check", &matcher.check, Named::Thing),
        branches: compiler.sides("branches", &matcher.branches, Named::Branch),
        paths: compiler.paths(&matcher.paths),
        labels: compiler.globs("labels", &matcher.labels, Named::Thing),
        actors: compiler.sides("actors", &matcher.actors, Named::Thing),
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
            let message = format!("match.mention: `{name}` is no single word such as `@bailiwick`");
            compiler.faults.push((Reason::InvalidGlob, message));
        }
    }
    if compiler.faults.is_empty() { Ok(compiled) } else { Err(compiler.faults) }
}

/// What a glob is about: in branches and repositories `*` stops at a slash, and only branches know case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Repository,
    Branch,
    Thing,
}

impl Compiler {
    fn fault(&mut self, reason: Reason, field: &str, message: impl std::fmt::Display) {
        self.faults.push((reason, format!("match.{field}: {message}")));
    }

    fn few(&mut self, field: &str, count: usize, reason: Reason) {
        if count > MAX_PATTERNS {
            self.fault(reason, field, format!("there may be {MAX_PATTERNS} at most"));
        }
    }

    fn globs(&mut self, field: &str, written: &[String], named: Named) -> Patterns {
        self.few(field, written.len(), Reason::InvalidGlob);
        let mut patterns = Vec::new();
        for glob in written {
            match glob_expression(glob, named).and_then(|text| expression(&text)) {
                Ok(pattern) => patterns.push(pattern),
                Err(why) => self.fault(Reason::InvalidGlob, field, format!("`{glob}`: {why}")),
            }
        }
        Patterns(patterns)
    }

    fn sides(&mut self, field: &str, lists: &GlobLists, named: Named) -> Sides<Patterns> {
        Sides {
            include: self.globs(&format!("{field}.include"), &lists.include, named),
            exclude: self.globs(&format!("{field}.exclude"), &lists.exclude, named),
        }
    }

    fn paths(&mut self, lists: &GlobLists) -> Sides<PathGlobs> {
        for glob in lists.include.iter().chain(&lists.exclude) {
            if glob.trim().is_empty() || glob.len() > MAX_PATTERN_LENGTH {
                let message = format!("`{}` is empty or too long", beginning(glob, 64));
                self.fault(Reason::InvalidGlob, "paths", message);
            }
            if glob.starts_with('!') {
                let message = format!("`{glob}`: what is not meant stands under exclude");
                self.fault(Reason::InvalidGlob, "paths", message);
            }
        }
        self.few("paths", lists.include.len() + lists.exclude.len(), Reason::InvalidGlob);
        Sides {
            include: PathGlobs::parse(&lists.include),
            exclude: PathGlobs::parse(&lists.exclude),
        }
    }

    fn expressions(&mut self, field: &str, written: &[String], reason: Reason) -> Patterns {
        self.few(field, written.len(), reason);
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
        self.few("payload", written.len(), reason);
        let mut queries = Vec::new();
        for wanted in written {
            let text = &wanted.json_path;
            if text.len() > MAX_PATTERN_LENGTH || text.matches("..").count() > MAX_DESCENTS {
                let message = format!(
                    "`{}` is too long, or looks at everything below more than {MAX_DESCENTS} times",
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

/// A regular expression that cannot grow without bound.
fn expression(text: &str) -> Result<Regex, String> {
    if text.is_empty() || text.len() > 2 * MAX_PATTERN_LENGTH {
        return Err("it is empty or too long".to_owned());
    }
    RegexBuilder::new(text)
        .size_limit(1 << 20)
        .dfa_size_limit(1 << 20)
        .nest_limit(64)
        .build()
        .map_err(|error| error.to_string())
}

/// A glob as a regular expression over the whole name.
fn glob_expression(glob: &str, named: Named) -> Result<String, String> {
    if glob.trim().is_empty() || glob.len() > MAX_PATTERN_LENGTH {
        return Err("it is empty or too long".to_owned());
    }
    if glob.starts_with('!') {
        return Err("what is not meant stands under exclude".to_owned());
    }
    let (one, many, mut out) = match named {
        Named::Repository => ("[^/]", "[^/]*", "(?is)^".to_owned()),
        Named::Branch => ("[^/]", "[^/]*", "(?s)^".to_owned()),
        Named::Thing => (".", ".*", "(?is)^".to_owned()),
    };
    let mut rest = glob.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '*' if rest.next_if_eq(&'*').is_some() => out.push_str(".*"),
            '*' => out.push_str(many),
            '?' => out.push_str(one),
            '[' => out.push_str(&class(&mut rest)?),
            '{' | '}' => {
                return Err("write one glob for each alternative, without braces".to_owned());
            }
            '\\' => {
                let next = rest.next().ok_or("nothing follows its `\\`")?;
                out.push_str(&regex::escape(&next.to_string()));
            }
            _ => out.push_str(&regex::escape(&next.to_string())),
        }
    }
    out.push('$');
    Ok(out)
}

fn class(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<String, String> {
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
    Err("its `[` is not closed".to_owned())
}
