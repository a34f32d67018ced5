//! Taking secrets out of what an agent is given to read, by category and in a fixed order.
//!
//! Known secrets first, then what looks like a secret, then the patterns of the repository and the person. Only
//! counts are stored, never texts. An invalid pattern is an error.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use bailiwick_model::secret::{telling_lines, without_known_formats};
use bailiwick_model::token_formats::tokens;
use regex::{Captures, Regex, RegexBuilder};
use thiserror::Error;

use super::value_forms::forms;

/// The replacement of a secret.
pub const PLACEHOLDER: &str = "[secret]";

/// The minimum length of a known value: shorter ones occur in every text.
const MIN_KNOWN_LENGTH: usize = 4;

/// A value that is shorter than this, and nothing but small letters or digits, is a word or a number that
/// any code may have.
const MIN_WORD_LENGTH: usize = 10;

/// How often the patterns are applied to one text.
const MAX_ROUNDS: usize = 64;

/// How much memory a pattern of a repository or a person may take.
const MAX_PATTERN_SIZE: usize = 1 << 20;

/// The category of the repository's patterns.
const REPOSITORY_CATEGORY: &str = "repository-policy";
/// The category of a person's patterns.
const PERSONAL_CATEGORY: &str = "personal";

/// Secrets besides the built-in patterns.
#[derive(Debug, Clone, Default)]
pub struct RedactionRules {
    /// Values of secrets, exactly as they are.
    pub known: Vec<String>,
    /// Expressions of the repository's policy.
    pub repository: Vec<String>,
    /// Expressions of a person.
    pub personal: Vec<String>,
}

/// Why nothing can be given out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RedactionError {
    /// An expression cannot be read.
    #[error("the {whose} pattern `{pattern}` cannot be used: {why}")]
    Pattern {
        /// The repository's or the person's.
        whose: &'static str,
        /// The expression.
        pattern: String,
        /// The reason.
        why: String,
    },
    /// The secrets are unknown.
    #[error("what is secret is not known: {0}")]
    Unknown(String),
}

/// A text without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    pub text: String,
    /// The number of redactions, by category.
    pub counts: BTreeMap<String, u64>,
}

