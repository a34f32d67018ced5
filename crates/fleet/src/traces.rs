//! A run as a trace of OpenTelemetry: webhook ─▶ run ─▶ attempt ─▶ tool call.
//!
//! A trace is computed from what is recorded of an ended run. Its identifiers are digests of names, so all servers compute
//! the same ones, and a trace that is sent twice is one trace. It has names and times, and no text of people, agents or
//! tools: nothing that could be a secret.

use bailiwick_model::Sha256Hex;
use bailiwick_model::secret::has_key_or_token;
use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, Moment, Object, RunPhase, WebhookDelivery,
};
use serde_json::{Value, json};

use crate::ports::RunEvent;

/// The kinds of events that begin and end a tool call.
const CALL: &str = "tool-call";
const RESULT: &str = "tool-result";

/// The longest name of a tool.
const MAX_TOOL_LENGTH: usize = 100;
/// What stands for a tool whose name is none.
const OTHER_TOOL: &str = "other";

/// What is recorded of an ended run.
#[derive(Debug, Clone)]
pub struct EndedRun {
    pub run: Object<AgentDispatchRun>,
    /// The webhook that started it.
    pub delivery: Option<Object<WebhookDelivery>>,
    pub attempts: Vec<Object<AgentDispatchAttempt>>,
    /// The events of all attempts, in order.
    pub events: Vec<RunEvent>,
}

