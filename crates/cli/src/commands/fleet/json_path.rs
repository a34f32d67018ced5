//! JSONPath (RFC 9535) as people who know kubectl write it: `{.metadata.name}`, `.metadata.name`, `$.metadata.name`.

use std::cmp::Ordering;

use serde_json::Value;
use serde_json_path::JsonPath;

/// One expression; templates with several expressions or `range` are not supported.
#[derive(Debug, Clone)]
pub struct Expression(JsonPath);

impl Expression {
    /// Parses an expression, with or without braces and the leading `$`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bare = text.trim();
        let bare = match bare.strip_prefix('{') {
            Some(rest) => rest
                .strip_suffix('}')
                .filter(|inside| !inside.contains(['{', '}']))
                .ok_or_else(|| format!("`{text}` is a template; write one expression"))?,
            None => bare,
        };
        let path = match bare.chars().next() {
            Some('$') => bare.to_owned(),
            Some('.' | '[') => format!("${bare}"),
            Some(_) => format!("$.{bare}"),
            None => return Err("write an expression, as .metadata.name".to_owned()),
        };
        JsonPath::parse(&path).map(Self).map_err(|error| format!("`{text}`: {error}"))
    }

    /// The selected values as text: strings unchanged, everything else as JSON.
    pub fn select(&self, value: &Value) -> Vec<String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.0.query(value).all().into_iter().map(text).collect()
    }

    fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.0.query(value).first()
    }

    /// Compares two objects by the selected values; an object without one comes first.
    pub fn compare(&self, one: &Value, other: &Value) -> Ordering {
        match (self.first(one), self.first(other)) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(one), Some(other)) => match (one.as_f64(), other.as_f64()) {
                (Some(one), Some(other)) => one.total_cmp(&other),
                (None, _) | (_, None) => match (one.as_str(), other.as_str()) {
                    (Some(one), Some(other)) => one.cmp(other),
                    (None, _) | (_, None) => one.to_string().cmp(&other.to_string()),
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use serde_json::json;

    use super::Expression;

    #[test]
    fn expressions_accept_kubectl_and_standard_syntax() {
        let value = json!({ "items": [{ "a": "x", "n": 1 }, { "a": "y", "n": 2 }] });
        for text in ["{.items[*].a}", ".items[*].a", "items[*].a", "$.items[*].a"] {
            assert_eq!(Expression::parse(text).unwrap().select(&value), ["x", "y"], "{text}");
        }
        assert_eq!(Expression::parse("$.items[?@.n>1].n").unwrap().select(&value), ["2"]);
        assert_eq!(Expression::parse("$.items[0]").unwrap().select(&value), [r#"{"a":"x","n":1}"#]);
        assert!(Expression::parse(".none").unwrap().select(&value).is_empty());
        for wrong in ["", "{.a}{.b}", "{.a", "{range .items[*]}{.a}{end}", ".a["] {
            assert!(Expression::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_sort_numerically_and_missing_fields_first() {
        let by = Expression::parse(".n").unwrap();
        let of = |value: serde_json::Value| json!({ "n": value });
        assert_eq!(by.compare(&of(json!(9)), &of(json!(10))), Ordering::Less);
        assert_eq!(by.compare(&of(json!("b")), &of(json!("a"))), Ordering::Greater);
        assert_eq!(by.compare(&json!({}), &of(json!(1))), Ordering::Less);
        assert_eq!(by.compare(&json!({}), &json!({})), Ordering::Equal);
    }
}
