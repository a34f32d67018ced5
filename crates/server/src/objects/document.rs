//! Validates documents that clients send.

use bailiwick_resources::{AnyObject, Author, Kind, ObjectError};
use serde_json::Value;

use crate::problem::Problem;
use crate::request::subject;

/// What the path of the request requires of a document.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Expected<'a> {
    pub(super) kind: Option<Kind>,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: Option<&'a str>,
}

/// Refuses kinds that only the control plane writes.
pub(super) fn require_declarable(kind: Kind) -> Result<(), Problem> {
    match kind.author() {
        Author::People => Ok(()),
        Author::ControlPlane => {
            Err(Problem::forbidden("KIND_DENIED", format!("only the control plane writes {kind}")))
        }
    }
}

/// Parses a document; it must agree with the path and have no faults.
pub(super) fn parse_document(
    mut value: Value,
    expected: Expected<'_>,
) -> Result<AnyObject, Problem> {
    if let (Some(namespace), Some(metadata)) =
        (expected.namespace, value.get_mut("metadata").and_then(Value::as_object_mut))
    {
        metadata.entry("namespace").or_insert_with(|| Value::from(namespace));
    }
    let object: AnyObject = serde_json::from_value(value).map_err(|error| Problem::json(&error))?;
    let about = subject(&object);
    check(&object, expected).map_err(|problem| problem.with_resource(about))?;
    Ok(object)
}

fn check(object: &AnyObject, expected: Expected<'_>) -> Result<(), Problem> {
    if let Some(kind) = expected.kind.filter(|kind| *kind != object.kind) {
        return Err(Problem::invalid_field("kind", format!("the path requires {kind}")));
    }
    let names = [
        ("metadata.namespace", expected.namespace, &object.metadata.namespace),
        ("metadata.name", expected.name, &object.metadata.name),
    ];
    for (field, expected, found) in names {
        if let Some(expected) = expected.filter(|expected| expected != found) {
            return Err(Problem::invalid_field(
                field,
                format!("the path requires `{expected}`, not `{found}`"),
            ));
        }
    }
    require_declarable(object.kind)?;
    if object.kind == Kind::Secret {
        let message = "a secret cannot be declared in a document: PUT its values to \
                       /api/v1alpha1/namespaces/<namespace>/secrets/<name>";
        return Err(Problem::invalid_field("kind", message));
    }
    let faults = object.check().map_err(|error| shape_problem(object, error))?;
    if faults.is_empty() { Ok(()) } else { Err(Problem::invalid(&faults)) }
}

/// Names the field whose shape is wrong: the status if the object is valid without it.
fn shape_problem(object: &AnyObject, error: ObjectError) -> Problem {
    let without_status = AnyObject { status: Value::Null, ..object.clone() };
    match &error {
        ObjectError::Shape { .. } if without_status.check().is_ok() => {
            Problem::invalid_field("status", error.to_string())
        }
        ObjectError::Shape { .. } | ObjectError::Version { .. } | ObjectError::Kind { .. } => {
            error.into()
        }
    }
}

/// Refuses a changed status. A client may send back the status that it read.
pub(super) fn refuse_status(object: &AnyObject, known: Option<&AnyObject>) -> Result<(), Problem> {
    let same = known.is_some_and(|known| known.status == object.status);
    if object.status.is_null() || same {
        return Ok(());
    }
    let message = "only the control plane writes a status: leave it out, or send it unchanged";
    Err(Problem::invalid_field("status", message).with_resource(subject(object)))
}
