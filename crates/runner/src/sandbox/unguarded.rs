//! Without a sandbox: the program runs directly, and is ended with everything that it started.
//!
//! Orphans become children of ours, so that they can be found and ended.

use std::fs;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::poll::PollTimeout;
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid, setsid};

use super::channel::Channel;
use super::messages::{self, Confinement, Inactive, Input, LaunchRequest, Report};
use super::{SandboxError, program};

/// How often it is looked whether the program has ended, in milliseconds.
const POLL_MILLISECONDS: u16 = 10;

/// Signals that a terminal sends to its foreground group.
const FROM_TERMINALS: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTSTP,
    Signal::SIGHUP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
];

pub(super) fn run(
    above: &Channel,
    order: &LaunchRequest,
    input: Option<OwnedFd>,
) -> Result<(), SandboxError> {
    let part = |error: Errno| SandboxError::new("processes", error);
    set_child_subreaper(true).map_err(part)?;
    // Only this process can end the program: the channel shows when the launcher has exited.
    set_pdeathsig(None).map_err(part)?;
    if order.input == Input::Terminal {
        setsid().map_err(part)?;
        program::take_terminal(order, input.as_ref())?;
        // They are for the program, which starts with none of them blocked.
        FROM_TERMINALS.into_iter().collect::<SigSet>().thread_block().map_err(part)?;
    }
    let off = || Err(Inactive::because("the sandbox is off"));
    let held = Confinement { landlock: off(), seccomp: off(), memory: off(), processes: off() };
    let _ = above.send(&Report::Confinement(held), None);
    let child = program::start(order, input)?;
    let ended = loop {
        if let Some(ended) = reap(order, child) {
            break Some(ended);
        }
        if messages::hung_up(above, PollTimeout::from(POLL_MILLISECONDS)).unwrap_or(true) {
            break None;
        }
    };
    end_all();
    if let Some(ended) = ended {
        let _ = above.send(&ended, None);
    }
    Ok(())
}

/// Reaps ended processes; returns whether the program has ended.
fn reap(order: &LaunchRequest, child: Pid) -> Option<Report> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Exited(who, code)) if who == child => return Some(Report::Exit(code)),
            Ok(WaitStatus::Signaled(who, signal, _)) if who == child => {
                return Some(Report::Signal(signal as i32));
            }
            Ok(WaitStatus::Stopped(who, _)) if who == child => program::go_on(order, child),
            Ok(WaitStatus::StillAlive) | Err(_) => return None,
            Ok(
                WaitStatus::Exited(..)
                | WaitStatus::Signaled(..)
                | WaitStatus::Stopped(..)
                | WaitStatus::PtraceEvent(..)
                | WaitStatus::PtraceSyscall(_)
                | WaitStatus::Continued(_),
            ) => {}
        }
    }
}

/// Kills every descendant until there is none.
fn end_all() {
    loop {
        for one in descendants(getpid()) {
            let _ = kill(one, Signal::SIGKILL);
        }
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => return,
            Ok(WaitStatus::StillAlive) => {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            Ok(_) | Err(_) => {}
        }
    }
}

fn descendants(of: Pid) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let parents: Vec<(i32, i32)> =
        numbers.filter_map(|number| Some((number, parent(number)?))).collect();
    let mut found = vec![of.as_raw()];
    let mut next = 0;
    while let Some(above) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, parent)| *parent == above).map(|(one, _)| *one));
        next += 1;
    }
    found.into_iter().skip(1).map(Pid::from_raw).collect()
}

fn parent(of: i32) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/{of}/stat")).ok()?;
    // The name of a process may hold anything, a bracket too: the last one ends it.
    let (_, after) = text.rsplit_once(')')?;
    after.split_whitespace().nth(1)?.parse().ok()
}
