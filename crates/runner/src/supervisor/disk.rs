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
        let seen = Arc::clone(&root);
        Self::with(
            supervision.disk,
            root,
            move || left(&places),
            move |over| {
                let taken = measure(&walked, over);
                taken.with(match seen.load(Ordering::SeqCst) {
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
        left: impl Fn() -> u64 + Send + 'static,
        measure: impl Fn(&AtomicBool) -> DiskUsage + Send + 'static,
        end: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let (stop, stopped) = channel();
        // One word is enough to hurry a walk.
        let (hurry, hurried) = sync_channel(1);
        let (over, end) = (Arc::new(AtomicBool::new(false)), Arc::new(end));
        let (ending, walked) = (Arc::clone(&end), Arc::clone(&over));
        let space = std::thread::spawn(move || {
            look(&stopped, Space::new(left(), most), &hurry, left, |why| ending(why));
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
        // The one that hurries the walk ends, and with it the walk's reason to wait.
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
    left: impl Fn() -> u64,
    end: impl Fn(&str),
) {
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(FREE_SPACE_INTERVAL) {
        match space.now(left()) {
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
    fn new(left: u64, most: u64) -> Self {
        Self { most, first: left, last: left }
    }

    fn now(&mut self, left: u64) -> FreeSpaceState {
        if left < RESERVE && self.first >= RESERVE {
            return FreeSpaceState::Exhausted;
        }
        if self.last.saturating_sub(left) > self.most / 16 {
            self.last = left;
            return FreeSpaceState::Low;
        }
        // Freed space may be filled again.
        self.last = self.last.max(left);
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
fn left(places: &[PathBuf]) -> u64 {
    let seen = places.iter().filter_map(|place| statvfs(place.as_path()).ok());
    let left = seen.map(|seen| seen.blocks_available().saturating_mul(seen.fragment_size()));
    left.min().unwrap_or(u64::MAX)
}

/// The space of all files below these directories, each counted once. Stops when cancelled or at the maximum.
fn measure(places: &[PathBuf], over: &AtomicBool) -> DiskUsage {
    let mut linked = HashSet::new();
    let mut taken = DiskUsage::default();
    for place in places {
        below(place, &mut linked, over, &mut taken);
    }
    taken
}

/// Only directories are queued; the files of one are read one by one.
fn below(place: &Path, linked: &mut HashSet<(u64, u64)>, over: &AtomicBool, taken: &mut DiskUsage) {
    let Ok(found) = fs::symlink_metadata(place) else { return };
    count(&found, linked, taken);
    let mut open: Vec<PathBuf> = found.is_dir().then(|| place.to_path_buf()).into_iter().collect();
    while let Some(next) = open.pop() {
        // Files that disappear meanwhile use no space.
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            if over.load(Ordering::Relaxed) || taken.files >= COUNTED {
                return;
            }
            let Ok(found) = entry.metadata() else { continue };
            count(&found, linked, taken);
            if found.is_dir() {
                open.push(entry.path());
            }
        }
    }
}

fn count(found: &fs::Metadata, linked: &mut HashSet<(u64, u64)>, taken: &mut DiskUsage) {
    taken.files = taken.files.saturating_add(1);
    let counted = found.nlink() > 1 && !found.is_dir();
    if counted && !linked.insert((found.dev(), found.ino())) {
        return;
    }
    taken.bytes = taken.bytes.saturating_add(found.blocks().saturating_mul(512));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[test]
    fn each_file_counts_once_and_what_is_gone_does_not() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let file = place.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, vec![7; 1 << 20]).unwrap();
        };
        let over = AtomicBool::new(false);
        let count = || measure(&[place.path().to_path_buf()], &over).bytes >> 20;
        write("before");
        assert_eq!(count(), 1);
        write("one");
        write("deep/er/two");
        fs::hard_link(place.path().join("one"), place.path().join("again")).unwrap();
        std::os::unix::fs::symlink("/usr", place.path().join("away")).unwrap();
        assert_eq!(count(), 3);
        let files = measure(&[place.path().to_path_buf()], &over).files;
        assert_eq!(files, 8, "five names, and three directories");
        fs::remove_file(place.path().join("before")).unwrap();
        assert_eq!(count(), 2);
        over.store(true, Ordering::SeqCst);
        assert_eq!(count(), 0, "it goes on although it is over");
    }

    #[test]
    fn a_disk_that_fills_is_walked_and_one_that_is_full_ends_the_attempt() {
        let mut space = Space::new(RESERVE * 4, 16 << 20);
        for (left, room) in [
            (RESERVE * 4 - (1 << 20), FreeSpaceState::Enough),
            (RESERVE * 4 - (3 << 20), FreeSpaceState::Low),
            // Counted from there.
            (RESERVE * 4 - (4 << 20), FreeSpaceState::Enough),
            (RESERVE * 5, FreeSpaceState::Enough),
            (RESERVE * 5 - (2 << 20), FreeSpaceState::Low),
            (RESERVE - 1, FreeSpaceState::Exhausted),
        ] {
            assert_eq!(space.now(left), room, "{left}");
        }
        // An attempt that started with less continues.
        assert_eq!(Space::new(RESERVE - 2, 1).now(RESERVE - 2), FreeSpaceState::Enough);
    }

    /// A disk of which something goes between any two looks.
    fn filling() -> impl Fn() -> u64 + Send + 'static {
        let looks = Mutex::new(0);
        move || {
            let mut looks = looks.lock().unwrap();
            *looks += 1;
            (1 << 60) - *looks * (2 << 20)
        }
    }

    /// Runs a guard and returns why attempts ended.
    fn guarded(
        left: impl Fn() -> u64 + Send + 'static,
        measure: impl Fn(&AtomicBool) -> DiskUsage + Send + 'static,
    ) -> (DiskMonitor, Receiver<String>) {
        let (tell, told) = channel();
        let tell = Mutex::new(tell);
        let end = move |why: &str| drop(tell.lock().unwrap().send(why.to_owned()));
        (DiskMonitor::with(16 << 20, Arc::default(), left, measure, end), told)
    }

    #[test]
    fn each_disk_is_looked_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let (one, other) = (scratch.path().to_path_buf(), scratch.path().join("other"));
        fs::create_dir(&other).unwrap();
        let (elsewhere, missing) = (PathBuf::from("/proc"), PathBuf::from("/missing"));
        let places = vec![one.clone(), other, elsewhere.clone(), missing.clone()];
        assert_eq!(one_of_each_disk(places), [one, elsewhere, missing]);
    }

    #[test]
    fn what_is_added_ends_an_attempt() {
        let walks = Mutex::new(0_u64);
        let measure = move |_: &AtomicBool| {
            let mut walks = walks.lock().unwrap();
            *walks += 1;
            // The initial usage does not count.
            DiskUsage { bytes: (100 << 20) + (*walks - 1) * (9 << 20), files: 1 }
        };
        let (_guard, told) = guarded(filling(), measure);
        let why = told.recv_timeout(TIMEOUT).unwrap();
        assert!(why.contains("disk, of which it may add 16 MiB"), "{why}");
    }

    #[test]
    fn files_without_number_end_an_attempt() {
        for files in [[10, 11 + MAX_FILES], [COUNTED, COUNTED]] {
            let walks = Mutex::new(files.into_iter());
            let measure = move |_: &AtomicBool| {
                let files = walks.lock().unwrap().next().unwrap_or(11 + MAX_FILES);
                DiskUsage { bytes: 0, files }
            };
            let (_guard, told) = guarded(filling(), measure);
            let why = told.recv_timeout(TIMEOUT).unwrap();
            assert!(why.contains("disk, to which it may add 2000000 files"), "{why}");
        }
    }

    #[test]
    fn a_walk_without_end_holds_up_neither_the_look_at_the_disk_nor_the_end() {
        let looks = Mutex::new(0);
        let left = move || {
            let mut looks = looks.lock().unwrap();
            *looks += 1;
            if *looks < 3 { RESERVE * 4 } else { RESERVE / 2 }
        };
        let (walks, walking) = channel();
        let measure = move |over: &AtomicBool| {
            walks.send(()).unwrap();
            while !over.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(5));
            }
            DiskUsage::default()
        };
        let (guard, told) = guarded(left, measure);
        walking.recv_timeout(TIMEOUT).unwrap();
        let why = told.recv_timeout(TIMEOUT).unwrap();
        assert!(why.contains("the disk has less than 512 MiB left"), "{why}");
        drop(guard);
        assert!(walking.try_recv().is_err(), "there was but one walk");
    }
}
