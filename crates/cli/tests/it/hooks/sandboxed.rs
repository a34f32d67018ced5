//! Shell commands of agents that people start themselves, run as Claude Code runs them: through the file
//! that its settings name.

use std::path::PathBuf;
use std::process::Stdio;

use bailiwick_testkit::scratch::Ran;
use serde_json::Value;

use super::Bench;

const SETTINGS: &str = ".claude/settings.local.json";
const VARIABLE: &str = "/env/CLAUDE_CODE_SHELL_PREFIX";

fn bench() -> Bench {
    let bench = Bench::new();
    bench.scratch.write("src/a.txt", "a\n");
    bench.scratch.write("docs/guide.md", "guide\n");
    bench.scratch.commit("files");
    bench
}

fn install(bench: &Bench, more: &[&str]) -> Ran {
    let words = ["install", "claude", "--role", "developer", "--files", "src/**"];
    bench.run(&[&words[..], more].concat())
}

/// The program that the settings name, if any.
fn program(bench: &Bench) -> Option<PathBuf> {
    let settings: Value = serde_json::from_str(&bench.scratch.read(SETTINGS)).unwrap();
    settings.pointer(VARIABLE).and_then(Value::as_str).map(PathBuf::from)
}

/// Runs a command as Claude Code does.
fn shell(bench: &Bench, command: &str) -> Ran {
    let mut shell = bench.scratch.command(program(bench).unwrap());
    shell.arg(command).stdin(Stdio::null());
    Ran::from(shell.output().unwrap())
}

