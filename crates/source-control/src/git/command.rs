//! Running git: no prompts, no hooks, no network, no translation, no configuration of the user's or
//! the system's.
//!
//! The repository's own configuration is read, though an agent may have written to it: whatever it
//! could have git run is switched off here. Commits are taken for what they are: no replacements,
//! no grafts, no cache of their parents and trees.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use thiserror::Error;

use super::patience::Patience;

/// Why git did not do what it was asked.
#[derive(Debug, Error)]
pub enum GitError {
    /// There is no git.
    #[error("git cannot be started: {why}; install git {} or newer", super::version::MINIMUM)]
    Missing {
        /// What the system said.
        why: String,
    },
    /// The installed git is too old.
    #[error(transparent)]
    Unsupported(#[from] super::version::UnsupportedGit),
    /// Git said no.
    #[error("git {command} failed: {why}")]
    Failed {
        /// The command, as it was called.
        command: String,
        /// What git said.
        why: String,
    },
    /// Git waited for something that will not come.
    #[error("git {command} was ended: {why}")]
    Stuck {
        /// The command, as it was called.
        command: String,
        /// For what, or how long.
        why: String,
    },
    /// Git said something that is not understood.
    #[error("git {command} answered in an unknown way: {what}")]
    Unexpected {
        /// The command, as it was called.
        command: String,
        /// What could not be read.
        what: String,
    },
}

/// How often worktrees are asked for again that could not be listed, and after how long.
const LISTED_AGAIN: u32 = 10;
const BETWEEN_LISTS: Duration = Duration::from_millis(50);

/// What git reads.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// Nothing.
    Nothing,
    /// These bytes.
    Bytes(&'a [u8]),
    /// A file; a lock on it is held for as long as git lives, even if we do not.
    File(&'a File),
}

/// Git in one directory.
#[derive(Debug, Clone)]
pub struct Git {
    directory: PathBuf,
    environment: Vec<(OsString, OsString)>,
    settings: Vec<(String, String)>,
    patience: Option<Patience>,
    protocols: &'static str,
}

/// How git ended, whether it did what it was asked or not.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Its exit code; nothing if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub printed: Vec<u8>,
    /// What it complained of.
    pub complaint: String,
    command: String,
}

/// Settings that would run a program of somebody's choice.
const NO_PROGRAMS: [&str; 16] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=false",
    "core.sshCommand=false",
    "core.gitProxy=none",
    "core.askPass=false",
    "core.alternateRefsCommand=",
    "protocol.allow=never",
    "diff.external=false",
    "log.showSignature=false",
    "gpg.program=false",
    "credential.helper=",
    "gc.auto=0",
    // Files beside the objects that would speak for them.
    "core.commitGraph=false",
    "advice.graftFileDeprecated=false",
];

/// For an object that is not there, git would call whatever transport the configuration names; a
/// replacement or a graft would give it another commit than the one it was asked for.
const AS_IT_IS: [(&str, &str); 3] =
    [("GIT_NO_LAZY_FETCH", "1"), ("GIT_NO_REPLACE_OBJECTS", "1"), ("GIT_GRAFT_FILE", "/dev/null")];

