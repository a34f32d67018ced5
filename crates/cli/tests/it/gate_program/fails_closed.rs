//! Whatever goes wrong is exit 2 with a reason.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{HttpGate, allowed, ask, denied, examples, policy, program};

#[test]
fn a_good_call_passes_in_silence_and_a_bad_one_names_its_rule() {
    let desk = HttpGate::new();
    allowed(&ask(&mut desk.gate("claude"), desk.shell("ls -la | head").as_bytes()));
    denied(&ask(&mut desk.gate("claude"), desk.shell("git push").as_bytes()), "policy::no-git-ops");
    denied(
        &ask(&mut desk.gate("claude"), desk.shell("echo x > README.md").as_bytes()),
        "scope::files-whitelist",
    );
}

#[test]
fn input_that_is_no_call_is_denied() {
    let desk = HttpGate::new();
    let call = |value: Value| value.to_string().into_bytes();
    let good = desk.shell("ls");
    let cut = good.as_bytes()[..good.len() - 7].to_vec();
    let huge = {
        let long = "x".repeat(17 * 1024 * 1024);
        desk.shell(&format!("echo {long}")).into_bytes()
    };
    let mut not_text = good.clone().into_bytes();
    let at = good.find("ls").unwrap();
    not_text[at] = 0xff;
    for (input, because) in [
        (Vec::new(), "empty"),
        (b"{".to_vec(), "not JSON"),
        (cut, "not JSON"),
        (huge, "larger than 16 MiB"),
        (not_text, "not UTF-8"),
        (b"[]".to_vec(), "no object"),
        (b"null".to_vec(), "no object"),
        (call(json!({"tool_name": "Bash"})), "tool_input"),
        (call(json!({"tool_input": {}})), "tool_name"),
        (call(json!({"tool_name": 5, "tool_input": {}})), "tool_name"),
        (call(json!({"tool_name": "Bash", "tool_input": "ls"})), "tool_input"),
        (call(json!({"tool_name": "Bash", "tool_input": {}})), "command"),
        (call(json!({"tool_name": "Bash", "tool_input": {"command": 5}})), "command"),
        (call(json!({"tool_name": "Bash", "tool_input": {"command": ["ls", 5]}})), "command"),
        (call(json!({"tool_name": "Write", "tool_input": {"content": "x"}})), "names none"),
        (call(json!({"tool_name": "Write", "tool_input": {"file_path": 5}})), "file_path"),
        (call(json!({"tool_name": "Frobnicate", "tool_input": {}})), "not known"),
        (call(json!({"tool_name": "bash ", "tool_input": {"command": "ls"}})), "not known"),
        (call(json!({"tool_name": "mcp__x", "tool_input": {}})), "no tool"),
        (
            call(json!({"hook_event_name": "PostToolUse", "tool_name": "Read", "tool_input": {}})),
            "no tool call",
        ),
        (call(json!({"tool_name": "Read", "tool_input": {}, "cwd": "src"})), "cwd"),
    ] {
        let output = ask(&mut desk.gate("claude"), &input);
        let start = String::from_utf8_lossy(&input[..input.len().min(80)]).into_owned();
        println!("{start}: {}", String::from_utf8_lossy(&output.stderr));
        denied(&output, because);
    }
}

#[test]
fn a_policy_that_is_missing_altered_or_not_understood_denies() {
    let desk = HttpGate::new();
    let call = desk.shell("ls");
    allowed(&ask(&mut desk.gate("claude"), call.as_bytes()));
    // One byte more, and every later answer is a denial.
    let file = desk.path("policy.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text} ")).unwrap();
    denied(&ask(&mut desk.gate("claude"), call.as_bytes()), "altered");
    std::fs::remove_file(&file).unwrap();
    denied(&ask(&mut desk.gate("claude"), call.as_bytes()), "cannot be read");

    let changed = |change: &dyn Fn(&mut Value)| {
        let mut policy = policy();
        change(&mut policy);
        HttpGate::with(&policy)
    };
    for (desk, because) in [
        (changed(&|p| p["format"] = json!(2)), "format 2"),
        (changed(&|p| p["extra"] = json!(1)), "unknown field"),
        (changed(&|p| p["rules"][0]["gate"] = json!("gates::nothing")), "there is no module"),
        (changed(&|p| p["rules"][0]["severity"] = json!("mild")), "unknown variant"),
        (changed(&|p| p["escalation"] = json!("shrug")), "unknown variant"),
        (changed(&|p| *p = json!([])), "cannot be read"),
    ] {
        denied(&ask(&mut desk.gate("claude"), desk.shell("ls").as_bytes()), because);
    }
}

