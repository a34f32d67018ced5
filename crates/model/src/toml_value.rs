//! Deserializes parsed TOML, with typed errors for what is wrong and where.

use std::fmt;
use std::ops::Range;

use serde::de::{
    self, DeserializeSeed, EnumAccess, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde_spanned::Spanned;
use serde_spanned::de::{SpannedDeserializer, is_spanned};
use toml::de::{DeInteger, DeString, DeTable, DeValue};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    UnknownKey {
        name: String,
        known: &'static [&'static str],
    },
    UnknownValue {
        name: String,
        known: &'static [&'static str],
    },
    MissingKey {
        name: &'static str,
    },
    WrongType {
        found: String,
        expected: String,
    },
    /// A type refused the text, with this reason.
    Refused(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueError {
    pub(crate) fault: Fault,
    pub(crate) span: Option<Range<usize>>,
}

impl ValueError {
    fn of(fault: Fault) -> Self {
        Self { fault, span: None }
    }

    fn at(self, span: &Range<usize>) -> Self {
        Self { span: self.span.or_else(|| Some(span.clone())), ..self }
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fault {
            Fault::UnknownKey { name, .. } => write!(out, "unknown key `{name}`"),
            Fault::UnknownValue { name, .. } => write!(out, "unknown value `{name}`"),
            Fault::MissingKey { name } => write!(out, "the key `{name}` is missing"),
            Fault::WrongType { found, expected } => write!(out, "{found}, expected {expected}"),
            Fault::Refused(why) => out.write_str(why),
        }
    }
}

impl std::error::Error for ValueError {}

impl de::Error for ValueError {
    fn custom<T: fmt::Display>(why: T) -> Self {
        Self::of(Fault::Refused(why.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let (found, expected) = (format!("invalid type: {found}"), expected.to_string());
        Self::of(Fault::WrongType { found, expected })
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let (found, expected) = (format!("invalid value: {found}"), expected.to_string());
        Self::of(Fault::WrongType { found, expected })
    }

    fn unknown_variant(name: &str, known: &'static [&'static str]) -> Self {
        Self::of(Fault::UnknownValue { name: name.to_owned(), known })
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        Self::of(Fault::UnknownKey { name: name.to_owned(), known })
    }

    fn missing_field(name: &'static str) -> Self {
        Self::of(Fault::MissingKey { name })
    }
}

/// A value and its place.
pub(crate) struct TomlValue<'de> {
    value: DeValue<'de>,
    span: Range<usize>,
}

impl<'de> From<Spanned<DeTable<'de>>> for TomlValue<'de> {
    fn from(table: Spanned<DeTable<'de>>) -> Self {
        let span = table.span();
        Self { value: DeValue::Table(table.into_inner()), span }
    }
}

impl<'de> From<Spanned<DeValue<'de>>> for TomlValue<'de> {
    fn from(value: Spanned<DeValue<'de>>) -> Self {
        let span = value.span();
        Self { value: value.into_inner(), span }
    }
}

impl<'de> TomlValue<'de> {
    fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self.value {
            DeValue::String(DeString::Owned(text)) => visitor.visit_string(text),
            DeValue::String(DeString::Borrowed(text)) => visitor.visit_borrowed_str(text),
            DeValue::Integer(number) => visit_integer(&number, visitor),
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                // `inf` may be written, but no number is that large.
                Ok(value) if value.is_finite() || number.as_str().ends_with("inf") => {
                    visitor.visit_f64(value)
                }
                Ok(value) if value.is_nan() => visitor.visit_f64(value),
                Ok(_) | Err(_) => Err(de::Error::custom("the number is too large")),
            },
            DeValue::Boolean(value) => visitor.visit_bool(value),
            DeValue::Datetime(_) => {
                Err(de::Error::invalid_type(Unexpected::Other("date"), &visitor))
            }
            DeValue::Array(list) => visitor.visit_seq(List(list.into_iter())),
            DeValue::Table(table) => {
                visitor.visit_map(Entries { rest: table.into_iter(), value: None })
            }
        }
    }
}

fn visit_integer<'de, V: Visitor<'de>>(
    number: &DeInteger<'_>,
    visitor: V,
) -> Result<V::Value, ValueError> {
    let (digits, radix) = (number.as_str(), number.radix());
    match (i64::from_str_radix(digits, radix), u64::from_str_radix(digits, radix)) {
        (Ok(number), _) => visitor.visit_i64(number),
        (Err(_), Ok(number)) => visitor.visit_u64(number),
        (Err(_), Err(_)) => Err(de::Error::custom("the number is too large")),
    }
}

