//! The memory use of everything inside, measured by PID 1 if there is no control group.
//!
//! ```text
//!  pages that processes have for themselves    /proc/PID/statm
//!  file systems in memory                      statvfs
//!  System V segments                           /proc/sysvipc/shm
//!  memfd and shared anonymous memory           /proc/PID/fd, and /proc/PID/smaps near the limit
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use rustix::fs::{MemfdFlags, fstat, major, memfd_create, minor};

use super::Sandbox;

/// The mounts to measure.
pub(super) struct Memory {
    /// File systems in memory that can be written.
    places: Vec<PathBuf>,
    /// The device of anonymous memory files in the kernel, if it is known.
    unnamed: Option<u64>,
    page: u64,
}

impl Memory {
    pub(super) fn of(sandbox: &Sandbox) -> Self {
        let fixed = ["/", "/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from);
        let given: BTreeSet<&Path> = sandbox
            .read_only
            .iter()
            .chain(&sandbox.writable)
            .chain(&sandbox.layered)
            .map(|bind| bind.target.as_path())
            .chain(sandbox.overlaid.iter().map(|one| one.target.as_path()))
            .collect();
        let own = fixed.into_iter().chain(sandbox.private.iter().cloned());
        // Mounts of the host are not memory of the sandbox.
        let places = own.filter(|place| !given.contains(place.as_path())).collect();
        let unnamed = memfd_create("device", MemfdFlags::CLOEXEC)
            .and_then(|file| fstat(&file))
            .map(|found| found.st_dev)
            .ok();
        Self { places, unnamed, page: rustix::param::page_size() as u64 }
    }

    /// How many bytes remain below `limit`; none if it is exceeded.
    pub(super) fn room(&self, limit: u64) -> Option<u64> {
        let processes = processes();
        let mut open = BTreeSet::new();
        let mut taken = self.in_file_systems().saturating_add(segments());
        let mut mapped = 0_u64;
        for process in &processes {
            let pages = own_pages(process).unwrap_or(0);
            taken = taken.saturating_add(pages.saturating_mul(self.page));
            taken = taken.saturating_add(self.open_files(process, &mut open));
            mapped = mapped.saturating_add(shared_bytes(process));
        }
        let room = limit.checked_sub(taken)?;
        if let Some(room) = room.checked_sub(mapped) {
            return Some(room);
        }
        // Shared pages are in each of their processes, so only now the share of each is worth its time.
        let shares = processes.iter().map(|process| self.shares(process, &open));
        limit.checked_sub(shares.fold(taken, u64::saturating_add))
    }

    fn in_file_systems(&self) -> u64 {
        let used = |place: &PathBuf| {
            let seen = statvfs(place.as_path()).ok()?;
            let blocks = seen.blocks().saturating_sub(seen.blocks_free());
            Some(blocks.saturating_mul(seen.fragment_size()))
        };
        self.places.iter().filter_map(used).fold(0, u64::saturating_add)
    }

    /// Memory without a name that a process has open, each object once.
    fn open_files(&self, process: &Path, seen: &mut BTreeSet<u64>) -> u64 {
        let Some(device) = self.unnamed else { return 0 };
        let mut bytes = 0_u64;
        // A thread can have its own files.
        for thread in entries(&process.join("task")) {
            for file in entries(&thread.join("fd")) {
                let Ok(found) = fs::metadata(&file) else { continue };
                if found.dev() == device && seen.insert(found.ino()) {
                    bytes = bytes.saturating_add(found.blocks().saturating_mul(512));
                }
            }
        }
        bytes
    }

    /// A process's share of unnamed memory that no process has open.
    fn shares(&self, process: &Path, open: &BTreeSet<u64>) -> u64 {
        let Some(device) = self.unnamed else { return 0 };
        let device = format!("{:02x}:{:02x}", major(device), minor(device));
        let threads = entries(&process.join("task"));
        let mut maps = threads.iter().filter_map(|one| fs::read(one.join("smaps")).ok());
        let Some(map) = maps.find(|map| !map.is_empty()) else { return 0 };
        share(&String::from_utf8_lossy(&map), &device, open)
    }
}

/// The proportional share of mappings of a device, without objects that are counted already.
fn share(map: &str, device: &str, counted: &BTreeSet<u64>) -> u64 {
    let (mut is_counted, mut bytes) = (false, 0_u64);
    for line in map.lines() {
        let mut fields = line.split_ascii_whitespace();
        let Some(first) = fields.next() else { continue };
        if first == "Pss:" && is_counted {
            let share = fields.next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
            bytes = bytes.saturating_add(share.saturating_mul(1024));
        } else if !first.ends_with(':') {
            let (on, file, name) = (fields.nth(2), fields.next(), fields.next().unwrap_or(""));
            let file = file.and_then(|number| number.parse::<u64>().ok());
            let is_known = file.is_none_or(|file| counted.contains(&file));
            // Segments of System V are in a table of their own.
            is_counted = on == Some(device) && !is_known && !name.starts_with("/SYSV");
        }
    }
    bytes
}

fn processes() -> Vec<PathBuf> {
    let all = entries(Path::new("/proc")).into_iter();
    all.filter(|path| is_number(path)).collect()
}

fn is_number(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The first readable file of the threads: that of an ended first thread is empty.
fn of_threads<T>(process: &Path, name: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    let found = fs::read_to_string(process.join(name)).ok().and_then(|text| read(&text));
    found.or_else(|| {
        let threads = entries(&process.join("task"));
        threads.iter().find_map(|one| read(&fs::read_to_string(one.join(name)).ok()?))
    })
}

/// Pages in memory that are not shared.
fn own_pages(process: &Path) -> Option<u64> {
    of_threads(process, "statm", |text| {
        let mut fields = text.split(' ').map(str::parse::<u64>);
        let (size, resident) = (fields.next()?.ok()?, fields.next()?.ok()?);
        let shared = fields.next()?.ok()?;
        (size > 0).then(|| resident.saturating_sub(shared))
    })
}

/// Shared memory that is mapped, in bytes.
fn shared_bytes(process: &Path) -> u64 {
    let shared = of_threads(process, "status", |text| {
        let line = text.lines().find_map(|line| line.strip_prefix("RssShmem:"))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    });
    shared.unwrap_or(0).saturating_mul(1024)
}

/// Segments of System V in this namespace, in bytes.
fn segments() -> u64 {
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    segments_in(&table)
}

fn segments_in(table: &str) -> u64 {
    let mut lines = table.lines();
    let names = lines.next().unwrap_or_default();
    let Some(column) = names.split_ascii_whitespace().position(|name| name == "rss") else {
        return 0;
    };
    let resident = |line: &str| line.split_ascii_whitespace().nth(column)?.parse::<u64>().ok();
    lines.filter_map(resident).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "7f0000000000-7f0010000000 rw-s 00000000 00:01 11 /memfd:a (deleted)\n\
                       Size:             262144 kB\nRss:             1000 kB\nPss:              500 kB\n\
                       Pss_Dirty:           500 kB\nVmFlags: rd wr sh\n\
                       7f0010000000-7f0020000000 rw-s 00000000 00:01 12 /dev/zero (deleted)\n\
                       Pss:              30 kB\n\
                       7f0030000000-7f0040000000 rw-s 00000000 00:01 13 /SYSV00000000 (deleted)\n\
                       Pss:              700 kB\n\
                       7f0040000000-7f0050000000 r--p 00000000 08:01 14 /usr/lib/libc.so\n\
                       Pss:              900 kB\n7ffe00000000-7ffe00001000 rw-p 00000000 00:00 0 [stack]\n\
                       Pss:              40 kB\n";

    #[test]
    fn only_unnamed_memory_that_no_process_has_open_is_shared_out() {
        assert_eq!(share(MAP, "00:01", &BTreeSet::new()), 530 << 10);
        assert_eq!(share(MAP, "00:01", &BTreeSet::from([11])), 30 << 10);
        assert_eq!(share(MAP, "00:02", &BTreeSet::new()), 0);
    }

    #[test]
    fn segments_count_by_their_resident_size() {
        let table = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  \
                     cuid  cgid      atime      dtime      ctime                   rss                  \
                     swap\n         0          0   600             314572800   10    11      0     0     0  \
                     0     0          0          0 1700000000             209715200                     0\n";
        assert_eq!(segments_in(table), 200 << 20);
        assert_eq!(segments_in(""), 0);
    }

    #[test]
    fn page_counts_are_parsed() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = place.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("statm", "1000 300 100 1 0 50 0\n");
        write("status", "Name:\tx\nRssShmem:\t     100 kB\n");
        assert_eq!((own_pages(place.path()), shared_bytes(place.path())), (Some(200), 100 << 10));
        // The first thread has ended.
        write("statm", "0 0 0 0 0 0 0\n");
        assert_eq!(own_pages(place.path()), None);
        write("task/7/statm", "1000 500 100 1 0 50 0\n");
        assert_eq!(own_pages(place.path()), Some(400));
    }
}
