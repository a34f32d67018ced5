//! Changes that a person wants to see at the object, as Events of Kubernetes.
//!
//! They follow from the status that the cluster shows and the one that it is about to show. The name of an Event is
//! derived from the change, so that a restart between the Event and the status records it once.

use bailiwick_model::digest::Sha256Hex;
use bailiwick_resources::{API_VERSION, Kind};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::object::ClusterObject;
use super::{ACCESS, FIELD_MANAGER, SYNCED, status};

/// The condition of a run that says what is wrong with its runner or pod.
const RUNNER: &str = "RunnerAssigned";
/// The limits of the API server.
const MAX_MESSAGE: usize = 1_024;
const MAX_OBJECT_NAME: usize = 230;

/// A change that a person wants to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// The reason, as `RunFailed`.
    pub reason: String,
    /// Whether somebody should look.
    pub is_warning: bool,
    /// What happened, for people.
    pub message: String,
    /// What makes it the same change after a restart.
    pub identity: String,
}

/// The changes from the status that is shown to the next one.
pub(super) fn transitions(kind: Kind, before: &Value, next: &Value) -> Vec<Transition> {
    let mut found = Vec::new();
    if kind == Kind::AgentDispatchRun {
        found.extend(runner_problem(before, next));
        found.extend(phase_change("Run", before, next));
    } else if kind == Kind::AgentApproval {
        found.extend(phase_change("Approval", before, next));
    } else {
        for condition in [SYNCED, "Ready", ACCESS] {
            found.extend(condition_change(condition, before, next));
        }
    }
    found
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn phase_change(what: &str, before: &Value, next: &Value) -> Option<Transition> {
    let (from, to) = (text(before, "phase"), text(next, "phase"));
    if from == to || ["", "pending", "queued"].contains(&to) {
        return None;
    }
    let is_warning = ["failed", "cancelled", "rejected", "expired"].contains(&to);
    let message = match text(next, "terminalReason") {
        "" => format!("{what} is {to}"),
        why => format!("{what} is {to}: {why}"),
    };
    // A run can wait for an approval twice; each time there is one more.
    let identity = format!("{from}>{to}/{}/{}", count(next, "attempts"), count(next, "approvals"));
    Some(Transition { reason: format!("{what}{}", camel(to)), is_warning, message, identity })
}

fn count(status: &Value, field: &str) -> usize {
    status.get(field).and_then(Value::as_array).map_or(0, Vec::len)
}

/// A new problem with the runner or the pod. Each reason is recorded once for each attempt, however often it comes and
/// goes.
fn runner_problem(before: &Value, next: &Value) -> Option<Transition> {
    let now = status::condition(next, RUNNER)?;
    let was = status::condition(before, RUNNER);
    let same = |field| was.is_some_and(|was| text(was, field) == text(now, field));
    if text(now, "status") != "False" || (same("status") && same("reason")) {
        return None;
    }
    let reason = text(now, "reason").to_owned();
    let identity = format!("{RUNNER}/{reason}/{}", count(next, "attempts"));
    let message = text(now, "message").to_owned();
    Some(Transition { reason, is_warning: true, message, identity })
}

/// `waiting-for-approval` as `WaitingForApproval`.
fn camel(words: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
    };
    words.split('-').map(word).collect::<Vec<String>>().concat()
}

fn condition_change(kind: &str, before: &Value, next: &Value) -> Option<Transition> {
    let now = status::condition(next, kind)?;
    let was = status::condition(before, kind);
    let standing = text(now, "status");
    let same = |field| was.is_some_and(|was| text(was, field) == text(now, field));
    let is_first_success = kind == SYNCED && was.is_none() && standing == "True";
    if standing == "Unknown" || is_first_success || (same("status") && same("reason")) {
        return None;
    }
    // That it is still well, for another reason, is no news.
    if standing == "True" && same("status") {
        return None;
    }
    let reason = match standing {
        "True" => kind.to_owned(),
        _ => text(now, "reason").to_owned(),
    };
    let since = text(now, "lastTransitionTime");
    Some(Transition {
        is_warning: standing != "True",
        message: text(now, "message").to_owned(),
        identity: format!("{kind}/{standing}/{}/{since}", text(now, "reason")),
        reason,
    })
}

