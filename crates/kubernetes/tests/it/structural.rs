//! The rules of structural schemas, as an API server checks them before it accepts a definition.

use std::collections::BTreeSet;

use bailiwick_kubernetes::crds::custom_kinds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};
use serde_json::{Value, json};

use crate::{api_server, schema};

/// Fields that accept any value: their types are `serde_json::Value`.
const ANY_VALUE_FIELDS: [&str; 4] = [
    ".spec.agentStackSnapshot.objects[].spec",
    ".spec.match.payload[].oneOf[]",
    ".status.capabilities",
    ".status.limits[]",
];

#[test]
fn every_schema_is_structural() {
    let mut any_value_fields = BTreeSet::new();
    for kind in custom_kinds() {
        let schema = schema(kind);
        let mut errors = Vec::new();
        check(&schema, "", &mut errors, &mut any_value_fields);
        root(&schema, &mut errors);
        assert!(errors.is_empty(), "{kind}: {errors:#?}");
    }
    assert_eq!(
        any_value_fields,
        ANY_VALUE_FIELDS.map(str::to_owned).into(),
        "fields that accept any value"
    );
}

fn root(schema: &JSONSchemaProps, errors: &mut Vec<String>) {
    let fields = schema.properties.as_ref().unwrap();
    let metadata = &fields["metadata"];
    let restricted: Vec<&String> =
        metadata.properties.iter().flatten().map(|(name, _)| name).collect();
    if schema.type_.as_deref() != Some("object") || restricted != ["name"] {
        errors.push("metadata can restrict only the name".to_owned());
    }
    // The control plane writes the status, so it must have no defaults.
    fn has_default(schema: &JSONSchemaProps) -> bool {
        let below = schema.properties.iter().flatten().map(|(_, field)| field);
        let below = below.chain(api_server::items(schema)).chain(api_server::values(schema));
        schema.default.is_some() || below.into_iter().any(has_default)
    }
    if has_default(&fields["status"]) {
        errors.push("a default in the status".to_owned());
    }
    assert!(has_default(&fields["spec"]) || fields["spec"].required.is_some());
}

/// The errors of a schema.
fn check(
    schema: &JSONSchemaProps,
    path: &str,
    errors: &mut Vec<String>,
    any_value_fields: &mut BTreeSet<String>,
) {
    let mut fail = |what: &str| errors.push(format!("{path}: {what}"));
    let any = schema.x_kubernetes_preserve_unknown_fields == Some(true);
    if any {
        any_value_fields.insert(path.to_owned());
    }
    match schema.type_.as_deref() {
        None if !any => fail("no type"),
        None | Some("object" | "array" | "string" | "integer" | "boolean" | "number") => {}
        Some(_) => fail("not a type of JSON"),
    }
    let unused = [
        schema.ref_path.is_some(),
        schema.schema.is_some(),
        schema.id.is_some(),
        schema.additional_items.is_some(),
        schema.definitions.is_some(),
        schema.dependencies.is_some(),
        schema.pattern_properties.is_some(),
        schema.unique_items.is_some(),
        schema.all_of.is_some(),
        schema.any_of.is_some(),
        schema.one_of.is_some(),
        schema.not.is_some(),
    ];
    if unused.contains(&true) {
        fail("a keyword that is forbidden or not needed");
    }
    if schema.properties.is_some() && schema.additional_properties.is_some() {
        fail("properties and additionalProperties exclude each other");
    }
    if matches!(schema.additional_properties, Some(JSONSchemaPropsOrBool::Bool(_))) {
        fail("additionalProperties is not a schema");
    }
    if matches!(schema.items, Some(JSONSchemaPropsOrArray::Schemas(_))) {
        fail("items is a list");
    }
    if (schema.type_.as_deref() == Some("array")) != schema.items.is_some() {
        fail("arrays need items, and other types cannot have them");
    }
    for name in schema.required.iter().flatten() {
        if !schema.properties.as_ref().is_some_and(|fields| fields.contains_key(name)) {
            fail("an unknown field is required");
        }
    }
    if schema.enum_.is_some() && schema.nullable.is_some() {
        fail("an enumeration cannot be nullable");
    }
    if let Some(JSON(default)) = &schema.default {
        let found = api_server::errors(schema, default);
        if default.is_null() || !found.is_empty() {
            fail(&format!("the default is invalid: {found:?}"));
        }
    }
    if let Some(pattern) = &schema.pattern
        && regex::Regex::new(pattern).is_err()
    {
        fail("the pattern is not a valid regular expression");
    }
    if let Some(keys) = &schema.x_kubernetes_list_map_keys {
        let item = api_server::items(schema).unwrap();
        for key in keys {
            let required = item.required.iter().flatten().any(|name| name == key);
            let field = item.properties.as_ref().and_then(|fields| fields.get(key));
            let scalar = field.is_some_and(|field| field.type_.as_deref() == Some("string"));
            if !required || !scalar || schema.x_kubernetes_list_type.as_deref() != Some("map") {
                fail("the key of a list must be a required string");
            }
        }
    }
    for rule in schema.x_kubernetes_validations.iter().flatten() {
        let message = rule.message.as_deref().unwrap_or_default();
        let is_line = !message.is_empty() && message.len() <= 2048 && !message.contains('\n');
        if !is_line || !rule.rule.contains("self") || cel::Program::compile(&rule.rule).is_err() {
            fail(&format!("invalid rule or message: {}", rule.rule));
        }
    }
    for (name, field) in schema.properties.iter().flatten() {
        check(field, &format!("{path}.{name}"), errors, any_value_fields);
    }
    if let Some(items) = api_server::items(schema) {
        check(items, &format!("{path}[]"), errors, any_value_fields);
    }
    if let Some(values) = api_server::values(schema) {
        check(values, &format!("{path}{{}}"), errors, any_value_fields);
    }
}

