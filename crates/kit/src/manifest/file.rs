//! One manifest: the identity of an agent, its behaviour, and its hand-offs.

use bailiwick_model::nearest::nearest;
use bailiwick_model::template::AgentType;
use bailiwick_model::{Problem, RoleName, Source, toml_file};
use serde::Deserialize;
use serde_spanned::Spanned;

use crate::foreign::CLAUDE_TOOLS;

/// A manifest as its file declares it.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// The file.
    pub source: Source,
    /// The name of the agent.
    pub name: Spanned<AgentType>,
    /// When to use it.
    pub description: String,
    /// The role of the kit whose texts it gets.
    pub substrate_role: Option<Spanned<RoleName>>,
    /// The tools it may use; all if left out.
    pub tools: Option<Vec<Spanned<String>>>,
    pub role: String,
    /// How it behaves, in order.
    pub blocks: Vec<Block>,
    /// Files of blocks that precede those, by name.
    pub block_files: Vec<Spanned<String>>,
    /// To whom it hands over.
    pub handoffs: Vec<Handoff>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Its heading.
    pub title: Spanned<String>,
    pub text: Spanned<String>,
}

impl Block {
    pub(super) fn new(title: &str, text: &str) -> Self {
        let value = |text: &str| Spanned::new(0..0, text.to_owned());
        Self { title: value(title), text: value(text) }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handoff {
    /// The agent that takes over. Other kits write `target`.
    #[serde(alias = "target")]
    pub to: Spanned<AgentType>,
    /// When it does. Other kits write `trigger`.
    #[serde(alias = "trigger")]
    pub when: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<AgentType>,
    description: Spanned<String>,
    #[serde(default)]
    substrate_role: Option<Spanned<RoleName>>,
    #[serde(default)]
    tools: Option<Vec<Spanned<String>>>,
    role: Spanned<String>,
    #[serde(default)]
    block: Vec<Block>,
    #[serde(default)]
    handoff: Vec<Handoff>,
    // Other sections in manifests of other kits.
    #[serde(default)]
    blocks: Vec<Spanned<String>>,
    #[serde(default)]
    domain_in: Vec<String>,
    #[serde(default)]
    forbidden_domain: Vec<String>,
    #[serde(default)]
    output_extra_fields: Vec<String>,
    #[serde(default)]
    references: References,
    /// The caller that starts the agent chooses the model.
    #[serde(default, rename = "model")]
    _model: Option<String>,
    #[serde(default, rename = "produces_artifact")]
    _produces_artifact: Option<String>,
    #[serde(default, rename = "taxonomy")]
    _taxonomy: Option<toml::Table>,
    #[serde(default, rename = "lineage")]
    _lineage: Option<toml::Table>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct References {
    extra: Vec<String>,
}

impl File {
    /// The lists of other kits as blocks of the prompt.
    fn lists_as_blocks(&self) -> impl Iterator<Item = Block> {
        let lists = [
            ("IN SCOPE", &self.domain_in),
            ("OUT OF SCOPE", &self.forbidden_domain),
            ("ALSO REPORT", &self.output_extra_fields),
            ("REFERENCES", &self.references.extra),
        ];
        lists.into_iter().filter(|(_, list)| !list.is_empty()).map(|(title, list)| {
            let lines: Vec<String> =
                list.iter().map(|entry| format!("- {}", entry.trim())).collect();
            Block::new(title, &lines.join("\n"))
        })
    }
}

/// Reads and checks a manifest.
pub fn read(source: &Source) -> Result<Manifest, Vec<Problem>> {
    let file: File = toml_file::parse_flat(source).map_err(|problem| vec![problem])?;
    let mut check = Check { source, problems: Vec::new() };
    check.one_line("description", &file.description);
    check.filled("role", &file.role);
    check.no_heading_of_ours("role", &file.role);
    for (number, block) in file.block.iter().enumerate() {
        check.one_line("title", &block.title);
        check.filled("text", &block.text);
        check.no_heading_of_ours("text", &block.text);
        let title = block.title.get_ref().trim();
        let earlier = file.block.iter().take(number);
        if earlier.into_iter().any(|other| other.title.get_ref().trim() == title) {
            check.problem(&block.title, "there is a block of this title already");
        }
        if is_heading_of_ours(&format!("# {title}")) {
            check.problem(&block.title, "the assembler writes a section of this title itself");
        }
    }
    for handoff in &file.handoff {
        check.one_line("when", &handoff.when);
        if handoff.to.get_ref() == file.name.get_ref() {
            check.problem(&handoff.to, "an agent does not hand over to itself");
        }
    }
    for tool in file.tools.iter().flatten() {
        check.tool(tool);
    }
    if !check.problems.is_empty() {
        return Err(check.problems);
    }
    let blocks = file.block.iter().cloned().chain(file.lists_as_blocks()).collect();
    Ok(Manifest {
        source: source.clone(),
        name: file.name,
        description: file.description.into_inner().trim().to_owned(),
        substrate_role: file.substrate_role,
        tools: file.tools,
        role: file.role.into_inner(),
        blocks,
        block_files: file.blocks,
        handoffs: file.handoff,
    })
}

/// Whether a line is one of the headings that separate the sections.
fn is_heading_of_ours(line: &str) -> bool {
    let line = line.trim();
    line == "# ROLE" || line == "# HANDOFFS" || line.starts_with("# AGENT SUBSTRATE")
}

struct Check<'a> {
    source: &'a Source,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn problem<T>(&mut self, at: &Spanned<T>, message: impl Into<String>) {
        let place = self.source.at(at.span());
        self.problems.push(Problem::error("bad-value", place, message));
    }

    fn filled(&mut self, key: &str, text: &Spanned<String>) {
        if text.get_ref().trim().is_empty() {
            self.problem(text, format!("`{key}` says nothing"));
        }
    }

    fn one_line(&mut self, key: &str, text: &Spanned<String>) {
        self.filled(key, text);
        if text.get_ref().trim().contains(['\n', '\r']) {
            self.problem(text, format!("`{key}` must be one line"));
        }
    }

    fn no_heading_of_ours(&mut self, key: &str, text: &Spanned<String>) {
        if let Some(line) = text.get_ref().lines().find(|line| is_heading_of_ours(line)) {
            let line = line.trim();
            self.problem(text, format!("`{key}` holds the line `{line}`, which begins a section"));
        }
    }

    fn tool(&mut self, tool: &Spanned<String>) {
        let name = tool.get_ref().as_str();
        let known = || CLAUDE_TOOLS.iter().map(|row| row.here);
        if known().any(|known| known == name) {
            return;
        }
        let near = nearest(name, known()).map(|near| format!("did you mean `{near}`?"));
        let place = self.source.at(tool.span());
        let message = format!("there is no tool `{name}`");
        let help = near.unwrap_or_else(|| "for example Read, Grep, Glob, Edit, Write, Bash".into());
        self.problems.push(Problem::error("unknown-tool", place, message).help(help));
    }
}
