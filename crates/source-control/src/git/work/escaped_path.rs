//! Git's paths as text: bytes that are not UTF-8 become `\xff`, and different paths stay different.

pub(super) fn escape_path(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        push_valid(&mut text, chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// A backslash of the path itself that looks like an escape becomes `\x5c`.
fn push_valid(text: &mut String, part: &str) {
    let mut rest = part;
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        let digits = after.strip_prefix('x').and_then(|after| after.get(..2));
        let like_ours = digits.is_some_and(|digits| {
            digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        });
        text.push_str(if like_ours { "\\x5c" } else { "\\" });
        rest = after;
    }
    text.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::escape_path;

    #[test]
    fn utf8_paths_are_unchanged() {
        for path in ["a/b.rs", "größer", "new\nline", "back\\slash", "\\x", "\\xg0", "\\XFF", "\\"]
        {
            assert_eq!(escape_path(path.as_bytes()), path);
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_escaped_without_collisions() {
        assert_eq!(escape_path(b"a\xff/\xfe"), "a\\xff/\\xfe");
        assert_eq!(escape_path(b"a\\xff"), "a\\x5cxff");
        assert_eq!(escape_path(b"a\\x5cxff"), "a\\x5cx5cxff");
        assert_eq!(escape_path(b"\\\xff"), "\\\\xff");
        assert_eq!(escape_path(b"\\\\xff"), "\\\\x5cxff");
    }
}
