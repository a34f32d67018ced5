//! The sandbox around a slot, in which programs are run.

mod program_sandbox;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use bailiwick_verify::job::CommandResult;

use super::guard::TreeGuard;
use super::job_error::JobError;
use super::objects;
use super::places::{ONLY, Places};
use super::slot::{self, Slot};
use super::times::{self, TimedTree};
use super::work::{Shared, Work, WriteIsolation, WriteMode};
use crate::environment::{self, ProjectEnvironment, Share};
use crate::process::{self, Cancellation, Capture, Limits};
use crate::sandbox::{Launcher, Level, Network};
use crate::toolchain::{Host, Toolchain, VisibleToolchain};

/// The person's settings of cargo, as far as they are passed on.
const SETTINGS: &str = "cargo.toml";

/// Runs programs of checks in a sandbox around a slot.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) slot: Slot,
    /// Where cargo finds the sources of dependencies.
    pub(super) sources: Sources,
    /// Paths as programs see them.
    pub(super) places: Places,
    /// Whether what is built may stay in the cache.
    pub(super) trust_build: bool,
    tree: PathBuf,
    target: PathBuf,
    settled: Option<TimedTree>,
    /// Detects changes that no check may make.
    guard: Option<TreeGuard>,
    /// The compilers that rustup chooses.
    toolchain: Option<Toolchain>,
    /// The object directories of the tree's repository.
    objects: Vec<PathBuf>,
    isolation: WriteIsolation,
    /// The number of directories that were created for programs.
    made: AtomicU32,
    level: Level,
    pub(super) limits: Limits,
    pub(super) until: Cancellation,
    pub(super) launcher: Launcher,
    pub(super) host: Host,
    visible: VisibleToolchain,
    /// What trees contain besides their own files.
    pub(super) environment: ProjectEnvironment,
    /// Those of its directories that the tree has room for.
    shares: Vec<Share>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.keep_times();
    }
}

/// Where cargo finds the sources of dependencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sources {
    /// In what the person has fetched, which can only be read.
    Person,
    /// In what was fetched for checks.
    Fetched,
}

/// Why no program can be run on a tree.
pub(super) struct TreeNotRunnable {
    pub(super) why: String,
    /// Whether the tree itself is the cause.
    pub(super) caused_by_agent: bool,
}

/// A program to run.
pub(super) struct Program<'a> {
    /// As a person would write it.
    pub(super) line: String,
    pub(super) argv: Vec<String>,
    /// Its working directory, as it sees it.
    pub(super) directory: &'a Path,
    /// Additions to the default environment, or the whole environment.
    pub(super) environment: Environment<'a>,
    pub(super) capture: Capture,
}

