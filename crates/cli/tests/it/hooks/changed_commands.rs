//! Shell commands of Codex and Gemini CLI, whose hook puts a command of ours in the place of each: answered and
//! run as those programs do.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use bailiwick_testkit::scratch::Ran;
use serde_json::{Value, json};

use super::{Bench, SETTINGS, last_command};

const AGENTS: [&str; 2] = ["codex", "gemini"];

fn bench() -> Bench {
    let bench = Bench::new();
    bench.scratch.write("src/a.txt", "a\n");
    bench.scratch.write("docs/guide.md", "guide\n");
    bench.scratch.commit("files");
    bench.trust_folder();
    bench
}

fn install(bench: &Bench, agent: &str, more: &[&str]) -> Ran {
    let words = ["install", agent, "--role", "developer", "--files", "src/**"];
    bench.run(&[&words[..], more].concat()).expect_code(0)
}

fn settings(agent: &str) -> &'static str {
    SETTINGS.iter().find(|(name, _)| *name == agent).unwrap().1
}

/// Puts a payload to the hook as the program does.
fn ask(bench: &Bench, agent: &str, payload: &Value) -> Ran {
    let command = last_command(&bench.scratch.read(settings(agent)));
    let mut shell = bench.scratch.command("sh");
    shell.args(["-c", &command]);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
    Ran::from(child.wait_with_output().unwrap())
}

/// A shell call, before or after it has run.
fn call(bench: &Bench, agent: &str, after: bool, command: &str) -> Value {
    let (event, tool) = match (agent, after) {
        ("codex", false) => ("PreToolUse", "Bash"),
        ("codex", true) => ("PostToolUse", "Bash"),
        (_, false) => ("BeforeTool", "run_shell_command"),
        (_, true) => ("AfterTool", "run_shell_command"),
    };
    json!({
        "session_id": "s-1", "cwd": bench.scratch.root(), "hook_event_name": event, "tool_name": tool,
        "tool_input": {"command": command, "other": "kept"},
    })
}

/// What the hook puts in the place of a command.
fn changed(bench: &Bench, agent: &str, command: &str) -> String {
    let ran = ask(bench, agent, &call(bench, agent, false, command)).expect_code(0);
    let answer: Value = serde_json::from_str(&ran.out).unwrap();
    let input = match agent {
        "codex" => {
            let allowed = "/hookSpecificOutput/permissionDecision";
            assert_eq!(answer.pointer(allowed), Some(&json!("allow")), "else it is ignored");
            "/hookSpecificOutput/updatedInput"
        }
        _ => "/hookSpecificOutput/tool_input",
    };
    let input = answer.pointer(input).unwrap();
    assert_eq!(input["other"], "kept", "{answer:#}");
    input["command"].as_str().unwrap().to_owned()
}

/// Runs what the hook has answered, as the program does.
fn run(bench: &Bench, text: &str) -> Ran {
    let mut shell = bench.scratch.command("bash");
    shell.args(["-c", text]).stdin(Stdio::null());
    Ran::from(shell.output().unwrap())
}

fn deny(bench: &Bench, agent: &str, command: &str) -> String {
    let ran = ask(bench, agent, &call(bench, agent, false, command)).expect_code(2);
    assert_eq!(ran.out, "");
    ran.err
}

#[test]
fn a_changed_command_changes_its_scope_and_nothing_else() {
    for agent in AGENTS {
        let bench = bench();
        install(&bench, agent, &[]);
        let text =
            changed(&bench, agent, "printf '%s\\n' \"it's\" > src/new.txt\necho out; exit 7");
        let ran = run(&bench, &text);
        assert_eq!((ran.code, ran.out.as_str()), (7, "out\n"), "{agent}: {}", ran.err);
        assert_eq!(bench.scratch.read("src/new.txt"), "it's\n", "the control: it may write there");
        let after = ask(&bench, agent, &call(&bench, agent, true, &text)).expect_code(0);
        assert_eq!((after.out.as_str(), after.err.as_str()), ("", ""), "{agent}");
        let again = run(&bench, &text);
        assert_ne!(again.code, 0, "{agent}: a command is run once");
        for command in [
            "echo x > docs/guide.md",
            "git commit --allow-empty -m x",
            "echo '{}' > .codex/hooks.json; echo '{}' > .gemini/settings.json; false",
            "echo x > ~/.bashrc",
        ] {
            let ran = run(&bench, &changed(&bench, agent, command));
            assert_ne!(ran.code, 0, "{agent}: {command}: {}{}", ran.out, ran.err);
        }
        assert_eq!(bench.scratch.read("docs/guide.md"), "guide\n", "{agent}");
        assert_eq!(bench.status(agent), ("intact".to_owned(), vec![]), "{agent}");
    }
}

#[test]
fn calls_that_run_no_command_go_as_the_gate_says() {
    for agent in AGENTS {
        let bench = bench();
        install(&bench, agent, &[]);
        let mut payload = call(&bench, agent, false, "x");
        payload["tool_name"] =
            if agent == "codex" { "view_image" } else { "list_directory" }.into();
        payload["tool_input"] = json!({"path": "src/a.txt"});
        let ran = ask(&bench, agent, &payload).expect_code(0);
        assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""), "{agent}");
        bench.end("echo 'not that' >&2; exit 2");
        assert_eq!(deny(&bench, agent, "ls"), "not that\n");
        bench.end("exit 1");
        assert!(deny(&bench, agent, "ls").contains("could not run"), "{agent}");
    }
}

