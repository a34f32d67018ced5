//! Finds the place of a field in its file.

use std::fmt;

use bailiwick_client::ClientError;
use bailiwick_fleet::resources::DeclareError;
use bailiwick_resources::{AnyObject, Kind, ObjectError};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::failure::Failure;

/// The place of a document and its fields.
#[derive(Debug, Clone)]
pub(super) struct DocumentPlace {
    pub(super) file: String,
    pub(super) lines: Spanned<Lines>,
}

/// The lines of the fields below a value.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines {
    fields: Vec<Field>,
}

#[derive(Debug, Clone)]
struct Field {
    /// A key, or the number of an item.
    name: String,
    line: u64,
    below: Lines,
}

impl Lines {
    /// The line of a field, else that of the nearest field that contains it.
    fn of(&self, path: &str) -> Option<u64> {
        let rest = |field: &&Field| {
            let rest = path.strip_prefix(field.name.as_str())?;
            // A key may contain dots itself.
            if rest.is_empty() { Some("") } else { rest.strip_prefix('.') }.map(|_| ())
        };
        let found = self.fields.iter().filter(|field| rest(field).is_some());
        let field = found.max_by_key(|field| field.name.len())?;
        let below = path.get(field.name.len() + 1..).unwrap_or_default();
        Some(field.below.of(below).unwrap_or(field.line))
    }
}

impl DocumentPlace {
    /// `file:line` of a field, such as `spec.rules[0].paths`.
    fn of(&self, field: &str) -> String {
        let path = field.replace('[', ".").replace(']', "");
        let line = self.lines.value.of(&path).unwrap_or_else(|| self.first_line());
        format!("{}:{line}", self.file)
    }

    fn first_line(&self) -> u64 {
        self.lines.defined.line()
    }
}

/// An error of the control plane, with the place of what it is about.
pub(super) fn locate(
    error: ClientError,
    objects: &[AnyObject],
    places: &[DocumentPlace],
) -> Failure {
    let named = |kind: Kind, name: &str| {
        let is_named = |object: &AnyObject| object.kind == kind && object.metadata.name == name;
        let all = objects.iter().zip(places);
        all.filter(move |(object, _)| is_named(object)).collect::<Vec<_>>()
    };
    let at = |place: &DocumentPlace, field: &str, error: &dyn fmt::Display| {
        Failure::usage(format!("{}: {error}", place.of(field)))
    };
    let ClientError::Declare(error) = error else { return error.into() };
    match &error {
        DeclareError::Faulty { kind, name, faults } => {
            let all = named(*kind, name);
            // Objects of several namespaces may have the name.
            let faulty =
                all.iter().find(|(object, _)| object.check().is_ok_and(|it| &it == faults));
            let Some((_, place)) = faulty.or(all.first()) else { return error.into() };
            let line = |fault: &bailiwick_resources::Fault| {
                let at = place.of(&fault.field);
                format!("{at}: {kind} `{name}` {}: {}", fault.field, fault.message)
            };
            Failure::usage(faults.iter().map(line).collect::<Vec<_>>().join("\n"))
        }
        DeclareError::Shape(ObjectError::Shape { kind, name, field, .. }) => {
            let all = named(*kind, name);
            let faulty = all.iter().find(|(object, _)| object.check().is_err());
            let Some((_, place)) = faulty.or(all.first()) else { return error.into() };
            at(place, field, &error)
        }
        DeclareError::Shape(ObjectError::Version { found }) => {
            let of_version = |(object, _): &(&AnyObject, _)| object.api_version == *found;
            let Some((_, place)) = objects.iter().zip(places).find(of_version) else {
                return error.into();
            };
            at(place, "apiVersion", &error)
        }
        DeclareError::Recorded { kind, name }
        | DeclareError::Secret { kind, name }
        | DeclareError::Twice { kind, name } => {
            let Some((_, place)) = named(*kind, name).pop() else { return error.into() };
            at(place, "kind", &error)
        }
        DeclareError::Shape(ObjectError::Kind { .. }) | DeclareError::Store(_) => error.into(),
    }
}

impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LinesVisitor)
    }
}

struct LinesVisitor;

impl<'de> Visitor<'de> for LinesVisitor {
    type Value = Lines;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Lines, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let line = key.defined.line();
            fields.push(Field { name: key.value, line, below: map.next_value()? });
        }
        Ok(Lines { fields })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Lines, A::Error> {
        let mut fields = Vec::new();
        while let Some(item) = seq.next_element::<Spanned<Lines>>()? {
            let (name, line) = (fields.len().to_string(), item.defined.line());
            fields.push(Field { name, line, below: item.value });
        }
        Ok(Lines { fields })
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Lines, D::Error> {
        Lines::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<Lines, D::Error> {
        IgnoredAny::deserialize(value).map(|_| Lines::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Lines, E> {
        Ok(Lines::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Lines, E> {
        Ok(Lines::default())
    }

    fn visit_i128<E>(self, _: i128) -> Result<Lines, E> {
        Ok(Lines::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Lines, E> {
        Ok(Lines::default())
    }

    fn visit_u128<E>(self, _: u128) -> Result<Lines, E> {
        Ok(Lines::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Lines, E> {
        Ok(Lines::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<Lines, E> {
        Ok(Lines::default())
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Lines, E> {
        Ok(Lines::default())
    }

    fn visit_none<E>(self) -> Result<Lines, E> {
        Ok(Lines::default())
    }

    fn visit_unit<E>(self) -> Result<Lines, E> {
        Ok(Lines::default())
    }
}
