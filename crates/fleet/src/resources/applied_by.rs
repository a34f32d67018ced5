//! The author of the spec of a binding, a role or the fence of the operator: recorded when it is applied, and never read
//! from a document.

use bailiwick_resources::{AnyObject, Kind, OPERATOR_FENCE};

use crate::admission::ownership::APPLIED_BY;

fn is_recorded(object: &AnyObject) -> bool {
    let is_fence = object.kind == Kind::ConfigMap && object.metadata.name == OPERATOR_FENCE;
    is_fence || matches!(object.kind, Kind::AgentRoleBinding | Kind::Role)
}

fn same_spec(known: Option<&AnyObject>, next: &AnyObject) -> bool {
    let canonical = |object: &AnyObject| object.canonical_spec().ok();
    known.is_some_and(|known| canonical(known).is_some() && canonical(known) == canonical(next))
}

/// Keeps the author of a spec that has not changed.
pub fn keep_applied_by(known: Option<&AnyObject>, next: &mut AnyObject) {
    if !is_recorded(next) {
        return;
    }
    next.metadata.annotations.remove(APPLIED_BY);
    let author = known.and_then(|known| known.metadata.annotations.get(APPLIED_BY));
    if let Some(author) = author.filter(|_| same_spec(known, next)) {
        next.metadata.annotations.insert(APPLIED_BY.to_owned(), author.clone());
    }
}

/// Records who writes a spec that is new or different.
pub fn record_applied_by(known: Option<&AnyObject>, next: &mut AnyObject, actor: &str) {
    keep_applied_by(known, next);
    if is_recorded(next) && !same_spec(known, next) {
        next.metadata.annotations.insert(APPLIED_BY.to_owned(), actor.to_owned());
    }
}
