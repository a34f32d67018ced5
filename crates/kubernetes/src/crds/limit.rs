//! Limits that the types cannot express, and how they are added to a schema.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};
use serde_json::Value;

/// A limit on a field.
pub(super) enum Limit {
    /// The text matches a regular expression, as Go and Rust both read it.
    Pattern(&'static str),
    /// The text or list has at least one element.
    NotEmpty,
    /// The object has this field, although its type has a default for it.
    Required(&'static str),
    /// The text or list has at most this many elements.
    AtMost(i64),
    /// The number is in this range.
    Range(f64, f64),
    /// Only these values.
    Only(Vec<Value>),
    /// The keys of the map.
    Keys(Vec<String>),
    /// No two elements have the same value in this field.
    UniqueBy(&'static str),
    /// The object has a second name for one of its fields.
    AlsoCalled {
        /// The field.
        field: &'static str,
        /// Its second name.
        also: &'static str,
    },
    /// An expression in CEL that must be true.
    Holds {
        /// The expression.
        rule: String,
        /// What is wrong if it is false.
        message: &'static str,
    },
}

/// Why a limit does not fit a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// There is no such field.
    #[error("there is no field `{0}` for a limit")]
    NoField(String),
    /// The field has another type.
    #[error("the field `{0}` has another type than its limit")]
    Type(String),
}

/// Adds a limit to the field at a path such as `envFrom[].name`; an empty path is the spec itself.
pub(super) fn apply(spec: &mut JSONSchemaProps, at: &str, limit: Limit) -> Result<(), LimitError> {
    let node = find(spec, at).ok_or_else(|| LimitError::NoField(at.to_owned()))?;
    add(node, limit).ok_or_else(|| LimitError::Type(at.to_owned()))
}

fn find<'a>(node: &'a mut JSONSchemaProps, at: &str) -> Option<&'a mut JSONSchemaProps> {
    let mut node = node;
    for part in at.split('.').filter(|part| !part.is_empty()) {
        let name = part.trim_end_matches(['[', ']', '{', '}']);
        node = node.properties.as_mut()?.get_mut(name)?;
        let inner = part.get(name.len()..)?.as_bytes();
        for step in inner.chunks(2) {
            node = match step {
                b"[]" => items(node)?,
                b"{}" => values(node)?,
                _ => return None,
            };
        }
    }
    Some(node)
}

fn items(node: &mut JSONSchemaProps) -> Option<&mut JSONSchemaProps> {
    match node.items.as_mut()? {
        JSONSchemaPropsOrArray::Schema(item) => Some(item),
        JSONSchemaPropsOrArray::Schemas(_) => None,
    }
}

fn values(node: &mut JSONSchemaProps) -> Option<&mut JSONSchemaProps> {
    match node.additional_properties.as_mut()? {
        JSONSchemaPropsOrBool::Schema(values) => Some(values),
        JSONSchemaPropsOrBool::Bool(_) => None,
    }
}

/// Adds a limit to a field. `None` if the field has another type.
fn add(node: &mut JSONSchemaProps, limit: Limit) -> Option<()> {
    let is = |node: &JSONSchemaProps, name: &str| node.type_.as_deref() == Some(name);
    match limit {
        Limit::Pattern(pattern) if is(node, "string") => node.pattern = Some(pattern.to_owned()),
        Limit::NotEmpty if is(node, "string") => node.min_length = Some(1),
        Limit::NotEmpty if is(node, "array") => node.min_items = Some(1),
        Limit::AtMost(count) if is(node, "string") => node.max_length = Some(count),
        Limit::AtMost(count) if is(node, "array") => node.max_items = Some(count),
        Limit::Range(least, most) if is(node, "integer") => {
            (node.minimum, node.maximum) = (Some(least), Some(most));
        }
        Limit::Only(words) if !is(node, "object") && !is(node, "array") => {
            // An API server never finds null among them.
            node.nullable = None;
            node.enum_ = Some(words.into_iter().map(JSON).collect());
        }
        Limit::Keys(keys) => {
            let value = values(node)?.clone();
            node.additional_properties = None;
            node.properties = Some(keys.into_iter().map(|key| (key, value.clone())).collect());
        }
        Limit::UniqueBy(field) if is(node, "array") => {
            node.x_kubernetes_list_type = Some("map".to_owned());
            node.x_kubernetes_list_map_keys = Some(vec![field.to_owned()]);
        }
        Limit::Required(field) => {
            node.properties.as_mut()?.get_mut(field)?.default = None;
            node.required.get_or_insert_default().push(field.to_owned());
        }
        Limit::AlsoCalled { field, also } => also_called(node, field, also)?,
        Limit::Holds { rule, message } => {
            let message = Some(message.to_owned());
            let rule = ValidationRule { rule, message, ..ValidationRule::default() };
            node.x_kubernetes_validations.get_or_insert_default().push(rule);
        }
        Limit::Pattern(_)
        | Limit::NotEmpty
        | Limit::AtMost(_)
        | Limit::Range(..)
        | Limit::Only(_)
        | Limit::UniqueBy(_) => return None,
    }
    Some(())
}

/// With a default, the first name would always be there as well.
fn also_called(node: &mut JSONSchemaProps, field: &str, also: &str) -> Option<()> {
    let fields = node.properties.as_mut()?;
    let known = fields.get_mut(field)?;
    known.default = None;
    let description = Some(format!("Another name of `{field}`."));
    let second = JSONSchemaProps { description, ..known.clone() };
    fields.insert(also.to_owned(), second);
    let rule = ValidationRule {
        rule: format!("!(has(self.{field}) && has(self.{also}))"),
        message: Some(format!("`{field}` and `{also}` are the same field: write one of them")),
        ..ValidationRule::default()
    };
    node.x_kubernetes_validations.get_or_insert_default().push(rule);
    Some(())
}