/// The Event at an object.
pub fn event(kind: Kind, object: &ClusterObject, change: &Transition, now: Timestamp) -> Event {
    let digest = Sha256Hex::of(format!("{}/{}", object.uid(), change.identity));
    let name = object.name();
    let end = name.floor_char_boundary(MAX_OBJECT_NAME);
    let name = format!("{}.{}", name.get(..end).unwrap_or(name), digest.prefix(16));
    let end = change.message.floor_char_boundary(MAX_MESSAGE);
    Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: object.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(API_VERSION.to_owned()),
            kind: Some(kind.to_string()),
            name: object.metadata.name.clone(),
            namespace: object.metadata.namespace.clone(),
            uid: object.metadata.uid.clone(),
            ..ObjectReference::default()
        },
        type_: Some(if change.is_warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(change.reason.clone()),
        message: change.message.get(..end).map(str::to_owned),
        action: Some("Sync".to_owned()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        reporting_component: Some(FIELD_MANAGER.to_owned()),
        reporting_instance: Some(FIELD_MANAGER.to_owned()),
        source: Some(EventSource {
            component: Some(FIELD_MANAGER.to_owned()),
            ..EventSource::default()
        }),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn run_that_starts_and_fails_has_two_events() {
        let phases = [
            json!({}),
            json!({ "phase": "queued" }),
            json!({ "phase": "running", "attempts": ["a"] }),
            json!({ "phase": "running", "attempts": ["a"], "cost": 1 }),
            json!({ "phase": "failed", "terminalReason": "the tests fail", "attempts": ["a"] }),
        ];
        let found: Vec<_> = phases
            .windows(2)
            .flat_map(|pair| transitions(Kind::AgentDispatchRun, &pair[0], &pair[1]))
            .map(|change| (change.reason, change.is_warning, change.message))
            .collect();
        let expected = [
            ("RunRunning", false, "Run is running"),
            ("RunFailed", true, "Run is failed: the tests fail"),
        ];
        assert_eq!(found, expected.map(|(a, b, c)| (a.to_owned(), b, c.to_owned())));
    }

    #[test]
    fn pod_that_cannot_run_has_one_event_for_each_reason_and_attempt() {
        let runner = |status: &str, reason: &str, attempts: &[&str]| {
            json!({ "phase": "queued", "attempts": attempts, "conditions": [{ "type": "RunnerAssigned",
                "status": status, "reason": reason, "message": "m", "lastTransitionTime": reason }] })
        };
        let changes =
            |before: &Value, next: &Value| transitions(Kind::AgentDispatchRun, before, next);
        let (queued, unpulled) =
            (runner("Unknown", "Queued", &["a"]), runner("False", "ImagePullFailed", &["a"]));
        let found = changes(&queued, &unpulled);
        assert!(found.len() == 1 && found[0].is_warning, "{found:?}");
        assert_eq!((found[0].reason.as_str(), found[0].message.as_str()), ("ImagePullFailed", "m"));
        assert!(changes(&unpulled, &unpulled).is_empty() && changes(&unpulled, &queued).is_empty());
        assert!(changes(&queued, &runner("True", "RunnerAccepted", &["a"])).is_empty());
        // If the reason recurs, its Event is the same. Another attempt has another Event.
        let other = runner("False", "Unschedulable", &["a"]);
        assert_eq!(changes(&other, &unpulled)[0].identity, found[0].identity);
        let second = changes(&queued, &runner("False", "ImagePullFailed", &["a", "b"]));
        assert_ne!(second[0].identity, found[0].identity);
    }

    #[test]
    fn condition_with_an_unchanged_status_has_no_event() {
        let ready = |status: &str, reason: &str| {
            json!({ "conditions": [{ "type": "Ready", "status": status, "reason": reason,
                "message": "m", "lastTransitionTime": "t" }] })
        };
        let changes = |before: &Value, next: &Value| transitions(Kind::AgentStack, before, next);
        assert!(changes(&ready("True", "A"), &ready("True", "B")).is_empty());
        assert!(changes(&ready("False", "A"), &ready("False", "A")).is_empty());
        assert!(changes(&json!({}), &ready("Unknown", "A")).is_empty());
        assert_eq!(changes(&ready("False", "A"), &ready("True", "B"))[0].reason, "Ready");
        let failed = changes(&ready("False", "A"), &ready("False", "B"));
        assert!(failed[0].reason == "B" && failed[0].is_warning);
    }

    #[test]
    fn event_name_depends_on_the_object_and_not_on_the_time() {
        let object = |uid: &str| ClusterObject {
            metadata: ObjectMeta {
                name: Some("x".repeat(250)),
                uid: Some(uid.to_owned()),
                ..ObjectMeta::default()
            },
            ..ClusterObject::default()
        };
        let change = Transition {
            reason: "RunFailed".to_owned(),
            is_warning: true,
            message: "é".repeat(2_000),
            identity: "a>b".to_owned(),
        };
        let at = |uid: &str, second| {
            let now = Timestamp::from_second(second).unwrap();
            event(Kind::AgentDispatchRun, &object(uid), &change, now)
        };
        assert_eq!(at("u", 1).metadata.name, at("u", 2).metadata.name);
        assert_ne!(at("u", 1).metadata.name, at("v", 1).metadata.name);
        let event = at("u", 1);
        assert!(event.metadata.name.unwrap().len() <= 253);
        assert!(event.message.unwrap().len() <= MAX_MESSAGE);
    }
}
