//! The questions of agents, and the answers of people.

use bailiwick_fleet::ports::{
    FleetStore, LocalAnswer, LocalAnswerRequest, LocalOutcome, LocalQuestion, LocalQuestions,
    LocalRunError, LocalToolCall, Selection,
};
use bailiwick_lifecycle::ports::StoreError;
use bailiwick_model::event::{Answer, EventKind};
use bailiwick_model::{AgentId, Event, Run, RunStatus, Sha256Hex};
use bailiwick_resources::{DEFAULT_NAMESPACE, Kind, Moment};
use bailiwick_runner::supervisor::{self, Reply, Request};
use bailiwick_store::Store;

use super::{LedgerRuns, store_error};
use crate::agent_names::shown;
use crate::agent_state::{OpenQuestion, SupervisorState};

/// How many approval events are searched for the ones that are open.
const MAX_APPROVALS: u32 = 64;
/// How many events before a question are searched for its tool call.
const EVENTS_BEFORE: u64 = 12;

impl LedgerRuns {
    /// The open questions of one run or of all. Those of the control plane's runs are approvals there.
    pub(super) fn open_questions(
        &self,
        only: Option<Run>,
    ) -> Result<LocalQuestions, LocalRunError> {
        if !self.context.database.exists() {
            return Ok(LocalQuestions::default());
        }
        let runs = match only {
            Some(run) => vec![run],
            None => {
                let list =
                    self.open()?.with(async |store| store.list(Some(RunStatus::Running)).await);
                list.map_err(store_error)?
            }
        };
        let mut items = Vec::new();
        for run in runs {
            let (_, questions) = SupervisorState::observe(&self.context, &run);
            if questions.is_empty() || self.is_managed(&run.id)? {
                continue;
            }
            items.extend(self.described(&run, questions)?);
        }
        items.sort_by(|one, other| {
            (one.asked_at, &one.run, &one.question).cmp(&(
                other.asked_at,
                &other.run,
                &other.question,
            ))
        });
        Ok(LocalQuestions { items })
    }

    fn described(
        &self,
        run: &Run,
        questions: Vec<OpenQuestion>,
    ) -> Result<Vec<LocalQuestion>, LocalRunError> {
        let approvals = self.open()?.with(async |store| {
            let approvals = store.events_of_kind(&run.id, "approval", MAX_APPROVALS).await?;
            let mut with_calls = Vec::new();
            for event in approvals {
                let from = event.number.saturating_sub(EVENTS_BEFORE + 1);
                let limit = u32::try_from(EVENTS_BEFORE).unwrap_or(u32::MAX);
                let before = store.run_events(&run.id, from, limit).await?;
                with_calls.push((event, before));
            }
            Ok::<_, StoreError>(with_calls)
        });
        let approvals = approvals.map_err(store_error)?;
        let question = |OpenQuestion { id: question, about, expires_at }: OpenQuestion| {
            let found = approvals.iter().rev().find(|(event, _)| {
                matches!(&event.what, EventKind::Approval { id, about: recorded, answer: None }
                    if *id == question && *recorded == about)
            });
            let call = found.and_then(|(_, before)| call_before(&about, before));
            LocalQuestion {
                rule: call.as_ref().and_then(|call| self.asking_rule(run, call)),
                run: run.id.to_string(),
                name: run.name.to_string(),
                repository: run
                    .repository
                    .as_deref()
                    .map(|place| shown(Some(place)))
                    .unwrap_or_default(),
                question,
                about,
                asked_at: found.map(|(event, _)| Moment::from_millis(event.at)),
                event: found.map(|(event, _)| event.number),
                expires_at,
                call,
            }
        };
        Ok(questions.into_iter().map(question).collect())
    }

