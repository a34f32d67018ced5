//! A conversation is resumed in a new home that contains nothing but the conversation.

use std::path::Path;

use bailiwick_runner::agents::adapter::Conversation;
use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Script, ScriptedModel, Turn};

use crate::stage::{Stage, adapter};

fn resumes(cli: Cli) {
    let stage = Stage::new();
    let turns = vec![Turn::say("the first answer"), Turn::say("the second answer")];
    let model = ScriptedModel::start(Script::new(turns));
    let mut assignment = stage.assignment(cli, &model.base_url());
    let first = stage.launch(cli, &assignment);
    assert_eq!(first.verdict.words, "the first answer", "{}\n{}", first.out, first.err);

    let old = assignment.home.with_extension("old");
    std::fs::rename(&assignment.home, &old).unwrap();
    for path in adapter(cli).conversations() {
        carry_over(&old.join(&path), &assignment.home.join(&path));
    }
    assignment.session = Conversation::Resume(first.session());
    assignment.prompt = "Go on with it.".to_owned();
    let second = stage.launch(cli, &assignment);
    std::fs::remove_dir_all(old).unwrap();
    assert_eq!(second.code, Some(0), "{}\n{}", second.out, second.err);
    assert_eq!(second.verdict.words, "the second answer", "{}\n{}", second.out, second.err);
    let last = model.requests().last().unwrap().body.to_string();
    for text in ["Do the work.", "the first answer", "Go on with it."] {
        assert!(last.contains(text), "{text} is not in {last}");
    }
    let announcements =
        stage.gate_calls().iter().filter(|(words, _)| words.ends_with("--announce")).count();
    assert!(announcements >= 2, "the gate was announced {announcements} times");
}

fn carry_over(from: &Path, to: &Path) {
    if from.is_dir() {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name();
            carry_over(&from.join(&name), &to.join(&name));
        }
    } else if from.is_file() {
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, to).unwrap();
    }
}

#[test]
fn claude_code_resumes_a_conversation() {
    resumes(Cli::Claude);
}

#[test]
fn codex_resumes_a_conversation() {
    resumes(Cli::Codex);
}

#[test]
fn gemini_resumes_a_conversation() {
    resumes(Cli::Gemini);
}

#[test]
fn opencode_resumes_a_conversation() {
    resumes(Cli::OpenCode);
}
