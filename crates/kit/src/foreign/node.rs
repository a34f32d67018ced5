//! A value of YAML or TOML as written: maps keep their order, because in some formats the last match wins.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// A value whose type is not known beforehand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    /// Its type, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a table",
        }
    }

    /// Its text, or its type.
    pub(crate) fn into_text(self) -> Result<String, &'static str> {
        let kind = self.kind();
        match self {
            Self::Text(text) => Ok(text),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::List(_) | Self::Map(_) => {
                Err(kind)
            }
        }
    }

    /// Its value on one line: text unchanged, lists and tables as JSON.
    pub(crate) fn to_plain_text(&self) -> String {
        match self {
            Self::Text(text) | Self::Number(text) => text.clone(),
            Self::Null => String::new(),
            Self::Bool(_) | Self::List(_) | Self::Map(_) => self.to_json().to_string(),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(text) | Self::Text(text) => Value::String(text.clone()),
            Self::List(nodes) => nodes.iter().map(Self::to_json).collect(),
            Self::Map(entries) => {
                entries.iter().map(|(key, node)| (key.clone(), node.to_json())).collect()
            }
        }
    }

    /// A key of a map, as text.
    fn into_key<E: serde::de::Error>(self) -> Result<String, E> {
        match self {
            Self::Text(text) | Self::Number(text) => Ok(text),
            Self::Bool(value) => Ok(value.to_string()),
            Self::Null | Self::List(_) | Self::Map(_) => Err(E::custom("a key must be a text")),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Node;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, input: D) -> Result<Node, D::Error> {
        Node::deserialize(input)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element()? {
            nodes.push(node);
        }
        Ok(Node::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries: Vec<(String, Node)> = Vec::new();
        while let Some((key, value)) = map.next_entry::<Node, Node>()? {
            let key = key.into_key()?;
            if entries.iter().any(|(earlier, _)| *earlier == key) {
                return Err(serde::de::Error::custom(format!("the key `{key}` appears twice")));
            }
            entries.push((key, value));
        }
        Ok(Node::Map(entries))
    }
}
