//! Objects as YAML that people can store and apply.

use serde_json::Value;

/// The text of a value in block style. Strings are quoted as JSON quotes them, which YAML reads alike.
pub fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    write(value, 0, &mut out);
    out
}

fn write(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                indent(depth, out);
                out.push_str(&scalar(&Value::String(key.clone())));
                out.push(':');
                behind(value, depth, out);
            }
        }
        Value::Array(entries) if !entries.is_empty() => {
            for entry in entries {
                indent(depth, out);
                out.push('-');
                behind(entry, depth, out);
            }
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {
            indent(depth, out);
            out.push_str(&scalar(value));
            out.push('\n');
        }
    }
}

/// The text after `key:` or `-`.
fn behind(value: &Value, depth: usize, out: &mut String) {
    let nested = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(entries) => !entries.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    if nested {
        out.push('\n');
        write(value, depth + 1, out);
    } else {
        out.push(' ');
        out.push_str(&scalar(value));
        out.push('\n');
    }
}

fn indent(depth: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", depth));
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::String(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_) => value.to_string(),
    }
}

/// Text that every parser reads as a string.
fn is_plain(text: &str) -> bool {
    let letter = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let taken = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    letter
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
        && !taken.contains(&text.to_ascii_lowercase().as_str())
}
