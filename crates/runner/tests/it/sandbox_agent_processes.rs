//! What an agent reads, the terminal it sits at, its bounds, and its end.

use std::fs::File;
use std::io::{Read as _, Write as _, pipe};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bailiwick_runner::sandbox::{
    Bounds, Confinement, Level, Received, Report, Running, Streams, Terminal,
};
use bailiwick_verify::job::Termination;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::agent_fixture::AgentFixture;
use crate::lab::{comes_true, launcher, processes_with};

fn shell(line: &str) -> [String; 3] {
    ["/bin/sh", "-c", line].map(str::to_owned)
}

/// What holds the program, and how it ended.
fn end_of(running: &mut Running) -> (Option<Confinement>, Report) {
    let mut held = None;
    loop {
        match running.next_report(Duration::from_secs(120)) {
            Received::Report(Report::Confinement(seen)) => held = Some(seen),
            Received::Report(Report::Listener(_)) => {}
            Received::Report(ended) => return (held, ended),
            other @ (Received::TimedOut | Received::Closed) => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_program_reads_what_it_is_given() {
    for level in [Level::Full, Level::Off] {
        let mut fixture = AgentFixture::new();
        fixture.places.level = level;
        let (reader, mut writer) = pipe().unwrap();
        let (mut printed, output) = pipe().unwrap();
        let streams = Streams::new(output, Stdio::null()).reading(reader);
        let argv = shell("cat && ls /proc/self/fd | wc -l");
        let mut running = launcher().start_with(&fixture.sandbox(), &argv, streams).unwrap();
        writer.write_all(b"a prompt\n").unwrap();
        drop(writer);
        assert_eq!(end_of(&mut running).1, Report::Exit(0));
        running.end();
        let mut said = String::new();
        printed.read_to_string(&mut said).unwrap();
        assert_eq!(said, "a prompt\n4\n", "three streams and the listing's own");
    }
}

/// A person at a terminal.
pub(crate) struct Person {
    terminal: File,
    /// All that was shown.
    pub(crate) seen: String,
}

impl Person {
    pub(crate) fn at(terminal: OwnedFd) -> Self {
        Self { terminal: File::from(terminal), seen: String::new() }
    }

    pub(crate) fn types(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).unwrap();
    }

    /// Reads what is shown until a word is there.
    pub(crate) fn sees(&mut self, word: &str) {
        let mut piece = [0; 256];
        while !self.seen.contains(word) {
            let mut there = [PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN)];
            let comes = poll(&mut there, PollTimeout::from(60_000_u16)).unwrap();
            assert_ne!(comes, 0, "{word} does not come: {}", self.seen);
            let Ok(length @ 1..) = self.terminal.read(&mut piece) else {
                panic!("{word} does not come: {}", self.seen)
            };
            self.seen.push_str(&String::from_utf8_lossy(piece.get(..length).unwrap()));
        }
    }
}

#[test]
fn a_program_sits_at_a_terminal_and_an_interrupt_reaches_it() {
    for level in [Level::Full, Level::Off] {
        let mut fixture = AgentFixture::new();
        fixture.places.level = level;
        let Terminal { person, program } = Terminal::open().unwrap();
        let mut person = Person::at(person);
        let line = "test -t 0 && test -t 1 && test -t 2 && echo ready && read word < /dev/tty && \
                    echo got $word && trap 'echo caught; exit 9' INT && echo waiting && \
                    while :; do sleep 0.05; done";
        let streams = Streams::at(program).unwrap();
        let mut running = launcher().start_with(&fixture.sandbox(), &shell(line), streams).unwrap();
        person.sees("ready");
        person.types("something\n");
        person.sees("got something");
        person.sees("waiting");
        person.types("\x03");
        person.sees("caught");
        assert_eq!(end_of(&mut running).1, Report::Exit(9), "{level:?}");
    }
}

#[test]
fn a_shell_at_a_terminal_has_job_control() {
    let fixture = AgentFixture::new();
    let Terminal { person, program } = Terminal::open().unwrap();
    let mut person = Person::at(person);
    let argv = ["bash", "--norc", "--noprofile", "-i"].map(str::to_owned);
    let streams = Streams::at(program).unwrap();
    let mut running = launcher().start_with(&fixture.sandbox(), &argv, streams).unwrap();
    // The terminal shows what is typed before anybody has read it. What is ready is the command that waits, not
    // the shell: between two commands an interrupt may meet neither.
    person.types("sh -c 'echo rea''dy; exec sleep 600'\n");
    person.sees("ready");
    person.types("\x03echo interrup''ted; exit 5\n");
    person.sees("interrupted");
    assert!(!person.seen.contains("no job control"), "{}", person.seen);
    assert_eq!(end_of(&mut running).1, Report::Exit(5));
}

/// Starts a program and says what held it and how it ended, and what it printed.
fn bounded(bounds: Bounds, line: &str) -> (Confinement, Report, String) {
    let mut fixture = AgentFixture::new();
    fixture.places.bounds = bounds;
    let (mut printed, output) = pipe().unwrap();
    let mut running =
        launcher().start(&fixture.sandbox(), &shell(line), output, Stdio::null()).unwrap();
    let (held, ended) = end_of(&mut running);
    running.end();
    let mut said = String::new();
    printed.read_to_string(&mut said).unwrap();
    (held.unwrap(), ended, said)
}

#[test]
fn processes_are_bounded_for_everybody_and_what_bounds_them_is_said() {
    let forks = "perl -e '$| = 1; my $n = 0; while ($n < 1500) { my $p = fork; last unless defined $p; \
                 if (!$p) { sleep 600; exit } $n++ } print $n; kill 9, -1'";
    let host = || std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap();
    let before = host();
    let bounds = Bounds { processes: Some(400), ..Bounds::default() };
    let (held, _, said) = bounded(bounds, forks);
    assert!(held.processes.is_ok(), "{held:?}");
    let forked: u32 = said.trim().parse().unwrap_or_else(|error| panic!("{said:?}: {error}"));
    assert!(forked <= 700, "{forked}");
    assert_eq!(host(), before, "it is for what is inside");
    let (held, _, said) = bounded(Bounds::default(), forks);
    assert!(held.processes.is_err(), "{held:?}");
    assert_eq!(said, "1500");
}

#[test]
fn memory_is_bounded_and_what_bounds_it_is_said() {
    let takes = |mega: u32| {
        format!(
            "perl -e 'my $x = q(x) x ({mega} << 20); print q(taken); sleep 600 if {mega} > 300'"
        )
    };
    let bounds = Bounds { memory: Some(400 << 20), ..Bounds::default() };
    let (held, ended, _) = bounded(bounds, &takes(600));
    assert!(held.memory.is_ok(), "{held:?}");
    assert!(
        matches!(ended, Report::MemorySpent(_) | Report::Signal(9) | Report::Exit(137)),
        "{ended:?}"
    );
    // Two that together take too much.
    let both = format!("({}) & ({}) & wait", takes(301), takes(301));
    let (_, ended, _) = bounded(bounds, &both);
    assert!(
        matches!(ended, Report::MemorySpent(_) | Report::Signal(9) | Report::Exit(_)),
        "{ended:?}"
    );
    let (_, ended, said) = bounded(bounds, &takes(100));
    assert_eq!((ended, said.as_str()), (Report::Exit(0), "taken"));
    let (held, ended, _) = bounded(Bounds::default(), &takes(290));
    assert!(held.memory.is_err(), "{held:?}");
    assert_eq!(ended, Report::Exit(0));
}

/// Programs that take memory which is in no process of its own, of so many MiB, and then print `taken`.
fn shared_memory(mega: u32) -> [(&'static str, String); 6] {
    let python = |body: &str| {
        format!(
            "python3 -c '\nimport mmap, os, socket, sys, time\nsize = {mega} << 20\nx = b\"x\" * (1 << 20)\n\
             {body}\nprint(\"taken\", end=\"\", flush=True)\ntime.sleep(600 if {mega} > 300 else 0)'"
        )
    };
    let perl_segment = format!(
        "perl -e '$| = 1; my $i = shmget(0, {mega} << 20, 0600); for (0 .. {mega} - 1) {{ shmwrite($i, q(x) x \
         (1 << 20), $_ << 20, 1 << 20) }} print q(taken); sleep 600 if {mega} > 300; shmctl($i, 0, 0)'"
    );
    [
        (
            "memfd, written",
            python("fd = os.memfd_create(\"a\")\nfor _ in range(size >> 20): os.write(fd, x)"),
        ),
        (
            "memfd, mapped and closed",
            python(
                "fd = os.memfd_create(\"a\")\nos.ftruncate(fd, size)\nm = mmap.mmap(fd, size)\nos.close(fd)\n\
                 for _ in range(size >> 20): m.write(x)",
            ),
        ),
        (
            "shared anonymous memory of two processes",
            python(
                "m = mmap.mmap(-1, size)\nfor _ in range(size >> 20): m.write(x)\nif os.fork() == 0:\n  \
                 m.seek(0); m.read(size); time.sleep(600 if size > 300 << 20 else 0); os._exit(0)",
            ),
        ),
        (
            "half in an unlinked file in /dev/shm, half of its own",
            python(
                "fd = os.open(\"/dev/shm/a\", os.O_CREAT | os.O_RDWR)\nos.unlink(\"/dev/shm/a\")\n\
                 for _ in range(size >> 21): os.write(fd, x)\nown = x * (size >> 21)",
            ),
        ),
        (
            "a memfd of a thread whose process has no first thread",
            python(
                "import threading, ctypes\ndef take():\n  fd = os.memfd_create(\"a\")\n  for _ in range(size >> \
                 20): os.write(fd, x)\n  print(\"taken\", end=\"\", flush=True)\n  time.sleep(600 if {size} > \
                 300 << 20 else 1)\n  os._exit(0)\nthreading.Thread(target=take).start()\n\
                 ctypes.CDLL(None).syscall(60 if os.uname().machine == \"x86_64\" else 93, 0)"
                    .replace("{size}", "size")
                    .as_str(),
            ),
        ),
        ("a segment of System V", perl_segment),
    ]
}

#[test]
fn shared_memory_counts_once_and_ends_what_takes_too_much() {
    let bounds = Bounds { memory: Some(400 << 20), ..Bounds::default() };
    for (what, line) in shared_memory(600) {
        let (_, ended, _) = bounded(bounds, &line);
        assert_eq!(ended, Report::MemorySpent(400 << 20), "{what}");
    }
    // The control: it is below the limit, though twice of it would not be.
    for (what, line) in shared_memory(250) {
        let (_, ended, said) = bounded(bounds, &line);
        assert_eq!((ended, said.as_str()), (Report::Exit(0), "taken"), "{what}");
    }
}

#[test]
fn every_file_system_in_memory_has_a_size() {
    let bounds = Bounds { memory: Some(400 << 20), ..Bounds::default() };
    let line = "grep -c ' - tmpfs ' /proc/self/mountinfo; grep ' - tmpfs ' /proc/self/mountinfo | grep -vc \
                'size='; head -c 500M /dev/zero > /dev/shm/a; stat -c %s /dev/shm/a";
    let (_, _, said) = bounded(bounds, line);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].parse::<u32>().unwrap() >= 2, "{said}");
    assert_eq!(lines[1], "0", "{said}");
}

