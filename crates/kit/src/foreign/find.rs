//! Where the agent files of other programs lie in a repository.

use bailiwick_model::{Problem, Source};

use super::Format;
use crate::tree::Tree;

/// How deep directories may lie; a link may lead back to one above.
const MAX_DEPTH: usize = 8;

/// A file that may be an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundAgentFile {
    /// Its format.
    pub format: Format,
    /// The file.
    pub source: Source,
}

/// All files of these formats, and the problems of unreadable ones.
pub fn find(tree: &dyn Tree, formats: &[Format]) -> (Vec<FoundAgentFile>, Vec<Problem>) {
    let mut search = Search { tree, found: Vec::new(), problems: Vec::new() };
    for format in formats {
        let (roots, ending, deep): (&[&str], &str, bool) = match format {
            Format::Claude => (&[".claude/agents"], ".md", true),
            Format::Codex => (&[".codex/agents"], ".toml", true),
            Format::Gemini => (&[".gemini/agents"], ".md", false),
            Format::Opencode => (&[".opencode/agents", ".opencode/agent"], ".md", true),
            Format::Skill | Format::AgentsMd => (&[], "", false),
        };
        let depth = if deep { MAX_DEPTH } else { 1 };
        for root in roots {
            search.directory(*format, root, ending, depth);
        }
    }
    (search.found, search.problems)
}

struct Search<'a> {
    tree: &'a dyn Tree,
    found: Vec<FoundAgentFile>,
    problems: Vec<Problem>,
}

impl Search<'_> {
    fn directory(&mut self, format: Format, path: &str, ending: &str, depth: usize) {
        if depth == 0 {
            return;
        }
        let names = match self.tree.list(path) {
            Ok(names) => names,
            Err(error) => return self.unreadable(&error.path, &error.why),
        };
        for name in names {
            let below = format!("{path}/{name}");
            if name.ends_with(ending) {
                match self.tree.read(&below) {
                    Ok(Some(text)) => {
                        self.found
                            .push(FoundAgentFile { format, source: Source::new(below, text) });
                    }
                    Ok(None) => {}
                    Err(error) => self.unreadable(&error.path, &error.why),
                }
            } else if !name.contains('.') {
                self.directory(format, &below, ending, depth - 1);
            }
        }
    }

    fn unreadable(&mut self, path: &str, why: &str) {
        let place = Source::new(path, "").whole();
        let message = format!("the file cannot be read: {why}");
        self.problems.push(Problem::error("unreadable", place, message));
    }
}
