//! Examples of skills.

use bailiwick_kit::foreign::{Effect, Format};

use super::{allow, deny, imported, markdown, noted, refused};

#[test]
fn allowed_tools_grant_nothing_and_disallowed_ones_are_denied() {
    let lines = "allowed-tools: Bash(git *) Read\ndisallowed-tools: Write\nwhen_to_use: Often.\n\
                 license: MIT\n";
    let imported = imported(Format::Skill, lines);
    assert_eq!(allow(&imported), None);
    assert_eq!(deny(&imported).unwrap(), ["Write"]);
    assert_eq!(imported.template.description, "Reviews. Often.");
    assert_eq!(noted(&imported, Effect::LeftOut), ["allowed-tools"]);
}

#[test]
fn skill_with_an_agent_has_the_rights_of_that_agent() {
    assert!(imported(Format::Skill, "context: fork\nagent: Explore\n").template.read_only);
    assert!(!imported(Format::Skill, "context: fork\n").template.read_only);
    assert_eq!(refused(Format::Skill, &markdown("context: fork\nagent: mine\n")).0, "bad-value");
}

#[test]
fn skill_that_only_a_person_may_start_is_refused() {
    let (code, message) = refused(Format::Skill, &markdown("disable-model-invocation: true\n"));
    assert_eq!(code, "bad-value");
    assert!(message.contains("--drop"), "{message}");
    imported(Format::Skill, "disable-model-invocation: false\n");
}

#[test]
fn tools_of_a_skill_only_narrow_rights() {
    let listed = imported(Format::Skill, "tools: Read, Bash(git *), Nonsense\n");
    assert_eq!(allow(&listed).unwrap(), ["Read"]);
    assert!(noted(&listed, Effect::Narrowed).contains(&"tools"));
}

#[test]
fn unknown_context_is_left_out() {
    let skill = imported(Format::Skill, "context: \"!ls\"\n");
    assert_eq!(noted(&skill, Effect::LeftOut), ["context"]);
    assert!(!skill.template.read_only);
}
