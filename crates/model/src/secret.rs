//! Taking secrets out of a text before it is kept.

/// What stands in the place of a secret.
pub const PLACEHOLDER: &str = "[secret]";

/// A line of a secret that is shorter is not taken out by itself.
const MIN_LINE: usize = 20;

/// Beginnings by which well-known keys and tokens are recognised, with the least that follows.
const BEGINNINGS: [(&str, usize); 18] = [
    ("sk-", 16),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("npm_", 30),
    ("pypi-", 30),
    ("hf_", 20),
    ("eyJ", 30),
];

/// Words behind which a secret is written.
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

/// The text with every secret that can be recognised taken out.
pub fn redacted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut secret_follows = false;
    while let Some(first) = rest.chars().next() {
        if !is_part(first) {
            out.push(first);
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
            continue;
        }
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let (word, more) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let label = is_label(word);
        if is_token(word) || (secret_follows && !label) {
            out.push_str(PLACEHOLDER);
            secret_follows = false;
        } else {
            out.push_str(word);
            secret_follows = label && announces(word, more);
        }
        rest = more;
    }
    out
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || "-_.+/~".contains(c)
}

fn is_token(word: &str) -> bool {
    BEGINNINGS.iter().any(|(beginning, least)| {
        word.strip_prefix(beginning).is_some_and(|rest| rest.chars().count() >= *least)
    })
}

fn is_label(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let lower = lower.trim_start_matches('-');
    LABELS.iter().any(|label| lower.ends_with(label)) || lower == "basic"
}

/// Whether a value follows a label: behind `=`, `:`, or a blank for words of HTTP and options.
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
    fn secrets_go_and_the_rest_stays() {
        for (text, expected) in [
            ("curl -H 'Authorization: Bearer abc.def'", "curl -H 'Authorization: Bearer [secret]'"),
            ("export API_KEY=hunter2; ls", "export API_KEY=[secret]; ls"),
            ("echo ghp_0123456789abcdefghij0123", "echo [secret]"),
            ("mysql --password hunter2 -u me", "mysql --password [secret] -u me"),
            ("{\"token\": \"xyz\"}", "{\"token\": \"[secret]\"}"),
            ("cargo test token_parser", "cargo test token_parser"),
            ("grep -r password src", "grep -r password src"),
            ("git commit -m 'rotate the secret'", "git commit -m 'rotate the secret'"),
        ] {
            assert_eq!(redacted(text), expected);
        }
    }
}
