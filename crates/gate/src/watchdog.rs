//! A panic and a missed deadline are denials.

use std::io::Write as _;
use std::time::Duration;

/// A panic ends the gate with a denial.
pub(crate) fn deny_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|at| format!(" ({}:{})", at.file(), at.line()));
        deny(&format!("the gate failed{}", place.unwrap_or_default()));
    }));
}

/// A gate that is not done in time denies, so that no CLI gives up on it and lets the call run.
pub(crate) fn deny_after(deadline: Duration) {
    let watch = std::thread::Builder::new().stack_size(32 * 1024).spawn(move || {
        std::thread::sleep(deadline);
        deny(&format!("the gate was not done within {} ms", deadline.as_millis()));
    });
    if watch.is_err() {
        deny("the gate could not start its watchdog");
    }
}

fn deny(why: &str) -> ! {
    let text = bailiwick_policy::Decision::unreadable(why).told();
    // There is nobody left to tell if this fails.
    let _ = writeln!(std::io::stderr(), "{text}");
    std::process::exit(2)
}
