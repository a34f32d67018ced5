//! The commits that workers fetch, packed into files. Packing can take minutes, so it goes on while workers ask again,
//! and requests for the same commits share one file.
//!
//! A file is there as long as a worker asks for it or reads it. So workers that are gone, or that read next to nothing,
//! take no room, and what is packed for them is stopped. Requests wait in order, one of each worker, and each worker has
//! a quota: whatever one of them asks for, the others get their commits.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bailiwick_fleet::workers::{ByteStream, Chunk, Lease, WorkerError};
use bailiwick_source_control::git::BundleError;
use tokio::sync::{Semaphore, watch};

/// How many repositories are packed at the same time.
const MAX_PACKED_AT_ONCE: usize = 2;
/// How many files there are, with those that are being packed.
const MAX_FILES: usize = 6;
/// How many of these were made for the same worker. Only one of them is packed at a time.
const MAX_FILES_OF_A_WORKER: usize = 2;
/// How long a request waits for its turn and for its file. It is less than the time of any request.
const MAX_WAIT: Duration = Duration::from_secs(8);
/// How long a file is kept that nobody asks for or reads.
const KEPT: Duration = Duration::from_secs(120);
/// How much of a file is in memory while it is sent. A worker must read as much within the time that a file is kept.
const CHUNK_BYTES: usize = 1024 * 1024;
/// How soon it is seen that nobody wants a file any more.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Two of these use a file that nobody reads: the table, and the task that made it.
const OWN_USES: usize = 2;

/// What is packed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PackKey {
    pub(super) checkout: String,
    pub(super) commits: Vec<String>,
    /// Commits that the worker has already.
    pub(super) has: Vec<String>,
}

/// The packed commits of this server.
pub(super) struct Packs {
    packs: Arc<Mutex<Table>>,
    packing: Arc<Semaphore>,
    /// The workers with a request that waits until commits can be packed.
    waiting: Arc<Mutex<BTreeSet<String>>>,
    wait: Duration,
    kept: Duration,
}

type Table = BTreeMap<PackKey, Entry>;

struct Entry {
    pack: Arc<Pack>,
    /// The worker that it was made for.
    worker: String,
    /// The leases that asked for it.
    leases: Vec<Lease>,
}

impl Entry {
    fn join(&mut self, lease: &Lease) -> Arc<Pack> {
        if !self.leases.contains(lease) {
            self.leases.push(lease.clone());
        }
        self.pack.touch();
        Arc::clone(&self.pack)
    }
}

/// The place of a worker among those that wait.
struct Turn {
    waiting: Arc<Mutex<BTreeSet<String>>>,
    worker: String,
}

impl Drop for Turn {
    fn drop(&mut self) {
        locked(&self.waiting).remove(&self.worker);
    }
}

/// How far a pack is.
enum Packed {
    NotYet,
    Ready(Arc<File>),
    Failed(WorkerError),
    /// Nobody wanted it any more.
    Gone,
}

struct Pack {
    state: watch::Sender<Packed>,
    used_at: Mutex<Instant>,
    is_dropped: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pack {
    fn new() -> Self {
        Self {
            state: watch::Sender::new(Packed::NotYet),
            used_at: Mutex::new(Instant::now()),
            is_dropped: AtomicBool::new(false),
        }
    }

    fn touch(&self) {
        *locked(&self.used_at) = Instant::now();
    }

    fn is_unwanted(&self, kept: Duration) -> bool {
        self.is_dropped.load(Ordering::Relaxed) || locked(&self.used_at).elapsed() > kept
    }

    /// Stops what is being packed, and closes what was packed.
    fn give_up(&self) {
        self.is_dropped.store(true, Ordering::Relaxed);
        if !self.is_packing() {
            self.state.send_replace(Packed::Gone);
        }
    }

    fn is_packing(&self) -> bool {
        matches!(*self.state.borrow(), Packed::NotYet)
    }

    /// The file, to read from it now.
    fn file(&self) -> Option<Arc<File>> {
        self.touch();
        match &*self.state.borrow() {
            Packed::Ready(file) => Some(Arc::clone(file)),
            Packed::NotYet | Packed::Failed(_) | Packed::Gone => None,
        }
    }
}

/// Stops what is packed when the task ends that waits for it, for example because the server shuts down.
struct DropPack(Arc<Pack>);

impl Drop for DropPack {
    fn drop(&mut self) {
        self.0.is_dropped.store(true, Ordering::Relaxed);
    }
}

impl Packs {
    pub(super) fn new() -> Self {
        Self::with_times(MAX_WAIT, KEPT)
    }

