//! Creates, replaces, patches and deletes an object, each in one commit with its audit entry.

use std::sync::Arc;

use bailiwick_fleet::ports::{
    AuditEntry, Fleet, FleetError, FleetStore, MalformedRequirement, Requirement, Write,
};
use bailiwick_fleet::resources::{
    AuditAction, namespace_fault, record_applied_by, require, review_fault,
};
use bailiwick_resources::AnyObject;
use hyper::StatusCode;
use serde_json::Value;

use super::document::{Expected, parse_document, refuse_status, require_declarable};
use super::read::find;
use crate::app::App;
use crate::problem::Problem;
use crate::request::{ApiRequest, HandlerResult, json, ok, subject};

/// How often a patch is tried if another client changes the object at the same time.
const MAX_ATTEMPTS: usize = 5;

/// The audit entry. It has only the digest of the spec, which readers of the log may not be allowed to see.
fn audit_entry(request: &ApiRequest, object: &AnyObject, action: AuditAction) -> AuditEntry {
    request.by().line(action, object, request.now)
}

pub(crate) async fn create<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&["dryRun", "namespace"])?;
    let kind = request.kind()?;
    let expected = Expected { kind: Some(kind), namespace: request.named_namespace(), name: None };
    require_declarable(kind)?;
    let mut object = parse_document(request.json()?, expected)?;
    refuse_status(&object, None)?;
    check_and_attribute(None, &mut object, request)?;
    let entry = audit_entry(request, &object, AuditAction::Created);
    if request.dry_run()? {
        let metadata = &object.metadata;
        if app.store.get(kind, &metadata.namespace, &metadata.name).await?.is_some() {
            let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
            return Err(FleetError::AlreadyExists { kind, namespace, name }.into());
        }
        return json(StatusCode::CREATED, &object);
    }
    let writes = vec![Write::Create(object), Write::Audit(entry)];
    let applied = app.store.commit(writes, request.now).await?;
    json(StatusCode::CREATED, &single(applied.objects)?)
}

fn single(objects: Vec<AnyObject>) -> Result<AnyObject, Problem> {
    objects.into_iter().next().ok_or_else(|| Problem::unavailable("the store wrote nothing"))
}

fn conflict(object: &AnyObject, given: u64, found: u64) -> Problem {
    let (namespace, name) = (object.metadata.namespace.clone(), object.metadata.name.clone());
    FleetError::Conflict { kind: object.kind, namespace, name, given, found }.into()
}

/// The object that replaces `known`; refused if `given` is about another object.
fn replacement(
    request: &ApiRequest,
    known: &AnyObject,
    mut given: AnyObject,
) -> Result<AnyObject, Problem> {
    refuse_status(&given, Some(known))?;
    if !given.metadata.uid.is_empty() && given.metadata.uid != known.metadata.uid {
        let message = "the uid does not match: another object has this name";
        return Err(Problem::conflict("CONFLICT", message).with_resource(subject(&given)));
    }
    let (version, found) = (given.metadata.resource_version, known.metadata.resource_version);
    if version != 0 && version != found {
        return Err(conflict(known, version, found));
    }
    let changed = given.spec != known.spec;
    let (labels, annotations) = (given.metadata.labels, given.metadata.annotations);
    given.metadata = known.metadata.clone();
    given.metadata.labels = labels;
    given.metadata.annotations = annotations;
    given.metadata.generation += u64::from(changed);
    given.status = known.status.clone();
    check_and_attribute(Some(known), &mut given, request)?;
    Ok(given)
}

/// Refuses an object in a namespace that nothing watches, and a label without a valid review. Records its author.
fn check_and_attribute(
    known: Option<&AnyObject>,
    next: &mut AnyObject,
    request: &ApiRequest,
) -> Result<(), Problem> {
    let actor = request.token.as_ref().map_or("nobody", |token| token.actor.as_str());
    record_applied_by(known, next, actor);
    match namespace_fault(next).or_else(|| review_fault(known, next, actor)) {
        Some(fault) => {
            Err(Problem::invalid_field(&fault.field, fault.message).with_resource(subject(next)))
        }
        None => Ok(()),
    }
}

