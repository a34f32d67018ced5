//! Preconditions of commands. They are checked first, so that a refusal leaves nothing behind.

use std::sync::OnceLock;

use bailiwick_runner::sandbox::diagnosis::{Facts, Obstacle, obstacles};
use bailiwick_runner::sandbox::{self, Level, Part};
use bailiwick_source_control::git::version;

use crate::failure::Failure;
use crate::options::SandboxLevel;

/// What the two lower levels mean, for a machine that has no user namespaces.
const LOWER_LEVELS: &str = "`--sandbox partial` does not help: it works without Landlock or seccomp, but needs user \
     namespaces. `--sandbox off` starts the agent with no sandbox: it can then read, change and send \
     whatever you can";

/// Returns an error if the installed git is missing or too old.
pub fn require_git() -> Result<(), Failure> {
    version::supported().map(drop).map_err(|error| {
        Failure::general(error.to_string())
            .help("install a newer git and put it first on PATH; `command -v git` shows which one is used")
    })
}

/// Returns an error if this machine cannot give a sandbox of this level.
pub fn require_sandbox(required: SandboxLevel) -> Result<(), Failure> {
    let required = Level::from(required);
    if required == Level::Off || sandbox::level(parts()) >= required {
        return Ok(());
    }
    Err(Shortfall::of(parts()).failure())
}

/// The parts of a sandbox, and whether they work here. One is started to see it, once per process.
pub fn parts() -> &'static [Part] {
    static PARTS: OnceLock<Vec<Part>> = OnceLock::new();
    PARTS.get_or_init(sandbox::probe)
}

/// Why there is less than a full sandbox.
pub struct Shortfall {
    /// The part that does not work, and how that was seen.
    pub part: String,
    /// What prevents namespaces; empty if they work.
    pub obstacles: Vec<Obstacle>,
}

impl Shortfall {
    /// Why these parts do not add up to a full sandbox.
    pub fn of(parts: &[Part]) -> Self {
        let broken = parts.iter().find(|part| !part.works);
        let found = broken.map(|part| part.seen.clone()).unwrap_or_default();
        let name = broken.map(|part| part.name).unwrap_or_default();
        match sandbox::level(parts) {
            // What was seen of a namespace names it.
            Level::Off => Self { part: found, obstacles: obstacles(&Facts::observe()) },
            Level::Partial | Level::Full => {
                Self { part: format!("{name}: {found}"), obstacles: Vec::new() }
            }
        }
    }

    /// What is missing, in one sentence.
    pub fn what(&self) -> String {
        if self.obstacles.is_empty() {
            return format!("this machine has only a part of the sandbox ({})", self.part);
        }
        let causes: Vec<String> = self.obstacles.iter().map(ToString::to_string).collect();
        format!(
            "agents cannot be sandboxed: no user namespace can be made here, because {} ({})",
            causes.join(", and "),
            self.part
        )
    }

    /// What to do about it.
    pub fn fix(&self) -> String {
        if self.obstacles.is_empty() {
            return "`--sandbox partial` accepts this: namespaces still hold the agent, and the level is \
                    recorded with the run"
                .to_owned();
        }
        let fixes: Vec<&str> = self.obstacles.iter().map(Obstacle::fix).collect();
        format!("to enable them: {}\n {LOWER_LEVELS}", fixes.join("\n and: "))
    }

    fn failure(&self) -> Failure {
        Failure::general(self.what()).help(self.fix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &'static str, works: bool) -> Part {
        Part { name, works, seen: "EPERM".to_owned() }
    }

    #[test]
    fn refusal_names_cause_command_and_lower_sandbox_levels() {
        let refused = Shortfall {
            part: "user namespace: EPERM".to_owned(),
            obstacles: vec![Obstacle::UnprivilegedClone, Obstacle::AppArmor],
        };
        assert_eq!(
            refused.what(),
            "agents cannot be sandboxed: no user namespace can be made here, because the sysctl \
             kernel.unprivileged_userns_clone is 0, and AppArmor denies them (the sysctl \
             kernel.apparmor_restrict_unprivileged_userns is 1) (user namespace: EPERM)"
        );
        assert_eq!(
            refused.fix(),
            "to enable them: sudo sysctl -w kernel.unprivileged_userns_clone=1\n and: sudo sysctl -w \
             kernel.apparmor_restrict_unprivileged_userns=0\n `--sandbox partial` does not help: it works \
             without Landlock or seccomp, but needs user namespaces. `--sandbox off` starts the agent with \
             no sandbox: it can then read, change and send whatever you can"
        );
    }

    #[test]
    fn missing_landlock_error_suggests_the_partial_level() {
        let names = [
            "user namespace",
            "mount namespace",
            "pid namespace",
            "network namespace",
            "IPC namespace",
            "UTS namespace",
            "seccomp",
        ];
        let mut parts: Vec<Part> = names.into_iter().map(|name| part(name, true)).collect();
        parts.push(part("Landlock", false));
        let partial = Shortfall::of(&parts);
        assert!(partial.obstacles.is_empty());
        assert_eq!(partial.what(), "this machine has only a part of the sandbox (Landlock: EPERM)");
        assert!(partial.fix().starts_with("`--sandbox partial` accepts this"));
    }
}