/// A part of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSpan {
    pub id: String,
    pub parent: Option<String>,
    pub name: String,
    pub kind: SpanKind,
    pub start: Moment,
    pub end: Moment,
    pub attributes: Vec<(&'static str, String)>,
    pub outcome: SpanOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    Internal,
    /// Something arrived from another system.
    Server,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanOutcome {
    Unknown,
    Ok,
    Error,
}

fn span_id(kind: &str, name: &str) -> String {
    Sha256Hex::of(format!("bailiwick span\n{kind}\n{name}")).prefix(16).to_owned()
}

impl EndedRun {
    /// The identifier of its trace.
    pub fn trace_id(&self) -> String {
        let uid = &self.run.metadata.uid;
        Sha256Hex::of(format!("bailiwick trace\n{uid}")).prefix(32).to_owned()
    }

    /// Its spans: each after its parent.
    pub fn spans(&self) -> Vec<TraceSpan> {
        let uid = &self.run.metadata.uid;
        let (spec, status) = (&self.run.spec, &self.run.status);
        let created = self.run.metadata.creation_timestamp;
        let end = status.completed_at.or(created).unwrap_or(Moment::from_millis(0));
        let start = status.queue_entered_at.or(created).unwrap_or(end).min(end);
        let mut spans = Vec::new();
        let webhook = self.delivery.as_ref().map(|delivery| TraceSpan {
            // One delivery can start several runs: each has a trace of its own.
            id: span_id("webhook", uid),
            parent: None,
            name: format!("webhook {}", delivery.spec.event),
            kind: SpanKind::Server,
            start: delivery.spec.received_at.min(start),
            end: start,
            attributes: vec![
                ("bailiwick.delivery", delivery.name().to_owned()),
                ("bailiwick.repository", delivery.spec.repository.clone()),
            ],
            outcome: SpanOutcome::Ok,
        });
        let run = TraceSpan {
            id: span_id("run", uid),
            parent: webhook.as_ref().map(|span| span.id.clone()),
            name: "run".to_owned(),
            kind: SpanKind::Internal,
            start,
            end,
            attributes: vec![
                ("bailiwick.run", self.run.name().to_owned()),
                ("bailiwick.repository", spec.repository.clone()),
                ("bailiwick.stack", spec.agent_stack.clone()),
                ("bailiwick.phase", status.phase.as_str().to_owned()),
            ],
            outcome: match status.phase {
                RunPhase::Succeeded => SpanOutcome::Ok,
                RunPhase::Failed => SpanOutcome::Error,
                RunPhase::Pending
                | RunPhase::Queued
                | RunPhase::Running
                | RunPhase::WaitingForApproval
                | RunPhase::Cancelled => SpanOutcome::Unknown,
            },
        };
        let run_id = run.id.clone();
        spans.extend(webhook);
        spans.push(run);
        for attempt in &self.attempts {
            self.add_attempt(attempt, &run_id, (start, end), &mut spans);
        }
        spans
    }

    fn add_attempt(
        &self,
        attempt: &Object<AgentDispatchAttempt>,
        run: &str,
        (earliest, latest): (Moment, Moment),
        spans: &mut Vec<TraceSpan>,
    ) {
        let status = &attempt.status;
        let end = status.completed_at.unwrap_or(latest);
        let start = status.started_at.or(status.queue_entered_at).unwrap_or(earliest).min(end);
        let id = span_id("attempt", &attempt.metadata.uid);
        let agent = status.ledger_run_id.clone().unwrap_or_default();
        spans.push(TraceSpan {
            id: id.clone(),
            parent: Some(run.to_owned()),
            name: "attempt".to_owned(),
            kind: SpanKind::Internal,
            start,
            end,
            attributes: vec![
                ("bailiwick.attempt", attempt.name().to_owned()),
                ("bailiwick.attempt.number", attempt.spec.number.to_string()),
                ("bailiwick.agent", agent),
            ],
            outcome: SpanOutcome::Unknown,
        });
        let mine: Vec<&RunEvent> =
            self.events.iter().filter(|event| event.attempt == attempt.spec.number).collect();
        for (place, call) in mine.iter().enumerate().filter(|(_, event)| event.kind == CALL) {
            let mut later = mine.iter().skip(place + 1);
            let result = later
                .find(|event| event.kind == RESULT && event.body.get("id") == call.body.get("id"));
            let outcome = match result.and_then(|result| result.body.get("ok")) {
                Some(Value::Bool(true)) => SpanOutcome::Ok,
                Some(Value::Bool(false)) => SpanOutcome::Error,
                Some(_) | None => SpanOutcome::Unknown,
            };
            let tool = call.body.get("tool").and_then(Value::as_str).unwrap_or_default();
            let tool = tool_name(tool).to_owned();
            spans.push(TraceSpan {
                id: span_id("tool-call", &format!("{}\n{}", attempt.metadata.uid, call.cursor)),
                parent: Some(id.clone()),
                name: "tool call".to_owned(),
                kind: SpanKind::Internal,
                start: call.at,
                end: result.map_or(call.at.max(end), |result| result.at).max(call.at),
                attributes: vec![("bailiwick.tool", tool)],
                outcome,
            });
        }
    }

    /// The request of OTLP/HTTP in JSON that sends the trace.
    pub fn export_request(&self, service_version: &str) -> Value {
        let trace = self.trace_id();
        let spans: Vec<Value> = self.spans().iter().map(|span| span.to_json(&trace)).collect();
        json!({ "resourceSpans": [{
            "resource": { "attributes": [
                attribute("service.name", "bailiwick"),
                attribute("service.version", service_version),
            ] },
            "scopeSpans": [{ "scope": { "name": "bailiwick" }, "spans": spans }],
        }] })
    }
}

/// The name of a tool. An agent can write anything in its place.
fn tool_name(text: &str) -> &str {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    let is_name = (1..=MAX_TOOL_LENGTH).contains(&text.len())
        && text.bytes().all(is_plain)
        && !has_key_or_token(text);
    if is_name { text } else { OTHER_TOOL }
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

impl TraceSpan {
    /// Numbers are those of the protocol.
    fn to_json(&self, trace: &str) -> Value {
        let nanos = |moment: Moment| format!("{}000000", moment.millis());
        let attributes: Vec<Value> =
            self.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
        json!({
            "traceId": trace,
            "spanId": self.id,
            "parentSpanId": self.parent.clone().unwrap_or_default(),
            "name": self.name,
            "kind": match self.kind {
                SpanKind::Internal => 1,
                SpanKind::Server => 2,
            },
            "startTimeUnixNano": nanos(self.start),
            "endTimeUnixNano": nanos(self.end),
            "attributes": attributes,
            "status": { "code": match self.outcome {
                SpanOutcome::Unknown => 0,
                SpanOutcome::Ok => 1,
                SpanOutcome::Error => 2,
            } },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::tool_name;

    #[test]
    fn text_of_an_agent_is_not_the_name_of_a_tool() {
        for name in ["Bash", "mcp__app__read-file", "web.search:2", &"t".repeat(100)] {
            assert_eq!(tool_name(name), name);
        }
        let token = format!("ghp_{}", "a1B2".repeat(9));
        for text in ["", "cat /etc/passwd", "a\nb", "pässword", &"t".repeat(101), &token] {
            assert_eq!(tool_name(text), "other", "{text}");
        }
    }
}
