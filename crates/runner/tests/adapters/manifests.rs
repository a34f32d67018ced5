//! Programs that are described by a manifest.

use std::path::Path;

use bailiwick_model::event::EventKind;
use bailiwick_model::problem::Source;
use bailiwick_policy::dialects::Dialect;
use bailiwick_runner::agents::Manifest;
use bailiwick_runner::agents::adapter::{Adapter, Assignment, Conversation};
use bailiwick_testkit::clis::Cli;

use crate::stage::Stage;

const BABYSITTER: &str = r#"
[adapter]
name = "babysitter"
program = "babysit"
wire = "anthropic"
models = ["opus"]
efforts = ["low", "high"]
help-arguments = ["run", "--help"]

[launch]
arguments = ["run", "--settings", "{gate-settings}", ["--model", "{model}"], ["--think={effort}"], "--", "{prompt}"]
resume = ["--continue", "{session}"]
environment = { ANTHROPIC_BASE_URL = "{model-url}" }
conversations = [".babysitter/talks"]

[output]
format = "claude-code"

[gate]
kind = "claude-hooks"
"#;

fn parsed(text: &str) -> Manifest {
    Manifest::parse(&Source::new("adapters/x.toml", text)).unwrap()
}

fn assignment(stage: &Stage) -> Assignment {
    Assignment { model: None, ..stage.assignment(Cli::Claude, "http://127.0.0.1:1") }
}

/// The kernel refuses such an argument without a helpful message.
#[test]
fn prompt_that_is_too_long_for_an_argument_is_refused_with_advice() {
    let stage = Stage::new();
    let long = Assignment { prompt: "x".repeat(200 * 1024), ..assignment(&stage) };
    let refused = parsed(BABYSITTER).plan(&long).unwrap_err().to_string();
    assert!(refused.contains("prompt-on-stdin"), "{refused}");
    let text = BABYSITTER.replace(", \"--\", \"{prompt}\"]", "]\nprompt-on-stdin = true");
    assert!(parsed(&text).plan(&long).is_ok());
}

#[test]
fn program_is_started_as_its_manifest_describes() {
    let manifest = parsed(BABYSITTER);
    assert_eq!((manifest.name(), manifest.program()), ("babysitter", "babysit"));
    assert_eq!(manifest.dialect(), Some(Dialect::Claude));
    let stage = Stage::new();
    let settings = stage.home().join(".bailiwick/settings.json").display().to_string();
    let mut assignment = assignment(&stage);
    assignment.prompt = "Say {model} as it is.".to_owned();
    let launch = manifest.plan(&assignment).unwrap();
    let words = ["run", "--settings", &settings, "--", "Say {model} as it is."];
    assert_eq!(launch.arguments, words, "groups without a value are left out");
    let address = ("ANTHROPIC_BASE_URL".to_owned(), "http://127.0.0.1:1".to_owned());
    assert_eq!(launch.environment, [address]);
    let hooks = &launch.files[".bailiwick/settings.json"];
    assert!(hooks.contains("PreToolUse") && hooks.contains("--announce"), "{hooks}");

    assignment.model = Some("opus".to_owned());
    assignment.effort = Some("low".to_owned());
    assignment.session = Conversation::Resume("talk-7".to_owned());
    let words = manifest.plan(&assignment).unwrap().arguments.join(" ");
    assert!(words.contains("--model opus --think=low --"), "{words}");
    assert!(words.ends_with("--continue talk-7"), "{words}");
}

#[test]
fn assignment_that_the_manifest_cannot_express_is_refused() {
    let stage = Stage::new();
    let manifest = parsed(BABYSITTER);
    let system = Assignment { system_prompt: Some("x".to_owned()), ..assignment(&stage) };
    let error = manifest.plan(&system).unwrap_err().to_string();
    assert!(error.contains("{system-prompt}"), "{error}");
    let ungated = parsed(&BABYSITTER.replace("claude-hooks", "none"));
    let error = ungated.plan(&assignment(&stage)).unwrap_err().to_string();
    assert!(error.contains("cannot be gated"), "{error}");
    let ungrouped_model =
        parsed(&BABYSITTER.replace(r#", ["--model", "{model}"]"#, r#", "--model", "{model}""#));
    let error = ungrouped_model.plan(&assignment(&stage)).unwrap_err().to_string();
    assert!(error.contains("{model}"), "{error}");
}

#[test]
fn unknown_or_missing_manifest_keys_are_refused() {
    let cases = [
        ("program = \"babysit\"", "programme = \"babysit\"", "unknown-key", "adapters/x.toml:4:1"),
        ("{session}", "{sesion}", "unknown-placeholder", "adapters/x.toml:12:26"),
        ("\"claude-code\"", "\"claude\"", "unknown-value", "adapters/x.toml:17:10"),
        ("[gate]\nkind = \"claude-hooks\"\n", "", "missing-key", "adapters/x.toml:1:1"),
        ("\"babysitter\"", "\"codex\"", "name-taken", "adapters/x.toml"),
        (".babysitter/talks", "../talks", "bad-path", "adapters/x.toml"),
    ];
    for (from, to, code, place) in cases {
        let text = BABYSITTER.replace(from, to);
        assert_ne!(text, BABYSITTER, "{from}");
        let problem = Manifest::parse(&Source::new("adapters/x.toml", text.as_str())).unwrap_err();
        assert_eq!((problem.code, problem.place.to_string().as_str()), (code, place), "{problem}");
    }
}

#[test]
fn json_text_is_read_and_unknown_lines_are_kept() {
    let text = BABYSITTER.replace("\"claude-code\"", "\"json-lines\"");
    let mut reader = parsed(&text).reader(Path::new("/w"));
    let events = reader.line(r#"{"event":"x","message":"hello"}"#);
    assert_eq!(events[0].what, EventKind::Text { text: "hello".to_owned() });
    assert_eq!(reader.line("garbage")[0].what, EventKind::Other);
    assert!(reader.end(Some(0), "").completed);
    let text = BABYSITTER.replace("\"claude-code\"", "\"text\"");
    let mut reader = parsed(&text).reader(Path::new("/w"));
    assert_eq!(reader.line("garbage")[0].what, EventKind::Text { text: "garbage".to_owned() });
    let verdict = reader.end(Some(3), "it broke\n");
    assert_eq!((verdict.completed, verdict.words.as_str()), (false, "garbage"));
}

#[test]
fn example_in_the_guide_is_a_valid_manifest() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/agents.md");
    let text = std::fs::read_to_string(guide).unwrap();
    let blocks: Vec<&str> =
        text.split("```toml\n").skip(1).map(|b| b.split("```").next().unwrap()).collect();
    let manifest = parsed(blocks.iter().find(|block| block.contains("[adapter]")).unwrap());
    let stage = Stage::new();
    assert!(manifest.plan(&assignment(&stage)).is_ok());
}
