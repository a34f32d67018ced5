//! A status of the control plane as the status of the object in the cluster.

use bailiwick_resources::{AnyObject, Moment, Standing};
use serde_json::{Map, Value, json};

use super::object::ClusterObject;

/// A longer list or text of a status is kept in the control plane only.
const MAX_ITEMS: usize = 32;
const MAX_TEXT: usize = 4_096;

/// Policies of an attempt are read from the API. The cursor counts every event of the agent.
pub(super) const HIDDEN_FIELDS: [&str; 2] = ["limits", "eventCursor"];

/// A condition that the operator adds to those of the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedCondition {
    /// Its type.
    pub kind: &'static str,
    /// Whether it holds.
    pub standing: Standing,
    /// A stable code for the reason.
    pub reason: String,
    /// A message for people.
    pub message: String,
}

/// The status of a copy, for the generation that the cluster knows.
pub(super) fn of_copy(
    copy: Option<&AnyObject>,
    generation: u64,
    own: Vec<AddedCondition>,
    before: &ClusterObject,
    now: Moment,
) -> Value {
    let mut status = fields(copy.map(|copy| &copy.status));
    if let Some(copy) = copy {
        translate_generations(&mut status, copy.metadata.generation, generation);
    }
    let mut status = Value::Object(status);
    for condition in own {
        status = with_condition(status, condition, generation, before, now);
    }
    status
}

/// The status of something that the control plane has recorded, bounded.
pub(super) fn of_record(
    record: &AnyObject,
    own: Option<AddedCondition>,
    before: Option<&ClusterObject>,
    now: Moment,
) -> Value {
    let mut status = fields(Some(&record.status));
    let unseen = ClusterObject::default();
    let before = before.unwrap_or(&unseen);
    let generation = before.generation().max(1);
    translate_generations(&mut status, record.metadata.generation, generation);
    HIDDEN_FIELDS.iter().for_each(|field| drop(status.remove(*field)));
    let mut status = Value::Object(status);
    bound(&mut status);
    match own {
        Some(own) => with_condition(status, own, generation, before, now),
        None => status,
    }
}

fn fields(status: Option<&Value>) -> Map<String, Value> {
    let Some(Value::Object(fields)) = status else { return Map::new() };
    fields
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

/// Generations of the two sides count different writes: what is said of the newest one here is said of the newest there.
fn translate_generations(status: &mut Map<String, Value>, newest: u64, generation: u64) {
    let translated = |value: &Value| match value.as_u64() == Some(newest) {
        true => json!(generation),
        false => json!(generation.saturating_sub(1)),
    };
    if let Some(observed) = status.get_mut("observedGeneration") {
        *observed = translated(observed);
    }
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if let Some(observed) = condition.get_mut("observedGeneration") {
            *observed = translated(observed);
        }
    }
}

fn with_condition(
    mut status: Value,
    own: AddedCondition,
    generation: u64,
    before: &ClusterObject,
    now: Moment,
) -> Value {
    let standing = json!(own.standing);
    let known = condition(&before.status, own.kind);
    let since = known
        .filter(|known| known.get("status") == Some(&standing))
        .and_then(|known| known.get("lastTransitionTime").cloned());
    let added = json!({
        "type": own.kind,
        "status": standing,
        "reason": own.reason,
        "message": own.message,
        "observedGeneration": generation,
        "lastTransitionTime": since.unwrap_or_else(|| json!(now)),
    });
    let fields = status.as_object_mut();
    let conditions = fields.map(|fields| fields.entry("conditions").or_insert_with(|| json!([])));
    if let Some(conditions) = conditions.and_then(Value::as_array_mut) {
        conditions.push(added);
    }
    bound(&mut status);
    status
}

/// The condition of a type.
pub(super) fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = status.get("conditions")?.as_array()?;
    all.iter().find(|one| one.get("type").and_then(Value::as_str) == Some(kind))
}

