//! If `bailiwick run` is killed at any moment, no event that was shown is lost, no process and no incomplete
//! worktree is left, and the run can be continued with the suggested command.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use bailiwick_testkit::random::Random;
use bailiwick_testkit::scratch::Ran;
use bailiwick_testkit::{Depth, Scratch, figure};
use serde_json::Value;

use crate::run_load::{assert_database_is_intact, events, repository};

/// Starts a process in its own session, writes, and waits.
const STEPS: &str = r#"
[[agent.script]]
do = "say"
text = "I begin"
[[agent.script]]
do = "shell"
command = "setsid sleep 1000 >/dev/null 2>&1 &"
[[agent.script]]
do = "write"
path = "src/b.txt"
text = "b\n"
[[agent.script]]
do = "wait"
milliseconds = 30
[[agent.script]]
do = "shell"
command = "nohup sleep 1000 >/dev/null 2>&1 & echo c > src/c.txt"
[[agent.script]]
do = "say"
text = "half of it"
[[agent.script]]
do = "write"
path = "outside.txt"
text = "denied\n"
[[agent.script]]
do = "wait"
milliseconds = 30
[[agent.script]]
do = "edit"
path = "src/b.txt"
old = "b"
new = "bb"
[[agent.script]]
do = "say"
text = "I end"
"#;

/// Counts over all kills.
#[derive(Default)]
struct Totals {
    kills: u64,
    finished: u64,
    shown: usize,
    living: u64,
    fresh: u64,
    resumed: u64,
    removed: u64,
}

#[test]
fn run_killed_at_any_moment_loses_no_event_and_leaves_no_process() {
    let mut random = Random::rotating("kills of runs");
    let kills = match Depth::from_env() {
        Depth::Ci => 25,
        Depth::Full => 200,
    };
    let mut totals = Totals::default();
    let stage = Stage { scratch: repository(STEPS) };
    let mut longest = stage.uninterrupted();
    let mut round = 0;
    // The moments are random, so it can take longer to meet each required case at least once.
    let enough = |totals: &Totals| totals.living > 0 && totals.shown > 0;
    while totals.kills < kills || !enough(&totals) && totals.kills < 10 * kills {
        round += 1;
        stage.round(&format!("run-{round}"), &mut random, &mut longest, &mut totals);
    }
    assert!(totals.living > 0, "the control: at least one kill met a running agent");
    assert!(totals.shown > 0, "the control: an event was shown before at least one kill");
    figure(&format!(
        "kills of runs: {} (SIGKILL), {} met a running agent, {} events shown before a kill and all \
         stored; then {} runs were started again, {} were resumed, {} removed; {} had ended before the kill; 0 \
         processes left, every worktree complete",
        totals.kills,
        totals.living,
        totals.shown,
        totals.fresh,
        totals.resumed,
        totals.removed,
        totals.finished
    ));
}

struct Stage {
    scratch: Scratch,
}

impl Stage {
    fn bailiwick(&self, arguments: &[&str]) -> Ran {
        self.scratch.run(self.program(), arguments)
    }

    /// In its own directory, so that its processes differ from those of other tests.
    fn program(&self) -> std::path::PathBuf {
        self.scratch.place().join("bin/bailiwick")
    }

    /// A little more than the duration of a run that is not killed.
    fn uninterrupted(&self) -> Duration {
        let begin = Instant::now();
        self.bailiwick(&["run", "task.toml", "--agent-id", "whole", "--no-verify"]).expect_code(0);
        self.assert_work_is_complete("whole");
        begin.elapsed().mul_f64(1.1)
    }

    /// Kills a run once or more, each time at another moment, and completes it.
    fn round(&self, id: &str, random: &mut Random, longest: &mut Duration, totals: &mut Totals) {
        let start = ["run", "task.toml", "--agent-id", id, "--no-verify"];
        let resume = ["resume", id, "--no-verify"];
        let mut arguments: &[&str] = &start;
        let mut shown: Vec<Vec<String>> = Vec::new();
        loop {
            let within = usize::try_from(longest.as_millis()).unwrap();
            let moment = Duration::from_millis(u64::try_from(random.below(within)).unwrap());
            let killed = self.kill(arguments, moment);
            *longest = longest.mul_f64(if killed.ended { 0.97 } else { 1.03 });
            totals.kills += u64::from(!killed.ended);
            totals.finished += u64::from(killed.ended);
            totals.living += u64::from(killed.living);
            if !killed.ended {
                totals.shown += killed.shown.len();
            }
            shown.push(killed.shown);
            // The next command reports the result of the killed one.
            self.bailiwick(&["ps", "--all"]).expect_code(0);
            self.assert_no_process_is_left(id, moment);
            self.assert_shown_events_are_stored(id, &shown, moment);
            match self.run_state(id) {
                RunState::Unknown | RunState::HalfSpawned => arguments = &start,
                RunState::Open => arguments = &resume,
                RunState::Done => break,
            }
            if random.once_in(2) {
                break;
            }
        }
        self.complete_run(id, random, totals);
        self.assert_no_process_is_left(id, Duration::ZERO);
        self.scratch.git(&["fsck", "--strict"]);
        assert_database_is_intact(&self.scratch);
    }

