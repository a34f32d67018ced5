//! Finds events of an agent: by what people look for, and by text.

use bailiwick_fleet::ports::{LocalEventFilter, LocalEventQuery, LocalRunError, LocalRunEvents};
use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::event::{Answer, EventKind};
use bailiwick_model::{Event, Run};
use serde_json::Value;

use super::{LedgerRuns, store_error};

/// How many events are read at once.
const CHUNK_SIZE: u32 = 1_000;
/// How many events one search examines; then it says where to continue.
const MAX_EXAMINED: usize = 20_000;

impl LedgerRuns {
    pub(super) fn find_events(
        &self,
        run: &Run,
        query: &LocalEventQuery,
    ) -> Result<LocalRunEvents, LocalRunError> {
        let ended = !self.directory(run).is_supervised().unwrap_or(false);
        let text = query.text.to_lowercase();
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let read = self.open()?.with(async |store| {
            let (mut found, mut after, mut examined) = (Vec::new(), query.after, 0);
            let next = loop {
                let chunk = store.run_events(&run.id, after, CHUNK_SIZE).await?;
                if chunk.is_empty() {
                    break None;
                }
                examined += chunk.len();
                for event in chunk {
                    if found.len() == limit {
                        break;
                    }
                    after = event.number;
                    if matches(&event, query.filter, &text) {
                        found.push(event);
                    }
                }
                if found.len() == limit || examined >= MAX_EXAMINED {
                    break Some(after);
                }
            };
            Ok::<_, StoreError>((found, next, store.last_event(&run.id).await?))
        });
        let (mut events, next, last) = read.map_err(store_error)?;
        events.iter_mut().for_each(|event| event.raw = None);
        Ok(LocalRunEvents { events, last, ended, next: next.filter(|next| *next < last) })
    }
}

fn matches(event: &Event, filter: Option<LocalEventFilter>, text: &str) -> bool {
    if filter.is_some_and(|filter| !is_of(&event.what, filter)) {
        return false;
    }
    let has_match = || serde_json::to_value(&event.what).is_ok_and(|value| has_text(&value, text));
    text.is_empty() || has_match()
}

/// Whether a text is in any text of a value; names of fields do not count.
fn has_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(one) => one.to_lowercase().contains(text),
        Value::Array(all) => all.iter().any(|one| has_text(one, text)),
        Value::Object(all) => all.values().any(|one| has_text(one, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn is_of(event: &EventKind, filter: LocalEventFilter) -> bool {
    let has_input = |names: &[&str]| {
        matches!(event, EventKind::ToolCall { input, .. }
            if names.iter().any(|name| input.get(name).is_some()))
    };
    match filter {
        LocalEventFilter::Denied => {
            matches!(event, EventKind::Decision { answer: Answer::Deny, .. })
        }
        LocalEventFilter::Writes => {
            matches!(event, EventKind::FileChange { .. })
                || has_input(&["content", "new_string", "edits", "patch"])
        }
        LocalEventFilter::Commands => {
            matches!(event, EventKind::Command { .. }) || has_input(&["command"])
        }
        LocalEventFilter::Errors => matches!(
            event,
            EventKind::Error { .. }
                | EventKind::Warning { .. }
                | EventKind::ToolResult { ok: false, .. }
                | EventKind::Check { ok: false, .. }
                | EventKind::Mcp { ok: false, .. }
                | EventKind::Limit { spent: true, .. }
        ),
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_model::event::ReportedBy;
    use serde_json::json;

    use super::*;

    fn event(what: EventKind) -> Event {
        Event { number: 1, at: 1, reported_by: ReportedBy::Gate, agent: None, what, raw: None }
    }

    #[test]
    fn each_filter_finds_its_events_and_text_ignores_case() {
        let input = json!({ "command": "git PUSH origin" });
        let call =
            event(EventKind::ToolCall { id: "1".to_owned(), tool: "Bash".to_owned(), input });
        let denied = event(EventKind::Decision {
            call: None,
            tool: "Bash".to_owned(),
            about: "git push".to_owned(),
            answer: Answer::Deny,
            rule: None,
            reason: None,
        });
        let failed =
            event(EventKind::ToolResult { id: "1".to_owned(), ok: false, output: "no".to_owned() });
        let input = json!({ "file_path": "a", "content": "b" });
        let write =
            event(EventKind::ToolCall { id: "2".to_owned(), tool: "Write".to_owned(), input });
        let all = [&call, &denied, &failed, &write];
        let found = |filter, text: &str| {
            all.map(|event| matches(event, filter, text))
                .iter()
                .map(|one| u8::from(*one))
                .collect::<Vec<_>>()
        };
        assert_eq!(found(Some(LocalEventFilter::Commands), ""), [1, 0, 0, 0]);
        assert_eq!(found(Some(LocalEventFilter::Denied), ""), [0, 1, 0, 0]);
        assert_eq!(found(Some(LocalEventFilter::Errors), ""), [0, 0, 1, 0]);
        assert_eq!(found(Some(LocalEventFilter::Writes), ""), [0, 0, 0, 1]);
        assert_eq!(found(None, "git push"), [1, 1, 0, 0]);
        assert_eq!(found(None, "file_path"), [0, 0, 0, 0], "field names are not searched");
        assert_eq!(found(None, ""), [1, 1, 1, 1]);
    }
}