/// Keeps the newest items of long lists, and the beginnings of long texts.
fn bound(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > MAX_TEXT => {
            let end = text.floor_char_boundary(MAX_TEXT);
            text.truncate(end);
            text.push('…');
        }
        Value::Array(items) => {
            items.drain(..items.len().saturating_sub(MAX_ITEMS));
            items.iter_mut().for_each(bound);
        }
        Value::Object(fields) => fields.values_mut().for_each(bound),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether the cluster shows this status, but for these fields. Conditions of other programs do not matter.
pub(super) fn is_shown(wanted: &Value, shown: &Value, except: &[&str]) -> bool {
    let rest = |status: &Value| {
        let mut rest = fields(Some(status));
        rest.retain(|name, _| name != "conditions" && !except.contains(&name.as_str()));
        rest
    };
    let conditions = wanted.get("conditions").and_then(Value::as_array);
    let all_shown = conditions.into_iter().flatten().all(|one| {
        let kind = one.get("type").and_then(Value::as_str).unwrap_or_default();
        condition(shown, kind) == Some(one)
    });
    all_shown && rest(wanted) == rest(shown)
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::{API_VERSION, Kind, Metadata};

    use super::*;

    fn copy(status: Value) -> AnyObject {
        let metadata = Metadata { generation: 5, ..Metadata::named("x") };
        let (api_version, kind) = (API_VERSION.to_owned(), Kind::AgentStack);
        AnyObject { api_version, kind, metadata, spec: json!({}), status }
    }

    fn synced(standing: Standing) -> Vec<AddedCondition> {
        let (reason, message) = ("Copied".to_owned(), "ok".to_owned());
        vec![AddedCondition { kind: "Synced", standing, reason, message }]
    }

    #[test]
    fn observed_generations_are_those_of_the_cluster() {
        let status = json!({ "observedGeneration": 5, "conditions": [
            { "type": "Ready", "observedGeneration": 5 }, { "type": "Old", "observedGeneration": 4 }] });
        let before = ClusterObject::default();
        let converted = of_copy(
            Some(&copy(status)),
            2,
            synced(Standing::True),
            &before,
            Moment::from_millis(0),
        );
        assert_eq!(converted["observedGeneration"], 2);
        assert_eq!(condition(&converted, "Ready").unwrap()["observedGeneration"], 2);
        assert_eq!(
            condition(&converted, "Old").unwrap()["observedGeneration"],
            1,
            "the condition is of an earlier generation"
        );
        assert_eq!(condition(&converted, "Synced").unwrap()["observedGeneration"], 2);
    }

    #[test]
    fn transition_time_changes_only_with_the_status() {
        let now = Moment::from_millis;
        let first = of_copy(None, 1, synced(Standing::True), &ClusterObject::default(), now(1_000));
        let before = ClusterObject { status: first.clone(), ..ClusterObject::default() };
        assert_eq!(of_copy(None, 1, synced(Standing::True), &before, now(2_000)), first);
        let failed = of_copy(None, 1, synced(Standing::False), &before, now(3_000));
        assert_eq!(condition(&failed, "Synced").unwrap()["lastTransitionTime"], json!(now(3_000)));
    }

    #[test]
    fn status_in_the_cluster_has_a_limited_size() {
        let long = "é".repeat(MAX_TEXT);
        let attempts: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let record = copy(json!({ "attempts": attempts, "terminalReason": long, "limits": [{}] }));
        let status = of_record(&record, None, None, Moment::from_millis(0));
        assert_eq!(status["attempts"].as_array().unwrap().len(), MAX_ITEMS);
        assert_eq!(status["attempts"][MAX_ITEMS - 1], "99", "the newest entries are kept");
        assert!(status["terminalReason"].as_str().unwrap().len() < MAX_TEXT + 4);
        assert!(status.get("limits").is_none());
    }

    #[test]
    fn conditions_of_other_writers_are_ignored_in_the_comparison() {
        let expected =
            json!({ "phase": "a", "conditions": [{ "type": "Ready", "status": "True" }] });
        let mut actual = expected.clone();
        assert!(is_shown(&expected, &actual, &[]));
        actual["conditions"].as_array_mut().unwrap().push(json!({ "type": "Other" }));
        assert!(is_shown(&expected, &actual, &[]));
        actual["phase"] = json!("b");
        assert!(!is_shown(&expected, &actual, &[]));
        assert!(is_shown(&expected, &actual, &["phase"]));
        let old = json!({ "phase": "a", "old": 1, "conditions": expected["conditions"] });
        assert!(!is_shown(&expected, &old, &[]));
    }
}