#[test]
fn schemas_that_are_not_structural_are_detected() {
    let text =
        || JSONSchemaProps { type_: Some("string".to_owned()), ..JSONSchemaProps::default() };
    let object = |field: JSONSchemaProps| JSONSchemaProps {
        type_: Some("object".to_owned()),
        properties: Some([("field".to_owned(), field)].into()),
        ..JSONSchemaProps::default()
    };
    let found = |schema: JSONSchemaProps| {
        let mut errors = Vec::new();
        check(&schema, "", &mut errors, &mut BTreeSet::new());
        errors.len()
    };
    assert_eq!(found(object(text())), 0);
    let rule = |rule: &str| ValidationRule {
        rule: rule.to_owned(),
        message: Some("wrong".to_owned()),
        ..ValidationRule::default()
    };
    for broken in [
        JSONSchemaProps::default(),
        JSONSchemaProps { one_of: Some(vec![text()]), ..text() },
        JSONSchemaProps { ref_path: Some("#/definitions/x".to_owned()), ..text() },
        JSONSchemaProps { type_: Some("array".to_owned()), ..text() },
        JSONSchemaProps { required: Some(vec!["other".to_owned()]), ..object(text()) },
        JSONSchemaProps { default: Some(JSON(json!(1))), ..text() },
        JSONSchemaProps { default: Some(JSON(Value::Null)), ..text() },
        JSONSchemaProps { enum_: Some(vec![JSON(json!("a"))]), nullable: Some(true), ..text() },
        JSONSchemaProps { pattern: Some("(".to_owned()), ..text() },
        JSONSchemaProps { x_kubernetes_validations: Some(vec![rule("self ==")]), ..text() },
        JSONSchemaProps {
            additional_properties: Some(JSONSchemaPropsOrBool::Schema(Box::new(text()))),
            ..object(text())
        },
        JSONSchemaProps {
            additional_properties: Some(JSONSchemaPropsOrBool::Bool(false)),
            type_: Some("object".to_owned()),
            ..JSONSchemaProps::default()
        },
    ] {
        assert_eq!(found(object(broken.clone())), 1, "{broken:?}");
    }
}
