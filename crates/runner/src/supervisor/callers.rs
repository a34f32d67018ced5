//! Who may send requests to the model: the processes of the agent CLI that existed before its model's first call.
//! What is started for a call, or by such a program, may not.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use crate::proxy::{Callers, UnauthorizedProcess};

/// The name of a caller whose process is not found.
const UNNAMED: &str = "a program in the sandbox";

/// A process; its number alone may be given to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    id: u32,
    parent: u32,
    /// When it was started, in ticks since the machine was.
    started: u64,
}

/// The descendants of a process of ours in which an agent program runs.
#[derive(Debug)]
pub(super) struct AgentProcesses {
    root: u32,
    /// Those that may send requests; none while all may.
    known: Mutex<Option<BTreeSet<Process>>>,
}

impl AgentProcesses {
    pub(super) fn below(root: u32) -> Self {
        Self { root, known: Mutex::new(None) }
    }

    /// The model's first call is about to reach the program: from now on no other process may use the model.
    pub(super) fn close(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            *known = Some(below(self.root).into_iter().collect());
        }
    }
}

impl Callers for AgentProcesses {
    fn may_ask(&self, peer: SocketAddr) -> Result<(), UnauthorizedProcess> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(known) = known else { return Ok(()) };
        let there: Vec<Process> = below(self.root);
        let socket = there.iter().find_map(|process| socket_of(process.id, peer));
        let Some(socket) = socket else {
            return Err(UnauthorizedProcess { program: UNNAMED.to_owned() });
        };
        let (own, others): (Vec<_>, Vec<_>) = there.into_iter().partition(|one| {
            known.iter().any(|known| (known.id, known.started) == (one.id, one.started))
        });
        if own.iter().any(|process| has_open(process.id, socket)) {
            return Ok(());
        }
        let stranger = others.iter().find(|process| has_open(process.id, socket));
        let program = stranger.and_then(|stranger| name(stranger.id));
        Err(UnauthorizedProcess { program: program.unwrap_or_else(|| UNNAMED.to_owned()) })
    }
}

/// The numbers of all processes below one. One that is started or ends meanwhile may be missing.
pub(super) fn ids_below(root: u32) -> Vec<u32> {
    listed_below(root)
        .unwrap_or_else(|| below(root).into_iter().map(|process| process.id).collect())
}

/// From the kernel's lists of children, if it has them: other processes of the machine, however many, cost nothing.
fn listed_below(root: u32) -> Option<Vec<u32>> {
    if !fs::exists("/proc/thread-self/children").is_ok_and(|there| there) {
        return None;
    }
    let mut found = children(root);
    let mut next = 0;
    while let Some(process) = found.get(next).copied() {
        found.extend(children(process));
        next += 1;
    }
    Some(found)
}

/// The children of all threads of a process.
fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let ids =
        |list: String| -> Vec<u32> { list.split(' ').filter_map(|id| id.parse().ok()).collect() };
    lists.flat_map(ids).collect()
}

/// All processes below one.
fn below(root: u32) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut rest: Vec<Process> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(process)
        .collect();
    let (mut found, mut above) = (Vec::new(), vec![root]);
    while let Some(parent) = above.pop() {
        let (children, others) = rest.into_iter().partition(|process| process.parent == parent);
        rest = others;
        let children: Vec<Process> = children;
        above.extend(children.iter().map(|child| child.id));
        found.extend(children);
    }
    found
}

fn process(id: u32) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Its name may have anything in it, also a bracket.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    // The 22nd field of all.
    let started = fields.nth(17)?.parse().ok()?;
    Some(Process { id, parent, started })
}

fn name(id: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{id}/comm")).ok()?;
    let plain = |c: char| if c.is_ascii_graphic() { c } else { '?' };
    Some(name.trim_end().chars().map(plain).collect())
}

/// The socket that is connected from this address, in the network of a process.
fn socket_of(process: u32, peer: SocketAddr) -> Option<u64> {
    let SocketAddr::V4(peer) = peer else { return None };
    let table = fs::read_to_string(format!("/proc/{process}/net/tcp")).ok()?;
    let peer_address = format!("{:08X}:{:04X}", address(*peer.ip()), peer.port());
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace();
        let local = fields.nth(1)?;
        let socket: u64 = fields.nth(7)?.parse().ok()?;
        (local == peer_address && socket != 0).then_some(socket)
    })
}

/// An address as the kernel's tables show it.
fn address(address: Ipv4Addr) -> u32 {
    u32::from_ne_bytes(address.octets())
}

fn has_open(process: u32, socket: u64) -> bool {
    let socket_link = format!("socket:[{socket}]");
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|target| target.as_os_str() == socket_link.as_str())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::net::TcpListener;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// A child shell that connects each time it gets a line, and then waits.
    struct Connecting(Child);

    impl Connecting {
        fn start(port: u16) -> Self {
            let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; echo there; read line");
            let mut command = Command::new("bash");
            command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "there\n");
            Self(child)
        }
    }

    impl Drop for Connecting {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A shell with a child and a grandchild, and both ways to find them.
    #[test]
    fn kernel_lists_contain_the_same_processes_as_the_table() {
        let mut command = Command::new("bash");
        command.args(["-c", "(sleep 600; :) & sleep 600 & echo there; wait"]);
        let mut shell = command.stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let of_table =
            || below(shell.id()).into_iter().map(|process| process.id).collect::<BTreeSet<_>>();
        let deadline = Instant::now() + Duration::from_secs(60);
        while of_table().len() < 3 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (table, listed) = (of_table(), listed_below(shell.id()));
        let group = nix::unistd::Pid::from_raw(shell.id().cast_signed());
        nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL).unwrap();
        shell.wait().unwrap();
        assert_eq!(table.len(), 3);
        if let Some(listed) = listed {
            assert_eq!(BTreeSet::from_iter(listed), table);
        }
    }

    #[test]
    fn processes_from_before_the_first_call_may_ask_and_later_ones_may_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let callers = AgentProcesses::below(std::process::id());
        let _early = Connecting::start(port);
        let (early_stream, early) = listener.accept().unwrap();
        assert_eq!(callers.may_ask(early), Ok(()));
        callers.close();
        let _late = Connecting::start(port);
        let (_late_stream, deadline) = listener.accept().unwrap();
        assert_eq!(callers.may_ask(early), Ok(()));
        assert_eq!(
            callers.may_ask(deadline),
            Err(UnauthorizedProcess { program: "bash".to_owned() })
        );
        // A second call adds no process.
        callers.close();
        assert!(callers.may_ask(deadline).is_err());
        drop(early_stream);
        assert!(callers.may_ask("127.0.0.1:1".parse().unwrap()).is_err());
    }
}