    fn with_times(wait: Duration, kept: Duration) -> Self {
        let packing = Arc::new(Semaphore::new(MAX_PACKED_AT_ONCE));
        Self { packs: Arc::default(), packing, waiting: Arc::default(), wait, kept }
    }

    /// The packed commits, if they are ready soon; else the worker has to ask again. `make` packs them, unless that is
    /// under way; it is told whether anybody still wants them.
    pub(super) async fn open<M>(
        &self,
        worker: &str,
        lease: &Lease,
        key: PackKey,
        make: M,
    ) -> Result<PackStream, WorkerError>
    where
        M: FnOnce(&(dyn Fn() -> bool + Sync)) -> Result<File, BundleError> + Send + 'static,
    {
        let deadline = tokio::time::Instant::now() + self.wait;
        let pack = match self.find(lease, &key) {
            Some(pack) => pack,
            None => self.begin((worker, lease), key, make, deadline).await?,
        };
        let mut changes = pack.state.subscribe();
        let ended = async { while pack.is_packing() && changes.changed().await.is_ok() {} };
        // What is not ready by then goes on.
        let _ = tokio::time::timeout_at(deadline, ended).await;
        pack.touch();
        let outcome = match &*pack.state.borrow() {
            Packed::Ready(_) => Ok(()),
            Packed::NotYet => Err(not_ready("the commits are being packed")),
            Packed::Gone => Err(not_ready("the commits have to be packed again")),
            Packed::Failed(error) => Err(error.clone()),
        };
        outcome.map(|()| PackStream { pack, position: 0 })
    }

    /// What is packed or being packed for this key.
    fn find(&self, lease: &Lease, key: &PackKey) -> Option<Arc<Pack>> {
        let mut packs = locked(&self.packs);
        release_others(&mut packs, lease, key);
        packs.get_mut(key).map(|entry| entry.join(lease))
    }

    /// Waits until commits can be packed, and begins to.
    async fn begin<M>(
        &self,
        (worker, lease): (&str, &Lease),
        key: PackKey,
        make: M,
        deadline: tokio::time::Instant,
    ) -> Result<Arc<Pack>, WorkerError>
    where
        M: FnOnce(&(dyn Fn() -> bool + Sync)) -> Result<File, BundleError> + Send + 'static,
    {
        let _turn = self.wait_in_line(worker)?;
        let permit = Arc::clone(&self.packing).acquire_owned();
        let permit = tokio::time::timeout_at(deadline, permit).await;
        let permit = permit.map_err(|_| busy())?.map_err(|_| busy())?;
        let mut packs = locked(&self.packs);
        // Another request for the same commits may have come first.
        if let Some(entry) = packs.get_mut(&key) {
            return Ok(entry.join(lease));
        }
        make_room(&mut packs, worker)?;
        let pack = Arc::new(Pack::new());
        let entry = Entry {
            pack: Arc::clone(&pack),
            worker: worker.to_owned(),
            leases: vec![lease.clone()],
        };
        packs.insert(key.clone(), entry);
        let (task, table, kept) = (Arc::clone(&pack), Arc::clone(&self.packs), self.kept);
        tokio::spawn(async move {
            let (task, watched) = (DropPack(Arc::clone(&task)), task);
            let made = tokio::task::spawn_blocking(move || {
                // It is kept until git has ended.
                let _permit = permit;
                make(&|| watched.is_unwanted(kept))
            });
            let made = match made.await {
                Ok(made) => made.map_err(|error| failed(&error)),
                Err(error) => {
                    Err(WorkerError::Unavailable(format!("a background task failed: {error}")))
                }
            };
            let pack = &task.0;
            match made {
                Ok(file) => {
                    pack.state.send_replace(Packed::Ready(Arc::new(file)));
                    while !pack.is_unwanted(kept) {
                        tokio::time::sleep(LOOK_INTERVAL.min(kept)).await;
                    }
                    pack.state.send_replace(Packed::Gone);
                }
                Err(_) if pack.is_unwanted(kept) => drop(pack.state.send_replace(Packed::Gone)),
                Err(error) => drop(pack.state.send_replace(Packed::Failed(error))),
            }
            let mut packs = locked(&table);
            if packs.get(&key).is_some_and(|entry| Arc::ptr_eq(&entry.pack, pack)) {
                packs.remove(&key);
            }
        });
        Ok(pack)
    }