#[test]
fn arguments_that_are_not_understood_deny() {
    let desk = HttpGate::new();
    let call = desk.shell("ls");
    let own = |more: &[&str]| {
        let mut gate = desk.gate("claude");
        gate.args(more);
        gate
    };
    for (mut gate, because) in [
        (program(), "--dialect is missing"),
        (own(&["--frobnicate"]), "not known"),
        (own(&["--dialect", "emacs"]), "no dialect"),
        (own(&["--deadline-ms", "0"]), "--deadline-ms"),
        (own(&["--socket", "/s"]), "exclude"),
        (own(&["--root", "/nonexistent/place"]), "cannot be used"),
        (own(&["--log", "/nonexistent/log"]), "cannot be kept"),
        (own(&["--log"]), "needs a value"),
    ] {
        denied(&ask(&mut gate, call.as_bytes()), because);
    }
}

#[test]
fn a_gate_that_is_kept_waiting_denies_by_itself() {
    let desk = HttpGate::new();
    let mut gate = desk.gate("claude");
    gate.args(["--deadline-ms", "300"]);
    // Standard input stays open: the payload never ends.
    let mut child =
        gate.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let held = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(held);
    denied(&output, "not done within 300 ms");
}

#[test]
fn a_panic_denies() {
    let example = examples().join("panics");
    assert!(example.is_file(), "{} is built with the tests", example.display());
    denied(&ask(&mut Command::new(example), b""), "the gate failed");
}

#[test]
fn a_text_at_which_the_parser_panics_is_denied_as_unreadable() {
    let desk = HttpGate::new();
    let text = "x <<<<<<<<xt$( && n=$((n + 1)); done";
    let output = ask(&mut desk.gate("claude"), desk.shell(text).as_bytes());
    denied(&output, "");
    let reason = String::from_utf8_lossy(&output.stderr);
    assert!(!reason.contains("the gate failed"), "{reason}");
}

#[test]
fn an_explicit_allow_is_said_in_claude_codes_words() {
    let desk = HttpGate::new();
    let mut gate = desk.gate("claude");
    let output = ask(gate.arg("--explicit-allow"), desk.shell("ls").as_bytes());
    assert_eq!(output.status.code(), Some(0));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["hookSpecificOutput"]["permissionDecision"], "allow");
    let mut gate = desk.gate("claude");
    denied(&ask(gate.arg("--explicit-allow"), desk.shell("git push").as_bytes()), "git");
}

#[test]
fn the_environment_changes_no_answer() {
    let desk = HttpGate::new();
    let mut gate = desk.gate("claude");
    for (name, value) in [
        ("ORCHESTRATOR_META", "1"),
        ("KEI_CAPABILITY_NAME", ""),
        ("BAILIWICK_STATE", "/nonexistent"),
        ("RUST_BACKTRACE", "1"),
    ] {
        gate.env(name, value);
    }
    denied(&ask(&mut gate, desk.shell("git push").as_bytes()), "policy::no-git-ops");
}

#[test]
fn tools_of_servers_are_held_by_the_roles_globs_and_their_paths_by_the_whitelist() {
    let desk = HttpGate::new();
    let call = |tool: &str, input: Value| {
        json!({"tool_name": tool, "tool_input": input, "cwd": desk.root()}).to_string()
    };
    let asked =
        |tool: &str, input: Value| ask(&mut desk.gate("claude"), call(tool, input).as_bytes());
    allowed(&asked("mcp__files__write", json!({"path": "src/a.rs"})));
    denied(&asked("mcp__files__write", json!({"path": "README.md"})), "scope::files-whitelist");
    allowed(&asked("mcp__files__read_text", json!({"path": "README.md"})));
    denied(&asked("mcp__other__write", json!({"path": "src/a.rs"})), "role::tools");
}

