//! Running programs within limits.

mod output;
mod short_output;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bailiwick_verify::job::Termination;
use nix::sys::signal::Signal;

pub use short_output::short_output;

use crate::sandbox::{Launcher, Received, Report, Sandbox, SandboxError};
use output::Output;

/// Limits of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long it may run.
    pub time: Duration,
    /// How many bytes it may print.
    pub output: u64,
}

impl Default for Limits {
    /// Half an hour, and 64 MiB.
    fn default() -> Self {
        Self { time: Duration::from_mins(30), output: 64 * 1024 * 1024 }
    }
}

/// Cancels running programs.
#[derive(Debug, Clone, Default)]
pub struct Cancellation {
    /// Set when their results are no longer needed.
    pub cancelled: Arc<AtomicBool>,
    /// The common deadline of all programs, if there is one.
    pub deadline: Option<Instant>,
}

/// The interval at which cancellation is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What happens to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    /// Merged with standard error, in order of arrival.
    Merged,
    /// Captured in full and separately; the tail only has standard error.
    Separate,
}

/// A program that has ended, with all its processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How.
    pub ended: Termination,
    /// The last 64 KiB of what it printed.
    pub tail: Vec<u8>,
    /// Standard output, if it was requested.
    pub output: Vec<u8>,
    /// How many bytes it printed.
    pub printed: u64,
    /// How many tests it executed, if what it printed reports a number.
    pub executed_tests: Option<u64>,
    /// How long it took.
    pub took: Duration,
}

/// Runs a program in a sandbox; returns when it and all processes that it started have ended.
///
/// They also end when this process ends, for any reason.
pub fn run(
    launcher: &Launcher,
    sandbox: &Sandbox,
    argv: &[String],
    capture: Capture,
    limits: Limits,
) -> Result<Finished, SandboxError> {
    run_until(launcher, sandbox, argv, capture, limits, &Cancellation::default())
}

/// Serves connections from a sandbox on this listener until the returned value is dropped.
pub(crate) type ListenerService<'a> = &'a dyn Fn(TcpListener) -> io::Result<Box<dyn std::any::Any>>;

/// Like `run`, with cancellation. A cancelled program is an error.
pub fn run_until(
    launcher: &Launcher,
    sandbox: &Sandbox,
    argv: &[String],
    capture: Capture,
    limits: Limits,
    until: &Cancellation,
) -> Result<Finished, SandboxError> {
    run_with_listener(launcher, sandbox, argv, capture, limits, until, None)
}

/// Like `run_until`, with a service that the sandbox can connect to.
pub(crate) fn run_with_listener(
    launcher: &Launcher,
    sandbox: &Sandbox,
    argv: &[String],
    capture: Capture,
    limits: Limits,
    until: &Cancellation,
    service: Option<ListenerService<'_>>,
) -> Result<Finished, SandboxError> {
    let pipes = |error: io::Error| SandboxError::new("output", error);
    let unneeded = || SandboxError::new("sandbox", "cancelled: its result is no longer needed");
    if until.cancelled.load(Ordering::SeqCst) {
        return Err(unneeded());
    }
    let begun = Instant::now();
    let own = begun + limits.time;
    let deadline = until.deadline.map_or(own, |deadline| deadline.min(own));
    let (output, ends) = Output::new(capture).map_err(pipes)?;
    let mut running = launcher.start(sandbox, argv, ends.output, ends.errors)?;
    let stopper = running.stopper().map_err(pipes)?;
    let reading = output.read(limits.output, move || stopper.stop());
    let waited = watch(&mut running, deadline, &until.cancelled, service);
    // In every case: after this, no process remains that has the pipes open.
    running.end();
    let read = reading.finish();
    let ended = match (read.too_much, waited) {
        (true, _) => Termination::TooMuchOutput(limits.output),
        (false, WaitResult::TimedOut) => {
            Termination::TimedOut(deadline.saturating_duration_since(begun))
        }
        (false, WaitResult::Ended(ended)) => ended,
        (false, WaitResult::Unneeded) => return Err(unneeded()),
        (false, WaitResult::Refused(error)) => return Err(error),
        (false, WaitResult::Lost) => {
            let output_tail = String::from_utf8_lossy(&read.tail).trim().to_owned();
            return Err(SandboxError::new(
                "sandbox",
                format!("it ended without a word. {output_tail}"),
            ));
        }
    };
    Ok(Finished {
        ended,
        tail: read.tail,
        output: read.output,
        printed: read.printed,
        executed_tests: read.executed_tests,
        took: begun.elapsed(),
    })
}

enum WaitResult {
    Ended(Termination),
    TimedOut,
    Unneeded,
    Refused(SandboxError),
    Lost,
}

fn watch(
    running: &mut crate::sandbox::Running,
    deadline: Instant,
    cancelled: &AtomicBool,
    service: Option<ListenerService<'_>>,
) -> WaitResult {
    let mut _open = None;
    loop {
        let remaining = deadline.saturating_duration_since(Instant::now());
        match running.next_report(remaining.min(POLL_INTERVAL)) {
            Received::Report(Report::Confinement(_)) => {}
            Received::Report(Report::Listener(_)) => {
                let Some(serve) = service else { continue };
                let opened = running.take_listener(Duration::ZERO).and_then(|listener| {
                    serve(listener).map_err(|error| SandboxError::new("door", error))
                });
                match opened {
                    Ok(open) => _open = Some(open),
                    Err(error) => return WaitResult::Refused(error),
                }
            }
            Received::Report(Report::Exit(code)) => {
                return WaitResult::Ended(Termination::Exit(code));
            }
            Received::Report(Report::Signal(signal)) => {
                return WaitResult::Ended(Termination::Signal(signal));
            }
            // Like the kernel when a process exceeds its memory.
            Received::Report(Report::MemorySpent(_)) => {
                return WaitResult::Ended(Termination::Signal(Signal::SIGKILL as i32));
            }
            Received::Report(Report::Refused(error)) => return WaitResult::Refused(error),
            Received::TimedOut if cancelled.load(Ordering::SeqCst) => return WaitResult::Unneeded,
            Received::TimedOut if remaining <= POLL_INTERVAL => return WaitResult::TimedOut,
            Received::TimedOut => {}
            Received::Closed => return WaitResult::Lost,
        }
    }
}
