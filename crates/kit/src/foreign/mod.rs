//! Agent files that were written for other programs, read as they are. One file a format.
//!
//! An import never has more rights than its original. What a template cannot express makes it narrower, or the file
//! is refused with a reason. What a program itself asks or denies stays with that program.
//!
//! ```text
//!  .claude/agents/**/*.md ─┐
//!  .codex/agents/**/*.toml ┤
//!  .gemini/agents/*.md ────┼─▶ Fields ─▶ Imported { template, notes } ─▶ render ─▶ .bailiwick/agents
//!  .opencode/agents/*.md ──┤
//!  SKILL.md, AGENTS.md ────┘
//! ```

mod agents_md;
mod claude;
mod codex;
mod fields;
mod find;
mod frontmatter;
mod gemini;
mod limit_words;
mod node;
mod opencode;
mod render;
mod skill;

use std::fmt;

use bailiwick_model::template::Template;
use bailiwick_model::{Problem, Source};
use serde::Serialize;

pub use agents_md::nearest as nearest_agents_md;
pub use find::{FoundAgentFile, find};
pub use render::render;

pub(crate) use claude::TOOLS as CLAUDE_TOOLS;
pub(crate) use codex::TOOLS_REMARK;
pub(crate) use gemini::TOOLS as GEMINI_TOOLS;
pub(crate) use opencode::TOOLS as OPENCODE_TOOLS;
pub(crate) use render::quoted;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// A sub-agent of Claude Code.
    Claude,
    /// A role of Codex.
    Codex,
    /// A sub-agent of Gemini CLI.
    Gemini,
    /// An agent of OpenCode.
    Opencode,
    Skill,
    /// Instructions for all agents of a directory.
    AgentsMd,
}

impl Format {
    /// The formats with a fixed place in a repository.
    pub const AGENTS: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::Opencode];

    /// The format of the file at a path.
    pub fn of_path(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let name = parts.last()?;
        let below = |directory: &str, names: &[&str]| {
            let [pairs @ .., _] = parts.as_slice() else { return false };
            pairs.windows(2).any(|pair| match pair {
                [outer, inner] => *outer == directory && names.contains(inner),
                _ => false,
            })
        };
        match *name {
            "SKILL.md" => Some(Self::Skill),
            "AGENTS.md" | "AGENTS.override.md" => Some(Self::AgentsMd),
            _ if below(".claude", &["agents"]) => Some(Self::Claude),
            _ if below(".codex", &["agents"]) => Some(Self::Codex),
            _ if below(".gemini", &["agents"]) => Some(Self::Gemini),
            _ if below(".opencode", &["agents", "agent"]) => Some(Self::Opencode),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Skill => "skill",
            Self::AgentsMd => "agents-md",
        })
    }
}

/// What happened to a part of the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The import may less than the original.
    Narrowed,
    /// It has no place in a template, and gave no right.
    LeftOut,
    /// It becomes metadata, which limits and grants nothing.
    Kept,
}

impl fmt::Display for Effect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Narrowed => "narrowed",
            Self::LeftOut => "left out",
            Self::Kept => "kept",
        })
    }
}

/// A difference between the import and the original.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// What happened to it.
    pub effect: Effect,
    /// The key of the original.
    pub key: String,
    /// The difference and its reason.
    pub text: String,
}

/// A foreign file as a Bailiwick template.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The format of the original.
    pub format: Format,
    pub template: Template,
    /// The differences from the original.
    pub notes: Vec<Note>,
}

/// Import options of a person.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Keys that are not limits and are ignored.
    pub drop: Vec<String>,
}

/// Reads a foreign file.
pub fn import(
    format: Format,
    source: &Source,
    options: &Options,
) -> Result<Imported, Vec<Problem>> {
    let (mut template, notes) = match format {
        Format::Claude => claude::import(source, options),
        Format::Codex => codex::import(source, options),
        Format::Gemini => gemini::import(source, options),
        Format::Opencode => opencode::import(source, options),
        Format::Skill => skill::import(source, options),
        Format::AgentsMd => agents_md::import(source),
    }?;
    if let Some(problem) = no_prompt(source, &template).or_else(|| marker(source, &template)) {
        return Err(vec![problem]);
    }
    template.default_prompt = without_leading_rules(&template.default_prompt).to_owned();
    match unwritable(source, &template) {
        Some(problem) => Err(vec![problem]),
        None => Ok(Imported { format, template, notes }),
    }
}

/// A text without the lines of dashes at its beginning: below a head they would look like another.
fn without_leading_rules(text: &str) -> &str {
    let mut rest = text;
    while let Some(("---", below)) =
        rest.split_once('\n').map(|(first, below)| (first.trim(), below))
    {
        rest = below.trim_start_matches(['\n', '\r']);
    }
    rest
}

/// Why the template that would be written could not be read back.
fn unwritable(source: &Source, template: &Template) -> Option<Problem> {
    let written = Source::new(&*source.file, render(template));
    let problems = crate::templates::file::parse(&template.agent_type, &written).err()?;
    let why = problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
    let message = format!("its template could not be read back: {why}");
    Some(
        Problem::error("unwritable", source.whole(), message)
            .help("change the text of the file, or write the template by hand"),
    )
}

fn no_prompt(source: &Source, template: &Template) -> Option<Problem> {
    template.default_prompt.trim().is_empty().then(|| {
        Problem::error("no-prompt", source.whole(), "the agent has no prompt")
            .help("write its prompt")
    })
}

/// A line that would begin a persona in our format.
fn marker(source: &Source, template: &Template) -> Option<Problem> {
    let mut lines = template.default_prompt.lines();
    let line = lines.find(|line| line.trim_start().starts_with("<!-- agent_name:"))?;
    let place = source.text.find(line).map(|at| source.at(at..at + line.len()));
    let message = "the text has a line that begins a persona in a Bailiwick template";
    Some(
        Problem::error("persona-marker", place.unwrap_or_else(|| source.whole()), message)
            .help("take the line out, or write the template by hand"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_is_recognised_by_the_path() {
        for (path, format) in [
            (".claude/agents/a.md", Some(Format::Claude)),
            ("x/.claude/agents/team/a.md", Some(Format::Claude)),
            (".codex/agents/a.toml", Some(Format::Codex)),
            ("/r/.gemini/agents/a.md", Some(Format::Gemini)),
            (".opencode/agent/a.md", Some(Format::Opencode)),
            (".opencode/agents/a.md", Some(Format::Opencode)),
            (".claude/skills/x/SKILL.md", Some(Format::Skill)),
            ("docs/AGENTS.md", Some(Format::AgentsMd)),
            (".claude/commands/a.md", None),
            ("agents/a.md", None),
            (".claude/agents", None),
            ("", None),
        ] {
            assert_eq!(Format::of_path(path), format, "{path}");
        }
    }
}
