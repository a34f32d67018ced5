//! The consent of a person to a call of a delegation tool: the text that the person sees, and the call it is for.

use serde_json::{Map, Value};

/// How long a consent waits for its call.
const CONSENT_LIFETIME_MS: u64 = 60_000;
/// The maximum length of the text for a person, in characters.
const MAX_CHARS: usize = 4000;
/// The maximum length of one field in that text, and of all fields together, in characters.
const MAX_FIELD_CHARS: usize = 2000;
const MAX_PREVIEW_CHARS: usize = 8000;
/// The mark behind a text that was cut.
const CUT_MARK: &str = " … [cut]";

/// Approvals of people that were not used yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Consents(Vec<StoredConsent>);

#[derive(Debug, Clone, PartialEq)]
struct StoredConsent {
    tool: String,
    input: Value,
    at: u64,
}

impl Consents {
    /// Adds a consent to this call, given now.
    pub fn with(mut self, tool: &str, input: &Value, now: u64) -> Self {
        self.0.push(StoredConsent { tool: tool.to_owned(), input: input.clone(), at: now });
        self
    }

    /// Uses up the consent for exactly this call; returns the remaining ones, and whether there was one. A consent
    /// is for one call.
    pub fn used(mut self, tool: &str, arguments: &Value, now: u64) -> (Self, bool) {
        self.0.retain(|yes| now.saturating_sub(yes.at) < CONSENT_LIFETIME_MS);
        let place =
            self.0.iter().position(|yes| yes.tool == tool && is_same(&yes.input, arguments));
        if let Some(place) = place {
            self.0.remove(place);
        }
        (self, place.is_some())
    }
}

/// Whether two inputs are equal, where null counts as absent.
fn is_same(one: &Value, other: &Value) -> bool {
    let present =
        |fields: &Map<String, Value>| fields.values().filter(|value| !value.is_null()).count();
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let each = |(key, value): (&String, &Value)| {
                value.is_null() || other.get(key).is_some_and(|other| is_same(value, other))
            };
            present(one) == present(other) && one.iter().all(each)
        }
        (Value::Object(fields), Value::Null) | (Value::Null, Value::Object(fields)) => {
            present(fields) == 0
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        (one, other) => one == other,
    }
}

/// The text of a call as shown to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallText {
    /// The text, with a mark where it was cut.
    pub text: String,
    /// Whether the call has more text than this.
    pub is_cut: bool,
}

impl CallText {
    /// The agent and its task first, then the rest. `clean` removes secrets.
    pub fn of(input: &Value, clean: impl FnOnce(&str) -> String) -> Self {
        let text = clean(&words(input));
        match text.char_indices().nth(MAX_CHARS) {
            None => Self { text, is_cut: false },
            Some((end, _)) => {
                let text = format!("{}{CUT_MARK}", text.get(..end).unwrap_or_default());
                Self { text, is_cut: true }
            }
        }
    }
}

/// The input of a call for a person: all fields, each cut separately, short ones first, so that a long field hides
/// none of the others. `clean` removes secrets before anything is cut.
pub fn input_preview(input: &Value, clean: impl Fn(&str) -> String) -> String {
    let mut parts: Vec<String> = match input {
        Value::Null => Vec::new(),
        Value::Object(fields) => {
            let present = fields.iter().filter(|(_, value)| !value.is_null());
            present.map(|(key, value)| clean(&format!("{}={value}", name(key)))).collect()
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            vec![clean(&input.to_string())]
        }
    };
    parts.sort_by_key(String::len);
    let mut text = String::new();
    let mut length = 0;
    let count = parts.len();
    for (number, part) in parts.iter().enumerate() {
        let part = cut(part);
        length += part.chars().count();
        if length > MAX_PREVIEW_CHARS {
            text.push_str(&format!(" … [{} fields more]", count - number));
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&part);
    }
    text
}

/// The name of a field, so that it cannot pass for more than a name.
fn name(key: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    match key.chars().all(plain) {
        true => key.to_owned(),
        false => Value::from(key).to_string(),
    }
}

fn cut(part: &str) -> String {
    match part.char_indices().nth(MAX_FIELD_CHARS) {
        None => part.to_owned(),
        Some((end, _)) => {
            let (beginning, rest) = part.split_at_checked(end).unwrap_or((part, ""));
            format!("{beginning} … [{} characters more]", rest.chars().count())
        }
    }
}

/// Whether this is the text for a call with this input.
pub fn matches_call_text(input: &Value, text: &str) -> bool {
    let words = words(input);
    match text.strip_suffix(CUT_MARK) {
        None => words == text,
        Some(beginning) => words.starts_with(beginning),
    }
}

