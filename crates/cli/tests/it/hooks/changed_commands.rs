//! Shell commands of Codex and Gemini CLI, whose hook replaces each command by a sandboxed one. The tests call the hook
//! and run the commands as those programs do.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use bailiwick_testkit::scratch::Ran;
use serde_json::{Value, json};

use super::{Fixture, SETTINGS, last_command};

const AGENTS: [&str; 2] = ["codex", "gemini"];

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.scratch.write("src/a.txt", "a\n");
    fixture.scratch.write("docs/guide.md", "guide\n");
    fixture.scratch.commit("files");
    fixture.trust_folder();
    fixture
}

fn install(fixture: &Fixture, agent: &str, extra: &[&str]) -> Ran {
    let arguments = ["install", agent, "--role", "developer", "--files", "src/**"];
    fixture.run(&[&arguments[..], extra].concat()).expect_code(0)
}

fn settings(agent: &str) -> &'static str {
    SETTINGS.iter().find(|(name, _)| *name == agent).unwrap().1
}

/// Runs the hook with a payload, as the program does.
fn run_hook(fixture: &Fixture, agent: &str, payload: &Value) -> Ran {
    let command = last_command(&fixture.scratch.read(settings(agent)));
    let mut shell = fixture.scratch.command("sh");
    shell.args(["-c", &command]);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
    Ran::from(child.wait_with_output().unwrap())
}

/// A shell call, before or after it has run.
fn call(fixture: &Fixture, agent: &str, after: bool, command: &str) -> Value {
    let (event, tool) = match (agent, after) {
        ("codex", false) => ("PreToolUse", "Bash"),
        ("codex", true) => ("PostToolUse", "Bash"),
        (_, false) => ("BeforeTool", "run_shell_command"),
        (_, true) => ("AfterTool", "run_shell_command"),
    };
    json!({
        "session_id": "s-1", "cwd": fixture.scratch.root(), "hook_event_name": event, "tool_name": tool,
        "tool_input": {"command": command, "other": "kept"},
    })
}

/// The command with which the hook replaces this one.
fn changed_command(fixture: &Fixture, agent: &str, command: &str) -> String {
    let ran = run_hook(fixture, agent, &call(fixture, agent, false, command)).expect_code(0);
    let answer: Value = serde_json::from_str(&ran.out).unwrap();
    let input = match agent {
        "codex" => {
            let allowed = "/hookSpecificOutput/permissionDecision";
            assert_eq!(
                answer.pointer(allowed),
                Some(&json!("allow")),
                "without it Codex ignores the change"
            );
            "/hookSpecificOutput/updatedInput"
        }
        _ => "/hookSpecificOutput/tool_input",
    };
    let input = answer.pointer(input).unwrap();
    assert_eq!(input["other"], "kept", "{answer:#}");
    input["command"].as_str().unwrap().to_owned()
}

/// Runs the command that the hook returned, as the program does.
fn run(fixture: &Fixture, text: &str) -> Ran {
    let mut shell = fixture.scratch.command("bash");
    shell.args(["-c", text]).stdin(Stdio::null());
    Ran::from(shell.output().unwrap())
}

fn deny(fixture: &Fixture, agent: &str, command: &str) -> String {
    let ran = run_hook(fixture, agent, &call(fixture, agent, false, command)).expect_code(2);
    assert_eq!(ran.out, "");
    ran.err
}

