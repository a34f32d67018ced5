//! An agent's input, its terminal, its limits and its end.

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
use crate::lab::{becomes_true, launcher, processes_with};

fn shell(line: &str) -> [String; 3] {
    ["/bin/sh", "-c", line].map(str::to_owned)
}

/// The confinement of the program, and how it ended.
fn end_of(running: &mut Running) -> (Option<Confinement>, Report) {
    let mut confinement = None;
    loop {
        match running.next_report(Duration::from_secs(120)) {
            Received::Report(Report::Confinement(reported)) => confinement = Some(reported),
            Received::Report(Report::Listener(_)) => {}
            Received::Report(ended) => return (confinement, ended),
            other @ (Received::TimedOut | Received::Closed) => panic!("{other:?}"),
        }
    }
}

#[test]
fn program_reads_its_standard_input() {
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
        let mut text = String::new();
        printed.read_to_string(&mut text).unwrap();
        assert_eq!(text, "a prompt\n4\n", "three streams and the descriptor of the listing");
    }
}

/// A person at a terminal.
pub(crate) struct Person {
    terminal: File,
    /// Everything that was shown.
    pub(crate) output: String,
}

impl Person {
    pub(crate) fn at(terminal: OwnedFd) -> Self {
        Self { terminal: File::from(terminal), output: String::new() }
    }

    pub(crate) fn types(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).unwrap();
    }

    /// Reads the terminal until a word is shown.
    pub(crate) fn sees(&mut self, word: &str) {
        let mut piece = [0; 256];
        while !self.output.contains(word) {
            let mut descriptors = [PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN)];
            let ready = poll(&mut descriptors, PollTimeout::from(60_000_u16)).unwrap();
            assert_ne!(ready, 0, "{word} is not shown: {}", self.output);
            let Ok(length @ 1..) = self.terminal.read(&mut piece) else {
                panic!("{word} is not shown: {}", self.output)
            };
            self.output.push_str(&String::from_utf8_lossy(piece.get(..length).unwrap()));
        }
    }
}

