//! Limits how much an agent writes to the disk: the size of its directories is measured while it runs.
//!
//! This needs no quotas. A walk takes time in proportion to the number of files, so a longer walk has a longer pause
//! after it; if the disk fills quickly, it starts at once. Deleted files count while a process of the agent has them
//! open. Some cannot be seen, so the free space is measured, too, however long a walk takes: an attempt ends before
//! the disk is full.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bailiwick_model::attempt::Exhausted;
use nix::sys::statvfs::statvfs;

use super::Supervision;
use super::attempt_state::AttemptState;
use super::disk_usage::DiskUsage;
use super::unlinked_files;

/// How often the free space is measured.
const FREE_SPACE_INTERVAL: Duration = Duration::from_millis(500);
/// How much longer than a walk took it is until the next one.
const PAUSE_FACTOR: u32 = 20;
/// The minimum pause between walks, unless free space decreases: hundreds of idle agents cost next to nothing.
const MIN_PAUSE: Duration = Duration::from_secs(5);
/// No walk is further away than this.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The maximum number of files that an attempt may add. Each takes time and memory to count.
const MAX_FILES: u64 = 2_000_000;
/// The maximum number of counted files.
const COUNTED: u64 = 4 * MAX_FILES;
/// The free space that must remain, if there was as much at the beginning.
const RESERVE: u64 = 512 << 20;

/// Monitors the disk until it is dropped.
pub(super) struct DiskMonitor {
    stop: Option<Sender<()>>,
    over: Arc<AtomicBool>,
    /// The process below which the agent's are; 0 before they are started.
    root: Arc<AtomicU32>,
    looking: Vec<JoinHandle<()>>,
}

impl DiskMonitor {
    /// Starts to measure the directories of an attempt, before it runs.
    pub(super) fn begin(supervision: &Supervision, attempt_state: &Arc<AttemptState>) -> Self {
        let directory = &supervision.directory;
        let worktree = supervision.assignment.worktree.clone();
        let mut places = directory.private_places().to_vec();
        places.push(worktree);
        let (walked, attempt_state) = (places.clone(), Arc::clone(attempt_state));
        let places = one_of_each_disk(places);
        let root = Arc::new(AtomicU32::new(0));
        let watched_root = Arc::clone(&root);
        Self::with(
            supervision.disk,
            root,
            move || free_space(&places),
            move |over| {
                let usage = measure(&walked, over);
                usage.with(match watched_root.load(Ordering::SeqCst) {
                    0 => DiskUsage::default(),
                    root => unlinked_files::unlinked_usage(root, over),
                })
            },
            move |why| attempt_state.exhaust(Exhausted::Disk, why),
        )
    }

    /// The processes of the agent are below this one.
    pub(super) fn started(&self, root: u32) {
        self.root.store(root, Ordering::SeqCst);
    }

    /// Both measurements have their own pace: free space is reported at once, usage after it was counted.
    fn with(
        most: u64,
        root: Arc<AtomicU32>,
        free_space: impl Fn() -> u64 + Send + 'static,
        measure: impl Fn(&AtomicBool) -> DiskUsage + Send + 'static,
        end: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let (stop, stopped) = channel();
        // One message is enough to start a walk early.
        let (hurry, hurried) = sync_channel(1);
        let (over, end) = (Arc::new(AtomicBool::new(false)), Arc::new(end));
        let (ending, walked) = (Arc::clone(&end), Arc::clone(&over));
        let space = std::thread::spawn(move || {
            look(&stopped, Space::new(free_space(), most), &hurry, free_space, |why| ending(why));
        });
        let walk = std::thread::spawn(move || {
            walk(&hurried, most, || measure(&walked), |why| end(why), &walked);
        });
        Self { stop: Some(stop), over, root, looking: vec![space, walk] }
    }
}

impl Drop for DiskMonitor {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // The thread that measures free space ends and drops its sender, so that the walk stops waiting.
        self.stop = None;
        for looking in self.looking.drain(..) {
            // The attempt has ended.
            let _ = looking.join();
        }
    }
}

/// Checks the free space at each interval.
fn look(
    stopped: &Receiver<()>,
    mut space: Space,
    hurry: &SyncSender<()>,
    free_space: impl Fn() -> u64,
    end: impl Fn(&str),
) {
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(FREE_SPACE_INTERVAL) {
        match space.now(free_space()) {
            FreeSpaceState::Enough => {}
            // A requested walk is coming already.
            FreeSpaceState::Low => {
                let _ = hurry.try_send(());
            }
            FreeSpaceState::Exhausted => {
                end(&format!("the disk has less than {} MiB left", RESERVE >> 20))
            }
        }
    }
}

