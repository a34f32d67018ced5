//! What applying documents would change, as `diff -u` shows it and without values of secrets.

use bailiwick_resources::{AnyObject, Kind, Metadata, Moment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::apply::{DeclareError, Outcome, apply_by};
use super::audit::AuditActor;
use super::unified::unified;
use crate::bundle::{RedactionRules, Redactor};
use crate::ports::{FleetError, FleetStore, Selection};

/// How an object would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectDiff {
    /// The kind.
    pub kind: Kind,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The change for people, without values of secrets.
    pub diff: String,
}

/// Compares documents with what is stored; only objects that would change are listed.
pub async fn compare<S: FleetStore>(
    store: &S,
    documents: &[AnyObject],
    by: &AuditActor,
    now: Moment,
) -> Result<Vec<ObjectDiff>, DeclareError> {
    let planned = apply_by(store, documents, by, now, true).await?;
    let redactor = Redactor::new(&RedactionRules {
        known: secret_values(store).await?,
        ..RedactionRules::default()
    });
    let redactor = redactor.map_err(|error| unavailable(error.to_string()))?;
    let mut found = Vec::new();
    for one in planned.iter().filter(|one| one.outcome != Outcome::Unchanged) {
        let Metadata { namespace, name, .. } = &one.object.metadata;
        let kind = one.object.kind;
        let stored = store.get(kind, namespace, name).await?;
        let before = stored.as_ref().map(declared).transpose()?.unwrap_or_default();
        let after = declared(&one.object)?;
        let (before, after) = (redactor.redact(&before).text, redactor.redact(&after).text);
        let place = format!("{}/{name}", kind.short());
        let names = (format!("live/{place}"), format!("file/{place}"));
        let shown = unified((&names.0, &names.1), &before, &after);
        // Where only what may not be shown differs, that is all that is said.
        let hidden = || format!("{place} differs in what is not shown\n");
        let diff = shown.unwrap_or_else(hidden);
        found.push(ObjectDiff { kind, namespace: namespace.clone(), name: name.clone(), diff });
    }
    Ok(found)
}

fn unavailable(why: String) -> DeclareError {
    DeclareError::Store(FleetError::Unavailable(why))
}

/// The values of all secrets: none of them is shown, wherever it stands.
async fn secret_values<S: FleetStore>(store: &S) -> Result<Vec<String>, FleetError> {
    let mut values = Vec::new();
    let mut selection = Selection::of(Kind::Secret);
    loop {
        let page = store.list(&selection).await?;
        for secret in &page.objects {
            let Metadata { namespace, name, .. } = &secret.metadata;
            let keys = secret.spec.get("keys").and_then(Value::as_object);
            for key in keys.into_iter().flat_map(|keys| keys.keys()) {
                let value = store.secret_value(namespace, name, key).await?;
                values.extend(value.and_then(|value| String::from_utf8(value).ok()));
            }
        }
        if page.next.is_none() {
            return Ok(values);
        }
        selection.after = page.next;
    }
}

/// What people declare of an object: nothing that the store or the control plane has written.
fn declared(object: &AnyObject) -> Result<String, DeclareError> {
    let Metadata { name, namespace, labels, annotations, .. } = object.metadata.clone();
    let metadata = Metadata { name, namespace, labels, annotations, ..Metadata::default() };
    let spec = object.canonical_spec()?;
    let plain = AnyObject { metadata, spec, status: Value::Null, ..object.clone() };
    serde_saphyr::to_string(&plain)
        .map_err(|error| unavailable(format!("it cannot be written as YAML: {error}")))
}
