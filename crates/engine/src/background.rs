//! Starts or resumes a run in the background: another Bailiwick process, in its own session.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bailiwick_model::AgentId;
use bailiwick_runner::supervisor::RunDirectory;

use crate::context::Context;
use crate::failure::Failure;
use crate::options::RunOptions;
use crate::system;

/// How long the other process may take to lock the run. A process that exits is noticed at once; this limit
/// is for a machine under load.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Options of a resumed run.
pub struct ResumeOptions<'a> {
    /// The message to its agent.
    pub words: Option<&'a str>,
    /// The options of a new budget.
    pub budget: Vec<String>,
}

/// Resumes the run for a person; returns the path of its log once another process has locked it.
pub fn resume(
    context: &Context,
    id: &AgentId,
    options: &RunOptions,
    again: &ResumeOptions<'_>,
) -> Result<PathBuf, Failure> {
    let unsaid =
        |error: std::io::Error| Failure::general(format!("its input cannot be passed on: {error}"));
    let mut file = tempfile::tempfile().map_err(unsaid)?;
    file.write_all(again.words.unwrap_or_default().as_bytes()).map_err(unsaid)?;
    file.rewind().map_err(unsaid)?;
    let mut more = again.budget.clone();
    more.push("--by-person".to_owned());
    launch(context, id, options, Input::Words(file), Environment::Inherited, &more)
}

/// The standard input of the other process, which inherits the locks in it.
pub enum Input {
    /// Nothing.
    Nothing,
    /// A file that it does not read, passed on so that its lock stays held.
    LockOnly(File),
    /// The message to a resumed agent. Arguments are limited in length, standard input is not.
    Words(File),
}

/// Starts or resumes the run; returns the path of its log once the other process has locked it.
pub fn begin(
    context: &Context,
    id: &AgentId,
    options: &RunOptions,
    input: Input,
) -> Result<PathBuf, Failure> {
    begin_with(context, id, options, input, Environment::Inherited)
}

/// The environment of a run's supervisor.
pub enum Environment {
    /// The environment of this process.
    Inherited,
    /// Only these variables.
    Only(Vec<(OsString, OsString)>),
}

/// Variables that the supervisor of a run needs to find its files; none of them is a credential.
pub const NEEDED: [&str; 31] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "TZ",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "RUST_BACKTRACE",
];

/// Like `begin`, with another environment for the supervisor.
pub fn begin_with(
    context: &Context,
    id: &AgentId,
    options: &RunOptions,
    input: Input,
    environment: Environment,
) -> Result<PathBuf, Failure> {
    launch(context, id, options, input, environment, &[])
}

fn launch(
    context: &Context,
    id: &AgentId,
    options: &RunOptions,
    input: Input,
    environment: Environment,
    more: &[String],
) -> Result<PathBuf, Failure> {
    let directory = RunDirectory::new(&context.state, id.as_str());
    let log = directory.path().join("supervisor.log");
    let failed = |error: std::io::Error| {
        Failure::general(format!("it cannot continue in the background: {error}"))
    };
    let file = File::options().create(true).append(true).mode(0o600).open(&log).map_err(failed)?;
    // The log also has the messages of earlier attempts.
    let before = usize::try_from(file.metadata().map_err(failed)?.len()).unwrap_or(0);
    let mut command = Command::new(system::own_program()?);
    command.arg("supervise").arg(id.as_str()).args(options.arguments()).args(more);
    let input = match input {
        Input::Nothing => Stdio::null(),
        Input::LockOnly(file) => file.into(),
        Input::Words(file) => {
            command.arg("--resume");
            file.into()
        }
    };
    if let Environment::Only(all) = environment {
        command.env_clear().envs(all);
    }
    if let Some(root) = &context.kit_root {
        command.arg("--kit-root").arg(context.directory.join(root));
    }
    context.database.pass_on(&mut command);
    command
        .env("BAILIWICK_STATE", &context.state)
        .current_dir(&context.directory)
        .stdin(input)
        .stdout(file.try_clone().map_err(failed)?)
        .stderr(file)
        // Ctrl-C in this terminal is not meant for it.
        .process_group(0);
    let mut child = command.spawn().map_err(failed)?;
    let deadline = Instant::now() + START_TIMEOUT;
    // It usually locks the run within a few milliseconds.
    let mut pause = Duration::from_millis(1);
    loop {
        if directory.is_supervised_by(child.id()).map_err(failed)? {
            break;
        }
        if let Some(status) = child.try_wait().map_err(failed)? {
            if status.success() {
                break;
            }
            let log_text = std::fs::read_to_string(&log).unwrap_or_default();
            let log_text = log_text.get(before..).unwrap_or_default();
            return Err(Failure::general(format!("it ended at once: {}", log_text.trim())));
        }
        if Instant::now() > deadline {
            // Nothing waits for it any more.
            let _ = child.kill();
            let _ = child.wait();
            return Err(
                Failure::general("it did not begin in time").help(format!("see {}", log.display()))
            );
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
    // The process that starts it may outlive it, and must not leave it as a zombie.
    std::thread::spawn(move || child.wait());
    Ok(log)
}