/// Measures the usage whenever it is due.
fn walk(
    hurried: &Receiver<()>,
    most: u64,
    measure: impl Fn() -> DiskUsage,
    end: impl Fn(&str),
    over: &AtomicBool,
) {
    // The initial usage: of the worktree, and of what earlier attempts have left.
    let begun = Instant::now();
    let before = measure();
    let mut rest = pause(begun.elapsed());
    while let Ok(()) | Err(RecvTimeoutError::Timeout) = hurried.recv_timeout(rest) {
        let begun = Instant::now();
        let now = measure();
        rest = pause(begun.elapsed());
        if over.load(Ordering::SeqCst) {
            continue;
        }
        if now.bytes.saturating_sub(before.bytes) > most {
            let most = most >> 20;
            end(&format!(
                "the budget is spent: disk, of which it may add {most} MiB in an attempt"
            ));
        }
        if now.files.saturating_sub(before.files) > MAX_FILES || now.files >= COUNTED {
            end(&format!(
                "the budget is spent: disk, to which it may add {MAX_FILES} files in an attempt"
            ));
        }
    }
}

fn pause(took: Duration) -> Duration {
    took.saturating_mul(PAUSE_FACTOR).clamp(MIN_PAUSE, MAX_PAUSE)
}

/// The state of the free space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FreeSpaceState {
    Enough,
    /// Low enough to measure what the agent uses.
    Low,
    /// The attempt has to end.
    Exhausted,
}

/// The free space of a disk.
struct Space {
    most: u64,
    /// At the beginning.
    first: u64,
    /// When it was last worth a walk.
    last: u64,
}

impl Space {
    fn new(free_space: u64, most: u64) -> Self {
        Self { most, first: free_space, last: free_space }
    }

    fn now(&mut self, free_space: u64) -> FreeSpaceState {
        if free_space < RESERVE && self.first >= RESERVE {
            return FreeSpaceState::Exhausted;
        }
        if self.last.saturating_sub(free_space) > self.most / 16 {
            self.last = free_space;
            return FreeSpaceState::Low;
        }
        // Freed space may be filled again.
        self.last = self.last.max(free_space);
        FreeSpaceState::Enough
    }
}

/// The first place of each disk, or of each quota on it; one of which nothing is known stays.
fn one_of_each_disk(mut places: Vec<PathBuf>) -> Vec<PathBuf> {
    let disk = |place: &PathBuf| {
        let (found, seen) = (fs::metadata(place).ok()?, statvfs(place.as_path()).ok()?);
        Some((found.dev(), seen.blocks()))
    };
    let mut seen = HashSet::new();
    places.retain(|place| disk(place).is_none_or(|disk| seen.insert(disk)));
    places
}

/// The free space on the fullest disk of these.
fn free_space(places: &[PathBuf]) -> u64 {
    let disks = places.iter().filter_map(|place| statvfs(place.as_path()).ok());
    let free_space = disks.map(|disk| disk.blocks_available().saturating_mul(disk.fragment_size()));
    free_space.min().unwrap_or(u64::MAX)
}

/// The space of all files below these directories, each counted once. Stops when cancelled or at the maximum.
fn measure(places: &[PathBuf], over: &AtomicBool) -> DiskUsage {
    let mut linked = HashSet::new();
    let mut usage = DiskUsage::default();
    for place in places {
        below(place, &mut linked, over, &mut usage);
    }
    usage
}

/// Only directories are queued; the files of one are read one by one.
fn below(place: &Path, linked: &mut HashSet<(u64, u64)>, over: &AtomicBool, usage: &mut DiskUsage) {
    let Ok(found) = fs::symlink_metadata(place) else { return };
    count(&found, linked, usage);
    let mut open: Vec<PathBuf> = found.is_dir().then(|| place.to_path_buf()).into_iter().collect();
    while let Some(next) = open.pop() {
        // Files that disappear meanwhile use no space.
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            if over.load(Ordering::Relaxed) || usage.files >= COUNTED {
                return;
            }
            let Ok(found) = entry.metadata() else { continue };
            count(&found, linked, usage);
            if found.is_dir() {
                open.push(entry.path());
            }
        }
    }
}

fn count(found: &fs::Metadata, linked: &mut HashSet<(u64, u64)>, usage: &mut DiskUsage) {
    usage.files = usage.files.saturating_add(1);
    let counted = found.nlink() > 1 && !found.is_dir();
    if counted && !linked.insert((found.dev(), found.ino())) {
        return;
    }
    usage.bytes = usage.bytes.saturating_add(found.blocks().saturating_mul(512));
}
#[cfg(test)]
mod tests;
