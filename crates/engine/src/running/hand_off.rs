//! Handing an issue to the next agent: the last line of what a run says names it, and its task says whom it may name.

use bailiwick_model::AgentId;
use bailiwick_model::event::EventKind;
use bailiwick_model::template::AgentType;

use crate::context::Context;
use crate::delegating::may_name;
use crate::failure::Failure;

/// Before the name of the next agent.
const KEY: &str = "next_agent:";

/// The hand-off that a run requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HandOff {
    Nobody,
    To(String),
    /// It named an agent that it must not hand off to.
    Refused {
        name: String,
        why: String,
    },
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
pub(super) fn of_run(
    context: &Context,
    run: &AgentId,
    since: u64,
    allowed: &[String],
    own: &str,
) -> Result<HandOff, Failure> {
    let messages =
        context.with_store(async |store| Ok(store.events_of_kind(run, "text", 20).await?))?;
    let last = messages.into_iter().rev().find_map(|event| {
        let EventKind::Text { text } = event.what else { return None };
        (event.agent.is_none() && event.at >= since).then_some(text)
    });
    Ok(last.map_or(HandOff::Nobody, |text| decide(&text, allowed, own)))
}

fn decide(answer: &str, allowed: &[String], own: &str) -> HandOff {
    let last = answer.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    // Programs like to set names in code.
    let Some(name) = last.trim_matches('`').strip_prefix(KEY) else { return HandOff::Nobody };
    let name: String = name.trim().trim_matches('`').chars().take(100).collect();
    let refused = |why: String| HandOff::Refused { name: name.clone(), why };
    let Ok(parsed) = AgentType::parse(&name) else {
        return refused("it is not the name of an agent".to_owned());
    };
    if parsed.as_str() == own {
        return refused("an agent cannot hand an issue to itself".to_owned());
    }
    if !may_name(allowed, &parsed) {
        let allowed = if allowed.is_empty() { "nobody".to_owned() } else { allowed.join(", ") };
        return refused(format!("its allowed-subagents are: {allowed}"));
    }
    HandOff::To(parsed.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{HandOff, decide};

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
