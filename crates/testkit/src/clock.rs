//! A wall clock that a test can step, for processes that are started with it. Their monotonic clock and everybody else's
//! clocks stay right.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library that adds an offset of a mapped file, in seconds, to the wall clock of the process that loads it.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long none = 0;
static volatile long *offset = &none;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("CLOCK_OFFSET_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) offset = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int done = syscall(SYS_clock_gettime, clock, now);
    if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset;
    return done;
}

int gettimeofday(struct timeval *now, void *zone) {
    int done = syscall(SYS_gettimeofday, now, zone);
    if (done == 0 && now) now->tv_sec += *offset;
    return done;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
"#;

/// The library, compiled into a directory.
#[derive(Debug)]
pub struct ClockLibrary(PathBuf);

impl ClockLibrary {
    /// Compiles it.
    pub fn compile(directory: &Path) -> Self {
        let (source, library) = (directory.join("clock.c"), directory.join("clock.so"));
        std::fs::write(&source, SOURCE).expect("the source");
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .output()
            .expect("a C compiler is missing");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
        Self(library)
    }

    /// A clock without an offset, which this file steps.
    pub fn clock(&self, file: &Path) -> Clock {
        std::fs::write(file, [0; 8]).expect("the offset");
        Clock { library: self.0.clone(), file: file.to_owned() }
    }
}

/// The wall clock of some processes.
#[derive(Debug)]
pub struct Clock {
    library: PathBuf,
    file: PathBuf,
}

impl Clock {
    /// Starts this program with the clock.
    pub fn give_to(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("CLOCK_OFFSET_FILE", &self.file);
    }

    /// Sets the difference to the true time, in seconds.
    pub fn set_offset(&self, seconds: i64) {
        let file = std::fs::File::options().write(true).open(&self.file).expect("the offset");
        file.write_all_at(&seconds.to_ne_bytes(), 0).expect("the offset");
    }
}
