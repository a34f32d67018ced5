//! Deserializes a checked text, so that an error points at the text itself.
//!
//! serde's `try_from` checks only once the text is read; inside a list the error then has the place
//! of the whole list.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// Reads a string into `T`.
pub(crate) fn text<'de, D, T>(input: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<String, Error: fmt::Display>,
{
    input.deserialize_string(ParseVisitor(PhantomData))
}

struct ParseVisitor<T>(PhantomData<T>);

impl<T: TryFrom<String, Error: fmt::Display>> Visitor<'_> for ParseVisitor<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<T, E> {
        T::try_from(text).map_err(E::custom)
    }
}
