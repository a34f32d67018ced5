//! Running git: no prompts, no hooks, no network, no translation, no user or system configuration.
//!
//! The repository's own configuration is read, although an agent may have written to it. Every setting
//! that could make git run a program is switched off here. Commits are read as they are stored: no
//! replacements, no grafts, no commit graph.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use thiserror::Error;

use super::timeout::{Timeout, Until, Waited};

/// Why a git command failed.
#[derive(Debug, Error)]
pub enum GitError {
    /// Git is not installed or cannot be executed.
    #[error("git cannot be started: {why}; install git {} or newer", super::version::MINIMUM)]
    Missing {
        /// The error of the operating system.
        why: String,
    },
    /// The installed git is too old.
    #[error(transparent)]
    Unsupported(#[from] super::version::UnsupportedGit),
    /// Git exited with an error.
    #[error("git {command} failed: {}", failure(*exit_code, stderr))]
    Failed {
        /// The arguments, separated by spaces.
        command: String,
        /// The exit code; `None` if a signal ended git.
        exit_code: Option<i32>,
        /// What git wrote to standard error.
        stderr: String,
    },
    /// Git did not finish in time, and was stopped.
    #[error("git {command} was stopped: {reason}")]
    TimedOut {
        /// The arguments, separated by spaces.
        command: String,
        /// The time limit, or the file that blocks git.
        reason: String,
    },
    /// Git's output cannot be parsed.
    #[error("git {command} printed unexpected output: {output}")]
    UnexpectedOutput {
        /// The arguments, separated by spaces.
        command: String,
        /// The part that cannot be parsed.
        output: String,
    },
    /// A file or a process that git needs cannot be used.
    #[error("{action}: {source}")]
    Io {
        /// What was tried, for example `cannot read the index of /repo`.
        action: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// What git reads from standard input.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// Nothing.
    Nothing,
    /// These bytes.
    Bytes(&'a [u8]),
    /// A file. A lock on it stays for as long as git lives, even if this process is killed.
    File(&'a File),
}

/// Git in one directory.
#[derive(Debug, Clone)]
pub struct Git {
    directory: PathBuf,
    environment: Vec<(OsString, OsString)>,
    settings: Vec<(String, String)>,
    timeout: Option<Timeout>,
    max_memory: Option<u64>,
    protocols: &'static str,
}

/// The result of a git command, successful or not.
#[derive(Debug, Clone)]
pub struct GitOutput {
    /// The exit code; `None` if a signal ended git.
    pub exit_code: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error, without white space around it.
    pub stderr: String,
    command: String,
}

/// Overrides of settings by which a repository could make git run a program.
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
    // Files that would override what the objects say.
    "core.commitGraph=false",
    "advice.graftFileDeprecated=false",
];

/// Git would fetch a missing object by the transport that the configuration names, and a replacement or
/// a graft would give it another commit than the one that was asked for.
const STORED_OBJECTS_ONLY: [(&str, &str); 3] =
    [("GIT_NO_LAZY_FETCH", "1"), ("GIT_NO_REPLACE_OBJECTS", "1"), ("GIT_GRAFT_FILE", "/dev/null")];

impl Git {
    /// Git that runs in `directory`.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            environment: Vec::new(),
            settings: Vec::new(),
            timeout: None,
            max_memory: None,
            protocols: "none",
        }
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn with_env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Runs in another directory.
    #[must_use]
    pub(super) fn in_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = directory.into();
        self
    }

    /// Adds settings that override every configuration file. Their names may contain any character.
    #[must_use]
    pub fn with_settings<N: Into<String>, V: Into<String>>(
        mut self,
        settings: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let settings = settings.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.settings.extend(settings);
        self
    }

    /// Allows these transport protocols and no others.
    #[must_use]
    pub(super) fn with_protocols(mut self, protocols: &'static str) -> Self {
        self.protocols = protocols;
        self
    }

    /// Stops commands that take too long.
    #[must_use]
    pub(super) fn with_timeout(mut self, timeout: Timeout) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Limits the bytes of memory that commands allocate. Files that git maps to read them do not count.
    #[must_use]
    pub(super) fn with_max_memory(mut self, bytes: u64) -> Self {
        self.max_memory = Some(bytes);
        self
    }

    /// The directory in which git runs.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Runs git and returns its standard output; an exit code other than 0 is an error.
    pub fn run<I, S>(&self, arguments: I) -> Result<Vec<u8>, GitError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.run_with_input(arguments, Input::Nothing)
    }

    /// The same, with input.
    pub fn run_with_input<I, S>(&self, arguments: I, input: Input<'_>) -> Result<Vec<u8>, GitError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let output = self.output(arguments, input)?;
        if output.exit_code == Some(0) { Ok(output.stdout) } else { Err(output.into_error()) }
    }