impl Git {
    /// Git as if called in `directory`.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            environment: Vec::new(),
            settings: Vec::new(),
            patience: None,
            protocols: "none",
        }
    }

    /// The same with a variable more in its environment.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// The same as if called in another directory.
    #[must_use]
    pub(super) fn moved_to(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = directory.into();
        self
    }

    /// The same with settings that go before those of every file. Names may have any letters.
    #[must_use]
    pub fn with_settings(mut self, settings: &[(String, String)]) -> Self {
        self.settings.extend_from_slice(settings);
        self
    }

    /// The same that may speak to others by these protocols, and by no other.
    #[must_use]
    pub(super) fn speaking(mut self, protocols: &'static str) -> Self {
        self.protocols = protocols;
        self
    }

    /// The same that is not waited for without end.
    #[must_use]
    pub(super) fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = Some(patience);
        self
    }

    /// The directory it is called in.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Runs git and gives what it printed; a failure is an error.
    pub fn run<I, S>(&self, arguments: I) -> Result<Vec<u8>, GitError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.run_with(arguments, Input::Nothing)
    }

    /// Runs git, feeds it `input`, and gives what it printed.
    pub fn run_with<I, S>(&self, arguments: I, input: Input<'_>) -> Result<Vec<u8>, GitError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let ended = self.end_with(arguments, input)?;
        if ended.code == Some(0) { Ok(ended.printed) } else { Err(ended.into_error()) }
    }

    /// The worktrees of the repository, as `git worktree list` tells them. Whoever adds one writes its files one
    /// after the other, and git lists none while one of them is empty: then it is asked again.
    pub fn worktrees(&self, input: Input<'_>) -> Result<Vec<u8>, GitError> {
        let mut tries = 0;
        loop {
            match self.run_with(["worktree", "list", "--porcelain", "-z"], input) {
                Err(GitError::Failed { .. }) if tries < LISTED_AGAIN => {
                    tries += 1;
                    std::thread::sleep(BETWEEN_LISTS);
                }
                ended => return ended,
            }
        }
    }

    /// Runs git, feeds it `input`, and tells how it ended.
    pub fn end_with<I, S>(&self, arguments: I, input: Input<'_>) -> Result<Ended, GitError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let arguments: Vec<OsString> =
            arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        let mut output = self.output(&[], &arguments, input)?;
        if !output.status.success() && is_ownership_refusal(&output) {
            output = self.output(&self.directories_held_safe(), &arguments, input)?;
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let failed = !output.status.success() && said.is_empty();
        Ok(Ended {
            code: output.status.code(),
            printed: output.stdout,
            complaint: if failed { output.status.to_string() } else { said },
            command: shown(&arguments),
        })
    }

    /// Runs git and gives what it printed; nothing if that is longer than `most`, and then git is ended.
    pub fn run_up_to(&self, arguments: &[&str], most: usize) -> Result<Option<Vec<u8>>, GitError> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let mut command = self.command(&self.directories_held_safe(), &arguments);
        let mut child =
            command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().map_err(missing)?;
        let mut printed = Vec::new();
        let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
        let read = match child.stdout.take() {
            Some(pipe) => pipe.take(limit).read_to_end(&mut printed),
            None => Ok(0),
        };
        if read.is_err() || printed.len() > most {
            // One that has ended by itself meanwhile is as good.
            let _ = child.kill();
        }
        let status = child.wait().map_err(missing)?;
        read.map_err(missing)?;
        if printed.len() > most {
            return Ok(None);
        }
        match status.success() {
            true => Ok(Some(printed)),
            false => Err(GitError::Failed { command: shown(&arguments), why: status.to_string() }),
        }
    }

    /// Runs git and gives its one line.
    pub fn line<I, S>(&self, arguments: I) -> Result<String, GitError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let text = String::from_utf8_lossy(&self.run(arguments)?).into_owned();
        Ok(text.trim_end_matches('\n').to_owned())
    }

    /// Whether git exits with 0.
    pub fn succeeds<I, S>(&self, arguments: I) -> Result<bool, GitError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        match self.run(arguments) {
            Ok(_) => Ok(true),
            Err(GitError::Failed { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Starts git and does not wait for it; what it prints is kept for the caller.
    pub(super) fn start<'a>(
        &self,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Result<Child, GitError> {
        let arguments: Vec<OsString> = arguments.into_iter().map(OsString::from).collect();
        self.command(&[], &arguments).stdin(Stdio::null()).spawn().map_err(missing)
    }

    fn command(&self, settings: &[String], arguments: &[OsString]) -> Command {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.directory).args(["--no-optional-locks", "--literal-pathspecs"]);
        for setting in NO_PROGRAMS.iter().copied().chain(settings.iter().map(String::as_str)) {
            command.arg("-c").arg(setting);
        }
        forget_repository(&mut command);
        // Git splits `-c name=value` at the first `=`, which a name may have.
        command.env("GIT_CONFIG_COUNT", self.settings.len().to_string());
        for (number, (name, value)) in self.settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{number}"), name);
            command.env(format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        command
            .args(arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("LC_ALL", "C")
            .envs(AS_IT_IS)
            .env("GIT_ALLOW_PROTOCOL", self.protocols)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn output(
        &self,
        settings: &[String],
        arguments: &[OsString],
        input: Input<'_>,
    ) -> Result<Output, GitError> {
        let mut command = self.command(settings, arguments);
        command.stdin(match input {
            Input::Nothing => Stdio::null(),
            Input::Bytes(_) => Stdio::piped(),
            Input::File(file) => Stdio::from(file.try_clone().map_err(missing)?),
        });
        let mut child = command.spawn().map_err(missing)?;
        let pipe = child.stdin.take();
        std::thread::scope(|scope| {
            if let (Some(mut pipe), Input::Bytes(input)) = (pipe, input) {
                // Git closes its end early when it fails; its exit code tells of that.
                scope.spawn(move || pipe.write_all(input));
            }
            let Some(patience) = &self.patience else {
                return child.wait_with_output().map_err(missing);
            };
            let ended = patience.wait(child, &self.directory).map_err(missing)?;
            ended.map_err(|why| GitError::Stuck { command: shown(arguments), why })
        })
    }

    /// The directories that the person has told git to trust though another user owns them.
    fn directories_held_safe(&self) -> Vec<String> {
        let output = Command::new("git")
            .args(["config", "--null", "--get-all", "safe.directory"])
            .current_dir("/")
            .stdin(Stdio::null())
            .output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let text = text.unwrap_or_default();
        text.split_terminator('\0').map(|path| format!("safe.directory={path}")).collect()
    }
}

impl Ended {
    /// It did not do what it was asked.
    pub fn into_error(self) -> GitError {
        GitError::Failed { command: self.command, why: self.complaint }
    }
}

/// Takes every `GIT_*` variable away: in a hook, an alias or `git rebase --exec` they name the
/// caller's repository, and git would work on that one wherever it is called.
pub fn forget_repository(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
}

fn missing(error: std::io::Error) -> GitError {
    GitError::Missing { why: error.to_string() }
}

fn is_ownership_refusal(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stderr).contains("dubious ownership")
}

fn shown(arguments: &[OsString]) -> String {
    let words: Vec<_> = arguments.iter().map(|argument| argument.to_string_lossy()).collect();
    words.join(" ")
}
