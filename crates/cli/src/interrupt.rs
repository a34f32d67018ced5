//! Ctrl-C while an agent works: the first stops it and loses nothing, the second exits immediately.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bailiwick_runner::supervisor::{Handle, restore_terminal};
use nix::sys::signal::{SigSet, Signal};

use crate::{output, view};

/// The attempt that a signal stops; without one it ends this process.
static ATTEMPT: Mutex<Option<Handle>> = Mutex::new(None);

/// The notice that a signal prints when it ends this process without a result.
static NOTICE: Mutex<Option<String>> = Mutex::new(None);

/// Runs before a signal ends this process; returns a sentence for the person.
type Cleanup = Box<dyn FnOnce() -> Option<String> + Send>;

static CLEANUP: Mutex<Option<Cleanup>> = Mutex::new(None);

/// A signal calls this from now on before it ends this process, and prints the returned sentence.
pub fn set_cleanup(cleanup: impl FnOnce() -> Option<String> + Send + 'static) {
    *CLEANUP.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(cleanup));
}

/// Sets the notice: what is kept, and the command that resumes it.
pub fn set_notice(notice: String) {
    *self::notice() = Some(notice);
}

/// Handles SIGINT, SIGTERM and SIGHUP from now on. Called before any other thread is started, because
/// later threads inherit the blocked signals.
pub fn begin() {
    if signals().thread_block().is_err() {
        // The signals have their default action, and the run is recorded as interrupted later.
        return;
    }
    std::thread::spawn(|| {
        let signals = signals();
        while let Ok(signal) = signals.wait() {
            match attempt().take() {
                Some(handle) => handle.stop(&format!("stopped by {signal}")),
                // Everything inside of a sandbox ends with us.
                None => {
                    restore_terminal();
                    let cleanup = CLEANUP.lock().unwrap_or_else(PoisonError::into_inner).take();
                    if let Some(sentence) = cleanup.and_then(|cleanup| cleanup()) {
                        set_notice(sentence);
                    }
                    if let Some(notice) = notice().take() {
                        view::clear();
                        // The terminal shows ^C at the end of a line.
                        output::aside(format_args!("\n{notice}"));
                    }
                    std::process::exit(128 + signal as i32)
                }
            }
        }
    });
}

/// A signal stops this attempt from now on.
pub fn set_attempt(handle: Handle) {
    *attempt() = Some(handle);
}

/// The attempt is over: the next signal ends this process.
pub fn clear_attempt() {
    *attempt() = None;
}

fn notice() -> MutexGuard<'static, Option<String>> {
    NOTICE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn attempt() -> MutexGuard<'static, Option<Handle>> {
    ATTEMPT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn signals() -> SigSet {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGHUP);
    signals
}
