//! The command that a hook runs, run by a real shell.

use std::io::Write as _;
use std::process::{Command, Stdio};

use bailiwick_testkit::Scratch;
use bailiwick_testkit::scratch::Ran;

use super::{Bench, SETTINGS, last_command};

const COULD_NOT_RUN: &str = "bailiwick: the gate could not run, so the call is denied";

/// Runs a command as the agents do, with a payload.
fn ask(command: &str) -> Ran {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env_clear().env("PATH", "/usr/bin:/bin");
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    // A gate that is not there reads nothing.
    let _ = child.stdin.take().unwrap().write_all(b"{\"tool_name\":\"Bash\"}");
    Ran::from(child.wait_with_output().unwrap())
}

fn commands(bench: &Bench) -> Vec<(&'static str, String)> {
    let with_command = SETTINGS.into_iter().filter(|(agent, _)| *agent != "opencode");
    with_command.map(|(agent, path)| (agent, last_command(&bench.scratch.read(path)))).collect()
}

#[test]
fn only_a_gate_that_says_yes_lets_a_call_run() {
    let bench = Bench::new();
    bench.install("all", &["--no-sandbox"]).expect_code(0);
    for (agent, command) in commands(&bench) {
        for (end, code, said) in [
            ("exit 0", 0, ""),
            ("echo 'not that' >&2; exit 2", 2, "not that\n"),
            ("exit 1", 2, COULD_NOT_RUN),
            ("exit 101", 2, COULD_NOT_RUN),
            ("kill -KILL $$", 2, COULD_NOT_RUN),
            ("kill -ABRT $$", 2, COULD_NOT_RUN),
        ] {
            bench.end(end);
            let ran = ask(&command);
            assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{agent}: {end}: {}", ran.err);
            assert!(ran.err.contains(said), "{agent}: {end}: {}", ran.err);
            assert!(code == 2 || ran.err.is_empty(), "a yes is silent: {}", ran.err);
        }
    }
    std::fs::remove_file(bench.bin().join("bailiwick-gate")).unwrap();
    for (agent, command) in commands(&bench) {
        let ran = ask(&command).expect_code(2);
        assert!(ran.err.contains(COULD_NOT_RUN), "{agent}: {}", ran.err);
    }
}

#[test]
fn names_with_blanks_and_quotes_reach_the_gate_as_they_are() {
    let bench = Bench::new();
    let odd = bench.scratch.place().join("it's \"a\" $(touch x) `y` \\ é & re;po");
    std::fs::rename(bench.scratch.root(), &odd).unwrap();
    let mut command = bench.scratch.command(bench.bailiwick());
    command.current_dir(&odd).args([
        "hooks",
        "install",
        "all",
        "--role",
        "read-only",
        "--no-sandbox",
    ]);
    command.env("BAILIWICK_STATE", odd.join("state of 'mine'"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (agent, path) in SETTINGS.into_iter().filter(|(agent, _)| *agent != "opencode") {
        let command = last_command(&std::fs::read_to_string(odd.join(path)).unwrap());
        ask(&command).expect_code(0);
        let read = |name| std::fs::read_to_string(bench.bin().join(name)).unwrap();
        let text = read("arguments");
        let arguments: Vec<&str> = text.lines().collect();
        let after = |option| {
            let at = arguments.iter().position(|argument| *argument == option).unwrap();
            arguments[at + 1].to_owned()
        };
        assert_eq!((arguments.len(), after("--dialect").as_str()), (10, agent));
        assert_eq!(after("--root"), odd.to_str().unwrap());
        let policy = std::fs::read_to_string(after("--policy")).unwrap();
        assert_eq!(after("--digest"), bailiwick_model::Sha256Hex::of(policy).as_str());
        assert_eq!(after("--log"), after("--policy").replace("policy.json", "decisions.jsonl"));
        assert_eq!(read("input"), "{\"tool_name\":\"Bash\"}");
    }
}

#[test]
fn without_the_small_gate_the_program_itself_is_the_gate() {
    let bench = Bench { scratch: Scratch::repository() };
    bench.scratch.commit("start");
    bench.fill();
    std::fs::remove_file(bench.bin().join("bailiwick-gate")).unwrap();
    bench.install("all", &[]).expect_code(0);
    for (agent, command) in commands(&bench) {
        let own = bench.bailiwick().canonicalize().unwrap();
        let called = format!("{}'", own.display());
        assert!(
            command.contains(&called) && command.contains(" gate --dialect"),
            "{agent}: {command}"
        );
    }
}
