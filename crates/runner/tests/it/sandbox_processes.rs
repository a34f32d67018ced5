//! Processes: those of the host are not visible, those of the sandbox do not outlive it.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use bailiwick_verify::job::Termination;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::lab::{Lab, becomes_true, processes_with};

/// Starts a grandchild in its own session that ignores every signal it can and runs for a
/// long time; `mark` is in its command line.
fn survivor(mark: &str) -> String {
    format!(
        "perl -MPOSIX -e 'fork and exit; setsid(); $SIG{{$_}} = q(IGNORE) for qw(TERM HUP INT QUIT PIPE); \
         open(my $f, q(>), q(started)); close $f; sleep 600; # {mark}'"
    )
}

fn mark(name: &str) -> String {
    format!("mark-{name}-{}", std::process::id())
}

#[test]
fn processes_of_the_host_are_not_visible_and_cannot_be_ended() {
    let lab = Lab::new();
    let mark = mark("host");
    let mut host = Command::new("perl")
        .args(["-e", &format!("sleep 600; # {mark}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let look = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -qx '[s]leep 600; # MARK'";
    let look = look.replace("MARK", &mark);
    lab.fails_only_inside(&look);
    lab.fails_only_inside(&format!("test -d /proc/{}", host.id()));
    lab.shell("kill -9 -1");
    assert!(host.try_wait().unwrap().is_none(), "the process runs");
    assert!(lab.run_outside(&format!("kill -9 {}", host.id())).status.success());
    assert_eq!(host.wait().unwrap().signal(), Some(9), "the control: outside it can be killed");
}

#[test]
fn processes_that_a_program_leaves_end_with_it() {
    for (lab, name) in [(Lab::new(), "ends"), (Lab::new().off(), "ends-off")] {
        let mark = mark(name);
        let line = format!("{}; until test -e started; do sleep 0.01; done", survivor(&mark));
        assert_eq!(lab.shell(&line).ended, Termination::Exit(0));
        assert!(lab.directory().join("started").exists(), "the process was started");
        assert_eq!(processes_with(&mark), Vec::<i32>::new());
    }
}

#[test]
fn all_processes_end_at_the_timeout() {
    for (mut lab, name) in [(Lab::new(), "late"), (Lab::new().off(), "late-off")] {
        let mark = mark(name);
        lab.limits.time = Duration::from_secs(5);
        let finished = lab.shell(&format!("echo before; {}; sleep 600", survivor(&mark)));
        assert_eq!(finished.ended, Termination::TimedOut(Duration::from_secs(5)));
        assert_eq!(String::from_utf8(finished.tail).unwrap(), "before\n");
        assert!(lab.directory().join("started").exists(), "the process was started");
        assert_eq!(processes_with(&mark), Vec::<i32>::new());
    }
}

#[test]
fn too_much_output_ends_the_program_and_the_tail_is_kept() {
    for mut lab in [Lab::new(), Lab::new().off()] {
        lab.limits.output = 300_000;
        let finished = lab.shell("yes; sleep 600");
        assert_eq!(finished.ended, Termination::TooMuchOutput(300_000));
        assert!(finished.printed > 300_000);
        let finished =
            lab.shell("i=0; while test $i -lt 20000; do echo line $i; i=$((i + 1)); done");
        assert_eq!(finished.ended, Termination::Exit(0));
        assert!(finished.printed > 200_000, "{}", finished.printed);
        assert_eq!(finished.tail.len(), 64 * 1024);
        assert!(finished.tail.ends_with(b"line 19999\n"));
    }
}

#[test]
fn both_streams_arrive_in_order() {
    for lab in [Lab::new(), Lab::new().off()] {
        let output = lab.output_of("for i in 1 2 3; do echo out $i; echo error $i >&2; done");
        assert_eq!(output, "out 1\nerror 1\nout 2\nerror 2\nout 3\nerror 3\n");
    }
}

/// Set for a process of this test program that starts a command and waits for it.
const ROLE: &str = "BAILIWICK_TEST_ROLE";

/// Does nothing here: [`launch`] starts this process.
#[test]
fn role_of_a_launcher() {
    let Ok(mark) = std::env::var(ROLE) else { return };
    let lab = if mark.contains("off") { Lab::new().off() } else { Lab::new() };
    lab.shell(&format!("{}; sleep 600", survivor(&mark)));
}

/// The process, and the directory for its files when it is killed.
fn launch(mark: &str) -> (std::process::Child, tempfile::TempDir) {
    let place = tempfile::Builder::new().prefix("bailiwick-test-").tempdir().unwrap();
    // A shell that starts tests in the background makes them ignore an interrupt.
    let child = Command::new("env")
        .args(["--default-signal=INT,TERM"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "sandbox_processes::role_of_a_launcher"])
        .env(ROLE, mark)
        .env("TMPDIR", place.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    (child, place)
}

#[test]
fn all_processes_die_with_the_launcher_however_it_ends() {
    for signal in [Signal::SIGKILL, Signal::SIGINT, Signal::SIGTERM] {
        for name in ["launcher", "launcher-off"] {
            let mark = mark(&format!("{name}-{signal}"));
            let (mut launcher, _place) = launch(&mark);
            assert!(becomes_true(|| processes_with(&mark).len() >= 2), "it runs");
            kill(Pid::from_raw(launcher.id().cast_signed()), signal).unwrap();
            assert_eq!(launcher.wait().unwrap().signal(), Some(signal as i32));
            assert!(becomes_true(|| processes_with(&mark).is_empty()), "{name} {signal}");
        }
    }
}

#[test]
fn all_processes_die_with_either_of_our_own_processes() {
    for generation in [1, 2] {
        let mark = mark(&format!("ours-{generation}"));
        let (mut launcher, _place) = launch(&mark);
        assert!(becomes_true(|| processes_with(&mark).len() >= 2), "it runs");
        let mut victim = launcher.id().cast_signed();
        for _ in 0..generation {
            victim = child_of(victim).unwrap();
        }
        kill(Pid::from_raw(victim), Signal::SIGKILL).unwrap();
        assert!(becomes_true(|| processes_with(&mark).is_empty()), "{generation}");
        assert!(!launcher.wait().unwrap().success(), "an interrupted run is not a success");
    }
}

/// The child of a process, started by any of its threads.
fn child_of(parent: i32) -> Option<i32> {
    std::fs::read_dir("/proc").unwrap().find_map(|entry| {
        let number: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        let above = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<i32>().ok()?;
        (above == parent).then_some(number)
    })
}

#[test]
fn pid_1_cannot_be_inspected_or_killed() {
    let lab = Lab::new();
    lab.output_of("kill -9 1; kill -TERM 1; test -d /proc/1");
    for file in ["environ", "mem", "fd/0", "maps"] {
        let tried = lab.shell(&format!("cat /proc/1/{file} > /dev/null"));
        assert_ne!(tried.ended, Termination::Exit(0), "{file}");
    }
    lab.output_of("cat /proc/self/environ > /dev/null && cat /proc/self/maps > /dev/null");
}

#[test]
fn files_and_processes_have_limits() {
    let lab = Lab::new();
    lab.fails_only_inside("truncate -s 9G large && rm large");
    assert_eq!(
        lab.output_of("truncate -s 7G large && rm large && bash -c 'ulimit -f'"),
        "8388608\n"
    );
    let max_processes: u64 = lab.output_of("bash -c 'ulimit -u'").trim().parse().unwrap();
    assert!(max_processes <= 8192, "{max_processes}");
}
