//! How long programs take, for benchmarks that compare them.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs a program that must succeed, and gives how long it took.
pub fn time(mut command: Command) -> Duration {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().expect("the program");
    let took = start.elapsed();
    assert!(status.success(), "{command:?}");
    took
}

/// The same, with its output line.
pub fn time_line(mut command: Command) -> (String, Duration) {
    let start = Instant::now();
    let output = command.output().expect("the program");
    let took = start.elapsed();
    assert!(output.status.success(), "{command:?}");
    (String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned(), took)
}

/// The one in the middle.
pub fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().expect("at least one")
}

/// How many times as long.
pub fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}
