//! Tests that an import allows no more than its original: random files of every format, a simple model of that
//! format's rules, and every tool of the vocabulary.

mod claude;
mod codex;
mod gemini;
mod opencode;
mod skill;

use bailiwick_kit::foreign::{Format, Imported, Options, import};
use bailiwick_model::Source;
use bailiwick_policy::ToolStack;
use bailiwick_policy::tool::{Class, Tool, in_vocabulary};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// Every tool, and some tools of servers.
fn vocabulary() -> impl Iterator<Item = (&'static str, Class)> {
    let servers = ["mcp__gov__say", "mcp__gov__hear", "mcp__git__push", "mcp__x__y_z"];
    let tools = Tool::all().iter().map(|tool| (tool.name, tool.class));
    tools.chain(servers.map(|name| (name, Class::Other)))
}

/// The tools of a program that correspond to one of our tools.
fn natives<'a>(program: &'a [&'static str], ours: &'a str) -> Vec<&'static str> {
    program.iter().copied().filter(|native| in_vocabulary(native) == ours).collect()
}

/// Whether a template allows a tool, as the gate decides.
fn import_allows(imported: &Imported, tool: &str, class: Class) -> bool {
    let template = &imported.template;
    let stack = ToolStack::unlimited().narrowed_by("a", &template.tools);
    stack.objection_to(tool).is_none() && !(template.read_only && class == Class::Writes)
}

fn read(format: Format, text: &str) -> Imported {
    let file = match format {
        Format::Opencode => ".opencode/agents/a.md",
        Format::Claude | Format::Codex | Format::Gemini | Format::Skill | Format::AgentsMd => {
            "a.md"
        }
    };
    import(format, &Source::new(file, text), &Options::default())
        .unwrap_or_else(|problems| panic!("{text}\n{problems:?}"))
}

/// Checks every tool and returns how many tools both allow, so that a test can require some.
fn check(
    imported: &Imported,
    original: impl Fn(&str, Class) -> bool,
) -> Result<usize, TestCaseError> {
    let mut allowed = 0;
    for (tool, class) in vocabulary() {
        if import_allows(imported, tool, class) {
            prop_assert!(original(tool, class), "{tool} is allowed: {:?}", imported.template.tools);
            allowed += 1;
        }
    }
    // Our own server starts agents as well, whichever entry allows its tool.
    let own = import_allows(imported, "mcp__bailiwick__spawn_agent", Class::Other);
    prop_assert!(!own || original("Agent", Class::Other), "{:?}", imported.template.tools);
    for entry in imported.template.tools.allow_list.iter().flatten() {
        let known = Tool::named(entry).is_some_and(|tool| tool.name == *entry);
        prop_assert!(known || entry.starts_with("mcp__"), "{entry} is not in the vocabulary");
    }
    Ok(allowed)
}
