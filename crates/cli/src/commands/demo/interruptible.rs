//! The demo in a separate process. A signal ends that process and the agents that it started, and removes their
//! directory.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bailiwick_engine::system;
use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, Colour};

/// How long agents may take to stop before they are killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long killed processes may take to end: one that waits for a disk does not.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What a signal must end and remove.
#[derive(Default)]
struct Started {
    directory: Option<TempDir>,
    /// The process group of the demo.
    group: Option<Pid>,
}

type SharedStarted = Arc<Mutex<Started>>;

/// Runs the demo in a new directory. It is removed at the end, unless it is kept: then its path is returned.
pub(super) fn run(keep: bool) -> Result<Option<PathBuf>, Failure> {
    let started = SharedStarted::default();
    interrupt::set_cleanup({
        let started = Arc::clone(&started);
        move || interrupted(&started, keep)
    });
    interrupt::begin();
    // Agents whose parent was stopped become children of this process, which waits for them.
    set_child_subreaper(true).map_err(|error| Failure::general(error.to_string()))?;
    let mut child = start(&mut lock(&started))?;
    let ended = child.wait();
    // A signal waits for the lock, and then finds nothing to remove.
    let mut started = lock(&started);
    let Some(directory) = started.directory.take() else {
        drop(started);
        wait_for_exit()
    };
    outcome(ended.map_err(|error| Failure::general(error.to_string()))?)?;
    if keep {
        return Ok(Some(directory.keep()));
    }
    let path = directory.path().to_owned();
    directory.close().map_err(|error| {
        Failure::general(format!("{} cannot be removed: {error}", path.display()))
    })?;
    Ok(None)
}

fn lock(started: &SharedStarted) -> MutexGuard<'_, Started> {
    started.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(started: &mut Started) -> Result<Child, Failure> {
    let directory = tempfile::Builder::new()
        .prefix("bailiwick-demo-")
        .tempdir()
        .map_err(|error| Failure::general(format!("no temporary directory: {error}")))?;
    let directory = started.directory.insert(directory);
    let mut command = Command::new(system::own_program()?);
    command.arg("demo").arg("--place").arg(directory.path());
    if output::is_quiet() {
        command.arg("--quiet");
    }
    let child = command
        .args(["--color", Colour::chosen()])
        .stdin(Stdio::null())
        // Ctrl-C at the terminal reaches this process only.
        .process_group(0)
        .spawn()
        .map_err(|error| Failure::general(format!("the demo cannot be started: {error}")))?;
    started.group = Some(Pid::from_raw(child.id().cast_signed()));
    Ok(child)
}

/// The signal is handled by another thread, which ends this process.
fn wait_for_exit() -> ! {
    loop {
        thread::park();
    }
}

fn outcome(ended: ExitStatus) -> Result<(), Failure> {
    match ended.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Failure::AlreadyReported(u8::try_from(code).unwrap_or(1))),
        None => Err(Failure::general(format!("the demo was ended from outside: {ended}"))),
    }
}

/// Whether the processes of the demo have ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopped {
    All,
    /// Some do not end, even killed.
    NotAll,
}

impl Stopped {
    fn sentence(self) -> &'static str {
        match self {
            Self::All => "the demo's agents were stopped",
            Self::NotAll => "some of the demo's processes do not end and are left",
        }
    }
}

/// Stops everything, removes the directory and reports it.
fn interrupted(started: &SharedStarted, keep: bool) -> Option<String> {
    let Started { directory, group } = std::mem::take(&mut *lock(started));
    let directory = directory?;
    let stopped = group.map_or(Stopped::All, stop);
    let path = directory.path().to_owned();
    let agents = stopped.sentence();
    if keep {
        return Some(format!(
            "interrupted: {agents}; its directory was kept: {}",
            directory.keep().display()
        ));
    }
    // A process that is left may still write there.
    if stopped == Stopped::NotAll {
        return Some(format!(
            "interrupted: {agents}, and its directory as well: {}",
            directory.keep().display()
        ));
    }
    Some(match directory.close() {
        Ok(()) => format!("interrupted: {agents} and its directory was removed"),
        Err(error) => format!(
            "interrupted: {agents}, but its directory cannot be removed ({error}): {}",
            path.display()
        ),
    })
}

/// Ends all processes of the group, and waits for them until the deadline.
fn stop(group: Pid) -> Stopped {
    // An error means that the group has ended.
    let _ = killpg(group, Signal::SIGTERM);
    if have_ended_within(STOP_TIMEOUT) {
        return Stopped::All;
    }
    let _ = killpg(group, Signal::SIGKILL);
    if have_ended_within(KILL_TIMEOUT) { Stopped::All } else { Stopped::NotAll }
}

/// Waits for the children of this process; whether they ended in time.
fn have_ended_within(timeout: Duration) -> bool {
    let started = Instant::now();
    while has_children() {
        if started.elapsed() > timeout {
            return false;
        }
        thread::sleep(POLL_INTERVAL);
    }
    true
}

/// Whether this process has children, after it has collected those that ended.
fn has_children() -> bool {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return true,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
}
