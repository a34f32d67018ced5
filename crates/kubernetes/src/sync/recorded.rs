//! What must be done for an object that the control plane records and the cluster shows.

use std::collections::BTreeMap;

use bailiwick_resources::{API_VERSION, AgentDispatchRunStatus, AnyObject, Kind, Moment, Standing};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::declared::apply_body;
use super::event::transitions;
use super::object::ClusterObject;
use super::status::{self, AddedCondition, HIDDEN_FIELDS};
use super::{Direction, FIELD_MANAGER, MANAGED_BY, Step, direction};

/// Copies of every definition that an attempt uses.
const SNAPSHOT: &str = "/agentStackSnapshot/objects";
/// On objects that the operator creates: the ID in the control plane.
const RECORD: &str = "bailiwick.dev/uid";
/// The condition of a run that has ended, for `kubectl wait --for=condition=Complete`.
const COMPLETE: &str = "Complete";

/// How long runs that have ended stay in the cluster. The control plane keeps them for longer.
#[derive(Debug, Clone, Copy)]
pub struct History {
    /// In milliseconds.
    pub millis: u64,
}

/// The run that an object belongs to.
#[derive(Debug, Clone, Copy)]
pub enum Owner<'a> {
    /// It belongs to none.
    None,
    /// As the control plane and the cluster have it.
    Run {
        /// In the control plane.
        record: Option<&'a AnyObject>,
        /// In the cluster.
        object: Option<&'a ClusterObject>,
    },
}

/// The name of the run that owns an object; for a run its parent.
pub fn owner(record: &AnyObject) -> Option<&str> {
    let fields = [
        (Kind::AgentDispatchAttempt, "agentDispatchRun"),
        (Kind::AgentApproval, "dispatchRun"),
        (Kind::AgentDispatchRun, "parentRun"),
    ];
    let (_, field) = fields.into_iter().find(|(kind, _)| *kind == record.kind)?;
    record.spec.get(field).and_then(Value::as_str)
}

/// What must be done, given both sides.
pub fn plan(
    kind: Kind,
    object: Option<&ClusterObject>,
    record: Option<&AnyObject>,
    owner: Owner<'_>,
    history: History,
    now: Moment,
) -> Vec<Step> {
    let record = record.filter(|record| is_recent(record, owner, history, now));
    let (record, object) = match (record, object) {
        (None, None) => return Vec::new(),
        // Somebody else has written it: it means nothing, and is theirs.
        (None, Some(object)) if !object.is_managed() || object.is_deleting() => return Vec::new(),
        (None, Some(_)) => return vec![Step::DeleteObject],
        (Some(record), object) => (record, object),
    };
    let owner = match owner {
        Owner::None => None,
        // A parent that is not shown any more owns nothing.
        Owner::Run { record: None, .. } if kind == Kind::AgentDispatchRun => None,
        Owner::Run { object: Some(object), .. } if !object.is_deleting() => Some(object),
        Owner::Run { .. } => return vec![Step::WaitForOwner],
    };
    let wanted = shown_object(record, owner, object);
    match object {
        None => vec![Step::ApplyObject(wanted)],
        Some(object) if object.is_deleting() => Vec::new(),
        Some(object) => {
            let differs = !is_same(&wanted, object);
            let apply = differs.then_some(Step::ApplyObject(wanted));
            apply.into_iter().chain(projection(record, object, now)).collect()
        }
    }
}

/// What is kept of an object of the control plane between its arrival and its comparison: nothing of a run that ended
/// long ago, and of others not what the cluster never shows. Definitions and policies are most of an attempt.
pub fn kept(mut record: AnyObject, history: History, now: Moment) -> Option<AnyObject> {
    if direction(record.kind) != Some(Direction::Recorded) {
        return Some(record);
    }
    if record.kind == Kind::AgentDispatchRun && !is_kept(&record, history, now) {
        return None;
    }
    if let Some(objects) = record.spec.pointer_mut(SNAPSHOT) {
        *objects = json!([]);
    }
    if let Some(status) = record.status.as_object_mut() {
        HIDDEN_FIELDS.iter().for_each(|field| drop(status.remove(*field)));
    }
    Some(record)
}

/// Whether a run goes on or has ended not long ago.
pub fn is_kept(run: &AnyObject, history: History, now: Moment) -> bool {
    is_recent(run, Owner::None, history, now)
}

/// Whether it belongs to a run that goes on or has ended not long ago.
fn is_recent(record: &AnyObject, owner: Owner<'_>, history: History, now: Moment) -> bool {
    let run = match (record.kind, owner) {
        (Kind::AgentDispatchRun, _) => Some(record),
        (_, Owner::Run { record, .. }) => record,
        (_, Owner::None) => None,
    };
    let Some(run) = run else { return false };
    match AgentDispatchRunStatus::deserialize(&run.status) {
        Ok(status) if status.phase.is_final() => {
            let ended = status.completed_at.or(run.metadata.creation_timestamp);
            ended.is_none_or(|ended| ended.plus_millis(history.millis) > now)
        }
        // It has no status yet.
        Ok(_) | Err(_) => true,
    }
}

