//! Tests of the self-test of CLIs.

use std::collections::BTreeMap;

use super::*;
use crate::agents::adapter::{Gate, Input};
use crate::agents::{ClaudeCode, Gemini, Interactive, Person, unattended};

fn assignment() -> Assignment {
    let session = Conversation::New("a".to_owned());
    Assignment {
        prompt: "Do the work.".to_owned(),
        repository: "/repository".into(),
        model_url: "http://127.0.0.1:1".to_owned(),
        ..Assignment::empty("1.0.0".to_owned(), session, "/worktree".into(), "/home".into())
    }
}

#[test]
fn unenforced_gate_is_distinguished_from_an_untested_one() {
    let place = tempfile::tempdir().unwrap();
    let (mark, none) = (place.path().join("mark"), place.path().join("none"));
    std::fs::write(&mark, "sang").unwrap();
    let observed = |called, announced, was_asked, message: Option<&str>| Observations {
        called: AtomicBool::new(called),
        gate_connected: AtomicBool::new(announced),
        asked: AtomicBool::new(was_asked),
        told: Mutex::new(message.map(str::to_owned)),
    };
    let (finished, timed_out) = (Ok("done".to_owned()), Err(untried("it was not done in 120 s")));
    let broken = Err(untried("the sandbox could not be made"));
    for (observed, mark, outcome, unenforced) in [
        (observed(true, true, true, Some(DENIAL_TEXT)), &mark, &finished, true),
        (observed(true, false, false, None), &mark, &timed_out, true),
        (observed(true, true, false, Some("ran")), &none, &timed_out, true),
        (observed(true, true, true, Some("ran")), &none, &finished, true),
        (observed(true, false, false, None), &none, &finished, true),
        (observed(true, true, false, None), &none, &finished, true),
        (observed(false, false, false, None), &none, &finished, false),
        (observed(false, true, false, None), &none, &broken, false),
        (observed(true, true, true, None), &none, &timed_out, false),
        (observed(true, true, true, None), &none, &finished, false),
    ] {
        let why = evaluate(&observed, mark, outcome.clone()).unwrap_err();
        assert_eq!(matches!(why, SelfTestError::Lost(_)), unenforced, "{why}");
    }
    assert_eq!(evaluate(&observed(true, true, true, Some(DENIAL_TEXT)), &none, finished), Ok(()));
}

/// A session configures the gate in settings, a run does not: one proves nothing about the other.
#[test]
fn gate_of_a_session_is_tested_with_the_sessions_configuration() {
    let gate = Gate { command: vec!["/gate".to_owned()], seconds: 20 };
    let run = Assignment { gate: Some(gate), ..assignment() };
    let person = Person { program: "claude".to_owned(), ..Person::default() };
    let session = Interactive::new(Arc::new(ClaudeCode), person).unwrap().plan(&run).unwrap();
    let trial = unattended(Arc::new(ClaudeCode));
    assert!(trial.stdio_gate().is_none());
    let trial = trial.plan(&run).unwrap();
    let run_launch = ClaudeCode.plan(&run).unwrap();
    let settings: Vec<&String> =
        session.files.keys().filter(|name| name.ends_with("settings.json")).collect();
    assert_eq!(settings.len(), 2);
    for name in settings {
        assert_eq!(trial.files[name], session.files[name]);
        assert_ne!(
            trial.files[name], run_launch.files[name],
            "the session has its own configuration"
        );
    }
    assert!(matches!(trial.input, Input::Text(_)));
    assert!(!trial.arguments.contains(&"--input-format".to_owned()));
    let print = "--print".to_owned();
    assert!(trial.arguments.contains(&print) && !session.arguments.contains(&print));
}

/// What a CLI reads of its home depends on whether it has instructions there.
#[test]
fn self_test_is_started_like_the_run() {
    let base_instructions =
        vec![Instruction { path: "CLAUDE.md".to_owned(), text: "SECRET".to_owned() }];
    let skills = BTreeMap::from([("one/SKILL.md".to_owned(), "SECRET".to_owned())]);
    let sources = |assignment: &Assignment| {
        let words = ClaudeCode.plan(assignment).unwrap().arguments;
        let index = words.iter().position(|word| word == "--setting-sources").unwrap();
        words[index + 1].clone()
    };
    let settings = |assignment: &Assignment| {
        Gemini.plan(assignment).unwrap().files[".gemini/settings.json"].clone()
    };
    for (instructions, skills, expected) in [
        (Vec::new(), BTreeMap::new(), ""),
        (base_instructions.clone(), BTreeMap::new(), "user"),
        (Vec::new(), skills.clone(), "user"),
        (base_instructions, skills, "user"),
    ] {
        let run = Assignment { instructions, skills, ..assignment() };
        let trial = self_test_assignment(&run, run.home.clone());
        assert_eq!((sources(&run), sources(&trial)), (expected.into(), expected.into()));
        assert_eq!(settings(&run), settings(&trial));
        assert!(!format!("{trial:?}").contains("SECRET"), "it contains nothing of the task");
    }
}
