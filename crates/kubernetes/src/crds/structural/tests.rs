//! Conversion to structural schemas, and the errors of unsupported schemas.

use serde_json::{Map, Value, json};

use super::{Defaults, Reader, SchemaError, Unsupported};

fn read(schema: &Value, definitions: &Value) -> Result<Value, SchemaError> {
    let definitions: Map<String, Value> = definitions.as_object().unwrap().clone();
    let node = Reader::new(&definitions, Defaults::Kept).read(schema, "spec")?;
    Ok(serde_json::to_value(node).unwrap())
}

#[test]
fn references_are_inlined_and_null_makes_a_value_nullable() {
    let definitions = json!({
        "Mode": { "oneOf": [{ "const": "a", "type": "string" }, { "const": "b", "type": "string" }] },
    });
    let schema = json!({
        "description": "The mode.",
        "anyOf": [{ "$ref": "#/$defs/Mode" }, { "type": "null" }],
        "default": "a",
    });
    let expected = json!({
        "description": "The mode.", "type": "string", "enum": ["a", "b"], "default": "a",
    });
    assert_eq!(read(&schema, &definitions), Ok(expected));
    let expected = json!({ "type": "string", "nullable": true });
    assert_eq!(read(&json!({ "type": ["string", "null"] }), &definitions), Ok(expected));
}

#[test]
fn tagged_objects_become_one_object_with_rules() {
    let choice = |word: &str, field: &str| {
        json!({
            "type": "object",
            "properties": {
                "do": { "const": word, "type": "string" }, field: { "type": "string" },
            },
            "required": ["do", field],
        })
    };
    let converted =
        read(&json!({ "oneOf": [choice("say", "text"), choice("read", "path")] }), &json!({}));
    let expected = json!({
        "type": "object",
        "properties": {
            "do": { "type": "string", "enum": ["say", "read"] },
            "path": { "type": "string" }, "text": { "type": "string" },
        },
        "required": ["do"],
        "x-kubernetes-validations": [
            {
                "rule": "self.do != 'say' || (has(self.text) && !has(self.path))",
                "message": "`say` has the fields text and no others",
            },
            {
                "rule": "self.do != 'read' || (has(self.path) && !has(self.text))",
                "message": "`read` has the fields path and no others",
            },
        ],
    });
    assert_eq!(converted, Ok(expected));
}

#[test]
fn unsupported_schemas_are_refused() {
    let definitions = json!({
        "Tree": { "type": "object", "properties": { "left": { "$ref": "#/$defs/Tree" } } },
    });
    for (schema, reason) in [
        (json!({ "$ref": "#/$defs/Tree" }), Unsupported::Recursive("Tree".to_owned())),
        (json!({ "$ref": "#/$defs/No" }), Unsupported::Reference("#/$defs/No".to_owned())),
        (json!({ "not": {} }), Unsupported::Keyword("not".to_owned())),
        (json!({ "type": ["string", "integer"] }), Unsupported::Types),
        (json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }), Unsupported::Types),
        (
            json!({ "oneOf": [{ "type": "string" }, { "type": "object" }] }),
            Unsupported::Alternatives,
        ),
        (json!({ "type": "string", "format": "ipv9" }), Unsupported::Format("ipv9".to_owned())),
        (json!(false), Unsupported::NotAnObject),
    ] {
        assert_eq!(read(&schema, &definitions).unwrap_err().why, reason, "{schema}");
    }
}
