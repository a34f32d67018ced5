//! The command of a hook, run by a real shell.

use std::io::Write as _;
use std::process::{Command, Stdio};

use bailiwick_testkit::Scratch;
use bailiwick_testkit::scratch::Ran;

use super::{Fixture, SETTINGS, last_command};

const COULD_NOT_RUN: &str = "bailiwick: the gate could not run, so the call is denied";

/// Runs a command with a payload, as the agents do.
fn run_command(command: &str) -> Ran {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env_clear().env("PATH", "/usr/bin:/bin");
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    // A missing gate does not read its input.
    let _ = child.stdin.take().unwrap().write_all(b"{\"tool_name\":\"Bash\"}");
    Ran::from(child.wait_with_output().unwrap())
}

fn commands(fixture: &Fixture) -> Vec<(&'static str, String)> {
    let with_command = SETTINGS.into_iter().filter(|(agent, _)| *agent != "opencode");
    with_command.map(|(agent, path)| (agent, last_command(&fixture.scratch.read(path)))).collect()
}

#[test]
fn call_runs_only_if_the_gate_allows_it() {
    let fixture = Fixture::new();
    fixture.install("all", &["--no-sandbox"]).expect_code(0);
    for (agent, command) in commands(&fixture) {
        for (script, code, expected) in [
            ("exit 0", 0, ""),
            ("echo 'not that' >&2; exit 2", 2, "not that\n"),
            ("exit 1", 2, COULD_NOT_RUN),
            ("exit 101", 2, COULD_NOT_RUN),
            ("kill -KILL $$", 2, COULD_NOT_RUN),
            ("kill -ABRT $$", 2, COULD_NOT_RUN),
        ] {
            fixture.set_gate_script(script);
            let ran = run_command(&command);
            assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{agent}: {script}: {}", ran.err);
            assert!(ran.err.contains(expected), "{agent}: {script}: {}", ran.err);
            assert!(
                code == 2 || ran.err.is_empty(),
                "an allowed call must print nothing: {}",
                ran.err
            );
        }
    }
    std::fs::remove_file(fixture.bin().join("bailiwick-gate")).unwrap();
    for (agent, command) in commands(&fixture) {
        let ran = run_command(&command).expect_code(2);
        assert!(ran.err.contains(COULD_NOT_RUN), "{agent}: {}", ran.err);
    }
}

#[test]
fn paths_with_blanks_and_quotes_reach_the_gate_unchanged() {
    let fixture = Fixture::new();
    let root = fixture.scratch.place().join("it's \"a\" $(touch x) `y` \\ é & re;po");
    std::fs::rename(fixture.scratch.root(), &root).unwrap();
    let mut command = fixture.scratch.command(fixture.bailiwick());
    command.current_dir(&root).args([
        "hooks",
        "install",
        "all",
        "--role",
        "read-only",
        "--no-sandbox",
    ]);
    command.env("BAILIWICK_STATE", root.join("state of 'mine'"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (agent, path) in SETTINGS.into_iter().filter(|(agent, _)| *agent != "opencode") {
        let command = last_command(&std::fs::read_to_string(root.join(path)).unwrap());
        run_command(&command).expect_code(0);
        let read = |name| std::fs::read_to_string(fixture.bin().join(name)).unwrap();
        let text = read("arguments");
        let arguments: Vec<&str> = text.lines().collect();
        let value_of = |option| {
            let position = arguments.iter().position(|argument| *argument == option).unwrap();
            arguments[position + 1].to_owned()
        };
        assert_eq!((arguments.len(), value_of("--dialect").as_str()), (10, agent));
        assert_eq!(value_of("--root"), root.to_str().unwrap());
        let policy = std::fs::read_to_string(value_of("--policy")).unwrap();
        assert_eq!(value_of("--digest"), bailiwick_model::Sha256Hex::of(policy).as_str());
        assert_eq!(
            value_of("--log"),
            value_of("--policy").replace("policy.json", "decisions.jsonl")
        );
        assert_eq!(read("input"), "{\"tool_name\":\"Bash\"}");
    }
}

#[test]
fn without_the_gate_program_bailiwick_is_the_gate() {
    let fixture = Fixture { scratch: Scratch::repository() };
    fixture.scratch.commit("start");
    fixture.add_programs();
    std::fs::remove_file(fixture.bin().join("bailiwick-gate")).unwrap();
    fixture.install("all", &[]).expect_code(0);
    for (agent, command) in commands(&fixture) {
        let program = fixture.bailiwick().canonicalize().unwrap();
        let called = format!("{}'", program.display());
        assert!(
            command.contains(&called) && command.contains(" gate --dialect"),
            "{agent}: {command}"
        );
    }
}