    fn complete_run(&self, id: &str, random: &mut Random, totals: &mut Totals) {
        let run_state = self.run_state(id);
        if run_state != RunState::Unknown && random.once_in(3) {
            self.bailiwick(&["rm", "--force", id]).expect_code(0);
            totals.removed += 1;
            let worktrees = self.scratch.git(&["worktree", "list", "--porcelain"]);
            assert!(!worktrees.contains(&format!("worktrees/{id}\n")), "{worktrees}");
            assert!(!self.worktree(id).exists(), "the worktree of {id} still exists");
            return;
        }
        match run_state {
            RunState::Unknown | RunState::HalfSpawned => {
                self.bailiwick(&["run", "task.toml", "--agent-id", id, "--no-verify"])
                    .expect_code(0);
                totals.fresh += 1;
            }
            RunState::Open => {
                self.bailiwick(&["resume", id, "--no-verify"]).expect_code(0);
                totals.resumed += 1;
            }
            RunState::Done => {}
        }
        assert_eq!(self.run_state(id), RunState::Done);
        self.assert_work_is_complete(id);
    }

    /// The worktree has exactly the files that the script writes, and git lists them.
    fn assert_work_is_complete(&self, id: &str) {
        let worktree = self.worktree(id);
        let read = |path: &str| std::fs::read_to_string(worktree.join(path)).unwrap();
        assert_eq!((read("src/b.txt"), read("src/c.txt")), ("bb\n".to_owned(), "c\n".to_owned()));
        let at = worktree.to_str().unwrap();
        let status = self.scratch.git(&["-C", at, "status", "--porcelain=v1"]);
        assert_eq!(status, "?? src/b.txt\n?? src/c.txt\n", "the worktree of {id} is complete");
        let listed = events(&self.bailiwick(&["logs", id, "-o", "json"]).expect_code(0).out);
        let last = listed.iter().rev().find(|event| event["kind"] == "ended").unwrap();
        assert_eq!(last["how"], "completed", "{last}");
    }

    fn worktree(&self, id: &str) -> std::path::PathBuf {
        self.scratch.state().join("worktrees").join(id)
    }

    /// Starts `bailiwick`, and kills it at that moment.
    fn kill(&self, arguments: &[&str], moment: Duration) -> Killed {
        let mut command = self.scratch.command(self.program());
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stderr.take().unwrap();
        let reading = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.read_to_end(&mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        });
        std::thread::sleep(moment);
        let living = self.running_processes().iter().any(|line| line.contains("sleep"));
        let ended = ended(&mut child);
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let output = reading.join().unwrap();
        if ended {
            assert!(status.success(), "{arguments:?}: {output}");
        }
        Killed { ended, living: living && !ended, shown: shown(&output) }
    }

    /// The processes whose program, working directory or environment is in this test's directory.
    fn running_processes(&self) -> Vec<String> {
        let directory = self.scratch.place().canonicalize().unwrap();
        processes()
            .filter(|process| belongs(process, &directory))
            .map(|one| description(&one))
            .collect()
    }

    /// Orphaned processes may need a moment to notice that they must end.
    fn assert_no_process_is_left(&self, id: &str, moment: Duration) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let processes = self.running_processes();
            if processes.is_empty() {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{id}, killed after {moment:?}, left running: {processes:#?}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The lines that were shown are in the log, in this order.
    fn assert_shown_events_are_stored(&self, id: &str, shown: &[Vec<String>], moment: Duration) {
        if shown.iter().all(Vec::is_empty) {
            return;
        }
        let log = self.bailiwick(&["logs", id]).expect_code(0).out;
        // Each line begins with the time of day.
        let mut logged = log.lines().map(|line| line.get(10..).unwrap_or_default());
        for line in shown.iter().flatten() {
            assert!(
                logged.any(|logged| logged == line),
                "{id}, killed after {moment:?}: `{line}` was shown and is not at its position in\n{log}"
            );
        }
    }

    /// The state of the run, as `ledger list` and `ps` show it.
    fn run_state(&self, id: &str) -> RunState {
        let rows = self.bailiwick(&["ledger", "list", "-o", "json"]).expect_code(0).out;
        let rows: Value = serde_json::from_str(&rows).unwrap();
        let row = rows.as_array().unwrap().iter().find(|row| row["id"] == id);
        match row {
            None => RunState::Unknown,
            Some(row) if row["half_spawned"] == true => RunState::HalfSpawned,
            Some(row) if row["status"] == "done" => RunState::Done,
            Some(row) => {
                assert_eq!(row["status"], "running", "{row}");
                RunState::Open
            }
        }
    }
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunState {
    /// The run is unknown.
    Unknown,
    /// Its spawn was interrupted.
    HalfSpawned,
    /// Its agent can be started or resumed.
    Open,
    /// Its agent has completed its work.
    Done,
}

struct Killed {
    ended: bool,
    living: bool,
    shown: Vec<String>,
}

fn ended(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_some()
}

/// The events in the output, complete lines only.
fn shown(output: &str) -> Vec<String> {
    let complete = output.rsplit_once('\n').map_or("", |(complete, _)| complete);
    let is_event = |line: &&str| !(line.ends_with(" …") || line.starts_with("note: "));
    let events = complete.lines().filter(is_event).filter(|line| !line.starts_with("next: "));
    events.map(str::to_owned).collect()
}

fn processes() -> impl Iterator<Item = std::path::PathBuf> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.chars().all(|c| c.is_ascii_digit())
    })
}

fn belongs(process: &Path, directory: &Path) -> bool {
    let link = |name: &str| std::fs::read_link(process.join(name)).unwrap_or_default();
    let variables = std::fs::read(process.join("environ")).unwrap_or_default();
    let named = String::from_utf8_lossy(&variables).contains(directory.to_str().unwrap());
    named || link("exe").starts_with(directory) || link("cwd").starts_with(directory)
}

fn description(process: &Path) -> String {
    let words = std::fs::read(process.join("cmdline")).unwrap_or_default();
    format!("{} {}", process.display(), String::from_utf8_lossy(&words).replace('\0', " "))
}
