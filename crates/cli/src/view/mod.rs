//! The live view of a run: a line for each event, and on a terminal a last line with phase, budget and time.

pub mod live_status;
pub mod verification;

use std::io::{BufRead as _, IsTerminal, Write as _};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bailiwick_engine::running::observer::RunView;
use bailiwick_model::Event;
use bailiwick_model::event::{Answer, EventKind, FileChange, Phase, ReportedBy};
use bailiwick_runner::supervisor::{self, Reply, Request, RunDirectory};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::getpgrp;
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp};

use crate::output::{self, BOLD, DIM, GREEN, RED, YELLOW, shortened, shortened_middle, styled};
use crate::view::live_status::LiveStatus;

/// How often it is looked whether a question still waits.
const LOOK: Duration = Duration::from_millis(300);
/// The maximum number of lines of one event, on a terminal and elsewhere.
const MAX_LINES: usize = 8;
const MAX_PIPED_CHARS: usize = 400;
/// The indentation of further lines of the same event.
const INDENT: &str = "    ";
/// The maximum length of the command or files in a denial: the reason comes after it.
const MAX_DENIED_CHARS: usize = 120;
/// The maximum length of the output of a command.
const MAX_OUTPUT_CHARS: usize = 160;

/// Shows a run until it is dropped.
pub struct View {
    quiet: bool,
    /// Whether the person who looks may answer here.
    answers: bool,
    directory: RunDirectory,
    status: Option<Status>,
}

/// The line that moves.
struct Status {
    shared: Arc<Mutex<Shown>>,
    thread: Option<JoinHandle<()>>,
}

struct Shown {
    standing: LiveStatus,
    over: bool,
}

impl View {
    /// Shows on standard error; nothing at all if `quiet`.
    pub fn start(quiet: bool, directory: RunDirectory) -> Self {
        Self::of(quiet, directory, LiveStatus::after(Duration::ZERO))
    }

    /// The same for a run with this status.
    pub fn of(quiet: bool, directory: RunDirectory, standing: LiveStatus) -> Self {
        let quiet = quiet || output::is_quiet();
        let terminal = !quiet && std::io::stderr().is_terminal();
        let status = terminal.then(|| {
            let shared = Arc::new(Mutex::new(Shown { standing, over: false }));
            let drawn = Arc::clone(&shared);
            let began = Instant::now();
            let thread = std::thread::spawn(move || {
                loop {
                    let shown = drawn.lock().unwrap_or_else(PoisonError::into_inner);
                    if shown.over {
                        clear();
                        return;
                    }
                    draw(&shown.standing, began.elapsed());
                    drop(shown);
                    std::thread::sleep(Duration::from_millis(200));
                }
            });
            Status { shared, thread: Some(thread) }
        });
        Self { quiet, answers: true, directory, status }
    }

    /// Questions are shown, and answered elsewhere.
    #[must_use]
    pub fn only_looking(mut self) -> Self {
        self.answers = false;
        self
    }

