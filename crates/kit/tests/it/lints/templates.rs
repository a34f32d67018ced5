//! The lints of agent templates.

use bailiwick_kit::lint::lint;
use bailiwick_kit::{Kit, Origin};
use bailiwick_model::Problem;

use super::{assert_reported_once, error};
use crate::memory::MemoryTree;
use crate::templates::{layered, place};

fn problems(name: &str, text: &str) -> Vec<Problem> {
    let kit = Kit::over_embedded(Vec::new());
    let tree = MemoryTree::new([(format!("agents/{name}"), text)]);
    lint(&kit, &[]).and_templates(&kit, &layered(tree, MemoryTree::default())).problems
}

fn with_keys(keys: &str) -> String {
    format!("---\ndescription: Mine.\n{keys}\n---\nDo it.\n")
}

#[test]
fn valid_templates_have_no_problem() {
    let kit = Kit::over_embedded(Vec::new());
    let templates = bailiwick_kit::templates::Templates::over_embedded(vec![place(
        Origin::User,
        "",
        MemoryTree::new([(
            "agents/mine.md",
            with_keys("role: read-only\nallowed_subagents: [worker, mine]"),
        )]),
    )]);
    let report = lint(&kit, &[]).and_templates(&kit, &templates);
    assert_eq!((report.templates, report.problems), (6, Vec::new()));
}

#[test]
fn each_problem_of_a_template_is_reported_once() {
    for (name, text, expected) in [
        (
            "mine.md",
            with_keys("read_onIy: true"),
            error("unknown-key", "repo/agents/mine.md:3:1", "read_onIy", "did you mean `read_only`?"),
        ),
        (
            "mine.md",
            with_keys("role: red-only"),
            error("unknown-role", "repo/agents/mine.md:3:7", "red-only", "did you mean `read-only`?"),
        ),
        (
            "mine.md",
            with_keys("role: git-ops"),
            error("not-spawnable", "repo/agents/mine.md:3:7", "git-ops", "no agent can have the role"),
        ),
        (
            "mine.md",
            with_keys("allowed_subagents: [worker, workr]"),
            error("unknown-template", "repo/agents/mine.md:3:29", "workr", "did you mean `worker`?"),
        ),
        (
            "worker.md",
            "---\ndescription: Mine.\nagent_names:\n  - name: a\n    description: A.\n---\n<!-- agent_name: a -->\nBe a.\n".to_owned(),
            error("no-default-prompt", "repo/agents/worker.md", None, "behind the frontmatter"),
        ),
        (
            "my role.md",
            with_keys(""),
            error("bad-name", "repo/agents/my role.md", None, "rename the file"),
        ),
    ] {
        assert_reported_once(expected.code, &problems(name, &text), &expected);
    }
}
