//! JSON with the place of every part, so that a part can be changed and the rest keeps its bytes.

use std::ops::Range;

use bailiwick_model::{Problem, Source};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::errors::ParseError;
use jsonc_parser::{CollectOptions, ParseOptions, ast, parse_to_ast};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Whether `//` and `/* */` comments are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comments {
    /// As Gemini CLI reads its settings.
    Allowed,
    /// As everybody else does.
    Refused,
}

/// A part of the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its place.
    pub span: Range<usize>,
    pub kind: Kind,
}

/// The kind of a part.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// `{ … }`
    Object(Vec<Member>),
    /// `[ … ]`
    Array(Vec<Node>),
    /// A text, a number, true, false or null.
    Scalar(Value),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The key.
    pub key: String,
    /// From the key to the end of the value.
    pub span: Range<usize>,
    /// The value.
    pub value: Node,
}

impl Node {
    /// The value of a key, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.members().iter().find(|member| member.key == key).map(|member| &member.value)
    }

    /// The value at the end of some keys.
    pub fn at(&self, keys: &[&str]) -> Option<&Node> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }

    /// The members of an object.
    pub fn members(&self) -> &[Member] {
        match &self.kind {
            Kind::Object(members) => members,
            Kind::Array(_) | Kind::Scalar(_) => &[],
        }
    }

    /// The items of an array.
    pub fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::Array(items) => items,
            Kind::Object(_) | Kind::Scalar(_) => &[],
        }
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar(value) => value.as_str(),
            Kind::Object(_) | Kind::Array(_) => None,
        }
    }

    /// Whether it is exactly this.
    pub fn is(&self, value: &Value) -> bool {
        matches!(&self.kind, Kind::Scalar(scalar) if scalar == value)
    }

    /// The whole as a value, without places.
    pub fn value(&self) -> Value {
        match &self.kind {
            Kind::Scalar(value) => value.clone(),
            Kind::Array(items) => items.iter().map(Node::value).collect(),
            Kind::Object(members) => {
                let pairs = members.iter().map(|member| (member.key.clone(), member.value.value()));
                Value::Object(pairs.collect())
            }
        }
    }
}

/// Parses a file whose root is an object.
pub fn parse(source: &Source, comments: Comments) -> Result<Node, Problem> {
    let problem = |fault: Fault| {
        Problem::error("bad-json", source.at(fault.span), fault.message)
            .help("fix the file by hand; nothing was changed")
    };
    let root = parse_to_ast(&source.text, &CollectOptions::default(), &options(comments))
        .map_err(|error| problem(Fault::of(&error)))?;
    let Some(root) = root.value else {
        let end = source.text.len();
        return Err(problem(Fault::new(end..end, "a value is missing")));
    };
    let node = node(&source.text, &root).map_err(problem)?;
    match &node.kind {
        Kind::Object(_) => Ok(node),
        Kind::Array(_) | Kind::Scalar(_) => {
            Err(problem(Fault::new(node.span, "the settings are no object")))
        }
    }
}

/// Plain JSON, with or without comments.
fn options(comments: Comments) -> ParseOptions {
    ParseOptions {
        allow_comments: comments == Comments::Allowed,
        allow_loose_object_property_names: false,
        allow_trailing_commas: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

struct Fault {
    span: Range<usize>,
    message: String,
}

impl Fault {
    fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into() }
    }

    fn of(error: &ParseError) -> Self {
        let range = error.range();
        Self::new(range.start..range.end, error.kind().to_string())
    }
}

fn node(text: &str, value: &ast::Value<'_>) -> Result<Node, Fault> {
    let span = value.start()..value.end();
    let kind = match value {
        ast::Value::Object(object) => Kind::Object(members(text, object)?),
        ast::Value::Array(array) => {
            let items = array.elements.iter().map(|item| node(text, item));
            Kind::Array(items.collect::<Result<_, _>>()?)
        }
        ast::Value::StringLit(_)
        | ast::Value::NumberLit(_)
        | ast::Value::BooleanLit(_)
        | ast::Value::NullKeyword(_) => Kind::Scalar(scalar(text, span.clone())?),
    };
    Ok(Node { span, kind })
}

fn members(text: &str, object: &ast::Object<'_>) -> Result<Vec<Member>, Fault> {
    let mut members: Vec<Member> = Vec::new();
    for property in &object.properties {
        let name = property.name.start()..property.name.end();
        let key: String = scalar(text, name.clone())?;
        if members.iter().any(|member| member.key == key) {
            return Err(Fault::new(name, format!("the key `{key}` stands here a second time")));
        }
        let value = node(text, &property.value)?;
        members.push(Member { key, span: property.start()..property.end(), value });
    }
    Ok(members)
}

/// A text, number or literal as JSON defines it: the parser also accepts numbers such as `01`.
fn scalar<T: DeserializeOwned>(text: &str, span: Range<usize>) -> Result<T, Fault> {
    let written = text.get(span.clone()).unwrap_or_default();
    serde_json::from_str(written)
        .map_err(|error| Fault::new(span, format!("this is no JSON value: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, comments: Comments) -> Result<Value, String> {
        let source = Source::new("s.json", text);
        parse(&source, comments).map(|node| node.value()).map_err(|problem| problem.to_string())
    }

    /// Both accept and refuse the same texts, with the same values.
    #[test]
    fn agrees_with_serde_json() {
        for text in [
            "{}",
            "{ }",
            r#"{"a":[1,2.5e3,-0,"x\"\u00e9\\",true,false,null,{"b":{}}],"ü":""}"#,
            "{\"a\":\t[\r\n]}",
            "",
            "{",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{\"a\":[1,]}",
            "{\"a\":[1 2]}",
            "{a:1}",
            "{\"a\":01}",
            "{\"a\":+1}",
            "{\"a\":.5}",
            "{\"a\":nul}",
            "{\"a\":\"\n\"}",
            "{\"a\":\"\\x\"}",
            "{\"a\":1} x",
            "{\"a\":\"",
            "\u{feff}{}",
            "{\"a\":'b'}",
            "// c\n{}",
            "{\"a\":é}",
        ] {
            let ours = read(text, Comments::Refused);
            let theirs = serde_json::from_str::<Value>(text);
            assert_eq!(ours.is_ok(), theirs.is_ok(), "{text:?}: {ours:?} against {theirs:?}");
            if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
                assert_eq!(ours, theirs, "{text:?}");
            }
        }
    }

    #[test]
    fn comments_are_skipped_where_they_are_allowed() {
        let text = "// c\n{/* { */\"a\": 1 // }\n}\n// end";
        assert_eq!(read(text, Comments::Allowed), Ok(serde_json::json!({"a": 1})));
        assert!(read(text, Comments::Refused).unwrap_err().contains("s.json:1:1"));
        assert!(read("{} /* x", Comments::Allowed).is_err());
    }

    #[test]
    fn errors_name_line_and_column() {
        assert!(read("{\n \"a\": 1\n \"b\": 2}", Comments::Refused).unwrap_err().contains(":2:8"));
        assert!(read("{\"a\":1,\"a\":2}", Comments::Refused).unwrap_err().contains("second time"));
        assert!(read("[]", Comments::Refused).unwrap_err().contains("no object"));
        let deep = format!("{{\"a\":{}", "[".repeat(100_000));
        assert!(read(&deep, Comments::Refused).unwrap_err().contains("depth"));
    }
}