/// A program's environment.
pub(super) enum Environment<'a> {
    /// The default environment with these additions.
    With(&'a [(String, String)]),
    /// The environment that a program gets instead.
    Whole(&'a [(String, String)]),
}

impl Bench {
    pub(super) fn new(
        slot: Slot,
        level: Level,
        (limits, until): (Limits, Cancellation),
        launcher: Launcher,
        host: Host,
    ) -> Result<Self, JobError> {
        let visible = host.visible();
        let places = Places::of(level, &slot, &host);
        let (tree, target) = (slot.tree(), slot.target());
        let mut bench = Self {
            slot,
            sources: Sources::Person,
            places,
            trust_build: false,
            tree,
            target,
            settled: None,
            guard: None,
            toolchain: None,
            objects: Vec::new(),
            isolation: WriteIsolation::Jobs,
            made: AtomicU32::new(0),
            level,
            limits,
            until,
            launcher,
            host,
            visible,
            environment: ProjectEnvironment::default(),
            shares: Vec::new(),
        };
        if level != Level::Off {
            bench.isolation = bench.observe_isolation()?;
        }
        Ok(bench)
    }

    /// Whether layers can be had here, seen by writing in one. Only a machine that has none gets copies.
    fn observe_isolation(&mut self) -> Result<WriteIsolation, JobError> {
        self.isolation = WriteIsolation::Overlays;
        let write = "echo x > file && ! test -e $CARGO_TARGET_DIR/file && cat file";
        let observed = self
            .begin(WriteMode::Private, WriteMode::Private)
            .and_then(|job| self.alone(&job, &self.shell_program(write)));
        let stayed = match observed {
            Err(JobError::LayersUnsupported(_)) => return Ok(WriteIsolation::Copies),
            observed => observed.map(|(ran, _)| ran.succeeded() && ran.tail == "x\n")?,
        };
        if stayed && !self.tree.join("file").exists() {
            return Ok(WriteIsolation::Overlays);
        }
        let why = "a file that was written to a layer is not where it belongs";
        Err(JobError::CouldNotRun(why.to_owned()))
    }

    /// Whether programs run without a sandbox.
    pub(super) fn is_open(&self) -> bool {
        self.level == Level::Off
    }

    /// The level of the sandbox.
    pub(super) fn level(&self) -> Level {
        self.level
    }

    /// Host directories that every program can read, besides the system.
    pub(super) fn seen(&self) -> Vec<PathBuf> {
        self.visible.binds.iter().map(|bind| bind.source.clone()).collect()
    }

    /// Copies single files of the setup into the tree, unless it has them.
    pub(super) fn place_files(&self) -> io::Result<()> {
        for share in &self.environment.files {
            let target = self.tree.join(&share.place);
            let parent = share.place.parent().unwrap_or(Path::new(""));
            let free = std::fs::symlink_metadata(&target).is_err();
            if !free || environment::make_place(&self.tree, parent).is_err() {
                continue;
            }
            match std::fs::read_link(&share.source) {
                Ok(link) => std::os::unix::fs::symlink(link, target)?,
                Err(_) => drop(std::fs::copy(&share.source, target)?),
            }
        }
        Ok(())
    }

    /// The path of the tree on the host.
    pub(super) fn tree(&self) -> &Path {
        &self.tree
    }

    /// Prepares for the next tree, which can use what was fetched, too.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.keep_times();
        self.guard = None;
        self.slot.clear()?;
        let settings = self.host.cargo_settings().unwrap_or_default();
        std::fs::write(self.slot.tools().join(SETTINGS), settings)
    }

    /// Notes the files of the tree as it was given, before anything else is put there.
    pub(super) fn guard_tree(&mut self) -> io::Result<()> {
        if self.guard.is_none() {
            self.guard = Some(TreeGuard::observe(&self.tree)?);
        }
        Ok(())
    }

    /// Sets the times of the tree's files and reads its settings, before anything runs on it.
    pub(super) fn prepare_tree(&mut self) -> Result<(), TreeNotRunnable> {
        self.guard_tree().map_err(|error| TreeNotRunnable {
            why: format!("the tree cannot be read: {error}"),
            caused_by_agent: false,
        })?;
        if self.settled.is_none() {
            let toolchain = self.host.toolchain(&self.tree);
            self.toolchain = toolchain.map_err(|error| TreeNotRunnable {
                why: error.to_string(),
                caused_by_agent: true,
            })?;
            self.objects = objects::observe(&self.tree);
            self.shares = self.environment.fitting(&self.tree);
            let settled = times::set_times(&self.tree, &self.slot.times());
            self.settled = Some(settled.map_err(|error| TreeNotRunnable {
                why: format!("the times of the tree's files cannot be set: {error}"),
                caused_by_agent: false,
            })?);
        }
        Ok(())
    }

    fn keep_times(&mut self) {
        let Some(settled) = self.settled.take() else { return };
        if settled.keep(&self.tree, &self.slot.times()).is_err() {
            // Without it everything is built again, which is always right.
            let _ = std::fs::remove_file(self.slot.times());
        }
    }

    /// A place for what a job writes.
    pub(super) fn begin(&self, tree: WriteMode, target: WriteMode) -> Result<Work, JobError> {
        let shared = Shared { tree: &self.tree, target: &self.target };
        Work::begin(self.place(), self.isolation, shared, tree, target).map_err(no_place)
    }

    /// A place for a job of cargo's, which builds.
    pub(super) fn begin_build(&self) -> Result<Work, JobError> {
        self.begin(
            WriteMode::Private,
            if self.trust_build { WriteMode::Shared } else { WriteMode::Private },
        )
    }

    fn place(&self) -> PathBuf {
        match self.isolation {
            WriteIsolation::Jobs => self.slot.work(ONLY),
            WriteIsolation::Overlays | WriteIsolation::Copies => {
                self.slot.work(&self.made.fetch_add(1, Ordering::Relaxed).to_string())
            }
        }
    }

    /// How many programs can run in parallel without sharing their writes.
    pub(super) fn max_parallel(&self) -> usize {
        match self.isolation {
            WriteIsolation::Jobs | WriteIsolation::Copies => 1,
            WriteIsolation::Overlays => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// Runs a command line in the tree and discards its writes.
    pub(super) fn shell(&self, line: &str) -> Result<CommandResult, JobError> {
        let job = self.begin(WriteMode::Private, WriteMode::Private)?;
        self.run(&job, &self.shell_program(line)).map(|(ran, _)| ran)
    }

    /// Runs a command line that prepares the tree; what it writes there stays.
    pub(super) fn prepare(&self, line: &str, network: Network) -> Result<CommandResult, JobError> {
        let job = self.begin(WriteMode::Shared, WriteMode::Private)?;
        let mut program = self.shell_program(line);
        if self.level == Level::Off {
            program.directory = &self.tree;
        }
        let ran = self.run_with(&job, &program, network, self.limits).map(|(ran, ..)| ran);
        if network == Network::Host {
            self.forget_settings().map_err(|error| error.to_string())?;
        }
        ran
    }

    /// Fetched files stay for the next tree, but must not configure its build.
    fn forget_settings(&self) -> io::Result<()> {
        for name in ["config", "config.toml", "credentials", "credentials.toml", "bin", "env"] {
            let path = self.slot.cargo().join(name);
            match std::fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => slot::remove(&path)?,
                Ok(_) => std::fs::remove_file(&path)?,
                Err(_) => {}
            }
        }
        // Ours is put over it.
        std::fs::write(self.slot.cargo().join("config.toml"), "")
    }

    pub(super) fn shell_program(&self, line: &str) -> Program<'_> {
        Program {
            line: line.to_owned(),
            argv: ["/bin/sh", "-c", line].map(str::to_owned).into(),
            directory: &self.places.tree,
            environment: Environment::With(&[]),
            capture: Capture::Merged,
        }
    }

    /// Runs a program that builds: what it writes is there for the rest of the job.
    pub(super) fn run(
        &self,
        job: &Work,
        program: &Program<'_>,
    ) -> Result<(CommandResult, Vec<u8>), JobError> {
        let (ran, output, _) = self.run_with(job, program, Network::None, self.limits)?;
        Ok((ran, output))
    }

    /// Runs a program and discards its writes.
    pub(super) fn alone(
        &self,
        job: &Work,
        program: &Program<'_>,
    ) -> Result<(CommandResult, Vec<u8>), JobError> {
        self.run(&self.for_program(job)?, program)
    }

    /// Limits of a program.
    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Runs a program with its own limits, and returns how many bytes it printed.
    pub(super) fn run_within(
        &self,
        work: &Work,
        program: &Program<'_>,
        limits: Limits,
    ) -> Result<(CommandResult, Vec<u8>, u64), JobError> {
        self.run_with(work, program, Network::None, limits)
    }

    /// A place for one program, which begins with what the job has.
    pub(super) fn for_program(&self, job: &Work) -> Result<Work, JobError> {
        job.for_program(self.place()).map_err(no_place)
    }

    fn run_with(
        &self,
        work: &Work,
        program: &Program<'_>,
        network: Network,
        limits: Limits,
    ) -> Result<(CommandResult, Vec<u8>, u64), JobError> {
        let sandbox = self.sandbox(work, program, network);
        let (argv, capture) = (&program.argv, program.capture);
        let finished =
            process::run_until(&self.launcher, &sandbox, argv, capture, limits, &self.until)?;
        let ran = CommandResult {
            line: program.line.clone(),
            ended: finished.ended,
            tail: String::from_utf8_lossy(&finished.tail).into_owned(),
            took: finished.took,
            executed_tests: finished.executed_tests,
        };
        self.compare(work, program)?;
        Ok((ran, finished.output, finished.printed))
    }

    /// Rejects the result of a program that changed files of the tree.
    fn compare(&self, work: &Work, program: &Program<'_>) -> Result<(), JobError> {
        let (Some(guard), Some(written)) = (&self.guard, work.written()) else { return Ok(()) };
        let paths = guard.changed(&self.tree, &written, work.part()).map_err(|error| {
            format!("what `{}` wrote to the tree cannot be read: {error}", program.line)
        })?;
        if paths.is_empty() {
            return Ok(());
        }
        Err(JobError::TreeChanged { line: program.line.clone(), paths })
    }
}

fn no_place(error: io::Error) -> JobError {
    JobError::CouldNotRun(format!("a directory for writes cannot be created: {error}"))
}