    /// Only one request of each worker waits.
    fn wait_in_line(&self, worker: &str) -> Result<Turn, WorkerError> {
        match locked(&self.waiting).insert(worker.to_owned()) {
            true => Ok(Turn { waiting: Arc::clone(&self.waiting), worker: worker.to_owned() }),
            false => Err(busy()),
        }
    }
}

fn busy() -> WorkerError {
    not_ready("the server packs other commits")
}

/// Only commits that are too large can never be sent. Anything else can be different later, and its message, which can
/// name files of this machine, is not sent to workers.
fn failed(error: &BundleError) -> WorkerError {
    match error {
        BundleError::TooLarge { .. } => WorkerError::Refused(error.to_string()),
        BundleError::Git(_)
        | BundleError::Unreadable(_)
        | BundleError::Malformed
        | BundleError::Corrupt(_)
        | BundleError::TooManyObjects { .. }
        | BundleError::Interrupted(_) => {
            WorkerError::Unavailable(format!("commits cannot be packed: {error}"))
        }
    }
}

fn not_ready(why: &str) -> WorkerError {
    WorkerError::NotReady(format!("{why}; ask again"))
}

/// A lease is for one pack at a time. What no lease wants any more is given up.
fn release_others(packs: &mut Table, lease: &Lease, key: &PackKey) {
    packs.retain(|other, entry| {
        let before = entry.leases.len();
        if other != key {
            entry.leases.retain(|known| known != lease);
        }
        let is_given_up = entry.leases.is_empty() && before > 0;
        if is_given_up {
            entry.pack.give_up();
        }
        !is_given_up
    });
}

/// Makes room for another file, or fails if there is none, or if the worker has used its quota.
fn make_room(packs: &mut Table, worker: &str) -> Result<(), WorkerError> {
    let own = |entry: &Entry| entry.worker == worker;
    if packs.values().any(|entry| own(entry) && entry.pack.is_packing()) {
        return Err(busy());
    }
    let count = packs.values().filter(|entry| own(entry)).count();
    if count >= MAX_FILES_OF_A_WORKER && !remove_unread(packs, own) {
        return Err(busy());
    }
    match packs.len() < MAX_FILES || remove_unread(packs, |_| true) {
        true => Ok(()),
        false => Err(busy()),
    }
}

/// Gives up one of these files that nobody reads, the one that was not used for the longest time; whether there was one.
fn remove_unread(packs: &mut Table, may_go: impl Fn(&Entry) -> bool) -> bool {
    let is_unread = |entry: &Entry| {
        may_go(entry) && !entry.pack.is_packing() && Arc::strong_count(&entry.pack) <= OWN_USES
    };
    let unread = packs
        .iter()
        .filter(|(_, entry)| is_unread(entry))
        .min_by_key(|(_, entry)| *locked(&entry.pack.used_at))
        .map(|(key, _)| key.clone());
    let Some(removed) = unread.and_then(|key| packs.remove(&key)) else { return false };
    removed.pack.give_up();
    true
}

/// A packed file, part by part. It is read on threads that may wait.
pub(super) struct PackStream {
    pack: Arc<Pack>,
    position: u64,
}

impl ByteStream for PackStream {
    fn next(&mut self) -> Chunk<'_> {
        Box::pin(async move {
            let Some(file) = self.pack.file() else {
                return Err(not_ready("the packed commits are not kept any more"));
            };
            let position = self.position;
            let read = tokio::task::spawn_blocking(move || read_part(&file, position));
            let read = read.await.map_err(std::io::Error::other).flatten();
            let part = read.map_err(|error| {
                WorkerError::Unavailable(format!("a bundle cannot be read: {error}"))
            })?;
            self.position += u64::try_from(part.len()).unwrap_or(u64::MAX);
            Ok((!part.is_empty()).then_some(part))
        })
    }
}

