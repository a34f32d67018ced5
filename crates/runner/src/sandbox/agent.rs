//! The sandbox of a coding agent, from plain values.
//!
//! ```text
//!  the system      read only, but for what its login shells read
//!  worktree        at its own path; writable where the agent may write, scratch space elsewhere
//!  .git            read only; or, where it may commit, a layer over the repository's
//!  HOME, /tmp      directories of this run
//!  network         a loopback of its own with one port, where the supervisor listens
//! ```

use std::path::{Path, PathBuf};

use super::{Bind, Bounds, Fallback, Level, Network, Overlay, Sandbox};

/// What login shells of the system read first. Agent CLIs run commands in such shells: these files would set `PATH`
/// again, so that the agent's programs would not be found; and other variables would enter an environment that is
/// built from nothing.
const LOGIN: [&str; 4] = ["/etc/profile", "/etc/zprofile", "/etc/zsh/zprofile", "/etc/csh.login"];

/// The working directory of an agent and its permissions there. Every path is one of the host without links in it,
/// and is the same inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPlaces {
    /// Its worktree, or the repository's own checkout.
    pub worktree: PathBuf,
    /// The directory that git shares between worktrees.
    pub git_common: PathBuf,
    /// The directory that git has for this worktree alone; the common one if it is the checkout.
    pub git_private: PathBuf,
    /// A directory of this run: its HOME.
    pub home: PathBuf,
    /// Files and directories of its home that are read-only and can be neither moved nor extended.
    pub fixed: Vec<PathBuf>,
    /// Exceptions that stay writable.
    pub open: Vec<PathBuf>,
    /// A directory of this run: its `/tmp` and `/var/tmp`.
    pub temp: PathBuf,
    /// Programs that are not the system's.
    pub programs: Vec<Bind>,
    /// The gate with its files and sockets: no process inside can replace it.
    pub gate: Vec<Bind>,
    /// Directories that it can read and that look writable: what it writes there is gone at its end.
    pub layered: Vec<Bind>,
    /// Where it may write in its worktree.
    pub access: WorktreeAccess,
    /// A directory of this run for what is written in the worktree where it may not write: a layer over
    /// the worktree, which never lands.
    pub scratch: PathBuf,
    /// Where it may commit: a directory of this run for what git writes. `common/upper` is over the common
    /// directory, `private/upper` over the private one.
    pub commits: Option<PathBuf>,
    /// Read-only paths in its worktree.
    pub read_only_paths: Vec<PathBuf>,
    /// The `PATH` for programs.
    pub path: String,
    /// The rest of its environment, beside `PATH` and `HOME`.
    pub environment: Vec<(String, String)>,
    /// The port on its loopback where the supervisor listens.
    pub listener_port: Option<u16>,
    /// Limits for all its processes together.
    pub bounds: Bounds,
    /// The required level.
    pub level: Level,
}

/// Where an agent may write in its worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorktreeAccess {
    /// Nowhere.
    ReadOnly,
    /// Everywhere.
    Writable,
    /// Below these directories, by paths in the worktree. What it writes elsewhere goes to scratch space.
    WritableBelow(Vec<PathBuf>),
}

/// The sandbox for an agent.
pub fn agent(places: &AgentPlaces) -> Sandbox {
    let mut sandbox = Sandbox {
        read_only: places.programs.iter().chain(&places.gate).cloned().collect(),
        writable: vec![
            Bind::same(&places.home),
            Bind::new(&places.temp, "/tmp"),
            Bind::new(&places.temp, "/var/tmp"),
        ],
        layered: places.layered.clone(),
        overlaid: Vec::new(),
        private: Vec::new(),
        emptied: Vec::new(),
        hidden: LOGIN.map(PathBuf::from).to_vec(),
        read_only_paths: places.gate.iter().map(|bind| bind.target.clone()).collect(),
        environment: environment(places),
        directory: places.worktree.clone(),
        network: Network::None,
        listener_port: places.listener_port,
        bounds: places.bounds,
        level: places.level,
    };
    add_worktree(
        &places.worktree,
        &places.access,
        &places.scratch,
        &places.read_only_paths,
        &mut sandbox,
    );
    add_home(places, &mut sandbox);
    add_git(places, &mut sandbox);
    sandbox
}

