//! Reads programs that print words, or JSON of no known kind.

use bailiwick_model::event::EventKind;
use serde_json::Value;

use super::super::adapter::{ParsedEvent, Reader, Verdict};
use super::super::lines::{all_text, object, other, verdict};

/// Reads such lines.
pub(super) struct PlainReader {
    json: bool,
    words: String,
}

impl PlainReader {
    pub(super) fn text() -> Self {
        Self { json: false, words: String::new() }
    }

    pub(super) fn json_lines() -> Self {
        Self { json: true, words: String::new() }
    }
}

impl Reader for PlainReader {
    fn line(&mut self, line: &str) -> Vec<ParsedEvent> {
        let text = match self.json {
            true => object(line).map(|value| words(&value)).unwrap_or_default(),
            false => line.to_owned(),
        };
        if text.trim().is_empty() {
            return other();
        }
        self.words.clone_from(&text);
        vec![ParsedEvent::of(EventKind::Text { text })]
    }

    fn end(&mut self, code: Option<i32>, errors: &str) -> Verdict {
        verdict(code == Some(0), &self.words, code, errors)
    }
}

/// The text of a value, in one of the usual fields.
fn words(value: &Value) -> String {
    let fields = ["text", "message", "content", "result"];
    let texts = fields.iter().filter_map(|field| value.get(field)).map(all_text);
    texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
}
