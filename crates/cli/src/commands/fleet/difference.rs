//! `bailiwick diff -f`: what `apply` would change.

use std::path::PathBuf;

use bailiwick_engine::context::Context;
use bailiwick_engine::failure::Failure as ServiceFailure;
use bailiwick_fleet::bundle::{RedactionRules, Redactor};
use bailiwick_fleet::ports::{FleetStore, Selection};
use bailiwick_fleet::resources::{self, Outcome};
use bailiwick_resources::{AnyObject, Kind, Metadata};
use bailiwick_store::Store;
use serde::Serialize;
use serde_json::Value;

use super::unified::unified;
use super::{actor, documents, now};
use crate::commands::store::with_store;
use crate::failure::Failure;
use crate::output::{self, Format};

/// How a comparison that found something ends.
const DIFFERENT: u8 = 1;

/// How an object would change.
#[derive(Debug, Serialize)]
struct ObjectDiff {
    kind: Kind,
    namespace: String,
    name: String,
    /// For people, without values of secrets.
    diff: String,
}

/// Shows what would change. It ends with 0 if nothing would, with 1 if something would, and with 2 if it
/// cannot be said.
pub fn run(context: &Context, files: &[PathBuf], format: Format) -> Result<(), Failure> {
    let found = compare(context, files).map_err(not_said)?;
    match format {
        Format::Json => output::json(&found)?,
        Format::Human => found.iter().for_each(|one| output::plain(&one.diff)),
    }
    if found.is_empty() { Ok(()) } else { Err(Failure::Said(DIFFERENT)) }
}

/// What could not be compared is no difference.
fn not_said(failure: Failure) -> Failure {
    match failure {
        Failure::Service(
            ServiceFailure::Failed { text, help } | ServiceFailure::Refused { text, help },
        ) => Failure::usage(text).maybe_help(help),
        Failure::Service(ServiceFailure::Problems(problems)) => {
            output::problems(&problems);
            Failure::Said(2)
        }
        Failure::Said(code) => Failure::Said(code.max(2)),
    }
}

fn compare(context: &Context, files: &[PathBuf]) -> Result<Vec<ObjectDiff>, Failure> {
    let documents = documents::read(context, files)?;
    let actor = actor()?;
    with_store(context, async |store| {
        let planned = resources::apply(store, &documents, &actor, now(), true).await?;
        let redactor = Redactor::new(&RedactionRules {
            known: values(store).await?,
            ..RedactionRules::default()
        });
        let redactor = redactor.map_err(|error| Failure::general(error.to_string()))?;
        let mut found = Vec::new();
        for one in planned.iter().filter(|one| one.outcome != Outcome::Unchanged) {
            let Metadata { namespace, name, .. } = &one.object.metadata;
            let kind = one.object.kind;
            let kept = FleetStore::get(store, kind, namespace, name).await?;
            let before = kept.as_ref().map(declared).transpose()?.unwrap_or_default();
            let after = declared(&one.object)?;
            let (before, after) = (redactor.redact(&before).text, redactor.redact(&after).text);
            let place = format!("{}/{name}", kind.short());
            let names = (format!("kept/{place}"), format!("given/{place}"));
            let shown = unified((&names.0, &names.1), &before, &after);
            // Where only what may not be shown differs, that is all that is said.
            let hidden = || format!("{place} differs in what is not shown\n");
            let diff = shown.unwrap_or_else(hidden);
            found.push(ObjectDiff { kind, namespace: namespace.clone(), name: name.clone(), diff });
        }
        Ok(found)
    })
}

/// The values of all secrets: none of them is shown, wherever it stands.
async fn values(store: &Store) -> Result<Vec<String>, Failure> {
    let mut values = Vec::new();
    let page = FleetStore::list(store, &Selection::of(Kind::Secret)).await?;
    for secret in &page.objects {
        let Metadata { namespace, name, .. } = &secret.metadata;
        let keys = secret.spec.get("keys").and_then(Value::as_object);
        for key in keys.into_iter().flat_map(|keys| keys.keys()) {
            let value = store.secret_value(namespace, name, key).await?;
            values.extend(value.and_then(|value| String::from_utf8(value).ok()));
        }
    }
    Ok(values)
}

/// What people declare of an object: nothing that the store or the control plane has written.
fn declared(object: &AnyObject) -> Result<String, Failure> {
    let Metadata { name, namespace, labels, annotations, .. } = object.metadata.clone();
    let metadata = Metadata { name, namespace, labels, annotations, ..Metadata::default() };
    let spec = object.canonical_spec().map_err(|error| Failure::general(error.to_string()))?;
    let plain = AnyObject { metadata, spec, status: Value::Null, ..object.clone() };
    documents::yaml(&plain)
}

#[cfg(test)]
mod tests {
    use super::not_said;
    use crate::failure::Failure;

    #[test]
    fn what_cannot_be_said_is_not_taken_for_a_difference() {
        for failure in [Failure::general("x"), Failure::usage("x"), Failure::Said(1)] {
            assert_eq!(not_said(failure).code(), 2);
        }
    }
}
