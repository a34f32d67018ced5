//! From the JSON Schema of a type to the structural schema that an API server accepts.
//!
//! A structural schema has no references, one type for each value, and no alternatives. A keyword
//! that is not known here is an error: nothing of a type may get lost.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::{Map, Value};

use super::typed;

mod alternatives;
mod condition;

/// Keywords that are read.
const KNOWN: [&str; 16] = [
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "default",
    "description",
    "format",
    "items",
    "maximum",
    "minimum",
    "oneOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
];

/// Where the schema of a type cannot become a structural schema, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct SchemaError {
    /// The path of the field.
    pub path: String,
    /// What is in the way.
    pub why: Unsupported,
}

impl SchemaError {
    pub(super) fn at(path: &str, why: Unsupported) -> Self {
        Self { path: path.to_owned(), why }
    }
}

/// What a structural schema cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// There is no schema.
    #[error("there is no schema")]
    Missing,
    /// The schema is not an object.
    #[error("the schema is not an object")]
    NotAnObject,
    /// A keyword that is not known here.
    #[error("the keyword `{0}` is not supported")]
    Keyword(String),
    /// A reference to nothing.
    #[error("there is no definition `{0}`")]
    Reference(String),
    /// A type that contains itself.
    #[error("`{0}` contains itself")]
    Recursive(String),
    /// Several types.
    #[error("a value has one type, and may be null")]
    Types,
    /// A format that is not known here.
    #[error("the format `{0}` is not supported")]
    Format(String),
    /// Alternatives without a field that tells them apart.
    #[error("alternatives need a field that tells them apart, and one type for each field")]
    Alternatives,
}

/// What happens to the default values of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defaults {
    /// The API server fills them in.
    Kept,
    /// For a status: only the control plane writes it.
    Dropped,
}

/// Reads the schemas of one kind.
pub(super) struct Reader<'a> {
    definitions: &'a Map<String, Value>,
    defaults: Defaults,
}

impl<'a> Reader<'a> {
    pub(super) fn new(definitions: &'a Map<String, Value>, defaults: Defaults) -> Self {
        Self { definitions, defaults }
    }

    /// The structural schema of a schema. `path` is for errors.
    pub(super) fn read(&self, schema: &Value, path: &str) -> Result<JSONSchemaProps, SchemaError> {
        self.node(schema, path, &[])
    }

    /// `inside` are the names of the definitions around it.
    fn node(
        &self,
        schema: &Value,
        path: &str,
        inside: &[&str],
    ) -> Result<JSONSchemaProps, SchemaError> {
        let failed = |why| SchemaError::at(path, why);
        let keywords = match schema {
            Value::Bool(true) => return Ok(anything()),
            Value::Object(keywords) => keywords,
            Value::Null
            | Value::Bool(false)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => {
                return Err(failed(Unsupported::NotAnObject));
            }
        };
        if let Some(keyword) = keywords.keys().find(|keyword| !KNOWN.contains(&keyword.as_str())) {
            return Err(failed(Unsupported::Keyword(keyword.clone())));
        }
        let mut node = if let Some(reference) = keywords.get("$ref") {
            self.referenced(reference, path, inside)?
        } else if let Some(Value::Array(choices)) = keywords.get("anyOf") {
            self.optional(choices, path, inside)?
        } else if let Some(Value::Array(choices)) = keywords.get("oneOf") {
            self.alternatives(choices, path, inside)?
        } else {
            self.plain(keywords, path, inside)?
        };
        if let Some(text) = keywords.get("description").and_then(Value::as_str) {
            node.description = Some(text.to_owned());
        }
        if let Some(value) = keywords.get("default").filter(|value| !value.is_null()) {
            node.default = (self.defaults == Defaults::Kept).then(|| JSON(value.clone()));
        }
        Ok(node)
    }

    fn referenced(
        &self,
        reference: &Value,
        path: &str,
        inside: &[&str],
    ) -> Result<JSONSchemaProps, SchemaError> {
        let text = reference.as_str().unwrap_or_default();
        let name = text.rsplit('/').next().unwrap_or_default();
        if name == "Condition" {
            return Ok(condition::schema());
        }
        if inside.contains(&name) {
            return Err(SchemaError::at(path, Unsupported::Recursive(name.to_owned())));
        }
        let definition = self
            .definitions
            .get(name)
            .ok_or_else(|| SchemaError::at(path, Unsupported::Reference(text.to_owned())))?;
        self.node(definition, path, &[inside, &[name]].concat())
    }

