//! A workshop of checks with a tree in it.

use std::fs;
use std::path::PathBuf;

use bailiwick_lifecycle::ports::{
    CheckEnvironment as _, CheckEnvironmentError, Preparation, SetUp,
};
use bailiwick_runner::checks::{CheckWorkshop, Setup};
use bailiwick_runner::environment::BaseTrust;
use bailiwick_runner::process::{Cancellation, Limits};
use bailiwick_runner::sandbox::Level;
use bailiwick_runner::toolchain::Host;
use bailiwick_verify::job::{CommandResult, CrateTests, Crates, Warnings};
use bailiwick_verify::{Job, JobOutcome};
use tempfile::TempDir;

use crate::lab::launcher;

pub(crate) struct Bench {
    pub(crate) place: TempDir,
    pub(crate) workshop: CheckWorkshop,
    pub(crate) progress: Vec<String>,
}

/// The setup of a workshop below a directory.
pub(crate) fn setup(place: &TempDir) -> Setup {
    let checkout = place.path().join("checkout");
    fs::create_dir_all(&checkout).unwrap();
    Setup {
        state: place.path().join("state"),
        repository: "some-repository".to_owned(),
        checkout,
        installed: Vec::new(),
        level: Level::Full,
        limits: Limits::default(),
        until: Cancellation::default(),
        launcher: launcher(),
        host: Host::observe(),
        base: BaseTrust::default(),
    }
}

pub(crate) fn place() -> TempDir {
    tempfile::Builder::new().prefix("bailiwick-test-").tempdir().unwrap()
}

impl Bench {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        Self::with(files, |setup| setup)
    }

    pub(crate) fn with(files: &[(&str, &str)], change: impl FnOnce(Setup) -> Setup) -> Self {
        let place = place();
        let workshop = CheckWorkshop::open(change(setup(&place))).unwrap();
        let mut bench = Self { place, workshop, progress: Vec::new() };
        bench.fill(files);
        bench
    }

    /// Replaces the tree.
    pub(crate) fn fill(&mut self, files: &[(&str, &str)]) {
        let tree = self.workshop.clear().unwrap().to_owned();
        for (path, text) in files {
            let file = tree.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.workshop.tree()
    }

    pub(crate) fn run(&mut self, job: &Job) -> JobOutcome {
        self.workshop.run(job, &mut |line| self.progress.push(line.to_owned()))
    }

    pub(crate) fn make_ready(
        &mut self,
        preparation: &Preparation,
    ) -> Result<(), CheckEnvironmentError> {
        self.workshop.make_ready(preparation, &mut |line| self.progress.push(line.to_owned()))
    }

    pub(crate) fn set_up(
        &mut self,
        preparation: &Preparation,
    ) -> Result<SetUp, CheckEnvironmentError> {
        self.workshop.set_up(preparation, &mut |line| self.progress.push(line.to_owned()))
    }

    pub(crate) fn shell(&mut self, line: &str) -> CommandResult {
        match self.run(&Job::Command { line: line.to_owned() }) {
            JobOutcome::Commands(mut all) => all.remove(0),
            other @ (JobOutcome::CouldNotRun { .. }
            | JobOutcome::TreeChanged { .. }
            | JobOutcome::Tests { .. }) => {
                panic!("{other:?}")
            }
        }
    }

    pub(crate) fn check(&mut self, of: Crates, warnings: Warnings) -> Vec<CommandResult> {
        match self.run(&Job::CargoCheck { of, warnings }) {
            JobOutcome::Commands(all) => all,
            other @ (JobOutcome::CouldNotRun { .. }
            | JobOutcome::TreeChanged { .. }
            | JobOutcome::Tests { .. }) => {
                panic!("{other:?}")
            }
        }
    }

    /// All tests of every workspace; the build must succeed.
    pub(crate) fn test(&mut self) -> Vec<CrateTests> {
        match self.run(&Job::CargoTest { of: Crates::Containing(Vec::new()) }) {
            JobOutcome::Tests { build, crates } => {
                assert!(build.iter().all(CommandResult::succeeded), "{build:?}");
                crates
            }
            other @ (JobOutcome::CouldNotRun { .. }
            | JobOutcome::TreeChanged { .. }
            | JobOutcome::Commands(_)) => {
                panic!("{other:?}")
            }
        }
    }
}
