//! Every failure is exit code 2 with a reason.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{
    GateFixture, examples, expect_allowed, expect_denied, policy, program, run_with_input,
};

#[test]
fn allowed_call_prints_nothing_and_denied_call_names_its_rule() {
    let fixture = GateFixture::new();
    expect_allowed(&run_with_input(
        &mut fixture.gate("claude"),
        fixture.shell("ls -la | head").as_bytes(),
    ));
    expect_denied(
        &run_with_input(&mut fixture.gate("claude"), fixture.shell("git push").as_bytes()),
        "policy::no-git-ops",
    );
    expect_denied(
        &run_with_input(
            &mut fixture.gate("claude"),
            fixture.shell("echo x > README.md").as_bytes(),
        ),
        "scope::files-whitelist",
    );
}

#[test]
fn input_that_is_not_a_tool_call_is_denied() {
    let fixture = GateFixture::new();
    let call = |value: Value| value.to_string().into_bytes();
    let valid = fixture.shell("ls");
    let truncated = valid.as_bytes()[..valid.len() - 7].to_vec();
    let too_large = {
        let long = "x".repeat(17 * 1024 * 1024);
        fixture.shell(&format!("echo {long}")).into_bytes()
    };
    let mut not_utf8 = valid.clone().into_bytes();
    let position = valid.find("ls").unwrap();
    not_utf8[position] = 0xff;
    for (input, expected) in [
        (Vec::new(), "empty"),
        (b"{".to_vec(), "not JSON"),
        (truncated, "not JSON"),
        (too_large, "larger than 16 MiB"),
        (not_utf8, "not UTF-8"),
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
        let output = run_with_input(&mut fixture.gate("claude"), &input);
        let start = String::from_utf8_lossy(&input[..input.len().min(80)]).into_owned();
        println!("{start}: {}", String::from_utf8_lossy(&output.stderr));
        expect_denied(&output, expected);
    }
}

#[test]
fn missing_changed_or_invalid_policy_denies() {
    let fixture = GateFixture::new();
    let call = fixture.shell("ls");
    expect_allowed(&run_with_input(&mut fixture.gate("claude"), call.as_bytes()));
    // One more byte in the policy, and every later call is denied.
    let file = fixture.path("policy.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text} ")).unwrap();
    expect_denied(&run_with_input(&mut fixture.gate("claude"), call.as_bytes()), "altered");
    std::fs::remove_file(&file).unwrap();
    expect_denied(&run_with_input(&mut fixture.gate("claude"), call.as_bytes()), "cannot be read");

    let fixture_with = |change: &dyn Fn(&mut Value)| {
        let mut policy = policy();
        change(&mut policy);
        GateFixture::with(&policy)
    };
    for (fixture, expected) in [
        (fixture_with(&|p| p["format"] = json!(2)), "format 2"),
        (fixture_with(&|p| p["extra"] = json!(1)), "unknown field"),
        (fixture_with(&|p| p["rules"][0]["gate"] = json!("gates::nothing")), "there is no module"),
        (fixture_with(&|p| p["rules"][0]["severity"] = json!("mild")), "unknown variant"),
        (fixture_with(&|p| p["escalation"] = json!("shrug")), "unknown variant"),
        (fixture_with(&|p| *p = json!([])), "cannot be read"),
    ] {
        expect_denied(
            &run_with_input(&mut fixture.gate("claude"), fixture.shell("ls").as_bytes()),
            expected,
        );
    }
}

#[test]
fn invalid_arguments_deny() {
    let fixture = GateFixture::new();
    let call = fixture.shell("ls");
    let gate_with = |extra: &[&str]| {
        let mut gate = fixture.gate("claude");
        gate.args(extra);
        gate
    };
    for (mut gate, expected) in [
        (program(), "--dialect is missing"),
        (gate_with(&["--frobnicate"]), "not known"),
        (gate_with(&["--dialect", "emacs"]), "no dialect"),
        (gate_with(&["--deadline-ms", "0"]), "--deadline-ms"),
        (gate_with(&["--socket", "/s"]), "exclude"),
        (gate_with(&["--root", "/nonexistent/place"]), "cannot be used"),
        (gate_with(&["--log", "/nonexistent/log"]), "cannot be kept"),
        (gate_with(&["--log"]), "needs a value"),
    ] {
        expect_denied(&run_with_input(&mut gate, call.as_bytes()), expected);
    }
}

#[test]
fn gate_denies_at_its_deadline() {
    let fixture = GateFixture::new();
    let mut gate = fixture.gate("claude");
    gate.args(["--deadline-ms", "300"]);
    // Standard input stays open: the payload never ends.
    let mut child =
        gate.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let open_input = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(open_input);
    expect_denied(&output, "not done within 300 ms");
}

#[test]
fn panic_denies() {
    let example = examples().join("panics");
    assert!(example.is_file(), "{} is built with the tests", example.display());
    expect_denied(&run_with_input(&mut Command::new(example), b""), "the gate failed");
}

#[test]
fn text_on_which_the_parser_panics_is_denied_as_unreadable() {
    let fixture = GateFixture::new();
    let text = "x <<<<<<<<xt$( && n=$((n + 1)); done";
    let output = run_with_input(&mut fixture.gate("claude"), fixture.shell(text).as_bytes());
    expect_denied(&output, "");
    let reason = String::from_utf8_lossy(&output.stderr);
    assert!(!reason.contains("the gate failed"), "{reason}");
}

