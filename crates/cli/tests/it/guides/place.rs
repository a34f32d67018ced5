//! The environment of a guide: a temporary repository, the programs of this build, agent programs, a model.

use std::path::PathBuf;

use bailiwick_testkit::Scratch;
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::ScriptedModel;
use serde_json::Value;

use super::guide::programs;
use super::shell::{COMMAND_TIMEOUT, Shell};

/// A key that no provider knows.
pub(crate) const KEY: &str = "a-key-of-nobody";

/// A temporary repository and its environment.
pub(crate) struct Place {
    pub(crate) scratch: Scratch,
    path: Vec<PathBuf>,
    variables: Vec<(String, String)>,
}

impl Place {
    /// A repository with one file in `src/`.
    pub(crate) fn new() -> Self {
        let scratch = Scratch::repository();
        scratch.write("src/kept.txt", "kept\n");
        scratch.commit("Begin");
        let path = vec![programs(scratch.place())];
        let variables = vec![("USER".to_owned(), "ada".to_owned())];
        Self { scratch, path, variables }
    }

    /// With an agent CLI on PATH, and the cached results of its start tests.
    pub(crate) fn with_cli(mut self, cli: Cli) -> Self {
        let program = cli.program();
        let directory = program.parent().unwrap();
        self.path.push(match cli {
            // This directory has the node that it needs.
            Cli::Gemini => directory.join("node_modules/.bin"),
            Cli::Claude | Cli::Codex | Cli::OpenCode => directory.to_path_buf(),
        });
        for name in ["canaries", "versions"] {
            let link = self.scratch.state().join(name);
            if !link.exists() {
                let target = crate::conformance::stage::test_cache().join(name);
                std::os::unix::fs::symlink(target, link).unwrap();
            }
        }
        self
    }

    /// With a scripted model for Claude Code.
    pub(crate) fn with_model(self, model: &ScriptedModel) -> Self {
        self.variable("ANTHROPIC_BASE_URL", model.base_url())
    }

    pub(crate) fn variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Commits a task with this id, whose scripted agent runs these steps.
    pub(crate) fn add_script_task(&self, path: &str, id: &str, steps: &str) {
        let head = format!("[task]\nrole = \"developer\"\nagent-id = \"{id}\"\n");
        let rest = "[scope]\nfiles-whitelist = [\"src/**\"]\nfiles-denylist = []\n[verification]\n\
                    commands = [\"test -d src\"]\n[body]\ntext = \"Do it.\"\n[agent]\n\
                    cli = \"script\"\n";
        self.scratch.write(path, &format!("{head}{rest}{steps}"));
        self.scratch.commit(&format!("Add the task of {id}"));
    }

    /// A terminal in the repository.
    pub(crate) fn shell(&self) -> Shell {
        let mut bash = self.scratch.command("bash");
        bash.env("PATH", self.path());
        bash.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let terminals = self.scratch.place().join("terminals");
        let number = std::fs::read_dir(&terminals).map_or(0, Iterator::count);
        Shell::start(bash, &terminals.join(number.to_string()))
    }

    /// The value of PATH.
    pub(crate) fn path(&self) -> String {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = self.path.iter().cloned().chain(std::env::split_paths(&path));
        std::env::join_paths(path).unwrap().into_string().unwrap()
    }

    /// Spawns an agent and changes a file in its worktree, as if it had run.
    pub(crate) fn add_work(&self, id: &str, path: &str, text: &str) {
        self.add_script_task(&format!("{id}.toml"), id, "");
        let spawned = self.scratch.run(crate::BAILIWICK, &["spawn", &format!("{id}.toml")]);
        spawned.expect_code(0);
        let file = self.scratch.state().join("worktrees").join(id).join(path);
        std::fs::write(file, text).unwrap();
    }

    /// The JSON output of a command.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["-o", "json"]].concat();
        let output = self.scratch.run(crate::BAILIWICK, &arguments);
        serde_json::from_str(&output.out)
            .unwrap_or_else(|_| panic!("{arguments:?}: {}{}", output.out, output.err))
    }

    /// Waits until `find` returns a value.
    #[track_caller]
    pub(crate) fn wait_for<T>(&self, what: &str, mut find: impl FnMut() -> Option<T>) -> T {
        let deadline = std::time::Instant::now() + COMMAND_TIMEOUT;
        loop {
            if let Some(found) = find() {
                return found;
            }
            let fleet = ["deliveries", "executions", "runs", "approvals", "stacks"];
            let state = |kind| format!("{kind}: {:#}", self.json(&["get", kind]));
            if std::time::Instant::now() > deadline {
                panic!("timed out waiting for {what}: {}", fleet.map(state).join("\n"));
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    }
}
