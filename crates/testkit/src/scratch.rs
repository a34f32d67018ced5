//! A throwaway place with a real git repository, and programs run in it with a clean environment.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A temporary directory with `repo/`, `state/`, `config/` and `home/` in it.
pub struct Scratch {
    place: TempDir,
    variables: Vec<(String, String)>,
}

impl Scratch {
    /// A scratch with an empty repository on branch `main`.
    pub fn repository() -> Self {
        let scratch = Self::bare();
        scratch.git(&["init", "--quiet", "--initial-branch=main"]);
        scratch
    }

    /// A scratch directory whose `repo/` is not a repository.
    pub fn bare() -> Self {
        let place = tempfile::Builder::new()
            .prefix("bailiwick-test-")
            .tempdir()
            .expect("a temporary directory");
        let scratch = Self { place, variables: Vec::new() };
        for name in ["repo", "state", "config", "home"] {
            std::fs::create_dir(scratch.place.path().join(name)).expect("a directory");
        }
        scratch
    }

    /// Gives a variable to every program that is run here from now on.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// The whole place.
    pub fn place(&self) -> &Path {
        self.place.path()
    }

    /// The repository's root.
    pub fn root(&self) -> PathBuf {
        self.place.path().join("repo")
    }

    /// The state directory.
    pub fn state(&self) -> PathBuf {
        self.place.path().join("state")
    }

    /// Writes a file below the repository's root.
    pub fn write(&self, path: &str, text: &str) {
        let file = self.root().join(path);
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
        std::fs::write(file, text).expect("a file");
    }

    /// Reads a file below the repository's root.
    pub fn read(&self, path: &str) -> String {
        let file = self.root().join(path);
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    /// Commits everything.
    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", message]);
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// Runs real git in the repository; it must succeed.
    pub fn git(&self, arguments: &[&str]) -> String {
        let output = self.command("git").args(arguments).output().expect("git");
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// A program in the repository, with a clean environment that leads nowhere else.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.root())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.place.path().join("home"))
            .env("XDG_CONFIG_HOME", self.place.path().join("config"))
            .env("BAILIWICK_STATE", self.state())
            .env("GIT_AUTHOR_NAME", "A Person")
            .env("GIT_AUTHOR_EMAIL", "person@example.org")
            .env("GIT_COMMITTER_NAME", "A Person")
            .env("GIT_COMMITTER_EMAIL", "person@example.org")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a program and gives its exit code, standard output and standard error.
    pub fn run(&self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Ran {
        let mut command = self.command(program);
        command.args(arguments);
        loop {
            match command.output() {
                // Another test that forked while the program was copied still has it open for writing.
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                output => return Ran::from(output.expect("the program")),
            }
        }
    }
}

/// The result of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Its exit code; -1 if a signal ended it.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ran {
    /// The program must have ended with this code.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }
}
