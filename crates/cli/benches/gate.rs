//! What one decision costs in CPU time: the static programs of `scripts/dist` beside `/bin/true`, an
//! empty Rust program, a python hook and a node hook; ratios from one interleaved run, every exit
//! code checked. Then instruction counts by callgrind, which do not move, also for bombs.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a benchmark that cannot do its work must stop"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bailiwick_testkit::{Scratch, figure};
use nix::sys::resource::{UsageWho, getrusage};

const ROUNDS: usize = 300;

/// A program, its input and the exit code that it must have.
struct Case {
    name: &'static str,
    argv: Vec<String>,
    input: PathBuf,
    code: i32,
}

fn main() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist");
    let dist = dist.canonicalize().expect("scripts/dist has built dist/");
    let scratch = Scratch::repository();
    let place = scratch.place().to_path_buf();
    let (gate, check) = (dist.join("bailiwick-gate"), dist.join("kei-capability"));
    let empty = empty_program(&place);
    let policy = policy(&scratch);
    let root = scratch.root().display().to_string();
    let told = |input: &str, name: &str| {
        let file = place.join(format!("{name}.json"));
        std::fs::write(&file, input).expect("a payload");
        file
    };
    let shell = |command: &str| {
        serde_json::json!({
            "session_id": "0", "hook_event_name": "PreToolUse", "tool_name": "Bash",
            "tool_input": {"command": command}, "cwd": root, "tool_use_id": "t",
        })
        .to_string()
    };
    let edit = serde_json::json!({
        "session_id": "0", "hook_event_name": "PreToolUse", "tool_name": "Edit",
        "tool_input": {"file_path": format!("{root}/src/lib.rs"), "old_string": "a", "new_string": "b"},
        "cwd": root, "tool_use_id": "t",
    })
    .to_string();
    let alone = |policy: &Policy| -> Vec<String> {
        let gate = gate.display().to_string();
        let file = policy.file.display().to_string();
        [
            &gate,
            "--dialect",
            "claude",
            "--policy",
            &file,
            "--digest",
            &policy.digest,
            "--root",
            &root,
        ]
        .map(str::to_owned)
        .to_vec()
    };
    let ours = alone(&policy);
    let plain = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let hook = hooks(&place);
    let test = told(&shell("cargo test -p model 2>&1"), "test");
    let push = told(&shell("git push origin main"), "push");
    let line =
        |n: usize| format!("cargo test -p crate{n} 2>&1 && cargo check --lib || cargo doc\n");
    let script = told(&shell(&(0..100).map(line).collect::<String>()), "script");
    let edit = told(&edit, "edit");
    let checks = [check.display().to_string(), "check".to_owned(), "policy::no-git-ops".to_owned()];
    let case = |name, argv: &[String], input: &Path, code| Case {
        name,
        argv: argv.to_vec(),
        input: input.to_path_buf(),
        code,
    };
    let cases = [
        case("/bin/true", &plain(&["/bin/true"]), &test, 0),
        case("an empty Rust program", &plain(&[&empty]), &test, 0),
        case("gate: edit allowed", &ours, &edit, 0),
        case("gate: cargo test allowed", &ours, &test, 0),
        case("gate: git push denied", &ours, &push, 2),
        case("gate: a script of 6 kB allowed", &ours, &script, 0),
        case("kei-capability check: allowed", &checks, &test, 0),
        case("kei-capability check: denied", &checks, &push, 2),
        case("a python hook", &plain(&["python3", &hook.0]), &test, 0),
        case("a node hook", &plain(&["node", &hook.1]), &test, 0),
    ];
    let task = place.join("task.toml");
    measure(&cases, &task);
    count(&cases, &task);
    bombs(&ours, &shell, &task, &told);
}

/// The compiled policy of the role edit-local.
struct Policy {
    file: PathBuf,
    digest: String,
}

fn policy(scratch: &Scratch) -> Policy {
    let task = "[task]\nrole = \"edit-local\"\nagent-id = \"bench\"\n[scope]\nfiles-whitelist = \
                [\"src/**\"]\nfiles-denylist = [\"src/generated/**\"]\n[body]\ntext = \"x\"\n";
    std::fs::write(scratch.place().join("task.toml"), task).expect("a task");
    std::fs::create_dir_all(scratch.root().join("src")).expect("a directory");
    std::fs::write(scratch.root().join("src/lib.rs"), "a\n").expect("a file");
    scratch.commit("start");
    let mut spawn = scratch.command(env!("CARGO_BIN_EXE_bailiwick"));
    spawn.args(["spawn", "-o", "json"]).arg(scratch.place().join("task.toml"));
    let output = spawn.output().expect("spawn");
    let spawned: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("what spawn says");
    Policy {
        file: spawned["policy"].as_str().expect("a policy").into(),
        digest: spawned["policy_digest"].as_str().expect("a digest").to_owned(),
    }
}

fn empty_program(place: &Path) -> String {
    let (source, program) = (place.join("empty.rs"), place.join("empty"));
    std::fs::write(&source, "fn main() {}\n").expect("a source");
    let built = Command::new("rustc").args(["-O", "-o"]).arg(&program).arg(&source).status();
    assert!(built.expect("rustc").success());
    program.display().to_string()
}

