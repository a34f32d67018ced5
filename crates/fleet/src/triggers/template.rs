//! Templates of rules: minijinja, restricted so that nothing can grow without bound, read a file, or put untrusted
//! text among instructions.
//!
//! Supported: printing a value, `if`, `for`, comparisons, and the filters and tests below.

use bailiwick_resources::Reason;
use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};
use serde_json::Value as Json;

use super::event::SourceEvent;
use super::text::{MAX_BLOCK_BYTES, clipped, key_part};

/// The maximum size of a template.
pub const MAX_TEMPLATE_BYTES: usize = 32 * 1024;
/// The maximum size of a key.
pub const MAX_KEY_BYTES: usize = 512;
/// How many steps rendering may take.
const FUEL: u64 = 20_000;
/// How many values of a payload a template sees.
const MAX_VALUES: usize = 200_000;
/// How deep loops may be nested.
const MAX_LOOP_DEPTH: usize = 2;

/// Why a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    /// The code.
    pub reason: Reason,
    /// The problem, and what to do.
    pub message: String,
}

impl TemplateError {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// The inputs of a template.
#[derive(Debug, Clone, Copy)]
pub struct TemplateContext<'a> {
    /// The rule's name.
    pub rule: &'a str,
    /// The kind of task of the rule.
    pub task_kind: &'a str,
    pub event: &'a SourceEvent,
}

const FILTERS: [&str; 11] = [
    "default", "d", "lower", "upper", "trim", "length", "count", "first", "last", "lines", "string",
];
const TAGS: [&str; 6] = ["if", "elif", "else", "endif", "for", "endfor"];

/// The text between the delimiters of a template, with strings blanked out.
struct Expression {
    is_tag: bool,
    code: String,
}

/// Finds the expressions and tags of a template.
fn expressions(source: &str) -> Result<Vec<Expression>, TemplateError> {
    let open = |what: &str| {
        TemplateError::new(Reason::InvalidTemplate, format!("a `{what}` is not closed"))
    };
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(start) = rest.find('{') {
        rest = rest.get(start..).unwrap_or_default();
        let close = if rest.starts_with("{#") {
            let end = rest.find("#}").ok_or_else(|| open("{#"))?;
            rest = rest.get(end + 2..).unwrap_or_default();
            continue;
        } else if rest.starts_with("{{") {
            "}}"
        } else if rest.starts_with("{%") {
            "%}"
        } else {
            rest = rest.get(1..).unwrap_or_default();
            continue;
        };
        let is_tag = close == "%}";
        let inside = rest.get(2..).unwrap_or_default();
        let (code, length) =
            expression(inside, close).ok_or_else(|| open(if is_tag { "{%" } else { "{{" }))?;
        found.push(Expression { is_tag, code });
        rest = inside.get(length..).unwrap_or_default();
    }
    Ok(found)
}

/// Reads up to the closing delimiter; strings do not close it.
fn expression(inside: &str, close: &str) -> Option<(String, usize)> {
    let mut code = String::new();
    let mut quote = None;
    let mut escaped = false;
    for (place, next) in inside.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if next == '\\' => escaped = true,
            Some(mark) if next == mark => quote = None,
            Some(_) => {}
            None if inside.get(place..).is_some_and(|rest| rest.starts_with(close)) => {
                return Some((code, place + close.len()));
            }
            None if matches!(next, '"' | '\'') => {
                quote = Some(next);
                code.push(' ');
            }
            None => code.push(next),
        }
    }
    None
}

fn words_after(code: &str, mark: char) -> impl Iterator<Item = &str> {
    code.split(mark).skip(1).map(|rest| {
        let rest = rest.trim_start();
        let end = rest.find(|next: char| !next.is_alphanumeric() && next != '_');
        end.and_then(|end| rest.get(..end)).unwrap_or(rest)
    })
}

