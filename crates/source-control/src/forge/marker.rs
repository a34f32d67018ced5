//! Finding a text again by the key it was written with: an HTML comment in its last line, which the forge
//! does not show.

use bailiwick_fleet::ports::ForgeError;
use bailiwick_model::digest::Sha256Hex;

const MARKER_START: &str = "<!-- bailiwick:";
/// Every forge accepts texts of this length.
const MAX_TEXT_BYTES: usize = 60_000;

/// The marker of one key.
pub(super) struct Marker(String);

impl Marker {
    pub(super) fn of(key: &str) -> Self {
        Self(format!("{MARKER_START}{} -->", Sha256Hex::of(key).prefix(32)))
    }

    /// Appends the marker to a text. A text that contains a marker is refused: it could be mistaken for
    /// another one.
    pub(super) fn append_to(&self, text: &str) -> Result<String, ForgeError> {
        if text.contains(MARKER_START) {
            let why = format!("the text contains `{MARKER_START}`, which is reserved; remove it");
            return Err(ForgeError::Refused(why));
        }
        if text.len() > MAX_TEXT_BYTES {
            let why = format!(
                "the text has {} bytes, and the limit is {MAX_TEXT_BYTES}; shorten it",
                text.len()
            );
            return Err(ForgeError::Refused(why));
        }
        let text = text.trim_end();
        Ok(if text.is_empty() { self.0.clone() } else { format!("{text}\n\n{}", self.0) })
    }

    /// Whether a text ends with this marker. Only the last line counts, because people quote whole texts.
    pub(super) fn ends(&self, text: &str) -> bool {
        text.trim_end().lines().next_back().is_some_and(|line| line.trim() == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_is_found_only_in_the_last_line() {
        let (first, second) = (Marker::of("one"), Marker::of("other"));
        let text = first.append_to("Hello.\n").unwrap();
        assert!(first.ends(&text) && !second.ends(&text));
        // As a forge may return it, and as a person quotes it.
        assert!(first.ends(&text.replace('\n', "\r\n")));
        assert!(!first.ends(&format!("> {text}\n\nNo.")));
        assert!(second.append_to(&text).is_err(), "a text with a marker is refused");
        assert!(first.append_to(&"x".repeat(MAX_TEXT_BYTES + 1)).is_err());
        assert!(first.ends(&first.append_to("").unwrap()));
    }
}