    /// Whether the control plane answers for an agent: it is an attempt of it, or was started by one.
    pub(super) fn is_managed(&self, agent: &AgentId) -> Result<bool, LocalRunError> {
        let unavailable = |why: String| LocalRunError::Unavailable(why);
        self.open()?.with(async |store| {
            let above = store.ancestor_ids(Some(agent)).await.map_err(store_error)?;
            for one in std::iter::once(agent).chain(above.iter()) {
                if is_attempt(store, one).await.map_err(|error| unavailable(error.to_string()))? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    pub(super) fn answer_question(
        &self,
        run: &Run,
        question: &str,
        request: &LocalAnswerRequest,
    ) -> Result<LocalOutcome, LocalRunError> {
        let name = &run.name;
        if self.is_managed(&run.id)? {
            return Err(LocalRunError::Refused {
                message: format!("`{name}` belongs to the control plane"),
                advice: Some("decide its approval there".to_owned()),
            });
        }
        let (_, open) = SupervisorState::observe(&self.context, run);
        let Some(open) = open.into_iter().find(|one| one.id == question) else {
            return Err(LocalRunError::NotFound(format!(
                "`{name}` has no open question {question}: it was answered, or the agent ended"
            )));
        };
        let about = open.about;
        if about != request.about {
            return Err(LocalRunError::Refused {
                message: format!("question {question} of `{name}` is about something else now"),
                advice: Some("read it again".to_owned()),
            });
        }
        let (answer, word) = match request.answer {
            LocalAnswer::Approve => (Answer::Allow, "approved"),
            LocalAnswer::Deny => (Answer::Deny, "denied"),
        };
        let directory = self.directory(run);
        let ask = |request: &Request| {
            let reply = supervisor::ask(&directory, request).map_err(|error| {
                LocalRunError::Unavailable(format!("`{name}` did not answer: {error}"))
            })?;
            match reply {
                Some(Reply::Done | Reply::Status(_)) => Ok(()),
                Some(Reply::Refused(message)) => {
                    Err(LocalRunError::Refused { message, advice: None })
                }
                None => Err(LocalRunError::NotFound(format!("`{name}` is not running any more"))),
            }
        };
        // First the reason: the agent may act on the denial at once.
        let reason = request.reason.trim();
        if answer == Answer::Deny && !reason.is_empty() {
            ask(&Request::Message { text: format!("A person denied {about}: {reason}") })?;
        }
        ask(&Request::Answer { id: question.to_owned(), answer })?;
        let message = format!("{word} question {question} of {name}");
        Ok(LocalOutcome { run: run.id.to_string(), message })
    }
}

async fn is_attempt(
    store: &Store,
    agent: &AgentId,
) -> Result<bool, bailiwick_fleet::ports::FleetError> {
    let kind = Kind::AgentDispatchAttempt;
    if FleetStore::get(store, kind, DEFAULT_NAMESPACE, agent.as_str()).await?.is_some() {
        return Ok(true);
    }
    let runs = Selection::of(Kind::AgentDispatchRun).field("agent", agent.as_str());
    let runs = Selection { limit: 1, ..runs };
    Ok(!FleetStore::list(store, &runs).await?.objects.is_empty())
}

/// The tool call that a question is about: the question has the digest of its input.
fn call_before(about: &str, before: &[Event]) -> Option<LocalToolCall> {
    before.iter().rev().find_map(|event| {
        let EventKind::ToolCall { tool, input, .. } = &event.what else { return None };
        let mark = format!("[input {}]", Sha256Hex::of(input.to_string()).prefix(24));
        let is_asked = about.ends_with(&mark);
        is_asked.then(|| LocalToolCall { tool: tool.clone(), input: input.clone() })
    })
}

#[cfg(test)]
mod tests {
    use bailiwick_model::event::ReportedBy;
    use serde_json::json;

    use super::*;

    #[test]
    fn question_shows_only_the_call_with_the_same_input() {
        let call = |number, command: &str| Event {
            number,
            at: 1,
            reported_by: ReportedBy::Proxy,
            agent: None,
            what: EventKind::ToolCall {
                id: number.to_string(),
                tool: "Bash".to_owned(),
                input: json!({ "command": command }),
            },
            raw: None,
        };
        let events = [call(1, "make deploy"), call(2, "ls")];
        let digest = Sha256Hex::of(json!({ "command": "make deploy" }).to_string());
        let about = format!("Bash make deploy [input {}]", digest.prefix(24));
        let found = call_before(&about, &events).unwrap();
        assert_eq!(found.input, json!({ "command": "make deploy" }));
        assert_eq!(call_before("Bash make deploy", &events), None);
    }
}
