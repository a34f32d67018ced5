//! Templates as files: the text has the intended meaning.

use bailiwick_kit::foreign::{Format, render};
use bailiwick_model::template::{ContextLimits, Persona};

use super::imported;

#[test]
fn each_key_has_its_line() {
    let mut template = imported(Format::Claude, "tools: Read, mcp__gov\n").template;
    template.description = "Use it: \"now\".\nOr later.".to_owned();
    template.model = Some("gpt-5-codex".to_owned());
    template.reasoning_effort = Some("high".to_owned());
    template.read_only = true;
    template.role = Some("read-only".parse().unwrap());
    template.cli = Some("codex".to_owned());
    template.tools.deny_list = Some(vec!["Bash".to_owned()]);
    template.allowed_subagents = Some(Vec::new());
    template.max_depth = Some(1);
    template.estimated_tokens = Some(9000);
    template.estimated_turns = Some(20);
    template.estimated_usd = Some(0.5);
    template.max_turns = Some(40);
    template.max_minutes = Some(15);
    template.context = Some(ContextLimits::default());
    template.personas = vec![Persona {
        name: "strict".to_owned(),
        description: "Conservative.".to_owned(),
        model: None,
        reasoning_effort: Some("high".to_owned()),
        prompt: "Be strict.\n".to_owned(),
    }];
    assert_eq!(
        render(&template),
        "---\ndescription: \"Use it: \\\"now\\\".\\nOr later.\"\nmodel: gpt-5-codex\n\
         reasoning_effort: high\nread_only: true\nrole: read-only\ncli: codex\nagent_names:\n  - \
         name: strict\n    description: \"Conservative.\"\n    reasoning_effort: high\nallow_list:\n  \
         - Read\n  - mcp__gov__*\ndeny_list:\n  - Bash\nallowed_subagents: []\nmax_depth: 1\n\
         estimated_tokens: 9000\nestimated_turns: 20\nestimated_usd: 0.5\nmax_turns: 40\nmax_minutes: 15\ncontext:\n  window_share: 0.3\n  files: 3\n  skills: 1\n  rules: 1\n\
         ---\nRead and judge.\n\n<!-- agent_name: strict -->\nBe strict.\n"
            .replace("mcp__gov__*", "\"mcp__gov__*\"")
    );
}

#[test]
fn template_without_limits_has_no_lines_for_them() {
    let mut template = imported(Format::AgentsMd, "Be brief.\n").template;
    template.description = "x".to_owned();
    assert_eq!(render(&template), "---\ndescription: x\n---\nBe brief.\n");
    template.tools.allow_list = Some(Vec::new());
    assert!(
        render(&template).contains("\nallow_list: []\n"),
        "an empty list must not mean every tool"
    );
}
