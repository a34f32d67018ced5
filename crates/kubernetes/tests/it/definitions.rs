//! The definitions as a whole.

use std::collections::BTreeSet;

use bailiwick_kubernetes::crds::{Home, custom_kinds, definition, home, yaml};
use bailiwick_resources::{Author, Kind};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// `kubectl apply` stores the last applied text in an annotation, whose size has this limit.
const MAX_ANNOTATIONS: usize = 256 * 1024;

#[test]
fn printed_yaml_has_no_unknown_fields() {
    let text = yaml(custom_kinds()).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    assert_eq!(documents.len(), custom_kinds().count());
    for (document, kind) in documents.into_iter().zip(custom_kinds()) {
        let typed: CustomResourceDefinition = serde_json::from_value(document.clone()).unwrap();
        // The types of k8s-openapi ignore unknown fields, so a round trip must not lose any field.
        assert_eq!(serde_json::to_value(&typed).unwrap(), document, "{kind}");
        assert_eq!(typed, definition(kind).unwrap());
        assert!(document.to_string().len() < MAX_ANNOTATIONS, "{kind} is too large");
    }
}

#[test]
fn unknown_field_is_detected() {
    let mut document = serde_json::to_value(definition(Kind::AgentStack).unwrap()).unwrap();
    document["spec"]["shortNames"] = Value::Null;
    let typed: CustomResourceDefinition = serde_json::from_value(document.clone()).unwrap();
    assert_ne!(serde_json::to_value(&typed).unwrap(), document);
}

#[test]
fn names_are_equal_to_those_of_the_embedded_kinds() {
    let mut all = BTreeSet::new();
    for kind in custom_kinds() {
        let names = definition(kind).unwrap().spec.names;
        // What `kubectl get` accepts leads to one kind, here and in `bailiwick get`.
        let short = names.short_names.clone().unwrap();
        assert_eq!(short[0], kind.short());
        for name in short.iter().chain([&names.plural]).chain(&names.singular) {
            assert_eq!(name.parse(), Ok(kind), "{name}");
            assert!(all.insert(name.clone()), "{name} is a name of two kinds");
        }
        assert_eq!((names.kind.as_str(), names.plural.as_str()), (kind.as_str(), kind.plural()));
        assert_eq!(names.categories, Some(vec!["bailiwick".to_owned()]));
    }
    for name in ["run", "runs", "agentrun", "agentruns", "stacks", "pools", "approvals"] {
        assert!(all.contains(name), "{name}");
    }
    let other_kinds: BTreeSet<Kind> =
        Kind::ALL.iter().copied().filter(|kind| home(*kind) != Home::CustomResource).collect();
    let expected = [
        Kind::ServiceAccount,
        Kind::Role,
        Kind::RoleBinding,
        Kind::Secret,
        Kind::ConfigMap,
        Kind::AgentTriggerExecution,
        Kind::WebhookDelivery,
    ];
    assert_eq!(other_kinds, BTreeSet::from(expected));
}

/// The status is written separately from the spec, and its conditions have the form of Kubernetes.
#[test]
fn status_is_a_subresource_with_conditions_by_type() {
    for kind in custom_kinds() {
        let version = definition(kind).unwrap().spec.versions.remove(0);
        assert!(version.subresources.unwrap().status.is_some(), "{kind}");
        let schema = version.schema.unwrap().open_api_v3_schema.unwrap();
        let status = &schema.properties.as_ref().unwrap()["status"];
        let conditions = status.properties.as_ref().and_then(|fields| fields.get("conditions"));
        let declared = kind.author() == Author::People;
        assert!(conditions.is_some() || !declared, "{kind} has no conditions");
        if let Some(conditions) = conditions {
            assert_eq!(conditions.x_kubernetes_list_map_keys, Some(vec!["type".to_owned()]));
        }
    }
}
