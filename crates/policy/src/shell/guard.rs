//! Checks before parsing, and line continuations.

use std::borrow::Cow;

use super::{HiddenReason, documents};

const MAX_LENGTH: usize = 64 * 1024;
const MAX_DEPTH: usize = 60;
const MAX_DOCUMENTS: usize = 200;

/// The text without line continuations, or why it is not read.
pub(super) fn prepare(text: &str) -> Result<String, (HiddenReason, String)> {
    if text.len() > MAX_LENGTH {
        return Err((HiddenReason::TooComplex, format!("{} bytes", text.len())));
    }
    if text.bytes().any(may_be_odd)
        && let Some(odd) = text.chars().find(|c| is_odd(*c))
    {
        return Err((HiddenReason::OddCharacter, format!("U+{:04X}", u32::from(odd))));
    }
    let bare = without_quoted(text);
    if depth(&bare) > MAX_DEPTH {
        return Err((HiddenReason::TooComplex, "nested too deeply".to_owned()));
    }
    if bare.contains("<<") {
        // Each is looked for in the whole text.
        if bare.matches("<<").count() > MAX_DOCUMENTS {
            return Err((HiddenReason::TooComplex, format!("{MAX_DOCUMENTS} here documents")));
        }
        if has_endless_document(&bare) {
            return Err((HiddenReason::Unreadable, "<< without a word".to_owned()));
        }
    }
    if bare.contains('(') && begins_with_comment(&bare) {
        return Err((
            HiddenReason::Unreadable,
            "a substitution that begins with a comment".to_owned(),
        ));
    }
    if has_long_descriptor(&bare) {
        return Err((HiddenReason::Unreadable, "a descriptor of many digits".to_owned()));
    }
    join_lines(text)
}

/// The text without what is quoted in its plain beginning: up to where something could be read in two ways.
fn without_quoted(text: &str) -> Cow<'_, str> {
    if !text.contains('\'') {
        return Cow::Borrowed(text);
    }
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\'', '"', '\\', '`', '#', '(', '{', '<']) {
        let (before, behind) = rest.split_at(at);
        let Some(sign) = behind.chars().next() else { break };
        let inner = behind.get(1..).unwrap_or_default();
        // A single `<` only reads a file.
        let reads = sign == '<' && !inner.starts_with(['<', '(']);
        let end = match sign {
            '\'' if !before.ends_with('$') => inner.find('\''),
            '"' => inner.find('"').filter(|end| {
                let quoted = inner.get(..*end).unwrap_or_default();
                !quoted.contains(['\\', '`', '$'])
            }),
            _ if reads => None,
            _ => break,
        };
        bare.push_str(before);
        bare.push(sign);
        rest = inner;
        if !reads {
            let Some(end) = end else { break };
            rest = inner.get(end..).unwrap_or_default();
            bare.push(sign);
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    bare.push_str(rest);
    Cow::Owned(bare)
}

/// Numbers that the parser cannot hold, where it expects a descriptor.
fn has_long_descriptor(text: &str) -> bool {
    text.match_indices(['<', '>']).any(|(at, _)| {
        let before = text.get(..at).unwrap_or_default();
        before.len() - before.trim_end_matches(|c: char| c.is_numeric()).len() > 9
    })
}

/// `<<` with nothing but blanks or a comment behind it: the parser waits for the word for ever.
fn has_endless_document(text: &str) -> bool {
    let numberless = text.replace("$((", "");
    let substitutes = ["$(", "${", "`", "<(", ">("].iter().any(|sign| numberless.contains(sign));
    text.match_indices("<<").any(|(at, sign)| {
        let behind = text.get(at + sign.len()..).unwrap_or_default();
        let behind = behind.strip_prefix('-').unwrap_or(behind).trim_start_matches([' ', '\t']);
        let before = text.get(..at).unwrap_or_default();
        let string = behind.starts_with('<') || before.ends_with('<');
        // Together with a substitution it loses its way if the document does not end.
        behind.is_empty()
            || behind.starts_with('#')
            || (substitutes && !string && !is_ended_document(behind))
    })
}

/// Whether the word behind `<<` is on a separate line further down.
fn is_ended_document(behind: &str) -> bool {
    let word = behind.split(|c: char| c.is_whitespace() || ";|&()<>".contains(c)).next();
    let word = word.unwrap_or_default().replace(['\'', '"', '\\'], "");
    behind.lines().skip(1).any(|line| line.trim_start_matches('\t') == word)
}

/// A substitution that starts with a comment, in which the parser sees its end.
fn begins_with_comment(text: &str) -> bool {
    let starts = ["$(", "<(", ">("].into_iter().flat_map(|start| text.match_indices(start));
    let behind = starts.filter_map(|(at, start)| text.get(at + start.len()..));
    behind.into_iter().any(|behind| behind.trim_start().starts_with('#'))
}

/// Whether a byte may belong to one of them: every character beyond ASCII is checked.
fn may_be_odd(byte: u8) -> bool {
    (byte < b' ' && !matches!(byte, b'\t' | b'\n')) || byte >= 0x7f
}

/// Characters that parsers treat as blanks and bash does not, or that are invisible.
fn is_odd(c: char) -> bool {
    let blank = c.is_whitespace() && !matches!(c, ' ' | '\t' | '\n');
    blank || (c.is_control() && !matches!(c, '\t' | '\n')) || c == '\u{feff}' || c == '\u{200b}'
}

/// An upper bound of the nesting, ignoring quotes.
fn depth(text: &str) -> usize {
    const WORDS: [&[u8]; 6] = [b"if", b"while", b"until", b"for", b"case", b"do"];
    let (mut now, mut most) = (0_usize, 0);
    let mut counts = [0_usize; WORDS.len()];
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'{' | b'[' | b'`' => {
                now += 1;
                most = most.max(now);
            }
            b')' | b'}' | b']' => now = now.saturating_sub(1),
            b' ' => {
                let before = text.as_bytes().get(..at).unwrap_or_default();
                // Few words end as these do.
                if matches!(before.last(), Some(b'f' | b'e' | b'l' | b'r' | b'o')) {
                    let ends = WORDS.iter().map(|word| usize::from(before.ends_with(word)));
                    counts.iter_mut().zip(ends).for_each(|(count, more)| *count += more);
                }
            }
            _ => {}
        }
    }
    most.max(counts.iter().map(|count| count / 2).sum())
}

