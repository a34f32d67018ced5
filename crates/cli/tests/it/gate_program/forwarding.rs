//! The gate inside a sandbox: it forwards the call, and a missing answer is a denial.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::process::Output;

use bailiwick_policy::protocol::{GateReply, GateRequest};
use bailiwick_policy::{Decision, Objection};

use super::{expect_allowed, expect_denied, program, run_with_input};

const CALL: &str = r#"{"tool_name":"Bash","tool_input":{"command":"ls"},"cwd":"/"}"#;

/// Runs the gate with a supervisor that gives this answer.
fn ask_supervisor(answer: impl Fn(GateRequest) -> String + Send + 'static) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("gate.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let supervisor = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = Vec::new();
        BufReader::new(stream.try_clone().unwrap()).read_until(b'\n', &mut line).unwrap();
        let question = GateRequest::read(&line).unwrap();
        stream.write_all(answer(question).as_bytes()).unwrap();
    });
    let mut gate = program();
    gate.args(["--dialect", "claude", "--deadline-ms", "3000", "--socket"]).arg(&socket);
    let output = run_with_input(&mut gate, CALL.as_bytes());
    supervisor.join().unwrap();
    output
}

#[test]
fn supervisor_gets_the_unchanged_payload_and_decides() {
    expect_allowed(&ask_supervisor(|question| {
        assert_eq!(question.payload, CALL);
        GateReply::new(Decision::allow()).line()
    }));
    let objection = Objection::new("budget::tokens", "the budget is spent", "return what you have");
    let refused = ask_supervisor(move |_| GateReply::new(Decision::deny(objection.clone())).line());
    expect_denied(&refused, "budget::tokens: the budget is spent.");
}

#[test]
fn missing_or_invalid_answer_denies() {
    expect_denied(&ask_supervisor(|_| String::new()), "hung up");
    expect_denied(&ask_supervisor(|_| "yes\n".to_owned()), "cannot be read");
    expect_denied(
        &ask_supervisor(|_| {
            GateReply::new(Decision::allow()).line().replace("\"version\":1", "\"version\":9")
        }),
        "version 9",
    );
    let mut gate = program();
    gate.args(["--dialect", "claude", "--socket", "/nonexistent/gate.sock"]);
    expect_denied(&run_with_input(&mut gate, CALL.as_bytes()), "did not answer");
}

#[test]
fn supervisor_that_never_answers_is_a_denial_at_the_deadline() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("gate.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut gate = program();
    gate.args(["--dialect", "claude", "--deadline-ms", "300", "--socket"]).arg(&socket);
    let output = run_with_input(&mut gate, CALL.as_bytes());
    drop(listener);
    expect_denied(&output, "not done within 300 ms");
}
