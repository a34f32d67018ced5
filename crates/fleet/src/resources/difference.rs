//! What applying documents would change, in the format of `diff -u` and without values of secrets.

use std::collections::BTreeSet;

use bailiwick_resources::{AnyObject, Kind, Metadata, Moment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::apply::{DeclareError, Outcome, apply_by};
use super::audit::AuditActor;
use super::unified::unified;
use crate::bundle::{PLACEHOLDER, RedactionRules, Redactor};
use crate::ports::{FleetError, FleetStore, Selection};

/// A shorter word is hidden only where it is the whole value of a field.
const MIN_WORD_LENGTH: usize = 4;
/// A longer text of letters or digits is not a word.
const MAX_WORD_LENGTH: usize = 10;

/// How an object would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectDiff {
    /// The kind.
    pub kind: Kind,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The change for people, without values of secrets.
    pub diff: String,
}

/// Compares documents with what is stored; only objects that would change are listed.
pub async fn compare<S: FleetStore>(
    store: &S,
    documents: &[AnyObject],
    by: &AuditActor,
    now: Moment,
) -> Result<Vec<ObjectDiff>, DeclareError> {
    let planned = apply_by(store, documents, by, now, true).await?;
    let mask = Mask::new(secret_values(store).await?)?;
    let mut found = Vec::new();
    for one in planned.iter().filter(|one| one.outcome != Outcome::Unchanged) {
        let Metadata { namespace, name, .. } = &one.object.metadata;
        let kind = one.object.kind;
        let stored = store.get(kind, namespace, name).await?;
        let declared = |object| mask.declared(object);
        let before = stored.as_ref().map(declared).transpose()?.unwrap_or_default();
        let after = declared(&one.object)?;
        let place = format!("{}/{name}", kind.short());
        let names = (format!("live/{place}"), format!("file/{place}"));
        let shown = unified((&names.0, &names.1), &before, &after);
        // If only hidden values differ, the diff says only that.
        let hidden = || format!("{place} differs in what is not shown\n");
        let diff = shown.unwrap_or_else(hidden);
        found.push(ObjectDiff { kind, namespace: namespace.clone(), name: name.clone(), diff });
    }
    Ok(found)
}

fn unavailable(why: String) -> DeclareError {
    DeclareError::Store(FleetError::Unavailable(why))
}

/// The values of all secrets, which are hidden everywhere.
async fn secret_values<S: FleetStore>(store: &S) -> Result<Vec<String>, FleetError> {
    let mut values = Vec::new();
    let mut selection = Selection::of(Kind::Secret);
    loop {
        let page = store.list(&selection).await?;
        for secret in &page.objects {
            let Metadata { namespace, name, .. } = &secret.metadata;
            let keys = secret.spec.get("keys").and_then(Value::as_object);
            for key in keys.into_iter().flat_map(|keys| keys.keys()) {
                let value = store.secret_value(namespace, name, key).await?;
                values.extend(value.and_then(|value| String::from_utf8(value).ok()));
            }
        }
        if page.next.is_none() {
            return Ok(values);
        }
        selection.after = page.next;
    }
}

/// Hides the values of secrets. One that is a plain word or a few characters is hidden only where it is a
/// whole word or a whole value: other text may contain it by chance.
struct Mask {
    redactor: Redactor,
    /// All values, which are hidden where they are the whole value of a field.
    values: BTreeSet<String>,
    words: Vec<String>,
}

impl Mask {
    fn new(values: Vec<String>) -> Result<Self, DeclareError> {
        let (words, known): (Vec<_>, Vec<_>) =
            values.iter().cloned().partition(|value| is_plain_word(value));
        let words = words.into_iter().filter(|word| word.len() >= MIN_WORD_LENGTH).collect();
        let redactor = Redactor::new(&RedactionRules { known, ..RedactionRules::default() })
            .map_err(|error| unavailable(error.to_string()))?;
        Ok(Self { redactor, values: values.into_iter().collect(), words })
    }

