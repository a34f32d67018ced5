//! Conditions as Kubernetes defines them (`metav1.Condition`), so that `kubectl wait` and others read them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{JSON, JSONSchemaProps};
use serde_json::Value;

use super::typed;

const TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
const REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// Whether a schema is a reference to the type of conditions.
pub(super) fn is_referenced_by(items: &Value) -> bool {
    let reference = items.get("$ref").and_then(Value::as_str);
    reference.is_some_and(|text| text.rsplit('/').next() == Some("Condition"))
}

/// A list has one condition of each type.
pub(super) fn list(node: &mut JSONSchemaProps) {
    node.x_kubernetes_list_type = Some("map".to_owned());
    node.x_kubernetes_list_map_keys = Some(vec!["type".to_owned()]);
}

/// The schema of a condition, with the limits of Kubernetes.
pub(super) fn schema() -> JSONSchemaProps {
    let kind = JSONSchemaProps {
        pattern: Some(TYPE.to_owned()),
        max_length: Some(316),
        ..described("The type of the condition.", "string")
    };
    let status = JSONSchemaProps {
        enum_: Some(["True", "False", "Unknown"].map(|word| JSON(word.into())).into()),
        ..described("Whether the condition holds.", "string")
    };
    let reason = JSONSchemaProps {
        pattern: Some(REASON.to_owned()),
        min_length: Some(1),
        max_length: Some(1024),
        ..described("A stable code for the reason.", "string")
    };
    let message = JSONSchemaProps {
        max_length: Some(32_768),
        ..described("A message for people. Programs must not parse it.", "string")
    };
    let generation = JSONSchemaProps {
        format: Some("int64".to_owned()),
        minimum: Some(0.0),
        ..described("The generation that this condition describes.", "integer")
    };
    let time = JSONSchemaProps {
        format: Some("date-time".to_owned()),
        ..described("When the status of the condition last changed.", "string")
    };
    let fields = [
        ("type", kind),
        ("status", status),
        ("reason", reason),
        ("message", message),
        ("observedGeneration", generation),
        ("lastTransitionTime", time),
    ];
    let required = ["type", "status", "reason", "message", "lastTransitionTime"];
    JSONSchemaProps {
        properties: Some(fields.map(|(name, field)| (name.to_owned(), field)).into()),
        required: Some(required.map(str::to_owned).into()),
        ..described("A condition of an object.", "object")
    }
}

fn described(text: &str, type_: &str) -> JSONSchemaProps {
    JSONSchemaProps { description: Some(text.to_owned()), ..typed(type_) }
}
