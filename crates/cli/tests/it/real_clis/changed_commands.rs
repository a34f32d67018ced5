//! Personal settings in CLIs whose commands our hook changes: the person's rules still apply, and a hook of
//! theirs that also changes commands is detected.

use bailiwick_testkit::clis::{Cli, CliRun};
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use super::{Scope, Stage, with_default_settings};

/// A stage for these commands, one after the other.
fn stage(cli: Cli, commands: &[&str], more: &[&str]) -> Stage {
    let mut stage = Stage::new(cli, Scope::User);
    let turns = commands.iter().map(|command| Turn::Calls(vec![Call::shell(*command)]));
    stage.model = ScriptedModel::start(Script::new(turns.chain([Turn::say("finished")]).collect()));
    let root = stage.scratch.root().canonicalize().unwrap();
    let run = with_default_settings(CliRun::new(cli, &stage.model, &root), cli);
    let run = more.iter().fold(run, |run, argument| run.argument(argument));
    stage.run = run.prepare();
    stage
}

fn check_rules_still_apply(cli: Cli, file: &str, rule: &str) {
    let stage = stage(cli, &["touch src/secret.txt", "touch src/plain.txt"], &[]);
    let file = stage.run.home().join(file);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, rule).unwrap();
    stage.hooks("install", &["--role", "developer", "--files", "src/**"]).expect_code(0);
    stage.run.run("Do the work.").expect_code(0);
    let results = stage.model.results();
    assert!(stage.text("src/secret.txt").is_none(), "{results:#?}");
    assert!(stage.text("src/plain.txt").is_some(), "the control: {results:#?}");
    let denied = stage.model.result("call_0_0_0");
    assert!(denied.contains("a rule of the person forbids it"), "{denied}");
    std::fs::remove_file(&file).unwrap();
    stage.run.run("Do the work.").expect_code(0);
    assert!(
        stage.text("src/secret.txt").is_some(),
        "the control: without the rule the command runs"
    );
}

#[test]
fn personal_rules_still_apply_in_codex() {
    let rule = "prefix_rule(pattern=[\"touch\", \"src/secret.txt\"], decision=\"forbidden\")\n";
    check_rules_still_apply(Cli::Codex, ".codex/rules/mine.rules", rule);
}

#[test]
fn personal_rules_still_apply_in_gemini() {
    let rule = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"touch src/secret.txt\"\n\
                decision = \"deny\"\npriority = 500\n";
    check_rules_still_apply(Cli::Gemini, ".gemini/policies/mine.toml", rule);
}

#[test]
fn other_hook_that_changes_commands_is_detected_in_codex() {
    let commands = ["true", "touch src/second.txt"];
    let stage = stage(Cli::Codex, &commands, &["--dangerously-bypass-hook-trust"]);
    // The hook that ends last wins.
    let answer = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"touch src/other.txt"}}}"#;
    let script = format!("cat > /dev/null; sleep 2; echo '{answer}'");
    let hook = serde_json::json!({"type": "command", "command": script, "timeout": 60});
    let hooks =
        serde_json::json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}});
    std::fs::write(stage.run.home().join(".codex/hooks.json"), hooks.to_string()).unwrap();
    let installed =
        stage.hooks("install", &["--role", "developer", "--files", "src/**"]).expect_code(0);
    assert!(installed.err.contains("is asked about shell commands too"), "{}", installed.err);
    stage.run.run("Do the work.").expect_code(0);
    let results = stage.model.results();
    assert!(stage.text("src/other.txt").is_some(), "the control: the other hook won: {results:#?}");
    assert!(stage.text("src/second.txt").is_none(), "{results:#?}");
    let second = stage.model.result("call_0_1_0");
    assert!(second.contains("ran without the sandbox"), "{second}");
    let (state, findings) = stage.gate_state();
    assert_eq!(state, "drifted");
    assert!(findings.to_string().contains("bypassed"), "{findings}");
}