    fn change(&self, change: impl FnOnce(&mut Shown)) {
        if let Some(status) = &self.status {
            change(&mut status.shared.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Asks the person, if there is a terminal.
    pub fn ask(&self, id: &str, about: &str) {
        if self.quiet || !std::io::stdin().is_terminal() {
            return;
        }
        if !self.answers {
            let about = plain(about);
            output::note(format_args!("asks ({id}): {about}; see bailiwick approvals list"));
            return;
        }
        let (directory, id) = (self.directory.clone(), id.to_owned());
        let question = format!("{} {}\nallow it? [y/N] ", styled(YELLOW, "asks"), plain(about));
        // The thread waits as long as the question is open; the run closes it in time.
        std::thread::spawn(move || {
            // One at a time: what is typed answers what is shown.
            let _alone = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
            if !is_open(&directory, &id) {
                return;
            }
            clear();
            // Earlier input answered another question, which is closed.
            forget_typed(&std::io::stdin());
            let _ = write!(anstream::stderr(), "{question}");
            // Later input is for the next question.
            while !typed(&std::io::stdin(), LOOK) {
                if !is_open(&directory, &id) {
                    output::note(format_args!("question {id} is closed"));
                    return;
                }
            }
            let mut said = String::new();
            if std::io::stdin().lock().read_line(&mut said).is_err() {
                return;
            }
            let yes = matches!(said.trim(), "y" | "Y" | "yes");
            let answer = if yes { Answer::Allow } else { Answer::Deny };
            let reply = supervisor::ask(&directory, &Request::Answer { id, answer });
            if let Ok(Some(Reply::Refused(why))) = reply {
                output::note(why);
            }
        });
    }
}

impl RunView for View {
    fn phase(&self, phase: Phase) {
        self.change(|shown| shown.standing.enter(phase));
    }

    fn show(&mut self, event: &Event) {
        self.change(|shown| shown.standing.count(event));
        if let EventKind::Approval { id, about, answer: None } = &event.what {
            self.ask(id, about);
        }
        if self.quiet {
            return;
        }
        if let Some(line) = line(event) {
            if self.status.is_some() {
                clear();
            }
            let lines = match std::io::stderr().is_terminal() {
                true => folded(event, &line, ""),
                false if is_denial(event) => vec![line],
                false => vec![shortened(&line, MAX_PIPED_CHARS)],
            };
            for line in lines {
                let _ = writeln!(anstream::stderr(), "{line}");
            }
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.change(|shown| shown.over = true);
        if let Some(thread) = self.status.as_mut().and_then(|status| status.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// Locked while a question is shown.
static ASKING: Mutex<()> = Mutex::new(());

/// Discards what was typed at a terminal and has not been read, also an unfinished line.
pub(crate) fn forget_typed(input: &(impl AsFd + IsTerminal)) {
    // A process in the background would be stopped for it, and what is typed is not for it.
    let background = tcgetpgrp(input).is_ok_and(|group| group != getpgrp());
    if input.is_terminal() && !background {
        // If the terminal is gone, there is no input.
        let _ = tcflush(input, QueueSelector::IFlush);
    }
}

/// Whether a line has been typed, or the input has ended. Waits a while for it.
fn typed(input: &impl AsFd, timeout: Duration) -> bool {
    let mut asked = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
    match poll(&mut asked, timeout) {
        Ok(ready) => ready > 0,
        Err(error) => error != Errno::EINTR,
    }
}

/// Whether a question still waits for its answer.
fn is_open(directory: &RunDirectory, id: &str) -> bool {
    match supervisor::ask(directory, &Request::Status) {
        Ok(Some(Reply::Status(standing))) => standing.questions.iter().any(|(one, _)| one == id),
        Ok(_) | Err(_) => false,
    }
}

/// An untrusted text in one line, without control and invisible characters.
pub fn plain(text: &str) -> String {
    let seen = text.chars().filter(|c| !output::is_hidden(*c));
    let text: String = seen.map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An event as a line; none if other output shows it better.
pub fn line(event: &Event) -> Option<String> {
    let one = |text: &str| plain(text);
    let of = event.agent.as_ref().map(|agent| format!("[{:.8}] ", one(agent))).unwrap_or_default();
    let text = match (&event.what, event.reported_by) {
        (EventKind::Text { text }, _) => one(text),
        (EventKind::Decision { tool, about, answer: Answer::Allow, .. }, _) => {
            format!("{} {} {}", styled(GREEN, "allows"), one(tool), one(about))
        }
        (EventKind::Decision { tool, about, answer: Answer::Deny, reason, .. }, _) => {
            let reason = reason.as_deref().unwrap_or_default();
            let (tool, about) = (one(tool), shortened_middle(&one(about), MAX_DENIED_CHARS));
            format!("{} {tool} {about} {}", styled(RED, "denies"), styled(DIM, one(reason)))
        }
        (EventKind::ToolResult { ok, output, .. }, ReportedBy::Proxy)
            if !output.trim().is_empty() =>
        {
            let word = if *ok { styled(DIM, "prints") } else { styled(YELLOW, "prints") };
            format!("{word} {}", styled(DIM, shortened(&one(output), MAX_OUTPUT_CHARS)))
        }
        (EventKind::Warning { text, .. }, _) => {
            format!("{} {}", styled(YELLOW, "warns"), styled(DIM, one(text)))
        }
        (EventKind::Notification { text }, _) => {
            format!("{} {}", styled(YELLOW, "notifies"), one(text))
        }
        (EventKind::Check { check, ok: true, .. }, _) => {
            format!("{} {check}", styled(GREEN, "pass"))
        }
        (EventKind::Check { check, ok: false, found, .. }, _) => {
            format!("{} {check} {}", styled(RED, "fail"), styled(DIM, one(found)))
        }
        (EventKind::SubAgent { id, text, ended }, _) => {
            let word = if *ended { "ended" } else { "began" };
            format!("sub-agent {:.8} {word}: {}", one(id), one(text))
        }
        (EventKind::FileChange { path, change: FileChange::LeftOut }, _) => format!(
            "{} {} {}",
            styled(YELLOW, "left out"),
            one(path),
            styled(DIM, "outside of the agent's scope: it does not land")
        ),
        (EventKind::FileChange { path, change }, ReportedBy::Supervisor) => {
            format!("{} {}", change.as_str(), one(path))
        }
        (EventKind::Approval { about, answer, .. }, _) => match answer {
            None => format!("{} {}", styled(YELLOW, "asks"), one(about)),
            Some(Answer::Allow) => format!("{} {}", styled(GREEN, "approved"), one(about)),
            Some(Answer::Deny) => format!("{} {}", styled(RED, "refused"), one(about)),
        },
        (EventKind::Limit { limit, used, of, spent }, _) => {
            let word = if *spent { styled(RED, "spent") } else { styled(YELLOW, "nearly spent") };
            format!("{word} {limit}: {used} of {of}")
        }
        (EventKind::Message { text }, _) => {
            format!("{} {}", styled(BOLD, "said to it:"), one(text))
        }
        (EventKind::Error { message }, _) => format!("{} {}", styled(RED, "error"), one(message)),
        (EventKind::Ended { how, detail }, _) => format!("{} {}", styled(BOLD, how), one(detail)),
        (EventKind::Phase { .. } | EventKind::Session { .. } | EventKind::Announced, _)
        | (EventKind::Turn { .. } | EventKind::Thinking { .. } | EventKind::ToolCall { .. }, _)
        | (
            EventKind::ToolResult { .. } | EventKind::FileChange { .. } | EventKind::Command { .. },
            _,
        )
        | (EventKind::Mcp { .. } | EventKind::Usage(_) | EventKind::Other, _) => return None,
    };
    Some(format!("{of}{text}"))
}

/// The line of an event in as many lines as a terminal needs; the reason of a denial is never cut.
pub fn folded(event: &Event, line: &str, first: &str) -> Vec<String> {
    let most = if is_denial(event) { usize::MAX } else { MAX_LINES };
    output::folded(line, first, INDENT, most)
}

fn is_denial(event: &Event) -> bool {
    matches!(event.what, EventKind::Decision { answer: Answer::Deny, .. })
}

/// A time of the day, in hours, minutes and seconds of UTC.
pub fn clock(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

fn draw(shown: &LiveStatus, since: Duration) {
    let text = shortened(&shown.line(since), output::width().saturating_sub(1));
    let mut out = std::io::stderr().lock();
    let _ = write!(out, "\r\x1b[K{text}").and_then(|()| out.flush());
}

/// Clears the line that moves, where there is one.
pub(crate) fn clear() {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let mut out = std::io::stderr().lock();
    let _ = write!(out, "\r\x1b[K").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;

    use bailiwick_runner::sandbox::Terminal;

    use super::*;

    #[test]
    fn input_before_a_question_does_not_answer_it() {
        let Terminal { person, program } = Terminal::open().unwrap();
        let (mut person, mut program) = (File::from(person), File::from(program));
        let timeout = Duration::from_secs(10);
        // An unfinished earlier line is not part of the answer.
        for before in ["y\n", "y\ny"] {
            person.write_all(before.as_bytes()).unwrap();
            assert!(typed(&program, timeout), "{before:?} has not arrived");
            forget_typed(&program);
            assert!(!typed(&program, Duration::ZERO), "{before:?} was not discarded");
            person.write_all(b"n\n").unwrap();
            assert!(typed(&program, timeout));
            let mut line = [0; 16];
            let count = program.read(&mut line).unwrap();
            assert_eq!(&line[..count], b"n\n", "{before:?}");
        }
    }

    #[test]
    fn piped_input_is_not_discarded() {
        let (read, mut write) = std::io::pipe().unwrap();
        write.write_all(b"y\n").unwrap();
        let read = File::from(std::os::fd::OwnedFd::from(read));
        forget_typed(&read);
        assert!(typed(&read, Duration::ZERO));
    }

    #[test]
    fn denial_shows_its_full_reason_in_80_and_40_columns() {
        let reason = "it is not on the task's whitelist, ".repeat(10) + "Instead: write src/**.";
        let denial = EventKind::Decision {
            call: None,
            tool: "Write".to_owned(),
            about: "long/".repeat(100) + "last.rs",
            answer: Answer::Deny,
            rule: Some("scope::files-whitelist".to_owned()),
            reason: Some(reason.clone()),
        };
        let event = Event { agent: None, ..event(denial) };
        assert!(is_denial(&event));
        let line = line(&event).unwrap();
        for width in [80, 40] {
            let lines = output::folded_to(width, &line, "12:00:00  ", INDENT);
            let text: Vec<String> =
                lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
            assert!(text.iter().all(|line| line.chars().count() <= width), "{text:#?}");
            let words: Vec<&str> = text.iter().flat_map(|line| line.split_whitespace()).collect();
            assert!(words.join(" ").ends_with(&reason), "{text:#?}");
            assert!(words.concat().contains("/last.rs"), "the file name is missing: {text:#?}");
        }
    }

    fn event(what: EventKind) -> Event {
        let agent = Some("\u{1b}[2Jsub".to_owned());
        Event { number: 1, at: 1, reported_by: ReportedBy::Supervisor, agent, what, raw: None }
    }

    #[test]
    fn untrusted_text_is_shown_on_one_line_without_control_characters() {
        assert_eq!(plain("rm x\r\nls\u{1b}[2K\u{9b}A"), "rm x ls [2K A");
        assert_eq!(plain("a\u{202e}b\u{2066}c\u{200b}d\u{feff}"), "abcd");
        let bad = || "x\u{1b}[2J\n\u{202e}y".to_owned();
        let all = [
            EventKind::Text { text: bad() },
            EventKind::Decision {
                call: None,
                tool: bad(),
                about: bad(),
                answer: Answer::Allow,
                rule: None,
                reason: Some(bad()),
            },
            EventKind::FileChange { path: bad(), change: FileChange::Added },
            EventKind::SubAgent { id: bad(), text: bad(), ended: false },
            EventKind::Approval { id: "1".to_owned(), about: bad(), answer: None },
        ];
        for what in all {
            let line = line(&event(what)).unwrap();
            let tamed = output::tame(&line);
            assert_eq!(line, tamed, "the line has no control sequences");
            assert!(!line.contains('\n'), "{line:?}");
        }
    }
}
