//! Tests of the disk limit.

use super::*;
use std::sync::Mutex;

const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn each_file_counts_once_and_deleted_files_do_not() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let file = place.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, vec![7; 1 << 20]).unwrap();
    };
    let cancelled = AtomicBool::new(false);
    let count = || measure(&[place.path().to_path_buf()], &cancelled).bytes >> 20;
    write("before");
    assert_eq!(count(), 1);
    write("one");
    write("deep/er/two");
    fs::hard_link(place.path().join("one"), place.path().join("again")).unwrap();
    std::os::unix::fs::symlink("/usr", place.path().join("away")).unwrap();
    assert_eq!(count(), 3);
    let files = measure(&[place.path().to_path_buf()], &cancelled).files;
    assert_eq!(files, 8, "five names, and three directories");
    fs::remove_file(place.path().join("before")).unwrap();
    assert_eq!(count(), 2);
    cancelled.store(true, Ordering::SeqCst);
    assert_eq!(count(), 0, "it continues after it was cancelled");
}

#[test]
fn disk_that_fills_is_measured_and_a_full_one_ends_the_attempt() {
    let mut space = Space::new(RESERVE * 4, 16 << 20);
    for (free, state) in [
        (RESERVE * 4 - (1 << 20), FreeSpaceState::Enough),
        (RESERVE * 4 - (3 << 20), FreeSpaceState::Low),
        // Counted from there.
        (RESERVE * 4 - (4 << 20), FreeSpaceState::Enough),
        (RESERVE * 5, FreeSpaceState::Enough),
        (RESERVE * 5 - (2 << 20), FreeSpaceState::Low),
        (RESERVE - 1, FreeSpaceState::Exhausted),
    ] {
        assert_eq!(space.now(free), state, "{free}");
    }
    // An attempt that started with less continues.
    assert_eq!(Space::new(RESERVE - 2, 1).now(RESERVE - 2), FreeSpaceState::Enough);
}

/// A disk whose free space shrinks between two checks.
fn filling() -> impl Fn() -> u64 + Send + 'static {
    let checks = Mutex::new(0);
    move || {
        let mut checks = checks.lock().unwrap();
        *checks += 1;
        (1 << 60) - *checks * (2 << 20)
    }
}

/// Runs a guard and returns why attempts ended.
fn guarded(
    left: impl Fn() -> u64 + Send + 'static,
    measure: impl Fn(&AtomicBool) -> DiskUsage + Send + 'static,
) -> (DiskMonitor, Receiver<String>) {
    let (sender, reasons) = channel();
    let sender = Mutex::new(sender);
    let end = move |why: &str| drop(sender.lock().unwrap().send(why.to_owned()));
    (DiskMonitor::with(16 << 20, Arc::default(), left, measure, end), reasons)
}

#[test]
fn each_disk_is_checked_once() {
    let scratch = tempfile::tempdir().unwrap();
    let (first, second) = (scratch.path().to_path_buf(), scratch.path().join("other"));
    fs::create_dir(&second).unwrap();
    let (elsewhere, missing) = (PathBuf::from("/proc"), PathBuf::from("/missing"));
    let places = vec![first.clone(), second, elsewhere.clone(), missing.clone()];
    assert_eq!(one_of_each_disk(places), [first, elsewhere, missing]);
}

#[test]
fn added_bytes_end_an_attempt() {
    let walks = Mutex::new(0_u64);
    let measure = move |_: &AtomicBool| {
        let mut walks = walks.lock().unwrap();
        *walks += 1;
        // The initial usage does not count.
        DiskUsage { bytes: (100 << 20) + (*walks - 1) * (9 << 20), files: 1 }
    };
    let (_guard, reasons) = guarded(filling(), measure);
    let why = reasons.recv_timeout(TIMEOUT).unwrap();
    assert!(why.contains("disk, of which it may add 16 MiB"), "{why}");
}

#[test]
fn too_many_files_end_an_attempt() {
    for files in [[10, 11 + MAX_FILES], [COUNTED, COUNTED]] {
        let walks = Mutex::new(files.into_iter());
        let measure = move |_: &AtomicBool| {
            let files = walks.lock().unwrap().next().unwrap_or(11 + MAX_FILES);
            DiskUsage { bytes: 0, files }
        };
        let (_guard, reasons) = guarded(filling(), measure);
        let why = reasons.recv_timeout(TIMEOUT).unwrap();
        assert!(why.contains("disk, to which it may add 2000000 files"), "{why}");
    }
}

#[test]
fn endless_measurement_delays_neither_the_disk_check_nor_the_end() {
    let checks = Mutex::new(0);
    let free = move || {
        let mut checks = checks.lock().unwrap();
        *checks += 1;
        if *checks < 3 { RESERVE * 4 } else { RESERVE / 2 }
    };
    let (walks, walking) = channel();
    let measure = move |cancelled: &AtomicBool| {
        walks.send(()).unwrap();
        while !cancelled.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        DiskUsage::default()
    };
    let (guard, reasons) = guarded(free, measure);
    walking.recv_timeout(TIMEOUT).unwrap();
    let why = reasons.recv_timeout(TIMEOUT).unwrap();
    assert!(why.contains("the disk has less than 512 MiB left"), "{why}");
    drop(guard);
    assert!(walking.try_recv().is_err(), "there was only one walk");
}