    /// Runs git with input and returns its output, whatever the exit code.
    pub fn output<I, S>(&self, arguments: I, input: Input<'_>) -> Result<GitOutput, GitError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let arguments: Vec<OsString> =
            arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        let mut output = self.run_process(&[], &arguments, input)?;
        if !output.status.success() && is_ownership_refusal(&output) {
            output = self.run_process(&safe_directories(), &arguments, input)?;
        }
        Ok(GitOutput {
            exit_code: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            command: join(&arguments),
        })
    }

    /// Runs git and returns its standard output; `None` if it is longer than `max_bytes`.
    pub fn run_limited(
        &self,
        arguments: &[&str],
        max_bytes: usize,
    ) -> Result<Option<Vec<u8>>, GitError> {
        self.run_limited_with_input(arguments, Input::Nothing, max_bytes)
    }

    /// The same, with input. Git is stopped as soon as its output is longer.
    pub(super) fn run_limited_with_input(
        &self,
        arguments: &[&str],
        input: Input<'_>,
        max_bytes: usize,
    ) -> Result<Option<Vec<u8>>, GitError> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let mut command = self.command(&safe_directories(), &arguments);
        command.stdin(standard_input(input)?).stderr(Stdio::null());
        let mut child = command.spawn().map_err(missing)?;
        if let Some(bytes) = self.max_memory {
            limit_memory(&mut child, bytes)?;
        }
        let (pipe, output) = (child.stdin.take(), child.stdout.take());
        let (read, status, stopped) = std::thread::scope(|scope| {
            if let (Some(mut pipe), Input::Bytes(input)) = (pipe, input) {
                // Git closes its end early when it fails or is stopped.
                scope.spawn(move || pipe.write_all(input));
            }
            let (done, finished) = mpsc::channel::<()>();
            let reading = scope.spawn(move || {
                let read = read_limited(output, max_bytes);
                drop(done);
                read
            });
            let stopped = self.timeout.and_then(|Timeout { grace, limit, .. }| {
                let limit = grace.saturating_add(limit);
                Until { limit, is_cancelled: &|| false }.wait(&finished)
            });
            if stopped.is_some() {
                // Git may have exited by itself; then there is nothing to stop.
                let _ = child.kill();
            }
            let broken = |_| Err(io::Error::other("its output cannot be read"));
            let read = reading.join().unwrap_or_else(broken);
            if !matches!(read, Ok(Some(_))) {
                let _ = child.kill();
            }
            (read, child.wait(), stopped)
        });
        let status = status.map_err(unreadable)?;
        if let Some(reason) = stopped {
            return Err(GitError::TimedOut { command: join(&arguments), reason });
        }
        let Some(stdout) = read.map_err(unreadable)? else { return Ok(None) };
        if status.success() {
            return Ok(Some(stdout));
        }
        let (command, exit_code) = (join(&arguments), status.code());
        Err(GitError::Failed { command, exit_code, stderr: String::new() })
    }

    /// Runs git and writes its standard output into a file; `false` if it is longer than `max_bytes`. Git is stopped
    /// then, and when `until` says so.
    pub(super) fn run_into(
        &self,
        arguments: &[&str],
        input: Input<'_>,
        (file, max_bytes): (&mut File, usize),
        until: Until<'_>,
    ) -> Result<bool, GitError> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let mut command = self.command(&safe_directories(), &arguments);
        command.stdin(standard_input(input)?).stderr(Stdio::null());
        let mut child = command.spawn().map_err(missing)?;
        let (pipe, output) = (child.stdin.take(), child.stdout.take());
        let (copied, status, stopped) = std::thread::scope(|scope| {
            if let (Some(mut pipe), Input::Bytes(input)) = (pipe, input) {
                // Git closes its end early when it fails or is stopped.
                scope.spawn(move || pipe.write_all(input));
            }
            let (done, finished) = mpsc::channel::<()>();
            let copying = scope.spawn(move || {
                let copied = copy_limited(output, file, max_bytes);
                drop(done);
                copied
            });
            let stopped = until.wait(&finished);
            if stopped.is_some() {
                // Git may have exited by itself; then there is nothing to stop.
                let _ = child.kill();
            }
            let broken = |_| Err(io::Error::other("its output cannot be read"));
            let copied = copying.join().unwrap_or_else(broken);
            if !matches!(copied, Ok(true)) {
                let _ = child.kill();
            }
            (copied, child.wait(), stopped)
        });
        let status = status.map_err(unreadable)?;
        if let Some(reason) = stopped {
            return Err(GitError::TimedOut { command: join(&arguments), reason });
        }
        if !copied.map_err(unreadable)? {
            return Ok(false);
        }
        if status.success() {
            return Ok(true);
        }
        let (command, exit_code) = (join(&arguments), status.code());
        Err(GitError::Failed { command, exit_code, stderr: String::new() })
    }

    /// Runs git and returns its standard output as text, without the line break at its end.
    pub fn line<I, S>(&self, arguments: I) -> Result<String, GitError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let text = String::from_utf8_lossy(&self.run(arguments)?).into_owned();
        Ok(text.trim_end_matches('\n').to_owned())
    }

    /// Whether git exits with code 0.
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

    /// Starts git without waiting for it; the caller reads its output.
    pub(super) fn spawn<'a>(
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
        remove_git_variables(&mut command);
        // Git splits `-c name=value` at the first `=`, which a name may contain.
        command.env("GIT_CONFIG_COUNT", self.settings.len().to_string());
        for (number, (name, value)) in self.settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{number}"), name);
            command.env(format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        command
            .args(arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("LC_ALL", "C")
            .envs(STORED_OBJECTS_ONLY)
            .env("GIT_ALLOW_PROTOCOL", self.protocols)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run_process(
        &self,
        settings: &[String],
        arguments: &[OsString],
        input: Input<'_>,
    ) -> Result<Output, GitError> {
        let mut command = self.command(settings, arguments);
        command.stdin(standard_input(input)?);
        let mut child = command.spawn().map_err(missing)?;
        if let Some(bytes) = self.max_memory {
            limit_memory(&mut child, bytes)?;
        }
        let pipe = child.stdin.take();
        std::thread::scope(|scope| {
            if let (Some(mut pipe), Input::Bytes(input)) = (pipe, input) {
                // Git closes its end early when it fails; then the exit code is the error.
                scope.spawn(move || pipe.write_all(input));
            }
            let Some(timeout) = &self.timeout else {
                return child.wait_with_output().map_err(unreadable);
            };
            match timeout.wait(child, &self.directory).map_err(unreadable)? {
                Waited::Finished(output) => Ok(output),
                Waited::Stopped { reason } => {
                    Err(GitError::TimedOut { command: join(arguments), reason })
                }
            }
        })
    }
}

impl GitOutput {
    /// Standard output as text, without white space around it.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }

    /// The error that says that this command failed.
    pub fn into_error(self) -> GitError {
        let Self { exit_code, stderr, command, .. } = self;
        GitError::Failed { command, exit_code, stderr }
    }
}

impl GitError {
    /// An error of the operating system while trying `action`.
    pub(super) fn io(action: impl Into<String>, source: io::Error) -> Self {
        Self::Io { action: action.into(), source }
    }
}

/// Removes every `GIT_*` variable: in a hook, an alias or `git rebase --exec` they name the caller's
/// repository, and git would use that one wherever it runs.
pub fn remove_git_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
}

