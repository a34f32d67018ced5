//! Runs the jobs of checks on a tree: `/bin/sh`, `cargo check`, single tests.
//!
//! ```text
//!  CheckWorkshop ── Slot       where the tree is, and its build cache
//!       │        └─ Bench      the sandbox around it, one program at a time
//!       ├─ preparation: copying, prefetch, setup; tracked files stay as they are
//!       └─ run(job): command │ cargo_check │ cargo_test
//! ```

mod bench;
mod build_time;
mod cargo_check;
mod cargo_test;
mod challenge;
mod copied;
mod copying;
mod guard;
mod job_error;
mod libtest;
mod messages;
mod objects;
mod places;
mod plain;
mod set_up;
mod slot;
mod test_program;
mod times;
mod tracked;
mod tree_settings;
mod work;
mod workspaces;

use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::{CheckEnvironment, CheckEnvironmentError, Preparation, SetUp};
use bailiwick_verify::job::{CommandResult, Termination};
use bailiwick_verify::{Job, JobOutcome};

use crate::environment::{self, BaseTrust, Prepared, ProjectEnvironment};
use crate::process::{Cancellation, Limits};
use crate::sandbox::{self, Launcher, Level, Network};
use crate::toolchain::Host;
use bench::{Bench, Sources, TreeNotRunnable};
use copying::CopyError;
use job_error::JobError;
use slot::Slot;
use tracked::Tracked;

pub use copied::copied_digest;
pub use slot::{build_caches, is_build_cache_in_use, remove_build_cache, sweep};

/// How a workshop is set up.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The directory of our own state.
    pub state: PathBuf,
    /// Identifies the repository's caches: each repository must have another one.
    pub repository: String,
    /// The checkout that files are copied from.
    pub checkout: PathBuf,
    /// Directories of installed packages in the checkout, which git ignores there.
    pub installed: Vec<String>,
    /// The required sandbox level.
    pub level: Level,
    /// The limits of each program.
    pub limits: Limits,
    /// Cancels all programs.
    pub until: Cancellation,
    /// Starts the sandboxes.
    pub launcher: Launcher,
    /// The person's toolchains.
    pub host: Host,
    /// Who wrote the base.
    pub base: BaseTrust,
}

/// Whether a setup may run without a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OpenSetup {
    /// No: it is an error if this machine cannot create one.
    #[default]
    Refused,
    /// Yes, if this machine cannot create one: a person has allowed it.
    Allowed,
}

/// A slot, and a sandbox around it.
#[derive(Debug)]
pub struct CheckWorkshop {
    bench: Bench,
    checkout: PathBuf,
    /// The person's environment.
    person: ProjectEnvironment,
    base: BaseTrust,
    open_setup: OpenSetup,
}

impl CheckWorkshop {
    /// Takes a slot. Fails if this machine does not support the required level.
    pub fn open(setup: Setup) -> Result<Self, CheckEnvironmentError> {
        let parts = match setup.level {
            Level::Off => Vec::new(),
            Level::Partial | Level::Full => sandbox::probe_with(&setup.launcher),
        };
        if sandbox::level(&parts) < setup.level {
            let missing = parts.iter().filter(|part| !part.works);
            let missing: Vec<String> =
                missing.map(|part| format!("{}: {}", part.name, part.seen)).collect();
            let what = "the sandbox that checks run in cannot be had here";
            return Err(unusable(what, missing.join("; ")));
        }
        let slot = Slot::take(&setup.state, &setup.repository)
            .map_err(|error| unusable("there is no place to run checks", error.to_string()))?;
        let Setup { checkout, installed, level, limits, until, launcher, host, .. } = setup;
        let base = setup.base;
        let checkout = std::fs::canonicalize(&checkout).unwrap_or(checkout);
        let person = ProjectEnvironment::of_person(&host.home, &checkout, &installed);
        let mut bench = Bench::new(slot, level, (limits, until), launcher, host)
            .map_err(|error| unusable("there is no place to run checks", error.to_string()))?;
        bench.environment = person.clone();
        Ok(Self { bench, checkout, person, base, open_setup: OpenSetup::Refused })
    }

    /// The same, with another decision on whether a setup may run as the person if this machine cannot create a
    /// sandbox.
    #[must_use]
    pub fn open_setup(mut self, open_setup: OpenSetup) -> Self {
        self.open_setup = open_setup;
        self
    }

    /// What trees contain besides their own files.
    pub fn environment(&self) -> &ProjectEnvironment {
        &self.bench.environment
    }

    /// Whether what cargo builds of the next trees may stay in the build cache. Only where none of the
    /// code that runs while building is anything but what the base branch has: such code can write what
    /// it likes into the cache. At first it may not.
    pub fn trust_build(&mut self, trust: bool) {
        self.bench.trust_build = trust;
    }

