//! The frontmatter of a template: its end and its keys. Strict, because an ignored key may be a missing limit.

use std::collections::BTreeMap;
use std::ops::Range;

use bailiwick_model::nearest::nearest;
use bailiwick_model::template::{AgentType, ContextLimits};
use bailiwick_model::{Place, Problem, RoleName, Source};
use serde::{Deserialize, Deserializer};
use serde_saphyr::{DeserializeError, Location, MergeKeyPolicy, Spanned};

const FENCE: &str = "---";
/// How YAML marks the end of a document.
const DOCUMENT_END: &str = "...";

/// A value that was written, with its place.
pub(super) type OptionalField<T> = Option<Spanned<T>>;

/// A list; `None` inside is a key without a value.
pub(super) type OptionalList<T> = OptionalField<Option<Vec<Spanned<T>>>>;

/// All keys of the frontmatter.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Frontmatter {
    #[serde(default, deserialize_with = "given")]
    pub(super) description: OptionalField<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) model: OptionalField<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) reasoning_effort: OptionalField<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) read_only: OptionalField<bool>,
    #[serde(default, deserialize_with = "given")]
    pub(super) agent_names: OptionalList<PersonaEntry>,
    #[serde(default, deserialize_with = "given")]
    pub(super) allow_list: OptionalList<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) deny_list: OptionalList<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) role: OptionalField<RoleName>,
    #[serde(default, deserialize_with = "given")]
    pub(super) cli: OptionalField<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) allowed_subagents: OptionalList<AgentType>,
    #[serde(default, deserialize_with = "given")]
    pub(super) max_depth: OptionalField<u32>,
    #[serde(default, deserialize_with = "given")]
    pub(super) estimated_tokens: OptionalField<u64>,
    #[serde(default, deserialize_with = "given")]
    pub(super) estimated_turns: OptionalField<u64>,
    #[serde(default, deserialize_with = "given")]
    pub(super) estimated_usd: OptionalField<f64>,
    #[serde(default, deserialize_with = "given")]
    pub(super) max_turns: OptionalField<u64>,
    #[serde(default, deserialize_with = "given")]
    pub(super) max_minutes: OptionalField<u64>,
    #[serde(default, deserialize_with = "given")]
    pub(super) context: OptionalField<Option<ContextLimits>>,
    #[serde(default)]
    pub(super) metadata: Option<BTreeMap<String, String>>,
}

/// An entry of `agent_names`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PersonaEntry {
    #[serde(default, deserialize_with = "given")]
    pub(super) name: OptionalField<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) description: OptionalField<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) model: OptionalField<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) reasoning_effort: OptionalField<String>,
}

/// A key without a value is not the same as no key: the type refuses the former.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    input: D,
) -> Result<OptionalField<T>, D::Error> {
    Spanned::deserialize(input).map(Some)
}

/// The maximum number of reported problems of one file.
const MAX_PROBLEMS: usize = 20;

/// Reads the frontmatter, and returns where the body begins. Reports all problems that can be found together.
pub(super) fn read(source: &Source) -> Result<(Frontmatter, usize), Vec<Problem>> {
    let split = split(source).and_then(|(head, body)| {
        repeated_delimiter(source, body).map_or(Ok(()), Err)?;
        Ok((head, body))
    });
    let (head, body) = split.map_err(|problem| vec![problem])?;
    let (mut head, mut problems) = (head.to_owned(), Vec::new());
    while problems.len() < MAX_PROBLEMS {
        let error = match keys(&head) {
            Ok(keys) if problems.is_empty() => return Ok((keys, body)),
            Ok(_) => break,
            Err(error) => error,
        };
        let problem = explain(source, &error);
        let start = problem.place.span.as_ref().map(|span| span.start);
        let entry = start.filter(|_| is_about_an_entry(&error)).and_then(|at| entry_at(&head, at));
        problems.push(problem);
        match entry {
            Some(entry) => head.replace_range(entry.clone(), &blank(&head, entry)),
            None => break,
        }
    }
    Err(problems)
}

