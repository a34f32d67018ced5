//! Shell commands of agents that users start themselves, run as Claude Code runs them: through the shell prefix
//! in its settings.

use std::path::PathBuf;
use std::process::Stdio;

use bailiwick_testkit::scratch::Ran;
use serde_json::Value;

use super::Fixture;

const SETTINGS: &str = ".claude/settings.local.json";
const VARIABLE: &str = "/env/CLAUDE_CODE_SHELL_PREFIX";

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.scratch.write("src/a.txt", "a\n");
    fixture.scratch.write("docs/guide.md", "guide\n");
    fixture.scratch.commit("files");
    fixture
}

fn install(fixture: &Fixture, extra: &[&str]) -> Ran {
    let arguments = ["install", "claude", "--role", "developer", "--files", "src/**"];
    fixture.run(&[&arguments[..], extra].concat())
}

/// The program that the settings name, if any.
fn program(fixture: &Fixture) -> Option<PathBuf> {
    let settings: Value = serde_json::from_str(&fixture.scratch.read(SETTINGS)).unwrap();
    settings.pointer(VARIABLE).and_then(Value::as_str).map(PathBuf::from)
}

/// Runs a command as Claude Code does.
fn shell(fixture: &Fixture, command: &str) -> Ran {
    let mut shell = fixture.scratch.command(program(fixture).unwrap());
    shell.arg(command).stdin(Stdio::null());
    Ran::from(shell.output().unwrap())
}