/// Numbers that the parser cannot hold, where it expects one: `{1..9}` and `~1`.
pub(super) fn has_long_number(word: &str) -> bool {
    let expected = word.contains(['{', '~']);
    expected && word.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 17)
}

/// Whether a word has expansions inside the subscripts of others, for which the parser takes exponential time.
/// Quoted text counts as closing nothing.
pub(super) fn is_tangled(word: &str) -> bool {
    const MAX_COUNT: usize = 2;
    struct Open {
        tangles: bool,
        subscript: bool,
        quoted: bool,
    }
    let mut open: Vec<Open> = Vec::new();
    let mut rest = word;
    while let Some(c) = rest.chars().next() {
        if let Some(inner) = rest.strip_prefix("${") {
            let name = |c: char| c.is_alphanumeric() || "_!#".contains(c);
            let behind = inner.trim_start_matches(name);
            let (subscript, tangles) =
                (behind.starts_with('['), behind.starts_with(['[', '@', '$']));
            open.push(Open { tangles, subscript, quoted: false });
            rest = behind.strip_prefix('[').unwrap_or(behind);
            if open.iter().filter(|open| open.tangles).count() > MAX_COUNT {
                return true;
            }
            continue;
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        match (c, open.last_mut()) {
            ('\'' | '"' | '\\' | '`', _) => open.iter_mut().for_each(|open| open.quoted = true),
            (']', Some(last)) if !last.quoted => last.subscript = false,
            ('}', Some(last)) if !last.quoted && !last.subscript => {
                open.pop();
            }
            _ => {}
        }
    }
    false
}

/// Removes backslash-newline as bash does: everywhere but in single quotes. In comments and here
/// documents it is not sure, so there it is refused.
fn join_lines(text: &str) -> Result<String, (HiddenReason, String)> {
    if !text.contains("\\\n") {
        return Ok(text.to_owned());
    }
    let unsure =
        |what: &str| Err((HiddenReason::Unreadable, format!("a line continuation beside {what}")));
    if text.contains("<<") && !documents::are_extracted(text) {
        return unsure("a here document");
    }
    // The patterns of `case` end with a sign that ends substitutions as well.
    let nested = text.contains("$(") && text.contains('\'');
    if text.contains('`') || text.contains("$'") || (nested && text.contains("esac")) {
        return unsure("nested quotes");
    }
    let mut joined = String::with_capacity(text.len());
    let (mut single, mut dollar) = (false, false);
    // The open constructs: double quotes, or substitutions with the brackets in them.
    let mut open: Vec<char> = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let inside = open.last().copied();
        let substitutes = std::mem::replace(&mut dollar, c == '$');
        match c {
            '\'' if inside != Some('"') => single = !single,
            _ if single => {}
            '"' if inside == Some('"') => {
                open.pop();
            }
            '"' => open.push('"'),
            '(' if inside == Some('(') || substitutes => open.push('('),
            ')' if inside == Some('(') => {
                open.pop();
            }
            '#' if inside != Some('"') && begins_word(&joined) => {
                joined.push('#');
                while let Some(c) = rest.next_if(|c| *c != '\n') {
                    joined.push(c);
                }
                // With a backslash at its end, a comment continues for some parsers, but never for bash.
                joined.truncate(joined.trim_end_matches('\\').len());
                continue;
            }
            '\\' => {
                match rest.next() {
                    Some('\n') => {}
                    Some(next) => joined.extend(['\\', next]),
                    None => joined.push('\\'),
                }
                continue;
            }
            _ => {}
        }
        joined.push(c);
    }
    if (nested || text.contains("<<")) && (single || !open.is_empty()) {
        return unsure("nested quotes");
    }
    Ok(joined)
}

