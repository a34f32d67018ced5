//! A repository in which one agent CLI does tasks, and what can be seen of them from outside.

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

/// It may write below `src/` and read git; nothing else is limited, so that what is seen is these.
const ROLE: &str = r#"[role]
name = "worker"
description = "Works in src."
[capabilities]
required = ["policy::git-read-only", "scope::files-whitelist"]
[tools]
allowed = ["*"]
"#;

/// A remote inside of the worktree: nothing but the gate keeps the agent from pushing to it.
const REMOTE: [(&str, &str); 4] = [
    ("origin.git/HEAD", "ref: refs/heads/main\n"),
    ("origin.git/config", "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"),
    ("origin.git/objects/info/.keep", ""),
    ("origin.git/refs/heads/.keep", ""),
];

/// The command that nobody may run.
pub(crate) const PUSH: &str = "git push origin HEAD:refs/heads/pushed";
pub(crate) const GIT: &str = "policy::git-read-only";
pub(crate) const FILES: &str = "scope::files-whitelist";

/// A repository for one CLI. As for a person with many, all of them share what was shown of the CLIs'
/// gates.
pub(crate) struct Stage {
    pub(crate) cli: Cli,
    pub(crate) scratch: Scratch,
}

impl Stage {
    pub(crate) fn new(cli: Cli) -> Self {
        let stage = Self::empty(cli);
        let scratch = &stage.scratch;
        scratch.write(".bailiwick/roles/worker.toml", ROLE);
        // Nobody is asked anything here, and a gate that hangs is given up the sooner.
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
        for kept in ["canaries", "versions"] {
            symlink(known().join(kept), scratch.state().join(kept)).unwrap();
        }
        Self { cli, scratch }
    }

    /// An agent that is to be.
    pub(crate) fn agent<'a>(&'a self, id: &'a str) -> Agent<'a> {
        Agent::new(self, id)
    }

    /// Where the CLI's program is.
    pub(crate) fn programs(&self) -> PathBuf {
        let programs = self.cli.program().parent().unwrap().to_path_buf();
        match self.cli {
            // With the node that it needs.
            Cli::Gemini => programs.join("node_modules/.bin"),
            Cli::Claude | Cli::Codex | Cli::OpenCode => programs,
        }
    }

    /// `bailiwick`, with the CLI on PATH and a model for it.
    pub(crate) fn command(&self, model: Option<&ScriptedModel>, wrapped: Option<&Path>) -> Command {
        let mut command = self.scratch.command(BAILIWICK);
        let programs = self.programs();
        let mut places = vec![programs.clone()];
        if let Some(wrapper) = wrapped {
            // What is around the program is seen in a sandbox only if it is named.
            places =
                vec![wrapper.to_path_buf(), programs.parent().unwrap().to_path_buf(), programs];
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = places.into_iter().chain(std::env::split_paths(&path));
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

/// What has been seen of the CLIs since this process began: each gate is tried once for each
/// configuration, as starting a CLI is most of what a test of one costs.
pub(crate) fn known() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("known");
        let _ = std::fs::remove_dir_all(&place);
        for kept in ["canaries", "versions"] {
            std::fs::create_dir_all(place.join(kept)).unwrap();
        }
        place
    })
}
