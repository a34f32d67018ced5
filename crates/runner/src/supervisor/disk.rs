//! How much an agent may write to the disk: what its directories hold is looked at while it runs.
//!
//! Nothing here needs quotas. A look takes as long as there are files, so the next one is the further
//! away; if the disk fills quickly, it comes at once. Files that have no name any more are not seen, so
//! the disk itself is looked at, too: an attempt ends before it is full.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bailiwick_model::event::Ending;
use nix::sys::statvfs::statvfs;

use super::Supervision;
use super::hub::Hub;

/// How often the disk is looked at.
const BEAT: Duration = Duration::from_millis(500);
/// How much longer than a look took it is until the next one.
const REST: u32 = 20;
/// No look is further away than this.
const FURTHEST: Duration = Duration::from_secs(60);
/// What must be left on the disk, if it was there at the beginning.
const RESERVE: u64 = 512 << 20;

/// Looks at the disk until it is dropped.
pub(super) struct Guard {
    stop: Option<Sender<()>>,
    looking: Option<JoinHandle<()>>,
}

impl Guard {
    /// Begins to look at the directories of an attempt, before it does.
    pub(super) fn begin(supervision: &Supervision, hub: &Arc<Hub>) -> Self {
        let directory = &supervision.directory;
        let own = vec![directory.home(), directory.temp(), directory.git_layer()];
        let worktree = supervision.assignment.worktree.clone();
        let (stop, stopped) = channel::<()>();
        let (hub, most) = (Arc::clone(hub), supervision.disk);
        let looking = std::thread::spawn(move || {
            let mut look = Look::first(own, worktree, most);
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(BEAT) {
                if let Some(why) = look.again() {
                    hub.end(Ending::BudgetExhausted, &why);
                    return;
                }
            }
        });
        Self { stop: Some(stop), looking: Some(looking) }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(looking) = self.looking.take() {
            // It has nothing to say any more.
            let _ = looking.join();
        }
    }
}

/// What was seen, and when the next look is due.
struct Look {
    places: Vec<PathBuf>,
    /// How many bytes may be added.
    most: u64,
    /// What was there before the attempt: of the worktree, and of what earlier attempts have left.
    before: u64,
    /// What the disk had left at the beginning, and at the last look.
    left: (u64, u64),
    due: Instant,
}

impl Look {
    fn first(own: Vec<PathBuf>, worktree: PathBuf, most: u64) -> Self {
        let now = Instant::now();
        let places: Vec<PathBuf> = own.into_iter().chain([worktree]).collect();
        let before = held(&places);
        let left = left(&places);
        Self { before, most, left: (left, left), due: now + pause(now.elapsed()), places }
    }

    /// Why the attempt has to end, if it has.
    fn again(&mut self) -> Option<String> {
        let left = left(&self.places);
        if left < RESERVE && self.left.0 >= RESERVE {
            return Some(format!("the disk has less than {} MiB left", RESERVE >> 20));
        }
        let fills = self.left.1.saturating_sub(left) > self.most / 16;
        let now = Instant::now();
        if now < self.due && !fills {
            return None;
        }
        let added = held(&self.places).saturating_sub(self.before);
        self.due = now + pause(now.elapsed());
        self.left.1 = left;
        (added > self.most).then(|| {
            let most = self.most >> 20;
            format!("the budget is spent: disk, of which it may add {most} MiB in an attempt")
        })
    }
}

fn pause(took: Duration) -> Duration {
    took.saturating_mul(REST).clamp(BEAT, FURTHEST)
}

/// What is left on the fullest disk that has some of these.
fn left(places: &[PathBuf]) -> u64 {
    let seen = places.iter().filter_map(|place| statvfs(place.as_path()).ok());
    let left = seen.map(|seen| seen.blocks_available().saturating_mul(seen.fragment_size()));
    left.min().unwrap_or(u64::MAX)
}

/// How many bytes all files below these places take, each once.
fn held(places: &[PathBuf]) -> u64 {
    let mut linked = HashSet::new();
    let sizes = places.iter().map(|place| below(place, &mut linked));
    sizes.fold(0, u64::saturating_add)
}

fn below(place: &Path, linked: &mut HashSet<(u64, u64)>) -> u64 {
    let mut all = 0_u64;
    let mut open = vec![place.to_path_buf()];
    while let Some(next) = open.pop() {
        // What goes while it is looked at takes nothing.
        let Ok(found) = fs::symlink_metadata(&next) else { continue };
        let counted = found.nlink() > 1 && !found.is_dir();
        if counted && !linked.insert((found.dev(), found.ino())) {
            continue;
        }
        all = all.saturating_add(found.blocks().saturating_mul(512));
        if found.is_dir() {
            let entries = fs::read_dir(&next).into_iter().flatten().flatten();
            open.extend(entries.map(|entry| entry.path()));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_counts_and_what_was_there_does_not() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let file = place.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, vec![7; 1 << 20]).unwrap();
        };
        let due = |look: &mut Look| {
            look.due = Instant::now();
            look.again()
        };
        write("before");
        let mut look = Look::first(Vec::new(), place.path().to_path_buf(), 3 << 20);
        write("one");
        write("deep/er/two");
        fs::hard_link(place.path().join("one"), place.path().join("again")).unwrap();
        std::os::unix::fs::symlink("/usr", place.path().join("away")).unwrap();
        assert_eq!(due(&mut look), None, "{}", held(&look.places));
        write("three");
        let why = due(&mut look).unwrap();
        assert!(why.contains("disk, of which it may add 3 MiB"), "{why}");
        fs::remove_file(place.path().join("three")).unwrap();
        assert_eq!(due(&mut look), None, "what is gone takes nothing");
    }

    #[test]
    fn a_look_comes_at_once_when_the_disk_fills() {
        let place = tempfile::tempdir().unwrap();
        let mut look = Look::first(Vec::new(), place.path().to_path_buf(), 1 << 20);
        look.due = Instant::now() + Duration::from_secs(3600);
        fs::write(place.path().join("large"), vec![7; 4 << 20]).unwrap();
        look.left.1 = u64::MAX;
        assert!(look.again().is_some());
        look.left.0 = u64::MAX;
        look.most = u64::MAX;
        assert_eq!(look.again(), None, "there is room");
    }
}
