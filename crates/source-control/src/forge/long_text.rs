//! Cuts long strings out of JSON while it is received, so that no text on a forge makes a response too large to read.

/// How much of one string is kept. What we write ourselves is shorter and stays whole.
pub(super) const MAX_STRING_BYTES: usize = 64 * 1024;

/// JSON that was received so far, with long strings cut. A cut string says how much is missing.
#[derive(Debug, Default)]
pub(super) struct CutJson {
    kept: Vec<u8>,
    place: Place,
    /// The decoded length of the current string so far.
    length: usize,
    /// How many bytes of the current string were left out.
    dropped: usize,
    /// Whether the last character was the first half of a surrogate pair, which must not be cut apart.
    is_half_pair: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Outside,
    Text,
    Escape,
    /// Within `\uXXXX`: the digits that are missing, and the value so far.
    Unicode(u8, u32),
}

impl CutJson {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.add_byte(byte));
    }

    /// How many bytes are kept.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.kept
    }

    fn add_byte(&mut self, byte: u8) {
        match self.place {
            Place::Outside => {
                self.kept.push(byte);
                if byte == b'"' {
                    (self.place, self.length, self.dropped) = (Place::Text, 0, 0);
                    self.is_half_pair = false;
                }
            }
            Place::Text if byte == b'"' => {
                if self.dropped > 0 {
                    let mark = format!("\\n[cut here: {} more bytes]", self.dropped);
                    self.kept.extend_from_slice(mark.as_bytes());
                }
                self.kept.push(byte);
                self.place = Place::Outside;
            }
            Place::Text if byte == b'\\' => {
                self.keep(byte, 0, true);
                self.place = Place::Escape;
            }
            Place::Text => {
                let is_continued = byte & 0b1100_0000 == 0b1000_0000;
                self.keep(byte, 1, !is_continued);
                self.is_half_pair = false;
            }
            Place::Escape => {
                self.keep(byte, usize::from(byte != b'u'), false);
                self.is_half_pair &= byte == b'u';
                self.place = if byte == b'u' { Place::Unicode(4, 0) } else { Place::Text };
            }
            Place::Unicode(missing, value) => {
                let value = value * 16 + char::from(byte).to_digit(16).unwrap_or_default();
                let is_last = missing <= 1;
                let length = match value {
                    _ if !is_last => 0,
                    0..0x80 => 1,
                    0x80..0x800 => 2,
                    // A pair is one character of four bytes, counted with its first half.
                    0xD800..0xDC00 => 4,
                    0xDC00..0xE000 => 0,
                    _ => 3,
                };
                self.keep(byte, length, false);
                if is_last {
                    self.is_half_pair = (0xD800..0xDC00).contains(&value);
                }
                self.place = if is_last { Place::Text } else { Place::Unicode(missing - 1, value) };
            }
        }
    }

    /// Keeps a byte of a string, or leaves it out if the string is long enough. It is cut only between characters.
    fn keep(&mut self, byte: u8, length: usize, is_first_of_character: bool) {
        let can_cut = is_first_of_character && !self.is_half_pair;
        if self.dropped > 0 || (can_cut && self.length >= MAX_STRING_BYTES) {
            self.dropped += 1;
        } else {
            self.kept.push(byte);
            self.length += length;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{CutJson, MAX_STRING_BYTES};

    /// The rest of a document that arrives in chunks of this size.
    fn cut(document: &str, chunk: usize) -> Value {
        let mut json = CutJson::default();
        document.as_bytes().chunks(chunk).for_each(|chunk| json.add(chunk));
        serde_json::from_slice(&json.into_bytes()).unwrap()
    }

    #[test]
    fn short_documents_are_unchanged() {
        let value =
            json!({ "a\"\\": ["ü\n\u{1f600}", "", "\\\\\""], "b": { "c": [1, 2.5, null, true] } });
        for chunk in [1, 2, 7, 4096] {
            assert_eq!(cut(&value.to_string(), chunk), value);
        }
    }

    #[test]
    fn long_strings_are_cut_between_characters_with_a_note() {
        let units = ["a", "\"", "\\", "\n", "ü", "\u{1f600}", "<"];
        for unit in units {
            for escaped in [false, true] {
                for shift in 0..4 {
                    let text =
                        format!("{}{}", "x".repeat(shift), unit.repeat(MAX_STRING_BYTES + 1));
                    let mut document = json!({ "body": text, "next": "whole" }).to_string();
                    if escaped {
                        // As Go writes `<`, and as others write characters outside of ASCII.
                        document = document.replace('<', "\\u003c").replace('ü', "\\u00fc");
                        document = document.replace('\u{1f600}', "\\ud83d\\ude00");
                    }
                    let found = cut(&document, 1000);
                    assert_eq!(found["next"], "whole");
                    let body = found["body"].as_str().unwrap();
                    let (beginning, mark) = body.rsplit_once('\n').unwrap();
                    assert!(text.starts_with(beginning), "{unit:?}");
                    let length = beginning.len();
                    assert!((MAX_STRING_BYTES..MAX_STRING_BYTES + 6).contains(&length), "{length}");
                    assert!(mark.starts_with("[cut here: "), "{mark}");
                }
            }
        }
    }

    #[test]
    fn string_of_the_maximum_length_is_not_cut() {
        let text = "\n".repeat(MAX_STRING_BYTES);
        assert_eq!(cut(&json!([text]).to_string(), 64), json!([text]));
    }
}
