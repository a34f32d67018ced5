//! The gate program: its decisions, and that every failure is a denial.

mod fails_closed;
mod forwarding;
mod load;
mod records;
mod walking;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use bailiwick_policy::policy::digest;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A repository, a policy and the gate.
struct GateFixture {
    place: TempDir,
    digest: String,
}

impl GateFixture {
    /// With a policy that forbids git, and allows writes below `src/`.
    fn new() -> Self {
        Self::with(&policy())
    }

    fn with(policy: &Value) -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("repo/src")).unwrap();
        let text = policy.to_string();
        std::fs::write(place.path().join("policy.json"), &text).unwrap();
        Self { place, digest: digest(text.as_bytes()) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn root(&self) -> PathBuf {
        self.path("repo")
    }

    /// The gate's command, without its input.
    fn gate(&self, dialect: &str) -> Command {
        let mut gate = program();
        gate.args(["--dialect", dialect, "--digest", &self.digest]);
        gate.arg("--policy").arg(self.path("policy.json"));
        gate.arg("--root").arg(self.root());
        gate.current_dir(self.root());
        gate
    }

    /// A shell call as Claude Code sends it.
    fn shell(&self, command: &str) -> String {
        json!({
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": command},
            "cwd": self.root(),
        })
        .to_string()
    }
}

fn program() -> Command {
    let mut gate = Command::new(crate::BAILIWICK_GATE);
    gate.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
    gate
}

fn policy() -> Value {
    json!({
        "format": 1,
        "role": "test",
        "tools": ["Bash", "Read", "Write", "Edit", "mcp__files__*"],
        "rules": [
            {"capability": "policy::no-git-ops", "gate": "gates::policy_no_git_ops",
             "tools": ["Bash"], "severity": "block"},
            {"capability": "scope::files-whitelist", "gate": "gates::scope_files_whitelist",
             "tools": ["Edit", "Write", "NotebookEdit", "Bash"], "severity": "block"},
        ],
        "whitelist": ["src/**"],
        "escalation": "ask-via-return",
    })
}

/// Runs a command with this input.
fn run_with_input(command: &mut Command, input: &[u8]) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A gate that denies early does not read all of its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn expect_allowed(output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(
        output.stdout.is_empty() && output.stderr.is_empty(),
        "an allowed call must print nothing: {stderr}"
    );
}

fn expect_denied(output: &Output, expected: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains(expected), "{expected:?} is not in {stderr:?}");
    assert!(stderr.contains("Instead:"), "{stderr}");
}

fn examples() -> PathBuf {
    let test_program = std::env::current_exe().unwrap();
    let deps: &Path = test_program.parent().unwrap();
    deps.parent().unwrap().join("examples")
}
