//! Removes secrets that are known by value from everything that is stored or shown.

use std::sync::{Arc, PoisonError, RwLock};

use bailiwick_model::secret::{PLACEHOLDER, is_telling, redacted, telling_lines};
use serde_json::Value;

/// The minimum length of a secret. Shorter ones cannot be distinguished from ordinary words, and are refused.
pub const SHORTEST: usize = 8;

/// The secrets of a run. Clones share them: a secret that is added to one is redacted by all.
#[derive(Clone, Default)]
pub struct Redaction {
    values: Arc<RwLock<Vec<String>>>,
}

impl std::fmt::Debug for Redaction {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Redaction({} secrets)", self.known().len())
    }
}

impl PartialEq for Redaction {
    fn eq(&self, other: &Self) -> bool {
        self.known() == other.known()
    }
}

impl Redaction {
    /// Secrets that must never be seen; those that are too short are not among them.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let redaction = Self::default();
        redaction.add(values);
        redaction
    }

    /// More of them, which are had only later.
    pub fn add(&self, values: impl IntoIterator<Item = String>) {
        let mut values: Vec<String> = values.into_iter().flat_map(with_lines).collect();
        values.retain(|value| value.len() >= SHORTEST);
        // Also in JSON escapes; a secret that contains another one is replaced first.
        let escaped: Vec<String> = values.iter().map(|value| escaped(value)).collect();
        let mut all = self.values.write().unwrap_or_else(PoisonError::into_inner);
        all.extend(values.into_iter().chain(escaped));
        all.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        all.dedup();
    }

    fn known(&self) -> Vec<String> {
        self.values.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The text without them, and without what looks like a secret.
    pub fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in self.values.read().unwrap_or_else(PoisonError::into_inner).iter() {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), PLACEHOLDER);
            }
        }
        redacted(&text)
    }

    /// The value with every text and every name in it cleaned.
    pub fn clean_json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.clean(&text)),
            Value::Array(all) => all.into_iter().map(|one| self.clean_json(one)).collect(),
            Value::Object(fields) => {
                let clean =
                    |(name, value): (String, Value)| (self.clean(&name), self.clean_json(value));
                fields.into_iter().map(clean).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }
}

/// A value and, for a file, its characteristic lines and texts: CLIs show files line by line, with numbers in front,
/// and read the texts of a JSON file one by one.
fn with_lines(value: String) -> Vec<String> {
    let mut all: Vec<String> = telling_lines(&value).map(str::to_owned).collect();
    if let Ok(file @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(&value) {
        texts(&file, &mut all);
    }
    all.push(value.trim().to_owned());
    all.push(value);
    all
}

/// The texts of a JSON value that nothing else would contain.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.extend(is_telling(text).then(|| text.clone())),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => fields.values().for_each(|item| texts(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The text as it is escaped in a JSON string.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_are_removed_anywhere_in_a_text() {
        let redaction = Redaction::new(["hunter2hunter2".to_owned(), "a\"b\ncdefgh".to_owned()]);
        assert_eq!(redaction.clean("xhunter2hunter2y"), "x[secret]y");
        assert_eq!(redaction.clean(r#"{"v":"a\"b\ncdefgh"}"#), r#"{"v":"[secret]"}"#);
        assert_eq!(redaction.clean("plain"), "plain");
        assert!(!format!("{redaction:?}").contains("hunter2"));
    }

    #[test]
    fn added_value_is_hidden_by_all_clones() {
        let redaction = Redaction::new(["hunter2hunter2".to_owned()]);
        let shared = redaction.clone();
        assert_eq!(shared.clean("renewed-key"), "renewed-key");
        redaction.add(["renewed-key".to_owned(), "short".to_owned()]);
        let shown = "hunter2hunter2 renewed-key short";
        assert_eq!(shared.clean(shown), "[secret] [secret] short");
    }

    #[test]
    fn each_line_of_a_secret_file_is_hidden() {
        let file = "kind: Config of a form\nfirst-line-of-the-key-in-it\n  second-line-of-the-key-in-it\nx\n";
        let redaction = Redaction::new([file.to_owned()]);
        let shown = "1\tfirst-line-of-the-key-in-it\n2\t  second-line-of-the-key-in-it\n3\tx";
        assert_eq!(redaction.clean(shown), "1\t[secret]\n2\t  [secret]\n3\tx");
        // Common parts of such files are not secret.
        assert_eq!(redaction.clean("kind: Config of a form"), "kind: Config of a form");
        let json = "{\n  \"type\": \"account\",\n  \"key\": \"abcdefghijklmnopqrstuvwxyz\"\n}";
        let shown =
            Redaction::new([json.to_owned()]).clean("key=abcdefghijklmnopqrstuvwxyz account");
        assert_eq!(shown, "key=[secret] account");
        // A value that ends with a newline is hidden without it.
        let redaction = Redaction::new(["hunter2hunter2\n".to_owned()]);
        assert_eq!(redaction.clean("a hunter2hunter2 b"), "a [secret] b");
    }
}
