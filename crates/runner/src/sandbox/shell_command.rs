//! The sandbox of a shell command whose agent a person has started: it sees the machine as they do, and can
//! write only where the agent may.
//!
//! ```text
//!  the machine     read only, without the sockets of programs that run outside
//!  worktree        as for an agent in a run: writable in its scope, scratch space elsewhere
//!  .git            read only, or writable but for what git would run
//!  caches, /tmp    the person's own, writable
//!  network         the person's own
//! ```

use std::path::PathBuf;

use super::agent::{WorktreeAccess, add_worktree};
use super::{Bind, Bounds, Level, Network, Sandbox};

/// The directory of a command and its permissions there. Every path is one of the host without links in it, and is
/// the same inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPlaces {
    /// What is visible besides the system.
    pub shown: Vec<PathBuf>,
    /// What is writable besides the worktree: caches and temporary files.
    pub writable: Vec<PathBuf>,
    /// What is hidden: sockets of programs outside the sandbox.
    pub hidden: Vec<PathBuf>,
    /// What is read-only everywhere: settings of the agent, and our own files.
    pub protected: Vec<PathBuf>,
    /// The repository that it works in; nothing of it may be written without one.
    pub repository: Option<CommandRepository>,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    /// The working directory.
    pub directory: PathBuf,
}

/// The repository of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRepository {
    /// The checkout.
    pub worktree: PathBuf,
    /// Where it may write in it.
    pub access: WorktreeAccess,
    /// A directory for what is written elsewhere in it.
    pub scratch: PathBuf,
    /// Read-only paths in it.
    pub protected: Vec<PathBuf>,
    /// The directories of git: the one that worktrees share first.
    pub git: Vec<PathBuf>,
    /// Whether git may write.
    pub git_access: GitAccess,
}

/// Whether git may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitAccess {
    /// It cannot.
    Read,
    /// It can, but for its settings and hooks.
    Write,
}

/// The sandbox for a command.
pub fn shell_command(places: CommandPlaces) -> Sandbox {
    let mut sandbox = Sandbox {
        read_only: places.shown.into_iter().map(Bind::same).collect(),
        writable: places.writable.into_iter().map(Bind::same).collect(),
        layered: Vec::new(),
        overlaid: Vec::new(),
        private: Vec::new(),
        emptied: Vec::new(),
        hidden: places.hidden,
        read_only_paths: places.protected,
        environment: places.environment,
        directory: places.directory,
        network: Network::Host,
        listener_port: None,
        bounds: Bounds::default(),
        level: Level::Full,
    };
    if let Some(repository) = places.repository {
        let CommandRepository { worktree, access, scratch, protected, .. } = &repository;
        add_worktree(worktree, access, scratch, protected, &mut sandbox);
        add_git(&repository, &mut sandbox);
    }
    sandbox
}

fn add_git(repository: &CommandRepository, sandbox: &mut Sandbox) {
    let binds = repository.git.iter().map(Bind::same);
    match repository.git_access {
        GitAccess::Read => sandbox.read_only.extend(binds),
        GitAccess::Write => {
            sandbox.writable.extend(binds);
            // They would be carried out by the next user of git there.
            let runs = ["config", "config.worktree", "hooks", "info"];
            let all = repository.git.iter().flat_map(|git| runs.map(|name| git.join(name)));
            sandbox.read_only_paths.extend(all);
        }
    }
    let dot_git = repository.worktree.join(".git");
    if !repository.git.contains(&dot_git) {
        sandbox.read_only_paths.push(dot_git);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(access: WorktreeAccess, git_access: GitAccess) -> CommandPlaces {
        CommandPlaces {
            shown: vec!["/home".into()],
            writable: vec!["/tmp".into()],
            hidden: vec!["/tmp/tmux-1".into()],
            protected: vec!["/home/me/.claude".into()],
            repository: Some(CommandRepository {
                worktree: "/home/me/repo".into(),
                access,
                scratch: "/state/scratch".into(),
                protected: vec!["package.json".into()],
                git: vec!["/home/me/repo/.git".into()],
                git_access,
            }),
            environment: Vec::new(),
            directory: "/home/me/repo".into(),
        }
    }

    #[test]
    fn command_writes_only_where_its_agent_may() {
        let access = WorktreeAccess::WritableBelow(vec!["src".into()]);
        let sandbox = shell_command(places(access, GitAccess::Read));
        let writable: Vec<_> = sandbox.writable.iter().map(|bind| bind.target.clone()).collect();
        assert_eq!(writable, ["/tmp", "/home/me/repo/src"].map(PathBuf::from));
        assert!(sandbox.read_only.contains(&Bind::same("/home/me/repo/.git")));
        assert!(sandbox.read_only_paths.contains(&"/home/me/repo/package.json".into()));
        assert!(sandbox.read_only_paths.contains(&"/home/me/.claude".into()));
        assert_eq!(sandbox.overlaid[0].layer, PathBuf::from("/state/scratch"));
    }

    #[test]
    fn with_git_access_hooks_and_configuration_stay_read_only() {
        let sandbox = shell_command(places(WorktreeAccess::Writable, GitAccess::Write));
        assert!(sandbox.writable.contains(&Bind::same("/home/me/repo/.git")));
        for name in ["config", "hooks"] {
            assert!(
                sandbox.read_only_paths.contains(&PathBuf::from("/home/me/repo/.git").join(name))
            );
        }
    }
}
