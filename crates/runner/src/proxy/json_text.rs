//! Detects when a JSON value that arrives in pieces is complete.

/// The text of a JSON object or list so far.
#[derive(Debug, Default)]
pub(super) struct JsonText {
    text: String,
    depth: usize,
    in_string: bool,
    escaped: bool,
    whole: bool,
}

impl JsonText {
    /// Adds the next piece. Each byte is read once.
    pub(super) fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
        for byte in piece.bytes() {
            self.look(byte);
        }
    }

    /// Whether all brackets are closed. Other values are never complete: only the end of the stream ends a
    /// number.
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    fn look(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.whole |= self.depth == 0;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completeness_agrees_with_a_parser() {
        let texts = [
            r#"{"a":"}","b":[1,{"c":"\"}"}],"d":"\\"}"#,
            r#"[{"x":{}},"]"]"#,
            r#" {"é":"{"} "#,
            "{}",
        ];
        for text in texts {
            let mut json = JsonText::default();
            let mut prefix = String::new();
            for character in text.chars() {
                prefix.push(character);
                json.push(&character.to_string());
                let parses = serde_json::from_str::<serde_json::Value>(&prefix).is_ok();
                assert_eq!(json.is_whole(), parses, "{prefix}");
            }
            assert!(json.is_whole() && json.text() == text);
        }
    }
}
