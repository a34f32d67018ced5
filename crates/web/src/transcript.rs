//! Turns events into the rows of a transcript: each tool call beside its decision and its result.

use std::collections::BTreeMap;

use bailiwick_model::Event;
use bailiwick_model::event::{Answer, EventKind, FileChange, Phase};
use bailiwick_resources::Moment;
use serde_json::Value;

use crate::text::{MAX_SHOWN, Time, line, number, shortened, visible};

/// How much of a tool call is shown before it is opened.
const MAX_SUBJECT: usize = 300;
const MAX_AGENT_NAME: usize = 12;
const MAX_SUMMARY: usize = 160;

/// A row of the transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The number of its first event; it identifies the row.
    pub(crate) first: u64,
    /// The number of its last event.
    pub(crate) last: u64,
    later: Vec<u64>,
    pub(crate) at: Time,
    /// The sub-agent.
    pub(crate) agent: Option<String>,
    pub(crate) content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// Words of the model.
    Text(Body),
    Thinking(Body),
    Call(Box<Call>),
    /// A person's message or answer.
    Person {
        label: &'static str,
        body: Body,
    },
    /// A short line: a phase, a turn, a changed file.
    Note {
        label: &'static str,
        text: String,
    },
    /// A line that needs attention.
    Problem {
        label: &'static str,
        body: Body,
    },
    /// A line that says that something is as it should be.
    Good {
        label: &'static str,
        body: Body,
    },
}

/// A text and how many characters of it are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) text: String,
    pub(crate) left_out: usize,
}

impl Body {
    fn new(text: &str) -> Self {
        let (text, left_out) = shortened(text, MAX_SHOWN);
        Self { text, left_out }
    }
}

/// A tool call with what was decided and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) tool: String,
    /// The command or the files.
    pub(crate) subject: String,
    pub(crate) input: Option<Body>,
    pub(crate) decision: Option<Decision>,
    pub(crate) result: Option<CallResult>,
}

impl Call {
    pub(crate) fn is_denied(&self) -> bool {
        self.decision.as_ref().is_some_and(|decision| !decision.is_allowed)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) is_allowed: bool,
    pub(crate) rule: String,
    pub(crate) reason: String,
    pub(crate) event: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallResult {
    pub(crate) is_ok: bool,
    pub(crate) output: Body,
}

/// The rows of these events.
pub(crate) fn rows(events: &[Event], worktree: &str, now: Moment) -> Vec<Row> {
    let root = format!("{}/", worktree.trim_end_matches('/'));
    let mut builder = Builder { rows: Vec::new(), calls: BTreeMap::new(), root, now };
    events.iter().for_each(|event| builder.add(event));
    builder.rows
}

impl Row {
    /// The later events of the row: a link to one of them leads to the row.
    pub(crate) fn later(&self) -> &[u64] {
        &self.later
    }

    /// The row in a few words.
    pub(crate) fn summary(&self) -> String {
        let text = match &self.content {
            Content::Text(body) => body.text.clone(),
            Content::Thinking(_) => "thought".to_owned(),
            Content::Call(call) => {
                let verdict = if call.is_denied() { " (denied)" } else { "" };
                format!("{} {}{verdict}", call.tool, call.subject)
            }
            Content::Note { label, text } => format!("{label} {text}"),
            Content::Person { label, body }
            | Content::Problem { label, body }
            | Content::Good { label, body } => format!("{label}: {}", body.text),
        };
        line(&text, MAX_SUMMARY)
    }
}

struct Builder {
    rows: Vec<Row>,
    /// The row of each call.
    calls: BTreeMap<String, usize>,
    /// The worktree with a slash: paths in it are shown without it.
    root: String,
    now: Moment,
}

impl Builder {
    fn push(&mut self, event: &Event, content: Content) {
        self.rows.push(Row {
            first: event.number,
            last: event.number,
            later: Vec::new(),
            at: Time::new(Moment::from_millis(event.at), self.now),
            agent: event.agent.as_deref().map(|agent| line(agent, MAX_AGENT_NAME)),
            content,
        });
    }

    /// The call with this ID, if its row is here; the row then ends with this event.
    fn call(&mut self, event: &Event, id: Option<&String>) -> Option<&mut Call> {
        let row = self.rows.get_mut(*self.calls.get(id?)?)?;
        row.last = event.number;
        row.later.push(event.number);
        match &mut row.content {
            Content::Call(call) => Some(call),
            Content::Text(_)
            | Content::Thinking(_)
            | Content::Person { .. }
            | Content::Note { .. }
            | Content::Problem { .. }
            | Content::Good { .. } => None,
        }
    }