#[test]
fn command_can_write_only_its_scope() {
    let fixture = fixture();
    install(&fixture, &[]).expect_code(0);
    shell(&fixture, "echo new > src/new.txt").expect_code(0);
    assert_eq!(
        fixture.scratch.read("src/new.txt"),
        "new\n",
        "positive control: it may write there"
    );
    let before = fixture.snapshot();
    for command in [
        "echo x > docs/guide.md",
        "python3 -c \"open('docs/guide.md','w').write('x')\"",
        "mv docs gone",
        "rm -rf .git/refs",
        "git commit --allow-empty -m x",
        "echo '{}' > .claude/settings.local.json",
        "mv .claude elsewhere",
        "echo x > ~/.bashrc",
        "echo x > $(dirname $(dirname $0))/x",
    ] {
        let ran = shell(&fixture, command);
        assert_ne!(ran.code, 0, "{command}: {}{}", ran.out, ran.err);
    }
    let without_scratch = |entries: &std::collections::BTreeMap<PathBuf, String>| {
        let is_relevant = |path: &PathBuf| !path.display().to_string().contains("/scratch");
        entries
            .iter()
            .filter(|(path, _)| is_relevant(path))
            .map(|(path, text)| (path.clone(), text.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(without_scratch(&fixture.snapshot()), without_scratch(&before));
}

#[test]
fn command_cannot_read_the_logins_of_the_user() {
    let fixture = fixture();
    install(&fixture, &[]).expect_code(0);
    let directory = fixture.scratch.place().join("config/bailiwick");
    std::fs::create_dir_all(directory.join("client")).unwrap();
    std::fs::write(directory.join("client/contexts.toml"), "token = \"bwk_secret\"\n").unwrap();
    std::fs::write(directory.join("other.toml"), "shown\n").unwrap();
    let read = |name: &str| shell(&fixture, &format!("cat {}", directory.join(name).display()));
    assert_eq!(read("other.toml").expect_code(0).out, "shown\n", "positive control");
    let denied = read("client/contexts.toml");
    assert!(denied.code != 0 && !denied.out.contains("bwk_secret"), "{}", denied.out);
}

#[test]
fn missing_settings_and_hooks_cannot_be_created() {
    let fixture = fixture();
    fixture.scratch.write(
        ".bailiwick/roles/committer.toml",
        "[role]\nname = \"committer\"\ndescription = \"d\"\n[capabilities]\nrequired = \
         [\"scope::files-whitelist\"]\n[tools]\nallowed = [\"*\"]\n",
    );
    fixture.scratch.commit("role");
    std::fs::remove_dir_all(fixture.scratch.root().join(".git/hooks")).unwrap_or_default();
    fixture.run(&["install", "claude", "--role", "committer", "--files", "**"]).expect_code(0);
    let committed =
        shell(&fixture, "git -c user.name=a -c user.email=a@b.c commit -qm by-agent --allow-empty");
    assert_eq!(committed.code, 0, "positive control: it may commit: {}", committed.err);
    for command in [
        "echo '{}' > .claude/settings.json",
        "mkdir -p .git/hooks && echo 'touch x' > .git/hooks/post-commit",
        "git config core.pager evil",
    ] {
        let ran = shell(&fixture, command);
        assert_ne!(ran.code, 0, "{command}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn streams_and_exit_codes_are_those_of_the_command() {
    let fixture = fixture();
    install(&fixture, &[]).expect_code(0);
    let ran = shell(&fixture, "echo out; echo err >&2; exit 7");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (7, "out\n", "err\n"));
    let ran = shell(&fixture, "kill -TERM $$");
    assert_eq!(ran.code, 143);
}

#[test]
fn new_files_outside_the_scope_are_removed_and_named_in_the_output() {
    let fixture = fixture();
    install(&fixture, &[]).expect_code(0);
    let ran = shell(&fixture, "echo '{}' > src/package.json; echo x > notes.md; mkdir -p target/a");
    assert!(ran.err.contains("removed") && ran.err.contains("src/package.json"), "{}", ran.err);
    assert!(ran.err.contains("notes.md (scope::files-whitelist)"), "{}", ran.err);
    assert!(!fixture.scratch.root().join("src/package.json").exists());
    assert!(!fixture.scratch.root().join("notes.md").exists());
    let again = shell(&fixture, "cat notes.md").expect_code(0);
    assert_eq!(
        (again.out.as_str(), again.err.as_str()),
        ("x\n", ""),
        "the removal is reported only once"
    );
}

#[test]
fn command_that_cannot_be_sandboxed_is_not_run() {
    let fixture = fixture();
    install(&fixture, &[]).expect_code(0);
    let program = program(&fixture).unwrap();
    let policy = program.with_file_name("policy.json");
    std::fs::write(&policy, "{}").unwrap();
    let ran = shell(&fixture, "echo ran").expect_code(126);
    assert_eq!(ran.out, "");
    assert!(ran.err.contains("the command was not run"), "{}", ran.err);
}

#[test]
fn status_shows_commands_without_a_sandbox() {
    let fixture = fixture();
    install(&fixture, &["--no-sandbox"]).expect_code(0);
    assert_eq!(program(&fixture), None);
    let shown = fixture.run(&["status", "claude"]).expect_code(0);
    assert!(shown.out.contains("shell commands without a sandbox"), "{}", shown.out);
    install(&fixture, &[]).expect_code(0);
    assert!(program(&fixture).is_some_and(|program| program.is_file()));
    assert!(!fixture.run(&["status", "claude"]).out.contains("without a sandbox"));
    fixture.run(&["remove", "claude"]).expect_code(0);
    assert!(
        !fixture.scratch.root().join(SETTINGS).exists(),
        "the created settings file was not deleted"
    );
}

#[test]
fn user_shell_prefix_prevents_the_sandbox_but_not_the_gate() {
    let fixture = fixture();
    fixture
        .scratch
        .write(SETTINGS, "{\"env\": {\"CLAUDE_CODE_SHELL_PREFIX\": \"/usr/bin/nice\"}}\n");
    let refused = install(&fixture, &[]).expect_code(2);
    assert!(refused.err.contains("without the sandbox"), "{}", refused.err);
    install(&fixture, &["--no-sandbox"]).expect_code(0);
    assert_eq!(
        program(&fixture),
        Some(PathBuf::from("/usr/bin/nice")),
        "the user's prefix was changed"
    );
    assert_eq!(fixture.status("claude").0, "intact");
}

#[test]
fn command_sees_later_changes_of_the_user() {
    let fixture = fixture();
    install(&fixture, &[]).expect_code(0);
    shell(&fixture, "echo old > notes.md; rm -f more.md; (cd src && git status)").expect_code(0);
    std::thread::sleep(std::time::Duration::from_millis(20));
    fixture.scratch.write("notes.md", "mine\n");
    let output = shell(&fixture, "cat notes.md").expect_code(0);
    assert_eq!(output.out, "mine\n");
    fixture.run(&["remove", "claude"]).expect_code(0);
    let state = fixture.scratch.state().join("hooks");
    let remaining: Vec<_> = std::fs::read_dir(state).into_iter().flatten().flatten().collect();
    assert!(remaining.iter().all(|one| !one.path().join("scratch").exists()), "{remaining:?}");
}

#[test]
fn removed_variable_is_detected() {
    let fixture = fixture();
    install(&fixture, &[]).expect_code(0);
    let mut settings: Value = serde_json::from_str(&fixture.scratch.read(SETTINGS)).unwrap();
    settings.as_object_mut().unwrap().remove("env");
    fixture.scratch.write(SETTINGS, &settings.to_string());
    let (standing, codes) = fixture.status("claude");
    assert_eq!(standing, "drifted");
    assert!(codes.contains(&"no-sandbox".to_owned()), "{codes:?}");
}

#[test]
fn repository_cannot_substitute_another_shell_program() {
    let fixture = fixture();
    install(&fixture, &["--user"]).expect_code(0);
    fixture.run(&["status", "claude"]).expect_code(0);
    let other = "{\"env\": {\"CLAUDE_CODE_SHELL_PREFIX\": \"/x/hooks/claude-user/bash\"}}\n";
    fixture.scratch.write(".claude/settings.json", other);
    let shown = fixture.run(&["status", "claude"]).expect_code(1);
    assert!(shown.out.contains("CLAUDE_CODE_SHELL_PREFIX is set"), "{}", shown.out);
}

#[test]
fn command_fails_if_its_new_files_cannot_be_examined() {
    let fixture = fixture();
    install(&fixture, &[]).expect_code(0);
    let command = "echo '{}' > src/package.json";
    shell(&fixture, command).expect_code(0);
    let removed = fixture.hook_directory("claude").join("removed");
    std::fs::remove_dir_all(&removed).unwrap();
    std::fs::write(&removed, "in the way").unwrap();
    let ran = shell(&fixture, command).expect_code(125);
    assert!(ran.err.contains("could not be examined"), "{}", ran.err);
    assert_eq!(
        shell(&fixture, &format!("{command}; exit 7")).code,
        7,
        "the exit code of the command is kept"
    );
}

#[test]
fn gate_leaves_paths_to_the_sandbox_after_it_has_run_a_command() {
    let fixture = fixture();
    std::fs::remove_file(fixture.bin().join("bailiwick-gate")).unwrap();
    install(&fixture, &[]).expect_code(0);
    let hook = super::last_command(&fixture.scratch.read(SETTINGS));
    let run_hook = |command: &str| {
        let input = serde_json::json!({
            "session_id": "s", "cwd": fixture.scratch.root(), "hook_event_name": "PreToolUse",
            "tool_name": "Bash", "tool_input": {"command": command},
        });
        let mut shell = fixture.scratch.command("sh");
        shell.args(["-c", &hook]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut pipe, input.to_string().as_bytes()).unwrap();
        drop(pipe);
        Ran::from(child.wait_with_output().unwrap())
    };
    let computed = "f=$(cat src/a.txt); echo x > \"$f\"";
    assert_eq!(run_hook(computed).code, 2, "no command has run in the sandbox yet");
    shell(&fixture, "true").expect_code(0);
    let ran = run_hook(computed);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        run_hook("echo x > docs/guide.md").code,
        2,
        "a call that is forbidden by its text is still denied"
    );
}
