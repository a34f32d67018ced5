//! The comment that a run leaves: Markdown for people, and a footer for programs.

use std::fmt::Write as _;

use serde_json::Value;
use thiserror::Error;

use crate::event::{Event, FooterError, events_of, footer, without_footers};

const ACTION: &str = "### Action Taken";
const RESULT: &str = "### Result";
const NEXT: &str = "### Next Decision";
const CASCADE: &str = "### Cascade Log";
const CHANGES: &str = "### State Changes";
const SECTIONS: [&str; 5] = [ACTION, RESULT, NEXT, CASCADE, CHANGES];

/// What a run says about itself. Agent, budget, cascade and state changes are in the event.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultComment {
    pub phase: String,
    /// One paragraph or more, without surrounding space.
    pub action: String,
    pub result: Value,
    /// Why the next agent of the event should work next, or why nobody does.
    pub rationale: Option<String>,
    pub event: Event,
}

/// Why a comment is not the result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CommentError {
    #[error("the comment has no heading of the protocol")]
    NoHeading,
    #[error("the comment has no section `{0}`")]
    NoSection(&'static str),
    #[error("the result is not JSON: {0}")]
    Result(String),
    #[error("the comment has {0} events instead of one")]
    Events(usize),
    #[error(transparent)]
    Footer(#[from] FooterError),
}

impl ResultComment {
    /// The text, with nothing in it that could be taken for another section or footer.
    pub fn render(&self) -> String {
        let event = &self.event;
        let mut text = format!(
            "## 🔄 {} | phase:{} | depth:{}\n\n**Event Types**: {}\n",
            inline(&event.agent),
            inline(&self.phase),
            event.depth.unwrap_or_default(),
            event.kind.as_str()
        );
        let name = |name: &Option<String>| inline(name.as_deref().unwrap_or("none"));
        let _ = writeln!(
            text,
            "**Parent**: {}\n**Invocation**: {}",
            name(&event.parent_id),
            name(&event.invocation_id)
        );
        if let Some(budget) = event.budget {
            let _ = writeln!(
                text,
                "**Budget**: {} → {} → {}",
                budget.before, budget.consumed, budget.remaining
            );
        }
        let result = serde_json::to_string_pretty(&self.result).unwrap_or_default();
        let result = result.replace('<', "\\u003c").replace('>', "\\u003e");
        let _ = write!(
            text,
            "\n{ACTION}\n{}\n\n{RESULT}\n```json\n{result}\n```\n",
            escape(&self.action)
        );
        if event.next_agent.is_some() || self.rationale.is_some() {
            let next = event.next_agent.as_deref().map(|agent| format!("@{}", inline(agent)));
            let next = next.unwrap_or_else(|| "none".to_owned());
            let _ = write!(text, "\n{NEXT}\nRecommended next: {next}\n");
            if let Some(tokens) = event.estimated_next_tokens {
                let _ = writeln!(text, "Estimated tokens: {tokens}");
            }
            if let Some(budget) = event.budget {
                let _ = writeln!(text, "Budget remaining: {}", budget.remaining);
            }
            if let Some(rationale) = &self.rationale {
                let _ = writeln!(text, "Rationale: {}", escape(rationale));
            }
        }
        if !event.cascade_log.is_empty() {
            let _ = write!(
                text,
                "\n{CASCADE}\n| Agent | Task | Result | Tokens | Verdict |\n|---|---|---|---|---|\n"
            );
            for row in &event.cascade_log {
                let result = row.result.as_deref().unwrap_or_default();
                let cells =
                    [&row.agent, &row.task, result].map(|cell| inline(cell).replace('|', "\\|"));
                let _ = writeln!(
                    text,
                    "| {} | {} | {} |",
                    cells.join(" | "),
                    row.tokens,
                    inline(&row.verdict)
                );
            }
        }
        let changes = &event.state_changes;
        let list = |labels: &[String]| inline(&labels.join(", "));
        let _ = write!(
            text,
            "\n{CHANGES}\n- Labels add: {}\n- Labels remove: {}\n- Assignee: {}\n- Milestone: {}\n\n{}\n",
            list(&changes.labels_add),
            list(&changes.labels_remove),
            name(&changes.assignee),
            changes.milestone.map_or_else(|| "none".to_owned(), |id| id.to_string()),
            footer(event)
        );
        text
    }

    /// Reads what [`ResultComment::render`] wrote.
    pub fn parse(body: &str) -> Result<Self, CommentError> {
        let mut events = events_of(body);
        let event = match (events.pop(), events.len()) {
            (Some(event), 0) => event?,
            (None, _) => return Err(CommentError::Events(0)),
            (Some(_), more) => return Err(CommentError::Events(more + 1)),
        };
        let text = without_footers(body);
        let heading = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("## 🔄 "))
            .ok_or(CommentError::NoHeading)?;
        let phase = heading
            .split(" | ")
            .find_map(|part| part.strip_prefix("phase:"))
            .ok_or(CommentError::NoHeading)?;
        let action = section(text, ACTION).ok_or(CommentError::NoSection(ACTION))?;
        let result = section(text, RESULT).ok_or(CommentError::NoSection(RESULT))?;
        let result =
            result.trim().strip_prefix("```json").and_then(|text| text.strip_suffix("```"));
        let result = serde_json::from_str(result.unwrap_or_default())
            .map_err(|error| CommentError::Result(error.to_string()))?;
        let next = section(text, NEXT).and_then(|text| Some(text.split_once("\nRationale: ")?.1));
        Ok(Self {
            phase: phase.to_owned(),
            action: unescape(action.trim()),
            result,
            rationale: next.map(|text| unescape(text.trim())),
            event,
        })
    }
}

/// The text below a heading, up to the next one of ours.
fn section<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let mut start = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let name = line.trim_end();
        match start {
            None if name == heading => start = Some(at + line.len()),
            Some(start) if SECTIONS.contains(&name) => return text.get(start..at),
            None | Some(_) => {}
        }
        at += line.len();
    }
    text.get(start?..)
}

/// Text of others: no line of it is one of our headings, and no HTML comment begins in it.
fn escape(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.replace("<\\", "<\\\\").replace("<!", "<\\!");
        let is_ours = line.starts_with('\\') || SECTIONS.contains(&line.trim_end());
        if is_ours { format!("\\{line}") } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn unescape(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.strip_prefix('\\').unwrap_or(line);
        line.replace("<\\!", "<!").replace("<\\\\", "<\\")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Text of others in one line.
fn inline(text: &str) -> String {
    let one = text.split_whitespace().collect::<Vec<_>>().join(" ");
    one.replace("<!", "<\\!")
}