    fn push_call(&mut self, event: &Event, id: Option<&String>, call: Call) {
        if let Some(id) = id {
            self.calls.insert(id.clone(), self.rows.len());
        }
        self.push(event, Content::Call(Box::new(call)));
    }

    /// What a call is about, with paths as the agent's repository has them.
    fn subject(&self, text: &str) -> String {
        let is_known = self.root.len() > 1;
        line(&if is_known { text.replace(&self.root, "") } else { text.to_owned() }, MAX_SUBJECT)
    }

    fn text(&mut self, event: &Event, text: &str) {
        let content = Content::Text(Body::new(text));
        // The agent CLI and the proxy can report the same words.
        let said = self.rows.iter().rev().take(4);
        if text.trim().is_empty() || said.into_iter().any(|row| row.content == content) {
            return;
        }
        self.push(event, content);
    }

    fn add(&mut self, event: &Event) {
        match &event.what {
            EventKind::Text { text } => self.text(event, text),
            EventKind::Thinking { text } => {
                if !text.trim().is_empty() {
                    self.push(event, Content::Thinking(Body::new(text)));
                }
            }
            EventKind::ToolCall { id, tool, input } => self.tool_call(event, id, tool, input),
            EventKind::Decision { call, tool, about, answer, rule, reason } => {
                let decision = Decision {
                    is_allowed: *answer == Answer::Allow,
                    rule: visible(rule.as_deref().unwrap_or_default()),
                    reason: visible(reason.as_deref().unwrap_or_default()),
                    event: event.number,
                };
                if let Some(known) = self.call(event, call.as_ref()) {
                    known.decision = Some(decision);
                    return;
                }
                let call_view = Call {
                    tool: line(tool, MAX_SUBJECT),
                    subject: self.subject(about),
                    input: None,
                    decision: Some(decision),
                    result: None,
                };
                self.push_call(event, call.as_ref(), call_view);
            }
            EventKind::ToolResult { id, ok, output } => {
                let result = CallResult { is_ok: *ok, output: Body::new(output) };
                if let Some(known) = self.call(event, Some(id))
                    && known.result.as_ref().is_none_or(|old| old.output.text.is_empty())
                {
                    known.result = Some(result);
                }
            }
            EventKind::Phase { phase } => {
                let text = match phase {
                    Phase::Preparing => "preparing the worktree",
                    Phase::SelfTest => "proving that the gate answers",
                    Phase::Working => "the agent works",
                    Phase::Verifying => "verifying",
                    Phase::Over => "over",
                };
                self.push(event, Content::Note { label: "phase", text: text.to_owned() });
            }
            EventKind::Session { id, model } => {
                let model = model.as_deref().unwrap_or_default();
                let text = line(&format!("{id} {model}"), MAX_SUBJECT);
                self.push(event, Content::Note { label: "session", text });
            }
            EventKind::FileChange { path, change } => {
                let label = match change {
                    FileChange::Added => "added",
                    FileChange::Changed => "changed",
                    FileChange::Removed => "removed",
                    FileChange::LeftOut => "left out",
                };
                self.push(event, Content::Note { label, text: line(path, MAX_SUBJECT) });
            }
            EventKind::Mcp { server, tool, ok } => {
                let text = line(&format!("{server} {tool}"), MAX_SUBJECT);
                let label = if *ok { "MCP call" } else { "MCP call failed" };
                self.push(event, Content::Note { label, text });
            }
            EventKind::SubAgent { id, text, ended } => {
                let label = if *ended { "sub-agent ended" } else { "sub-agent started" };
                let text = line(&format!("{id}: {text}"), MAX_SUBJECT);
                self.push(event, Content::Note { label, text });
            }
            EventKind::Warning { rule, text, .. } => {
                let body = Body::new(&format!("{rule}: {text}"));
                self.push(event, Content::Problem { label: "warning", body });
            }
            EventKind::Notification { text } => {
                self.push(event, Content::Problem { label: "notification", body: Body::new(text) });
            }
            EventKind::Check { check, ok, found, .. } => {
                let body = Body::new(&format!("{check}: {found}"));
                self.push(
                    event,
                    match ok {
                        true => Content::Good { label: "check passed", body },
                        false => Content::Problem { label: "check failed", body },
                    },
                );
            }
            EventKind::Approval { about, answer, .. } => {
                let body = Body::new(about);
                self.push(
                    event,
                    match answer {
                        None => Content::Problem { label: "waits for approval", body },
                        Some(Answer::Allow) => Content::Person { label: "approved", body },
                        Some(Answer::Deny) => Content::Person { label: "denied", body },
                    },
                );
            }
            EventKind::Limit { limit, used, of, spent } => {
                let body = Body::new(&format!("{limit}: {used} of {of}"));
                let label = if *spent { "budget spent" } else { "budget nearly spent" };
                self.push(event, Content::Problem { label, body });
            }
            EventKind::Message { text } => {
                let body = Body::new(text);
                self.push(event, Content::Person { label: "message to the agent", body });
            }
            EventKind::Error { message } => {
                self.push(event, Content::Problem { label: "error", body: Body::new(message) });
            }
            EventKind::Ended { how, detail } => {
                let body = match detail.trim() {
                    "" => Body::new(&how.to_string()),
                    detail => Body::new(&format!("{how}: {detail}")),
                };
                self.push(event, Content::Good { label: "ended", body });
            }
            EventKind::Turn { turn } => {
                self.push(event, Content::Note { label: "turn", text: number(*turn) });
            }
            EventKind::Usage(_)
            | EventKind::Announced
            | EventKind::Command { .. }
            | EventKind::Other => {}
        }
    }

