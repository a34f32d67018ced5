//! Texts for agents: instructions of the repository, skills, and sub-agents.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::adapter::Instruction;

/// All instructions as one text, each under the name of its file.
pub(super) fn joined(instructions: &[Instruction]) -> String {
    let one = |file: &Instruction| format!("<!-- {} -->\n{}\n", file.path, file.text.trim_end());
    instructions.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// The skills' files below `place`. Descriptions stay; fields that execute or allow something are removed.
pub(super) fn skill_files(place: &str, skills: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let below = |path: &str| path.strip_prefix("skills/").unwrap_or(path).to_owned();
    let content = |path: &str, text: &str| match path.to_ascii_lowercase().ends_with(".md") {
        true => telling(text),
        false => text.to_owned(),
    };
    let one = |(path, text): (&String, &String)| {
        (format!("{place}/{}", below(path)), content(path, text))
    };
    skills.iter().map(one).collect()
}

/// The fields of a skill that may stay. Hooks, allowed tools, models and shells are not among them: they would give
/// the skill more rights than the agent that reads it.
const TELLING: [&str; 12] = [
    "agent",
    "argument-hint",
    "arguments",
    "compatibility",
    "context",
    "description",
    "disable-model-invocation",
    "license",
    "metadata",
    "name",
    "user-invocable",
    "when_to_use",
];

/// A text whose front matter has only those fields. CLIs do not agree on where front matter begins and ends, so
/// everything that may be front matter counts as such; what follows ours is then text for all of them.
fn telling(text: &str) -> String {
    // A line ends for us where it ends for any of them.
    let text = &text.replace("\r\n", "\n").replace(['\r', '\u{85}', '\u{2028}', '\u{2029}'], "\n");
    let begun = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    let Some(head) = begun.strip_prefix("---") else { return text.to_owned() };
    let mut rest = head.split_once('\n').map_or("", |(_, rest)| rest);
    let (mut header, mut keeps) = (String::new(), false);
    loop {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        rest = after;
        if line.trim_end() == "---" || (line.is_empty() && after.is_empty()) {
            break;
        }
        // A line that is indented goes with the one that it belongs to.
        if !line.starts_with([' ', '\t', '#', '\r']) && !line.is_empty() {
            let name = line.split_once(':').map_or("", |(name, _)| name);
            keeps = TELLING.contains(&name);
        }
        if keeps {
            header.push_str(line.trim_end());
            header.push('\n');
        }
    }
    format!("---\n{header}---\n{rest}")
}

/// Skills for a CLI that would list those of the worktree as well: described in our text, read as files.
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
    fn skill_is_listed_with_its_description() {
        let text = "---\nname: greet\ndescription: \"Says hello\"\n---\nSay it.\n".to_owned();
        let skills = BTreeMap::from([("skills/greet/SKILL.md".to_owned(), text)]);
        let list = skill_list("/h/skills", &skills);
        assert!(list.contains("- greet: Says hello (read /h/skills/greet/SKILL.md"), "{list}");
        assert_eq!(skill_list("/h", &BTreeMap::new()), "");
    }

    #[test]
    fn skill_keeps_no_hooks_tools_or_model() {
        let original = "---\nname: greet\nhooks:\n  PreToolUse:\n    - hooks:\n        - command: x\n\
                     description: >\n  Says\n\n  hello\nallowed-tools: Bash(*)\nmodel: big\n\
                     \"hooks\": {}\n? hooks\n: {}\n<<: *all\n---\nSay it.\n\n---\nhooks: text\n";
        let expected = "---\nname: greet\ndescription: >\n  Says\n\n  hello\n---\nSay it.\n\n---\nhooks: text\n";
        assert_eq!(telling(original), expected);
        assert_eq!(telling(expected), expected, "the remaining text is not changed again");
        for begins in ["\u{feff}", "\n", " \n"] {
            assert_eq!(telling(&format!("{begins}{original}")), expected);
        }
        let lines = original.replace('\n', "\r\n");
        assert!(!telling(&lines).contains("allowed-tools") && telling(&lines).contains("Says"));
        // A lone carriage return ends a line in YAML too.
        let returned =
            "---\nname: x\rhooks:\r  PreToolUse: []\rallowed-tools: Bash\n---\nSay it.\n";
        assert_eq!(telling(returned), "---\nname: x\n---\nSay it.\n");
        for open in ["---\nhooks: {}\n", "---\nhooks: {}", "---", "---hooks: {}\n"] {
            assert_eq!(telling(open), "---\n---\n", "{open:?}");
        }
        assert_eq!(telling("Say it.\n"), "Say it.\n");
        let files = BTreeMap::from([
            ("greet/SKILL.md".to_owned(), original.to_owned()),
            ("greet/run.sh".to_owned(), "---\nhooks: {}\n".to_owned()),
        ]);
        let files = skill_files("/h", &files);
        assert_eq!(files[0].1, expected);
        assert_eq!(files[1].1, "---\nhooks: {}\n", "only text for agents is changed");
    }
}