/// Whether the keys around an error can be read without the entry in which it is.
fn is_about_an_entry(error: &DeserializeError) -> bool {
    use DeserializeError as Yaml;
    matches!(
        error,
        Yaml::Message { .. }
            | Yaml::Unexpected { .. }
            | Yaml::InvalidBooleanStrict { .. }
            | Yaml::NullIntoString { .. }
            | Yaml::InvalidScalar { .. }
            | Yaml::NonFiniteFloat { .. }
            | Yaml::DuplicateMappingKey { .. }
            | Yaml::SerdeInvalidType { .. }
            | Yaml::SerdeInvalidValue { .. }
            | Yaml::SerdeUnknownField { .. }
            | Yaml::SerdeUnknownVariant { .. }
    )
}

/// The lines of the key at the left edge that a place belongs to: from its own line to the next such key.
fn entry_at(head: &str, at: usize) -> Option<Range<usize>> {
    let begins_key = |line: &str| {
        let first = line.chars().next().unwrap_or('\n');
        !first.is_whitespace() && first != '-' && first != '#'
    };
    let (mut start, mut line_start) = (None, 0);
    for line in head.split_inclusive('\n') {
        if begins_key(line) {
            if line_start > at {
                return start.map(|start| start..line_start);
            }
            start = Some(line_start);
        }
        line_start += line.len();
    }
    start.map(|start| start..line_start)
}

/// The same lines with nothing in them, so that later lines keep their places.
fn blank(head: &str, entry: Range<usize>) -> String {
    let lines = head.get(entry).unwrap_or_default();
    lines
        .bytes()
        .map(|byte| if byte == b'\n' || byte == b'\r' { char::from(byte) } else { ' ' })
        .collect()
}

fn keys(head: &str) -> Result<Frontmatter, DeserializeError> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
        merge_keys: MergeKeyPolicy::Error,
        // Templates need no anchors, and without them there are no expansion attacks.
        budget: serde_saphyr::budget! {
            max_anchors: 0,
            max_aliases: 0,
            max_documents: 1,
            max_depth: 8,
        },
    };
    // With its first line, so that places in it are places in the file.
    serde_saphyr::from_str_with_options(head, options)
}

/// The text up to the closing line, and where the body begins.
fn split(source: &Source) -> Result<(&str, usize), Problem> {
    let text = &source.text;
    let refuse = |span: Range<usize>, message: &str, help: &str| {
        Err(Problem::error("bad-frontmatter", source.at(span), message).help(help))
    };
    if text.starts_with('\u{feff}') {
        return refuse(0..3, "the file begins with a byte order mark", "save it without one");
    }
    let bare = text.match_indices('\r').find(|(at, _)| !text.get(at + 1..).is_some_and(feeds));
    if let Some((at, _)) = bare {
        let message = "a carriage return without a line feed: readers differ on what is a line";
        return refuse(at..at + 1, message, "end every line in the same way");
    }
    // A YAML parser stops at a zero byte.
    let odd = text.char_indices().find(|(_, c)| c.is_control() && !"\t\r\n".contains(*c));
    if let Some((at, odd)) = odd {
        let message = format!("a control character: {}", odd.escape_unicode());
        return refuse(at..at + odd.len_utf8(), &message, "remove it");
    }
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if first.trim_end() != FENCE {
        let message = "the file has no frontmatter, so nothing limits the agent";
        return refuse(0..first.trim_end().len(), message, "begin with a line of `---`");
    }
    let mut at = first.len();
    for line in lines {
        let next = at + line.len();
        // Not one that is indented: that is a line of some text.
        if line.trim_end() == FENCE {
            return Ok((text.get(..at).unwrap_or_default(), next));
        }
        let behind = line.strip_prefix(DOCUMENT_END);
        if behind.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace)) {
            let message = "`...` ends the keys, so that those below would not be read";
            return refuse(at..at + DOCUMENT_END.len(), message, "remove the line");
        }
        at = next;
    }
    refuse(0..FENCE.len(), "the frontmatter is not closed", "end it with a line of `---`")
}

/// Keys whose loss would loosen a limit.
const LIMITS: [&str; 10] = [
    "agent_names",
    "allow_list",
    "allowed_subagents",
    "context",
    "deny_list",
    "max_depth",
    "max_minutes",
    "max_turns",
    "read_only",
    "role",
];