/// A worktree, of which these parts can be written and those in it only be read.
pub(super) fn add_worktree(
    worktree: &Path,
    access: &WorktreeAccess,
    scratch: &Path,
    protected: &[PathBuf],
    sandbox: &mut Sandbox,
) {
    match access {
        WorktreeAccess::ReadOnly => return sandbox.read_only.push(Bind::same(worktree)),
        WorktreeAccess::Writable => sandbox.writable.push(Bind::same(worktree)),
        WorktreeAccess::WritableBelow(directories) => {
            let scratch =
                Overlay { fallback: Fallback::Write, ..over(worktree, scratch.to_owned()) };
            sandbox.overlaid.push(scratch);
            let below = directories.iter().map(|path| Bind::same(worktree.join(path)));
            sandbox.writable.extend(below);
        }
    }
    sandbox.read_only_paths.extend(protected.iter().map(|path| worktree.join(path)));
}

/// A mount can be neither renamed nor removed. A directory above it could, and would take it along, so each of them
/// is mounted over itself.
fn add_home(places: &AgentPlaces, sandbox: &mut Sandbox) {
    for path in &places.fixed {
        let above = path.ancestors().skip(1);
        for way in above.take_while(|way| *way != places.home && way.starts_with(&places.home)) {
            // Everything in a read-only directory stays there, and so does the way to it.
            let held = places.fixed.iter().any(|fixed| way.starts_with(fixed));
            let way = Bind::same(way);
            if !held && !sandbox.writable.contains(&way) {
                sandbox.writable.push(way);
            }
        }
        sandbox.read_only.push(Bind::same(path));
    }
    sandbox.writable.extend(places.open.iter().map(Bind::same));
}

/// Of the repository it sees what all worktrees share, and of what each has for itself its own.
fn add_git(places: &AgentPlaces, sandbox: &mut Sandbox) {
    let (common, private) = (&places.git_common, &places.git_private);
    let linked = common != private;
    let dot_git = places.worktree.join(".git");
    match &places.commits {
        Some(layer) => {
            sandbox.overlaid.push(over(common, layer.join("common")));
            // They would be carried out by the next user of git there.
            sandbox.read_only_paths.extend(["config", "hooks"].map(|name| common.join(name)));
            sandbox.read_only_paths.push(private.join("config.worktree"));
            if linked {
                sandbox.overlaid.push(over(private, layer.join("private")));
            }
        }
        None => {
            sandbox.read_only.push(Bind::same(common));
            if linked {
                sandbox.read_only.push(Bind::same(private));
            }
        }
    }
    let others = common.join("worktrees");
    if linked {
        sandbox.emptied.push(others);
    } else {
        sandbox.hidden.push(others);
    }
    if *common != dot_git {
        sandbox.read_only_paths.push(dot_git);
    }
}

fn over(lower: &Path, layer: PathBuf) -> Overlay {
    let (lower, target) = (vec![lower.to_owned()], lower.to_owned());
    Overlay { lower, layer, target, fallback: Fallback::Fail }
}

