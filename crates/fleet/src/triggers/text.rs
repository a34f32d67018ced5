//! Untrusted texts: invisible characters are removed, long texts are cut, and the rest is put into a fence that it
//! cannot close.

use bailiwick_model::digest::Sha256Hex;

/// The maximum size of one text in a prompt.
pub const MAX_BLOCK_BYTES: usize = 16 * 1024;

/// The maximum length of a run of tildes: a fence must be longer.
const MAX_TILDES: usize = 64;

/// Removes invisible characters and those that control a terminal: controls, escape sequences, direction marks,
/// characters without width; and long runs that would make a fence grow without bound.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut tildes = 0_usize;
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '~' => {
                tildes += 1;
                if tildes <= MAX_TILDES {
                    out.push('~');
                }
                continue;
            }
            // Characters that are removed without a trace do not separate their neighbours.
            '\u{1b}' => {
                skip_escape(&mut rest);
                continue;
            }
            '\r' => {
                if rest.peek() != Some(&'\n') {
                    out.push('\n');
                }
            }
            '\u{85}' | '\u{2028}' | '\u{2029}' => out.push('\n'),
            '\n' | '\t' => out.push(next),
            _ if is_hidden(next) => continue,
            _ => out.push(next),
        }
        tildes = 0;
    }
    out
}

fn skip_escape(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            while let Some(next) = rest.next_if(|next| !('\u{40}'..='\u{7e}').contains(next)) {
                if next == '\n' {
                    return;
                }
            }
            rest.next();
        }
        // A title or a link: up to the bell or the end of the line.
        Some(']') => {
            while rest.next_if(|next| !matches!(next, '\u{7}' | '\u{1b}' | '\n')).is_some() {}
        }
        Some(_) | None => {}
    }
}

fn is_hidden(next: char) -> bool {
    next.is_control()
        || matches!(next,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// The beginning of a text, cut at a character to this number of bytes.
pub fn beginning(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// A text of at most this many bytes; a cut text says how much is missing.
pub fn clipped(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let kept = beginning(text, most);
    format!("{kept}\n[cut here: {} more bytes]", text.len() - kept.len())
}

/// A text inside of a fence. Neither the tildes nor the tag of the fence occur in the text.
pub fn fenced(name: &str, text: &str) -> String {
    let mut run = 0_usize;
    let mut longest = 0_usize;
    for next in text.chars() {
        run = if next == '~' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let tildes = "~".repeat(longest.max(7) + 1);
    let mut tag = Sha256Hex::of(format!("{name}\n{text}")).prefix(12).to_owned();
    while text.contains(&tag) {
        tag = Sha256Hex::of(&tag).prefix(12).to_owned();
    }
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    format!("{tildes} {name} {tag}\n{text}{end}{tildes} end {tag}\n")
}

/// A text as part of a key: letters, digits, `.`, `_` and `-` stay, everything else is escaped, and a long text
/// becomes its digest.
pub fn key_part(text: &str) -> String {
    const MAX_LENGTH: usize = 96;
    if text.len() > MAX_LENGTH {
        return format!("~{}", Sha256Hex::of(text).prefix(32));
    }
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
