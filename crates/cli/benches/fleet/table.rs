//! The figures, a line each, none wider than a terminal.

use std::time::Duration;

use bailiwick_testkit::figure;

/// What was measured, and how busy the machine was before.
pub(crate) fn head() {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown").to_owned();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    figure(&format!("the control plane, load {load} on {cores} cores"));
    row("", "ours", "bare", "ratio");
}

/// One line.
pub(crate) fn row(what: &str, ours: &str, bare: &str, ratio: &str) {
    figure(&format!("{what:<38}{ours:>11}{bare:>11}{ratio:>11}"));
}

/// How many times as long.
pub(crate) fn times(what: &str, ours: Duration, bare: Duration) {
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    row(what, &short(ours), &short(bare), &format!("{ratio:.2} x"));
}

/// A time in three digits or so.
pub(crate) fn short(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        small if small < 1e3 => format!("{small:.0} us"),
        some if some < 1e5 => format!("{:.2} ms", some / 1e3),
        much => format!("{:.0} ms", much / 1e3),
    }
}

/// The places of contenders in a round: another one begins each time.
pub(crate) fn turns(round: usize, contenders: usize) -> impl Iterator<Item = usize> {
    (0..contenders).map(move |place| (place + round) % contenders)
}

/// The one that 99 of a hundred do not exceed.
pub(crate) fn p99(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() * 99 / 100]
}