fn environment(places: &AgentPlaces) -> Vec<(String, String)> {
    let ours = [
        ("PATH".to_owned(), places.path.clone()),
        ("HOME".to_owned(), places.home.to_string_lossy().into_owned()),
    ];
    // For repeated names, the last value counts.
    places.environment.iter().cloned().chain(ours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> AgentPlaces {
        AgentPlaces {
            worktree: "/state/worktrees/one".into(),
            git_common: "/repository/.git".into(),
            git_private: "/repository/.git/worktrees/one".into(),
            home: "/state/runs/one/home".into(),
            fixed: Vec::new(),
            open: Vec::new(),
            temp: "/state/runs/one/temp".into(),
            programs: vec![Bind::same("/programs")],
            gate: vec![Bind::same("/state/runs/one/gate")],
            layered: Vec::new(),
            access: WorktreeAccess::Writable,
            scratch: "/state/runs/one/scratch".into(),
            commits: None,
            read_only_paths: vec!["rules".into()],
            path: "/usr/bin".to_owned(),
            environment: vec![("HOME".to_owned(), "/root".to_owned())],
            listener_port: Some(8080),
            bounds: Bounds::default(),
            level: Level::Full,
        }
    }

    fn targets(binds: &[Bind]) -> Vec<&str> {
        binds.iter().filter_map(|bind| bind.target.to_str()).collect()
    }

    #[test]
    fn writing_agent_has_a_writable_worktree_and_no_writable_git() {
        let sandbox = agent(&places());
        let expected = ["/state/runs/one/home", "/tmp", "/var/tmp", "/state/worktrees/one"];
        assert_eq!(targets(&sandbox.writable), expected);
        assert_eq!(sandbox.overlaid, []);
        assert_eq!((sandbox.network, sandbox.listener_port), (Network::None, Some(8080)));
        let frozen = ["/state/runs/one/gate", "/state/worktrees/one/rules"];
        for path in frozen.into_iter().chain(["/state/worktrees/one/.git"]) {
            assert!(sandbox.read_only_paths.contains(&path.into()), "{path}");
        }
        assert_eq!(sandbox.emptied, [PathBuf::from("/repository/.git/worktrees")]);
        assert_eq!(sandbox.environment.last().unwrap().1, "/state/runs/one/home");
    }

    #[test]
    fn settings_in_a_home_are_read_only_and_cannot_be_moved() {
        let home = PathBuf::from("/state/runs/one/home");
        let sandbox = agent(&AgentPlaces {
            fixed: ["a", "b/c/d", "b/c/e", "a/deep/own"].map(|name| home.join(name)).to_vec(),
            open: vec![home.join("a/log")],
            ..places()
        });
        let below = |binds: &[Bind]| -> Vec<String> {
            let inside = |bind: &Bind| {
                let path = bind.target.strip_prefix(&home).ok()?;
                Some(path.display().to_string()).filter(|path| !path.is_empty())
            };
            binds.iter().filter_map(inside).collect()
        };
        assert_eq!(below(&sandbox.read_only), ["a", "b/c/d", "b/c/e", "a/deep/own"]);
        assert_eq!(below(&sandbox.writable), ["b/c", "b", "a/log"]);
    }

    #[test]
    fn read_only_agent_writes_to_its_own_directories_only() {
        let sandbox = agent(&AgentPlaces { access: WorktreeAccess::ReadOnly, ..places() });
        assert_eq!(targets(&sandbox.writable), ["/state/runs/one/home", "/tmp", "/var/tmp"]);
        assert!(targets(&sandbox.read_only).contains(&"/state/worktrees/one"));
    }

    #[test]
    fn agent_writes_to_scratch_space_outside_of_its_scope() {
        let access = WorktreeAccess::WritableBelow(vec!["src".into()]);
        let sandbox = agent(&AgentPlaces { access, ..places() });
        let worktree = PathBuf::from("/state/worktrees/one");
        assert!(sandbox.writable.contains(&Bind::same(worktree.join("src"))));
        assert!(!sandbox.writable.contains(&Bind::same(&worktree)));
        let [scratch] = sandbox.overlaid.as_slice() else { panic!("{:?}", sandbox.overlaid) };
        assert_eq!((&scratch.target, scratch.fallback), (&worktree, Fallback::Write));
        assert!(sandbox.read_only_paths.contains(&worktree.join("rules")));
    }

    #[test]
    fn committing_agent_writes_to_layers() {
        let layer = Some(PathBuf::from("/state/runs/one/git"));
        let sandbox = agent(&AgentPlaces { commits: layer.clone(), ..places() });
        let layers: Vec<_> = sandbox.overlaid.iter().map(|overlay| overlay.layer.clone()).collect();
        assert_eq!(layers, ["common", "private"].map(|name| layer.clone().unwrap().join(name)));
        assert!(!targets(&sandbox.read_only).contains(&"/repository/.git"));
        // The checkout itself has only one git directory, within the worktree.
        let checkout = AgentPlaces {
            worktree: "/repository".into(),
            git_private: "/repository/.git".into(),
            commits: layer,
            ..places()
        };
        let sandbox = agent(&checkout);
        assert_eq!(sandbox.overlaid.len(), 1);
        assert!(!sandbox.read_only_paths.contains(&"/repository/.git".into()));
        let hidden = LOGIN.into_iter().chain(["/repository/.git/worktrees"]).map(PathBuf::from);
        assert_eq!(sandbox.hidden, hidden.collect::<Vec<_>>());
    }
}
