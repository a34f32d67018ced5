//! A place to run things in a sandbox.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bailiwick_runner::process::{self, Capture, Finished, Limits};
use bailiwick_runner::sandbox::{Bind, Launcher, Level, Network, Sandbox, SandboxError};
use tempfile::TempDir;

/// A writable directory that is seen at `/lab`, and a sandbox around it.
pub(crate) struct Lab {
    place: TempDir,
    /// What is run.
    pub(crate) sandbox: Sandbox,
    /// Within which limits.
    pub(crate) limits: Limits,
}

/// Our program, as these tests have it.
pub(crate) fn launcher() -> Launcher {
    Launcher::new(env!("CARGO_BIN_EXE_sandbox-probe"), &[])
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
            private: vec![PathBuf::from("/home/inside")],
            hidden: Vec::new(),
            environment: vec![
                variable("PATH", "/usr/local/bin:/usr/bin:/bin"),
                variable("HOME", "/home/inside"),
            ],
            directory: PathBuf::from("/lab"),
            network: Network::None,
            level: Level::Full,
        };
        Self { place, sandbox, limits: Limits { time: Duration::from_secs(60), output: 1 << 20 } }
    }

    /// Where `/lab` is on the host.
    pub(crate) fn directory(&self) -> PathBuf {
        self.place.path().join("lab")
    }

    /// A place of the host that the sandbox was not given.
    pub(crate) fn outside(&self) -> &Path {
        self.place.path()
    }

    pub(crate) fn try_run(&self, argv: &[&str]) -> Result<Finished, SandboxError> {
        let argv: Vec<String> = argv.iter().map(|one| (*one).to_owned()).collect();
        process::run(&launcher(), &self.sandbox, &argv, Capture::Together, self.limits)
    }

    pub(crate) fn run(&self, argv: &[&str]) -> Finished {
        self.try_run(argv).unwrap()
    }

    /// A command line for a shell.
    pub(crate) fn shell(&self, line: &str) -> Finished {
        self.run(&["/bin/sh", "-c", line])
    }

    /// What a command line printed, which must succeed.
    pub(crate) fn says(&self, line: &str) -> String {
        let ran = self.shell(line);
        let text = String::from_utf8(ran.tail).unwrap();
        assert_eq!(ran.ended, bailiwick_verify::job::Ended::Exit(0), "{line}: {text}");
        text
    }
}
