//! Explains an object to people: its conditions, what their reasons mean, and what to do next; for a run also why it
//! waits, which approvals it has, and what started it.
//!
//! Everything comes from stored objects.

mod advice;
mod run;

pub use advice::advice;
use bailiwick_resources::{
    AgentTriggerExecution, AnyObject, Condition, Standing, expected_conditions,
};
pub use run::{RelatedObjects, RunFacts};
use serde::Serialize;

/// An object, explained.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Which one, as `AgentStack/default/fixer`.
    pub subject: String,
    /// Its state in a sentence.
    pub summary: String,
    /// Its conditions, failing ones first.
    pub conditions: Vec<ExplainedCondition>,
    /// Further facts.
    pub facts: Vec<Fact>,
    /// The next steps, the most urgent first.
    pub next: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedCondition {
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Whether it holds.
    pub status: Standing,
    /// Whether it is about an older spec.
    pub stale: bool,
    /// The meaning of the condition when it is true.
    pub says: &'static str,
    /// The stable code of its reason.
    pub reason: &'static str,
    /// The meaning of the code.
    pub meaning: &'static str,
    /// The finding.
    pub message: String,
    /// Advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<&'static str>,
}

/// A fact with a title.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fact {
    pub title: &'static str,
    /// The facts.
    pub lines: Vec<String>,
}

/// Explains an object; a run with what is around it.
pub fn explain(object: &AnyObject, around: &RelatedObjects) -> Explanation {
    let metadata = &object.metadata;
    let mut conditions: Vec<ExplainedCondition> = object
        .conditions()
        .iter()
        .map(|condition| explained(condition, metadata.generation))
        .collect();
    conditions.sort_by_key(|condition| match condition.status {
        Standing::False => 0,
        Standing::Unknown => 1,
        Standing::True => 2,
    });
    let mut next: Vec<String> = Vec::new();
    for condition in conditions.iter().filter(|condition| condition.status != Standing::True) {
        let text = condition.advice.map(|advice| format!("{}: {advice}", condition.reason));
        next.extend(text.filter(|text| !next.contains(text)));
    }
    let facts = RunFacts::of(object, around);
    let summary = match &facts {
        Some(facts) => facts.summary.clone(),
        None => standing(object, &conditions),
    };
    let (facts, more) = facts.map(|facts| (facts.facts, facts.next)).unwrap_or_default();
    next.splice(0..0, more);
    let subject = format!("{}/{}/{}", object.kind, metadata.namespace, metadata.name);
    Explanation { subject, summary, conditions, facts, next }
}

fn explained(condition: &Condition, generation: u64) -> ExplainedCondition {
    let bad = condition.status != Standing::True;
    ExplainedCondition {
        kind: condition.kind.as_str(),
        status: condition.status,
        stale: condition.observed_generation != generation,
        says: condition.kind.meaning(),
        reason: condition.reason.as_str(),
        meaning: condition.reason.meaning(),
        message: condition.message.clone(),
        advice: advice(condition.reason).filter(|_| bad),
    }
}

fn standing(object: &AnyObject, conditions: &[ExplainedCondition]) -> String {
    if let Ok(execution) = object.typed::<AgentTriggerExecution>() {
        let decision = serde_json::to_value(execution.spec.decision).unwrap_or_default();
        let decision = decision.as_str().unwrap_or_default().to_owned();
        return format!("{decision}: {}", execution.spec.reason);
    }
    if expected_conditions(object.kind).is_empty() {
        return "objects of this kind have no conditions".to_owned();
    }
    let Some(first) = conditions.first() else {
        return "it was not checked yet: is `serve` running?".to_owned();
    };
    match first.status {
        Standing::True => "all conditions are met".to_owned(),
        Standing::False => format!("{} is not met: {}", first.kind, first.meaning),
        Standing::Unknown => format!("{} is not known: {}", first.kind, first.meaning),
    }
}
