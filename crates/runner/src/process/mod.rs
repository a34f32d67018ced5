//! Running programs within limits.

mod first_words;
mod output;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bailiwick_verify::job::Termination;
use nix::sys::signal::Signal;

pub use first_words::first_words;

use crate::sandbox::{Launcher, Next, Report, Sandbox, SandboxError};
use output::Output;

/// What a program may use up.
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

/// When programs are ended before their own time is over.
#[derive(Debug, Clone, Default)]
pub struct Until {
    /// Set when nobody needs them any more.
    pub gone: Arc<AtomicBool>,
    /// When the time that all of them have together is over, where they have one.
    pub deadline: Option<Instant>,
}

/// How often it is looked whether a program is still needed.
const BEAT: Duration = Duration::from_millis(100);

/// What becomes of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    /// It goes with standard error, both as they come.
    Together,
    /// It is kept in full, apart; only standard error is in the tail.
    Apart,
}

/// A program that has ended, and nothing of which is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How.
    pub ended: Termination,
    /// The last 64 KiB of what it printed.
    pub tail: Vec<u8>,
    /// Standard output, where it was asked for.
    pub output: Vec<u8>,
    /// How many bytes it printed.
    pub printed: u64,
    /// How many tests it executed, if what it printed reports a number.
    pub executed_tests: Option<u64>,
    /// How long it took.
    pub took: Duration,
}

/// Runs a program in a sandbox, and comes back when it and all that it started are gone.
///
/// When this process ends before that, however it ends, so do they.
pub fn run(
    launcher: &Launcher,
    sandbox: &Sandbox,
    argv: &[String],
    capture: Capture,
    limits: Limits,
) -> Result<Finished, SandboxError> {
    run_until(launcher, sandbox, argv, capture, limits, &Until::default())
}

/// Who answers at the door of a sandbox, as long as what this gives is not dropped.
pub(crate) type Doorkeeper<'a> = &'a dyn Fn(TcpListener) -> io::Result<Box<dyn std::any::Any>>;

/// The same, for as long as it is needed. One that nobody needs any more has no end of its own: that is
/// an error.
pub fn run_until(
    launcher: &Launcher,
    sandbox: &Sandbox,
    argv: &[String],
    capture: Capture,
    limits: Limits,
    until: &Until,
) -> Result<Finished, SandboxError> {
    run_with_door(launcher, sandbox, argv, capture, limits, until, None)
}

/// The same, with somebody at the door of the sandbox.
pub(crate) fn run_with_door(
    launcher: &Launcher,
    sandbox: &Sandbox,
    argv: &[String],
    capture: Capture,
    limits: Limits,
    until: &Until,
    doorkeeper: Option<Doorkeeper<'_>>,
) -> Result<Finished, SandboxError> {
    let pipes = |error: io::Error| SandboxError::new("output", error);
    let unneeded = || SandboxError::new("sandbox", "nobody needs what it does any more");
    if until.gone.load(Ordering::SeqCst) {
        return Err(unneeded());
    }
    let begun = Instant::now();
    let own = begun + limits.time;
    let deadline = until.deadline.map_or(own, |deadline| deadline.min(own));
    let (output, ends) = Output::new(capture).map_err(pipes)?;
    let mut running = launcher.start(sandbox, argv, ends.output, ends.errors)?;
    let stopper = running.stopper().map_err(pipes)?;
    let reading = output.read(limits.output, move || stopper.stop());
    let seen = watch(&mut running, deadline, &until.gone, doorkeeper);
    // Whatever was seen: after this nothing of it is left, and nobody holds the pipes.
    running.end();
    let read = reading.finish();
    let ended = match (read.too_much, seen) {
        (true, _) => Termination::TooMuchOutput(limits.output),
        (false, Seen::TimedOut) => Termination::TimedOut(deadline.saturating_duration_since(begun)),
        (false, Seen::Ended(ended)) => ended,
        (false, Seen::Unneeded) => return Err(unneeded()),
        (false, Seen::Refused(error)) => return Err(error),
        (false, Seen::Lost) => {
            let said = String::from_utf8_lossy(&read.tail).trim().to_owned();
            return Err(SandboxError::new("sandbox", format!("it ended without a word. {said}")));
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

enum Seen {
    Ended(Termination),
    TimedOut,
    Unneeded,
    Refused(SandboxError),
    Lost,
}

fn watch(
    running: &mut crate::sandbox::Running,
    deadline: Instant,
    gone: &AtomicBool,
    doorkeeper: Option<Doorkeeper<'_>>,
) -> Seen {
    let mut _open = None;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match running.next_report(left.min(BEAT)) {
            Next::Report(Report::Held(_)) => {}
            Next::Report(Report::Door(_)) => {
                let Some(keeper) = doorkeeper else { continue };
                let opened = running.door(Duration::ZERO).and_then(|listener| {
                    keeper(listener).map_err(|error| SandboxError::new("door", error))
                });
                match opened {
                    Ok(open) => _open = Some(open),
                    Err(error) => return Seen::Refused(error),
                }
            }
            Next::Report(Report::Exit(code)) => return Seen::Ended(Termination::Exit(code)),
            Next::Report(Report::Signal(signal)) => {
                return Seen::Ended(Termination::Signal(signal));
            }
            // As the kernel ends what takes too much.
            Next::Report(Report::MemorySpent(_)) => {
                return Seen::Ended(Termination::Signal(Signal::SIGKILL as i32));
            }
            Next::Report(Report::Refused(error)) => return Seen::Refused(error),
            Next::TimedOut if gone.load(Ordering::SeqCst) => return Seen::Unneeded,
            Next::TimedOut if left <= BEAT => return Seen::TimedOut,
            Next::TimedOut => {}
            Next::Over => return Seen::Lost,
        }
    }
}