#[test]
fn changed_command_can_write_only_its_scope() {
    for agent in AGENTS {
        let fixture = fixture();
        install(&fixture, agent, &[]);
        let text = changed_command(
            &fixture,
            agent,
            "printf '%s\\n' \"it's\" > src/new.txt\necho out; exit 7",
        );
        let ran = run(&fixture, &text);
        assert_eq!((ran.code, ran.out.as_str()), (7, "out\n"), "{agent}: {}", ran.err);
        assert_eq!(
            fixture.scratch.read("src/new.txt"),
            "it's\n",
            "positive control: it may write there"
        );
        let after = run_hook(&fixture, agent, &call(&fixture, agent, true, &text)).expect_code(0);
        assert_eq!((after.out.as_str(), after.err.as_str()), ("", ""), "{agent}");
        let again = run(&fixture, &text);
        assert_ne!(again.code, 0, "{agent}: the command ran twice");
        for command in [
            "echo x > docs/guide.md",
            "git commit --allow-empty -m x",
            "echo '{}' > .codex/hooks.json; echo '{}' > .gemini/settings.json; false",
            "echo x > ~/.bashrc",
        ] {
            let ran = run(&fixture, &changed_command(&fixture, agent, command));
            assert_ne!(ran.code, 0, "{agent}: {command}: {}{}", ran.out, ran.err);
        }
        assert_eq!(fixture.scratch.read("docs/guide.md"), "guide\n", "{agent}");
        assert_eq!(fixture.status(agent), ("intact".to_owned(), vec![]), "{agent}");
    }
}

#[test]
fn calls_without_a_command_follow_the_gate() {
    for agent in AGENTS {
        let fixture = fixture();
        install(&fixture, agent, &[]);
        let mut payload = call(&fixture, agent, false, "x");
        payload["tool_name"] =
            if agent == "codex" { "view_image" } else { "list_directory" }.into();
        payload["tool_input"] = json!({"path": "src/a.txt"});
        let ran = run_hook(&fixture, agent, &payload).expect_code(0);
        assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""), "{agent}");
        fixture.set_gate_script("echo 'not that' >&2; exit 2");
        assert_eq!(deny(&fixture, agent, "ls"), "not that\n");
        fixture.set_gate_script("exit 1");
        assert!(deny(&fixture, agent, "ls").contains("could not run"), "{agent}");
    }
}

#[test]
fn user_rules_are_applied_to_the_original_command() {
    let rules = [
        (
            "codex",
            ".codex/rules/mine.rules",
            "prefix_rule(pattern=[\"git\", \"push\"], decision=\"forbidden\")\n",
            "x = 1\n",
        ),
        (
            "gemini",
            ".gemini/policies/mine.toml",
            "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"git push\"\ndecision = \
             \"deny\"\npriority = 5\n",
            "[[safety_checker]]\ntoolName = \"*\"\n",
        ),
    ];
    for (agent, file, rule, unreadable) in rules {
        let fixture = fixture();
        install(&fixture, agent, &[]);
        changed_command(&fixture, agent, "cd src && git push");
        fixture.write_home(file, rule);
        let message = deny(&fixture, agent, "cd src && git push");
        assert!(message.contains("a rule of the person forbids it"), "{agent}: {message}");
        changed_command(&fixture, agent, "git status");
        fixture.write_home(file, unreadable);
        let message = deny(&fixture, agent, "git status");
        assert!(message.contains("cannot be applied"), "{agent}: {message}");
    }
}

#[test]
fn command_that_ran_unchanged_blocks_all_later_commands() {
    for agent in AGENTS {
        let fixture = fixture();
        install(&fixture, agent, &[]);
        changed_command(&fixture, agent, "ls");
        let message =
            run_hook(&fixture, agent, &call(&fixture, agent, true, "nice ls")).expect_code(2).err;
        assert!(
            message.contains("ran without the sandbox") && message.contains("nice ls"),
            "{message}"
        );
        assert!(deny(&fixture, agent, "ls").contains("ran without the sandbox"), "{agent}");
        let expected = ("drifted".to_owned(), vec!["bypassed".to_owned()]);
        assert_eq!(fixture.status(agent), expected);
        install(&fixture, agent, &[]);
        changed_command(&fixture, agent, "ls");
        assert_eq!(fixture.status(agent), ("intact".to_owned(), vec![]), "{agent}");
    }
}

#[test]
fn command_without_a_created_sandbox_is_reported_to_the_agent() {
    let fixture = fixture();
    install(&fixture, "codex", &[]);
    let text = changed_command(&fixture, "codex", "ls");
    let message =
        run_hook(&fixture, "codex", &call(&fixture, "codex", true, &text)).expect_code(2).err;
    assert!(message.contains("the command did not run"), "{message}");
    assert_eq!(fixture.status("codex").0, "intact", "no command ran without the sandbox");
}

