//! Removes secrets from a text before it is stored.

use std::ops::Range;

use crate::token_formats::tokens;

/// The replacement for a secret.
pub const PLACEHOLDER: &str = "[secret]";

/// Shorter lines of a secret are not removed on their own.
const MIN_LINE: usize = 20;

/// Words that precede a secret.
const LABELS: [&str; 12] = [
    "password",
    "passwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "api-key",
    "access_key",
    "private_key",
    "client_secret",
    "authorization",
    "bearer",
];

/// Words that precede a secret only if the value is long: they are common in code.
const LONG_VALUE_LABELS: [&str; 6] =
    ["auth", "_auth", "accountkey", "sharedaccesskey", "sig", "client-key-data"];

/// The label of a PEM block is not longer.
const MAX_PEM_LABEL: usize = 40;

/// The lines of a secret with several lines that identify it: those of a key, not those of the format around it.
pub fn telling_lines(value: &str) -> impl Iterator<Item = &str> {
    let lines = value.trim().lines().map(str::trim);
    let several = value.trim().contains('\n');
    lines.filter(move |line| several && is_telling(line))
}

/// Whether a line belongs to a key, and not to the format around it.
pub fn is_telling(line: &str) -> bool {
    line.len() >= MIN_LINE && !line.contains(char::is_whitespace)
}

/// The text with all recognised secrets replaced.
pub fn redacted(text: &str) -> String {
    without_labelled(&without(text, known_formats(text)))
}

/// The text with all secrets in a known format replaced, and their number: private keys, credentials in URLs, keys and
/// tokens. Values that only follow a word such as `password` stay.
pub fn without_known_formats(text: &str) -> (String, usize) {
    let secrets = known_formats(text);
    let count = secrets.len();
    (without(text, secrets), count)
}

/// The places of secrets in a known format; they may overlap.
fn known_formats(text: &str) -> Vec<Range<usize>> {
    let mut secrets: Vec<Range<usize>> = private_keys(text);
    secrets.extend(url_credentials(text));
    secrets.extend(tokens(text));
    secrets
}

/// Whether a text contains a key or token in a known format.
pub fn has_key_or_token(text: &str) -> bool {
    !tokens(text).is_empty() || !private_keys(text).is_empty()
}

/// The text with these parts replaced; parts may overlap.
fn without(text: &str, mut parts: Vec<Range<usize>>) -> String {
    parts.sort_by_key(|part| part.start);
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for part in parts {
        if part.start >= at {
            out.push_str(text.get(at..part.start).unwrap_or_default());
            out.push_str(PLACEHOLDER);
        }
        at = at.max(part.end);
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

/// Private keys in PEM, from their first line to their last, or to the end of a text that was cut.
fn private_keys(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) =
        text.get(at..).and_then(|rest| rest.find("-----BEGIN ")).map(|start| at + start)
    {
        let rest = text.get(start..).unwrap_or_default();
        let first = rest
            .get("-----BEGIN ".len()..)
            .and_then(|rest| rest.split("-----").next())
            .unwrap_or_default();
        at = start + "-----BEGIN ".len();
        if first.len() > MAX_PEM_LABEL || !first.contains("PRIVATE KEY") {
            continue;
        }
        let end = format!("-----END {first}-----");
        let length = rest.find(&end).map_or(rest.len(), |found| found + end.len());
        found.push(start..start + length);
        at = start + length;
    }
    found
}

/// The credentials of URLs: `https://name:password@host`, and for HTTP also `https://token@host`.
fn url_credentials(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (scheme_end, separator) in text.match_indices("://") {
        let start = scheme_end + separator.len();
        let rest = text.get(start..).unwrap_or_default();
        let end =
            rest.find(|c: char| c.is_whitespace() || "/?#\"'`<>".contains(c)).unwrap_or(rest.len());
        let Some((user, _)) = rest.get(..end).and_then(|authority| authority.rsplit_once('@'))
        else {
            continue;
        };
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        let before = text.get(..scheme_end).unwrap_or_default();
        if names_a_value(password) || (password.is_empty() && is_http_user(before, name)) {
            found.push(start..start + user.len());
        }
    }
    found
}

/// Whether this is the user of a URL of HTTP: without a password it is as often a token as a name.
fn is_http_user(before_separator: &str, name: &str) -> bool {
    let scheme = before_separator.rsplit(|c: char| !c.is_ascii_alphanumeric()).next();
    let is_http = scheme.is_some_and(|scheme| {
        scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http")
    });
    is_http && names_a_value(name) && name.chars().all(|c| is_part(c) || "%=!&".contains(c))
}

/// `$TOKEN` or `{password}` in the place of a password is none.
fn names_a_value(password: &str) -> bool {
    !password.is_empty() && !password.starts_with(['$', '{', '<', '*', '%', '['])
}

/// The text without the values that follow words such as `password`.
fn without_labelled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut follows = None;
    while let Some(first) = rest.chars().next() {
        if !is_part(first) {
            // The value was replaced already.
            if let Some(more) = rest.strip_prefix(PLACEHOLDER) {
                out.push_str(PLACEHOLDER);
                rest = more;
                follows = None;
                continue;
            }
            out.push(first);
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
            continue;
        }
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let (word, more) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let label = label(word);
        if follows.is_some_and(|min| word.len() >= min) && label.is_none() {
            out.push_str(PLACEHOLDER);
            follows = None;
        } else {
            out.push_str(word);
            follows = label.filter(|_| announces(word, more));
        }
        rest = more;
    }
    out
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || "-_.+/~".contains(c)
}