/// Whether the next character starts a word.
fn begins_word(before: &str) -> bool {
    before.chars().next_back().is_none_or(|c| c.is_whitespace() || ";|&()<>".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continuations_are_joined_like_in_bash() {
        assert_eq!(prepare("git pu\\\nsh").unwrap(), "git push");
        assert_eq!(prepare("echo \"a\\\nb\"").unwrap(), "echo \"ab\"");
        assert_eq!(prepare("echo 'a\\\nb'").unwrap(), "echo 'a\\\nb'");
        assert_eq!(prepare("echo \\\\\nls").unwrap(), "echo \\\\\nls");
        assert!(prepare("cat <<E\na\\\nb\nE").is_err());
        for (text, joined) in [
            ("a -H 'b' \\\n -d \"$(c 'd')\" \\\n e", "a -H 'b'  -d \"$(c 'd')\"  e"),
            ("a \"\\$(\" 'b\\\nc' \"$(d)\"", "a \"\\$(\" 'b\\\nc' \"$(d)\""),
            ("a \"$(b \"it's\" '\\\n')\" \\\nc", "a \"$(b \"it's\" '\\\n')\" c"),
        ] {
            assert_eq!(prepare(text).unwrap(), joined, "{text}");
        }
        assert!(prepare("a $(case b in b) c 'd';; esac) \\\ne").is_err());
        assert!(prepare("a 'b' $(c \\\nd").is_err());
    }

    #[test]
    fn only_nested_subscripts_are_tangled() {
        for accepted in ["${a[0]}${a[1]}${a[2]}${a[3]}", "${a:-${b:-${c:-${d}}}}", "${a[${b[1]}]}"]
        {
            assert!(!is_tangled(accepted), "{accepted}");
        }
        for bad in ["${a[${b[${c[0]}]}]}", "${a[}${a[}${a[}", "${a['}'${a['}'${a[", "${${${${x}}}}"]
        {
            assert!(is_tangled(bad), "{bad}");
        }
    }

    #[test]
    fn unusual_characters_and_oversized_numbers_are_refused() {
        for bad in ["a\rb", "a\u{b}b", "a\u{c}b", "\u{feff}ls", "ls\u{a0}-l", "a\0b", "a\u{1b}b"] {
            assert_eq!(prepare(bad).unwrap_err().0, HiddenReason::OddCharacter, "{bad:?}");
        }
        assert_eq!(prepare("cat 3333333333<<E\nE\n").unwrap_err().0, HiddenReason::Unreadable);
        for accepted in
            ["echo $((1 << 2))", "a <<E\n$(b)\nE\n", "a <<< $(b)", "a \"$(b <<'E'\nE\n)\""]
        {
            assert!(prepare(accepted).is_ok(), "{accepted:?}");
        }
        for endless in
            ["a << b ${c", "a $(b << c\n", "echo $(<<  ", "echo $(<<- #)", "echo \"$(<<\t"]
        {
            assert_eq!(prepare(endless).unwrap_err().0, HiddenReason::Unreadable, "{endless:?}");
        }
        assert_eq!(prepare(&"(".repeat(200)).unwrap_err().0, HiddenReason::TooComplex);
        assert_eq!(prepare(&"a".repeat(MAX_LENGTH + 1)).unwrap_err().0, HiddenReason::TooComplex);
        assert!(prepare("echo 'ü' \t\n ls").is_ok());
    }
}