    /// The path of the tree on the host.
    pub fn tree(&self) -> PathBuf {
        self.bench.slot.tree()
    }
}

impl CheckEnvironment for CheckWorkshop {
    fn clear(&mut self) -> Result<&Path, CheckEnvironmentError> {
        self.bench.clear().map_err(|error| {
            unusable("the place for the tree cannot be cleared", error.to_string())
        })?;
        Ok(self.bench.tree())
    }

    fn make_ready(
        &mut self,
        preparation: &Preparation,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), CheckEnvironmentError> {
        let before = tracked::observe(self.bench.tree()).map_err(unread)?;
        self.bench.guard_tree().map_err(unread)?;
        self.copy(&preparation.copy)?;
        self.bench.place_files().map_err(unread)?;
        self.bench.prepare_tree().map_err(|TreeNotRunnable { why, caused_by_agent }| {
            let what = "the tree cannot be used".to_owned();
            CheckEnvironmentError { what, why, caused_by_agent }
        })?;
        if !preparation.prefetch.is_empty() {
            // Nothing that the tree brings is to be run where there is a network.
            let what = "nothing can be fetched for this tree";
            tree_settings::refuse(self.bench.tree(), std::iter::once(Path::new(""))).map_err(
                |error| CheckEnvironmentError {
                    what: what.to_owned(),
                    why: error.to_string(),
                    caused_by_agent: true,
                },
            )?;
            self.bench.sources = Sources::Fetched;
        }
        for line in &preparation.prefetch {
            tell(line);
            succeed("prefetch", line, self.bench.prepare(line, Network::Host))?;
        }
        self.set_up_tree(preparation, tell)?;
        // The verified tree must be the given one.
        let changed = before.changed(self.bench.tree());
        if changed.is_empty() {
            return Ok(());
        }
        Err(CheckEnvironmentError {
            what: "setup changed tracked files".to_owned(),
            why: changed.join(", "),
            caused_by_agent: true,
        })
    }

    fn set_up(
        &mut self,
        preparation: &Preparation,
        tell: &mut dyn FnMut(&str),
    ) -> Result<SetUp, CheckEnvironmentError> {
        if self.bench.is_open() {
            return Ok(SetUp::EachTree);
        }
        self.bench.environment = ProjectEnvironment::default();
        self.copy(&preparation.copy)?;
        let before = tracked::observe(self.bench.tree()).map_err(unread)?;
        let files: Vec<PathBuf> = before.paths().into_iter().collect();
        let key = self.bench.setup_key(&preparation.setup, &preparation.hosts, &files, self.base);
        let key = key.map_err(unread)?;
        let place = self.bench.slot.setups().join(key);
        let not_kept =
            |error: std::io::Error| unusable("the setup cannot be kept", error.to_string());
        if let Some(found) = Prepared::find(&place) {
            self.bench.environment = self.person.with_setup(&found);
            return Ok(SetUp::Shared);
        }
        let lock = Prepared::lock(&place).map_err(not_kept)?;
        if !Prepared::is_there(&place) {
            self.run_setup_of_base(preparation, &before, tell)?;
            let home = self.bench.slot.setup_home();
            Prepared::keep(&place, self.bench.tree(), &home, &before.paths()).map_err(not_kept)?;
        }
        let prepared = Prepared::find_locked(&place, lock).map_err(not_kept)?;
        self.bench.environment = self.person.with_setup(&prepared);
        Ok(SetUp::Shared)
    }

    fn changed(&mut self, paths: &[String]) {
        let trusted = build_time::is_untouched(self.bench.tree(), paths);
        self.trust_build(trusted && self.base == BaseTrust::Trusted);
    }

    fn run(&mut self, job: &Job, tell: &mut dyn FnMut(&str)) -> JobOutcome {
        if let Err(TreeNotRunnable { why, .. }) = self.bench.prepare_tree() {
            return JobOutcome::CouldNotRun { why };
        }
        let outcome = match job {
            Job::Command { line } => {
                tell(line);
                self.bench.shell(line).map(|ran| JobOutcome::Commands(vec![ran]))
            }
            Job::CargoCheck { of, warnings } => cargo_check::run(&self.bench, of, *warnings, tell),
            Job::CargoTest { of } => cargo_test::run(&self.bench, of, tell),
        };
        outcome.unwrap_or_else(JobOutcome::from)
    }
}

impl CheckWorkshop {
    fn copy(&self, paths: &[String]) -> Result<(), CheckEnvironmentError> {
        let visible = self.bench.seen();
        for path in paths {
            copying::copy(&self.checkout, self.bench.tree(), path, &visible).map_err(|error| {
                CheckEnvironmentError {
                    what: format!("{path} cannot be copied"),
                    why: error.to_string(),
                    caused_by_agent: matches!(error, CopyError::Taken(_)),
                }
            })?;
        }
        Ok(())
    }

