//! Deleted files: what processes have open takes space until they close it.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::statfs::{TMPFS_MAGIC, statfs};

use super::callers;
use super::disk_usage::DiskUsage;

/// The size of deleted files that processes below `root` have open, each counted once.
pub(super) fn unlinked_usage(root: u32, over: &AtomicBool) -> DiskUsage {
    let mut seen = HashSet::new();
    let mut usage = DiskUsage::default();
    for process in callers::ids_below(root) {
        // A thread can have its own files.
        for thread in entries(format!("/proc/{process}/task")) {
            for file in entries(thread.path().join("fd")) {
                if over.load(Ordering::Relaxed) {
                    return usage;
                }
                count(&file.path(), &mut seen, &mut usage);
            }
        }
    }
    usage
}

fn entries(directory: impl AsRef<Path>) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(directory).into_iter().flatten().flatten()
}

fn count(file: &Path, seen: &mut HashSet<(u64, u64)>, usage: &mut DiskUsage) {
    let Ok(found) = fs::metadata(file) else { return };
    if !found.is_file() || found.nlink() > 0 || !seen.insert((found.dev(), found.ino())) {
        return;
    }
    // A file system in memory takes no space on a disk.
    let is_memory = statfs(file).is_ok_and(|system| system.filesystem_type() == TMPFS_MAGIC);
    if !is_memory {
        usage.files = usage.files.saturating_add(1);
        usage.bytes = usage.bytes.saturating_add(found.blocks().saturating_mul(512));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// Two processes with the same file of 3 MiB open, and one with a file that still has its name.
    #[test]
    fn open_file_without_a_name_counts_once() {
        // Temporary files may be in memory.
        let built = std::env::current_exe().unwrap();
        let place = tempfile::tempdir_in(built.parent().unwrap()).unwrap();
        let script = "head -c 3145728 /dev/zero > gone; exec 7< gone; rm gone; head -c 3145728 \
                      /dev/zero > named; exec 8< named; sleep 600 & sleep 600 & touch ready; wait";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .current_dir(place.path())
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !place.path().join("ready").exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (cancelled, root) = (AtomicBool::new(false), shell.id());
        let used = unlinked_usage(root, &cancelled);
        cancelled.store(true, Ordering::SeqCst);
        let stopped = unlinked_usage(root, &cancelled);
        let group = nix::unistd::Pid::from_raw(shell.id().cast_signed());
        nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL).unwrap();
        shell.wait().unwrap();
        assert_eq!((used.bytes >> 20, used.files), (3, 1));
        assert_eq!(stopped, DiskUsage::default());
    }
}
