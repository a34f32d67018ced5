//! What must be done for an object that people declare in the cluster.

use bailiwick_resources::{AnyObject, Kind, Moment};
use serde_json::{Value, json};

use super::copy::document;
use super::event::transitions;
use super::mark::{Mark, NamespaceUid};
use super::object::ClusterObject;
use super::refusal::{Refusal, SyncReason};
use super::status::{self, AddedCondition};
use super::{ADOPT, SYNCED, Step};

/// What must be done, given both sides and what else is known of the object. An empty list: nothing.
pub fn plan(
    kind: Kind,
    object: Option<&ClusterObject>,
    copy: Option<&AnyObject>,
    namespace: &NamespaceUid,
    more: &[AddedCondition],
    now: Moment,
) -> Vec<Step> {
    let Some(object) = object else { return without_object(copy, namespace) };
    if object.is_deleting() {
        return deletion(object, copy);
    }
    let (mut document, mark) = document(kind, object, namespace);
    let refused = |reason, message: &str| {
        let refusal = Refusal { reason, message: message.to_owned() };
        refused(kind, object, copy, &refusal, now)
    };
    let Some(copy) = copy else { return copying(object, document) };
    let adopts = object.annotation(ADOPT) == Some("true");
    match Mark::of(copy).filter(|known| known.is_of(namespace, object.uid())) {
        None if !adopts => refused(
            SyncReason::ExistsInControlPlane,
            "the control plane has an object of this name that does not come from this namespace: delete it there \
             with `bailiwick delete`, or let the annotation bailiwick.dev/adopt: \"true\" replace it",
        ),
        Some(known) if known == mark && !is_same(&document, copy) => refused(
            SyncReason::ChangedInControlPlane,
            "the spec was changed in the control plane, which keeps it until this object changes",
        ),
        Some(known) if known == mark => projection(kind, object, copy, more, now),
        // Also a mark of an earlier version: now it names the object.
        known @ (None | Some(_)) => {
            // A new label or annotation does not undo what was changed in the control plane.
            if known.is_some_and(|known| known.is_generation_of(&mark)) {
                document.spec = copy.spec.clone();
            }
            document.metadata.resource_version = copy.metadata.resource_version;
            copying(object, document)
        }
    }
}

/// The copy of an object that is gone is deleted. What was never copied, or copied from another namespace or cluster, is
/// not touched; nor is a copy of an earlier version, whose mark does not name its object, or a document that a person
/// has copied with the mark of another one.
fn without_object(copy: Option<&AnyObject>, namespace: &NamespaceUid) -> Vec<Step> {
    let is_ours = |mark: Mark| mark.origin.is_some_and(|origin| origin.namespace == *namespace);
    let orphan = copy.filter(|copy| Mark::of(copy).is_some_and(is_ours));
    orphan.map(delete_copy).into_iter().collect()
}

fn delete_copy(copy: &AnyObject) -> Step {
    Step::DeleteCopy { version: copy.metadata.resource_version }
}

/// First the copy, then the finalizer.
fn deletion(object: &ClusterObject, copy: Option<&AnyObject>) -> Vec<Step> {
    let own = copy.filter(|copy| Mark::of(copy).is_some_and(|mark| mark.uid == object.uid()));
    match (own, object.has_finalizer()) {
        (Some(copy), _) => vec![delete_copy(copy)],
        (None, true) => vec![Step::RemoveFinalizer],
        (None, false) => Vec::new(),
    }
}

/// The finalizer comes first: an object that is deleted meanwhile would leave its copy.
fn copying(object: &ClusterObject, document: AnyObject) -> Vec<Step> {
    match object.has_finalizer() {
        true => vec![Step::Copy(Box::new(document))],
        false => vec![Step::AddFinalizer],
    }
}

fn is_same(document: &AnyObject, copy: &AnyObject) -> bool {
    let canonical = document.canonical_spec().ok();
    canonical.is_some() && canonical == copy.canonical_spec().ok()
}

fn projection(
    kind: Kind,
    object: &ClusterObject,
    copy: &AnyObject,
    more: &[AddedCondition],
    now: Moment,
) -> Vec<Step> {
    let message = "the control plane has this generation".to_owned();
    let refusal = Refusal { reason: SyncReason::Copied, message };
    show(kind, object, Some(copy), &refusal, more, now)
}

/// Shows why the control plane does not have what the cluster declares.
pub fn refused(
    kind: Kind,
    object: &ClusterObject,
    copy: Option<&AnyObject>,
    refusal: &Refusal,
    now: Moment,
) -> Vec<Step> {
    // Only what is said of a copy is said of this object.
    let copy = copy.filter(|copy| Mark::of(copy).is_some_and(|mark| mark.uid == object.uid()));
    show(kind, object, copy, refusal, &[], now)
}

fn show(
    kind: Kind,
    object: &ClusterObject,
    copy: Option<&AnyObject>,
    refusal: &Refusal,
    more: &[AddedCondition],
    now: Moment,
) -> Vec<Step> {
    let synced = AddedCondition {
        kind: SYNCED,
        standing: refusal.reason.standing(),
        reason: refusal.reason.as_str().to_owned(),
        message: refusal.message.clone(),
    };
    // A copy of an earlier generation has nothing to say of this one.
    let copied = copy.and_then(Mark::of).map_or(0, |mark| mark.generation);
    let is_newest = copied == object.generation();
    let added = more.iter().cloned().chain([synced]).collect();
    let copy = copy.filter(|_| is_newest);
    let wanted = status::of_copy(copy, object.generation(), added, object, now);
    if status::is_shown(&wanted, &object.status, &[]) {
        return Vec::new();
    }
    let mut steps: Vec<Step> =
        transitions(kind, &object.status, &wanted).into_iter().map(Step::Record).collect();
    steps.push(Step::ApplyStatus(apply_body(kind, object, wanted)));
    steps
}

/// A status for server-side apply, at exactly this version of the object.
pub(super) fn apply_body(kind: Kind, object: &ClusterObject, status: Value) -> Value {
    json!({
        "apiVersion": bailiwick_resources::API_VERSION,
        "kind": kind,
        "metadata": {
            "name": object.name(),
            "uid": object.uid(),
            "resourceVersion": object.resource_version(),
        },
        "status": status,
    })
}
