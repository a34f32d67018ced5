//! The progress of a verification, on standard error: one changing line on a terminal, a line for each long step
//! elsewhere. The table at the end shows the verdicts.

use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bailiwick_lifecycle::verification::Progress;
use bailiwick_verify::Pass;

use crate::output::{self, shortened};
use crate::view::plain;

/// Shows progress until it is dropped.
pub struct Live {
    lines: Option<Sender<String>>,
    thread: Option<JoinHandle<()>>,
    pass: Pass,
    check: String,
    quiet: bool,
}

impl Live {
    /// Shows on standard error; nothing at all if `quiet`.
    pub fn start(quiet: bool) -> Self {
        let quiet = quiet || output::is_quiet();
        let mut live =
            Self { lines: None, thread: None, pass: Pass::Worktree, check: String::new(), quiet };
        if !quiet && std::io::stderr().is_terminal() {
            let (lines, received) = mpsc::channel::<String>();
            live.lines = Some(lines);
            live.thread = Some(std::thread::spawn(move || {
                let (mut shown, mut since) = (String::new(), Instant::now());
                loop {
                    match received.recv_timeout(Duration::from_millis(200)) {
                        Ok(line) => (shown, since) = (line, Instant::now()),
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => break,
                    }
                    draw(&shown, since.elapsed());
                }
                draw("", Duration::ZERO);
            }));
        }
        live
    }

    /// Hears of a step.
    pub fn tell(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Snapshot => self.show("taking a snapshot of the work".to_owned()),
            Progress::Pass(pass) => self.pass = *pass,
            Progress::Preparing(tree) => {
                self.show(format!("{}: making tree {tree:.12} ready", word(self.pass)));
            }
            Progress::Check(name) => {
                self.check = (*name).to_owned();
                if self.lines.is_some() {
                    self.show(format!("{}: {name}", word(self.pass)));
                }
            }
            Progress::Running(line) => {
                self.show(format!("{}: {}: {line}", word(self.pass), self.check));
            }
            Progress::Done(_) => {}
        }
    }

    fn show(&self, line: String) {
        match &self.lines {
            Some(lines) => drop(lines.send(line)),
            None if self.quiet => {}
            None => output::progress(format_args!("{line} …")),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.lines = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn draw(line: &str, since: Duration) {
    let mut out = std::io::stderr().lock();
    let text = match line {
        "" => String::new(),
        line => shortened(&format!("{} {}", elapsed(since), plain(line)), output::width() - 1),
    };
    let _ = write!(out, "\r\x1b[K{text}").and_then(|()| out.flush());
}

/// A duration in its two largest units.
pub fn elapsed(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

/// A pass in a word.
pub fn word(pass: Pass) -> &'static str {
    match pass {
        Pass::Worktree => "worktree",
        Pass::SimulatedMerge => "simulated-merge",
    }
}
