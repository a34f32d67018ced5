//! Fields in a JSON Schema, by their paths.

use serde::Serialize;
use serde_json::{Map, Value};

/// How often a reference leads to another one before it is given up.
const MAX_REFERENCES: usize = 16;

/// A field, as people need it described.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct FieldDescription {
    pub(super) name: String,
    /// The type, as `[string]`.
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) required: bool,
    pub(super) description: String,
    /// The possible values, each with its meaning.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) values: Vec<PossibleValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) fields: Vec<FieldDescription>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct PossibleValue {
    pub(super) name: String,
    pub(super) description: String,
}

/// A field that does not exist.
#[derive(Debug)]
pub(super) struct MissingField<'a> {
    pub(super) parents: Vec<&'a str>,
    pub(super) name: &'a str,
    /// The fields that exist there.
    pub(super) known: Vec<String>,
}

/// The field at a path.
pub(super) fn find<'a>(
    root: &Value,
    path: &[&'a str],
) -> Result<FieldDescription, MissingField<'a>> {
    let (mut schema, mut description, mut name) = (root, text(root, "description"), "");
    for (depth, part) in path.iter().enumerate() {
        let inner = element(root, schema);
        let fields = properties(root, inner);
        let Some((_, next)) = fields.iter().find(|(name, _)| name == part) else {
            let parents = path.get(..depth).unwrap_or_default().to_vec();
            let known = fields.into_iter().map(|(name, _)| name.to_owned()).collect();
            return Err(MissingField { parents, name: part, known });
        };
        (schema, description, name) = (next, text(next, "description"), part);
    }
    let inner = element(root, schema);
    let required = required_names(root, inner);
    let fields = properties(root, inner).into_iter().map(|(name, field)| FieldDescription {
        name: name.to_owned(),
        kind: type_name(root, field),
        required: required.contains(&name),
        description: described(root, field),
        ..FieldDescription::default()
    });
    let description = if description.is_empty() { described(root, schema) } else { description };
    Ok(FieldDescription {
        name: name.to_owned(),
        kind: type_name(root, schema),
        required: false,
        description,
        values: values(inner),
        fields: fields.collect(),
    })
}

fn text(schema: &Value, key: &str) -> String {
    let text = schema.get(key).and_then(Value::as_str).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Its own description, else that of its type.
fn described(root: &Value, schema: &Value) -> String {
    let own = text(schema, "description");
    if own.is_empty() { text(resolve(root, schema), "description") } else { own }
}

/// Follows references, and passes over `null`.
fn resolve<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..MAX_REFERENCES {
        let target = schema.get("$ref").and_then(Value::as_str);
        let target = target.and_then(|path| root.pointer(path.strip_prefix('#')?));
        let other = schema.get("anyOf").and_then(Value::as_array).and_then(|all| {
            let mut others = all.iter().filter(|one| text(one, "type") != "null");
            others.next().filter(|_| others.next().is_none())
        });
        match target.or(other) {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}

/// The schema of an element, if it is a list or a map.
fn element<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let mut schema = resolve(root, schema);
    for _ in 0..MAX_REFERENCES {
        let map = schema.get("additionalProperties").filter(|inner| inner.is_object());
        let Some(inner) = schema.get("items").or(map) else { break };
        schema = resolve(root, inner);
    }
    schema
}

fn alternatives(schema: &Value) -> &[Value] {
    schema.get("oneOf").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The fields of an object; those of every alternative, if there are some.
fn properties<'a>(root: &'a Value, schema: &'a Value) -> Vec<(&'a str, &'a Value)> {
    let mut found: Vec<(&str, &Value)> = Vec::new();
    let all = std::iter::once(schema).chain(alternatives(schema));
    let maps = all.filter_map(|one| resolve(root, one).get("properties")?.as_object());
    for (name, field) in maps.flat_map(Map::iter) {
        if !found.iter().any(|(known, _)| known == name) {
            found.push((name, field));
        }
    }
    found
}

fn required_names<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a str> {
    let list = resolve(root, schema).get("required").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn values(schema: &Value) -> Vec<PossibleValue> {
    let named = |one: &Value| {
        let name = one.get("const")?.as_str()?.to_owned();
        Some(PossibleValue { name, description: text(one, "description") })
    };
    let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    let listed = listed
        .filter_map(Value::as_str)
        .map(|name| PossibleValue { name: name.to_owned(), description: String::new() });
    alternatives(schema).iter().filter_map(named).chain(listed).collect()
}

fn type_name(root: &Value, schema: &Value) -> String {
    let schema = resolve(root, schema);
    if let Some(items) = schema.get("items") {
        return format!("[{}]", type_name(root, items));
    }
    if let Some(inner) = schema.get("additionalProperties").filter(|inner| inner.is_object()) {
        return format!("map of {}", type_name(root, inner));
    }
    if !values(schema).is_empty() {
        return "one of several values".to_owned();
    }
    match schema.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(all)) => {
            let names = all.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            names.collect::<Vec<_>>().join(" or ")
        }
        _ if !alternatives(schema).is_empty() => "object".to_owned(),
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::Kind;

    use super::{FieldDescription, find};

    fn field(path: &[&str]) -> FieldDescription {
        let schemas = bailiwick_server::schemas();
        find(&schemas["AgentStack"], path).unwrap()
    }

    #[test]
    fn fields_are_found_through_references_lists_and_maps() {
        let spec = field(&["spec"]);
        let of = |name: &str| spec.fields.iter().find(|field| field.name == name).unwrap();
        assert!(of("baseAgent").required && !of("model").required);
        assert_eq!(
            (of("allowedCommands").kind.as_str(), of("model").kind.as_str()),
            ("[string]", "string")
        );
        let scope = field(&["spec", "scope"]);
        assert!(scope.description.contains("files that the agent may write"), "{scope:?}");
        assert_eq!(field(&["spec", "scope", "filesWhitelist"]).kind, "[string]");
        let program = field(&["spec", "baseAgent"]);
        assert!(program.values.iter().any(|value| value.name == "codex"), "{program:?}");
        assert!(field(&["spec", "script"]).fields.iter().any(|field| field.name == "command"));
        assert!(field(&["spec", "writeBackPolicy", "modes"]).kind.starts_with("map of"));
    }

    #[test]
    fn every_kind_has_fields_and_errors_list_known_fields() {
        let schemas = bailiwick_server::schemas();
        for kind in Kind::ALL {
            let found = find(&schemas[kind.as_str()], &[]).unwrap();
            assert!(found.fields.iter().any(|field| field.name == "spec"), "{kind}: {found:?}");
        }
        let missing = find(&schemas["AgentStack"], &["spec", "modle"]).unwrap_err();
        assert_eq!((missing.parents, missing.name), (vec!["spec"], "modle"));
        assert!(missing.known.contains(&"model".to_owned()));
    }
}