impl<'de> de::Deserializer<'de> for TomlValue<'de> {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        let span = self.span.clone();
        self.visit(visitor).map_err(|error| error.at(&span))
    }

    // A key that exists has a value.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        let span = self.span.clone();
        visitor.visit_some(self).map_err(|error: ValueError| error.at(&span))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        let span = self.span.clone();
        visitor.visit_newtype_struct(self).map_err(|error: ValueError| error.at(&span))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        if is_spanned(name) {
            let span = self.span.clone();
            return visitor.visit_map(SpannedDeserializer::new(self, span));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        let span = self.span.clone();
        let read = match self.value {
            DeValue::String(name) => visitor.visit_enum(name.into_deserializer()),
            DeValue::Table(table) => {
                let mut entries = table.into_iter();
                match (entries.next(), entries.next()) {
                    (Some((name, value)), None) => visitor.visit_enum(Variant { name, value }),
                    _ => Err(de::Error::custom("expected a string or a table with one key")),
                }
            }
            DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => Err(de::Error::custom("expected a string or a table")),
        };
        read.map_err(|error: ValueError| error.at(&span))
    }

    serde::forward_to_deserialize_any! {
        bool u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64 char str string seq bytes byte_buf map
        unit ignored_any unit_struct tuple_struct tuple identifier
    }
}

impl<'de> IntoDeserializer<'de, ValueError> for TomlValue<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

struct List<I>(I);

impl<'de, I: Iterator<Item = Spanned<DeValue<'de>>>> SeqAccess<'de> for List<I> {
    type Error = ValueError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ValueError> {
        self.0.next().map(|value| read_in_place(seed, value)).transpose()
    }
}

struct Entries<'de, I> {
    rest: I,
    value: Option<Spanned<DeValue<'de>>>,
}

impl<'de, I> MapAccess<'de> for Entries<'de, I>
where
    I: Iterator<Item = (Spanned<DeString<'de>>, Spanned<DeValue<'de>>)>,
{
    type Error = ValueError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ValueError> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        key_of(seed, key).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<T::Value, ValueError> {
        let value = self.value.take();
        let value = value.ok_or_else(|| <ValueError as de::Error>::custom("no key was read"))?;
        read_in_place(seed, value)
    }
}

/// An error of a type after reading is about the value itself, not about what is around it.
fn read_in_place<'de, T: DeserializeSeed<'de>>(
    seed: T,
    value: Spanned<DeValue<'de>>,
) -> Result<T::Value, ValueError> {
    let span = value.span();
    seed.deserialize(TomlValue::from(value)).map_err(|error| error.at(&span))
}

/// A key is read as a text at its place.
fn key_of<'de, K: DeserializeSeed<'de>>(
    seed: K,
    key: Spanned<DeString<'de>>,
) -> Result<K::Value, ValueError> {
    let span = key.span();
    let key = TomlValue { value: DeValue::String(key.into_inner()), span: span.clone() };
    seed.deserialize(key).map_err(|error| error.at(&span))
}

/// A variant that is written as a table with its name as the only key.
struct Variant<'de> {
    name: Spanned<DeString<'de>>,
    value: Spanned<DeValue<'de>>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = ValueError;
    type Variant = TomlValue<'de>;

    fn variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<(T::Value, TomlValue<'de>), ValueError> {
        Ok((key_of(seed, self.name)?, TomlValue::from(self.value)))
    }
}

impl<'de> VariantAccess<'de> for TomlValue<'de> {
    type Error = ValueError;

    fn unit_variant(self) -> Result<(), ValueError> {
        match self.value.as_table().is_some_and(|table| table.is_empty()) {
            true => Ok(()),
            false => {
                Err(<ValueError as de::Error>::custom("expected an empty table").at(&self.span))
            }
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, ValueError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, ValueError> {
        de::Deserializer::deserialize_any(self, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        let mut keys = self.value.as_table().into_iter().flat_map(|table| table.keys());
        if let Some(key) = keys.find(|key| !known.contains(&key.get_ref().as_ref())) {
            let unknown = <ValueError as de::Error>::unknown_field(key.get_ref(), known);
            return Err(unknown.at(&key.span()));
        }
        de::Deserializer::deserialize_any(self, visitor)
    }
}
#[cfg(test)]
mod tests;
