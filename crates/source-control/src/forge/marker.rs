//! How a thing that was written is found again by its key: a comment of HTML in its last line, which
//! people do not see.

use bailiwick_fleet::ports::ForgeError;
use bailiwick_model::digest::Sha256Hex;

const BEGINNING: &str = "<!-- bailiwick:";
/// The longest text that every forge takes.
const LONGEST: usize = 60_000;

/// The mark of one key.
pub(super) struct Marker(String);

impl Marker {
    pub(super) fn of(key: &str) -> Self {
        Self(format!("{BEGINNING}{} -->", Sha256Hex::of(key).prefix(32)))
    }

    /// The text with the mark. A text that has a mark already could make us take it for another.
    pub(super) fn put_on(&self, text: &str) -> Result<String, ForgeError> {
        if text.contains(BEGINNING) {
            let why = format!("the text has `{BEGINNING}` in it, by which ours are told apart");
            return Err(ForgeError::Refused(why));
        }
        if text.len() > LONGEST {
            let why =
                format!("the text has {} bytes; forges take {LONGEST}: shorten it", text.len());
            return Err(ForgeError::Refused(why));
        }
        let text = text.trim_end();
        Ok(if text.is_empty() { self.0.clone() } else { format!("{text}\n\n{}", self.0) })
    }

    /// Whether a text is the one that was written with this key: only the last line counts, since
    /// people quote whole texts in their own.
    pub(super) fn is_on(&self, text: &str) -> bool {
        text.trim_end().lines().next_back().is_some_and(|line| line.trim() == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_only_where_it_was_put() {
        let (one, other) = (Marker::of("one"), Marker::of("other"));
        let text = one.put_on("Hello.\n").unwrap();
        assert!(one.is_on(&text) && !other.is_on(&text));
        // As a forge may give it back, and as somebody quotes it.
        assert!(one.is_on(&text.replace('\n', "\r\n")));
        assert!(!one.is_on(&format!("> {text}\n\nNo.")));
        assert!(other.put_on(&text).is_err(), "a text with a mark is refused");
        assert!(one.put_on(&"x".repeat(LONGEST + 1)).is_err());
        assert!(one.is_on(&one.put_on("").unwrap()));
    }
}
