//! JSON with the place of every part, so that a part can be changed and the rest keeps its bytes.

use std::ops::Range;

use bailiwick_model::{Problem, Source};
use serde_json::Value;

/// Whether `//` and `/* */` may stand between the parts.
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
    /// Where it stands.
    pub span: Range<usize>,
    /// What it is.
    pub kind: Kind,
}

/// What a part is.
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

/// Reads a file whose top is an object.
pub fn parse(source: &Source, comments: Comments) -> Result<Node, Problem> {
    let mut reader = Reader { text: &source.text, at: 0, comments };
    let read = reader.value(0).and_then(|node| {
        reader.blank()?;
        match (reader.peek(), &node.kind) {
            (None, Kind::Object(_)) => Ok(node),
            (None, Kind::Array(_) | Kind::Scalar(_)) => {
                Err(Fault { span: node.span, message: "the settings are no object".to_owned() })
            }
            (Some(_), _) => Err(reader.fault("nothing may stand behind the end")),
        }
    });
    read.map_err(|fault| {
        Problem::error("bad-json", source.at(fault.span), fault.message)
            .help("mend the file by hand; nothing was changed")
    })
}

/// No file that people write nests deeper.
const DEPTH: usize = 100;

struct Fault {
    span: Range<usize>,
    message: String,
}

struct Reader<'text> {
    text: &'text str,
    at: usize,
    comments: Comments,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn fault(&self, message: &str) -> Fault {
        let length = self.peek().map_or(0, char::len_utf8);
        Fault { span: self.at..self.at + length, message: message.to_owned() }
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    /// Passes over blanks and comments.
    fn blank(&mut self) -> Result<(), Fault> {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            self.at += blanks;
            let rest = self.rest();
            let length = if rest.starts_with("//") {
                Some(rest.find('\n').unwrap_or(rest.len()))
            } else if rest.starts_with("/*") {
                rest.find("*/").map(|end| end + 2)
            } else {
                return Ok(());
            };
            match (self.comments, length) {
                (Comments::Allowed, Some(length)) => self.at += length,
                (Comments::Allowed, None) => return Err(self.fault("the comment does not end")),
                (Comments::Refused, _) => {
                    return Err(self.fault("this file may hold no comments"));
                }
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Fault> {
        self.blank()?;
        if depth > DEPTH {
            return Err(self.fault("it is nested too deeply"));
        }
        let start = self.at;
        let kind = match self.peek() {
            Some('{') => self.object(depth)?,
            Some('[') => self.array(depth)?,
            Some('"') => Kind::Scalar(self.string()?.into()),
            Some(_) => self.word()?,
            None => return Err(self.fault("a value is missing")),
        };
        Ok(Node { span: start..self.at, kind })
    }

    fn object(&mut self, depth: usize) -> Result<Kind, Fault> {
        self.take('{');
        let mut members: Vec<Member> = Vec::new();
        self.blank()?;
        if self.take('}') {
            return Ok(Kind::Object(members));
        }
        loop {
            self.blank()?;
            let start = self.at;
            let key = self.string()?;
            if members.iter().any(|member| member.key == key) {
                let message = format!("the key `{key}` stands here a second time");
                return Err(Fault { span: start..self.at, message });
            }
            self.blank()?;
            if !self.take(':') {
                return Err(self.fault("a colon is missing"));
            }
            let value = self.value(depth + 1)?;
            members.push(Member { key, span: start..self.at, value });
            self.blank()?;
            if self.take('}') {
                return Ok(Kind::Object(members));
            }
            if !self.take(',') {
                return Err(self.fault("a comma or `}` is missing"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Kind, Fault> {
        self.take('[');
        let mut items = Vec::new();
        self.blank()?;
        if self.take(']') {
            return Ok(Kind::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.blank()?;
            if self.take(']') {
                return Ok(Kind::Array(items));
            }
            if !self.take(',') {
                return Err(self.fault("a comma or `]` is missing"));
            }
        }
    }

    fn string(&mut self) -> Result<String, Fault> {
        if self.peek() != Some('"') {
            return Err(self.fault("a text in double quotes is missing"));
        }
        let mut escaped = false;
        let end = self.rest().char_indices().skip(1).find_map(|(index, character)| {
            let ends = character == '"' && !escaped;
            escaped = character == '\\' && !escaped;
            ends.then_some(index + 1)
        });
        let Some(end) = end else { return Err(self.fault("the text does not end")) };
        let span = self.at..self.at + end;
        let text = self.text.get(span.clone()).unwrap_or_default();
        let read = serde_json::from_str(text).map_err(|error| Fault {
            span: span.clone(),
            message: format!("no JSON text: {error}"),
        });
        self.at = span.end;
        read
    }

    fn word(&mut self) -> Result<Kind, Fault> {
        let rest = self.rest();
        let length = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')))
            .unwrap_or(rest.len());
        let span = self.at..self.at + length.max(1).min(rest.len());
        let text = rest.get(..length).unwrap_or_default();
        match serde_json::from_str(text) {
            Ok(value) => {
                self.at += length;
                Ok(Kind::Scalar(value))
            }
            Err(_) => Err(Fault { span, message: "a value is missing here".to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, comments: Comments) -> Result<Value, String> {
        let source = Source::new("s.json", text);
        parse(&source, comments).map(|node| node.value()).map_err(|problem| problem.to_string())
    }

    /// What serde_json refuses is refused, and what it reads is read the same.
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
    fn comments_are_passed_over_where_they_may_stand() {
        let text = "// c\n{/* { */\"a\": 1 // }\n}\n// end";
        assert_eq!(read(text, Comments::Allowed), Ok(serde_json::json!({"a": 1})));
        assert!(read(text, Comments::Refused).unwrap_err().contains("s.json:1:1"));
        assert!(read("{} /* x", Comments::Allowed).is_err());
    }

    #[test]
    fn faults_name_their_place() {
        assert!(read("{\n \"a\": 1\n \"b\": 2}", Comments::Refused).unwrap_err().contains(":3:2"));
        assert!(read("{\"a\":1,\"a\":2}", Comments::Refused).unwrap_err().contains("second time"));
        assert!(read("[]", Comments::Refused).unwrap_err().contains("no object"));
        let deep = format!("{{\"a\":{}", "[".repeat(100_000));
        assert!(read(&deep, Comments::Refused).unwrap_err().contains("deeply"));
    }
}
