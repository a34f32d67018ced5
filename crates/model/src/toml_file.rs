//! TOML to type, strictly: an unknown key or a wrong value is a problem with its place.

use std::ops::Range;

use serde::de::DeserializeOwned;
use serde_spanned::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::nearest::nearest;
use crate::problem::{Problem, Source};
use crate::toml_value::{Fault, TomlValue, ValueError};

/// The maximum number of problems reported for one file.
const MAX_PROBLEMS: usize = 20;

/// The file as TOML, before any type is read from it.
pub fn syntax(source: &Source) -> Result<Spanned<DeTable<'_>>, Problem> {
    DeTable::parse(&source.text).map_err(|error| bad_syntax(source, &error))
}

/// Reads a whole file into `T`, all of whose fields are tables.
pub fn parse<T: DeserializeOwned>(source: &Source) -> Result<T, Problem> {
    let table = syntax(source)?;
    let listed = list_for_table(source, table.get_ref());
    let read = T::deserialize(TomlValue::from(table));
    read.map_err(|error| explain(source, &error)).and_then(|read| listed.map_or(Ok(read), Err))
}

/// The same, with every problem that can be found beside the others.
pub fn parse_all<T: DeserializeOwned>(source: &Source) -> Result<T, Vec<Problem>> {
    let mut table = syntax(source).map_err(|problem| vec![problem])?;
    let (mut problems, mut removed) = (Vec::new(), Vec::<String>::new());
    while problems.len() < MAX_PROBLEMS {
        let read = T::deserialize(TomlValue::from(table.clone()));
        let (problem, missing) = match (read, list_for_table(source, table.get_ref())) {
            (Ok(read), None) if problems.is_empty() => return Ok(read),
            (Ok(_), None) => break,
            (Ok(_), Some(problem)) => (problem, None),
            (Err(error), _) => match error.fault {
                Fault::MissingKey { name } => (explain(source, &error), Some(name)),
                Fault::UnknownKey { .. }
                | Fault::UnknownValue { .. }
                | Fault::WrongType { .. }
                | Fault::Refused(_) => (explain(source, &error), None),
            },
        };
        let span = problem.place.span.clone();
        // A key that is missing because its name or value was wrong is not reported twice.
        let is_told = |missing: &str| removed.iter().any(|key| nearest(key, [missing]).is_some());
        if !missing.is_some_and(is_told) {
            problems.push(problem);
        }
        match span.and_then(|span| remove_at(table.get_mut(), &span)) {
            Some(name) => removed.push(name),
            None => break,
        }
    }
    Err(problems)
}

/// Removes the innermost entry that a problem is about, and returns its key.
fn remove_at(table: &mut DeTable<'_>, span: &Range<usize>) -> Option<String> {
    for (key, value) in table.iter_mut() {
        let inside = match value.get_mut() {
            DeValue::Table(inner) => remove_at(inner, span),
            DeValue::Array(list) => remove_element(list, span, key.get_ref()),
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_) => None,
        };
        if inside.is_some() {
            return inside;
        }
    }
    let is_about = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
    let found = table.iter().find(|(key, value)| is_about(key.span()) || is_about(value.span()));
    let name = found.map(|(key, _)| key.get_ref().clone().into_owned())?;
    table.remove(name.as_str());
    Some(name)
}

/// Removes what a problem is about from the list of a key; from a table in it only the entry. Returns the key of
/// what was removed.
fn remove_element(list: &mut DeArray<'_>, span: &Range<usize>, key: &str) -> Option<String> {
    for value in list.iter_mut() {
        let removed = match value.get_mut() {
            DeValue::Table(inner) => remove_at(inner, span),
            DeValue::Array(inner) => remove_element(inner, span, key),
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_) => None,
        };
        if removed.is_some() {
            return removed;
        }
    }
    let before = list.len();
    let all = std::mem::replace(list, DeArray::new());
    let is_about = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
    *list = all.into_iter().filter(|value| !is_about(value.span())).collect();
    (list.len() < before).then(|| key.to_owned())
}

/// Reads a whole file into `T`, some of whose fields are values and lists of tables.
pub fn parse_flat<T: DeserializeOwned>(source: &Source) -> Result<T, Problem> {
    let table = syntax(source)?;
    let listed = list_in_list(source, table.get_ref());
    let read = T::deserialize(TomlValue::from(table));
    read.map_err(|error| explain(source, &error)).and_then(|read| listed.map_or(Ok(read), Err))
}

/// A list in a list: no file format of ours has one, and serde would read it as a struct.
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

/// The text is not TOML.
fn bad_syntax(source: &Source, error: &toml::de::Error) -> Problem {
    let place = error.span().map_or_else(|| source.whole(), |span| source.at(span));
    Problem::error("bad-toml", place, one_line(error.message()))
}

fn explain(source: &Source, error: &ValueError) -> Problem {
    let place = error.span.clone().map_or_else(|| source.whole(), |span| source.at(span));
    match &error.fault {
        Fault::UnknownKey { name, known } => {
            Problem::error("unknown-key", place, format!("unknown key `{name}`"))
                .help(suggestion(name, known))
        }
        Fault::UnknownValue { name, known } => {
            Problem::error("unknown-value", place, format!("unknown value `{name}`"))
                .help(suggestion(name, known))
        }
        Fault::MissingKey { name } => {
            Problem::error("missing-key", place, format!("the key `{name}` is missing"))
        }
        Fault::WrongType { found, expected } => {
            let message = format!("{}, expected {}", one_line(found), in_plain_words(expected));
            Problem::error("bad-toml", place, message)
        }
        Fault::Refused(why) => Problem::error("bad-toml", place, one_line(why)),
    }
}

