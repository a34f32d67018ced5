//! Writes an assembled agent as a file of one program. A note reports each limit that the format cannot
//! express.

use std::fmt;

use bailiwick_model::Problem;
use serde::Serialize;
use toml_edit::{DocumentMut, value};

use super::body;
use super::file::Manifest;
use crate::foreign::{CLAUDE_TOOLS, GEMINI_TOOLS, OPENCODE_TOOLS, TOOLS_REMARK, quoted};
use crate::kit::Kit;
use crate::tool_table::Row;

/// Read-only tools.
const HARMLESS: [&str; 12] = [
    "Read",
    "Glob",
    "Grep",
    "LSP",
    "WebFetch",
    "WebSearch",
    "TodoWrite",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskUpdate",
    "ReportFindings",
];

/// A program for which agent files can be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// Claude Code.
    Claude,
    Codex,
    /// Gemini CLI.
    Gemini,
    Opencode,
}

impl Program {
    /// Every program.
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::Opencode];

    /// The directory where it looks for its agents.
    pub fn directory(self) -> &'static str {
        match self {
            Self::Claude => ".claude/agents",
            Self::Codex => ".codex/agents",
            Self::Gemini => ".gemini/agents",
            Self::Opencode => ".opencode/agents",
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Opencode => "OpenCode",
        })
    }
}

/// A file, not yet written.
#[derive(Debug, Clone)]
pub struct AssembledFile {
    pub file_name: String,
    pub text: String,
    /// What the format cannot express.
    pub notes: Vec<String>,
    /// Warnings.
    pub warnings: Vec<Problem>,
}

/// Creates the file of a manifest for one program.
pub fn assemble(
    kit: &Kit,
    manifest: &Manifest,
    program: Program,
) -> Result<AssembledFile, Vec<Problem>> {
    let body = body::compose(kit, manifest)?;
    let tools: Option<Vec<&str>> = manifest
        .tools
        .as_ref()
        .map(|tools| tools.iter().map(|tool| tool.get_ref().as_str()).collect());
    let mut draft = Draft { manifest, tools, body: body.text, program, notes: Vec::new() };
    let (ending, text) = match program {
        Program::Claude => ("md", draft.claude()),
        Program::Codex => ("toml", draft.codex()),
        Program::Gemini => ("md", draft.gemini()),
        Program::Opencode => ("md", draft.opencode()),
    };
    Ok(AssembledFile {
        file_name: format!("{}.{ending}", manifest.name.get_ref()),
        text,
        notes: draft.notes,
        warnings: body.warnings,
    })
}

struct Draft<'a> {
    manifest: &'a Manifest,
    tools: Option<Vec<&'a str>>,
    body: String,
    program: Program,
    notes: Vec<String>,
}

impl Draft<'_> {
    fn claude(&mut self) -> String {
        let tools = self.natives(&CLAUDE_TOOLS);
        // An empty list would be read as no limit, which means all tools.
        let tools = tools.map(|tools| match tools.as_slice() {
            [] => "tools: []\n".to_owned(),
            tools => format!("tools: {}\n", tools.join(", ")),
        });
        self.markdown(&format!("{}{}", self.named(), tools.unwrap_or_default()))
    }

    fn gemini(&mut self) -> String {
        let tools = self.natives(&GEMINI_TOOLS);
        let tools = tools.map(|tools| match tools.as_slice() {
            [] => "tools: []\n".to_owned(),
            tools => {
                tools.iter().fold("tools:\n".to_owned(), |list, tool| format!("{list}  - {tool}\n"))
            }
        });
        self.markdown(&format!("{}{}", self.named(), tools.unwrap_or_default()))
    }

    fn opencode(&mut self) -> String {
        let tools = self.natives(&OPENCODE_TOOLS);
        let rules = tools.map(|tools| {
            let closed = "permission:\n  \"*\": deny\n".to_owned();
            tools.iter().fold(closed, |rules, tool| format!("{rules}  {tool}: allow\n"))
        });
        let description = quoted(&self.manifest.description);
        let head = format!("description: {description}\nmode: subagent\n");
        self.markdown(&format!("{head}{}", rules.unwrap_or_default()))
    }

    /// Codex has no list of tools: a comment keeps it for us, and the sandbox is closed if possible.
    fn codex(&mut self) -> String {
        let mut head = format!("# {}\n", self.origin());
        let mut document = DocumentMut::new();
        document.insert("name", value(self.manifest.name.get_ref().as_str()));
        document.insert("description", value(&self.manifest.description));
        if let Some(tools) = &self.tools {
            head += &format!("{TOOLS_REMARK} {}\n", tools.join(", "));
            let shut = tools.iter().all(|tool| HARMLESS.contains(tool));
            if shut {
                document.insert("sandbox_mode", value("read-only"));
            }
            // It was seen to start such a role with the rights of its session all the same.
            self.notes.push(
                "Codex has no list of tools, and by itself it gives an agent what its session has: \
                 the limits hold in a run of ours"
                    .to_owned(),
            );
        }
        document.insert("developer_instructions", value(&self.body));
        format!("{head}{document}")
    }

    fn named(&self) -> String {
        let description = quoted(&self.manifest.description);
        format!(
            "name: {}\ndescription: {description}\n",
            quoted(self.manifest.name.get_ref().as_str())
        )
    }

    fn markdown(&self, head: &str) -> String {
        format!("---\n# {}\n{head}---\n\n{}", self.origin(), self.body)
    }

    fn origin(&self) -> String {
        format!("Assembled from the manifest {}: change that.", self.manifest.name.get_ref())
    }

    /// The tools by the program's own names, without tools that the program lacks or whose name there permits more.
    fn natives(&mut self, table: &'static [Row]) -> Option<Vec<&'static str>> {
        let tools = self.tools.clone()?;
        let mut natives: Vec<&'static str> = Vec::new();
        for tool in &tools {
            let Some(row) = table.iter().find(|row| row.here == *tool) else {
                self.notes.push(format!("{} has no tool for `{tool}`", self.program));
                continue;
            };
            let also = |name: &'static str| {
                let rows = table.iter().filter(move |row| row.natives().any(|other| other == name));
                rows.map(|row| row.here).find(|here| !tools.contains(here))
            };
            match row.natives().find_map(also) {
                Some(more) => self.notes.push(format!(
                    "`{tool}` is left out: in {} it opens `{more}` as well",
                    self.program
                )),
                None => natives.extend(row.natives()),
            }
        }
        let mut seen = Vec::new();
        natives.retain(|native| {
            !seen.contains(native) && {
                seen.push(*native);
                true
            }
        });
        Some(natives)
    }
}
