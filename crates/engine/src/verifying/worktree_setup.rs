//! The setup of a task for an agent without a sandbox: its result is in the worktree itself. The setup
//! still runs in a sandbox, because the packages that it installs are not reviewed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bailiwick_lifecycle::ports::{CheckEnvironment as _, Preparation, Work as _};
use bailiwick_model::{AgentId, CommitId, Settings, TreeId};
use bailiwick_runner::checks::{CheckWorkshop, OpenSetup, Setup};
use bailiwick_runner::environment::BaseTrust;
use bailiwick_runner::process::{Cancellation, Limits};
use bailiwick_runner::sandbox::{self, Launcher, Level};
use bailiwick_runner::supervisor::RunDirectory;
use bailiwick_runner::toolchain::Host;
use bailiwick_source_control::{GitWork, Repository, run_setup};

use super::cache_key;
use crate::failure::Failure;
use crate::notices::Notices;
use crate::preconditions;

/// The setup of a worktree.
pub struct WorktreeSetup {
    /// Where our state is.
    pub state: PathBuf,
    /// The repository.
    pub repository: Repository,
    /// Whose worktree it is.
    pub agent: AgentId,
    /// The commit that the agent starts from.
    pub base: CommitId,
    /// Who wrote that.
    pub trust: BaseTrust,
    /// What the task asks for.
    pub preparation: Preparation,
    /// How long a command may take.
    pub time: Duration,
    /// Whether it may run as the person where this machine can make no sandbox.
    pub open: OpenSetup,
    /// Where it reports what it does.
    pub notices: Notices,
}

/// How long a command of a setup may take by the settings.
pub fn time(settings: &Settings) -> Duration {
    let minutes = settings.checks.minutes;
    minutes.map_or(Limits::default().time, |minutes| Duration::from_secs(60 * u64::from(minutes)))
}

/// Returns an error if a setup could only run as the person, and that is not allowed.
pub fn require_allowed(open: OpenSetup) -> Result<(), Failure> {
    match (sandbox::level(preconditions::parts()), open) {
        (Level::Partial | Level::Full, _) | (Level::Off, OpenSetup::Allowed) => Ok(()),
        (Level::Off, OpenSetup::Refused) => Err(Failure::general(
            "the setup of the task cannot be sandboxed: this machine can make no user namespace",
        )
        .help(
            "`bailiwick doctor` says how to enable them; --allow-setup runs the setup as you, with your \
             network and your secrets",
        )),
    }
}

impl WorktreeSetup {
    /// Runs the setup, unless that was done already. What it starts outside of a sandbox holds `lock`.
    pub fn run(&self, worktree: &Path, lock: Option<&File>) -> Result<(), Failure> {
        let directory = RunDirectory::new(&self.state, self.agent.as_str());
        let marker = directory.path().join("set-up");
        if self.preparation.setup.is_empty() || marker.exists() {
            return Ok(());
        }
        require_allowed(self.open)?;
        match sandbox::level(preconditions::parts()) {
            Level::Off => {
                self.notices.note("the setup runs without a sandbox, as you");
                run_setup(worktree, &self.preparation.setup, lock)?;
            }
            level @ (Level::Partial | Level::Full) => {
                self.sandboxed(level, worktree, &directory.path().join("setup-home"))?
            }
        }
        std::fs::write(&marker, "").map_err(|error| {
            Failure::general(format!("{} cannot be written: {error}", marker.display()))
        })
    }

    fn sandboxed(&self, level: Level, worktree: &Path, home: &Path) -> Result<(), Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::general(error.to_string());
        let checkout = self.repository.root();
        let mut workshop = CheckWorkshop::open(Setup {
            state: self.state.clone(),
            repository: cache_key(&self.repository),
            checkout: checkout.to_path_buf(),
            installed: Vec::new(),
            level,
            limits: Limits { time: self.time, ..Limits::default() },
            until: Cancellation::default(),
            launcher: Launcher::own().map_err(|error| failed(&error))?,
            host: Host::observe(),
            base: self.trust,
        })
        .map_err(|error| failed(&error))?;
        let tree = self.repository.git().run(["rev-parse", &format!("{}^{{tree}}", self.base)])?;
        let tree = TreeId::new(String::from_utf8_lossy(&tree).trim());
        let directory = workshop.clear().map_err(|error| failed(&error))?;
        let work = GitWork::open(checkout, worktree, &self.state, &self.agent, None)
            .map_err(|error| failed(&error))?;
        work.materialise(&tree, &[&self.base], directory).map_err(|error| failed(&error))?;
        let mut tell = |line: &str| self.notices.progress(format_args!("setting up: {line} …"));
        workshop.set_up_worktree(&self.preparation, (worktree, home), &mut tell).map_err(|error| {
            failed(&error).help(
                "the setup runs on the base commit in a sandbox that reaches package registries only; \
                 other hosts: `hosts` under [workspace] of the task",
            )
        })
    }
}