fn one_line(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join("; ")
}

fn suggestion(name: &str, known: &[&str]) -> String {
    let list = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? Known here: {list}"),
        None if known.is_empty() => "nothing may stand here".to_owned(),
        None => format!("known here: {list}"),
    }
}

/// The expected form, without the names of our types.
fn in_plain_words(expected: &str) -> &str {
    match expected {
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number, 0 or more",
        "f64" => "a number",
        "a sequence" => "a list",
        "a boolean" => "true or false",
        other if other.starts_with("struct ") || other == "a map" => "a table",
        other => other,
    }
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
    fn error_for_an_unknown_key_has_its_line_and_a_suggestion() {
        let source = Source::new("task.toml", "# scope\nfiles_whitelist = []\n");
        let problem = parse::<Scope>(&source).unwrap_err();
        assert_eq!(problem.code, "unknown-key");
        assert_eq!(problem.place.to_string(), "task.toml:2:1");
        assert_eq!(problem.place.text(), Some("files_whitelist"));
        assert!(problem.help.unwrap().contains("did you mean `files-whitelist`?"));
    }

    #[test]
    fn list_is_not_accepted_as_the_fields_of_a_table() {
        #[derive(Debug, Deserialize)]
        struct Flat {
            scope: Vec<Scope>,
        }
        let valid = Source::new("a.toml", "[[scope]]\nfiles-whitelist = []\n");
        assert_eq!(parse_flat::<Flat>(&valid).unwrap().scope.len(), 1);
        let invalid = Source::new("a.toml", "scope = [[[\"a\"]]]\n");
        assert_eq!(parse_flat::<Flat>(&invalid).unwrap_err().place.to_string(), "a.toml:1:10");
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Kit {
        _role: Named,
        _scope: Option<Scope>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Named {
        _name: String,
        _size: Option<u32>,
    }

    #[test]
    fn each_problem_is_reported_once() {
        let text = "[_role]\n_name = 7\ncolour = 1\n_size = \"big\"\n[_scope]\nfiles-whitelist = [1, \
                    \"a\", 2]\n[more]\nx = 1\n";
        let problems = parse_all::<Kit>(&Source::new("a.toml", text)).unwrap_err();
        let mut reported: Vec<(&str, &str)> = problems
            .iter()
            .map(|problem| (problem.code, problem.place.text().unwrap_or_default()))
            .collect();
        reported.sort_unstable();
        let expected = [
            ("bad-toml", "\"big\""),
            ("bad-toml", "1"),
            ("bad-toml", "2"),
            ("bad-toml", "7"),
            ("unknown-key", "colour"),
            ("unknown-key", "more"),
        ];
        assert_eq!(reported, expected, "`_name` must not be reported as missing: {problems:?}");
    }

    #[test]
    fn missing_key_is_reported_unless_it_was_misspelt() {
        for (text, expected) in [
            ("[_role]\n_name = \"x\"\n", &[][..]),
            ("[_role]\n_nam = \"x\"\n", &["unknown-key"]),
            ("[_rule]\n_name = \"x\"\n", &["unknown-key"]),
            ("[_role]\n[_scope]\n", &["missing-key", "missing-key"]),
            ("[_role\n", &["bad-toml"]),
        ] {
            let problems = parse_all::<Kit>(&Source::new("a.toml", text)).err().unwrap_or_default();
            let codes: Vec<&str> = problems.iter().map(|problem| problem.code).collect();
            assert_eq!(codes, expected, "{text:?}: {problems:?}");
        }
    }

    #[test]
    fn wrong_tag_of_a_table_in_a_list_is_reported_once() {
        #[derive(Debug, Deserialize)]
        #[serde(tag = "do", rename_all = "kebab-case")]
        enum Step {
            Say { _text: String },
        }
        #[derive(Debug, Deserialize)]
        struct Agent {
            _steps: Vec<Step>,
        }
        #[derive(Debug, Deserialize)]
        struct File {
            _agent: Agent,
        }
        let codes = |text: &str| -> Vec<&'static str> {
            let problems =
                parse_all::<File>(&Source::new("a.toml", text)).err().unwrap_or_default();
            problems.iter().map(|problem| problem.code).collect()
        };
        assert_eq!(codes("[[_agent._steps]]\ndo = \"shout\"\n_text = \"x\"\n"), ["unknown-value"]);
        assert_eq!(codes("[[_agent._steps]]\n_text = \"x\"\n"), ["missing-key"]);
        assert!(codes("[[_agent._steps]]\ndo = \"say\"\n_text = \"x\"\n").is_empty());
    }

    #[test]
    fn error_for_a_wrong_type_shows_the_invalid_text() {
        let source = Source::new("task.toml", "files-whitelist = 7\n");
        let problem = parse::<Scope>(&source).unwrap_err();
        assert_eq!(problem.place.text(), Some("7"));
        assert!(problem.message.contains("expected a list"), "{}", problem.message);
    }
}
