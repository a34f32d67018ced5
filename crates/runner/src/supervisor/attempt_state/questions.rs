//! Questions to a person about an attempt, with their answers and consents, and messages for its agent.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiwick_lifecycle::ports::Consent;
use bailiwick_model::event::{Answer, EventKind, ReportedBy};
use tokio::sync::oneshot;

use super::{AttemptState, now};

/// Why the answer of a person was not accepted.
#[derive(Debug, thiserror::Error)]
pub(in crate::supervisor) enum AnswerError {
    #[error("there is no question {0}, or it was answered already")]
    NotOpen(String),
    #[error("question {0} is closed")]
    NotAwaited(String),
}

/// A question that a person has to answer.
pub(super) struct ApprovalQuestion {
    about: String,
    /// When it is denied if nobody answers, in milliseconds since 1970.
    expires_at: u64,
    answer: oneshot::Sender<Answer>,
}

impl AttemptState {
    /// Queues a person's message for the agent.
    pub(in crate::supervisor) fn message(&self, text: &str) {
        self.state().messages.push(text.to_owned());
        self.record_event(ReportedBy::Person, None, EventKind::Message { text: text.to_owned() });
    }

    /// Removes and returns the messages that the agent has not received.
    pub(in crate::supervisor) fn take_messages(&self) -> Vec<String> {
        std::mem::take(&mut self.state().messages)
    }

    /// Asks a person; the receiver gets the answer.
    pub(in crate::supervisor) fn ask(
        &self,
        about: &str,
        timeout: Duration,
    ) -> (String, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        let mut state = self.state();
        state.question_count += 1;
        let id = state.question_count.to_string();
        let timeout = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let expires_at = now().saturating_add(timeout);
        let about = about.to_owned();
        state
            .open_questions
            .insert(id.clone(), ApprovalQuestion { about: about.clone(), expires_at, answer });
        drop(state);
        let what = EventKind::Approval { id: id.clone(), about, answer: None };
        self.record_event(ReportedBy::Supervisor, None, what);
        (id, answered)
    }

    /// Drops a question that was not answered in time.
    pub(in crate::supervisor) fn drop_question(&self, id: &str) {
        self.state().open_questions.remove(id);
        self.touch();
    }

    /// The open questions: id and text.
    pub(in crate::supervisor) fn questions(&self) -> Vec<(String, String)> {
        let state = self.state();
        state.open_questions.iter().map(|(id, one)| (id.clone(), one.about.clone())).collect()
    }

    /// When each open question is denied if nobody answers, in milliseconds since 1970.
    pub(in crate::supervisor) fn question_expiries(&self) -> BTreeMap<String, u64> {
        self.state().open_questions.iter().map(|(id, one)| (id.clone(), one.expires_at)).collect()
    }

    /// Answers a question; an error if it is not open.
    pub(in crate::supervisor) fn answer(
        &self,
        id: &str,
        answer: Answer,
    ) -> Result<(), AnswerError> {
        let Some(question) = self.state().open_questions.remove(id) else {
            return Err(AnswerError::NotOpen(id.to_owned()));
        };
        let about = question.about.clone();
        let what = EventKind::Approval { id: id.to_owned(), about, answer: Some(answer) };
        self.record_event(ReportedBy::Person, None, what);
        self.touch();
        question.answer.send(answer).map_err(|_| AnswerError::NotAwaited(id.to_owned()))
    }

    /// A person approved a call of one of our own tools.
    pub(in crate::supervisor) fn consented(&self, tool: &str, input: &serde_json::Value) {
        let mut state = self.state();
        state.consents = std::mem::take(&mut state.consents).with(tool, input, now());
    }

    /// Whether a person approved this call of one of our own tools.
    pub(in crate::supervisor) fn consent(
        &self,
        tool: &str,
        arguments: &serde_json::Value,
    ) -> Consent {
        let mut state = self.state();
        let (remaining, is_given) =
            std::mem::take(&mut state.consents).used(tool, arguments, now());
        state.consents = remaining;
        if is_given { Consent::Given } else { Consent::Absent }
    }
}