/// Hooks as people write them: read the payload, look for a word, allow.
fn hooks(place: &Path) -> (String, String) {
    let (python, node) = (place.join("hook.py"), place.join("hook.js"));
    let text = "import json, re, sys\ncall = json.load(sys.stdin)\n\
                command = call['tool_input'].get('command', '')\n\
                sys.exit(2 if re.search(r'(^|[;&|]\\s*)git\\s+push', command) else 0)\n";
    std::fs::write(&python, text).expect("a hook");
    let text = "const call = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n\
                const command = call.tool_input.command || '';\n\
                process.exit(/(^|[;&|]\\s*)git\\s+push/.test(command) ? 2 : 0);\n";
    std::fs::write(&node, text).expect("a hook");
    (python.display().to_string(), node.display().to_string())
}

fn command(case: &Case, task: &Path) -> Command {
    let mut command = Command::new(&case.argv[0]);
    command.args(&case.argv[1..]).env("TASK_TOML", task);
    command.stdin(std::fs::File::open(&case.input).expect("the input"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// CPU time of all children that have ended so far, in microseconds.
fn children() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the kernel's counters");
    let micros = |time: nix::sys::time::TimeVal| {
        Duration::new(
            u64::try_from(time.tv_sec()).unwrap_or(0),
            u32::try_from(time.tv_usec()).unwrap_or(0) * 1000,
        )
        .as_secs_f64()
            * 1e6
    };
    micros(usage.user_time()) + micros(usage.system_time())
}

/// The CPU time of one run, whose exit code must be right.
fn cpu(case: &Case, task: &Path) -> f64 {
    let before = children();
    let status = command(case, task).status().expect("it runs");
    assert_eq!(status.code(), Some(case.code), "{}", case.name);
    children() - before
}

fn measure(cases: &[Case], task: &Path) {
    let mut times: Vec<Vec<f64>> = cases.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (case, times) in cases.iter().zip(&mut times) {
            times.push(cpu(case, task));
        }
    }
    let medians: Vec<f64> = times.iter_mut().map(|times| median(times)).collect();
    for (case, own) in cases.iter().zip(&medians) {
        figure(&format!(
            "decision: {} costs {:.2} × /bin/true in CPU time ({own:.0} µs)",
            case.name,
            own / medians[0]
        ));
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Instructions that a program runs in user space, by callgrind.
fn instructions(case: &Case, task: &Path) -> u64 {
    let out = task.with_file_name("callgrind.out");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", &format!("--callgrind-out-file={}", out.display())]);
    valgrind.args(&case.argv).env("TASK_TOML", task);
    valgrind.stdin(std::fs::File::open(&case.input).expect("the input"));
    let output = valgrind.output().expect("valgrind runs");
    assert_eq!(output.status.code(), Some(case.code), "{} under valgrind", case.name);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find(|line| line.contains("Collected")).expect("a count");
    let digits: String = line.rsplit(':').next().expect("a number").trim().replace(',', "");
    digits.parse().expect("a number")
}

fn count(cases: &[Case], task: &Path) {
    let native = |case: &&Case| !case.name.contains("hook");
    for case in cases.iter().filter(native) {
        let count = instructions(case, task);
        figure(&format!("decision: {} runs {count} instructions (callgrind)", case.name));
    }
}

/// Commands that are made to take long: a decision or a denial within a bounded count.
fn bombs(
    gate: &[String],
    shell: &dyn Fn(&str) -> String,
    task: &Path,
    told: &dyn Fn(&str, &str) -> PathBuf,
) {
    const MOST: u64 = 500_000_000;
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{}true{}", open.repeat(depth), close.repeat(depth))
    };
    for (name, command) in [
        ("200 parentheses", nested("(", ")", 200)),
        ("200 braces", nested("{ ", "; }", 200)),
        ("200 substitutions", nested("$(", ")", 200)),
        ("200 quoted substitutions", nested("\"$(", ")\"", 200)),
        ("200 ifs", nested("if true; then ", "; fi", 200)),
        ("a line of 1 MiB", format!("cargo test {}", "x".repeat(1 << 20))),
        ("10,000 words", format!("cargo test {}", "x ".repeat(10_000))),
        ("10,000 commands", "cargo test; ".repeat(10_000)),
        ("braces to the power of 30", format!("cargo {}", "{a,b}".repeat(30))),
        ("a function that calls itself", "f() { f; f; f; }; f".to_owned()),
        ("a value that doubles 40 times", format!("x=a; {}$x", "x=$x$x; ".repeat(40))),
        ("8,000 wrappers", format!("{}git", "env ".repeat(8_000))),
    ] {
        let input = told(&shell(&command), "bomb");
        let mut case = Case { name: "bomb", argv: gate.to_vec(), input, code: 2 };
        let status = self::command(&case, task).status().expect("it runs");
        case.code = status.code().expect("an exit code");
        assert!(matches!(case.code, 0 | 2), "{name}: {status}");
        let count = instructions(&case, task);
        assert!(count < MOST, "{name} runs {count} instructions");
        figure(&format!("bomb: {name}: exit {} after {count} instructions", case.code));
    }
}
