//! TOML to type, strictly: an unknown key or a wrong value is a problem with its place.

use serde::de::DeserializeOwned;

use crate::nearest::nearest;
use crate::problem::{Problem, Source};

/// Reads a whole file into `T`.
pub fn parse<T: DeserializeOwned>(source: &Source) -> Result<T, Problem> {
    toml::from_str(&source.text).map_err(|error| explain(source, &error))
}

fn explain(source: &Source, error: &toml::de::Error) -> Problem {
    let place = error.span().map_or_else(|| source.whole(), |span| source.at(span));
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (code, noun) = if message.starts_with("unknown field") {
        ("unknown-key", "key")
    } else if message.starts_with("unknown variant") {
        ("unknown-value", "value")
    } else if message.starts_with("missing field") {
        ("missing-key", "key")
    } else {
        return Problem::error("bad-toml", place, message);
    };
    match quoted.split_first() {
        Some((name, _)) if code == "missing-key" => {
            Problem::error(code, place, format!("the key `{name}` is missing"))
        }
        Some((name, expected)) => {
            let known = expected.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
            let help = match nearest(name, expected.iter().copied()) {
                Some(near) => format!("did you mean `{near}`? Known here: {}", known.join(", ")),
                None if known.is_empty() => "nothing may stand here".to_owned(),
                None => format!("known here: {}", known.join(", ")),
            };
            Problem::error(code, place, format!("unknown {noun} `{name}`")).help(help)
        }
        None => Problem::error(code, place, message),
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
    fn an_unknown_key_shows_its_line_and_the_nearest_right_name() {
        let source = Source::new("task.toml", "# scope\nfiles_whitelist = []\n");
        let problem = parse::<Scope>(&source).unwrap_err();
        assert_eq!(problem.code, "unknown-key");
        assert_eq!(problem.place.to_string(), "task.toml:2:1");
        assert_eq!(problem.place.text(), Some("files_whitelist"));
        assert!(problem.help.unwrap().contains("did you mean `files-whitelist`?"));
    }

    #[test]
    fn a_wrong_type_shows_the_offending_text() {
        let source = Source::new("task.toml", "files-whitelist = 7\n");
        let problem = parse::<Scope>(&source).unwrap_err();
        assert_eq!(problem.place.text(), Some("7"));
        assert!(problem.message.contains("sequence"), "{}", problem.message);
    }
}
