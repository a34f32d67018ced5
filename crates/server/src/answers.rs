//! Who answered what lately: questions of agents and approvals, from the audit log.

use std::sync::Arc;

use bailiwick_fleet::ports::{AuditEntry, Fleet, FleetError, FleetStore};
use bailiwick_resources::Moment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::App;
use crate::request::{ApiRequest, HandlerResult, ok};

/// The event of an answer to a question of an agent.
pub(crate) const QUESTION_ANSWERED: &str = "LocalQuestionAnswered";
/// The event of a decision about an approval.
const APPROVAL_DECIDED: &str = "AgentApprovalDecision";
/// How many entries of the audit log are read at least.
const MAX_ENTRIES: u64 = 500;
const MAX_ANSWERS: usize = 20;

/// Answers, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecentAnswers {
    /// The answers.
    pub items: Vec<RecentAnswer>,
}

/// An answer of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecentAnswer {
    /// The number of the entry in the audit log.
    pub number: u64,
    /// When.
    pub at: Moment,
    /// Who answered.
    pub actor: String,
    /// What was answered, as `LocalRun/fix-42` or `AgentApproval/default/aap-1`.
    pub subject: String,
    /// The answer, as `approve` or `denied`.
    pub answer: String,
    /// What was asked; empty for an approval, which has it.
    pub about: String,
    /// The reason; empty if none was given.
    pub reason: String,
}

pub(crate) async fn recent<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&[])?;
    let store = app.store.as_ref();
    // The last part of the log may be nearly empty, so that two parts are read.
    let start = last_entry(store).await?.saturating_sub(2 * MAX_ENTRIES);
    let entries = store.audit(start, usize::try_from(2 * MAX_ENTRIES).unwrap_or(1)).await?;
    let answers = entries.into_iter().rev().filter_map(|(number, entry)| answer(number, entry));
    ok(&RecentAnswers { items: answers.take(MAX_ANSWERS).collect() })
}

/// The number of a late entry; later ones are fewer than [`MAX_ENTRIES`]. The store counts up, so it is searched: twice
/// as far while there are entries, and then in halves.
async fn last_entry<S: FleetStore>(store: &S) -> Result<u64, FleetError> {
    let first_after = async |number: u64| {
        let found = store.audit(number, 1).await?;
        Ok::<_, FleetError>(found.first().map(|(number, _)| *number))
    };
    let (mut known, mut beyond) = (0, MAX_ENTRIES);
    while let Some(number) = first_after(beyond).await? {
        known = number;
        beyond = number.saturating_mul(2);
    }
    while beyond > known.saturating_add(MAX_ENTRIES) {
        let middle = known + (beyond - known) / 2;
        match first_after(middle).await? {
            Some(number) => known = number,
            None => beyond = middle,
        }
    }
    Ok(beyond)
}

fn answer(number: u64, entry: AuditEntry) -> Option<RecentAnswer> {
    let text = |key: &str| {
        entry.detail.get(key).and_then(Value::as_str).map(str::to_owned).unwrap_or_default()
    };
    let answer = match entry.event.as_str() {
        QUESTION_ANSWERED => text("answer"),
        APPROVAL_DECIDED => text("phase"),
        _ => return None,
    };
    let (about, reason) = (text("about"), text("reason"));
    let AuditEntry { at, actor, subject, .. } = entry;
    Some(RecentAnswer { number, at, actor, subject, answer, about, reason })
}

#[cfg(test)]
mod tests {
    use bailiwick_fleet::ports::{MemoryFleet, Write};
    use serde_json::json;

    use super::*;

    fn entry(event: &str, detail: Value) -> AuditEntry {
        AuditEntry {
            at: Moment::from_millis(1),
            actor: "ada".to_owned(),
            event: event.to_owned(),
            subject: "LocalRun/fix".to_owned(),
            correlation: std::collections::BTreeMap::new(),
            detail,
        }
    }

    #[tokio::test]
    async fn newest_entries_of_a_long_log_are_found() {
        let store = MemoryFleet::default();
        let mut newest = 0;
        for length in [0, 1, 499, 500, 501, 1_500] {
            let entries = (newest..length).map(|_| Write::Audit(entry("Other", json!({}))));
            store.commit(entries.collect(), Moment::from_millis(1)).await.unwrap();
            newest = length;
            assert_eq!(store.audit(0, usize::MAX).await.unwrap().len(), length);
            let (end, newest) = (last_entry(&store).await.unwrap(), u64::try_from(newest).unwrap());
            assert!(end >= newest && end - newest <= MAX_ENTRIES, "{end} {newest}");
        }
    }

    #[test]
    fn only_answers_are_listed() {
        let answer_of = |entry| answer(7, entry);
        assert_eq!(answer_of(entry("SignedIn", json!({}))), None);
        let detail = json!({ "answer": "deny", "about": "Bash: x", "reason": "no" });
        let answered = answer_of(entry(QUESTION_ANSWERED, detail)).unwrap();
        assert_eq!((answered.answer.as_str(), answered.reason.as_str()), ("deny", "no"));
        let decided = answer_of(entry(APPROVAL_DECIDED, json!({ "phase": "approved" }))).unwrap();
        assert_eq!((decided.answer.as_str(), decided.about.as_str()), ("approved", ""));
    }
}
