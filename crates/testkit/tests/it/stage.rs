//! A repository with a remote, and a gate made of a few lines of shell that forbids pushes.

use std::path::{Path, PathBuf};

use bailiwick_testkit::Scratch;
use bailiwick_testkit::clis::{Cli, CliRun};
use bailiwick_testkit::scripted_model::ScriptedModel;
use serde_json::Value;

/// The gate's message for a push.
pub(crate) const REASON: &str = "pushing is left to people; commit and stop";

/// The wrapper's message for a gate that could not run.
pub(crate) const BROKEN: &str = "bailiwick: the gate could not run, so the call is denied";

/// Every exit of the gate except an approval or a denial becomes a denial.
pub(crate) fn wrapped(gate: &str) -> String {
    format!("{gate}; case $? in 0) ;; 2) exit 2;; *) echo \"{BROKEN}\" >&2; exit 2;; esac")
}

/// Stores each call as a file in $1, and denies calls that contain `git push`.
const GATE: &str = r#"#!/bin/sh
call=$(cat)
printf '%s\n' "$call" >"$1/$(date +%s%N)-$$.json"
case $call in
*"git push"*) echo "REASON" >&2; exit 2 ;;
esac
"#;

/// The environment in which a CLI is tested.
pub(crate) struct Stage {
    scratch: Scratch,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::repository();
        scratch.write("README.md", "A test.\n");
        scratch.commit("Begin");
        let remote = scratch.place().join("remote.git").display().to_string();
        scratch.git(&["init", "--quiet", "--bare", &remote]);
        scratch.git(&["remote", "add", "origin", &remote]);
        std::fs::create_dir(scratch.place().join("asked")).unwrap();
        std::fs::write(scratch.place().join("gate.sh"), GATE.replace("REASON", REASON)).unwrap();
        Self { scratch }
    }

    pub(crate) fn worktree(&self) -> PathBuf {
        self.scratch.root().canonicalize().unwrap()
    }

    /// The absolute path of a file in the worktree.
    pub(crate) fn path(&self, name: &str) -> String {
        self.worktree().join(name).display().to_string()
    }

    /// The text of a file in the worktree, if it exists.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.worktree().join(name)).ok()
    }

    /// The command that asks the gate.
    pub(crate) fn gate(&self) -> String {
        let place = self.scratch.place();
        let (script, calls_directory) = (place.join("gate.sh"), place.join("asked"));
        format!("/bin/sh '{}' '{}'", script.display(), calls_directory.display())
    }

    /// A run of a CLI in the worktree, in which only the gate restricts it.
    pub(crate) fn run(&self, cli: Cli, model: &ScriptedModel) -> CliRun {
        let run = CliRun::new(cli, model, &self.worktree());
        match cli {
            Cli::Claude => {
                run.settings(r#"{"permissions":{"allow":["Bash","Read","Edit","Write","Agent"]}}"#)
            }
            Cli::Codex | Cli::Gemini | Cli::OpenCode => run,
        }
    }

    /// The calls that the gate received, in order.
    pub(crate) fn gate_calls(&self) -> Vec<Value> {
        let entries = std::fs::read_dir(self.scratch.place().join("asked")).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.iter().map(|file| parsed(file)).collect()
    }

    /// Whether anything has been pushed.
    pub(crate) fn pushed(&self) -> bool {
        !self.scratch.git(&["ls-remote", "origin"]).is_empty()
    }
}

fn parsed(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
