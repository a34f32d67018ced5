//! The output of a program: counted and limited, with its end kept.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bailiwick_verify::executed_tests::TestCounter;

use super::Capture;

const TAIL: usize = 64 * 1024;
/// How long the pipes may stay open after the program has ended.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The reading ends of a program's output.
pub(super) struct Output {
    tail: PipeReader,
    apart: Option<PipeReader>,
}

/// The writing ends.
pub(super) struct OutputWriters {
    pub(super) output: PipeWriter,
    pub(super) errors: PipeWriter,
}

/// The output that was read.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) tail: Vec<u8>,
    pub(super) output: Vec<u8>,
    pub(super) printed: u64,
    pub(super) too_much: bool,
    pub(super) executed_tests: Option<u64>,
}

#[derive(Default)]
struct Shared {
    tail: Mutex<VecDeque<u8>>,
    tests: Mutex<TestCounter>,
    output: Mutex<Vec<u8>>,
    printed: AtomicU64,
    too_much: AtomicBool,
}

/// Threads that read.
pub(super) struct Reading {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Output {
    /// One pipe for both streams preserves their order.
    pub(super) fn new(capture: Capture) -> io::Result<(Self, OutputWriters)> {
        let (tail, errors) = io::pipe()?;
        Ok(match capture {
            Capture::Merged => {
                let output = errors.try_clone()?;
                (Self { tail, apart: None }, OutputWriters { output, errors })
            }
            Capture::Separate => {
                let (apart, output) = io::pipe()?;
                (Self { tail, apart: Some(apart) }, OutputWriters { output, errors })
            }
        })
    }

    /// Reads, and calls `stop` after more than `limit` bytes.
    pub(super) fn read(self, limit: u64, stop: impl Fn() + Send + Sync + 'static) -> Reading {
        let shared = Arc::new(Shared::default());
        let stop = Arc::new(stop);
        let count = move |shared: &Shared, length: usize| {
            let length = u64::try_from(length).unwrap_or(u64::MAX);
            let before = shared.printed.fetch_add(length, Ordering::Relaxed);
            before.saturating_add(length) > limit
        };
        let keep_tail = |shared: &Shared, piece: &[u8]| {
            let mut tail = shared.tail.lock().unwrap_or_else(PoisonError::into_inner);
            tail.extend(piece);
            let surplus = tail.len().saturating_sub(TAIL);
            tail.drain(..surplus);
            drop(tail);
            shared.tests.lock().unwrap_or_else(PoisonError::into_inner).push(piece);
        };
        let keep_all = |shared: &Shared, piece: &[u8]| {
            shared.output.lock().unwrap_or_else(PoisonError::into_inner).extend(piece);
        };
        let start = |mut pipe: PipeReader, keep: fn(&Shared, &[u8])| {
            let (shared, stop) = (Arc::clone(&shared), Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut piece = [0; 16 * 1024];
                while let Ok(length @ 1..) = pipe.read(&mut piece) {
                    if count(&shared, length) {
                        shared.too_much.store(true, Ordering::Relaxed);
                        stop();
                        return;
                    }
                    keep(&shared, piece.get(..length).unwrap_or_default());
                }
            })
        };
        let mut threads = vec![start(self.tail, keep_tail)];
        threads.extend(self.apart.map(|pipe| start(pipe, keep_all)));
        Reading { shared, threads }
    }
}

impl Reading {
    /// The output, after the program has ended.
    pub(super) fn finish(self) -> Read {
        // Without a sandbox, an escaped process may keep the pipe open: do not wait for it.
        let deadline = Instant::now() + TIMEOUT;
        while !self.threads.iter().all(JoinHandle::is_finished) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let take = |bytes: &Mutex<Vec<u8>>| {
            std::mem::take(&mut *bytes.lock().unwrap_or_else(PoisonError::into_inner))
        };
        let tail =
            std::mem::take(&mut *self.shared.tail.lock().unwrap_or_else(PoisonError::into_inner));
        let tests = &mut *self.shared.tests.lock().unwrap_or_else(PoisonError::into_inner);
        Read {
            executed_tests: std::mem::take(tests).finish(),
            tail: tail.into(),
            output: take(&self.shared.output),
            printed: self.shared.printed.load(Ordering::Relaxed),
            too_much: self.shared.too_much.load(Ordering::Relaxed),
        }
    }
}
