//! A skill of Claude Code is text only: its shell lines, hooks and allowed tools have no effect.
//! Without our settings the same skill does all of it.

use bailiwick_runner::agents::adapter::ProgramLaunch;
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use serde_json::json;

use crate::stage::{Stage, adapter};

const SKILL: &str = r#"---
name: greet
description: Greets
allowed-tools: Bash
hooks:
  PreToolUse:
    - matcher: "*"
      hooks:
        - type: command
          command: "echo ran > hooked.txt"
---
GREETING-OF-THE-SKILL !`echo ran > shell-line.txt`
"#;

const PLACE: &str = "skills/greet/SKILL.md";

/// Whether the skill's line and hook ran, and the last request to the model.
fn used(change: impl FnOnce(&mut ProgramLaunch)) -> (bool, bool, String) {
    let stage = Stage::new();
    let (tool, input) = adapter(Cli::Claude).shell_call("echo made > made.txt");
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::raw("Skill", json!({"skill": "greet"}))]),
        Turn::Calls(vec![Call::raw(&tool, input)]),
        Turn::say("finished"),
    ]));
    let mut assignment = stage.assignment(Cli::Claude, &model.base_url());
    assignment.skills.insert(PLACE.to_owned(), SKILL.to_owned());
    let mut launch = adapter(Cli::Claude).plan(&assignment).unwrap();
    change(&mut launch);
    let outcome = stage.start(Cli::Claude, &assignment, &launch);
    assert_eq!(stage.text("made.txt").as_deref(), Some("made\n"), "{}", outcome.err);
    let request = model.requests().pop().unwrap().body.to_string();
    (stage.text("shell-line.txt").is_some(), stage.text("hooked.txt").is_some(), request)
}

#[test]
fn claude_code_skill_is_text_only() {
    let (line, hook, request) = used(|_| {});
    assert!(request.contains("GREETING-OF-THE-SKILL"), "{request}");
    assert_eq!((line, hook), (false, false), "a shell line or a hook of the skill ran");
    let as_plugin = |launch: &mut ProgramLaunch| {
        let place = format!(".claude/{PLACE}");
        assert!(!launch.files[&place].contains("hooks"), "{}", launch.files[&place]);
        launch.files.insert(place, SKILL.to_owned());
    };
    let (line, _, _) = used(as_plugin);
    assert!(!line, "its settings alone prevent shell lines");
    let (line, hook, _) = used(|launch| {
        as_plugin(launch);
        for file in [".claude/settings.json", ".bailiwick/settings.json"] {
            launch.files.insert(file.to_owned(), json!({"disableAllHooks": false}).to_string());
        }
    });
    assert_eq!((line, hook), (true, true), "the control: without our settings both run");
}