    /// Runs a setup for a worktree whose agent has no sandbox, in a sandbox of its own. What it installs is moved
    /// there, and its home to `home`; the tree must be that of the base.
    pub fn set_up_worktree(
        &mut self,
        preparation: &Preparation,
        (worktree, home): (&Path, &Path),
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), CheckEnvironmentError> {
        // Paths in what is installed must lead to where it will be.
        self.bench.environment = ProjectEnvironment::default();
        self.bench.places.tree = worktree.to_owned();
        self.bench.places.home = home.to_owned();
        self.copy(&preparation.copy)?;
        let before = tracked::observe(self.bench.tree()).map_err(unread)?;
        self.run_setup_of_base(preparation, &before, tell)?;
        let placed = environment::place(self.bench.tree(), worktree, &before.paths())
            .and_then(|()| slot::remove(home))
            .and_then(|()| std::fs::rename(self.bench.slot.setup_home(), home));
        placed.map_err(|error| unusable("the setup cannot be kept", error.to_string()))
    }

    /// Runs a setup on the tree that is checked. Checks may run without a sandbox; a setup does only where
    /// there can be none.
    fn set_up_tree(
        &mut self,
        preparation: &Preparation,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), CheckEnvironmentError> {
        if preparation.setup.is_empty() {
            return Ok(());
        }
        if self.bench.is_open() {
            let level = sandbox::level(&sandbox::probe_with(&self.bench.launcher));
            if level != Level::Off {
                return self.run_setup(preparation, level, tell);
            }
            if self.open_setup == OpenSetup::Refused {
                let why = "this machine can make no sandbox for it; --allow-setup runs it as you, with \
                           your network and your secrets";
                return Err(unusable("the setup was not run", why.to_owned()));
            }
        }
        for line in &preparation.setup {
            tell(line);
            succeed("setup", line, self.bench.prepare(line, Network::None))?;
        }
        Ok(())
    }

    /// Runs a setup on the base, which is why it fails if it does, and not the work.
    fn run_setup_of_base(
        &mut self,
        preparation: &Preparation,
        before: &Tracked,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), CheckEnvironmentError> {
        self.run_setup(preparation, self.bench.level(), tell)
            .map_err(|error| CheckEnvironmentError { caused_by_agent: false, ..error })?;
        let changed = before.changed(self.bench.tree());
        if changed.is_empty() {
            return Ok(());
        }
        Err(unusable("setup changed tracked files", changed.join(", ")))
    }

    /// Runs the commands of a setup on the tree, with a network that leads to registries alone.
    fn run_setup(
        &mut self,
        preparation: &Preparation,
        level: Level,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), CheckEnvironmentError> {
        self.bench
            .prepare_tree()
            .map_err(|TreeNotRunnable { why, .. }| unusable("the tree cannot be used", why))?;
        let way = self
            .bench
            .fetch_access(&preparation.hosts, self.base, level)
            .map_err(|error| unusable("there is no home for the setup", error.to_string()))?;
        for line in &preparation.setup {
            tell(line);
            succeed("setup", line, self.bench.set_up(line, &way))
                .map_err(|error| CheckEnvironmentError { why: way.explain(error.why), ..error })?;
        }
        Ok(())
    }
}

fn unread(error: std::io::Error) -> CheckEnvironmentError {
    unusable("the tree cannot be read", error.to_string())
}

fn succeed(
    step: &str,
    line: &str,
    ran: Result<CommandResult, JobError>,
) -> Result<(), CheckEnvironmentError> {
    let what = format!("the {step} command `{line}` failed");
    match ran {
        Ok(ran) if ran.succeeded() => Ok(()),
        Ok(ran) => Err(CheckEnvironmentError { what, why: ending(&ran), caused_by_agent: true }),
        Err(error) => {
            Err(CheckEnvironmentError { what, why: error.to_string(), caused_by_agent: false })
        }
    }
}

/// The error for an unusable directory.
fn unusable(what: &str, why: String) -> CheckEnvironmentError {
    CheckEnvironmentError { what: what.to_owned(), why, caused_by_agent: false }
}

/// How a program ended, and the last lines that it printed.
fn ending(ran: &CommandResult) -> String {
    let how = match &ran.ended {
        Termination::Exit(code) => format!("exit code {code}"),
        Termination::Signal(signal) => format!("signal {signal}"),
        Termination::TimedOut(limit) => format!("not done after {} s", limit.as_secs()),
        Termination::TooMuchOutput(limit) => format!("more than {limit} bytes of output"),
    };
    let lines: Vec<&str> = ran.tail.trim_end().lines().collect();
    let last = lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n");
    if last.is_empty() { how } else { format!("{how}\n{last}") }
}