#[test]
fn explicit_allow_is_printed_in_the_format_of_claude_code() {
    let fixture = GateFixture::new();
    let mut gate = fixture.gate("claude");
    let output = run_with_input(gate.arg("--explicit-allow"), fixture.shell("ls").as_bytes());
    assert_eq!(output.status.code(), Some(0));
    let output_json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output_json["hookSpecificOutput"]["permissionDecision"], "allow");
    let mut gate = fixture.gate("claude");
    expect_denied(
        &run_with_input(gate.arg("--explicit-allow"), fixture.shell("git push").as_bytes()),
        "git",
    );
}

#[test]
fn environment_variables_do_not_change_decisions() {
    let fixture = GateFixture::new();
    let mut gate = fixture.gate("claude");
    for (name, value) in [
        ("ORCHESTRATOR_META", "1"),
        ("KEI_CAPABILITY_NAME", ""),
        ("BAILIWICK_STATE", "/nonexistent"),
        ("RUST_BACKTRACE", "1"),
    ] {
        gate.env(name, value);
    }
    expect_denied(
        &run_with_input(&mut gate, fixture.shell("git push").as_bytes()),
        "policy::no-git-ops",
    );
}

#[test]
fn mcp_tools_are_limited_by_role_globs_and_the_whitelist() {
    let fixture = GateFixture::new();
    let call = |tool: &str, input: Value| {
        json!({"tool_name": tool, "tool_input": input, "cwd": fixture.root()}).to_string()
    };
    let decide = |tool: &str, input: Value| {
        run_with_input(&mut fixture.gate("claude"), call(tool, input).as_bytes())
    };
    expect_allowed(&decide("mcp__files__write", json!({"path": "src/a.rs"})));
    expect_denied(
        &decide("mcp__files__write", json!({"path": "README.md"})),
        "scope::files-whitelist",
    );
    expect_allowed(&decide("mcp__files__read_text", json!({"path": "README.md"})));
    expect_denied(&decide("mcp__other__write", json!({"path": "src/a.rs"})), "role::tools");
}

#[test]
fn ambiguous_paths_are_denied() {
    let fixture = GateFixture::new();
    let root = fixture.root();
    std::fs::create_dir_all(root.join("src/deep")).unwrap();
    std::fs::create_dir_all(root.join("docs")).unwrap();
    std::os::unix::fs::symlink("../src/deep", root.join("docs/link")).unwrap();
    let write = |path: &str| {
        let input = json!({"file_path": path, "content": "x"});
        let call = json!({"tool_name": "Write", "tool_input": input, "cwd": root});
        run_with_input(&mut fixture.gate("claude"), call.to_string().as_bytes())
    };
    for path in ["src/a", "docs/link/a", "src/deep/../a"] {
        expect_allowed(&write(path));
    }
    for path in [
        // The kernel resolves it to src/a, but a tool that normalizes the path to docs/a.
        "docs/link/../a",
        "/dev/fd/../cwd/a",
        "/proc/self/fd/../cwd/a",
        "/proc/self/cwd/a",
        "/proc/self/root/etc/a",
        " /etc/a",
    ] {
        expect_denied(&write(path), "Instead:");
    }
    for command in ["echo x > /dev/fd/../cwd/a", "cd .git; echo x > /proc/self/cwd/config"] {
        let shell = fixture.shell(command);
        expect_denied(
            &run_with_input(&mut fixture.gate("claude"), shell.as_bytes()),
            "bailiwick::protected",
        );
    }
    let to_devices = fixture.shell("echo x > src/a; echo y > /dev/fd/1; echo z > /dev/stderr");
    expect_allowed(&run_with_input(&mut fixture.gate("claude"), to_devices.as_bytes()));
}

#[test]
fn copied_symlinks_are_not_written_through_in_the_same_command() {
    let fixture = GateFixture::new();
    let root = fixture.root();
    for directory in ["docs/plain", "docs/linked", "src"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    std::fs::write(root.join("docs/plain/a"), "x").unwrap();
    std::os::unix::fs::symlink("../../README.md", root.join("docs/linked/a")).unwrap();
    let shell = |command: &str| {
        let call = fixture.shell(command);
        run_with_input(&mut fixture.gate("claude"), call.as_bytes())
    };
    for command in [
        "cp -r docs/plain src && echo y > src/plain/a",
        "cp -r docs/plain src && chmod 600 src/plain/*",
        "cp -r docs/linked src && echo y > src/b",
        "cp -r docs/linked src",
    ] {
        expect_allowed(&shell(command));
    }
    for command in [
        "cp -r docs/linked src && echo y > src/linked/a",
        "cp -r docs/linked src && chmod 600 src/linked/*",
        "cp -r docs/linked src && cp -r src/linked src/again && echo y > src/again/a",
    ] {
        expect_denied(&shell(command), "Instead:");
    }
}

#[test]
fn files_that_configure_hooks_are_protected() {
    let mut open_policy = policy();
    open_policy["whitelist"] = json!(["**"]);
    let fixture = GateFixture::with(&open_policy);
    let root = fixture.root();
    std::fs::create_dir_all(root.join(".claude/agents")).unwrap();
    std::fs::create_dir_all(root.join(".codex/notes")).unwrap();
    std::fs::write(root.join(".claude/settings.json"), "{}").unwrap();
    std::fs::write(root.join(".codex/notes/x"), "x").unwrap();
    let shell = |command: &str| {
        let call = fixture.shell(command);
        run_with_input(&mut fixture.gate("claude"), call.as_bytes())
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
        expect_denied(&shell(command), "bailiwick::protected");
    }
    for command in ["rm -rf .codex/notes", "rm -rf .claude/agents", "mkdir -p .gemini"] {
        expect_allowed(&shell(command));
    }
}
