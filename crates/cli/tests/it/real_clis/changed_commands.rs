//! What people have set themselves in CLIs whose commands the hook changes: their rules still hold, and a hook of
//! theirs that changes commands too is found.

use bailiwick_testkit::clis::{Cli, CliRun};
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use super::{Scope, Stage, as_people_start};

/// A stage for these commands, one after the other.
fn stage(cli: Cli, commands: &[&str], more: &[&str]) -> Stage {
    let mut stage = Stage::new(cli, Scope::User);
    let turns = commands.iter().map(|command| Turn::Calls(vec![Call::shell(*command)]));
    stage.model = ScriptedModel::start(Script::new(turns.chain([Turn::say("finished")]).collect()));
    let root = stage.scratch.root().canonicalize().unwrap();
    let run = as_people_start(CliRun::new(cli, &stage.model, &root), cli);
    let run = more.iter().fold(run, |run, argument| run.argument(argument));
    stage.run = run.prepare();
    stage
}

fn rules_still_hold(cli: Cli, file: &str, rule: &str) {
    let stage = stage(cli, &["touch src/secret.txt", "touch src/plain.txt"], &[]);
    let file = stage.run.home().join(file);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, rule).unwrap();
    stage.hooks("install", &["--role", "developer", "--files", "src/**"]).expect_code(0);
    stage.run.run("Do the work.").expect_code(0);
    let told = stage.model.results();
    assert!(stage.text("src/secret.txt").is_none(), "{told:#?}");
    assert!(stage.text("src/plain.txt").is_some(), "the control: {told:#?}");
    let denied = stage.model.result("call_0_0_0");
    assert!(denied.contains("a rule of the person forbids it"), "{denied}");
    std::fs::remove_file(&file).unwrap();
    stage.run.run("Do the work.").expect_code(0);
    assert!(stage.text("src/secret.txt").is_some(), "the control: it was the rule");
}

#[test]
fn rules_of_the_person_still_hold_in_codex() {
    let rule = "prefix_rule(pattern=[\"touch\", \"src/secret.txt\"], decision=\"forbidden\")\n";
    rules_still_hold(Cli::Codex, ".codex/rules/mine.rules", rule);
}

#[test]
fn rules_of_the_person_still_hold_in_gemini() {
    let rule = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"touch src/secret.txt\"\n\
                decision = \"deny\"\npriority = 500\n";
    rules_still_hold(Cli::Gemini, ".gemini/policies/mine.toml", rule);
}

#[test]
fn another_hook_that_changes_commands_is_found_in_codex() {
    let commands = ["true", "touch src/second.txt"];
    let stage = stage(Cli::Codex, &commands, &["--dangerously-bypass-hook-trust"]);
    // The one that ends last wins.
    let answer = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"touch src/other.txt"}}}"#;
    let script = format!("cat > /dev/null; sleep 2; echo '{answer}'");
    let hook = serde_json::json!({"type": "command", "command": script, "timeout": 60});
    let hooks =
        serde_json::json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}});
    std::fs::write(stage.run.home().join(".codex/hooks.json"), hooks.to_string()).unwrap();
    let said = stage.hooks("install", &["--role", "developer", "--files", "src/**"]).expect_code(0);
    assert!(said.err.contains("is asked about shell commands too"), "{}", said.err);
    stage.run.run("Do the work.").expect_code(0);
    let told = stage.model.results();
    assert!(stage.text("src/other.txt").is_some(), "the control: the other one won: {told:#?}");
    assert!(stage.text("src/second.txt").is_none(), "{told:#?}");
    let second = stage.model.result("call_0_1_0");
    assert!(second.contains("ran without the sandbox"), "{second}");
    let (standing, findings) = stage.standing();
    assert_eq!(standing, "drifted");
    assert!(findings.to_string().contains("bypassed"), "{findings}");
}
