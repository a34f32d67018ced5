//! A document as somebody sent it, until it may be declared.

use bailiwick_resources::{AnyObject, Author, Kind};
use serde_json::Value;

use crate::asked::subject;
use crate::problem::Problem;

/// What a document must agree with: what its path says.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Expected<'a> {
    pub(super) kind: Option<Kind>,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: Option<&'a str>,
}

/// Refuses kinds that nobody declares.
pub(super) fn must_be_declared(kind: Kind) -> Result<(), Problem> {
    match kind.author() {
        Author::People => Ok(()),
        Author::ControlPlane => Err(Problem::forbidden(
            "KIND_DENIED",
            format!("{kind} records what happened; the control plane alone writes it"),
        )),
    }
}

/// A document that is well-formed, agrees with its path, and has no faults.
pub(super) fn document(mut value: Value, expected: Expected<'_>) -> Result<AnyObject, Problem> {
    if let (Some(namespace), Some(metadata)) =
        (expected.namespace, value.get_mut("metadata").and_then(Value::as_object_mut))
    {
        metadata.entry("namespace").or_insert_with(|| Value::from(namespace));
    }
    let object: AnyObject = serde_json::from_value(value).map_err(|error| Problem::json(&error))?;
    let about = subject(&object);
    check(&object, expected).map_err(|problem| problem.about(about))?;
    Ok(object)
}

fn check(object: &AnyObject, expected: Expected<'_>) -> Result<(), Problem> {
    if let Some(kind) = expected.kind.filter(|kind| *kind != object.kind) {
        return Err(Problem::fault("kind", format!("the path says {kind}")));
    }
    let names = [
        ("metadata.namespace", expected.namespace, &object.metadata.namespace),
        ("metadata.name", expected.name, &object.metadata.name),
    ];
    for (field, said, found) in names {
        if let Some(said) = said.filter(|said| said != found) {
            return Err(Problem::fault(field, format!("the path says `{said}`, not `{found}`")));
        }
    }
    must_be_declared(object.kind)?;
    if object.kind == Kind::Secret {
        let message = "values do not belong into documents: PUT them to \
                       /api/v1alpha1/namespaces/<namespace>/secrets/<name>";
        return Err(Problem::fault("kind", message));
    }
    let faults = object.check()?;
    if faults.is_empty() { Ok(()) } else { Err(Problem::invalid(&faults)) }
}

/// Refuses a status that somebody made up. One that was read and is sent back is no matter.
pub(super) fn own_status(given: &AnyObject, known: Option<&AnyObject>) -> Result<(), Problem> {
    let same = known.is_some_and(|known| known.status == given.status);
    if given.status.is_null() || same {
        return Ok(());
    }
    let message =
        "a status is what the control plane found: leave it out, or send it as you read it";
    Err(Problem::fault("status", message).about(subject(given)))
}