#[test]
fn rules_of_the_person_are_applied_to_the_original_text() {
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
        let bench = bench();
        install(&bench, agent, &[]);
        changed(&bench, agent, "cd src && git push");
        bench.write_home(file, rule);
        let told = deny(&bench, agent, "cd src && git push");
        assert!(told.contains("a rule of the person forbids it"), "{agent}: {told}");
        changed(&bench, agent, "git status");
        bench.write_home(file, unreadable);
        let told = deny(&bench, agent, "git status");
        assert!(told.contains("cannot be applied"), "{agent}: {told}");
    }
}

#[test]
fn a_command_that_ran_in_another_form_ends_all_further_ones() {
    for agent in AGENTS {
        let bench = bench();
        install(&bench, agent, &[]);
        changed(&bench, agent, "ls");
        let told = ask(&bench, agent, &call(&bench, agent, true, "nice ls")).expect_code(2).err;
        assert!(told.contains("ran without the sandbox") && told.contains("nice ls"), "{told}");
        assert!(deny(&bench, agent, "ls").contains("ran without the sandbox"), "{agent}");
        let found = ("drifted".to_owned(), vec!["bypassed".to_owned()]);
        assert_eq!(bench.status(agent), found);
        install(&bench, agent, &[]);
        changed(&bench, agent, "ls");
        assert_eq!(bench.status(agent), ("intact".to_owned(), vec![]), "{agent}");
    }
}

#[test]
fn a_command_whose_sandbox_was_not_made_is_told_to_the_agent() {
    let bench = bench();
    install(&bench, "codex", &[]);
    let text = changed(&bench, "codex", "ls");
    let told = ask(&bench, "codex", &call(&bench, "codex", true, &text)).expect_code(2).err;
    assert!(told.contains("the command did not run"), "{told}");
    assert_eq!(bench.status("codex").0, "intact", "nothing ran without it");
}

#[test]
fn the_gate_knows_of_the_sandbox_once_a_command_of_the_session_ran_in_it() {
    let bench = bench();
    install(&bench, "codex", &[]);
    let told = || std::fs::read_to_string(bench.bin().join("arguments")).unwrap();
    let text = changed(&bench, "codex", "ls");
    assert!(!told().contains("--sandboxed"), "nothing shows yet that commands run in it");
    run(&bench, &text).expect_code(0);
    changed(&bench, "codex", "ls");
    assert!(told().contains("--sandboxed"), "{}", told());
    let mut other = call(&bench, "codex", false, "ls");
    other["session_id"] = "s-2".into();
    ask(&bench, "codex", &other).expect_code(0);
    assert!(!told().contains("--sandboxed"), "another session shows it for itself");
}

#[test]
fn hooks_of_others_about_commands_are_named() {
    let other = json!({"matcher": "Bash|run_shell_command", "hooks": [{"type": "command", "command": "mine"}]});
    for (agent, event) in [("codex", "PreToolUse"), ("gemini", "BeforeTool")] {
        let bench = bench();
        let text = json!({"hooks": {event: [other]}}).to_string();
        bench.scratch.write(settings(agent), &text);
        let said = install(&bench, agent, &[]);
        assert!(said.err.contains("the hook `mine`"), "{agent}: {}", said.err);
        let shown = bench.run(&["status", agent]).expect_code(0);
        assert!(shown.out.contains("the hook `mine`"), "{agent}: {}", shown.out);
        let free = install(&bench, agent, &["--no-sandbox"]);
        assert!(!free.err.contains("the hook `mine`"), "{agent}: it changes nothing of ours");
    }
}

#[test]
fn without_the_sandbox_nothing_is_changed_and_nothing_asked_after_a_call() {
    for agent in AGENTS {
        let bench = bench();
        let before = bench.snapshot();
        install(&bench, agent, &[]);
        let with = bench.scratch.read(settings(agent));
        assert!(with.contains("PostToolUse") || with.contains("AfterTool"), "{with}");
        install(&bench, agent, &["--no-sandbox"]);
        let without = bench.scratch.read(settings(agent));
        assert!(!without.contains("PostToolUse") && !without.contains("AfterTool"), "{without}");
        assert_eq!(bench.status(agent), ("intact".to_owned(), vec![]), "{agent}");
        let ran = ask(&bench, agent, &call(&bench, agent, false, "ls")).expect_code(0);
        assert_eq!(ran.out, "", "{agent}");
        install(&bench, agent, &[]);
        assert_eq!(bench.scratch.read(settings(agent)), with, "{agent}: and back");
        run(&bench, &changed(&bench, agent, "ls")).expect_code(0);
        bench.run(&["remove", agent]).expect_code(0);
        let mut after = bench.snapshot();
        // What nobody may make is made by the sandbox, so that it can be protected.
        let by_sandbox =
            |path: &PathBuf| path.ends_with("state/hooks") || path.ends_with(".claude");
        after.retain(|path, _| !by_sandbox(path));
        assert_eq!(after, before, "{agent}");
    }
}

#[test]
fn codex_lets_commands_write_what_the_sandbox_needs() {
    let bench = bench();
    install(&bench, "codex", &[]);
    let config = bench.read_home(".codex/config.toml");
    assert!(config.contains("writable_roots") && config.contains("/commands\""), "{config}");
    bench.write_home(".codex/config.toml", &config.replace("/commands\"", "/gone\""));
    let (standing, codes) = bench.status("codex");
    assert_eq!((standing.as_str(), codes), ("drifted", vec!["no-sandbox".to_owned()]));
}
