//! The sandbox around a slot, in which programs are run.

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
use crate::sandbox::{Bind, Bounds, Launcher, Level, Network, Sandbox};
use crate::toolchain::{self, Host, Toolchain, VisibleToolchain};

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
    apart: WriteIsolation,
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
    pub(super) caused_by_work: bool,
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
            apart: WriteIsolation::Jobs,
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
            bench.apart = bench.observe_apart()?;
        }
        Ok(bench)
    }

    /// Whether layers can be had here, seen by writing in one. Only a machine that has none gets copies.
    fn observe_apart(&mut self) -> Result<WriteIsolation, JobError> {
        self.apart = WriteIsolation::Overlays;
        let write = "echo x > file && ! test -e $CARGO_TARGET_DIR/file && cat file";
        let seen = self
            .begin(WriteMode::Private, WriteMode::Private)
            .and_then(|job| self.alone(&job, &self.shell_program(write)));
        let stayed = match seen {
            Err(JobError::LayersUnsupported(_)) => return Ok(WriteIsolation::Copies),
            seen => seen.map(|(ran, _)| ran.succeeded() && ran.tail == "x\n")?,
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
            caused_by_work: false,
        })?;
        if self.settled.is_none() {
            let toolchain = self.host.toolchain(&self.tree);
            self.toolchain = toolchain.map_err(|error| TreeNotRunnable {
                why: error.to_string(),
                caused_by_work: true,
            })?;
            self.objects = objects::observe(&self.tree);
            self.shares = self.environment.fitting(&self.tree);
            let settled = times::set_times(&self.tree, &self.slot.times());
            self.settled = Some(settled.map_err(|error| TreeNotRunnable {
                why: format!("the times of the tree's files cannot be set: {error}"),
                caused_by_work: false,
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
        Work::begin(self.place(), self.apart, shared, tree, target).map_err(no_place)
    }

    /// A place for a job of cargo's, which builds.
    pub(super) fn begin_build(&self) -> Result<Work, JobError> {
        self.begin(
            WriteMode::Private,
            if self.trust_build { WriteMode::Shared } else { WriteMode::Private },
        )
    }

    fn place(&self) -> PathBuf {
        match self.apart {
            WriteIsolation::Jobs => self.slot.work(ONLY),
            WriteIsolation::Overlays | WriteIsolation::Copies => {
                self.slot.work(&self.made.fetch_add(1, Ordering::Relaxed).to_string())
            }
        }
    }

    /// How many programs can run in parallel without sharing their writes.
    pub(super) fn max_parallel(&self) -> usize {
        match self.apart {
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
        self.run(&self.above(job)?, program)
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
    pub(super) fn above(&self, job: &Work) -> Result<Work, JobError> {
        job.above(self.place()).map_err(no_place)
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

    /// Files of the tree that a program can only read.
    fn frozen(&self, work: &Work) -> Vec<PathBuf> {
        match (&self.guard, work.written()) {
            (Some(guard), Some(_)) => guard.mounted(&self.places.tree, work.part()),
            (None, _) | (_, None) => Vec::new(),
        }
    }

    /// Directories that look writable, in the tree and in the home.
    fn shared(&self) -> Vec<Bind> {
        let places = &self.places;
        let in_tree = self.shares.iter();
        let in_tree = in_tree.map(|one| Bind::new(&one.source, places.tree.join(&one.place)));
        let within = |share: &&Share| {
            let setup = self.environment.setup_home.as_ref();
            // Cargo has a separate home, and the share of the setup is its whole home.
            !share.place.starts_with(".cargo")
                && !setup.is_some_and(|home| share.source.starts_with(home))
        };
        let in_home = self.environment.in_home.iter().filter(within);
        let in_home = in_home.map(|one| Bind::new(&one.source, places.home.join(&one.place)));
        in_tree.chain(in_home).collect()
    }

    /// The sources of dependencies that the setup or the person has fetched.
    fn fetched(&self) -> Vec<Bind> {
        let setup = self.environment.setup_home.as_ref().map(|home| home.join(".cargo"));
        let setup = setup.filter(|cargo| cargo.join("registry").is_dir());
        match setup {
            Some(cargo) => Host { cargo, ..self.host.clone() }.fetched(&self.places.cargo),
            None => self.host.fetched(&self.places.cargo),
        }
    }

    pub(super) fn sandbox(&self, work: &Work, program: &Program<'_>, network: Network) -> Sandbox {
        let places = &self.places;
        let shared = Shared { tree: &self.tree, target: &self.target };
        let seen = Shared { tree: &places.tree, target: &places.target };
        let (mut writable, overlaid) = work.mounts(shared, seen);
        writable.push(Bind::new(work.results(), &places.results));
        let mut read_only = self.visible.binds.clone();
        read_only.push(Bind::new(self.slot.tools(), &places.tools));
        read_only.extend(self.objects.iter().map(Bind::same));
        let mut private = Vec::new();
        let mut layered = self.shared();
        match &self.environment.setup_home {
            Some(home) => layered.push(Bind::new(home, &places.home)),
            None => private.push(places.home.clone()),
        }
        let aliases = self.environment.alias_binds(&self.tree, &self.shares);
        read_only.extend(aliases.into_iter().filter(|bind| !bind.target.starts_with(&places.tree)));
        match self.sources {
            Sources::Person => {
                // Cargo locks and notes beside its sources, and may have to unpack one of them.
                private.push(places.cargo.clone());
                layered.extend(self.fetched());
            }
            Sources::Fetched => {
                let own = Bind::new(self.slot.cargo(), &places.cargo);
                match network {
                    Network::Host => writable.push(own),
                    // What a change runs must not influence the next build.
                    Network::None => layered.push(own),
                }
            }
        }
        // Also if they are empty: nothing else may configure cargo.
        let settings = self.slot.tools().join(SETTINGS);
        if settings.is_file() {
            read_only.push(Bind::new(settings, places.cargo.join("config.toml")));
        }
        let environment = match program.environment {
            Environment::Whole(all) => all.to_vec(),
            Environment::With(more) => self.environment(network, more),
        };
        Sandbox {
            read_only,
            writable,
            layered,
            overlaid,
            private,
            emptied: Vec::new(),
            hidden: Vec::new(),
            frozen: self.frozen(work),
            environment,
            directory: program.directory.to_owned(),
            network,
            door: None,
            bounds: Bounds::default(),
            level: self.level,
        }
    }

    /// Built from nothing, so that it contains nothing of the person's.
    fn environment(&self, network: Network, more: &[(String, String)]) -> Vec<(String, String)> {
        let places = &self.places;
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        let cargo = match (self.level, self.sources) {
            (Level::Off, Sources::Fetched) => shown(&self.slot.cargo()),
            _ => shown(&places.cargo),
        };
        let mut all: Vec<(&str, String)> = vec![
            ("PATH", self.environment.path(&self.visible.path)),
            ("HOME", shown(&places.home)),
            ("LANG", "C.UTF-8".to_owned()),
            ("TERM", "dumb".to_owned()),
            ("NO_COLOR", "1".to_owned()),
            ("CARGO_TERM_COLOR", "never".to_owned()),
            ("CARGO_TERM_PROGRESS_WHEN", "never".to_owned()),
            ("CARGO_HOME", cargo),
            ("CARGO_TARGET_DIR", shown(&places.target)),
            // A missing toolchain is an error that says so.
            ("RUSTUP_AUTO_INSTALL", "0".to_owned()),
            (toolchain::NO_BYTECODE.0, toolchain::NO_BYTECODE.1.to_owned()),
            // Cargo prefers these to what a tree sets.
            ("RUSTC_WRAPPER", String::new()),
            ("RUSTC_WORKSPACE_WRAPPER", String::new()),
        ];
        let program = |name: &str| match &self.toolchain {
            Some(toolchain) => toolchain.program(name),
            None => name.to_owned(),
        };
        all.push(("RUSTC", program("rustc")));
        all.push(("RUSTDOC", program("rustdoc")));
        let name = self.toolchain.as_ref().map(|toolchain| toolchain.name.clone());
        all.extend(name.map(|name| ("RUSTUP_TOOLCHAIN", name)));
        match network {
            Network::None => {}
            Network::Host => {
                let proxies = self.host.proxies.iter();
                all.extend(proxies.map(|(name, value)| (name.as_str(), value.clone())));
                // Fetched packages must not run where there is a network.
                all.push(("npm_config_ignore_scripts", "true".to_owned()));
                all.push(("YARN_ENABLE_SCRIPTS", "false".to_owned()));
            }
        }
        all.extend(
            self.visible.variables.iter().map(|(name, value)| (name.as_str(), value.clone())),
        );
        if network == Network::None {
            let told = toolchain::OFFLINE.iter();
            // Without a sandbox there is a network, and only cargo is to do without.
            let told = told.filter(|(name, _)| !self.is_open() || name.starts_with("CARGO"));
            all.extend(told.map(|(name, value)| (*name, (*value).to_owned())));
        }
        all.extend(self.visible.rustup.clone().map(|place| ("RUSTUP_HOME", place)));
        let ours = all.into_iter().map(|(name, value)| (name.to_owned(), value));
        let ours = ours.chain(toolchain::homes(&places.home));
        ours.chain(more.iter().cloned()).collect()
    }
}

fn no_place(error: io::Error) -> JobError {
    JobError::CouldNotRun(format!("there is no place for what is written: {error}"))
}