    /// `anyOf` is only used for a value that may be null.
    fn optional(
        &self,
        choices: &[Value],
        path: &str,
        inside: &[&str],
    ) -> Result<JSONSchemaProps, SchemaError> {
        let is_null = |choice: &&Value| choice.get("type").is_some_and(|name| name == "null");
        let mut others = choices.iter().filter(|choice| !is_null(choice));
        match (others.next(), others.next()) {
            (Some(choice), None) => Ok(nullable(self.node(choice, path, inside)?)),
            (Some(_) | None, _) => Err(SchemaError::at(path, Unsupported::Types)),
        }
    }

    fn plain(
        &self,
        keywords: &Map<String, Value>,
        path: &str,
        inside: &[&str],
    ) -> Result<JSONSchemaProps, SchemaError> {
        let Some(types) = keywords.get("type") else { return Ok(anything()) };
        let (name, may_be_null) =
            type_of(types).ok_or_else(|| SchemaError::at(path, Unsupported::Types))?;
        let mut node = typed(name);
        node.pattern = keywords.get("pattern").and_then(Value::as_str).map(str::to_owned);
        node.minimum = keywords.get("minimum").and_then(Value::as_f64);
        node.maximum = keywords.get("maximum").and_then(Value::as_f64);
        node.enum_ = keywords.get("const").map(|value| vec![JSON(value.clone())]);
        if let Some(format) = keywords.get("format").and_then(Value::as_str) {
            formatted(&mut node, format).map_err(|why| SchemaError::at(path, why))?;
        }
        if let Some(items) = keywords.get("items") {
            let list = self.node(items, &format!("{path}[]"), inside)?;
            if condition::is_referenced_by(items) {
                condition::list(&mut node);
            }
            node.items = Some(JSONSchemaPropsOrArray::Schema(Box::new(list)));
        }
        if let Some(Value::Object(fields)) = keywords.get("properties") {
            let read = |(name, field): (&String, &Value)| {
                Ok((name.clone(), self.node(field, &format!("{path}.{name}"), inside)?))
            };
            node.properties = Some(fields.iter().map(read).collect::<Result<_, SchemaError>>()?);
            node.required = required(keywords);
        }
        match keywords.get("additionalProperties") {
            // Fields that are not listed are always unknown to an API server.
            None | Some(Value::Bool(false)) => {}
            Some(values) => {
                let values = self.node(values, &format!("{path}{{}}"), inside)?;
                let values = JSONSchemaPropsOrBool::Schema(Box::new(values));
                node.additional_properties = Some(values);
            }
        }
        Ok(if may_be_null { nullable(node) } else { node })
    }
}

/// A value of any type.
fn anything() -> JSONSchemaProps {
    JSONSchemaProps {
        x_kubernetes_preserve_unknown_fields: Some(true),
        ..JSONSchemaProps::default()
    }
}

/// The same, or null. An API server never finds null among the words of an enumeration.
fn nullable(mut node: JSONSchemaProps) -> JSONSchemaProps {
    node.nullable = node.enum_.is_none().then_some(true);
    node
}

/// The one type, and whether the value may be null.
fn type_of(types: &Value) -> Option<(&str, bool)> {
    match types {
        Value::String(name) => Some((name, false)),
        Value::Array(names) => match names.as_slice() {
            [Value::String(name), Value::String(null)] if null == "null" => Some((name, true)),
            _ => None,
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// Kubernetes has no unsigned numbers.
fn formatted(node: &mut JSONSchemaProps, format: &str) -> Result<(), Unsupported> {
    let (known, maximum) = match format {
        "date-time" => ("date-time", None),
        "uint64" => ("int64", None),
        "uint32" => ("int64", Some(f64::from(u32::MAX))),
        "uint8" => ("int32", Some(f64::from(u8::MAX))),
        other => return Err(Unsupported::Format(other.to_owned())),
    };
    node.format = Some(known.to_owned());
    node.maximum = node.maximum.or(maximum);
    Ok(())
}

fn required(keywords: &Map<String, Value>) -> Option<Vec<String>> {
    let names = keywords.get("required")?.as_array()?;
    Some(names.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Fields by name.
type Fields = BTreeMap<String, JSONSchemaProps>;

#[cfg(test)]
mod tests;