/// A body that begins as a frontmatter does: a line of dashes too many has cut limits off.
fn repeated_delimiter(source: &Source, body: usize) -> Option<Problem> {
    let mut at = body;
    let mut lines = source.text.get(body..)?.split_inclusive('\n');
    let first = lines.find(|line| {
        let blank = line.trim().is_empty();
        at += if blank { line.len() } else { 0 };
        !blank
    })?;
    let key = first.split_once(':').map(|(key, _)| key);
    if first.trim_end() != FENCE && !key.is_some_and(|key| LIMITS.contains(&key)) {
        return None;
    }
    let message = "the frontmatter ends above, and this would be read as text";
    let place = source.at(at..at + first.trim_end().len());
    Some(
        Problem::error("bad-frontmatter", place, message).help(
            "write all keys between two lines of `---`, and begin the prompt with other words",
        ),
    )
}

fn feeds(rest: &str) -> bool {
    rest.starts_with('\n')
}

/// The place of a value.
pub(super) fn place(source: &Source, location: Location) -> Place {
    let number = |value: u64| usize::try_from(value).ok();
    let span = location.span();
    let bytes = span.byte_offset().and_then(number).zip(span.byte_len().and_then(number));
    let range = match bytes {
        Some((start, length)) => Some(start..start + length),
        None => by_line(&source.text, number(location.line()), number(location.column())),
    };
    let fits = |range: &Range<usize>| source.text.get(range.clone()).is_some();
    range.filter(fits).map_or_else(|| source.whole(), |range| source.at(range))
}

/// One character, by its line and column, which count from one.
fn by_line(text: &str, line: Option<usize>, column: Option<usize>) -> Option<Range<usize>> {
    let (line, column) = (line?.checked_sub(1)?, column?.checked_sub(1)?);
    let before: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let mut rest = text.get(before..)?.char_indices().skip(column);
    let (at, end) = rest.next().map_or((text.len() - before, 0), |(at, c)| (at, c.len_utf8()));
    Some(before + at..before + at + end)
}

/// The problem as text for authors of templates.
fn explain(source: &Source, error: &DeserializeError) -> Problem {
    use DeserializeError as Yaml;
    let place = error.location().map_or_else(|| source.whole(), |at| place(source, at));
    let invalid =
        |what: &str| Problem::error("bad-yaml", place.clone(), format!("invalid YAML: {what}"));
    if let Yaml::SerdeUnknownField { field, expected, .. } = error {
        let list = expected.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        let help = match nearest(field, expected.iter().copied()) {
            Some(near) => format!("did you mean `{near}`? Known here: {list}"),
            None => format!("known here: {list}"),
        };
        let problem = invalid(&format!("unknown key `{field}`")).help(help);
        return Problem { code: "unknown-key", ..problem };
    }
    if let Yaml::DuplicateMappingKey { key, .. } = error {
        let key = key.as_deref().unwrap_or_default();
        return invalid(&format!("the key `{key}` is given twice")).help("keep one of them");
    }
    if let Yaml::InvalidBooleanStrict { .. } = error {
        return invalid("a truth value is expected").help("write true or false");
    }
    if let Yaml::NullIntoString { .. } = error {
        return invalid("nothing is written here").help("write a text, or leave the line out");
    }
    if let Yaml::Unexpected { expected, .. } = error {
        return match *expected {
            "sequence start" => invalid("a list is expected").help("write `- ` before each entry"),
            "mapping start" => invalid("keys are expected").help("write `key: value` lines"),
            other => invalid(&format!("expected {other}")),
        };
    }
    let plain = without_place(&error.render());
    let bound = matches!(error, Yaml::UnknownAnchor { .. } | Yaml::Budget { .. });
    let help = if bound {
        Some(
            "anchors, aliases and further documents are not read; a text that begins with `*` or \
             `&` needs quotes",
        )
    } else {
        plain.starts_with("mapping values").then_some("a text with `: ` in it needs quotes")
    };
    invalid(&plain).maybe_help(help.map(str::to_owned))
}

/// The problem has its place already.
fn without_place(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    line.rsplit_once(" at line ").map_or(line, |(what, _)| what).to_owned()
}
