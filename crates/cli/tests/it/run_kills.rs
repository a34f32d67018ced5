//! Killed at any moment, `bailiwick run` loses no event that was shown, leaves no process and no half
//! made worktree, and the run goes on where a person is told to go on.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use bailiwick_testkit::random::Random;
use bailiwick_testkit::scratch::Ran;
use bailiwick_testkit::{Depth, Scratch, figure};
use serde_json::Value;

use crate::run_load::{events, integrity, repository};

/// Leaves a process in a session of its own at once, writes, and waits.
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

/// What the kills have seen.
#[derive(Default)]
struct Seen {
    kills: u64,
    finished: u64,
    shown: usize,
    living: u64,
    fresh: u64,
    resumed: u64,
    removed: u64,
}

#[test]
fn a_run_killed_at_any_moment_loses_nothing_and_leaves_nothing() {
    let mut random = Random::rotating("kills of runs");
    let kills = match Depth::from_env() {
        Depth::Ci => 25,
        Depth::Full => 200,
    };
    let mut seen = Seen::default();
    let stage = Stage { scratch: repository(STEPS) };
    let mut longest = stage.uninterrupted();
    let mut round = 0;
    // The moments are random: what must be met at least once may be late.
    let enough = |seen: &Seen| seen.living > 0 && seen.shown > 0;
    while seen.kills < kills || !enough(&seen) && seen.kills < 10 * kills {
        round += 1;
        stage.round(&format!("run-{round}"), &mut random, &mut longest, &mut seen);
    }
    assert!(seen.living > 0, "the control: some kill has met a living agent");
    assert!(seen.shown > 0, "the control: something was shown before some kill");
    figure(&format!(
        "kills of runs: {} (SIGKILL), {} met a living agent, {} events shown before a kill and all \
         kept; then {} runs began anew, {} were resumed, {} removed; {} had ended before the kill; 0 \
         processes left, every worktree whole",
        seen.kills, seen.living, seen.shown, seen.fresh, seen.resumed, seen.removed, seen.finished
    ));
}

struct Stage {
    scratch: Scratch,
}

impl Stage {
    fn bailiwick(&self, arguments: &[&str]) -> Ran {
        self.scratch.run(self.program(), arguments)
    }

    /// A place of its own, so that its processes are told from those of other tests.
    fn program(&self) -> std::path::PathBuf {
        self.scratch.place().join("bin/bailiwick")
    }

    /// A little more than a run takes that nobody kills.
    fn uninterrupted(&self) -> Duration {
        let begin = Instant::now();
        self.bailiwick(&["run", "task.toml", "--agent-id", "whole", "--no-verify"]).expect_code(0);
        self.whole("whole");
        begin.elapsed().mul_f64(1.1)
    }

    /// Kills a run once or more, each time at another moment, and brings it to its end.
    fn round(&self, id: &str, random: &mut Random, longest: &mut Duration, seen: &mut Seen) {
        let fresh = ["run", "task.toml", "--agent-id", id, "--no-verify"];
        let again = ["resume", id, "--no-verify"];
        let mut arguments: &[&str] = &fresh;
        let mut shown: Vec<Vec<String>> = Vec::new();
        loop {
            let within = usize::try_from(longest.as_millis()).unwrap();
            let moment = Duration::from_millis(u64::try_from(random.below(within)).unwrap());
            let killed = self.kill(arguments, moment);
            *longest = longest.mul_f64(if killed.ended { 0.97 } else { 1.03 });
            seen.kills += u64::from(!killed.ended);
            seen.finished += u64::from(killed.ended);
            seen.living += u64::from(killed.living);
            if !killed.ended {
                seen.shown += killed.shown.len();
            }
            shown.push(killed.shown);
            // The next start says what became of it.
            self.bailiwick(&["ps", "--all"]).expect_code(0);
            self.nothing_runs(id, moment);
            self.all_kept(id, &shown, moment);
            match self.standing(id) {
                Standing::Nowhere | Standing::Half => arguments = &fresh,
                Standing::Open => arguments = &again,
                Standing::Done => break,
            }
            if random.once_in(2) {
                break;
            }
        }
        self.bring_to_its_end(id, random, seen);
        self.nothing_runs(id, Duration::ZERO);
        self.scratch.git(&["fsck", "--strict"]);
        integrity(&self.scratch);
    }

    fn bring_to_its_end(&self, id: &str, random: &mut Random, seen: &mut Seen) {
        let standing = self.standing(id);
        if standing != Standing::Nowhere && random.once_in(3) {
            self.bailiwick(&["rm", "--force", id]).expect_code(0);
            seen.removed += 1;
            let worktrees = self.scratch.git(&["worktree", "list", "--porcelain"]);
            assert!(!worktrees.contains(&format!("worktrees/{id}\n")), "{worktrees}");
            assert!(!self.worktree(id).exists(), "the worktree of {id} is left");
            return;
        }
        match standing {
            Standing::Nowhere | Standing::Half => {
                self.bailiwick(&["run", "task.toml", "--agent-id", id, "--no-verify"])
                    .expect_code(0);
                seen.fresh += 1;
            }
            Standing::Open => {
                self.bailiwick(&["resume", id, "--no-verify"]).expect_code(0);
                seen.resumed += 1;
            }
            Standing::Done => {}
        }
        assert_eq!(self.standing(id), Standing::Done);
        self.whole(id);
    }

