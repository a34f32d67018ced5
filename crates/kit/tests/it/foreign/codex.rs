//! Examples of Codex's roles.

use bailiwick_kit::foreign::{Effect, Format};

use super::{allow, deny, has_note, imported, noted, refused};

const CODEX: Format = Format::Codex;

#[test]
fn complete_file_becomes_a_template() {
    let imported = imported(
        CODEX,
        "model = \"gpt-5.5\"\nmodel_reasoning_effort = \"high\"\nnickname_candidates = [\"Ada\"]\n\
         sandbox_mode = \"read-only\"\n[mcp_servers.gov]\ncommand = \"gov\"\n",
    );
    let template = &imported.template;
    assert_eq!(template.agent_type.as_str(), "reviewer");
    assert_eq!(template.default_prompt, "Read and judge.");
    assert_eq!(template.model.as_deref(), Some("gpt-5.5"));
    assert_eq!(template.cli.as_deref(), Some("codex"));
    assert_eq!(template.reasoning_effort.as_deref(), Some("high"));
    assert!(template.read_only);
    assert_eq!((allow(&imported), deny(&imported)), (None, None));
    assert_eq!(noted(&imported, Effect::LeftOut), ["nickname_candidates", "mcp_servers"]);
}

#[test]
fn no_file_removes_the_limits_of_a_run() {
    let imported =
        imported(CODEX, "sandbox_mode = \"danger-full-access\"\napproval_policy = \"never\"\n");
    assert!(!imported.template.read_only);
    assert!(has_note(&imported, Effect::Narrowed, "no file lifts the limits"));
    assert_eq!(noted(&imported, Effect::LeftOut), ["approval_policy"]);
}

#[test]
fn disabled_features_are_denied() {
    let off = imported(
        CODEX,
        "web_search = \"disabled\"\n[features]\nshell_tool = false\nmulti_agent = false\n\
         apps = true\n[[skills.config]]\npath = \"x\"\nenabled = false\n",
    );
    let denied = deny(&off).unwrap();
    for tool in ["Bash", "Typing", "CodeMode", "Agent", "AgentMessage", "WebSearch", "Skill"] {
        assert!(denied.contains(&tool), "{tool}: {denied:?}");
    }
    assert!(imported(CODEX, "approval_policy = \"untrusted\"\n").template.read_only);
}

#[test]
fn tools_comment_is_read_from_the_head_of_the_file() {
    let file = "# Assembled.\n# bailiwick tools: Read, Grep\nname = \"a\"\ndescription = \"b\"\n\
                developer_instructions = \"c\"\n";
    let imported = super::read(CODEX, file).unwrap();
    assert_eq!(allow(&imported).unwrap(), ["Read", "Grep"]);
    let none = super::read(CODEX, &file.replace(" Read, Grep", "")).unwrap();
    assert_eq!(allow(&none).unwrap(), [""; 0]);
    // After the first key it is an ordinary comment.
    let later = super::read(
        CODEX,
        &format!("{}# bailiwick tools: Read\n", file.split_once("tools: Read, Grep\n").unwrap().1),
    )
    .unwrap();
    assert_eq!(allow(&later), None);
}

#[test]
fn file_that_cannot_be_understood_is_refused() {
    let with = |lines: &str| {
        format!("name = \"a\"\ndescription = \"b\"\ndeveloper_instructions = \"c\"\n{lines}")
    };
    for (text, code) in [
        ("name = \"a\"\ndescription = \"b\"\n".to_owned(), "missing-key"),
        ("name = ".to_owned(), "bad-toml"),
        (with("sandbox_mode = \"tight\"\n"), "bad-value"),
        (with("approval_policy = { granular = 1 }\n"), "bad-value"),
        (with("default_permissions = \"mine\"\n"), "unknown-key"),
        (with("[features]\nunheard_of = false\n"), "bad-value"),
    ] {
        assert_eq!(refused(CODEX, &text).0, code, "{text}");
    }
}
