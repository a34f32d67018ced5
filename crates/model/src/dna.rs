//! The readable identity of a composition:
//! `<role>::<capability codes>::<scope>::<body>-<nonce>`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::digest::Sha256Hex;
use crate::name::{CapabilityName, RoleName};
use crate::task::{PathPattern, Scope};

/// Codes are for ever: entries are added, never removed or changed.
const CODES: [(&str, &str); 18] = [
    ("policy::no-git-ops", "NG"),
    ("scope::files-whitelist", "FW"),
    ("scope::files-denylist", "FD"),
    ("quality::constructor-pattern", "CP"),
    ("quality::cargo-check-green", "CG"),
    ("quality::tests-green", "TG"),
    ("safety::no-dep-bump", "ND"),
    ("output::report-format", "RF"),
    ("output::severity-grade", "SG"),
    ("tools::deny-tools", "DT"),
    ("tools::bash-allowlist", "BA"),
    ("safety::no-mass-delete", "MD"),
    ("output::ledger-row-required", "LR"),
    ("quality::no-warnings", "NW"),
    ("scope::no-rule-edits", "RE"),
    ("quality::commands-green", "CC"),
    ("policy::git-read-only", "GR"),
    ("quality::tests-kept", "TK"),
];

const UNKNOWN: &str = "??";
const RENDERED: usize = 4;

/// The two characters that encode a capability; `??` for one that has no code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code([u8; 2]);

impl Code {
    /// The code of a capability.
    pub fn of(name: &CapabilityName) -> Self {
        let name = name.renamed_to().unwrap_or_else(|| name.clone()).to_string();
        let known = CODES.iter().find(|(known, _)| *known == name).map(|(_, code)| *code);
        Self::parse(known.unwrap_or(UNKNOWN)).unwrap_or(Self(*b"??"))
    }

    fn parse(text: &str) -> Option<Self> {
        let code: [u8; 2] = text.as_bytes().try_into().ok()?;
        let letter = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
        (text == UNKNOWN || code.iter().all(letter)).then_some(Self(code))
    }

    /// The capability that it encodes.
    pub fn capability(self) -> Option<CapabilityName> {
        let text = self.to_string();
        let (name, _) = CODES.iter().find(|(_, code)| *code == text)?;
        CapabilityName::parse(name).ok()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.0;
        write!(out, "{}{}", char::from(first), char::from(second))
    }
}

/// The identity of a composition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Dna {
    pub role: RoleName,
    /// The codes of its capabilities, in order.
    pub capabilities: Vec<Code>,
    scope: String,
    body: String,
    nonce: String,
}

/// A text that is not a DNA.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is no DNA: {why}; it reads `<role>::<codes>::<scope>::<body>-<nonce>`")]
pub struct DnaError {
    text: String,
    why: &'static str,
}

impl Dna {
    /// The identity of this role, these capabilities, this scope and this body.
    pub fn compose<'a>(
        role: &RoleName,
        capabilities: impl IntoIterator<Item = &'a CapabilityName>,
        scope: &Scope,
        body: &str,
        nonce: u16,
    ) -> Self {
        let short = |digest: Sha256Hex| digest.prefix(RENDERED).to_ascii_uppercase();
        Self {
            role: role.clone(),
            capabilities: capabilities.into_iter().map(Code::of).collect(),
            scope: short(Sha256Hex::of(canonical_scope(scope))),
            body: short(Sha256Hex::of(body)),
            nonce: format!("{nonce:04x}"),
        }
    }

    /// Reads what [`fmt::Display`] writes; hashes and nonce may be 4 to 64 characters long.
    pub fn parse(text: &str) -> Result<Self, DnaError> {
        let refuse = |why| DnaError { text: text.to_owned(), why };
        let parts: Vec<&str> = text.split("::").collect();
        let [role, codes, scope, tail] = parts.as_slice() else {
            return Err(refuse("it has not four parts"));
        };
        let (body, nonce) =
            tail.split_once('-').ok_or_else(|| refuse("it has no nonce behind the body"))?;
        let codes = codes.split('-').filter(|_| !codes.is_empty()).map(Code::parse);
        Ok(Self {
            role: RoleName::parse(role).map_err(|_| refuse("it names no role"))?,
            capabilities: codes
                .collect::<Option<_>>()
                .ok_or_else(|| refuse("a capability code is not two capitals, digits or `??`"))?,
            scope: segment(scope, is_upper_hex).ok_or_else(|| refuse("the scope is not hex"))?,
            body: segment(body, is_upper_hex).ok_or_else(|| refuse("the body is not hex"))?,
            nonce: segment(nonce, |byte| byte.is_ascii_alphanumeric())
                .ok_or_else(|| refuse("the nonce is not 4 to 64 letters or digits"))?,
        })
    }
}

