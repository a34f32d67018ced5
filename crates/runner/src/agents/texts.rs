//! Texts for agents: what the repository tells them, skills, and agents that they may start.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::adapter::Instruction;

/// All instructions as one text, each under the name of its file.
pub(super) fn joined(instructions: &[Instruction]) -> String {
    let one = |file: &Instruction| format!("<!-- {} -->\n{}\n", file.path, file.text.trim_end());
    instructions.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// The skills' files below `place`.
pub(super) fn skill_files(place: &str, skills: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let below = |path: &str| path.strip_prefix("skills/").unwrap_or(path).to_owned();
    skills.iter().map(|(path, text)| (format!("{place}/{}", below(path)), text.clone())).collect()
}

/// Skills for a program that would list the worktree's own as well: told by us, read as files.
pub(super) fn skill_list(place: &str, skills: &BTreeMap<String, String>) -> String {
    let entries: Vec<String> = skill_files(place, skills)
        .into_iter()
        .filter(|(path, _)| path.ends_with("/SKILL.md"))
        .map(|(path, text)| {
            let about = field(&text, "description").unwrap_or_default();
            let name = path.rsplit('/').nth(1).unwrap_or_default();
            format!(
                "- {}: {about} (read {path} before you use it)",
                field(&text, "name").unwrap_or(name)
            )
        })
        .collect();
    match entries.is_empty() {
        true => String::new(),
        false => format!("## Skills\n\n{}\n", entries.join("\n")),
    }
}

/// A line of a text's front matter.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let head = text.strip_prefix("---\n")?.split("\n---").next()?;
    let found = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.map(|value| value.trim().trim_matches('"'))
}

/// A text with front matter; a JSON value is a YAML one.
pub(super) fn with_front_matter(fields: &[(&str, Value)], text: &str) -> String {
    let lines = fields.iter().filter(|(_, value)| !value.is_null());
    let lines: String = lines.map(|(name, value)| format!("{name}: {value}\n")).collect();
    format!("---\n{lines}---\n{}\n", text.trim_end())
}

/// A JSON file as people read it.
pub(super) fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// An object of those fields that have a value.
pub(super) fn object(fields: Vec<(&str, Value)>) -> Value {
    let there = fields.into_iter().filter(|(_, value)| !value.is_null());
    json!(there.map(|(name, value)| (name.to_owned(), value)).collect::<serde_json::Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skill_is_listed_with_what_it_says_of_itself() {
        let text = "---\nname: greet\ndescription: \"Says hello\"\n---\nSay it.\n".to_owned();
        let skills = BTreeMap::from([("skills/greet/SKILL.md".to_owned(), text)]);
        let list = skill_list("/h/skills", &skills);
        assert!(list.contains("- greet: Says hello (read /h/skills/greet/SKILL.md"), "{list}");
        assert_eq!(skill_list("/h", &BTreeMap::new()), "");
    }
}
