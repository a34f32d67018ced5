//! The checks of an API server for a custom resource, in its order: unknown fields are refused (as kubectl requests),
//! defaults are applied, the schema is checked, then the rules in CEL. Supports only what our schemas use.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::LocalKey;

use cel::{Context, Env, Program, Value as Cel};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use regex::Regex;
use serde_json::Value;

/// Reserved words of CEL, which cannot be names of fields.
const RESERVED: [&str; 14] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
];

/// The errors of an object.
pub(crate) fn errors(schema: &JSONSchemaProps, object: &Value) -> Vec<String> {
    let mut object = object.clone();
    let mut errors = Vec::new();
    unknown(schema, &object, "", &mut errors);
    apply_defaults(schema, &mut object);
    check(schema, &object, "", &mut errors);
    // Rules are not evaluated on an object of the wrong shape.
    if errors.is_empty() {
        rules(schema, &object, "", &mut errors);
    }
    errors
}

pub(crate) fn items(schema: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match schema.items.as_ref()? {
        JSONSchemaPropsOrArray::Schema(items) => Some(items),
        JSONSchemaPropsOrArray::Schemas(_) => None,
    }
}

pub(crate) fn values(schema: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match schema.additional_properties.as_ref()? {
        JSONSchemaPropsOrBool::Schema(values) => Some(values),
        JSONSchemaPropsOrBool::Bool(_) => None,
    }
}

/// The schemas of the parts of a value.
fn parts<'a>(
    schema: &'a JSONSchemaProps,
    value: &'a Value,
) -> Vec<(String, &'a JSONSchemaProps, &'a Value)> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter_map(|(name, value)| {
                let known = schema.properties.as_ref().and_then(|known| known.get(name));
                Some((format!(".{name}"), known.or_else(|| values(schema))?, value))
            })
            .collect(),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .filter_map(|(index, value)| Some((format!("[{index}]"), items(schema)?, value)))
            .collect(),
        _ => Vec::new(),
    }
}

fn unknown(schema: &JSONSchemaProps, value: &Value, path: &str, errors: &mut Vec<String>) {
    // Kubernetes has its own schema for metadata.
    if schema.x_kubernetes_preserve_unknown_fields == Some(true) || path == ".metadata" {
        return;
    }
    if let Value::Object(fields) = value {
        let known = parts(schema, value).into_iter().map(|(name, ..)| name);
        let known: BTreeSet<String> = known.collect();
        let unknown = fields.keys().filter(|name| !known.contains(&format!(".{name}")));
        errors.extend(unknown.map(|name| format!("unknown field {path}.{name}")));
    }
    for (name, part, value) in parts(schema, value) {
        unknown(part, value, &format!("{path}{name}"), errors);
    }
}

fn apply_defaults(schema: &JSONSchemaProps, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in schema.properties.iter().flatten() {
                let is_null = fields.get(name).is_some_and(Value::is_null);
                if is_null && field.nullable != Some(true) && field.default.is_some() {
                    fields.remove(name);
                }
                if let (None, Some(default)) = (fields.get(name), &field.default) {
                    fields.insert(name.clone(), default.0.clone());
                }
                if let Some(value) = fields.get_mut(name) {
                    apply_defaults(field, value);
                }
            }
            if let Some(schema) = values(schema) {
                fields.values_mut().for_each(|value| apply_defaults(schema, value));
            }
        }
        Value::Array(list) => {
            if let Some(schema) = items(schema) {
                list.iter_mut().for_each(|value| apply_defaults(schema, value));
            }
        }
        _ => {}
    }
}

