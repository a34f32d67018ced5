//! TOML to type, strictly: an unknown key or a wrong value is a problem with its place.

use serde::de::DeserializeOwned;
use toml::de::DeTable;

use crate::nearest::nearest;
use crate::problem::{Problem, Source};

/// Reads a whole file into `T`, all of whose fields are tables.
pub fn parse<T: DeserializeOwned>(source: &Source) -> Result<T, Problem> {
    let table = DeTable::parse(&source.text).map_err(|error| explain(source, &error))?;
    let listed = list_for_table(source, table.get_ref());
    let read = T::deserialize(toml::Deserializer::from(table));
    read.map_err(|error| explain(source, &error)).and_then(|read| listed.map_or(Ok(read), Err))
}

/// Reads a whole file into `T`, some of whose fields are values and lists of tables.
pub fn parse_flat<T: DeserializeOwned>(source: &Source) -> Result<T, Problem> {
    let table = DeTable::parse(&source.text).map_err(|error| explain(source, &error))?;
    let listed = list_in_list(source, table.get_ref());
    let read = T::deserialize(toml::Deserializer::from(table));
    read.map_err(|error| explain(source, &error)).and_then(|read| listed.map_or(Ok(read), Err))
}

/// A list inside of a list: no file of ours has one, and serde would make a struct of it.
fn list_in_list(source: &Source, table: &DeTable<'_>) -> Option<Problem> {
    let lists = table.values().filter_map(|value| value.get_ref().as_array());
    let inner = lists.flat_map(|list| list.iter()).find(|value| value.get_ref().is_array())?;
    let message = "a list inside of a list means nothing here";
    Some(Problem::error("bad-toml", source.at(inner.span()), message))
}

/// A list where a table belongs: serde would fill the fields of a struct from it, one by one.
fn list_for_table(source: &Source, table: &DeTable<'_>) -> Option<Problem> {
    let (key, value) = table.iter().find(|(_, value)| value.get_ref().is_array())?;
    let message = format!("`{}` is a list, but a table belongs here", key.get_ref());
    Some(
        Problem::error("bad-toml", source.at(value.span()), message)
            .help(format!("write [{}] and its keys below it", key.get_ref())),
    )
}

fn explain(source: &Source, error: &toml::de::Error) -> Problem {
    let place = error.span().map_or_else(|| source.whole(), |span| source.at(span));
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    let (code, noun) = if message.starts_with("unknown field") {
        ("unknown-key", "key")
    } else if message.starts_with("unknown variant") {
        ("unknown-value", "value")
    } else if message.starts_with("missing field") {
        ("missing-key", "key")
    } else {
        return Problem::error("bad-toml", place, in_plain_words(&message));
    };
    // The name is the person's and may hold anything; what was expected are words of ours.
    let (name, expected) = message.split_once("`, ").unwrap_or((&message, ""));
    let name = name.split_once('`').map_or(name, |(_, name)| name).trim_end_matches('`');
    if code == "missing-key" {
        return Problem::error(code, place, format!("the key `{name}` is missing"));
    }
    let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    let list = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let help = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? Known here: {list}"),
        None if known.is_empty() => "nothing may stand here".to_owned(),
        None => format!("known here: {list}"),
    };
    Problem::error(code, place, format!("unknown {noun} `{name}`")).help(help)
}

/// What was expected, without the names of our types.
fn in_plain_words(message: &str) -> String {
    let Some((found, expected)) = message.split_once(", expected ") else {
        return message.to_owned();
    };
    let expected = match expected {
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number, 0 or more",
        "f64" => "a number",
        "a sequence" => "a list",
        "a boolean" => "true or false",
        other if other.starts_with("struct ") || other == "a map" => "a table",
        other => other,
    };
    format!("{found}, expected {expected}")
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Scope {
        #[serde(rename = "files-whitelist")]
        _files_whitelist: Vec<String>,
    }

    #[test]
    fn an_unknown_key_shows_its_line_and_the_nearest_right_name() {
        let source = Source::new("task.toml", "# scope\nfiles_whitelist = []\n");
        let problem = parse::<Scope>(&source).unwrap_err();
        assert_eq!(problem.code, "unknown-key");
        assert_eq!(problem.place.to_string(), "task.toml:2:1");
        assert_eq!(problem.place.text(), Some("files_whitelist"));
        assert!(problem.help.unwrap().contains("did you mean `files-whitelist`?"));
    }

    #[test]
    fn a_list_does_not_stand_for_the_keys_of_a_table() {
        #[derive(Debug, Deserialize)]
        struct Flat {
            scope: Vec<Scope>,
        }
        let fine = Source::new("a.toml", "[[scope]]\nfiles-whitelist = []\n");
        assert_eq!(parse_flat::<Flat>(&fine).unwrap().scope.len(), 1);
        let listed = Source::new("a.toml", "scope = [[[\"a\"]]]\n");
        assert_eq!(parse_flat::<Flat>(&listed).unwrap_err().place.to_string(), "a.toml:1:10");
    }

    #[test]
    fn a_wrong_type_shows_the_offending_text() {
        let source = Source::new("task.toml", "files-whitelist = 7\n");
        let problem = parse::<Scope>(&source).unwrap_err();
        assert_eq!(problem.place.text(), Some("7"));
        assert!(problem.message.contains("expected a list"), "{}", problem.message);
    }
}
