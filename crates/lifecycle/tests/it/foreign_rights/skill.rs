//! The rules of skills, with random files.

use std::cell::Cell;

use super::*;

#[test]
fn import_of_a_skill_does_not_allow_its_denied_tools() {
    let tools = ["Bash", "Bash(rm *)", "Write", "Edit", "WebFetch", "Task", "mcp__gov", "Unheard"];
    let both_allow = Cell::new(0);
    proptest!(|(allowed in subsequence(tools.to_vec(), 0..8), denied in subsequence(tools.to_vec(), 0..8))| {
        let list = |key: &str, list: &[&str]| format!("{key}: [\"{}\"]\n", list.join("\", \"")).replace("[\"\"]", "[]");
        let text = format!(
            "---\nname: a\ndescription: b\n{}{}---\nDo.\n",
            list("allowed-tools", &allowed),
            list("disallowed-tools", &denied)
        );
        both_allow.set(both_allow.get() + check(&read(Format::Skill, &text), |tool, _| {
            let closed = denied.iter().any(|entry| {
                let name = entry.split('(').next().unwrap_or(entry);
                in_vocabulary(name) == tool || tool.starts_with(&format!("{name}__"))
            });
            !closed
        })?);
    });
    assert!(both_allow.get() > 500, "only {} tools were allowed by both", both_allow.get());
}
