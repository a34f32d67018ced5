//! The gate inside a sandbox: it hands the call over, and no answer is a denial.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::process::Output;

use bailiwick_policy::protocol::{Question, Reply};
use bailiwick_policy::{Decision, Objection};

use super::{allowed, ask, denied, program};

const CALL: &str = r#"{"tool_name":"Bash","tool_input":{"command":"ls"},"cwd":"/"}"#;

/// Asks a supervisor that answers like this.
fn asked(answer: impl Fn(Question) -> String + Send + 'static) -> Output {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("gate.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let supervisor = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = Vec::new();
        BufReader::new(stream.try_clone().unwrap()).read_until(b'\n', &mut line).unwrap();
        let question = Question::read(&line).unwrap();
        stream.write_all(answer(question).as_bytes()).unwrap();
    });
    let mut gate = program();
    gate.args(["--dialect", "claude", "--deadline-ms", "3000", "--socket"]).arg(&socket);
    let output = ask(&mut gate, CALL.as_bytes());
    supervisor.join().unwrap();
    output
}

#[test]
fn the_supervisor_decides_and_sees_the_payload_as_it_came() {
    allowed(&asked(|question| {
        assert_eq!(question.payload, CALL);
        Reply::new(Decision::allow()).line()
    }));
    let because = Objection::new("budget::tokens", "the budget is spent", "return what you have");
    let refused = asked(move |_| Reply::new(Decision::deny(because.clone())).line());
    denied(&refused, "budget::tokens: the budget is spent.");
}

#[test]
fn no_answer_or_one_that_is_not_understood_denies() {
    denied(&asked(|_| String::new()), "hung up");
    denied(&asked(|_| "yes\n".to_owned()), "cannot be read");
    denied(
        &asked(|_| Reply::new(Decision::allow()).line().replace("\"version\":1", "\"version\":9")),
        "version 9",
    );
    let mut gate = program();
    gate.args(["--dialect", "claude", "--socket", "/nonexistent/gate.sock"]);
    denied(&ask(&mut gate, CALL.as_bytes()), "did not answer");
}

#[test]
fn a_supervisor_that_never_answers_denies_at_the_deadline() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("gate.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut gate = program();
    gate.args(["--dialect", "claude", "--deadline-ms", "300", "--socket"]).arg(&socket);
    let output = ask(&mut gate, CALL.as_bytes());
    drop(listener);
    denied(&output, "not done within 300 ms");
}
