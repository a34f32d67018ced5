//! A run of 20 calls with everything on (gate, sandbox, proxy, events, store), beside the same agent
//! program with the same model and the same script alone: ratios from one interleaved run. Both find
//! their checkout made; what making ours takes is told apart. The speed of a machine changes within
//! seconds, so each run is held against the program alone just before and just after it, and of these
//! ratios the median counts. That the gate is obeyed was shown before, in a run that is not counted.

#![expect(clippy::expect_used, reason = "a benchmark that cannot do its work must stop")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bailiwick_testkit::clis::{Cli, CliRun};
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use bailiwick_testkit::stopwatch::{median, ratio, time};
use bailiwick_testkit::{Scratch, figure};
use serde_json::Value;

const CALLS: usize = 20;
const ROUNDS: usize = 15;
/// What a run may take of the machine's memory.
const MOST_KIB: u64 = 40 * 1024;
/// Both get a session of their own. The sandbox gives the agent one, and on a busy machine the kernel
/// shares processors among sessions: without one the program alone waits longer.
const SESSION: &str = "setsid";
const TOOLS: &str = "\"Bash\", \"Read\", \"Edit\", \"Write\", \"NotebookEdit\", \"Agent\"";
const ROLE: &str = "[role]\nname = \"worker\"\ndescription = \"d\"\n[capabilities]\nrequired = [\"scope::files-whitelist\"]\n[tools]\nallowed = [TOOLS]\n";
const TASK: &str = "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[agent]\ncli = \"CLI\"\nmodel = \"MODEL\"\n[body]\ntext = \"Count to twenty.\"\n";

fn main() {
    compare(Cli::Claude, "claude-code", "sonnet");
    compare(Cli::Codex, "codex", "gpt-5.5");
}

/// How long one run took.
struct Took {
    /// To make its worktree.
    spawn: Duration,
    whole: Duration,
    attempt: Duration,
    /// The most that was resident of its supervisor, in KiB.
    memory: u64,
}

/// How many times as long the runs took, each beside the program alone before and after it.
struct Ratios(Vec<f64>);

impl Ratios {
    fn of(runs: &[Took], bare: &[Duration], of: impl Fn(&Took) -> Duration) -> Self {
        let around = bare.iter().zip(bare.iter().skip(1)).map(|(before, after)| *before + *after);
        let pairs = runs.iter().zip(around);
        let mut ratios: Vec<f64> =
            pairs.map(|(took, around)| 2.0 * ratio(of(took), around)).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        Self(ratios)
    }

    fn at(&self, quarter: usize) -> f64 {
        self.0.get(self.0.len() * quarter / 4).copied().unwrap_or(f64::NAN)
    }
}

impl std::fmt::Display for Ratios {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:.2} ({:.2} to {:.2})", self.at(2), self.at(1), self.at(3))
    }
}

fn compare(cli: Cli, name: &str, model: &str) {
    let turns = (0..CALLS)
        .map(|number| Turn::Calls(vec![Call::shell(format!("echo {number} >> src/numbers.txt"))]));
    let turns = turns.chain([Turn::say("finished")]).collect();
    let scripted = ScriptedModel::start(Script::new(turns));
    let scratch = Scratch::repository();
    scratch.write(".bailiwick/roles/worker.toml", &ROLE.replace("TOOLS", TOOLS));
    scratch.write("task.toml", &TASK.replace("CLI", name).replace("MODEL", model));
    scratch.write("src/a.txt", "a\n");
    scratch.commit("start");
    // It shows that the gate is obeyed, which is kept.
    ours(&scratch, cli, &scripted, "proof");
    let (mut runs, mut bare) = (Vec::new(), vec![alone(&scratch, cli, &scripted, model)]);
    for round in 0..ROUNDS {
        runs.push(ours(&scratch, cli, &scripted, &format!("run-{round}")));
        bare.push(alone(&scratch, cli, &scripted, model));
    }
    let whole = Ratios::of(&runs, &bare, |took| took.whole);
    let attempt = Ratios::of(&runs, &bare, |took| took.attempt);
    let with_spawn = Ratios::of(&runs, &bare, |took| took.spawn + took.whole);
    let memory = runs.iter().map(|took| took.memory).max().expect("a run");
    let mut times: Vec<Duration> = runs.iter().map(|took| took.whole).collect();
    let mut spawns: Vec<Duration> = runs.iter().map(|took| took.spawn).collect();
    figure(&format!(
        "run of {CALLS} calls, {name} {}: {whole} × the program alone for the whole of `bailiwick run \
         --no-verify` of a spawned agent, {attempt} × for the attempt alone; {:.2} s beside {:.2} s; {with_spawn} × \
         with `bailiwick spawn`, which takes {:.0} ms before; the supervisor took {:.1} MiB at most (medians of {ROUNDS} interleaved runs, and the middle half of them)",
        cli.version(),
        median(&mut times).as_secs_f64(),
        median(&mut bare).as_secs_f64(),
        median(&mut spawns).as_secs_f64() * 1000.0,
        memory as f64 / 1024.0,
    ));
    assert!(cfg!(debug_assertions) || memory < MOST_KIB, "{memory} KiB");
}