/// The object for server-side apply, at exactly this version if it is there.
fn shown_object(
    record: &AnyObject,
    owner: Option<&ClusterObject>,
    object: Option<&ClusterObject>,
) -> Value {
    let mut labels: BTreeMap<&str, &str> = record
        .metadata
        .labels
        .iter()
        .filter(|(key, value)| is_label(key) && is_label_value(value))
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    labels.insert(MANAGED_BY, FIELD_MANAGER);
    let mut metadata = json!({
        "name": record.metadata.name,
        "labels": labels,
        "annotations": { RECORD: record.metadata.uid },
    });
    if let (Some(object), Some(fields)) = (object, metadata.as_object_mut()) {
        fields.insert("uid".to_owned(), json!(object.uid()));
        fields.insert("resourceVersion".to_owned(), json!(object.resource_version()));
    }
    if let (Some(owner), Some(fields)) = (owner, metadata.as_object_mut()) {
        let reference = json!([{
            "apiVersion": API_VERSION,
            "kind": Kind::AgentDispatchRun,
            "name": owner.name(),
            "uid": owner.uid(),
        }]);
        fields.insert("ownerReferences".to_owned(), reference);
    }
    let mut spec = record.spec.clone();
    if let Some(objects) = spec.pointer_mut(SNAPSHOT) {
        // Copies of every definition: the digest stays, the rest is read from the API.
        *objects = json!([]);
    }
    json!({ "apiVersion": API_VERSION, "kind": record.kind, "metadata": metadata, "spec": spec })
}

/// A key of a label as Kubernetes allows it, without checking its domain in full.
fn is_label(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or(key);
    !name.is_empty() && is_label_value(name) && key.len() <= 253 && key.matches('/').count() <= 1
}

fn is_label_value(value: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let bytes = value.as_bytes();
    bytes.len() <= 63
        && bytes.iter().all(|byte| inside(*byte))
        && edge(bytes.first())
        && edge(bytes.last())
}

fn is_same(wanted: &Value, object: &ClusterObject) -> bool {
    let metadata = serde_json::to_value(&object.metadata).unwrap_or_default();
    let has = |field: &str| {
        let wanted = wanted.pointer(&format!("/metadata/{field}"));
        let there = metadata.get(field);
        match (wanted, there) {
            (None, _) => true,
            (Some(Value::Object(wanted)), Some(there)) => {
                wanted.iter().all(|(key, value)| there.get(key) == Some(value))
            }
            (Some(wanted), there) => there == Some(wanted),
        }
    };
    let is_same_spec = wanted.get("spec").is_some_and(|spec| contains(&object.spec, spec));
    is_same_spec && has("labels") && has("annotations") && has("ownerReferences")
}

/// Whether an object has all these fields. The API server adds defaults.
fn contains(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => wanted.iter().all(|(key, value)| {
            value.is_null() || there.get(key).is_some_and(|there| contains(there, value))
        }),
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len()
                && there.iter().zip(wanted).all(|(there, wanted)| contains(there, wanted))
        }
        (there, wanted) => there == wanted,
    }
}

/// What changes while an agent works without anybody having to act. It is shown with the next change of something else,
/// and at the end, so that a run has few writes however long it is.
const MINOR_FIELDS: [&str; 3] = ["cost", "childSubagentRuns", "agentMuxSessionId"];

fn projection(record: &AnyObject, object: &ClusterObject, now: Moment) -> Vec<Step> {
    let except: &[&str] = match stage(record) {
        Stage::Ended => &[],
        Stage::Open => &MINOR_FIELDS,
        // Its run says how far it is.
        Stage::OpenAttempt => return Vec::new(),
    };
    let wanted = status::of_record(record, completion(record), Some(object), now);
    if status::is_shown(&wanted, &object.status, except) {
        return Vec::new();
    }
    let mut steps: Vec<Step> =
        transitions(record.kind, &object.status, &wanted).into_iter().map(Step::Record).collect();
    steps.push(Step::ApplyStatus(apply_body(record.kind, object, wanted)));
    steps
}

/// How far a record is.
enum Stage {
    Open,
    OpenAttempt,
    Ended,
}

fn stage(record: &AnyObject) -> Stage {
    let has = |field: &str| record.status.get(field).is_some_and(|value| !value.is_null());
    if record.kind == Kind::AgentDispatchAttempt {
        let has_ended = has("completedAt") || has("exitReason");
        return if has_ended { Stage::Ended } else { Stage::OpenAttempt };
    }
    if record.kind != Kind::AgentDispatchRun {
        // Each change of an approval is news.
        return Stage::Ended;
    }
    match AgentDispatchRunStatus::deserialize(&record.status) {
        Ok(status) if !status.phase.is_final() => Stage::Open,
        Ok(_) | Err(_) => Stage::Ended,
    }
}

fn completion(record: &AnyObject) -> Option<AddedCondition> {
    if record.kind != Kind::AgentDispatchRun {
        return None;
    }
    let status = AgentDispatchRunStatus::deserialize(&record.status).unwrap_or_default();
    let (standing, message) = match status.phase.is_final() {
        true => (Standing::True, status.terminal_reason.unwrap_or_default()),
        false => (Standing::False, String::new()),
    };
    let reason = format!("{:?}", status.phase);
    Some(AddedCondition { kind: COMPLETE, standing, reason, message })
}
