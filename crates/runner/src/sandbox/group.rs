//! A control group (version 2) for one sandbox, if this process may create one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Bounds, Level, Sandbox};

/// A group that goes when this is dropped; by then all that was in it has ended.
#[derive(Debug)]
pub(super) struct Group {
    place: PathBuf,
    /// The memory limit in bytes, until it was reported as exceeded.
    memory: Option<u64>,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Group {
    /// Creates one with the limits of a sandbox and moves a process into it; `None` if there are no limits, or it is
    /// not possible. The processes inside report the limits in force.
    pub(super) fn make(sandbox: &Sandbox, process: u32) -> Option<Self> {
        let bounds = sandbox.bounds;
        if bounds == Bounds::default() || sandbox.level == Level::Off {
            return None;
        }
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let above = above(Path::new("/sys/fs/cgroup"), &own)?;
        sweep(&above);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let place = above.join(format!("bailiwick-{}-{number}", std::process::id()));
        fs::create_dir(&place).ok()?;
        let group = Self { place, memory: bounds.memory };
        group.fill(&bounds, process).ok()?;
        Some(group)
    }

    /// Its memory limit, if the kernel killed something in it because of that limit; reported once.
    pub(super) fn spent(&mut self) -> Option<u64> {
        let events = fs::read_to_string(self.place.join("memory.events")).ok()?;
        let mut killed = events.lines().filter_map(|line| line.strip_prefix("oom_kill "));
        killed.find(|number| *number != "0")?;
        self.memory.take()
    }

    fn fill(&self, bounds: &Bounds, process: u32) -> io::Result<()> {
        let write = |name: &str, text: String| fs::write(self.place.join(name), text);
        if let Some(most) = bounds.memory {
            write("memory.max", most.to_string())?;
            // Not every kernel has these: without them, more is swapped, or less is killed together.
            let _ = write("memory.swap.max", "0".to_owned());
            let _ = write("memory.oom.group", "1".to_owned());
        }
        if let Some(most) = bounds.processes {
            // Ours are in it too.
            write("pids.max", most.saturating_add(2).to_string())?;
        }
        write("cgroup.procs", process.to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel may need a moment to see that it is empty.
        for _ in 0..100 {
            match fs::remove_dir(&self.place) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Ok(()) | Err(_) => return,
            }
        }
    }
}

/// The nearest group, from our own upwards, in which groups with limits can be created.
fn above(root: &Path, own: &str) -> Option<PathBuf> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let lowest = root.join(own);
    lowest.ancestors().take_while(|place| place.starts_with(root)).map(Path::to_owned).find(
        |place| {
            let given = fs::read_to_string(place.join("cgroup.subtree_control"));
            let given = given.unwrap_or_default();
            let has = |name: &str| given.split_whitespace().any(|one| one == name);
            has("memory") && has("pids")
        },
    )
}

/// Removes groups of processes that were killed before they could.
fn sweep(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let maker = name.strip_prefix("bailiwick-").and_then(|rest| rest.split('-').next());
        let gone = |maker: &str| !Path::new("/proc").join(maker).exists();
        if maker.is_some_and(|maker| maker.parse::<u32>().is_ok() && gone(maker)) {
            // One that is not empty stays.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_group_with_the_needed_controllers_is_used() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::create_dir_all(root.join("user/app/own")).unwrap();
        fs::write(root.join("cgroup.subtree_control"), "cpu memory pids\n").unwrap();
        fs::write(root.join("user/cgroup.subtree_control"), "memory pids\n").unwrap();
        fs::write(root.join("user/app/cgroup.subtree_control"), "pids\n").unwrap();
        let own_groups = "1:name=systemd:/x\n0::/user/app/own\n";
        assert_eq!(above(root, own_groups), Some(root.join("user")));
        assert_eq!(above(root, "0::/elsewhere\n"), Some(root.to_owned()));
        assert_eq!(above(root, "4:memory:/user\n"), None, "version 1 is not supported");
        fs::remove_file(root.join("cgroup.subtree_control")).unwrap();
        assert_eq!(above(root, "0::/\n"), None);
    }

    #[test]
    fn limits_are_written_before_the_process_is_moved() {
        let place = tempfile::tempdir().unwrap();
        let mut group = Group { place: place.path().to_owned(), memory: Some(1 << 30) };
        let bounds = Bounds { memory: Some(1 << 30), processes: Some(100) };
        group.fill(&bounds, 7).unwrap();
        let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
        assert_eq!(read("memory.max"), "1073741824");
        assert_eq!(read("pids.max"), "102");
        assert_eq!(read("cgroup.procs"), "7");
        fs::write(place.path().join("memory.events"), "oom 3\noom_kill 0\n").unwrap();
        assert_eq!(group.spent(), None);
        fs::write(place.path().join("memory.events"), "oom 3\noom_kill 2\n").unwrap();
        assert_eq!((group.spent(), group.spent()), (Some(1 << 30), None));
    }

    #[test]
    fn groups_of_ended_processes_are_deleted_and_no_others() {
        let place = tempfile::tempdir().unwrap();
        let own_name = format!("bailiwick-{}-0", std::process::id());
        // No PID is this high.
        for name in [own_name.as_str(), "bailiwick-4194305-3", "bailiwick-x-1", "other-4194305-3"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        sweep(place.path());
        assert!(!place.path().join("bailiwick-4194305-3").exists());
        for name in [own_name.as_str(), "bailiwick-x-1", "other-4194305-3"] {
            assert!(place.path().join(name).exists(), "{name}");
        }
    }
}
