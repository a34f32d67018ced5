//! The variable by which Claude Code starts every shell command through a program, in its settings.

use bailiwick_model::Source;
use serde_json::{Value, json};

use super::json_edit;
use super::json_text::{self, Comments, Node};
use crate::failure::Failure;

/// The variable.
pub const NAME: &str = "CLAUDE_CODE_SHELL_PREFIX";

/// The state of the variable in the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstalledPrefix {
    /// Nothing.
    Absent,
    /// Our program.
    Ours,
    /// Something else.
    Other(String),
}

/// The value of the variable in the settings.
pub fn find(root: &Node, program: &str) -> InstalledPrefix {
    match root.at(&["env", NAME]) {
        None => InstalledPrefix::Absent,
        Some(node) if node.is(&Value::from(program)) => InstalledPrefix::Ours,
        Some(node) => InstalledPrefix::Other(node.text().unwrap_or_default().to_owned()),
    }
}

/// The settings with the variable, and whether the object around it was created.
pub fn put(file: &str, text: &str, program: &str) -> Result<(String, bool), Failure> {
    let parse = |text: &str| {
        json_text::parse(&Source::new(file.to_owned(), text.to_owned()), Comments::Refused)
    };
    let root = parse(text)?;
    match find(&root, program) {
        InstalledPrefix::Ours => return Ok((text.to_owned(), false)),
        InstalledPrefix::Other(other) => {
            return Err(Failure::usage(format!(
                "{file} sets {NAME} to {other}, so shell commands cannot be started through Bailiwick"
            ))
            .help("take that variable out, or install with --no-sandbox"));
        }
        InstalledPrefix::Absent => {}
    }
    let written = |error| Failure::general(format!("{file} cannot be written as JSON: {error}"));
    if let Some(env) = root.get("env") {
        let text = json_edit::append(text, env, Some(NAME), &program).map_err(written)?;
        return Ok((text, false));
    }
    let env = json!({ NAME: program });
    Ok((json_edit::append(text, &root, Some("env"), &env).map_err(written)?, true))
}

/// The settings without the variable if it names our program, and without the object around it if that was created
/// for it.
pub fn take(source: &Source, program: &str, made: bool) -> Result<String, Failure> {
    let text = source.text.to_string();
    let root = json_text::parse(source, Comments::Refused)?;
    let (InstalledPrefix::Ours, Some(env)) = (find(&root, program), root.get("env")) else {
        return Ok(text);
    };
    let index = |node: &Node, key: &str| node.members().iter().position(|one| one.key == key);
    let (container, index) = match env.members().len() {
        1 if made => (&root, index(&root, "env")),
        _ => (env, index(env, NAME)),
    };
    Ok(index.map_or(text.clone(), |index| json_edit::remove(&text, container, index)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "/state/hooks/one/shell";

    #[test]
    fn removing_the_prefix_restores_the_file() {
        for (before, created) in [
            ("{}\n", true),
            ("{\n  \"model\": \"x\"\n}\n", true),
            ("{\n  \"env\": {\n    \"A\": \"b\"\n  }\n}\n", false),
        ] {
            let (with, created_now) = put("f", before, PROGRAM).unwrap();
            assert_eq!(created_now, created, "{before}");
            assert!(with.contains(PROGRAM), "{with}");
            assert_eq!(put("f", &with, PROGRAM).unwrap(), (with.clone(), false));
            let after = take(&Source::new("f", with), PROGRAM, created).unwrap();
            assert_eq!(after, before);
        }
    }

    #[test]
    fn prefix_of_the_person_is_refused_and_not_changed() {
        let own = "{\"env\": {\"CLAUDE_CODE_SHELL_PREFIX\": \"/usr/bin/nice\"}}";
        assert!(put("f", own, PROGRAM).is_err());
        assert_eq!(take(&Source::new("f", own), PROGRAM, false).unwrap(), own);
    }
}
