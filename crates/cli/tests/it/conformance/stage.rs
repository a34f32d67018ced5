//! A repository in which one agent CLI runs tasks.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use bailiwick_testkit::Scratch;
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scratch::Ran;
use bailiwick_testkit::scripted_model::ScriptedModel;

use super::agent::Agent;
use crate::BAILIWICK;

/// It may write below `src/` and read git. There are no other limits, so that only these are tested.
const ROLE: &str = r#"[role]
name = "worker"
description = "Works in src."
[capabilities]
required = ["policy::git-read-only", "scope::files-whitelist"]
[tools]
allowed = ["*"]
"#;

/// A remote inside of the worktree: only the gate prevents a push to it.
const REMOTE: [(&str, &str); 4] = [
    ("origin.git/HEAD", "ref: refs/heads/main\n"),
    ("origin.git/config", "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"),
    ("origin.git/objects/info/.keep", ""),
    ("origin.git/refs/heads/.keep", ""),
];

/// The command that is denied.
pub(crate) const PUSH: &str = "git push origin HEAD:refs/heads/pushed";
pub(crate) const GIT: &str = "policy::git-read-only";
pub(crate) const FILES: &str = "scope::files-whitelist";

/// A repository for one CLI. All repositories share the results of the start tests of the gates.
pub(crate) struct Stage {
    pub(crate) cli: Cli,
    pub(crate) scratch: Scratch,
}

impl Stage {
    pub(crate) fn new(cli: Cli) -> Self {
        let stage = Self::empty(cli);
        let scratch = &stage.scratch;
        scratch.write(".bailiwick/roles/worker.toml", ROLE);
        // No approvals are needed here, and the short timeout ends a gate that hangs sooner.
        scratch.write(".bailiwick/settings.toml", "[run]\napproval-seconds = 1\n");
        scratch.write("src/kept.txt", "kept\n");
        for (path, text) in REMOTE {
            scratch.write(path, text);
        }
        scratch.commit("Begin");
        scratch.git(&["remote", "add", "origin", "origin.git"]);
        stage
    }

    /// An empty repository.
    pub(crate) fn empty(cli: Cli) -> Self {
        let scratch = Scratch::repository();
        for name in ["canaries", "versions"] {
            symlink(test_cache().join(name), scratch.state().join(name)).unwrap();
        }
        Self { cli, scratch }
    }

    /// An agent that is not started yet.
    pub(crate) fn agent<'a>(&'a self, id: &'a str) -> Agent<'a> {
        Agent::new(self, id)
    }

    /// The directory of the CLI's program.
    pub(crate) fn programs(&self) -> PathBuf {
        let programs = self.cli.program().parent().unwrap().to_path_buf();
        match self.cli {
            // This directory has the node that it needs.
            Cli::Gemini => programs.join("node_modules/.bin"),
            Cli::Claude | Cli::Codex | Cli::OpenCode => programs,
        }
    }

    /// `bailiwick`, with the CLI on PATH and a model for it.
    pub(crate) fn command(&self, model: Option<&ScriptedModel>, wrapped: Option<&Path>) -> Command {
        let mut command = self.scratch.command(BAILIWICK);
        let programs = self.programs();
        let mut directories = vec![programs.clone()];
        if let Some(wrapper) = wrapped {
            // The directory around the program is visible in a sandbox only if it is named.
            directories =
                vec![wrapper.to_path_buf(), programs.parent().unwrap().to_path_buf(), programs];
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = directories.into_iter().chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(path).unwrap());
        let base = model.map(ScriptedModel::base_url).unwrap_or_default();
        match self.cli {
            Cli::Claude => command.env("ANTHROPIC_BASE_URL", base),
            Cli::Codex | Cli::OpenCode => command.env("OPENAI_BASE_URL", format!("{base}/v1")),
            Cli::Gemini => command.env("GOOGLE_GEMINI_BASE_URL", base),
        };
        for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"] {
            command.env(name, "a-key-of-nobody");
        }
        command
    }

    pub(crate) fn bailiwick(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.command(None, None).args(arguments).output().unwrap())
    }
}

/// The results of start tests in this process: each gate is tested once for each configuration, because
/// starting a CLI takes most of the time of a test.
pub(crate) fn test_cache() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("known");
        let _ = std::fs::remove_dir_all(&directory);
        for name in ["canaries", "versions"] {
            std::fs::create_dir_all(directory.join(name)).unwrap();
        }
        directory
    })
}
