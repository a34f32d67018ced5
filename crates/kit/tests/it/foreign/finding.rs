//! Where foreign agent files are searched for.

use bailiwick_kit::foreign::{Format, find};

use crate::memory::MemoryTree;

#[test]
fn every_known_directory_is_searched_and_no_other() {
    let tree = MemoryTree::new(
        [
            ".claude/agents/a.md",
            ".claude/agents/team/deep/b.md",
            ".claude/agents/notes.txt",
            ".claude/commands/c.md",
            ".codex/agents/d.toml",
            ".codex/agents/d.md",
            ".codex/.agents/e.md",
            ".gemini/agents/f.md",
            ".gemini/agents/deep/g.md",
            ".opencode/agents/h.md",
            ".opencode/agent/i.md",
            "AGENTS.md",
        ]
        .map(|path| (path, "text")),
    );
    let paths = |formats: &[Format]| {
        let (found, problems) = find(&tree, formats);
        assert_eq!(problems, []);
        found.iter().map(|found| found.source.file.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        paths(&Format::AGENTS),
        [
            ".claude/agents/a.md",
            ".claude/agents/team/deep/b.md",
            ".codex/agents/d.toml",
            ".gemini/agents/f.md",
            ".opencode/agents/h.md",
            ".opencode/agent/i.md",
        ]
    );
    assert_eq!(paths(&[Format::Codex]), [".codex/agents/d.toml"]);
}

#[test]
fn unreadable_file_is_a_problem() {
    let tree = MemoryTree::default()
        .with(".claude/agents/a.md", "x")
        .with_unreadable(".claude/agents/b.md");
    let (found, problems) = find(&tree, &Format::AGENTS);
    assert_eq!(found.len(), 1);
    assert_eq!(problems.len(), 1);
    assert_eq!(&*problems[0].place.source.file, ".claude/agents/b.md");
}