/// Looks through a template without rendering it.
pub fn inspect(source: &str) -> Result<(), TemplateError> {
    let invalid = |message: String| TemplateError::new(Reason::InvalidTemplate, message);
    let unsafe_raw = |message: String| TemplateError::new(Reason::UnsafeRawPayload, message);
    if source.len() > MAX_TEMPLATE_BYTES {
        return Err(invalid(format!("it may have {MAX_TEMPLATE_BYTES} bytes at most")));
    }
    let mut depth = 0_usize;
    for Expression { is_tag, code } in expressions(source)? {
        let code = code.as_str();
        for filter in words_after(code, '|') {
            if matches!(filter, "safe" | "escape" | "e") {
                return Err(unsafe_raw(format!(
                    "`|{filter}` would put a stranger's text among the instructions; leave it out: \
                     texts arrive as fenced data"
                )));
            }
            if !FILTERS.contains(&filter) {
                let known = FILTERS.join(", ");
                return Err(invalid(format!("there is no filter `{filter}`; there are {known}")));
            }
        }
        let code = code.trim_matches(['-', '+']);
        if let Some(sign) = code.chars().find(|next| matches!(next, '~' | '*' | '+')) {
            return Err(invalid(format!(
                "`{sign}` does not work here: write values one after the other"
            )));
        }
        if !is_tag {
            continue;
        }
        let code = code.trim_start();
        let end = code.find(|next: char| !next.is_alphanumeric() && next != '_');
        let tag = end.and_then(|end| code.get(..end)).unwrap_or(code);
        match tag {
            "autoescape" => {
                return Err(unsafe_raw("`autoescape` has no say here; leave it out".to_owned()));
            }
            "for" => depth += 1,
            "endfor" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if !TAGS.contains(&tag) {
            return Err(invalid(format!("there is no `{tag}`; there are {}", TAGS.join(", "))));
        }
        if depth > MAX_LOOP_DEPTH {
            return Err(invalid(format!("loops may be nested {MAX_LOOP_DEPTH} deep at most")));
        }
    }
    Ok(())
}

/// The names that a template uses, such as `event.branch`.
pub fn names_used(source: &str) -> Vec<String> {
    let environment = environment();
    let Ok(template) = environment.template_from_str(source) else { return Vec::new() };
    let mut names: Vec<String> = template.undeclared_variables(true).into_iter().collect();
    names.sort();
    names
}

fn text_of(value: &Value) -> Result<&str, Error> {
    value.as_str().ok_or_else(|| {
        let message = format!("a text is needed, this is a {}", value.kind());
        Error::new(ErrorKind::InvalidOperation, message)
    })
}

fn or_else(value: Value, other: Option<Value>) -> Value {
    if value.is_undefined() { other.unwrap_or_else(|| Value::from("")) } else { value }
}

fn size(value: &Value) -> Result<usize, Error> {
    match value.as_str() {
        Some(text) => Ok(text.chars().count()),
        None => {
            value.len().ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "this has no length"))
        }
    }
}

fn end(value: &Value, last: bool) -> Result<Value, Error> {
    let mut items = value.try_iter()?;
    let found = if last { items.last() } else { items.next() };
    Ok(found.unwrap_or(Value::UNDEFINED))
}

/// An environment with what is named above, and nothing else: no loader, no globals.
pub(super) fn environment<'source>() -> Environment<'source> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(64);
    environment.add_filter("default", or_else);
    environment.add_filter("d", or_else);
    environment.add_filter("lower", |value: &Value| text_of(value).map(str::to_lowercase));
    environment.add_filter("upper", |value: &Value| text_of(value).map(str::to_uppercase));
    environment
        .add_filter("trim", |value: &Value| text_of(value).map(|text| text.trim().to_owned()));
    environment.add_filter("length", |value: &Value| size(value));
    environment.add_filter("count", |value: &Value| size(value));
    environment.add_filter("first", |value: &Value| end(value, false));
    environment.add_filter("last", |value: &Value| end(value, true));
    environment.add_filter("lines", |value: &Value| {
        text_of(value).map(|text| text.lines().map(Value::from).collect::<Vec<_>>())
    });
    environment.add_filter("string", |value: &Value| {
        scalar(value).ok_or_else(|| {
            Error::new(ErrorKind::InvalidOperation, "only a single value becomes a text")
        })
    });
    environment.add_test("defined", |value: &Value| !value.is_undefined());
    environment.add_test("undefined", |value: &Value| value.is_undefined());
    environment.add_test("none", |value: &Value| value.is_none());
    environment
}

/// A value as text, if it is a single one.
pub(super) fn scalar(value: &Value) -> Option<String> {
    if value.kind() == minijinja::value::ValueKind::Bool {
        return Some(value.is_true().to_string());
    }
    if value.is_none() {
        return Some("none".to_owned());
    }
    (value.as_str().is_some() || value.is_number()).then(|| value.to_string())
}

/// The values for a template. Texts are cut to the size that a prompt can show.
pub(super) fn context(about: &TemplateContext<'_>) -> Value {
    let mut left = MAX_VALUES;
    let event = event_values(about.event, &mut left);
    let payload = value(&about.event.payload, &mut left);
    let rule: Vec<(&str, Value)> =
        vec![("name", Value::from(about.rule)), ("taskKind", Value::from(about.task_kind))];
    Value::from_pairs([("event", event), ("payload", payload), ("rule", Value::from_pairs(rule))])
}

