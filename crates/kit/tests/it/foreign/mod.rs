//! Imports of the agent files of other programs: one file per format.

mod agents_md;
mod claude;
mod codex;
mod finding;
mod gemini;
mod opencode;
mod read_back;
mod rendering;
mod skill;

use bailiwick_kit::foreign::{Effect, Format, Imported, Options, import};
use bailiwick_model::{Problem, Source, Template};

/// The path of a file of this format.
fn file(format: Format) -> &'static str {
    match format {
        Format::Claude => ".claude/agents/reviewer.md",
        Format::Codex => ".codex/agents/reviewer.toml",
        Format::Gemini => ".gemini/agents/reviewer.md",
        Format::Opencode => ".opencode/agents/reviewer.md",
        Format::Skill => ".claude/skills/reviewer/SKILL.md",
        Format::AgentsMd => "crates/parser/AGENTS.md",
    }
}

fn read(format: Format, text: &str) -> Result<Imported, Vec<Problem>> {
    import(format, &Source::new(file(format), text), &Options::default())
}

/// A Markdown file with these lines after its name and description.
fn markdown(lines: &str) -> String {
    format!("---\nname: reviewer\ndescription: Reviews.\n{lines}---\n\nRead and judge.\n")
}

fn imported(format: Format, lines: &str) -> Imported {
    let text = match format {
        Format::Codex => format!(
            "name = \"reviewer\"\ndescription = \"Reviews.\"\n\
             developer_instructions = \"Read and judge.\"\n{lines}"
        ),
        Format::Opencode => markdown(lines).replace("name: reviewer\n", ""),
        Format::AgentsMd => lines.to_owned(),
        Format::Claude | Format::Gemini | Format::Skill => markdown(lines),
    };
    read(format, &text).unwrap_or_else(|problems| panic!("{text}\n{problems:?}"))
}

/// The code and the message of the only problem.
fn refused(format: Format, text: &str) -> (&'static str, String) {
    let problems = read(format, text).expect_err(text);
    assert_eq!(problems.len(), 1, "{problems:?}");
    (problems[0].code, problems[0].to_string())
}

fn allow(imported: &Imported) -> Option<Vec<&str>> {
    let list = imported.template.tools.allow_list.as_ref()?;
    Some(list.iter().map(String::as_str).collect())
}

fn deny(imported: &Imported) -> Option<Vec<&str>> {
    let list = imported.template.tools.deny_list.as_ref()?;
    Some(list.iter().map(String::as_str).collect())
}

/// The keys of the notes with this effect.
fn noted(imported: &Imported, effect: Effect) -> Vec<&str> {
    let notes = imported.notes.iter().filter(|note| note.effect == effect);
    notes.map(|note| note.key.as_str()).collect()
}

/// Whether a note with this effect contains these words.
fn has_note(imported: &Imported, effect: Effect, words: &str) -> bool {
    imported.notes.iter().any(|note| note.effect == effect && note.text.contains(words))
}

#[test]
fn limit_of_turns_or_time_is_imported_and_an_invalid_one_is_refused() {
    let turns = |template: &Template| template.max_turns;
    let minutes = |template: &Template| template.max_minutes;
    for (format, key, limit, usual) in [
        (Format::Claude, "maxTurns", turns as fn(&Template) -> Option<u64>, None),
        (Format::Gemini, "max_turns", turns, Some(30)),
        (Format::Gemini, "timeout_mins", minutes, Some(10)),
        (Format::Opencode, "steps", turns, None),
        (Format::Opencode, "maxSteps", turns, None),
    ] {
        let read_with = |value: &str| {
            let text = markdown(&format!("{key}: {value}\n"));
            let named = format == Format::Opencode;
            read(format, &if named { text.replace("name: reviewer\n", "") } else { text })
        };
        assert_eq!(limit(&read_with("12").unwrap().template), Some(12), "{format} {key}");
        for bad in ["0", "-1", "1.5", "many", "", "[3]"] {
            let problems = read_with(bad).expect_err(bad);
            assert_eq!(problems[0].code, "bad-value", "{format} {key}: {bad}");
        }
        assert_eq!(limit(&imported(format, "").template), usual, "{format} {key}");
    }
    let both = imported(Format::Opencode, "steps: 9\nmaxSteps: 4\n");
    assert_eq!(both.template.max_turns, Some(4), "the smallest limit applies");
}
