//! Rules for the texts of labels: agents read them, so they must be plain text.

use std::sync::LazyLock;

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{AgentContextLabel, LabelRef, LabelSource, Object, Reason};
use regex::Regex;

use super::redact::{RedactionRules, Redactor};
use crate::wildcards;

/// A pattern that is not allowed: what a text with it does, how that is classified, and the pattern.
const RULES: [(&str, Breach, &str); 9] = [
    (
        "refers to a secret",
        Breach::NotPlain,
        r"(?i)\$\{\{?\s*secrets?\b|\bsecret(?:Key)?Ref\b|/run/secrets\b|\bvalueFrom\b",
    ),
    ("is a template of its own", Breach::NotPlain, r"\{\{|\{%|\$\{"),
    (
        "grants tools",
        Breach::NotPlain,
        r"(?i)\ballowed[_-]?tools\b|\bnativeTools\b|\btool(?:Policy|ProfileRef)\b|--dangerously|\b(?:may|can|allowed to) use (?:any|all|every) tools?\b",
    ),
    (
        "grants permissions",
        Breach::NotPlain,
        r"(?i)\bpermission(?:Mode|Refs|s)\s*[:=]|bypass ?permissions|\broleBindings?\s*:",
    ),
    (
        "changes who is asked",
        Breach::NotPlain,
        r"(?i)\bapproval(?:Mode|Policy)\b|\bauto-?approve|\bwithout (?:asking|approval)\b|\bskip (?:the |any )?approvals?\b|--yolo\b|\byolo mode\b",
    ),
    (
        "chooses where it runs",
        Breach::NotPlain,
        r"(?i)\brunner_?Pool\b|\bserviceAccount(?:Ref|Name)?\b",
    ),
    (
        "hides text in a comment",
        Breach::HidesText,
        r"(?s)<!--|\[//\]:\s*#|<\s*(?:script|style|template)\b",
    ),
    (
        "hides text by its looks",
        Breach::HidesText,
        r"(?i)(?:display\s*:\s*none|font-size\s*:\s*0|color\s*:\s*(?:white|transparent))",
    ),
    (
        "overrides its instructions",
        Breach::NotPlain,
        r"(?i)\b(?:ignore|disregard|forget) (?:all |any |the )?(?:previous|prior|earlier|above) (?:instructions|rules|prompts?)\b",
    ),
];

type CompiledRule = (&'static str, Breach, Regex);

static COMPILED: LazyLock<Result<Vec<CompiledRule>, regex::Error>> = LazyLock::new(|| {
    let compile = |(name, breach, pattern): &(&'static str, Breach, &str)| {
        Regex::new(pattern).map(|regex| (*name, *breach, regex))
    };
    RULES.iter().map(compile).collect()
});

/// How a text breaks the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breach {
    /// People who review the text do not see all of it.
    HidesText,
    /// It grants, overrides or contains what a plain text may not, or it cannot be checked.
    NotPlain,
}

/// Something in a text that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsafePattern {
    /// How it breaks the rules.
    pub breach: Breach,
    /// The problem, as the rest of a sentence.
    pub text: String,
}

/// Unsafe patterns in a text; none if it is plain.
pub fn unsafe_patterns(text: &str) -> Vec<UnsafePattern> {
    let mut found = Vec::new();
    if let Some(c) = text.chars().find(|c| is_invisible(*c)) {
        let text = format!("hides text: it has the character U+{:04X}", u32::from(c));
        found.push(UnsafePattern { breach: Breach::HidesText, text });
    }
    match COMPILED.as_ref() {
        Ok(rules) => {
            let broken = rules.iter().filter(|(.., pattern)| pattern.is_match(text));
            found.extend(broken.map(|(name, breach, _)| UnsafePattern {
                breach: *breach,
                text: (*name).to_owned(),
            }));
        }
        Err(why) => found.push(not_plain(format!("cannot be checked: {why}"))),
    }
    match Redactor::new(&RedactionRules::default()) {
        Ok(redactor) if redactor.redact(text).counts.is_empty() => {}
        Ok(_) => found.push(not_plain("has a secret in it".to_owned())),
        Err(error) => found.push(not_plain(format!("cannot be checked: {error}"))),
    }
    found
}

fn not_plain(text: String) -> UnsafePattern {
    UnsafePattern { breach: Breach::NotPlain, text }
}

/// Invisible characters: zero widths, directions, tags, controls.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    ) || (c.is_control() && !matches!(c, '\n' | '\t'))
}

/// Why a label cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelFault {
    pub label: String,
    /// Why, for programs.
    pub reason: Reason,
    /// Why, for people.
    pub message: String,
}

/// Whether the text of a label must be reviewed before it is used, and was not: a review is of one text.
pub fn awaits_review(label: &AgentContextLabel) -> bool {
    let digest = Sha256Hex::of(&label.prompt_fragment).to_string();
    let is_reviewed =
        label.reviewed_by.is_some() && label.reviewed_digest.as_deref() == Some(digest.as_str());
    label.requires_review && !is_reviewed
}

/// Why this label cannot be used for this stack in this repository and for this source. Without a repository or a
/// source, those are not checked.
pub fn label_faults(
    label: &Object<AgentContextLabel>,
    asked: &LabelRef,
    stack: &str,
    repository: Option<&str>,
    source: Option<LabelSource>,
) -> Vec<LabelFault> {
    let mut faults = Vec::new();
    let name = label.name().to_owned();
    let mut fault = |reason, message: String| {
        faults.push(LabelFault { label: name.clone(), reason, message });
    };
    let spec = &label.spec;
    let digest = Sha256Hex::of(&spec.prompt_fragment).to_string();
    if asked.digest.as_ref().is_some_and(|pinned| *pinned != digest) {
        fault(Reason::StaleContextLabel, "its text changed after it was pinned".to_owned());
    }
    for pattern in unsafe_patterns(&spec.prompt_fragment) {
        fault(Reason::UnsafeInjectionToken, format!("its text {}", pattern.text));
    }
    if awaits_review(spec) {
        fault(Reason::ContextLabelNotReviewed, "this text is not reviewed".to_owned());
    }
    if !spec.allowed_stacks.is_empty() && !spec.allowed_stacks.iter().any(|name| name == stack) {
        fault(Reason::ContextLabelNotReviewed, format!("it is not for the stack `{stack}`"));
    }
    if let Some(repository) = repository
        && !spec.allowed_repositories.is_empty()
        && !wildcards::any(&spec.allowed_repositories, repository)
    {
        fault(Reason::ContextLabelNotReviewed, format!("it is not for `{repository}`"));
    }
    if let Some(source) = source
        && !spec.allowed_sources.contains(&source)
    {
        let message = format!("it is not for work about {source:?}");
        fault(Reason::ContextLabelNotReviewed, message);
    }
    faults
}