fn event_values(event: &SourceEvent, left: &mut usize) -> Value {
    let mut event = event.clone();
    event.payload = std::sync::Arc::new(Json::Null);
    let mut fields = serde_json::to_value(&event).unwrap_or(Json::Null);
    if let Json::Object(fields) = &mut fields {
        // A missing value is undefined, not null: a template that needs it fails.
        fields.retain(|_, field| !field.is_null());
        if let Some(reference) = fields.remove("reference") {
            fields.insert("ref".to_owned(), reference);
        }
    }
    value(&fields, left)
}

fn value(json: &Json, left: &mut usize) -> Value {
    if *left == 0 {
        return Value::UNDEFINED;
    }
    *left -= 1;
    match json {
        Json::Null => Value::from(()),
        Json::Bool(yes) => Value::from(*yes),
        Json::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(whole), _, _) => Value::from(whole),
            (None, Some(whole), _) => Value::from(whole),
            (None, None, Some(part)) => Value::from(part),
            (None, None, None) => Value::UNDEFINED,
        },
        Json::String(text) => Value::from(clipped(text, MAX_BLOCK_BYTES)),
        Json::Array(items) => {
            let items: Vec<Value> =
                items.iter().take(*left).map(|item| value(item, left)).collect();
            Value::from(items)
        }
        Json::Object(fields) => Value::from_pairs(
            fields.iter().map(|(key, field)| (clipped(key, 256), value(field, left))),
        ),
    }
}

/// The error in our words.
pub(super) fn explain(error: &Error) -> TemplateError {
    let line = error.line().map(|line| format!(" (line {line})")).unwrap_or_default();
    let detail = error.detail().unwrap_or("it does not work");
    let kind = error.kind();
    let (reason, message) = if kind == ErrorKind::UndefinedError {
        let message =
            format!("the event has no such field{line}: {detail}; ask for it with `is defined`");
        (Reason::MissingPayloadField, message)
    } else if kind == ErrorKind::OutOfFuel {
        (Reason::InvalidTemplate, format!("it takes more than {FUEL} steps"))
    } else if kind == ErrorKind::WriteFailure {
        (Reason::AttachmentTooLarge, format!("it becomes too large{line}: {detail}"))
    } else {
        (Reason::InvalidTemplate, format!("{kind}{line}: {detail}"))
    };
    TemplateError::new(reason, message)
}

/// The same, naming the missing fields that a template uses.
pub(super) fn explain_missing(error: &Error, source: &str, context: &Value) -> TemplateError {
    let mut explained = explain(error);
    if explained.reason == Reason::MissingPayloadField {
        let is_there = |name: &String| {
            let last = name.split('.').try_fold(context.clone(), |value, part| {
                value.get_attr(part).ok().filter(|value| !value.is_undefined())
            });
            last.is_some()
        };
        let missing: Vec<String> =
            names_used(source).into_iter().filter(|name| !is_there(name)).collect();
        if !missing.is_empty() {
            explained.message = format!(
                "the event has no {}; ask for what may be missing with `is defined`",
                missing.join(", ")
            );
        }
    }
    explained
}

/// Renders a key: every value is escaped and bounded, and so is the whole.
pub fn render_key(source: &str, about: &TemplateContext<'_>) -> Result<String, TemplateError> {
    inspect(source)?;
    let mut environment = environment();
    environment.set_formatter(|out, _, value| {
        let text = scalar(value).ok_or_else(|| {
            Error::new(ErrorKind::NonPrimitive, "a key is made of single values only")
        })?;
        if value.is_undefined() {
            return Err(Error::new(ErrorKind::UndefinedError, "undefined value"));
        }
        out.write_str(&key_part(&text)).map_err(Error::from)
    });
    let template = environment.template_from_str(source).map_err(|error| explain(&error))?;
    let context = context(about);
    let key = template.render(context.clone()).map_err(|error| {
        let mut explained = explain_missing(&error, source, &context);
        if error.kind() == ErrorKind::NonPrimitive {
            explained.reason = Reason::UnboundedDedupeKey;
        }
        explained
    })?;
    let key = key.trim().to_owned();
    if key.is_empty() {
        return Err(TemplateError::new(Reason::UnboundedDedupeKey, "the key is empty"));
    }
    if key.len() > MAX_KEY_BYTES {
        let message = format!("the key has {} bytes; it may have {MAX_KEY_BYTES}", key.len());
        return Err(TemplateError::new(Reason::UnboundedDedupeKey, message));
    }
    Ok(key)
}
