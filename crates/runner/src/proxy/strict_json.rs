//! JSON that all parsers read alike: a repeated key in an object is refused.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::parsed_answer::Unreadable;

/// The value of a text. Of two fields with one name, we might take the one and the model's host the other.
pub(super) fn parse(text: &[u8]) -> Result<Value, Unreadable> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = Strict.deserialize(&mut reader);
    let value = value.and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Unreadable("a name stands twice in one object"),
        serde_json::error::Category::Io
        | serde_json::error::Category::Syntax
        | serde_json::error::Category::Eof => Unreadable("it is no JSON"),
    })
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let value = fields.next_value_seed(Strict)?;
            if all.insert(name, value).is_some() {
                return Err(A::Error::custom("a name stands twice"));
            }
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_with_unique_names_is_read_unchanged() {
        for text in [
            r#"{"a":[1,-2,3.5,"x",null,true,{"b":{}}],"c":"\u00e9"}"#,
            "[]",
            "18446744073709551615",
            "\"text\"",
        ] {
            let plain: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text.as_bytes()), Ok(plain), "{text}");
        }
    }

    #[test]
    fn duplicate_name_is_refused_at_any_depth() {
        let duplicate = Err(Unreadable("a name stands twice in one object"));
        for text in [
            r#"{"tools":[],"tools":[1]}"#,
            r#"{"tools":[],"t\u006fols":[1]}"#,
            r#"[{"a":{"b":1,"b":1}}]"#,
        ] {
            assert_eq!(parse(text.as_bytes()), duplicate, "{text}");
        }
        for text in ["{", "{} x", "\u{feff}{}", ""] {
            assert_eq!(parse(text.as_bytes()), Err(Unreadable("it is no JSON")), "{text}");
        }
    }
}
