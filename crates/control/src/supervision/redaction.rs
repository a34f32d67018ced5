//! Secrets that are known by their value: whatever is kept or shown goes through here first.

use bailiwick_model::secret::{PLACEHOLDER, redacted};

/// A secret that is shorter cannot be told from ordinary words, and is refused.
pub const SHORTEST: usize = 8;

/// The secrets of a run.
#[derive(Clone, Default)]
pub struct Redaction {
    values: Vec<String>,
}

impl std::fmt::Debug for Redaction {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Redaction({} secrets)", self.values.len())
    }
}

impl Redaction {
    /// Secrets that must never be seen; those that are too short are not among them.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut values: Vec<String> =
            values.into_iter().filter(|value| value.len() >= SHORTEST).collect();
        // As JSON writes them, too; a secret that holds another goes first.
        let escaped: Vec<String> = values.iter().map(|value| escaped(value)).collect();
        values.extend(escaped);
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self { values }
    }

    /// The text without them, and without what looks like a secret.
    pub fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in &self.values {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), PLACEHOLDER);
            }
        }
        redacted(&text)
    }
}

/// As it stands between the quotes of a JSON text.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_go_wherever_they_stand() {
        let redaction = Redaction::new(["hunter2hunter2".to_owned(), "a\"b\ncdefgh".to_owned()]);
        assert_eq!(redaction.clean("xhunter2hunter2y"), "x[secret]y");
        assert_eq!(redaction.clean(r#"{"v":"a\"b\ncdefgh"}"#), r#"{"v":"[secret]"}"#);
        assert_eq!(redaction.clean("plain"), "plain");
        assert!(!format!("{redaction:?}").contains("hunter2"));
    }
}