/// The `safe.directory` settings of the user: directories to trust although another user owns them.
fn safe_directories() -> Vec<String> {
    let output = Command::new("git")
        .args(["config", "--null", "--get-all", "safe.directory"])
        .current_dir("/")
        .stdin(Stdio::null())
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    text.split_terminator('\0').map(|path| format!("safe.directory={path}")).collect()
}

/// Git reports this only by its message: its exit code is that of every fatal error.
fn is_ownership_refusal(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stderr).contains("dubious ownership")
}

fn standard_input(input: Input<'_>) -> Result<Stdio, GitError> {
    Ok(match input {
        Input::Nothing => Stdio::null(),
        Input::Bytes(_) => Stdio::piped(),
        Input::File(file) => Stdio::from(file.try_clone().map_err(unreadable)?),
    })
}

/// All that a process writes; `None` if it is longer than `max_bytes`.
fn read_limited(pipe: Option<ChildStdout>, max_bytes: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX).saturating_add(1);
    if let Some(pipe) = pipe {
        pipe.take(limit).read_to_end(&mut bytes)?;
    }
    Ok((bytes.len() <= max_bytes).then_some(bytes))
}

/// Writes what a process prints into a file; `false` if it is longer than `max_bytes`.
fn copy_limited(pipe: Option<ChildStdout>, file: &mut File, max_bytes: usize) -> io::Result<bool> {
    let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX).saturating_add(1);
    match pipe {
        Some(pipe) => io::copy(&mut pipe.take(limit), file).map(|count| count < limit),
        None => Ok(true),
    }
}

/// Limits the memory of a process that has just started. One that cannot be limited is ended.
fn limit_memory(child: &mut Child, bytes: u64) -> Result<(), GitError> {
    let inherited = getrlimit(Resource::Data);
    // A limit can only be lowered.
    let lower = |limit: Option<u64>| Some(limit.map_or(bytes, |limit| limit.min(bytes)));
    let limit = Rlimit { current: lower(inherited.current), maximum: lower(inherited.maximum) };
    match prlimit(Some(Pid::from_child(child)), Resource::Data, limit) {
        Ok(_) => Ok(()),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(GitError::io("cannot limit the memory of git", error.into()))
        }
    }
}

fn failure(exit_code: Option<i32>, stderr: &str) -> String {
    match exit_code {
        _ if !stderr.is_empty() => stderr.to_owned(),
        Some(code) => format!("exit code {code}"),
        None => "ended by a signal".to_owned(),
    }
}

fn missing(error: io::Error) -> GitError {
    GitError::Missing { why: error.to_string() }
}

fn unreadable(error: io::Error) -> GitError {
    GitError::io("cannot exchange data with git", error)
}

fn join(arguments: &[OsString]) -> String {
    let words: Vec<_> = arguments.iter().map(|argument| argument.to_string_lossy()).collect();
    words.join(" ")
}
