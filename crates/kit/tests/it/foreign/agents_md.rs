//! Examples of AGENTS.md.

use bailiwick_kit::foreign::{Format, nearest_agents_md};

use super::imported;
use crate::memory::MemoryTree;

#[test]
fn nearest_file_is_found_and_an_override_comes_first() {
    let tree = MemoryTree::default()
        .with("AGENTS.md", "root")
        .with("crates/parser/AGENTS.md", "parser")
        .with("crates/cli/AGENTS.md", "cli")
        .with("crates/cli/AGENTS.override.md", "mine");
    for (directory, text) in [
        ("", Some("root")),
        ("crates", Some("root")),
        ("crates/parser/src/deep", Some("parser")),
        ("./crates/cli/", Some("mine")),
    ] {
        let found = nearest_agents_md(&tree, directory).unwrap();
        assert_eq!(found.as_ref().map(|source| &*source.text), text, "{directory}");
    }
    assert_eq!(nearest_agents_md(&MemoryTree::default(), "a/b").unwrap(), None);
    let broken = MemoryTree::default().with("AGENTS.md", "x").with_unreadable("a/AGENTS.md");
    assert!(nearest_agents_md(&broken, "a").is_err());
}

#[test]
fn text_is_the_prompt_of_an_agent_of_that_directory() {
    let imported = imported(Format::AgentsMd, "# House rules\n\nBe brief.\n");
    assert_eq!(imported.template.agent_type.as_str(), "parser");
    assert_eq!(imported.template.default_prompt, "# House rules\n\nBe brief.");
    assert_eq!(imported.notes, []);
}
