//! A person's terminal: relays input, output and window size to the terminal of a program, and is restored at
//! the end.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{read, write};
use rustix::termios::{
    OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};

use super::modes::Modes;
use crate::agents::adapter::Verdict;

/// How long the remaining output of a program may take, in milliseconds.
const LAST_WORDS: u16 = 300;

/// The terminal that must be restored, and how it was.
static RAW: Mutex<Option<(OwnedFd, Termios)>> = Mutex::new(None);

/// Restores the person's terminal. For a process that exits early: otherwise it happens on drop.
pub fn restore_terminal() {
    restore(OptionalActions::Now);
}

fn restore(when: OptionalActions) {
    let raw = RAW.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((terminal, before)) = raw {
        // If the terminal is gone, there is nothing to restore.
        let _ = tcsetattr(terminal, when, &before);
    }
}

/// A person's terminal, and where they are.
pub struct Screen {
    input: OwnedFd,
    output: OwnedFd,
    before: Termios,
    pub(super) directory: PathBuf,
}

impl Screen {
    /// The terminal of this process; `None` unless it reads and prints at one.
    ///
    /// Must be called before the process has a second thread: the signal for a new size is blocked for all but the
    /// one that waits for it.
    pub fn of_process(directory: PathBuf) -> io::Result<Option<Self>> {
        let (input, output) = (io::stdin(), io::stdout());
        if !isatty(&input) || !isatty(&output) {
            return Ok(None);
        }
        sizes().thread_block()?;
        let before = tcgetattr(&input)?;
        let (input, output) =
            (input.as_fd().try_clone_to_owned()?, output.as_fd().try_clone_to_owned()?);
        Ok(Some(Self { input, output, before, directory }))
    }

    /// Gives the terminal of a program the size and the modes of this one.
    pub(super) fn copy_to(&self, program: &OwnedFd, person: &OwnedFd) -> io::Result<()> {
        tcsetattr(program, OptionalActions::Now, &self.before)?;
        Ok(tcsetwinsize(person, tcgetwinsize(&self.output)?)?)
    }
}

fn sizes() -> SigSet {
    let mut sizes = SigSet::empty();
    sizes.add(Signal::SIGWINCH);
    sizes
}

/// Forwards bytes between a person's terminal and a program's.
pub(super) struct TerminalForwarder {
    output: OwnedFd,
    over: Arc<AtomicBool>,
    wake: Option<PipeWriter>,
    typing: Option<JoinHandle<()>>,
    printing: Option<JoinHandle<Modes>>,
}

