//! The gate as a program: what it answers, and that whatever goes wrong is a denial.

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
struct HttpGate {
    place: TempDir,
    digest: String,
}

impl HttpGate {
    /// With a policy that forbids git and lets files be written below `src/`.
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

    /// The gate's command, ready but for its input.
    fn gate(&self, dialect: &str) -> Command {
        let mut gate = program();
        gate.args(["--dialect", dialect, "--digest", &self.digest]);
        gate.arg("--policy").arg(self.path("policy.json"));
        gate.arg("--root").arg(self.root());
        gate.current_dir(self.root());
        gate
    }

    /// A shell call as Claude Code tells it.
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
fn ask(command: &mut Command, input: &[u8]) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A gate that refuses early does not read to the end.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn allowed(output: &Output) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "it must stay silent: {told}");
}

fn denied(output: &Output, because: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains(because), "{because:?} is not in {told:?}");
    assert!(told.contains("Instead:"), "{told}");
}

fn examples() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let deps: &Path = own.parent().unwrap();
    deps.parent().unwrap().join("examples")
}