#[test]
fn no_other_process_is_seen_and_pid_1_is_not_traced() {
    let fixture = AgentFixture::new();
    let host = std::process::id();
    fixture.works_only_outside(&format!("test -d /proc/{host}"));
    let call = if cfg!(target_arch = "x86_64") { 101 } else { 117 };
    // Attaching is request 16: nobody takes hold of another, though it be of the same user. The agent program
    // is one of them, and speaks for the gate.
    fixture.works_only_outside(&format!(
        "perl -e 'my $p = fork; if (!$p) {{ sleep 600; exit }} my $r = syscall({call}, 16, $p, 0, 0); \
           kill 9, $p; exit($r == 0 ? 0 : 1)'"
    ));
    // A process may ask its parent to trace it.
    let said = fixture.says(&format!(
        "perl -e '$| = 1; if (!fork) {{ print syscall({call}, 0, 0, 0, 0) == 0 ? qq(own\\n) : qq($!\\n); \
           exit }} wait; print syscall({call}, 16, 1, 0, 0) == 0 ? qq(first\\n) : qq($!\\n)'"
    ));
    assert_eq!(said, "own\nOperation not permitted\n");
    let seen = fixture.says("ls /proc | grep -c '^[0-9]'");
    assert!(seen.trim().parse::<u32>().unwrap() < 8, "{seen}");
}

