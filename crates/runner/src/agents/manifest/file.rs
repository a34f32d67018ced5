//! The file itself: strict, with the place of what is wrong.

use std::collections::BTreeMap;

use bailiwick_model::problem::{Problem, Source};
use bailiwick_model::task::Line;
use bailiwick_model::toml_file;
use serde::Deserialize;

use crate::proxy::ModelApi;

/// The placeholders that arguments and variables may have.
const PLACEHOLDERS: [&str; 11] = [
    "prompt",
    "model",
    "effort",
    "system-prompt",
    "session",
    "model-url",
    "worktree",
    "home",
    "turns",
    "usd",
    "gate-settings",
];

/// Names that adapters of ours have.
const SHIPPED_ADAPTERS: [&str; 5] = ["claude-code", "codex", "gemini", "opencode", "script"];

/// `adapters/NAME.toml`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `[adapter]`
    pub adapter: AdapterSection,
    /// `[launch]`
    pub launch: LaunchSection,
    /// `[output]`
    #[serde(default)]
    pub output: OutputSection,
    /// `[gate]`
    pub gate: GateSection,
}

/// `[adapter]`: what it is.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AdapterSection {
    /// Its name in tasks.
    pub name: Line,
    /// The program on `PATH`.
    pub program: Line,
    /// The API that it uses for its model; left out if it cannot be redirected.
    #[serde(default)]
    pub wire: Option<ModelApi>,
    /// Models that it is known to take.
    #[serde(default)]
    pub models: Vec<String>,
    /// The supported efforts.
    #[serde(default)]
    pub efforts: Vec<String>,
    /// The arguments that print its version.
    #[serde(default = "version_arguments")]
    pub version_arguments: Vec<String>,
    /// The arguments that print its help.
    #[serde(default = "help_arguments")]
    pub help_arguments: Vec<String>,
}

/// `[launch]`: how it is started.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LaunchSection {
    /// Its arguments. A list among them is left out whole if a placeholder in it has no value.
    pub arguments: Vec<Argument>,
    /// The additional arguments to resume a conversation; left out if it cannot.
    #[serde(default)]
    pub resume: Vec<Argument>,
    /// Its environment.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Whether it reads the prompt on standard input.
    #[serde(default)]
    pub prompt_on_stdin: bool,
    /// The directories below its home with conversations.
    #[serde(default)]
    pub conversations: Vec<String>,
}

/// One argument, or some that belong together.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Argument {
    /// One.
    Word(String),
    /// Some.
    Group(Vec<String>),
}

impl Argument {
    /// All of its words.
    pub fn words(&self) -> &[String] {
        match self {
            Self::Word(word) => std::slice::from_ref(word),
            Self::Group(words) => words,
        }
    }
}

/// `[output]`: what it prints.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OutputSection {
    /// In which format.
    #[serde(default)]
    pub format: Output,
}

/// A format of standard output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// Words for people.
    #[default]
    Text,
    /// One JSON value a line, of no known kind.
    JsonLines,
    /// Claude Code's `stream-json`.
    ClaudeCode,
    /// Codex's `--json`.
    Codex,
    /// Gemini CLI's `stream-json`.
    Gemini,
    /// OpenCode's `--format json`.
    Opencode,
}

/// `[gate]`: how it is gated.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct GateSection {
    /// By what.
    pub kind: GateKind,
}

/// How a program is gated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateKind {
    /// It honours hooks as Claude Code does: from `.claude/settings.json` in its home, or from the file
    /// `{gate-settings}`.
    ClaudeHooks,
    /// It cannot be: the sandbox alone holds it.
    None,
}

fn version_arguments() -> Vec<String> {
    vec!["--version".to_owned()]
}

fn help_arguments() -> Vec<String> {
    vec!["--help".to_owned()]
}

impl Manifest {
    /// Reads a manifest.
    pub fn parse(source: &Source) -> Result<Self, Problem> {
        let manifest: Self = toml_file::parse(source)?;
        let problem = |code, message: String| Err(Problem::error(code, source.whole(), message));
        let name = manifest.adapter.name.as_str();
        if SHIPPED_ADAPTERS.contains(&name) {
            return problem(
                "name-taken",
                format!("`{name}` is a built-in adapter; choose another name"),
            );
        }
        let launch = &manifest.launch;
        let words = launch.arguments.iter().chain(&launch.resume).flat_map(Argument::words);
        for text in words.chain(launch.environment.values()) {
            if let Some(unknown) = placeholders(text).find(|name| !PLACEHOLDERS.contains(name)) {
                let known = PLACEHOLDERS.map(|name| format!("{{{name}}}")).join(", ");
                let message = format!("`{text}`: there is no placeholder {{{unknown}}}");
                return Err(Problem::error("unknown-placeholder", place(source, text), message)
                    .help(format!("known here: {known}")));
            }
        }
        for path in &launch.conversations {
            if path.starts_with('/') || path.split('/').any(|part| matches!(part, "" | "." | ".."))
            {
                return problem("bad-path", format!("`{path}` is not a path below a home"));
            }
        }
        Ok(manifest)
    }
}

/// The place of a text, if it occurs unchanged.
fn place(source: &Source, text: &str) -> bailiwick_model::problem::Place {
    match source.text.find(text) {
        Some(start) => source.at(start..start + text.len()),
        None => source.whole(),
    }
}

/// The names in braces.
pub(super) fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, name, after) = next_placeholder(rest)?;
        rest = after;
        Some(name)
    })
}

/// The text before the next `{name}`, the name, and the text after it. Braces around anything but lowercase letters
/// and dashes are text.
pub(super) fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    for (open, _) in text.match_indices('{') {
        let Some((name, after)) = text.get(open + 1..).and_then(|rest| rest.split_once('}')) else {
            continue;
        };
        if !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-') {
            return Some((text.get(..open)?, name, after));
        }
    }
    None
}