fn check(schema: &JSONSchemaProps, value: &Value, path: &str, errors: &mut Vec<String>) {
    let mut fail = |what: &str| errors.push(format!("{path}: {what}"));
    if let Some(words) = &schema.enum_
        && !words.iter().any(|word| word.0 == *value)
    {
        fail("not one of the values");
    }
    if value.is_null() && schema.nullable == Some(true) {
        return;
    }
    let is_type = match schema.type_.as_deref() {
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        Some(other) => panic!("{path}: unsupported type {other}"),
        None => schema.x_kubernetes_preserve_unknown_fields == Some(true),
    };
    if !is_type {
        return fail("wrong type");
    }
    let is_below = |min: Option<i64>, count: usize| min.is_some_and(|min| (count as i64) < min);
    let is_above = |max: Option<i64>, count: usize| max.is_some_and(|max| (count as i64) > max);
    match value {
        Value::String(text) => {
            let length = text.chars().count();
            if is_below(schema.min_length, length) || is_above(schema.max_length, length) {
                fail("length");
            }
            if schema.pattern.as_ref().is_some_and(|pattern| !matches(pattern, text)) {
                fail("pattern");
            }
            let is_time = schema.format.as_deref() == Some("date-time");
            if is_time && text.parse::<bailiwick_resources::Moment>().is_err() {
                fail("not a time");
            }
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap();
            if schema.minimum.is_some_and(|min| number < min)
                || schema.maximum.is_some_and(|max| number > max)
            {
                fail("range");
            }
        }
        Value::Array(list) => {
            if is_below(schema.min_items, list.len()) || is_above(schema.max_items, list.len()) {
                fail("number of items");
            }
            if let Some(keys) = &schema.x_kubernetes_list_map_keys {
                let key = |item: &Value| -> Vec<String> {
                    keys.iter().map(|key| item[key].to_string()).collect()
                };
                let different: BTreeSet<Vec<String>> = list.iter().map(key).collect();
                if different.len() != list.len() {
                    fail("duplicate item");
                }
            }
        }
        Value::Object(fields) => {
            for name in schema.required.iter().flatten() {
                if !fields.contains_key(name) {
                    fail(&format!("{name} is required"));
                }
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
    for (name, part, value) in parts(schema, value) {
        check(part, value, &format!("{path}{name}"), errors);
    }
}

fn rules(schema: &JSONSchemaProps, value: &Value, path: &str, errors: &mut Vec<String>) {
    // The API server does not evaluate rules on null.
    if value.is_null() {
        return;
    }
    for rule in schema.x_kubernetes_validations.iter().flatten() {
        match evaluate(&rule.rule, &escaped(schema, value)) {
            Ok(true) => {}
            Ok(false) => errors.push(format!("{path}: {}", rule.message.as_ref().unwrap())),
            Err(error) => panic!("{path}: {}: {error}", rule.rule),
        }
    }
    for (name, part, value) in parts(schema, value) {
        rules(part, value, &format!("{path}{name}"), errors);
    }
}

/// The value as rules see it: reserved names of fields are escaped, and null fields are omitted.
fn escaped(schema: &JSONSchemaProps, value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                let field = schema.properties.as_ref().and_then(|known| known.get(name));
                if field.is_some() && value.is_null() {
                    return None;
                }
                let key = match field.is_some() && RESERVED.contains(&name.as_str()) {
                    true => format!("__{name}__"),
                    false => name.clone(),
                };
                let inner = field.or_else(|| values(schema));
                Some((key, inner.map_or_else(|| value.clone(), |inner| escaped(inner, value))))
            };
            Value::Object(fields.iter().filter_map(field).collect())
        }
        Value::Array(list) => {
            let item = |value| items(schema).map_or(Value::Null, |inner| escaped(inner, value));
            list.iter().map(item).collect()
        }
        other => other.clone(),
    }
}

thread_local! {
    static ENVIRONMENT: Arc<Env> = Arc::new(Env::stdlib());
    static PROGRAMS: RefCell<HashMap<String, Rc<Program>>> = RefCell::default();
    static PATTERNS: RefCell<HashMap<String, Rc<Regex>>> = RefCell::default();
}

/// Evaluates a rule.
fn evaluate(rule: &str, object: &Value) -> Result<bool, String> {
    let environment = ENVIRONMENT.with(Arc::clone);
    let compile = || environment.compile(rule).unwrap_or_else(|error| panic!("{rule}: {error}"));
    let program = cached(&PROGRAMS, rule, compile);
    let mut context = Context::with_env(environment.clone());
    context.add_variable("self", object).map_err(|error| error.to_string())?;
    match program.execute(&context) {
        Ok(Cel::Bool(value)) => Ok(value),
        Ok(other) => Err(format!("{other:?} is not a boolean")),
        Err(error) => Err(error.to_string()),
    }
}

pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    cached(&PATTERNS, pattern, || Regex::new(pattern).unwrap()).is_match(text)
}

/// The cached value of a text; it is created on first use.
fn cached<T>(
    all: &'static LocalKey<RefCell<HashMap<String, Rc<T>>>>,
    text: &str,
    create: impl FnOnce() -> T,
) -> Rc<T> {
    if let Some(known) = all.with_borrow(|all| all.get(text).cloned()) {
        return known;
    }
    let created = Rc::new(create());
    all.with_borrow_mut(|all| all.insert(text.to_owned(), created.clone()));
    created
}