#[test]
fn a_command_changes_its_scope_and_nothing_else() {
    let bench = bench();
    install(&bench, &[]).expect_code(0);
    shell(&bench, "echo new > src/new.txt").expect_code(0);
    assert_eq!(bench.scratch.read("src/new.txt"), "new\n", "the control: it may write there");
    let before = bench.snapshot();
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
        let ran = shell(&bench, command);
        assert_ne!(ran.code, 0, "{command}: {}{}", ran.out, ran.err);
    }
    let without_scratch = |seen: &std::collections::BTreeMap<PathBuf, String>| {
        let ours = |path: &PathBuf| !path.display().to_string().contains("/scratch");
        seen.iter()
            .filter(|(path, _)| ours(path))
            .map(|(path, text)| (path.clone(), text.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(without_scratch(&bench.snapshot()), without_scratch(&before));
}

#[test]
fn a_command_cannot_read_the_logins_of_the_person() {
    let bench = bench();
    install(&bench, &[]).expect_code(0);
    let place = bench.scratch.place().join("config/bailiwick");
    std::fs::create_dir_all(place.join("client")).unwrap();
    std::fs::write(place.join("client/contexts.toml"), "token = \"bwk_secret\"\n").unwrap();
    std::fs::write(place.join("other.toml"), "shown\n").unwrap();
    let read = |name: &str| shell(&bench, &format!("cat {}", place.join(name).display()));
    assert_eq!(read("other.toml").expect_code(0).out, "shown\n", "the control");
    let hidden = read("client/contexts.toml");
    assert!(hidden.code != 0 && !hidden.out.contains("bwk_secret"), "{}", hidden.out);
}

#[test]
fn settings_and_hooks_that_are_not_there_yet_cannot_be_made() {
    let bench = bench();
    bench.scratch.write(
        ".bailiwick/roles/committer.toml",
        "[role]\nname = \"committer\"\ndescription = \"d\"\n[capabilities]\nrequired = \
         [\"scope::files-whitelist\"]\n[tools]\nallowed = [\"*\"]\n",
    );
    bench.scratch.commit("role");
    std::fs::remove_dir_all(bench.scratch.root().join(".git/hooks")).unwrap_or_default();
    bench.run(&["install", "claude", "--role", "committer", "--files", "**"]).expect_code(0);
    let seen =
        shell(&bench, "git -c user.name=a -c user.email=a@b.c commit -qm by-agent --allow-empty");
    assert_eq!(seen.code, 0, "the control: it may commit: {}", seen.err);
    for command in [
        "echo '{}' > .claude/settings.json",
        "mkdir -p .git/hooks && echo 'touch x' > .git/hooks/post-commit",
        "git config core.pager evil",
    ] {
        let ran = shell(&bench, command);
        assert_ne!(ran.code, 0, "{command}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn streams_and_exit_codes_are_those_of_the_command() {
    let bench = bench();
    install(&bench, &[]).expect_code(0);
    let ran = shell(&bench, "echo out; echo err >&2; exit 7");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (7, "out\n", "err\n"));
    let ran = shell(&bench, "kill -TERM $$");
    assert_eq!(ran.code, 143);
}

#[test]
fn new_files_that_are_not_its_work_are_named_in_what_a_command_prints() {
    let bench = bench();
    install(&bench, &[]).expect_code(0);
    let ran = shell(&bench, "echo '{}' > src/package.json; echo x > notes.md; mkdir -p target/a");
    assert!(ran.err.contains("removed") && ran.err.contains("src/package.json"), "{}", ran.err);
    assert!(ran.err.contains("notes.md (scope::files-whitelist)"), "{}", ran.err);
    assert!(!bench.scratch.root().join("src/package.json").exists());
    assert!(!bench.scratch.root().join("notes.md").exists());
    let again = shell(&bench, "cat notes.md").expect_code(0);
    assert_eq!((again.out.as_str(), again.err.as_str()), ("x\n", ""), "it is told once");
}

#[test]
fn what_cannot_be_held_is_not_run() {
    let bench = bench();
    install(&bench, &[]).expect_code(0);
    let program = program(&bench).unwrap();
    let policy = program.with_file_name("policy.json");
    std::fs::write(&policy, "{}").unwrap();
    let ran = shell(&bench, "echo ran").expect_code(126);
    assert_eq!(ran.out, "");
    assert!(ran.err.contains("the command was not run"), "{}", ran.err);
}

#[test]
fn commands_without_a_sandbox_are_a_choice_that_status_shows() {
    let bench = bench();
    install(&bench, &["--no-sandbox"]).expect_code(0);
    assert_eq!(program(&bench), None);
    let shown = bench.run(&["status", "claude"]).expect_code(0);
    assert!(shown.out.contains("shell commands without a sandbox"), "{}", shown.out);
    install(&bench, &[]).expect_code(0);
    assert!(program(&bench).is_some_and(|program| program.is_file()));
    assert!(!bench.run(&["status", "claude"]).out.contains("without a sandbox"));
    bench.run(&["remove", "claude"]).expect_code(0);
    assert!(!bench.scratch.root().join(SETTINGS).exists(), "what was made goes again");
}

#[test]
fn a_prefix_of_the_person_refuses_the_sandbox_and_not_the_gate() {
    let bench = bench();
    bench.scratch.write(SETTINGS, "{\"env\": {\"CLAUDE_CODE_SHELL_PREFIX\": \"/usr/bin/nice\"}}\n");
    let refused = install(&bench, &[]).expect_code(2);
    assert!(refused.err.contains("without the sandbox"), "{}", refused.err);
    install(&bench, &["--no-sandbox"]).expect_code(0);
    assert_eq!(program(&bench), Some(PathBuf::from("/usr/bin/nice")), "it stays");
    assert_eq!(bench.status("claude").0, "intact");
}

#[test]
fn what_the_person_wrote_since_is_what_a_command_sees() {
    let bench = bench();
    install(&bench, &[]).expect_code(0);
    shell(&bench, "echo old > notes.md; rm -f more.md; (cd src && git status)").expect_code(0);
    std::thread::sleep(std::time::Duration::from_millis(20));
    bench.scratch.write("notes.md", "mine\n");
    let seen = shell(&bench, "cat notes.md").expect_code(0);
    assert_eq!(seen.out, "mine\n");
    bench.run(&["remove", "claude"]).expect_code(0);
    let state = bench.scratch.state().join("hooks");
    let left: Vec<_> = std::fs::read_dir(state).into_iter().flatten().flatten().collect();
    assert!(left.iter().all(|one| !one.path().join("scratch").exists()), "{left:?}");
}

#[test]
fn a_variable_that_was_taken_out_is_found() {
    let bench = bench();
    install(&bench, &[]).expect_code(0);
    let mut settings: Value = serde_json::from_str(&bench.scratch.read(SETTINGS)).unwrap();
    settings.as_object_mut().unwrap().remove("env");
    bench.scratch.write(SETTINGS, &settings.to_string());
    let (standing, codes) = bench.status("claude");
    assert_eq!(standing, "drifted");
    assert!(codes.contains(&"no-sandbox".to_owned()), "{codes:?}");
}

#[test]
fn a_repository_cannot_pass_another_program_off_as_ours() {
    let bench = bench();
    install(&bench, &["--user"]).expect_code(0);
    bench.run(&["status", "claude"]).expect_code(0);
    let other = "{\"env\": {\"CLAUDE_CODE_SHELL_PREFIX\": \"/x/hooks/claude-user/bash\"}}\n";
    bench.scratch.write(".claude/settings.json", other);
    let shown = bench.run(&["status", "claude"]).expect_code(1);
    assert!(shown.out.contains("CLAUDE_CODE_SHELL_PREFIX is set"), "{}", shown.out);
}

#[test]
fn a_command_whose_new_files_cannot_be_examined_has_failed() {
    let bench = bench();
    install(&bench, &[]).expect_code(0);
    let command = "echo '{}' > src/package.json";
    shell(&bench, command).expect_code(0);
    let removed = bench.kept("claude").join("removed");
    std::fs::remove_dir_all(&removed).unwrap();
    std::fs::write(&removed, "in the way").unwrap();
    let ran = shell(&bench, command).expect_code(125);
    assert!(ran.err.contains("could not be examined"), "{}", ran.err);
    assert_eq!(shell(&bench, &format!("{command}; exit 7")).code, 7, "its own code stays");
}

#[test]
fn the_gate_leaves_paths_to_the_sandbox_once_that_has_run_a_command_of_this_agent() {
    let bench = bench();
    std::fs::remove_file(bench.bin().join("bailiwick-gate")).unwrap();
    install(&bench, &[]).expect_code(0);
    let hook = super::last_command(&bench.scratch.read(SETTINGS));
    let ask = |command: &str| {
        let input = serde_json::json!({
            "session_id": "s", "cwd": bench.scratch.root(), "hook_event_name": "PreToolUse",
            "tool_name": "Bash", "tool_input": {"command": command},
        });
        let mut shell = bench.scratch.command("sh");
        shell.args(["-c", &hook]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut pipe, input.to_string().as_bytes()).unwrap();
        drop(pipe);
        Ran::from(child.wait_with_output().unwrap())
    };
    let computed = "f=$(cat src/a.txt); echo x > \"$f\"";
    assert_eq!(ask(computed).code, 2, "nothing shows yet that a sandbox holds it");
    shell(&bench, "true").expect_code(0);
    let ran = ask(computed);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ask("echo x > docs/guide.md").code, 2, "what the text says is still denied");
}
