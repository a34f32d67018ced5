//! Handing an issue to the next agent: the last line of what a run says names it, and its task says whom it may name.

use bailiwick_fleet::write_back::calling_nobody;
use bailiwick_model::AgentId;
use bailiwick_model::event::EventKind;
use bailiwick_model::secret::redacted;
use bailiwick_model::template::AgentType;
use thiserror::Error;

use crate::context::Context;
use crate::delegating::may_name;
use crate::failure::Failure;

/// Before the name of the next agent.
const KEY: &str = "next_agent:";
/// The longest reason for a decision, in characters.
const MAX_RATIONALE: usize = 500;
/// The longest message that an issue gets, in characters.
const MAX_MESSAGE: usize = 4_000;

/// The hand-off that a run requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HandOff {
    Nobody,
    To(String),
    /// It named an agent that it must not hand off to.
    Refused {
        name: String,
        why: HandOffRefusal,
    },
}

/// Why a run cannot hand its issue to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum HandOffRefusal {
    #[error("it is not the name of an agent")]
    NotAName,
    #[error("an agent cannot hand an issue to itself")]
    Itself,
    /// A limit of its task.
    #[error("its allowed-subagents are: {0}")]
    NotAllowed(String),
}

/// The instructions about hand-offs; `None` if it may not name an agent.
pub(super) fn instructions(allowed: &[String]) -> Option<String> {
    (!allowed.is_empty()).then(|| {
        format!(
            "\nIf another agent must continue with this issue, end your answer with the line `{KEY} NAME`. NAME is one \
             of: {}.\n",
            allowed.join(", ")
        )
    })
}

/// The last message of a run after a time in milliseconds since 1970.
pub(super) fn last_message(
    context: &Context,
    run: &AgentId,
    since: u64,
) -> Result<Option<String>, Failure> {
    let messages =
        context.with_store(async |store| Ok(store.events_of_kind(run, "text", 20).await?))?;
    Ok(messages.into_iter().rev().find_map(|event| {
        let EventKind::Text { text } = event.what else { return None };
        (event.agent.is_none() && event.at >= since).then_some(text)
    }))
}

/// The reasons that a message ends with, in one paragraph that mentions nobody: its end without the name of the next
/// agent. `None` if nothing else was said.
pub(super) fn rationale(message: &str) -> Option<String> {
    let text = message.trim_end();
    let (before, last) = text.rsplit_once('\n').unwrap_or(("", text));
    let text = if names_next(last) { before } else { text };
    let text = redacted(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    let length = text.chars().count();
    let end: String = text.chars().skip(length.saturating_sub(MAX_RATIONALE)).collect();
    let end = if end.len() < text.len() { format!("… {end}") } else { end };
    (!end.is_empty()).then(|| calling_nobody(&end))
}

/// A message for the issue: without secrets, and cut.
pub(super) fn shown(message: &str) -> String {
    let text = redacted(message.trim());
    let mut shown: String = text.chars().take(MAX_MESSAGE).collect();
    if shown.len() < text.len() {
        shown.push_str("\n[cut here]");
    }
    shown
}

/// Whether a line names the next agent. Programs like to set names in code.
fn names_next(line: &str) -> bool {
    line.trim().trim_matches('`').starts_with(KEY)
}

/// The hand-off that a message requests.
pub(super) fn decide(answer: &str, allowed: &[String], own: &str) -> HandOff {
    let last = answer.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let Some(name) = last.trim_matches('`').strip_prefix(KEY) else { return HandOff::Nobody };
    let name: String = name.trim().trim_matches('`').chars().take(100).collect();
    let refused = |why| HandOff::Refused { name: name.clone(), why };
    let Ok(parsed) = AgentType::parse(&name) else {
        return refused(HandOffRefusal::NotAName);
    };
    if parsed.as_str() == own {
        return refused(HandOffRefusal::Itself);
    }
    if !may_name(allowed, &parsed) {
        let allowed = if allowed.is_empty() { "nobody".to_owned() } else { allowed.join(", ") };
        return refused(HandOffRefusal::NotAllowed(allowed));
    }
    HandOff::To(parsed.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{HandOff, MAX_MESSAGE, MAX_RATIONALE, decide, rationale, shown};

    #[test]
    fn rationale_is_the_end_of_the_message_without_names_and_secrets() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let message =
            format!("Start.\n\nThe parser is done, {token}\nask @ada.\nnext_agent: reviewer");
        let reason = rationale(&message).unwrap();
        assert!(reason.starts_with("Start. The parser is done,"), "{reason}");
        assert!(reason.ends_with("ask @\u{200b}ada."), "{reason}");
        assert!(!reason.contains(&token) && !reason.contains("next_agent"), "{reason}");
        assert_eq!(rationale("`next_agent: reviewer`"), None);
        assert_eq!(rationale("  "), None);
        let long = rationale(&format!("{} end", "word ".repeat(500))).unwrap();
        assert!(long.starts_with("… ") && long.ends_with(" end"), "{long}");
        assert_eq!(long.chars().count(), MAX_RATIONALE + 2);
    }

    #[test]
    fn message_for_the_issue_is_cut_and_has_no_secret() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        assert_eq!(shown(" Done. "), "Done.");
        assert!(!shown(&format!("It is {token}")).contains(&token));
        let long = shown(&"é".repeat(MAX_MESSAGE + 1));
        assert_eq!(long, format!("{}\n[cut here]", "é".repeat(MAX_MESSAGE)));
        // A token that begins before the place where it is cut.
        let crossing = format!("{}{token}", "x ".repeat(MAX_MESSAGE / 2 - 4));
        assert!(!shown(&crossing).contains("ghp_"), "{}", shown(&crossing));
    }

    #[test]
    fn last_line_names_the_next_agent_if_the_task_allows_it() {
        let allowed = ["reviewer".to_owned(), "build-*".to_owned()];
        let to = |name: &str| HandOff::To(name.to_owned());
        let decided = |answer: &str| decide(answer, &allowed, "orchestrator");
        assert_eq!(decided("Done.\n\nnext_agent: reviewer\n"), to("reviewer"));
        assert_eq!(decided("`next_agent: build-api`"), to("build-api"));
        assert_eq!(decided("Done."), HandOff::Nobody);
        // Only the last line counts, because an agent may quote its instructions.
        assert_eq!(decided("next_agent: reviewer\nDone."), HandOff::Nobody);
        for answer in
            ["next_agent: deployer", "next_agent: ../x", "next_agent:", "next_agent: orchestrator"]
        {
            assert!(matches!(decided(answer), HandOff::Refused { .. }), "{answer}");
        }
        assert!(matches!(decide("next_agent: reviewer", &[], "x"), HandOff::Refused { .. }));
    }
}