/// Set for a process of this test program that is to launch an agent and wait for it.
const ROLE: &str = "BAILIWICK_TEST_AGENT_ROLE";

/// Does nothing here: it is what a process that the next test kills does.
#[test]
fn role_of_an_agents_launcher() {
    let Ok(mark) = std::env::var(ROLE) else { return };
    let mut fixture = AgentFixture::new();
    fixture.places.listener_port = Some(4000);
    fixture.places.bounds = Bounds { memory: Some(8 << 30), processes: Some(4000) };
    fixture.shell(&format!(
        "perl -MPOSIX -e 'fork and exit; setsid(); fork and exit; \
         $SIG{{$_}} = q(IGNORE) for qw(TERM HUP INT QUIT PIPE); sleep 600; # {mark}'; sleep 600"
    ));
}

#[test]
fn everything_of_an_agent_ends_when_its_launcher_is_killed() {
    let mark = format!("mark-agent-{}", std::process::id());
    let place = tempfile::Builder::new().prefix("bailiwick-test-").tempdir().unwrap();
    let mut launcher = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sandbox_agent_processes::role_of_an_agents_launcher"])
        .env(ROLE, &mark)
        .env("TMPDIR", place.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(comes_true(|| processes_with(&mark).len() >= 2), "it runs");
    kill(Pid::from_raw(launcher.id().cast_signed()), Signal::SIGKILL).unwrap();
    assert_eq!(launcher.wait().unwrap().signal(), Some(9));
    assert!(comes_true(|| processes_with(&mark).is_empty()));
}

#[test]
fn a_sandbox_is_made_quickly() {
    let (mut fixture, _) = AgentFixture::committing();
    fixture.places.listener_port = Some(4000);
    fixture.places.bounds = Bounds { memory: Some(8 << 30), processes: Some(4000) };
    fixture.places.read_only_paths = vec!["rules/deep/rule".into(), "file".into()];
    let median = |mut run: Box<dyn FnMut() + '_>| {
        let mut times: Vec<Duration> = (0..15)
            .map(|_| {
                let begun = Instant::now();
                run();
                begun.elapsed()
            })
            .collect();
        times.sort();
        times[times.len() / 2]
    };
    let inside = median(Box::new(|| assert_eq!(fixture.shell("true").ended, Termination::Exit(0))));
    let outside = median(Box::new(|| assert!(fixture.free("true").status.success())));
    // A figure, not a promise: it depends on the machine.
    println!("true in the sandbox of an agent: {inside:?}, outside: {outside:?}");
}