fn words(input: &Value) -> String {
    const WHO: [&str; 4] = ["agent_type", "agent_name", "id", "ids"];
    const WHAT: [&str; 2] = ["message", "items"];
    let text = |key: &&str| match input.get(*key) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(other) => Some(other.to_string()),
    };
    let who: Vec<String> = WHO.iter().filter_map(text).collect();
    let what: Vec<String> = WHAT.iter().filter_map(text).collect();
    let fields = input.as_object().into_iter().flatten();
    let rest = fields.filter(|(key, value)| {
        !value.is_null() && !WHO.contains(&key.as_str()) && !WHAT.contains(&key.as_str())
    });
    let rest: Vec<String> = rest.map(|(key, value)| format!("{key}={value}")).collect();
    let parts = [who.join(" "), what.join("\n"), rest.join(" ")];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SPAWN: &str = "mcp__bailiwick__spawn_agent";

    #[test]
    fn consent_is_valid_for_one_identical_call_only() {
        let arguments_approved =
            json!({"agent_type": "helper", "message": "a", "files": ["x"], "model": null});
        let consents = Consents::default().with(SPAWN, &arguments_approved, 100);
        for (tool, arguments, now, accepted) in [
            (SPAWN, arguments_approved.clone(), 100, true),
            (SPAWN, json!({"message": "a", "files": ["x"], "agent_type": "helper"}), 100, true),
            (SPAWN, json!({"message": "b", "files": ["x"], "agent_type": "helper"}), 100, false),
            (SPAWN, json!({"message": "a", "files": ["x"]}), 100, false),
            (SPAWN, json!({"message": "a", "files": [], "agent_type": "helper"}), 100, false),
            (
                SPAWN,
                json!({"message": "a", "files": ["x"], "agent_type": "helper", "model": "m"}),
                100,
                false,
            ),
            ("mcp__bailiwick__send_input", arguments_approved.clone(), 100, false),
            (SPAWN, arguments_approved.clone(), 100 + CONSENT_LIFETIME_MS, false),
        ] {
            let (remaining, found) = consents.clone().used(tool, &arguments, now);
            assert_eq!(found, accepted, "{tool} {arguments} {now}");
            // A consent is used up by one call.
            assert!(!found || !remaining.used(tool, &arguments, now).1, "{tool} {arguments}");
        }
        // Two consents are for two calls.
        let twice = consents.with(SPAWN, &arguments_approved, 100);
        let (remaining, first) = twice.used(SPAWN, &arguments_approved, 101);
        let (remaining, second) = remaining.used(SPAWN, &arguments_approved, 101);
        assert_eq!(
            (first, second, remaining.used(SPAWN, &arguments_approved, 101).1),
            (true, true, false)
        );
    }

    #[test]
    fn null_and_empty_arguments_are_the_same() {
        let tool = "mcp__bailiwick__list_agents";
        for input in [json!(null), json!({}), json!({"expanded": null})] {
            let consents = Consents::default().with(tool, &input, 0);
            assert!(consents.clone().used(tool, &json!({}), 0).1, "{input}");
            assert!(consents.clone().used(tool, &json!(null), 0).1, "{input}");
            assert!(!consents.used(tool, &json!({"expanded": true}), 0).1, "{input}");
        }
    }

    #[test]
    fn call_text_shows_agent_type_message_and_fields_without_secrets() {
        let hide = |text: &str| text.replace("hunter2", "***");
        let input = json!({"message": "Say hunter2.", "agent_type": "helper", "model": null,
            "files": ["src/**"]});
        assert_eq!(CallText::of(&input, hide).text, "helper: Say ***.: files=[\"src/**\"]");
        assert_eq!(CallText::of(&json!({"id": "a", "message": "go"}), hide).text, "a: go");
        let nothing = CallText::of(&json!({}), hide);
        assert_eq!((nothing.text.as_str(), nothing.is_cut), ("", false));
        // Secrets are removed before the text is cut.
        let long = json!({"message": format!("{}hunter2", "x".repeat(MAX_CHARS - 2))});
        let CallText { text, is_cut } = CallText::of(&long, hide);
        assert!(is_cut && text.ends_with(CUT_MARK) && !text.contains("hunt"), "{text}");
        let cleaned = json!({"message": format!("{}***", "x".repeat(MAX_CHARS - 2))});
        assert!(matches_call_text(&cleaned, &text));
        assert!(matches_call_text(&json!({"id": "a", "message": "go"}), "a: go"));
        assert!(!matches_call_text(&json!({"id": "a", "message": "stop"}), "a: go"));
    }

    #[test]
    fn long_field_does_not_hide_other_fields() {
        let hide = |text: &str| text.replace("hunter2", "***");
        let long = format!("{}hunter2", "x".repeat(MAX_FIELD_CHARS - 12));
        let input =
            json!({"content": long, "url": "https://evil.example", "none": null, "a=b c": 1});
        let text = input_preview(&input, hide);
        assert!(
            text.starts_with("\"a=b c\"=1 url=\"https://evil.example\" content=\"xx"),
            "{text}"
        );
        // Secrets are removed before the text is cut.
        assert!(text.ends_with("characters more]") || text.ends_with("***\""), "{text}");
        assert!(!text.contains("hunt"), "{text}");
        let whole = json!({"content": "x".repeat(3 * MAX_FIELD_CHARS)});
        assert!(input_preview(&whole, hide).ends_with("… [4010 characters more]"));
        let many: Map<String, Value> =
            (0..20).map(|n| (format!("f{n}"), json!("x".repeat(MAX_FIELD_CHARS)))).collect();
        assert!(input_preview(&Value::Object(many), hide).ends_with(" … [17 fields more]"));
        assert_eq!(input_preview(&json!("patch"), hide), "\"patch\"");
        assert!(
            input_preview(&json!(null), hide).is_empty()
                && input_preview(&json!({}), hide).is_empty()
        );
    }
}