/// The patterns, ready to be used, in their order.
#[derive(Debug)]
pub struct Redactor {
    known: Vec<String>,
    patterns: Vec<(&'static str, Regex)>,
}

/// Names behind which a value is secret.
const STRONG: &str = "passw(?:or)?d|passphrase|pwd|secret|secret[_-]?key|api[_-]?key|apikey|access[_-]?key|\
    private[_-]?key|client[_-]?secret|credentials?|signing[_-]?key|encryption[_-]?key";

/// Categories with their expressions, in the order of application. The group `keep` of an expression stays.
fn built_in() -> Vec<(&'static str, String)> {
    let value = r#"(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s,;&"'\]\})]+)"#;
    let fields = format!(
        r#"(?i)(?P<keep>["']?(?-u:\b)[A-Za-z0-9_.-]*(?:{STRONG})["']?[ \t]*(?::=|=>|[:=])[ \t]*){value}"#
    );
    let tokens = format!(
        r#"(?i)(?P<keep>["']?(?-u:\b)[A-Za-z0-9_.-]*token["']?[ \t]*(?::=|=>|[:=])[ \t]*){}"#,
        r#"(?:"(?:[^"\\\n]|\\.)*\d(?:[^"\\\n]|\\.)*"|'[^'\n]*\d[^'\n]*'|[^\s,;&"'\]\})]*\d[^\s,;&"'\]\})]*)"#
    );
    let options =
        format!(r#"(?i)(?P<keep>(?:^|\s)--?[A-Za-z0-9_-]*(?:{STRONG}|token)[ \t]+){value}"#);
    let text = |pattern: &str| pattern.to_owned();
    vec![
        ("key-name", fields),
        ("key-name", tokens),
        ("key-name", options),
        (
            "provider-credential",
            text(
                r#"(?i)(?P<keep>["']?(?-u:\b)(?:oauth|refresh|access|id)_?token["']?[ \t]*[:=][ \t]*)["']?[^\s,;&"']{8,}["']?"#,
            ),
        ),
        ("provider-credential", text(r#"(?P<keep>"_?auth"[ \t]*:[ \t]*")[A-Za-z0-9+/=_-]{20,}"#)),
        (
            "provider-credential",
            text(
                r"(?i)(?P<keep>(?-u:\b)(?:_auth|accountkey|sharedaccesskey|sig)=)[A-Za-z0-9+/=_%-]{20,}",
            ),
        ),
        (
            "private-key",
            text(
                r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
            ),
        ),
        (
            "kubeconfig",
            text(
                r"(?i)(?P<keep>(?-u:\b)(?:client-key-data|client-certificate-data|auth-provider-token|id-token|refresh-token)[ \t]*:[ \t]*)\S+",
            ),
        ),
        (
            "authorization-header",
            text(
                r#"(?i)(?P<keep>(?-u:\b)(?:proxy-)?authorization["']?[ \t]*[:=][ \t]*["']?)(?:(?:bearer|basic|token|digest|negotiate|aws4-hmac-sha256|apikey)[ \t]+)?[^\r\n"']+"#,
            ),
        ),
        (
            "authorization-header",
            text(r"(?i)(?P<keep>(?-u:\b)bearer[ \t]+)[A-Za-z0-9._~+/-]{12,}=*"),
        ),
        (
            "authorization-header",
            text(
                r#"(?i)(?P<keep>(?-u:\b)(?:set-cookie|cookie|x-api-key|x-auth-token|x-gitlab-token|private-token)["']?[ \t]*:[ \t]*["']?)[^\r\n"']+"#,
            ),
        ),
        (
            "webhook-signature",
            text(
                r#"(?i)(?P<keep>(?-u:\b)x-[a-z0-9-]*signature[a-z0-9-]*["']?[ \t]*[:=][ \t]*["']?)[^\s"']+"#,
            ),
        ),
        ("webhook-signature", text(r"(?i)(?P<keep>(?-u:\b)sha(?:1|256)=)[0-9a-f]{40,64}(?-u:\b)")),
        (
            "url-credential",
            text(r"(?P<keep>(?-u:\b)[a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@:]*:[^\s/@]+@"),
        ),
    ]
}

/// The built-in patterns, compiled once.
static BUILT_IN: LazyLock<Result<Vec<(&'static str, Regex)>, RedactionError>> =
    LazyLock::new(|| {
        let compile = |(category, pattern): (&'static str, String)| {
            compiled("built-in", &pattern).map(|regex| (category, regex))
        };
        built_in().into_iter().map(compile).collect()
    });

impl Redactor {
    /// With these rules.
    pub fn new(rules: &RedactionRules) -> Result<Self, RedactionError> {
        let mut patterns = BUILT_IN.clone()?;
        for pattern in &rules.repository {
            patterns.push((REPOSITORY_CATEGORY, compiled("repository's", pattern)?));
        }
        for pattern in &rules.personal {
            patterns.push((PERSONAL_CATEGORY, compiled("person's", pattern)?));
        }
        let mut known: Vec<String> = rules
            .known
            .iter()
            .flat_map(|value| std::iter::once(value.as_str()).chain(telling_lines(value)))
            .flat_map(forms)
            .filter(|value| value.len() >= MIN_KNOWN_LENGTH)
            .collect();
        // The longest first: one that another begins with must not leave its end behind.
        known.sort_unstable_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
        known.dedup();
        Ok(Self { known, patterns })
    }

    /// A text without secrets. A secret right behind another one is recognised after the first is removed, so the
    /// patterns are applied until nothing changes.
    pub fn redact(&self, text: &str) -> Redacted {
        let mut counts = BTreeMap::new();
        let mut text = text.to_owned();
        for _ in 0..MAX_ROUNDS {
            match self.round(&text, &mut counts) {
                Some(less) => text = less,
                None => return Redacted { text, counts },
            }
        }
        // It does not terminate: nothing of it is returned.
        *counts.entry("unending".to_owned()).or_default() += 1;
        Redacted { text: PLACEHOLDER.to_owned(), counts }
    }

    /// Whether code contains a known secret, or one by the patterns of the repository or the person. Text that only
    /// looks like a secret does not count: code often mentions passwords.
    pub fn finds_in_code(&self, code: &str) -> bool {
        let said = |(category, _): &&(&str, Regex)| {
            matches!(*category, REPOSITORY_CATEGORY | PERSONAL_CATEGORY)
        };
        let mut known = self.known.iter().filter(|value| !is_word(value));
        known.any(|value| code.contains(value.as_str()))
            || self.patterns.iter().filter(said).any(|(_, pattern)| pattern.is_match(code))
    }

    /// The text after every pattern was applied once; nothing if none of them took anything out.
    fn round(&self, text: &str, counts: &mut BTreeMap<String, u64>) -> Option<String> {
        let mut changed = false;
        let mut count = |category: &str, times: u64| {
            if times > 0 {
                changed = true;
                *counts.entry(category.to_owned()).or_default() += times;
            }
        };
        let mut text = Cow::Borrowed(text);
        for value in &self.known {
            let times = text.matches(value.as_str()).count();
            if times > 0 {
                count("denied-value", u64::try_from(times).unwrap_or(u64::MAX));
                text = Cow::Owned(text.replace(value.as_str(), PLACEHOLDER));
            }
        }
        let tokens = tokens(&text);
        count("token", u64::try_from(tokens.len()).unwrap_or(u64::MAX));
        for token in tokens.into_iter().rev() {
            text.to_mut().replace_range(token, PLACEHOLDER);
        }
        for (category, pattern) in &self.patterns {
            let mut times = 0;
            let replaced = pattern.replace_all(&text, |found: &Captures<'_>| {
                let whole = found.get(0).map_or("", |part| part.as_str());
                let keep = found.name("keep").map_or("", |part| part.as_str());
                let rest = whole.strip_prefix(keep).unwrap_or(whole);
                if names_no_value(rest) {
                    return whole.to_owned();
                }
                times += 1;
                // Quoted values stay quoted.
                let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
                match quote {
                    Some(quote) => format!("{keep}{quote}{PLACEHOLDER}{quote}"),
                    None => format!("{keep}{PLACEHOLDER}"),
                }
            });
            if let Cow::Owned(replaced) = replaced {
                text = Cow::Owned(replaced);
            }
            count(category, times);
        }
        // The redaction of everything else that is stored, without the words that prose and code use as well.
        let (rest, times) = without_known_formats(&text);
        if times > 0 {
            count("known-format", u64::try_from(times).unwrap_or(u64::MAX));
            text = Cow::Owned(rest);
        }
        changed.then(|| text.into_owned())
    }
}

fn is_word(value: &str) -> bool {
    let all = |is: fn(&u8) -> bool| value.as_bytes().iter().all(is);
    value.len() < MIN_WORD_LENGTH && (all(u8::is_ascii_lowercase) || all(u8::is_ascii_digit))
}

/// A reference to a value, which is none: `$TOKEN`, `${{ secrets.X }}`, `<password>`, `***`.
fn names_no_value(rest: &str) -> bool {
    let rest = rest.trim_matches(['"', '\'', ' ']);
    rest.starts_with('$')
        || rest.starts_with("{{")
        || rest.starts_with('<')
        || rest.starts_with(PLACEHOLDER)
        || PLACEHOLDER.starts_with(rest)
        || (!rest.is_empty() && rest.chars().all(|c| c == '*'))
}

fn compiled(whose: &'static str, pattern: &str) -> Result<Regex, RedactionError> {
    let wrong = |why: String| RedactionError::Pattern { whose, pattern: pattern.to_owned(), why };
    let regex = RegexBuilder::new(pattern)
        .size_limit(MAX_PATTERN_SIZE * 4)
        .build()
        .map_err(|error| wrong(error.to_string()))?;
    if regex.is_match("") {
        return Err(wrong("it means the empty text, which is everywhere".to_owned()));
    }
    Ok(regex)
}