/// The program alone: no gate, no sandbox, no proxy, in a new home and a new checkout.
fn alone(scratch: &Scratch, cli: Cli, model: &ScriptedModel, name: &str) -> Duration {
    let checkout = scratch.place().join("checkout");
    let path = checkout.to_str().expect("UTF-8");
    scratch.git(&["worktree", "add", "--quiet", "--detach", path]);
    let mut run = CliRun::new(cli, model, &checkout);
    if cli == Cli::Claude {
        run = run.settings(r#"{"permissions": {"allow": ["Bash"]}}"#);
        run = run.argument("--model").argument(name);
    }
    let run = run.prepare();
    let mut command = Command::new(SESSION);
    command
        .arg(cli.program())
        .args(run.arguments("Count to twenty."))
        .current_dir(&checkout)
        .env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).envs(run.variables());
    let took = time({
        command.stdin(Stdio::null());
        command
    });
    done(&checkout);
    scratch.git(&["worktree", "remove", "--force", path]);
    took
}

/// `bailiwick spawn`, and then the whole of `bailiwick run`.
fn ours(scratch: &Scratch, cli: Cli, model: &ScriptedModel, id: &str) -> Took {
    let program = cli.program();
    let path = std::env::var("PATH").expect("PATH");
    let mut spawn = scratch.command(SESSION);
    spawn.arg(env!("CARGO_BIN_EXE_bailiwick")).args(["spawn", "task.toml", "--agent-id", id]);
    spawn.stdin(Stdio::null());
    let spawn = time(spawn);
    let mut command = scratch.command(SESSION);
    command
        .arg(env!("CARGO_BIN_EXE_bailiwick"))
        .args(["run", id, "--no-verify"])
        .env("PATH", format!("{}:{path}", program.parent().expect("a directory").display()))
        .env("ANTHROPIC_API_KEY", "a-dummy-key")
        .env("ANTHROPIC_BASE_URL", model.base_url())
        .env("OPENAI_API_KEY", "a-dummy-key")
        .env("OPENAI_BASE_URL", format!("{}/v1", model.base_url()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let begin = Instant::now();
    let mut child = command.spawn().expect("bailiwick");
    let process = child.id();
    let memory = std::thread::spawn(move || most_kib(process));
    let status = child.wait().expect("bailiwick");
    let whole = begin.elapsed();
    assert!(status.success(), "{command:?}");
    done(&scratch.state().join("worktrees").join(id));
    let memory = memory.join().expect("the memory of bailiwick");
    Took { spawn, whole, attempt: attempt(scratch, id), memory }
}

fn done(worktree: &std::path::Path) {
    let text = std::fs::read_to_string(worktree.join("src/numbers.txt")).expect("the work");
    assert_eq!(text.lines().count(), CALLS, "{text}");
}

/// From the moment the agent begins to work to its end, as the events have it.
fn attempt(scratch: &Scratch, id: &str) -> Duration {
    let logs = scratch.run(env!("CARGO_BIN_EXE_bailiwick"), &["logs", id, "-o", "json"]);
    let events: Vec<Value> =
        logs.out.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    let at = |kind: &str, key: &str, value: &str| {
        let found = events.iter().find(|event| event["kind"] == kind && event[key] == value);
        found.and_then(|event| event["at"].as_u64()).expect("an event of this kind")
    };
    let (begun, ended) = (at("phase", "phase", "working"), at("ended", "how", "completed"));
    Duration::from_millis(ended.saturating_sub(begun))
}

/// The most that was ever resident of a process, in KiB, as long as it runs.
fn most_kib(process: u32) -> u64 {
    let mut most = 0;
    while let Some(now) = resident(process) {
        most = now;
        std::thread::sleep(Duration::from_millis(20));
    }
    most
}

fn resident(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