/// A part of a file that others read, too; empty at its end.
fn read_part(file: &File, position: u64) -> std::io::Result<Vec<u8>> {
    let mut part = vec![0; CHUNK_BYTES];
    let mut length = 0;
    while let Some(rest) = part.get_mut(length..).filter(|rest| !rest.is_empty()) {
        let offset = position.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        match file.read_at(rest, offset) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    part.truncate(length);
    Ok(part)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    fn key(number: usize) -> PackKey {
        let checkout = number.to_string();
        PackKey { checkout, commits: Vec::new(), has: Vec::new() }
    }

    fn lease(number: usize) -> Lease {
        Lease { agent: format!("agent-{number}"), fence: 1 }
    }

    fn worker(number: usize) -> String {
        format!("worker-{number}")
    }

    fn file(bytes: &[u8]) -> Result<File, BundleError> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Ok(file)
    }

    async fn read(mut stream: PackStream) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(part) = stream.next().await.unwrap() {
            assert!(part.len() <= CHUNK_BYTES);
            all.extend(part);
        }
        all
    }

    #[tokio::test]
    async fn long_packing_continues_between_requests_and_runs_once() {
        let packs = Packs::with_times(SHORT, MINUTE);
        let (release, released) = mpsc::channel::<()>();
        let times = Arc::new(AtomicUsize::new(0));
        let content = vec![7; CHUNK_BYTES + 5];
        let counted = Arc::clone(&times);
        let bytes = content.clone();
        let make = move |_: &(dyn Fn() -> bool + Sync)| {
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = released.recv();
            file(&bytes)
        };
        let first = packs.open(&worker(1), &lease(1), key(1), make).await.err().unwrap();
        assert!(matches!(first, WorkerError::NotReady(_)), "{first:?}");
        let again = || {
            |_: &(dyn Fn() -> bool + Sync)| -> Result<File, BundleError> {
                Err(BundleError::Unreadable("it is packed twice".to_owned()))
            }
        };
        assert!(packs.open(&worker(2), &lease(2), key(1), again()).await.is_err());
        release.send(()).unwrap();
        // Two workers read the same file independently.
        for number in [1, 2] {
            let stream = loop {
                match packs.open(&worker(number), &lease(number), key(1), again()).await {
                    Ok(stream) => break stream,
                    Err(error) => assert!(matches!(error, WorkerError::NotReady(_)), "{error:?}"),
                }
            };
            assert_eq!(read(stream).await, content);
        }
        assert_eq!(times.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn requests_above_the_packing_limit_must_be_retried() {
        let packs = Packs::with_times(SHORT, MINUTE);
        let mut releases = Vec::new();
        for number in 0..MAX_PACKED_AT_ONCE {
            let (release, released) = mpsc::channel::<()>();
            releases.push(release);
            let make = move |_: &(dyn Fn() -> bool + Sync)| {
                let _ = released.recv();
                file(b"one")
            };
            assert!(packs.open(&worker(number), &lease(number), key(number), make).await.is_err());
        }
        let more = packs.open(&worker(9), &lease(9), key(9), |_| file(b"two")).await.err().unwrap();
        assert!(matches!(more, WorkerError::NotReady(_)), "{more:?}");
        releases.clear();
        let stream = loop {
            match packs.open(&worker(9), &lease(9), key(9), |_| file(b"two")).await {
                Ok(stream) => break stream,
                Err(_) => tokio::time::sleep(SHORT).await,
            }
        };
        assert_eq!(read(stream).await, b"two");
    }

    #[tokio::test]
    async fn request_waits_for_its_turn() {
        let packs = Arc::new(Packs::with_times(MINUTE, MINUTE));
        let mut releases = Vec::new();
        let mut tasks = Vec::new();
        for number in 0..MAX_PACKED_AT_ONCE {
            let (release, released) = mpsc::channel::<()>();
            releases.push(release);
            let packs = Arc::clone(&packs);
            tasks.push(tokio::spawn(async move {
                let make = move |_: &(dyn Fn() -> bool + Sync)| {
                    let _ = released.recv();
                    file(b"one")
                };
                packs.open(&worker(number), &lease(number), key(number), make).await.map(drop)
            }));
        }
        while packs.packing.available_permits() > 0 {
            tokio::time::sleep(SHORT).await;
        }
        let waiting = Arc::clone(&packs);
        let waits = tokio::spawn(async move {
            let stream = waiting.open(&worker(8), &lease(8), key(8), |_| file(b"two")).await;
            read(stream.unwrap()).await
        });
        while locked(&packs.waiting).is_empty() {
            tokio::time::sleep(SHORT).await;
        }
        // Another request of the same worker does not stand in line as well.
        let more = packs.open(&worker(8), &lease(9), key(9), |_| file(b"two")).await.err();
        assert!(matches!(more, Some(WorkerError::NotReady(_))), "{more:?}");
        releases.pop();
        assert_eq!(waits.await.unwrap(), b"two");
        assert!(locked(&packs.waiting).is_empty());
        releases.clear();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn worker_cannot_use_more_than_its_quota() {
        let packs = Packs::with_times(SHORT, MINUTE);
        let (release, released) = mpsc::channel::<()>();
        let make = move |_: &(dyn Fn() -> bool + Sync)| {
            let _ = released.recv();
            file(b"one")
        };
        assert!(packs.open("hostile", &lease(1), key(1), make).await.is_err());
        let second = packs.open("hostile", &lease(2), key(2), |_| file(b"two")).await.err();
        assert!(matches!(second, Some(WorkerError::NotReady(_))), "{second:?}");
        let open = async |worker: &str, number: usize| {
            for _ in 0..100 {
                let own = lease(number);
                let opened = packs.open(worker, &own, key(number), |_| file(b"x")).await;
                if let Ok(stream) = opened {
                    return Some(stream);
                }
                tokio::time::sleep(SHORT).await;
            }
            None
        };
        assert!(open("other", 3).await.is_some());
        release.send(()).unwrap();
        let first = open("hostile", 1).await.unwrap();
        let second = open("hostile", 2).await.unwrap();
        let third = packs.open("hostile", &lease(4), key(4), |_| file(b"x")).await.err();
        assert!(matches!(third, Some(WorkerError::NotReady(_))), "both files are read: {third:?}");
        assert!(open("other", 5).await.is_some());
        drop((first, second));
        assert!(open("hostile", 4).await.is_some());
    }

    #[tokio::test]
    async fn unwanted_packs_are_stopped_and_removed() {
        let packs = Packs::with_times(SHORT, Duration::from_millis(200));
        let (stopped, is_stopped) = mpsc::channel::<()>();
        let make = move |is_unwanted: &(dyn Fn() -> bool + Sync)| {
            while !is_unwanted() {
                std::thread::sleep(SHORT);
            }
            let _ = stopped.send(());
            Err(BundleError::Unreadable("it was stopped".to_owned()))
        };
        assert!(packs.open(&worker(1), &lease(1), key(1), make).await.is_err());
        let waited = tokio::task::spawn_blocking(move || is_stopped.recv_timeout(MINUTE));
        assert_eq!(waited.await.unwrap(), Ok(()));
        // A file that is no longer read is closed, even if its stream has not ended.
        let mut stream = packs.open(&worker(2), &lease(2), key(2), |_| file(b"two")).await.unwrap();
        while !locked(&packs.packs).is_empty() {
            tokio::time::sleep(SHORT).await;
        }
        assert!(matches!(stream.next().await, Err(WorkerError::NotReady(_))));
    }

    #[tokio::test]
    async fn lease_has_one_pack_and_the_number_of_packs_is_limited() {
        let packs = Packs::with_times(MINUTE, MINUTE);
        let first = packs.open(&worker(1), &lease(1), key(1), |_| file(b"one")).await.unwrap();
        packs.open(&worker(1), &lease(1), key(2), |_| file(b"two")).await.unwrap();
        assert!(first.pack.is_unwanted(MINUTE), "its lease requested another pack");
        let mut open = Vec::new();
        for number in 2..=MAX_FILES {
            open.push(
                packs
                    .open(&worker(number), &lease(number), key(number), |_| file(b"one"))
                    .await
                    .unwrap(),
            );
        }
        assert_eq!(locked(&packs.packs).len(), MAX_FILES - 1);
        open.push(packs.open(&worker(7), &lease(7), key(7), |_| file(b"one")).await.unwrap());
        let more = packs.open(&worker(8), &lease(8), key(8), |_| file(b"one")).await.err().unwrap();
        assert!(matches!(more, WorkerError::NotReady(_)), "{more:?}");
        open.clear();
        packs.open(&worker(8), &lease(8), key(8), |_| file(b"one")).await.unwrap();
    }

    #[tokio::test]
    async fn only_commits_that_are_too_large_are_refused_for_good() {
        let packs = Packs::with_times(MINUTE, MINUTE);
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull).to_string();
        let limit = 5;
        for (error, is_final) in [
            (BundleError::TooLarge { limit }, true),
            (BundleError::Unreadable(full), false),
            (BundleError::Malformed, false),
        ] {
            let failed =
                packs.open(&worker(1), &lease(1), key(1), |_| Err(error)).await.err().unwrap();
            assert_eq!(matches!(failed, WorkerError::Refused(_)), is_final, "{failed:?}");
            assert_eq!(matches!(failed, WorkerError::Unavailable(_)), !is_final, "{failed:?}");
            while !locked(&packs.packs).is_empty() {
                tokio::time::sleep(SHORT).await;
            }
        }
        let stream = packs.open(&worker(1), &lease(1), key(1), |_| file(b"one")).await.unwrap();
        assert_eq!(read(stream).await, b"one");
    }
}
