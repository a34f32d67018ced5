//! Text for people: hidden characters made visible, times, numbers and links.

use std::fmt::Write as _;

use bailiwick_resources::Moment;

/// What is shown of one value at most; the rest is counted.
pub(crate) const MAX_SHOWN: usize = 20_000;

/// Whether a character changes how others look, or is not seen itself.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        | '\u{e0100}'..='\u{e01ef}')
        || (c.is_control() && !matches!(c, '\n' | '\t'))
}

/// Text of somebody else, with hidden characters as visible marks: nothing in it can reorder or hide the rest.
pub(crate) fn visible(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{1b}' => shown.push('␛'),
            c if is_hidden(c) => {
                let _ = write!(shown, "⟨U+{:04X}⟩", u32::from(c));
            }
            c => shown.push(c),
        }
    }
    shown
}

/// The beginning of a long text, and how many characters are left out.
pub(crate) fn shortened(text: &str, max: usize) -> (String, usize) {
    let count = text.chars().count();
    if count <= max {
        return (visible(text), 0);
    }
    let start: String = text.chars().take(max).collect();
    (visible(&start), count - max)
}

/// One line of a text.
pub(crate) fn line(text: &str, max: usize) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match shortened(&words, max) {
        (text, 0) => text,
        (text, _) => format!("{text}…"),
    }
}

/// A time with its machine-readable form and its distance from now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Time {
    pub(crate) absolute: String,
    pub(crate) relative: String,
}

impl Time {
    pub(crate) fn new(at: Moment, now: Moment) -> Self {
        let seconds = now.millis().saturating_sub(at.millis()) / 1_000;
        let relative = match seconds {
            0..=4 => "just now".to_owned(),
            seconds => format!("{} ago", duration(seconds.saturating_mul(1_000))),
        };
        Self { absolute: at.to_string(), relative }
    }
}

/// A duration in its two largest units.
pub(crate) fn duration(millis: u64) -> String {
    let seconds = millis / 1_000;
    match seconds {
        0..=59 => format!("{seconds} s"),
        60..=3_599 => format!("{} min", seconds / 60),
        3_600..=86_399 => match seconds % 3_600 / 60 {
            0 => format!("{} h", seconds / 3_600),
            minutes => format!("{} h {minutes} min", seconds / 3_600),
        },
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A number with separators.
pub(crate) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Money from millionths of a dollar.
pub(crate) fn dollars(micro: u64) -> String {
    format!("${}.{:02}", micro / 1_000_000, micro % 1_000_000 / 10_000)
}

/// A value of a query or a part of a path.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Text in markup that is made without a template, such as a picture.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_replaced_by_marks() {
        assert_eq!(
            visible("a\u{202e}b\u{1b}[2J\u{200b}\r\nc\r"),
            "a⟨U+202E⟩b␛[2J⟨U+200B⟩\nc⟨U+000D⟩"
        );
        assert_eq!(visible("tab\tand\nline"), "tab\tand\nline");
    }

    #[test]
    fn every_invisible_character_is_marked_and_visible_ones_are_not() {
        let hidden = [
            ('\u{ad}', '\u{ad}'),
            ('\u{61c}', '\u{61c}'),
            ('\u{115f}', '\u{1160}'),
            ('\u{180e}', '\u{180e}'),
            ('\u{200b}', '\u{200f}'),
            ('\u{2028}', '\u{202e}'),
            ('\u{2060}', '\u{2060}'),
            ('\u{2066}', '\u{2069}'),
            ('\u{3164}', '\u{3164}'),
            ('\u{fe00}', '\u{fe0f}'),
            ('\u{feff}', '\u{feff}'),
            ('\u{ffa0}', '\u{ffa0}'),
            ('\u{fff9}', '\u{fffb}'),
            ('\u{e0000}', '\u{e007f}'),
            ('\u{e0100}', '\u{e01ef}'),
        ];
        for c in hidden.into_iter().flat_map(|(first, last)| first..=last) {
            assert_eq!(visible(&format!("a{c}b")), format!("a⟨U+{:04X}⟩b", u32::from(c)));
        }
        // Positive control: visible characters are unchanged, also those of the same scripts.
        let visible_text =
            "aé—…\u{a0}\u{5d0}\u{628}\u{1100}\u{1161}\u{3131}\u{314f}\u{ff71}漢😀\u{301}";
        assert_eq!(visible(visible_text), visible_text);
    }

    #[test]
    fn omitted_characters_are_counted() {
        assert_eq!(shortened("abcdef", 4), ("abcd".to_owned(), 2));
        assert_eq!(shortened("abcd", 4), ("abcd".to_owned(), 0));
        assert_eq!(line("a\n  b", 10), "a b");
    }

    #[test]
    fn numbers_and_durations_are_short() {
        assert_eq!(number(1_234_567).replace('\u{202f}', " "), "1 234 567");
        assert_eq!(number(12), "12");
        assert_eq!(duration(59_999), "59 s");
        assert_eq!(duration(3_600_000), "1 h");
        assert_eq!(duration(3_720_000), "1 h 2 min");
        assert_eq!(dollars(1_250_000), "$1.25");
        assert_eq!(encoded("a b/ü"), "a%20b%2F%C3%BC");
    }
}
