//! The rule of skills, and files that are random.

use std::cell::Cell;

use super::*;

#[test]
fn what_a_skill_may_not_its_import_may_not() {
    let tools = ["Bash", "Bash(rm *)", "Write", "Edit", "WebFetch", "Task", "mcp__gov", "Unheard"];
    let both = Cell::new(0);
    proptest!(|(allowed in subsequence(tools.to_vec(), 0..8), denied in subsequence(tools.to_vec(), 0..8))| {
        let list = |key: &str, list: &[&str]| format!("{key}: [\"{}\"]\n", list.join("\", \"")).replace("[\"\"]", "[]");
        let text = format!(
            "---\nname: a\ndescription: b\n{}{}---\nDo.\n",
            list("allowed-tools", &allowed),
            list("disallowed-tools", &denied)
        );
        both.set(both.get() + check(&read(Format::Skill, &text), |tool, _| {
            let closed = denied.iter().any(|entry| {
                let name = entry.split('(').next().unwrap_or(entry);
                in_vocabulary(name) == tool || tool.starts_with(&format!("{name}__"))
            });
            !closed
        })?);
    });
    assert!(both.get() > 500, "only {} tools were allowed by both", both.get());
}