impl TerminalForwarder {
    pub(super) fn start(screen: &Screen, program: OwnedFd) -> io::Result<Self> {
        fcntl(&program, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let program = Arc::new(program);
        let (asleep, wake) = io::pipe()?;
        let sizes = SignalFd::with_flags(&sizes(), SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let typing = InputForwarder {
            input: screen.input.try_clone()?,
            output: screen.output.try_clone()?,
            program: Arc::clone(&program),
            asleep,
            sizes,
        };
        let (output, printed) = (screen.output.try_clone()?, screen.output.try_clone()?);
        let over = Arc::new(AtomicBool::new(false));
        let printing_over = Arc::clone(&over);
        raw(screen)?;
        let mut relay = Self { output, over, wake: Some(wake), typing: None, printing: None };
        relay.typing = Some(std::thread::Builder::new().spawn(move || typing.carry())?);
        let printing = move || print(&program, &printed, &printing_over);
        relay.printing = Some(std::thread::Builder::new().spawn(printing)?);
        Ok(relay)
    }

    /// Shows the remaining output of an ended program and restores the terminal.
    pub(super) fn finish(mut self, code: Option<i32>) -> Verdict {
        self.stop();
        match code {
            Some(0) => Verdict { completed: true, words: "the person has left it".to_owned() },
            Some(code) => {
                Verdict { completed: false, words: format!("it ended with the code {code}") }
            }
            None => Verdict { completed: false, words: "it was ended".to_owned() },
        }
    }

    fn stop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let modes = self.printing.take().map(JoinHandle::join);
        // The other thread sees that its waker is gone.
        drop(self.wake.take());
        if let Some(typing) = self.typing.take() {
            let _ = typing.join();
        }
        if let Some(Ok(modes)) = modes {
            put(self.output.as_fd(), modes.undone().as_bytes());
        }
        // Late answers of the terminal to the program are not for the person's shell.
        restore(OptionalActions::Flush);
    }
}

impl Drop for TerminalForwarder {
    fn drop(&mut self) {
        self.stop();
    }
}

/// From here on every key is the program's, those that would end this process above all.
fn raw(screen: &Screen) -> io::Result<()> {
    let terminal = screen.input.try_clone()?;
    let mut raw = screen.before.clone();
    raw.make_raw();
    *RAW.lock().unwrap_or_else(PoisonError::into_inner) = Some((terminal, screen.before.clone()));
    let set = tcsetattr(&screen.input, OptionalActions::Now, &raw);
    if set.is_err() {
        restore_terminal();
    }
    Ok(set?)
}

/// Forwards input and window size.
struct InputForwarder {
    input: OwnedFd,
    output: OwnedFd,
    program: Arc<OwnedFd>,
    asleep: PipeReader,
    sizes: SignalFd,
}

impl InputForwarder {
    /// Runs until it is woken.
    fn carry(self) {
        // The size may have changed since the terminal was created.
        self.resize();
        let mut waiting: Vec<u8> = Vec::new();
        let mut hears = true;
        loop {
            let nothing = PollFlags::empty();
            let listens = if hears && waiting.is_empty() { PollFlags::POLLIN } else { nothing };
            let writes = if waiting.is_empty() { nothing } else { PollFlags::POLLOUT };
            let mut places = vec![
                PollFd::new(self.asleep.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.sizes.as_fd(), PollFlags::POLLIN),
            ];
            if !writes.is_empty() {
                places.push(PollFd::new(self.program.as_fd(), writes));
            }
            if !listens.is_empty() {
                places.push(PollFd::new(self.input.as_fd(), listens));
            }
            if !polled(&mut places, PollTimeout::NONE) {
                return;
            }
            let ready: Vec<bool> = places.iter().map(|place| place.any().unwrap_or(true)).collect();
            drop(places);
            let [woken, resized, ..] = ready.as_slice() else { return };
            if *woken {
                return;
            }
            if *resized {
                while let Ok(Some(_)) = self.sizes.read_signal() {}
                self.resize();
            }
            if ready.get(2) != Some(&true) {
                continue;
            }
            if waiting.is_empty() {
                match read_ready(self.input.as_fd()) {
                    // A closed terminal sends no more input; its signal ends the program.
                    ReadResult::Closed => hears = false,
                    ReadResult::Nothing => {}
                    ReadResult::Bytes(bytes) => waiting = bytes,
                }
            } else {
                match write(self.program.as_fd(), &waiting) {
                    Ok(count) => drop(waiting.drain(..count)),
                    Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => {}
                    Err(_) => waiting.clear(),
                }
            }
        }
    }

    fn resize(&self) {
        if let Ok(size) = tcgetwinsize(&self.output) {
            // The kernel notifies the program.
            let _ = tcsetwinsize(self.program.as_ref(), size);
        }
    }
}

/// Shows what the program prints, until all its processes have closed the terminal.
fn print(program: &OwnedFd, output: &OwnedFd, over: &AtomicBool) -> Modes {
    let mut modes = Modes::default();
    loop {
        let ending = over.load(Ordering::SeqCst);
        let mut places = [PollFd::new(program.as_fd(), PollFlags::POLLIN)];
        if !polled(&mut places, PollTimeout::from(LAST_WORDS)) {
            return modes;
        }
        if places.iter().all(|place| place.any() == Some(false)) {
            if ending {
                return modes;
            }
            continue;
        }
        match read_ready(program.as_fd()) {
            ReadResult::Closed => return modes,
            ReadResult::Nothing => {}
            ReadResult::Bytes(bytes) => {
                modes.see(&bytes);
                put(output.as_fd(), &bytes);
            }
        }
    }
}

/// Waits for one of them; false if that cannot be done.
fn polled(places: &mut [PollFd<'_>], timeout: PollTimeout) -> bool {
    loop {
        match poll(places, timeout) {
            Ok(_) => return true,
            Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
}

enum ReadResult {
    Bytes(Vec<u8>),
    Nothing,
    Closed,
}

fn read_ready(from: BorrowedFd<'_>) -> ReadResult {
    let mut bytes = vec![0_u8; 16 * 1024];
    match read(from, &mut bytes) {
        Ok(0) => ReadResult::Closed,
        Ok(count) => {
            bytes.truncate(count);
            ReadResult::Bytes(bytes)
        }
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => ReadResult::Nothing,
        Err(_) => ReadResult::Closed,
    }
}

/// Shows bytes to the person. If the terminal is gone, they are dropped.
fn put(to: BorrowedFd<'_>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match write(to, bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(nix::errno::Errno::EINTR) => {}
            Err(nix::errno::Errno::EAGAIN) => {
                let mut places = [PollFd::new(to, PollFlags::POLLOUT)];
                if !polled(&mut places, PollTimeout::NONE) {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}