#[test]
fn a_file_is_where_a_tool_may_take_it_to_be() {
    let desk = HttpGate::new();
    let root = desk.root();
    std::fs::create_dir_all(root.join("src/deep")).unwrap();
    std::fs::create_dir_all(root.join("docs")).unwrap();
    std::os::unix::fs::symlink("../src/deep", root.join("docs/link")).unwrap();
    let write = |path: &str| {
        let input = json!({"file_path": path, "content": "x"});
        let call = json!({"tool_name": "Write", "tool_input": input, "cwd": root});
        ask(&mut desk.gate("claude"), call.to_string().as_bytes())
    };
    for path in ["src/a", "docs/link/a", "src/deep/../a"] {
        allowed(&write(path));
    }
    for path in [
        // The kernel goes to src/a, a tool that tidies the path to docs/a.
        "docs/link/../a",
        "/dev/fd/../cwd/a",
        "/proc/self/fd/../cwd/a",
        "/proc/self/cwd/a",
        "/proc/self/root/etc/a",
        " /etc/a",
    ] {
        denied(&write(path), "Instead:");
    }
    for command in ["echo x > /dev/fd/../cwd/a", "cd .git; echo x > /proc/self/cwd/config"] {
        let shell = desk.shell(command);
        denied(&ask(&mut desk.gate("claude"), shell.as_bytes()), "bailiwick::protected");
    }
    let own = desk.shell("echo x > src/a; echo y > /dev/fd/1; echo z > /dev/stderr");
    allowed(&ask(&mut desk.gate("claude"), own.as_bytes()));
}

#[test]
fn a_copy_of_links_is_not_written_through_in_the_same_command() {
    let desk = HttpGate::new();
    let root = desk.root();
    for directory in ["docs/plain", "docs/linked", "src"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    std::fs::write(root.join("docs/plain/a"), "x").unwrap();
    std::os::unix::fs::symlink("../../README.md", root.join("docs/linked/a")).unwrap();
    let shell = |command: &str| {
        let call = desk.shell(command);
        ask(&mut desk.gate("claude"), call.as_bytes())
    };
    for command in [
        "cp -r docs/plain src && echo y > src/plain/a",
        "cp -r docs/plain src && chmod 600 src/plain/*",
        "cp -r docs/linked src && echo y > src/b",
        "cp -r docs/linked src",
    ] {
        allowed(&shell(command));
    }
    for command in [
        "cp -r docs/linked src && echo y > src/linked/a",
        "cp -r docs/linked src && chmod 600 src/linked/*",
        "cp -r docs/linked src && cp -r src/linked src/again && echo y > src/again/a",
    ] {
        denied(&shell(command), "Instead:");
    }
}

#[test]
fn the_files_that_wire_hooks_stay_in_their_directories() {
    let mut open = policy();
    open["whitelist"] = json!(["**"]);
    let desk = HttpGate::with(&open);
    let root = desk.root();
    std::fs::create_dir_all(root.join(".claude/agents")).unwrap();
    std::fs::create_dir_all(root.join(".codex/notes")).unwrap();
    std::fs::write(root.join(".claude/settings.json"), "{}").unwrap();
    std::fs::write(root.join(".codex/notes/x"), "x").unwrap();
    let shell = |command: &str| {
        let call = desk.shell(command);
        ask(&mut desk.gate("claude"), call.as_bytes())
    };
    for command in [
        "rm -rf .claude",
        "rm -rf .cl*",
        "mv .claude elsewhere",
        "cp -r other/. .claude",
        "echo x > opencode.jsonc",
        "echo x > .CLAUDE/settings.json",
        "echo x > .GIT/config",
    ] {
        denied(&shell(command), "bailiwick::protected");
    }
    for command in ["rm -rf .codex/notes", "rm -rf .claude/agents", "mkdir -p .gemini"] {
        allowed(&shell(command));
    }
}
