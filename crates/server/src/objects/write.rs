//! Declaring one object: create, replace, merge, delete. Each is one commit with its audit line.

use std::sync::Arc;

use bailiwick_fleet::ports::{AuditEntry, Fleet, FleetError, FleetStore, Write};
use bailiwick_fleet::resources::{AuditAction, namespace_fault, review_fault};
use bailiwick_resources::AnyObject;
use hyper::StatusCode;
use serde_json::Value;

use super::document::{Expected, document, must_be_declared, own_status};
use super::read::found;
use crate::app::App;
use crate::asked::{Answer, Asked, json, ok, subject};
use crate::problem::Problem;

/// How often a merge is tried again when somebody else was quicker.
const TRIES: usize = 5;

/// The line about a deed. Of the spec only its digest: it may say more than the log's readers may know.
fn line(asked: &Asked, object: &AnyObject, deed: AuditAction) -> AuditEntry {
    asked.by().line(deed, object, asked.now)
}

pub(crate) async fn create<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    asked.known_query(&["dryRun", "namespace"])?;
    let kind = asked.kind()?;
    let expected = Expected { kind: Some(kind), namespace: asked.named_namespace(), name: None };
    must_be_declared(kind)?;
    let mut object = document(asked.json()?, expected)?;
    own_status(&object, None)?;
    reviewed(None, &mut object, asked)?;
    let line = line(asked, &object, AuditAction::Created);
    if asked.dry_run()? {
        let metadata = &object.metadata;
        if app.store.get(kind, &metadata.namespace, &metadata.name).await?.is_some() {
            let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
            return Err(FleetError::AlreadyExists { kind, namespace, name }.into());
        }
        return json(StatusCode::CREATED, &object);
    }
    let writes = vec![Write::Create(object), Write::Audit(line)];
    let applied = app.store.commit(writes, asked.now).await?;
    json(StatusCode::CREATED, &one(applied.objects)?)
}

fn one(objects: Vec<AnyObject>) -> Result<AnyObject, Problem> {
    objects.into_iter().next().ok_or_else(|| Problem::unavailable("the store wrote nothing"))
}

fn conflict(object: &AnyObject, given: u64, found: u64) -> Problem {
    let (namespace, name) = (object.metadata.namespace.clone(), object.metadata.name.clone());
    FleetError::Conflict { kind: object.kind, namespace, name, given, found }.into()
}

/// What a replacement of `known` by `given` would be; refused if it is about another object.
fn replacement(
    asked: &Asked,
    known: &AnyObject,
    mut given: AnyObject,
) -> Result<AnyObject, Problem> {
    own_status(&given, Some(known))?;
    if !given.metadata.uid.is_empty() && given.metadata.uid != known.metadata.uid {
        let message = "there is another object of this name: the uid is not the one that you send";
        return Err(Problem::conflict("CONFLICT", message).about(subject(&given)));
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
    reviewed(Some(known), &mut given, asked)?;
    Ok(given)
}

/// Refuses what nobody would act upon, and a label whose review is none.
fn reviewed(known: Option<&AnyObject>, next: &mut AnyObject, asked: &Asked) -> Result<(), Problem> {
    let actor = asked.token.as_ref().map_or("nobody", |token| token.actor.as_str());
    match namespace_fault(next).or_else(|| review_fault(known, next, actor)) {
        Some(fault) => Err(Problem::fault(&fault.field, fault.message).about(subject(next))),
        None => Ok(()),
    }
}

/// Commits a replacement that was made from what was found: whoever was quicker is not written over.
async fn commit<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    asked: &Asked,
    next: AnyObject,
) -> Result<AnyObject, Problem> {
    let line = line(asked, &next, AuditAction::Replaced);
    let writes = vec![Write::Replace(next), Write::Audit(line)];
    one(app.store.commit(writes, asked.now).await?.objects)
}

pub(crate) async fn replace<S: FleetStore, F: Fleet>(
    app: &Arc<App<S, F>>,
    asked: &Asked,
) -> Answer {
    asked.known_query(&["dryRun", "namespace"])?;
    let (kind, target) = (asked.kind()?, asked.target()?);
    must_be_declared(kind)?;
    let expected =
        Expected { kind: Some(kind), namespace: Some(&target.namespace), name: Some(&target.name) };
    let given = document(asked.json()?, expected)?;
    let next = replacement(asked, &found(app, asked).await?, given)?;
    if asked.dry_run()? {
        return ok(&next);
    }
    ok(&commit(app, asked, next).await?)
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

pub(crate) async fn patch<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    asked.known_query(&["dryRun", "namespace"])?;
    let (kind, target) = (asked.kind()?, asked.target()?);
    must_be_declared(kind)?;
    let change: Value = asked.json()?;
    if !change.is_object() {
        return Err(Problem::fault("", "a merge patch is an object"));
    }
    let names_version = change.pointer("/metadata/resourceVersion").is_some();
    let expected =
        Expected { kind: Some(kind), namespace: Some(&target.namespace), name: Some(&target.name) };
    let mut tries = 0;
    loop {
        tries += 1;
        let known = found(app, asked).await?;
        let mut merged = serde_json::to_value(&known)
            .map_err(|error| Problem::unavailable(format!("the object cannot be read: {error}")))?;
        merge(&mut merged, change.clone());
        let next = replacement(asked, &known, document(merged, expected)?)?;
        if asked.dry_run()? {
            return ok(&next);
        }
        match commit(app, asked, next).await {
            Err(problem)
                if problem.status == StatusCode::CONFLICT && !names_version && tries < TRIES => {}
            written => return ok(&written?),
        }
    }
}

pub(crate) async fn delete<S: FleetStore, F: Fleet>(app: &Arc<App<S, F>>, asked: &Asked) -> Answer {
    asked.known_query(&["dryRun", "namespace", "resourceVersion"])?;
    let kind = asked.kind()?;
    must_be_declared(kind)?;
    let known = found(app, asked).await?;
    let version = asked.number("resourceVersion")?.unwrap_or_default();
    let is = known.metadata.resource_version;
    if version != 0 && version != is {
        return Err(conflict(&known, version, is));
    }
    if asked.dry_run()? {
        return ok(&known);
    }
    let line = line(asked, &known, AuditAction::Deleted);
    let (namespace, name) = (known.metadata.namespace.clone(), known.metadata.name.clone());
    let gone = Write::Delete { kind, namespace, name, version };
    app.store.commit(vec![gone, Write::Audit(line)], asked.now).await?;
    ok(&known)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::merge;

    #[test]
    fn merging_is_as_rfc_7396_shows_it() {
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
        for (mut target, patch, wanted) in cases {
            merge(&mut target, patch.clone());
            assert_eq!(target, wanted, "{patch}");
        }
    }
}