    fn tool_call(&mut self, event: &Event, id: &String, tool: &str, input: &Value) {
        // The agent CLI and the proxy can report the same call.
        if self.calls.contains_key(id) {
            return;
        }
        let pretty = serde_json::to_string_pretty(input).unwrap_or_default();
        let call = Call {
            tool: line(tool, MAX_SUBJECT),
            subject: self.subject(main_field(input)),
            input: Some(Body::new(&pretty)),
            decision: None,
            result: None,
        };
        self.push_call(event, Some(id), call);
    }
}

/// The field of an input that says most.
fn main_field(input: &Value) -> &str {
    let fields = ["command", "file_path", "path", "pattern", "url", "query", "prompt"];
    fields.iter().find_map(|field| input.get(field)?.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use bailiwick_model::event::ReportedBy;
    use serde_json::json;

    use super::*;

    fn event(number: u64, what: EventKind) -> Event {
        let reported_by = ReportedBy::Gate;
        Event { number, at: number, reported_by, agent: None, what, raw: None }
    }

    fn call(number: u64, id: &str) -> Event {
        let input = json!({ "command": "git push" });
        event(number, EventKind::ToolCall { id: id.to_owned(), tool: "Bash".to_owned(), input })
    }

    fn decision(number: u64, id: &str) -> Event {
        event(
            number,
            EventKind::Decision {
                call: Some(id.to_owned()),
                tool: "Bash".to_owned(),
                about: "git push".to_owned(),
                answer: Answer::Deny,
                rule: Some("policy::no-git-ops".to_owned()),
                reason: Some("no".to_owned()),
            },
        )
    }

    #[test]
    fn call_is_one_row_with_its_decision_and_result() {
        let result =
            EventKind::ToolResult { id: "1".to_owned(), ok: false, output: "denied".to_owned() };
        let rows = rows(
            &[call(1, "1"), decision(2, "1"), event(3, result)],
            "/tree",
            Moment::from_millis(9),
        );
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].first, rows[0].last), (1, 3));
        assert_eq!(rows[0].later(), [2, 3], "links to later events lead to the row");
        let Content::Call(call) = &rows[0].content else { panic!("{rows:?}") };
        assert_eq!(call.decision.as_ref().unwrap().rule, "policy::no-git-ops");
        assert!(!call.decision.as_ref().unwrap().is_allowed);
        assert_eq!(call.result.as_ref().unwrap().output.text, "denied");
        assert_eq!(call.subject, "git push");
    }

    #[test]
    fn decision_without_its_call_has_its_own_row() {
        let rows = rows(&[decision(2, "1")], "/tree", Moment::from_millis(9));
        assert_eq!(rows.len(), 1);
        assert!(matches!(&rows[0].content, Content::Call(call) if call.input.is_none()));
    }

    #[test]
    fn text_that_two_sources_report_is_shown_once() {
        let text_event = |number| event(number, EventKind::Text { text: "done".to_owned() });
        assert_eq!(rows(&[text_event(1), text_event(2)], "", Moment::from_millis(9)).len(), 1);
    }

    #[test]
    fn worktree_paths_are_shown_relative() {
        let input = json!({ "file_path": "/tree/src/a.rs" });
        let tool = "Read".to_owned();
        let read = event(1, EventKind::ToolCall { id: "1".to_owned(), tool, input });
        let rows = rows(&[read], "/tree", Moment::from_millis(9));
        let Content::Call(call) = &rows[0].content else { panic!("{rows:?}") };
        assert_eq!(call.subject, "src/a.rs");
        assert!(call.input.as_ref().unwrap().text.contains("/tree/src/a.rs"), "unchanged");
    }
}