    /// The declared part of an object, without what the store or the control plane writes.
    fn declared(&self, object: &AnyObject) -> Result<String, DeclareError> {
        let Metadata { name, namespace, mut labels, mut annotations, .. } = object.metadata.clone();
        let texts = labels.values_mut().chain(annotations.values_mut());
        texts.for_each(|text| self.hide_in(text));
        let metadata = Metadata { name, namespace, labels, annotations, ..Metadata::default() };
        let mut spec = object.canonical_spec()?;
        // Before it is written as YAML: there, the letter of an escape such as `\t` can be right before a word.
        self.hide_values(&mut spec);
        let plain = AnyObject { metadata, spec, status: Value::Null, ..object.clone() };
        let text = serde_saphyr::to_string(&plain)
            .map_err(|error| unavailable(format!("it cannot be written as YAML: {error}")))?;
        Ok(self.hidden(&text))
    }

    fn hide_values(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.hide_in(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_values(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.hide_values(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Hides what is secret in the value of a field.
    fn hide_in(&self, text: &mut String) {
        let is_secret = self.values.contains(text.as_str());
        *text = if is_secret { PLACEHOLDER.to_owned() } else { self.hidden(text) };
    }

    fn hidden(&self, text: &str) -> String {
        let hide = |text: String, word: &String| hide_word(&text, word);
        self.words.iter().fold(self.redactor.redact(text).text, hide)
    }
}

/// Whether any text may contain a value by chance: a short word or a short number.
fn is_plain_word(value: &str) -> bool {
    let is_short = value.len() < MAX_WORD_LENGTH;
    is_short
        && (value.chars().all(|c| c.is_ascii_alphabetic())
            || value.chars().all(|c| c.is_ascii_digit()))
}

/// Replaces a word where it is alone. What is hidden already stays, even if the word is `secret`.
fn hide_word(text: &str, word: &str) -> String {
    let parts: Vec<String> =
        text.split(PLACEHOLDER).map(|part| hide_word_in_part(part, word)).collect();
    parts.join(PLACEHOLDER)
}

fn hide_word_in_part(text: &str, word: &str) -> String {
    let continues = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let mut hidden = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, found) = rest.split_at_checked(at).unwrap_or((rest, ""));
        let after = found.strip_prefix(word).unwrap_or_default();
        hidden.push_str(before);
        let is_whole = !hidden.ends_with(continues) && !after.starts_with(continues);
        hidden.push_str(if is_whole { PLACEHOLDER } else { word });
        rest = after;
    }
    hidden + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Mask, PLACEHOLDER, hide_word, is_plain_word};

    #[test]
    fn words_are_hidden_before_values_are_escaped() {
        let mask = Mask::new(vec!["test".to_owned(), "secret".to_owned()]).unwrap();
        let mut spec = json!({
            "prompt": "a\ttest\u{7}\ntest.",
            "list": [{ "whole": "test" }, "a secret", "contest", 7],
        });
        mask.hide_values(&mut spec);
        let expected = json!({
            "prompt": "a\t[secret]\u{7}\n[secret].",
            "list": [{ "whole": "[secret]" }, "a [secret]", "contest", 7],
        });
        assert_eq!(spec, expected);
        let text = serde_saphyr::to_string(&spec).unwrap();
        assert_eq!(mask.hidden(&text), text, "nothing is hidden twice");
    }

    #[test]
    fn only_whole_words_are_hidden() {
        for (text, hidden) in [
            ("run: test", "run: [secret]"),
            ("postgres://ada:test@db/x", "postgres://ada:[secret]@db/x"),
            ("test test\ntest", "[secret] [secret]\n[secret]"),
            ("tests contest test-suite unit_test", "tests contest test-suite unit_test"),
        ] {
            assert_eq!(hide_word(text, "test"), hidden);
        }
        assert_eq!(PLACEHOLDER, "[secret]");
    }

    #[test]
    fn only_short_words_and_numbers_are_plain() {
        for plain in ["test", "Test", "8080", "a"] {
            assert!(is_plain_word(plain), "{plain}");
        }
        for secret in ["abc123", "correcthorse", "0123456789", "p-w"] {
            assert!(!is_plain_word(secret), "{secret}");
        }
    }
}