/// Commits a replacement; fails if the object has changed since it was read.
async fn commit<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
    next: AnyObject,
) -> Result<AnyObject, Problem> {
    let entry = audit_entry(request, &next, AuditAction::Replaced);
    let writes = vec![Write::Replace(next), Write::Audit(entry)];
    single(app.store.commit(writes, request.now).await?.objects)
}

pub(crate) async fn replace<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&["dryRun", "namespace"])?;
    let (kind, target) = (request.kind()?, request.target()?);
    require_declarable(kind)?;
    let expected =
        Expected { kind: Some(kind), namespace: Some(&target.namespace), name: Some(&target.name) };
    let given = parse_document(request.json()?, expected)?;
    let next = replacement(request, &find(app, request).await?, given)?;
    if request.dry_run()? {
        return ok(&next);
    }
    ok(&commit(app, request, next).await?)
}

/// RFC 7396.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    if let Value::Object(target) = target {
        for (key, value) in patch {
            if value.is_null() {
                target.remove(&key);
            } else {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
    }
}

pub(crate) async fn patch<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&["dryRun", "namespace"])?;
    let (kind, target) = (request.kind()?, request.target()?);
    require_declarable(kind)?;
    let change: Value = request.json()?;
    if !change.is_object() {
        return Err(Problem::invalid_field("", "a merge patch must be an object"));
    }
    let names_version = change.pointer("/metadata/resourceVersion").is_some();
    let expected =
        Expected { kind: Some(kind), namespace: Some(&target.namespace), name: Some(&target.name) };
    let mut attempts = 0;
    loop {
        attempts += 1;
        let known = find(app, request).await?;
        let mut merged = serde_json::to_value(&known).map_err(|error| {
            Problem::unavailable(format!("the object cannot be serialized: {error}"))
        })?;
        merge(&mut merged, change.clone());
        let next = replacement(request, &known, parse_document(merged, expected)?)?;
        if request.dry_run()? {
            return ok(&next);
        }
        match commit(app, request, next).await {
            Err(problem)
                if problem.status == StatusCode::CONFLICT
                    && !names_version
                    && attempts < MAX_ATTEMPTS => {}
            written => return ok(&written?),
        }
    }
}

pub(crate) async fn delete<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    request: &ApiRequest,
) -> HandlerResult {
    request.allow_query(&["dryRun", "namespace", "requires", "resourceVersion"])?;
    let kind = request.kind()?;
    require_declarable(kind)?;
    let required = requirement(request)?;
    let known = find(app, request).await?;
    let version = request.number("resourceVersion")?.unwrap_or_default();
    let found = known.metadata.resource_version;
    if version != 0 && version != found {
        return Err(conflict(&known, version, found));
    }
    if request.dry_run()? {
        if let Some(required) = &required {
            require(app.store.as_ref(), required).await?;
        }
        return ok(&known);
    }
    let entry = audit_entry(request, &known, AuditAction::Deleted);
    let (namespace, name) = (known.metadata.namespace.clone(), known.metadata.name.clone());
    let delete = Write::Delete { kind, namespace, name, version };
    let writes = required.map(Write::Require).into_iter().chain([delete, Write::Audit(entry)]);
    app.store.commit(writes.collect(), request.now).await?;
    ok(&known)
}

/// What must hold in the same transaction.
fn requirement(request: &ApiRequest) -> Result<Option<Requirement>, Problem> {
    let text = request.query.get("requires");
    let required = text.map(|text| text.parse::<Requirement>()).transpose();
    required.map_err(|error: MalformedRequirement| {
        Problem::bad_request(format!("`requires` is not a requirement: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::merge;

    #[test]
    fn merge_follows_the_examples_of_rfc_7396() {
        let cases = [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a":"b"}), json!(["c"]), json!(["c"])),
            (json!({"a":"foo"}), json!(null), json!(null)),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!([1, 2]), json!({"a":"b","c":null}), json!({"a":"b"})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ];
        for (mut target, patch, expected) in cases {
            merge(&mut target, patch.clone());
            assert_eq!(target, expected, "{patch}");
        }
    }
}