fn is_upper_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte)
}

fn segment(text: &str, allowed: fn(u8) -> bool) -> Option<String> {
    let fits = (4..=64).contains(&text.len()) && text.bytes().all(allowed);
    fits.then(|| text.to_owned())
}

impl fmt::Display for Dna {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let codes: Vec<String> = self.capabilities.iter().map(Code::to_string).collect();
        let Self { role, scope, body, nonce, .. } = self;
        write!(out, "{role}::{}::{scope}::{body}-{nonce}", codes.join("-"))
    }
}

impl FromStr for Dna {
    type Err = DnaError;

    fn from_str(text: &str) -> Result<Self, DnaError> {
        Self::parse(text)
    }
}

/// The text of a scope, which does not depend on the order of its patterns.
///
/// Each pattern is preceded by its length, so that no two scopes share a text: a plain separator
/// would make one pattern `a,b` look like the two patterns `a` and `b`.
pub fn canonical_scope(scope: &Scope) -> String {
    let list = |name: &str, patterns: &[PathPattern]| {
        let mut sorted: Vec<&str> = patterns.iter().map(PathPattern::as_str).collect();
        sorted.sort_unstable();
        let entries: String =
            sorted.iter().map(|pattern| format!("{}:{pattern}\n", pattern.len())).collect();
        format!("{name} {}\n{entries}", sorted.len())
    };
    list("files-whitelist", scope.files_whitelist.get())
        + &list("files-denylist", scope.files_denylist.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Source;
    use crate::task::Task;

    fn scope(white: &[&str], deny: &[&str]) -> Scope {
        let text = format!(
            "[task]\nrole = \"x\"\n[scope]\nfiles-whitelist = {white:?}\nfiles-denylist = {deny:?}\n"
        );
        Task::parse(&Source::new("t", text)).unwrap().scope
    }

    #[test]
    fn example_of_the_kei_tools_round_trips() {
        let text = "edit-local::NG-FW-FD-CP-CG-TG-ND-RF::A7B2::C9F1-xa7c";
        let dna = Dna::parse(text).unwrap();
        assert_eq!(dna.to_string(), text);
        let names: Vec<_> = dna.capabilities.iter().filter_map(|code| code.capability()).collect();
        assert_eq!(names.first().unwrap().to_string(), "policy::no-git-ops");
        assert_eq!(names.len(), 8);
    }

    #[test]
    fn comma_in_a_pattern_does_not_split_it() {
        let one = canonical_scope(&scope(&["a,b"], &[]));
        assert_ne!(one, canonical_scope(&scope(&["a", "b"], &[])));
        assert_ne!(one, canonical_scope(&scope(&[], &["a,b"])));
        let either = canonical_scope(&scope(&["x", "y"], &[]));
        assert_eq!(either, canonical_scope(&scope(&["y", "x"], &[])));
    }

    #[test]
    fn unknown_capability_has_a_placeholder_code() {
        let own = CapabilityName::parse("quality::house-style").unwrap();
        assert_eq!(Code::of(&own).to_string(), "??");
        let old = CapabilityName::parse("tools::read-only").unwrap();
        assert_eq!(Code::of(&old).to_string(), "DT");
    }

    #[test]
    fn codes_are_unique() {
        for (index, (name, code)) in CODES.iter().enumerate() {
            assert!(
                CODES[..index]
                    .iter()
                    .all(|(other, other_code)| other_code != code && other != name)
            );
            assert_eq!(Code::parse(code).unwrap().capability().unwrap().to_string(), *name);
        }
    }

    #[test]
    fn invalid_dna_is_refused() {
        for bad in [
            "",
            "x",
            "x::NG::A7B2::C9F1",
            "X::NG::A7B2::C9F1-xa7c",
            "x::N::A7B2::C9F1-xa7c",
            "x::ng::A7B2::C9F1-xa7c",
            "x::NG::a7b2::C9F1-xa7c",
            "x::NG::A7B::C9F1-xa7c",
            "x::NG::A7B2::C9F1-xa",
            "x::NG-::A7B2::C9F1-xa7c",
            "x::NG::A7B2::C9F1-xa7c::more",
        ] {
            assert!(Dna::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
