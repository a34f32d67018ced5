//! `$'…'`: what the escapes stand for.

/// Decodes an ANSI-C string; `None` if its meaning is uncertain.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\\' {
            bytes.extend(c.to_string().as_bytes());
            continue;
        }
        let escape = rest.next()?;
        let byte = match escape {
            'a' => 7,
            'b' => 8,
            'e' | 'E' => 27,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '\'' | '"' | '?' => u8::try_from(escape).ok()?,
            '0'..='7' => {
                let mut value = escape.to_digit(8)?;
                for _ in 0..2 {
                    let Some(digit) = rest.peek().and_then(|c| c.to_digit(8)) else { break };
                    value = value * 8 + digit;
                    rest.next();
                }
                u8::try_from(value & 0xff).ok()?
            }
            'x' => u8::try_from(number(&mut rest, 2)?).ok()?,
            'u' | 'U' => {
                let most = if escape == 'u' { 4 } else { 8 };
                let c = char::from_u32(number(&mut rest, most)?)?;
                bytes.extend(c.to_string().as_bytes());
                continue;
            }
            // Control characters and unknown escapes are rare, and count as uncertain.
            _ => return None,
        };
        bytes.push(byte);
    }
    // Bash ends the string at a NUL.
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8(bytes.get(..end)?.to_vec()).ok()
}

fn number(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, most: usize) -> Option<u32> {
    let (mut value, mut digits) = (0, 0);
    while let Some(digit) = rest.peek().and_then(|c| c.to_digit(16)).filter(|_| digits < most) {
        value = value * 16 + digit;
        digits += 1;
        rest.next();
    }
    (digits > 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn escapes_are_decoded_like_in_bash() {
        assert_eq!(decode("\\x67it").as_deref(), Some("git"));
        assert_eq!(decode("\\147\\151\\164").as_deref(), Some("git"));
        assert_eq!(decode("\\u0067it\\0rest").as_deref(), Some("git"));
        assert_eq!(decode("a\\'b\\n").as_deref(), Some("a'b\n"));
        assert_eq!(decode("\\q"), None);
        assert_eq!(decode("\\xZZ"), None);
    }
}
