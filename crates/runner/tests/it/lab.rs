//! An environment to run programs in a sandbox, and the same programs outside.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use bailiwick_runner::process::{self, Capture, Finished, Limits};
use bailiwick_runner::sandbox::{Bind, Bounds, Launcher, Level, Network, Sandbox, SandboxError};
use bailiwick_verify::job::Termination;
use tempfile::TempDir;

/// A writable directory that is seen at `/lab`, and a sandbox around it.
pub(crate) struct Lab {
    place: TempDir,
    /// The sandbox of every command.
    pub(crate) sandbox: Sandbox,
    /// The limits of every command.
    pub(crate) limits: Limits,
}

/// The path of our program for tests that run as a user who cannot read the build directory.
pub(crate) const PROBE: &str = "BAILIWICK_TEST_PROBE";

/// Our program, as these tests use it.
pub(crate) fn launcher() -> Launcher {
    Launcher::new(probe_program(), &[])
}

pub(crate) fn probe_program() -> PathBuf {
    std::env::var_os(PROBE)
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_sandbox-probe")), PathBuf::from)
}

/// Waits until a condition holds, and returns whether it does in the end.
pub(crate) fn becomes_true(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Processes of the host that have `mark` in their command line.
pub(crate) fn processes_with(mark: &str) -> Vec<i32> {
    let numbers = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let number: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(format!("/proc/{number}/cmdline")).ok()?;
        String::from_utf8_lossy(&line).contains(mark).then_some(number)
    });
    numbers.collect()
}

impl Lab {
    pub(crate) fn new() -> Self {
        let place = tempfile::Builder::new().prefix("bailiwick-test-").tempdir().unwrap();
        let inside = place.path().join("lab");
        std::fs::create_dir(&inside).unwrap();
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let sandbox = Sandbox {
            read_only: Vec::new(),
            writable: vec![Bind::new(inside, "/lab")],
            layered: Vec::new(),
            overlaid: Vec::new(),
            private: vec![PathBuf::from("/home/inside")],
            emptied: Vec::new(),
            hidden: Vec::new(),
            read_only_paths: Vec::new(),
            environment: vec![
                variable("PATH", "/usr/local/bin:/usr/bin:/bin"),
                variable("HOME", "/home/inside"),
            ],
            directory: PathBuf::from("/lab"),
            network: Network::None,
            listener_port: None,
            bounds: Bounds::default(),
            level: Level::Full,
        };
        Self { place, sandbox, limits: Limits { time: Duration::from_mins(2), output: 1 << 20 } }
    }

    /// The same, without a sandbox.
    pub(crate) fn off(mut self) -> Self {
        self.sandbox.level = Level::Off;
        self.sandbox.directory = self.directory();
        self
    }

    /// The path of `/lab` on the host.
    pub(crate) fn directory(&self) -> PathBuf {
        self.place.path().join("lab")
    }

    /// A path of the host that is not in the sandbox.
    pub(crate) fn outside(&self) -> &Path {
        self.place.path()
    }

    pub(crate) fn try_run(&self, argv: &[&str]) -> Result<Finished, SandboxError> {
        let argv: Vec<String> = argv.iter().map(|one| (*one).to_owned()).collect();
        process::run(&launcher(), &self.sandbox, &argv, Capture::Merged, self.limits)
    }

    /// A command line for a shell.
    pub(crate) fn shell(&self, line: &str) -> Finished {
        self.try_run(&["/bin/sh", "-c", line]).unwrap()
    }

    /// The output of a command line that must succeed.
    pub(crate) fn output_of(&self, line: &str) -> String {
        let finished = self.shell(line);
        let text = String::from_utf8(finished.tail).unwrap();
        assert_eq!(finished.ended, Termination::Exit(0), "{line}: {text}");
        text
    }

    /// A command line outside of any sandbox: the positive control.
    pub(crate) fn run_outside(&self, line: &str) -> Output {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", line]).current_dir(self.directory()).output().unwrap()
    }

    /// A command line that succeeds outside must fail inside.
    #[track_caller]
    pub(crate) fn fails_only_inside(&self, line: &str) {
        let outside_run = self.run_outside(line);
        assert!(
            outside_run.status.success(),
            "the control: it fails outside: {line}: {outside_run:?}"
        );
        let finished = self.shell(line);
        let output = String::from_utf8_lossy(&finished.tail).into_owned();
        assert_ne!(finished.ended, Termination::Exit(0), "{line}: {output}");
    }
}