/// The minimum length of a value after this word to count as a secret; none if the word does not announce one.
fn label(word: &str) -> Option<usize> {
    let lower = word.to_ascii_lowercase();
    let lower = lower.trim_start_matches('-');
    if LABELS.iter().any(|label| lower.ends_with(label)) || lower == "basic" {
        return Some(1);
    }
    LONG_VALUE_LABELS.contains(&lower).then_some(MIN_LINE)
}

/// Whether a value follows a label: after `=`, `:`, or a blank for words of HTTP and options.
fn announces(word: &str, more: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let blank = lower.ends_with("bearer") || lower == "basic" || lower.starts_with("--");
    let mut follows = more.chars();
    match follows.next() {
        Some('=' | ':') => true,
        Some(' ') => blank,
        Some('"' | '\'') => matches!(follows.next(), Some('=' | ':')),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_redacted_and_other_text_is_unchanged() {
        for (text, expected) in [
            ("curl -H 'Authorization: Bearer abc.def'", "curl -H 'Authorization: Bearer [secret]'"),
            ("export API_KEY=hunter2; ls", "export API_KEY=[secret]; ls"),
            ("echo ghp_0123456789abcdefghij0123", "echo [secret]"),
            ("mysql --password hunter2 -u me", "mysql --password [secret] -u me"),
            ("{\"token\": \"xyz\"}", "{\"token\": \"[secret]\"}"),
            ("cargo test token_parser", "cargo test token_parser"),
            ("grep -r password src", "grep -r password src"),
            ("git commit -m 'rotate the secret'", "git commit -m 'rotate the secret'"),
            (
                "git clone https://me:hunter2@example.com/a.git",
                "git clone https://[secret]@example.com/a.git",
            ),
            ("https://x:$TOKEN@example.com", "https://x:$TOKEN@example.com"),
            (
                "git clone https://4f7c21ab@example.com/a.git",
                "git clone https://[secret]@example.com/a.git",
            ),
            ("HTTP://4f7c21ab:@localhost:3000/", "HTTP://[secret]@localhost:3000/"),
            ("https://$TOKEN@example.com", "https://$TOKEN@example.com"),
            ("ssh://git@example.com/a.git", "ssh://git@example.com/a.git"),
            ("[a](https://example.com)@me", "[a](https://example.com)@me"),
            ("bwj_0123456789abcdef bwc_0123456789abcdef", "[secret] [secret]"),
            ("http://localhost:8080/a@b", "http://localhost:8080/a@b"),
            ("export GH_TOKEN=ghp_0123456789abcdefghij0123 x", "export GH_TOKEN=[secret] x"),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb",
                "a\n[secret]\nb",
            ),
            ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz", "[secret]"),
            (
                "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
                "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
            ),
            (
                "{\"auths\":{\"r\":{\"auth\":\"dXNlcjpodW50ZXIyaHVudGVyMg==\"}}}",
                "{\"auths\":{\"r\":{\"auth\":\"[secret]==\"}}}",
            ),
            ("auth = login()", "auth = login()"),
            (
                "bwk_0123456789abcdef0123 and hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXX",
                "[secret] and [secret]",
            ),
        ] {
            assert_eq!(redacted(text), expected);
        }
    }
}