    /// The worktree has all that the script writes and nothing else, and git knows it.
    fn whole(&self, id: &str) {
        let worktree = self.worktree(id);
        let read = |path: &str| std::fs::read_to_string(worktree.join(path)).unwrap();
        assert_eq!((read("src/b.txt"), read("src/c.txt")), ("bb\n".to_owned(), "c\n".to_owned()));
        let at = worktree.to_str().unwrap();
        let status = self.scratch.git(&["-C", at, "status", "--porcelain=v1"]);
        assert_eq!(status, "?? src/b.txt\n?? src/c.txt\n", "the worktree of {id} is whole");
        let listed = events(&self.bailiwick(&["logs", id, "-o", "json"]).expect_code(0).out);
        let last = listed.iter().rev().find(|event| event["kind"] == "ended").unwrap();
        assert_eq!(last["how"], "completed", "{last}");
    }

    fn worktree(&self, id: &str) -> std::path::PathBuf {
        self.scratch.state().join("worktrees").join(id)
    }

    /// Starts a program of ours, and kills it at that moment.
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
        let living = self.living().iter().any(|line| line.contains("sleep"));
        let ended = ended(&mut child);
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let said = reading.join().unwrap();
        if ended {
            assert!(status.success(), "{arguments:?}: {said}");
        }
        Killed { ended, living: living && !ended, shown: shown(&said) }
    }

    /// Whatever runs from this place, works in it or was given it in its environment.
    fn living(&self) -> Vec<String> {
        let place = self.scratch.place().canonicalize().unwrap();
        processes().filter(|process| belongs(process, &place)).map(|one| described(&one)).collect()
    }

    /// What was cut off from us may take a moment to see that.
    fn nothing_runs(&self, id: &str, moment: Duration) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let left = self.living();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "{id}, killed after {moment:?}, left {left:#?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Each list of lines that was shown is in the log, in this order.
    fn all_kept(&self, id: &str, shown: &[Vec<String>], moment: Duration) {
        if shown.iter().all(Vec::is_empty) {
            return;
        }
        let log = self.bailiwick(&["logs", id]).expect_code(0).out;
        // Each begins with the time of the day.
        let mut kept = log.lines().map(|line| line.get(10..).unwrap_or_default());
        for line in shown.iter().flatten() {
            assert!(
                kept.any(|kept| kept == line),
                "{id}, killed after {moment:?}: `{line}` was shown and is not in its place in\n{log}"
            );
        }
    }

    /// Where the run stands, as `ledger list` and `ps` have it.
    fn standing(&self, id: &str) -> Standing {
        let rows = self.bailiwick(&["ledger", "list", "-o", "json"]).expect_code(0).out;
        let rows: Value = serde_json::from_str(&rows).unwrap();
        let row = rows.as_array().unwrap().iter().find(|row| row["id"] == id);
        match row {
            None => Standing::Nowhere,
            Some(row) if row["half_spawned"] == true => Standing::Half,
            Some(row) if row["status"] == "done" => Standing::Done,
            Some(row) => {
                assert_eq!(row["status"], "running", "{row}");
                Standing::Open
            }
        }
    }
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Nothing is known of it.
    Nowhere,
    /// Its spawn was cut off.
    Half,
    /// Its agent can be started, or taken up again.
    Open,
    /// Its agent has done its work.
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

/// The events among what was printed, whole lines only.
fn shown(said: &str) -> Vec<String> {
    let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let ours = |line: &&str| !(line.ends_with(" …") || line.starts_with("note: "));
    let ours = whole.lines().filter(ours).filter(|line| !line.starts_with("next: "));
    ours.map(str::to_owned).collect()
}

fn processes() -> impl Iterator<Item = std::path::PathBuf> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.chars().all(|c| c.is_ascii_digit())
    })
}

fn belongs(process: &Path, place: &Path) -> bool {
    let link = |name: &str| std::fs::read_link(process.join(name)).unwrap_or_default();
    let variables = std::fs::read(process.join("environ")).unwrap_or_default();
    let named = String::from_utf8_lossy(&variables).contains(place.to_str().unwrap());
    named || link("exe").starts_with(place) || link("cwd").starts_with(place)
}

fn described(process: &Path) -> String {
    let words = std::fs::read(process.join("cmdline")).unwrap_or_default();
    format!("{} {}", process.display(), String::from_utf8_lossy(&words).replace('\0', " "))
}
