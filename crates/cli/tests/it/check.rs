//! `kei-capability check`, and the two hook scripts: one capability decides one call.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use bailiwick_testkit::Scratch;
use serde_json::json;

use crate::{KEI_CAPABILITY, workspace};

fn scene() -> Scratch {
    let scratch = Scratch::repository();
    let task = "[task]\nrole = \"edit-local\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n";
    scratch.write("task.toml", task);
    scratch.commit("start");
    scratch
}

fn shell(scratch: &Scratch, command: &str) -> String {
    let input = json!({ "command": command });
    json!({"tool_name": "Bash", "tool_input": input, "cwd": scratch.root()}).to_string()
}

fn run_with_input(command: &mut Command, input: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// `kei-capability check NAME` with the scene's task.
fn check(scratch: &Scratch, name: &str) -> Command {
    let mut command = scratch.command(KEI_CAPABILITY);
    command.args(["check", name]).env("TASK_TOML", scratch.root().join("task.toml"));
    command
}

fn code_and_message(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn named_capability_is_checked_even_if_the_role_lacks_it() {
    let scratch = scene();
    // The role edit-local has neither of the last two capabilities.
    for (name, denied, allowed) in [
        ("policy::no-git-ops", "git status", "ls"),
        ("scope::files-whitelist", "echo x > README.md", "echo x > src/a.rs"),
        ("tools::bash-allowlist", "curl example.org", "cargo check"),
        ("policy::git-read-only", "git commit -m x", "git status"),
    ] {
        let (code, reason) =
            code_and_message(&run_with_input(&mut check(&scratch, name), &shell(&scratch, denied)));
        assert_eq!(code, Some(2), "{name}: {denied}");
        assert!(reason.starts_with(name) && reason.contains("Instead:"), "{reason}");
        let output = run_with_input(&mut check(&scratch, name), &shell(&scratch, allowed));
        assert_eq!(code_and_message(&output), (Some(0), String::new()), "{name}: {allowed}");
        assert!(output.stdout.is_empty(), "an allow is silent");
    }
}

#[test]
fn missing_or_invalid_configuration_denies() {
    let scratch = scene();
    let call = shell(&scratch, "ls");
    let refused = |command: &mut Command, expected: &str| {
        let (code, reason) = code_and_message(&run_with_input(command, &call));
        assert_eq!(code, Some(2), "{reason}");
        assert!(reason.contains(expected), "{expected:?} is not in {reason:?}");
    };
    let name = "policy::no-git-ops";
    refused(check(&scratch, name).env_remove("TASK_TOML"), "TASK_TOML is not set");
    refused(check(&scratch, name).env("TASK_TOML", "/nonexistent/task.toml"), "cannot be read");
    scratch.write("bad.toml", "[task]\nrole = \"edit-local\"\nfoo = 1\n");
    refused(check(&scratch, name).env("TASK_TOML", scratch.root().join("bad.toml")), "foo");
    scratch.write("role.toml", "[task]\nrole = \"nobody\"\n");
    let mut listed = check(&scratch, "tools::bash-allowlist");
    refused(listed.env("TASK_TOML", scratch.root().join("role.toml")), "nobody");
    refused(&mut check(&scratch, "policy::nothing"), "there is no capability");
    refused(&mut check(&scratch, "nonsense"), "nonsense");
    let (code, note) =
        code_and_message(&run_with_input(&mut check(&scratch, "quality::tests-green"), &call));
    assert_eq!(code, Some(0), "{note}");
    assert!(note.contains("has no gate, so that it does not apply"), "{note}");
    for input in ["", "{", "[]", "{\"tool_name\":\"Bash\"}"] {
        assert_eq!(
            code_and_message(&run_with_input(&mut check(&scratch, name), input)).0,
            Some(2),
            "{input}"
        );
    }
}

#[test]
fn bypass_needs_value_one_and_a_capability_that_names_it() {
    let scratch = scene();
    let call = shell(&scratch, "git push");
    let exit_code = |value: &str, name: &str| {
        code_and_message(&run_with_input(
            check(&scratch, name).env("ORCHESTRATOR_META", value),
            &call,
        ))
        .0
    };
    for value in ["", "0", "true", "yes", "11", " 1"] {
        assert_eq!(exit_code(value, "policy::no-git-ops"), Some(2), "{value:?}");
    }
    assert_eq!(exit_code("1", "policy::no-git-ops"), Some(0));
    assert_eq!(exit_code("1", "policy::git-read-only"), Some(2), "this capability names no bypass");
    // A variable that the command sets itself does not count.
    let inline = shell(&scratch, "ORCHESTRATOR_META=1 git push");
    assert_eq!(
        code_and_message(&run_with_input(&mut check(&scratch, "policy::no-git-ops"), &inline)).0,
        Some(2)
    );
}

#[test]
fn old_capability_name_works_and_prints_the_new_one() {
    let scratch = scene();
    let mut old = check(&scratch, "tools::cargo-only-bash");
    let (code, message) =
        code_and_message(&run_with_input(&mut old, &shell(&scratch, "cargo check")));
    assert_eq!(code, Some(0));
    assert!(message.contains("tools::bash-allowlist"), "{message}");
}

#[test]
fn check_writes_no_state() {
    let scratch = scene();
    let before = scratch.git(&["status", "--porcelain", "--ignored"]);
    run_with_input(&mut check(&scratch, "policy::no-git-ops"), &shell(&scratch, "git push"));
    assert_eq!(scratch.git(&["status", "--porcelain", "--ignored"]), before);
    let files = std::fs::read_dir(scratch.state()).into_iter().flatten().count();
    assert_eq!(files, 0, "state was written");
}

#[test]
fn files_in_the_worktree_do_not_weaken_the_limits() {
    let scratch = scene();
    let place = tempfile::tempdir().unwrap();
    let task = place.path().join("task.toml");
    std::fs::copy(scratch.root().join("task.toml"), &task).unwrap();
    // This capability would disable the gate.
    scratch.write(
        ".bailiwick/capabilities/policy/no-git-ops/capability.toml",
        "[capability]\nname = \"policy::no-git-ops\"\ncategory = \"policy\"\ndescription = \"d\"\n\
         [restricts]\ntool-patterns = ['^nothing']\n",
    );
    // The result is the same if the task file is elsewhere or in the workspace itself.
    for task in [&task, &scratch.root().join("task.toml")] {
        let mut command = check(&scratch, "policy::no-git-ops");
        let output = run_with_input(command.env("TASK_TOML", task), &shell(&scratch, "git push"));
        assert_eq!(code_and_message(&output).0, Some(2), "{}", task.display());
    }
}

#[test]
fn small_stack_does_not_bypass_the_gate() {
    let scratch = scene();
    let call = shell(&scratch, &format!("{}git push{}", "( ".repeat(30), " )".repeat(30)));
    let mut small = scratch.command("bash");
    let line = format!("ulimit -s 100; exec {KEI_CAPABILITY} check policy::no-git-ops");
    small.args(["-c", &line]).env("TASK_TOML", scratch.root().join("task.toml"));
    assert_eq!(code_and_message(&run_with_input(&mut small, &call)).0, Some(2));
}

fn hook_script(scratch: &Scratch, name: &str, path: &Path) -> Command {
    let mut hook = scratch.command(workspace().join("hooks").join(name));
    let path = std::env::join_paths([path, Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    hook.env("PATH", path).env("TASK_TOML", scratch.root().join("task.toml"));
    hook
}

#[test]
fn hook_scripts_need_a_capability_name_and_deny_without_the_program() {
    let scratch = scene();
    let call = shell(&scratch, "git push");
    let programs = Path::new(KEI_CAPABILITY).parent().unwrap();
    let nowhere = Path::new("/nonexistent");
    for name in ["agent-capability-check.sh", "agent-capability-verify.sh"] {
        let idle = run_with_input(&mut hook_script(&scratch, name, nowhere), &call);
        assert_eq!(code_and_message(&idle), (Some(0), String::new()), "{name}");
        let mut named = hook_script(&scratch, name, nowhere);
        let (code, message) = code_and_message(&run_with_input(
            named.env("KEI_CAPABILITY_NAME", "policy::no-git-ops"),
            &call,
        ));
        assert_eq!(code, Some(2), "{name}");
        assert!(message.contains("could not run"), "{message}");
    }
    let mut hook = hook_script(&scratch, "agent-capability-check.sh", programs);
    hook.env("KEI_CAPABILITY_NAME", "policy::no-git-ops");
    let (code, message) = code_and_message(&run_with_input(&mut hook, &call));
    assert_eq!(code, Some(2));
    assert!(message.contains("policy::no-git-ops: `git push` runs git"), "{message}");
    let mut hook = hook_script(&scratch, "agent-capability-check.sh", programs);
    hook.env("KEI_CAPABILITY_NAME", "policy::no-git-ops");
    assert_eq!(code_and_message(&run_with_input(&mut hook, &shell(&scratch, "ls"))).0, Some(0));
}
