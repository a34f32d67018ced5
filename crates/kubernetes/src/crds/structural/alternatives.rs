//! `oneOf`: words become an enumeration; objects with a tag become one object with rules in CEL.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, ValidationRule,
};
use serde_json::Value;

use super::{Fields, Reader, SchemaError, Unsupported, typed};

impl Reader<'_> {
    /// One schema for all choices.
    pub(super) fn alternatives(
        &self,
        choices: &[Value],
        path: &str,
        inside: &[&str],
    ) -> Result<JSONSchemaProps, SchemaError> {
        let words: Option<Vec<JSON>> =
            choices.iter().map(|choice| choice.get("const").cloned().map(JSON)).collect();
        if let Some(words) = words {
            return Ok(JSONSchemaProps { enum_: Some(words), ..typed("string") });
        }
        let choices = choices
            .iter()
            .map(|choice| self.node(choice, path, inside))
            .collect::<Result<Vec<_>, _>>()?;
        tagged(choices).ok_or_else(|| SchemaError::at(path, Unsupported::Alternatives))
    }
}

/// One object for several that are told apart by a field with one value in each of them.
fn tagged(choices: Vec<JSONSchemaProps>) -> Option<JSONSchemaProps> {
    let choices: Vec<Choice> = choices.into_iter().map(Choice::of).collect::<Option<_>>()?;
    let tag = choices.first()?.tag.clone();
    if choices.iter().any(|choice| choice.tag != tag) {
        return None;
    }
    let names: BTreeSet<String> =
        choices.iter().flat_map(|choice| choice.fields.keys().cloned()).collect();
    let rules = choices.iter().filter_map(|choice| choice.rule(&names)).collect();
    let words = choices.iter().map(|choice| JSON(choice.word.clone().into())).collect();
    let mut fields = merged(choices)?;
    fields.insert(tag.clone(), JSONSchemaProps { enum_: Some(words), ..typed("string") });
    Some(JSONSchemaProps {
        properties: Some(fields),
        required: Some(vec![tag]),
        x_kubernetes_validations: Some(rules),
        ..typed("object")
    })
}

/// One of several objects.
struct Choice {
    tag: String,
    word: String,
    fields: Fields,
    required: BTreeSet<String>,
}

impl Choice {
    fn of(schema: JSONSchemaProps) -> Option<Self> {
        let mut fields = schema.properties?;
        let (tag, word) = fields.iter().find_map(|(name, field)| match field.enum_.as_deref() {
            Some([JSON(Value::String(word))]) => Some((name.clone(), word.clone())),
            Some(_) | None => None,
        })?;
        fields.remove(&tag);
        let mut required = BTreeSet::from_iter(schema.required.unwrap_or_default());
        required.remove(&tag);
        Some(Self { tag, word, fields, required })
    }

    /// What an object with this word has, and what it cannot have.
    fn rule(&self, names: &BTreeSet<String>) -> Option<ValidationRule> {
        let has = self.required.iter().map(|name| format!("has(self.{name})"));
        let others = names.iter().filter(|name| !self.fields.contains_key(*name));
        let parts: Vec<String> =
            has.chain(others.map(|name| format!("!has(self.{name})"))).collect();
        let (tag, word) = (&self.tag, &self.word);
        let rest = parts.join(" && ");
        let required: Vec<&str> = self.required.iter().map(String::as_str).collect();
        let message = match required.as_slice() {
            [] => format!("`{word}` has no other fields"),
            fields => format!("`{word}` has the fields {} and no others", fields.join(", ")),
        };
        (!parts.is_empty()).then(|| ValidationRule {
            rule: format!("self.{tag} != '{word}' || ({rest})"),
            message: Some(message),
            ..ValidationRule::default()
        })
    }
}

/// The fields of all choices. A field has the same schema in all of them; its description is that of the only one.
fn merged(choices: Vec<Choice>) -> Option<Fields> {
    let mut all: Fields = BTreeMap::new();
    for (name, mut field) in choices.into_iter().flat_map(|choice| choice.fields) {
        let Some(known) = all.get_mut(&name) else {
            all.insert(name, field);
            continue;
        };
        if known.description != field.description {
            known.description = None;
            field.description = None;
        }
        if *known != field {
            return None;
        }
    }
    Some(all)
}