#[test]
fn gate_relies_on_the_sandbox_after_a_command_of_the_session_ran_in_it() {
    let fixture = fixture();
    install(&fixture, "codex", &[]);
    let gate_arguments = || std::fs::read_to_string(fixture.bin().join("arguments")).unwrap();
    let text = changed_command(&fixture, "codex", "ls");
    assert!(!gate_arguments().contains("--sandboxed"), "no command has run in the sandbox yet");
    run(&fixture, &text).expect_code(0);
    changed_command(&fixture, "codex", "ls");
    assert!(gate_arguments().contains("--sandboxed"), "{}", gate_arguments());
    let mut other = call(&fixture, "codex", false, "ls");
    other["session_id"] = "s-2".into();
    run_hook(&fixture, "codex", &other).expect_code(0);
    assert!(!gate_arguments().contains("--sandboxed"), "another session needs its own proof");
}

#[test]
fn foreign_hooks_for_commands_are_named() {
    let other = json!({"matcher": "Bash|run_shell_command", "hooks": [{"type": "command", "command": "mine"}]});
    for (agent, event) in [("codex", "PreToolUse"), ("gemini", "BeforeTool")] {
        let fixture = fixture();
        let text = json!({"hooks": {event: [other]}}).to_string();
        fixture.scratch.write(settings(agent), &text);
        let installed = install(&fixture, agent, &[]);
        assert!(installed.err.contains("the hook `mine`"), "{agent}: {}", installed.err);
        let shown = fixture.run(&["status", agent]).expect_code(0);
        assert!(shown.out.contains("the hook `mine`"), "{agent}: {}", shown.out);
        let unsandboxed = install(&fixture, agent, &["--no-sandbox"]);
        assert!(
            !unsandboxed.err.contains("the hook `mine`"),
            "{agent}: without the sandbox the foreign hook is harmless"
        );
    }
}

#[test]
fn without_sandbox_commands_are_unchanged_and_no_after_hook_exists() {
    for agent in AGENTS {
        let fixture = fixture();
        let before = fixture.snapshot();
        install(&fixture, agent, &[]);
        let sandboxed_settings = fixture.scratch.read(settings(agent));
        assert!(
            sandboxed_settings.contains("PostToolUse") || sandboxed_settings.contains("AfterTool"),
            "{sandboxed_settings}"
        );
        install(&fixture, agent, &["--no-sandbox"]);
        let plain_settings = fixture.scratch.read(settings(agent));
        assert!(
            !plain_settings.contains("PostToolUse") && !plain_settings.contains("AfterTool"),
            "{plain_settings}"
        );
        assert_eq!(fixture.status(agent), ("intact".to_owned(), vec![]), "{agent}");
        let ran = run_hook(&fixture, agent, &call(&fixture, agent, false, "ls")).expect_code(0);
        assert_eq!(ran.out, "", "{agent}");
        install(&fixture, agent, &[]);
        assert_eq!(
            fixture.scratch.read(settings(agent)),
            sandboxed_settings,
            "{agent}: the settings are not restored"
        );
        run(&fixture, &changed_command(&fixture, agent, "ls")).expect_code(0);
        fixture.run(&["remove", agent]).expect_code(0);
        let mut after = fixture.snapshot();
        // The sandbox creates protected files that do not exist, so that it can protect them.
        let by_sandbox =
            |path: &PathBuf| path.ends_with("state/hooks") || path.ends_with(".claude");
        after.retain(|path, _| !by_sandbox(path));
        assert_eq!(after, before, "{agent}");
    }
}

#[test]
fn codex_allows_writes_that_the_sandbox_needs() {
    let fixture = fixture();
    install(&fixture, "codex", &[]);
    let config = fixture.read_home(".codex/config.toml");
    assert!(config.contains("writable_roots") && config.contains("/commands\""), "{config}");
    fixture.write_home(".codex/config.toml", &config.replace("/commands\"", "/gone\""));
    let (standing, codes) = fixture.status("codex");
    assert_eq!((standing.as_str(), codes), ("drifted", vec!["no-sandbox".to_owned()]));
}