#[test]
fn program_runs_at_a_terminal_and_receives_an_interrupt() {
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
fn shell_at_a_terminal_has_job_control() {
    let fixture = AgentFixture::new();
    let Terminal { person, program } = Terminal::open().unwrap();
    let mut person = Person::at(person);
    let argv = ["bash", "--norc", "--noprofile", "-i"].map(str::to_owned);
    let streams = Streams::at(program).unwrap();
    let mut running = launcher().start_with(&fixture.sandbox(), &argv, streams).unwrap();
    // The terminal echoes input before a program reads it. The waiting command is ready, not the
    // shell: between two commands an interrupt may reach neither.
    person.types("sh -c 'echo rea''dy; exec sleep 600'\n");
    person.sees("ready");
    person.types("\x03echo interrup''ted; exit 5\n");
    person.sees("interrupted");
    assert!(!person.output.contains("no job control"), "{}", person.output);
    assert_eq!(end_of(&mut running).1, Report::Exit(5));
}

/// Starts a program; returns its confinement, its end and its output.
fn bounded(bounds: Bounds, line: &str) -> (Confinement, Report, String) {
    let mut fixture = AgentFixture::new();
    fixture.places.bounds = bounds;
    let (mut printed, output) = pipe().unwrap();
    let mut running =
        launcher().start(&fixture.sandbox(), &shell(line), output, Stdio::null()).unwrap();
    let (confinement, report) = end_of(&mut running);
    running.end();
    let mut text = String::new();
    printed.read_to_string(&mut text).unwrap();
    (confinement.unwrap(), report, text)
}

#[test]
fn processes_are_limited_for_every_user_and_the_method_is_reported() {
    let forks = "perl -e '$| = 1; my $n = 0; while ($n < 1500) { my $p = fork; last unless defined $p; \
                 if (!$p) { sleep 600; exit } $n++ } print $n; kill 9, -1'";
    let host = || std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap();
    let before = host();
    let bounds = Bounds { processes: Some(400), ..Bounds::default() };
    let (confinement, _, output) = bounded(bounds, forks);
    assert!(confinement.processes.is_ok(), "{confinement:?}");
    let forked: u32 = output.trim().parse().unwrap_or_else(|error| panic!("{output:?}: {error}"));
    assert!(forked <= 700, "{forked}");
    assert_eq!(host(), before, "the limit applies inside only");
    let (confinement, _, output) = bounded(Bounds::default(), forks);
    assert!(confinement.processes.is_err(), "{confinement:?}");
    assert_eq!(output, "1500");
}

#[test]
fn memory_is_limited_and_the_method_is_reported() {
    let allocate = |mega: u32| {
        format!(
            "perl -e 'my $x = q(x) x ({mega} << 20); print q(taken); sleep 600 if {mega} > 300'"
        )
    };
    let bounds = Bounds { memory: Some(400 << 20), ..Bounds::default() };
    let (confinement, report, _) = bounded(bounds, &allocate(600));
    assert!(confinement.memory.is_ok(), "{confinement:?}");
    assert!(
        matches!(report, Report::MemorySpent(_) | Report::Signal(9) | Report::Exit(137)),
        "{report:?}"
    );
    // Two processes that exceed the limit together.
    let both = format!("({}) & ({}) & wait", allocate(301), allocate(301));
    let (_, report, _) = bounded(bounds, &both);
    assert!(
        matches!(report, Report::MemorySpent(_) | Report::Signal(9) | Report::Exit(_)),
        "{report:?}"
    );
    let (_, report, output) = bounded(bounds, &allocate(100));
    assert_eq!((report, output.as_str()), (Report::Exit(0), "taken"));
    let (confinement, report, _) = bounded(Bounds::default(), &allocate(290));
    assert!(confinement.memory.is_err(), "{confinement:?}");
    assert_eq!(report, Report::Exit(0));
}

/// Programs that allocate memory outside of any process, of this many MiB, and then print `taken`.
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
fn shared_memory_counts_once_and_too_much_ends_the_program() {
    let bounds = Bounds { memory: Some(400 << 20), ..Bounds::default() };
    for (what, line) in shared_memory(600) {
        let (_, report, _) = bounded(bounds, &line);
        assert_eq!(report, Report::MemorySpent(400 << 20), "{what}");
    }
    // The control: it is below the limit; counted twice it would not be.
    for (what, line) in shared_memory(250) {
        let (_, report, output) = bounded(bounds, &line);
        assert_eq!((report, output.as_str()), (Report::Exit(0), "taken"), "{what}");
    }
}

#[test]
fn every_file_system_in_memory_has_a_size_limit() {
    let bounds = Bounds { memory: Some(400 << 20), ..Bounds::default() };
    let line = "grep -c ' - tmpfs ' /proc/self/mountinfo; grep ' - tmpfs ' /proc/self/mountinfo | grep -vc \
                'size='; head -c 500M /dev/zero > /dev/shm/a; stat -c %s /dev/shm/a";
    let (_, _, output) = bounded(bounds, line);
    let lines: Vec<&str> = output.lines().collect();
    assert!(lines[0].parse::<u32>().unwrap() >= 2, "{output}");
    assert_eq!(lines[1], "0", "{output}");
}

#[test]
fn other_processes_are_not_visible_and_pid_1_cannot_be_traced() {
    let fixture = AgentFixture::new();
    let host = std::process::id();
    fixture.succeeds_only_outside(&format!("test -d /proc/{host}"));
    let call = if cfg!(target_arch = "x86_64") { 101 } else { 117 };
    // Attaching is request 16: no process traces another, even of the same user. The agent program
    // is one of them, and answers for the gate.
    fixture.succeeds_only_outside(&format!(
        "perl -e 'my $p = fork; if (!$p) {{ sleep 600; exit }} my $r = syscall({call}, 16, $p, 0, 0); \
           kill 9, $p; exit($r == 0 ? 0 : 1)'"
    ));
    // A process may ask its parent to trace it.
    let output = fixture.output_of(&format!(
        "perl -e '$| = 1; if (!fork) {{ print syscall({call}, 0, 0, 0, 0) == 0 ? qq(own\\n) : qq($!\\n); \
           exit }} wait; print syscall({call}, 16, 1, 0, 0) == 0 ? qq(first\\n) : qq($!\\n)'"
    ));
    assert_eq!(output, "own\nOperation not permitted\n");
    let processes = fixture.output_of("ls /proc | grep -c '^[0-9]'");
    assert!(processes.trim().parse::<u32>().unwrap() < 8, "{processes}");
}

/// Set for a process of this test program that launches an agent and waits for it.
const ROLE: &str = "BAILIWICK_TEST_AGENT_ROLE";

/// Does nothing here: the next test starts and kills this process.
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
fn all_processes_of_an_agent_end_when_its_launcher_is_killed() {
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
    assert!(becomes_true(|| processes_with(&mark).len() >= 2), "it runs");
    kill(Pid::from_raw(launcher.id().cast_signed()), Signal::SIGKILL).unwrap();
    assert_eq!(launcher.wait().unwrap().signal(), Some(9));
    assert!(becomes_true(|| processes_with(&mark).is_empty()));
}

#[test]
fn sandbox_starts_quickly() {
    let (mut fixture, _) = AgentFixture::committing();
    fixture.places.listener_port = Some(4000);
    fixture.places.bounds = Bounds { memory: Some(8 << 30), processes: Some(4000) };
    fixture.places.read_only_paths = vec!["rules/deep/rule".into(), "file".into()];
    let median = |mut run: Box<dyn FnMut() + '_>| {
        let mut times: Vec<Duration> = (0..15)
            .map(|_| {
                let started = Instant::now();
                run();
                started.elapsed()
            })
            .collect();
        times.sort();
        times[times.len() / 2]
    };
    let inside = median(Box::new(|| assert_eq!(fixture.shell("true").ended, Termination::Exit(0))));
    let outside = median(Box::new(|| assert!(fixture.run_outside("true").status.success())));
    // A figure only: it depends on the machine.
    println!("true in the sandbox of an agent: {inside:?}, outside: {outside:?}");
}
