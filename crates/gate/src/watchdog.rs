//! A panic and a missed deadline are denials.

use std::io::Write as _;
use std::sync::mpsc;
use std::time::Duration;

use bailiwick_policy::dialects::HookReply;

/// A panic ends the gate with a denial; one that the reader of commands catches does not.
pub(crate) fn deny_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|at| format!(" ({}:{})", at.file(), at.line()));
        deny(&format!("the gate failed{}", place.unwrap_or_default()));
    }));
    bailiwick_policy::shell::hide_contained_panics();
}

/// The stack of the deciding thread: whatever limit the caller has set, deep input is refused by its depth and does
/// not crash.
const STACK: usize = 16 * 1024 * 1024;

/// Runs the work on a separate stack. What is not finished in time is a denial, so that no CLI abandons the gate and
/// lets the call run.
pub(crate) fn within(
    deadline: Duration,
    work: impl FnOnce() -> HookReply + Send + 'static,
) -> HookReply {
    let (done, ended) = mpsc::channel();
    let worker = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        // Nobody receives the result after the deadline.
        let _ = done.send(work());
    });
    if worker.is_err() {
        return refused("the gate could not start its thread");
    }
    match ended.recv_timeout(deadline) {
        Ok(answer) => answer,
        Err(mpsc::RecvTimeoutError::Timeout) => {
            refused(&format!("the gate was not done within {} ms", deadline.as_millis()))
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => refused("the gate failed"),
    }
}

/// The denial of a call that cannot be decided.
pub(crate) fn refused(why: &str) -> HookReply {
    let text = bailiwick_policy::Decision::undecidable(why).message();
    HookReply { exit: 2, stdout: String::new(), stderr: format!("{text}\n") }
}

fn deny(why: &str) -> ! {
    // A failure of stderr cannot be reported.
    let _ = std::io::stderr().write_all(refused(why).stderr.as_bytes());
    std::process::exit(2)
}
