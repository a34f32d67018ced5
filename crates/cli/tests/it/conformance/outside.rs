//! Observes a run from outside of it.

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

/// The processes with this HOME. Processes in a sandbox are visible, too.
pub(crate) fn with_home(home: &Path) -> Vec<Process> {
    let wanted = [b"HOME=".as_slice(), home.as_os_str().as_bytes()].concat();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id: u32| {
        // The process may have ended meanwhile.
        let environment = std::fs::read(format!("/proc/{id}/environ")).ok()?;
        environment.split(|byte| *byte == 0).find(|one| *one == wanted)?;
        let command = std::fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        Some(Process { id, command })
    })
    .collect()
}

/// Waits until the condition is true. The timeout is long, for a busy machine.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(480);
    while !condition() {
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Bind-mounts a file or directory over another in the sandbox of this process.
/// No process inside could do that.
pub(crate) fn bind_mount_over(process: &Process, from: &Path, place: &Path) {
    let mut command = Command::new("nsenter");
    command.args([
        "--target",
        &sandbox_owner(process).to_string(),
        "--user",
        "--preserve-credentials",
    ]);
    let output = command.args(["--mount", "mount", "--bind"]).arg(from).arg(place).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The process that created the sandbox of this one, and has the capabilities to change it.
fn sandbox_owner(process: &Process) -> u32 {
    let (mut above, mut owner) = (process.id, None);
    while above > 1 {
        let command = std::fs::read(format!("/proc/{above}/cmdline")).unwrap();
        if command.split(|byte| *byte == 0).any(|word| word == b"sandbox-init") {
            owner = Some(above);
        }
        let status = std::fs::read_to_string(format!("/proc/{above}/status")).unwrap();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
        above = parent.trim().parse().unwrap();
    }
    owner.unwrap()
}

/// The path of the gate in a sandbox.
pub(crate) fn gate() -> PathBuf {
    PathBuf::from("/run/bailiwick/bailiwick")
}
