//! What the machine sees of a run, beside the run itself.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A process of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) id: u32,
    pub(crate) command: String,
}

/// The processes that have this HOME, wherever they are: nobody in a sandbox can hide from here.
pub(crate) fn with_home(home: &Path) -> Vec<Process> {
    let wanted = [b"HOME=".as_slice(), home.as_os_str().as_bytes()].concat();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id: u32| {
        // One that ends meanwhile is gone.
        let environment = std::fs::read(format!("/proc/{id}/environ")).ok()?;
        environment.split(|byte| *byte == 0).find(|one| *one == wanted)?;
        let command = std::fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        Some(Process { id, command })
    })
    .collect()
}

/// Waits until it is so. How long is for a machine that does much besides; nothing is measured.
#[track_caller]
pub(crate) fn wait(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(480);
    while !so() {
        assert!(Instant::now() < deadline, "it did not come to this: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Puts a file or directory in the place of another, as all in the sandbox of this process see them.
/// Nobody inside could do that.
pub(crate) fn put_over(process: &Process, from: &Path, place: &Path) {
    let mut command = Command::new("nsenter");
    command.args(["--target", &holder(process).to_string(), "--user", "--preserve-credentials"]);
    let output = command.args(["--mount", "mount", "--bind"]).arg(from).arg(place).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Our process that has made the sandbox around this one: it has the power that it gives to nobody.
fn holder(process: &Process) -> u32 {
    let (mut above, mut holder) = (process.id, None);
    while above > 1 {
        let command = std::fs::read(format!("/proc/{above}/cmdline")).unwrap();
        if command.split(|byte| *byte == 0).any(|word| word == b"sandbox-init") {
            holder = Some(above);
        }
        let status = std::fs::read_to_string(format!("/proc/{above}/status")).unwrap();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
        above = parent.trim().parse().unwrap();
    }
    holder.unwrap()
}

/// Where the gate is for an agent.
pub(crate) fn gate() -> PathBuf {
    PathBuf::from("/run/bailiwick/bailiwick")
}
