//! A gate holds a push back in every CLI; without it the push happens.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use crate::stage::{REASON, Stage};

fn probe(cli: Cli) {
    let stage = Stage::new();
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![
            Call::write(stage.path("notes.txt"), "one\ntwo\n"),
            Call::shell("git push origin HEAD:main"),
        ]),
        Turn::Calls(vec![Call::read(stage.path("notes.txt"))]),
        Turn::Calls(vec![Call::edit(stage.path("notes.txt"), "two\n", "three\n")]),
        Turn::say("finished"),
    ]));
    let begun = std::time::Instant::now();
    let ran = stage.run(cli, &model).gate(stage.gate()).run("Do the work.");
    println!("{:?} {:?}", begun.elapsed(), ran.code);
    println!("OUT {}\nERR {}", ran.out, ran.err);
    for r in model.requests() {
        println!("REQ {} {} {}", r.method, r.path, r.status);
    }
    println!("RESULTS {:#?}", model.results());
    for a in stage.asked() {
        println!("ASKED {a}");
    }
    println!("pushed {} text {:?}", stage.pushed(), stage.text("notes.txt"));
    if let Some(r) = model.requests().last() {
        let names: Vec<_> = r.body["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|t| t.to_string().chars().take(400).collect::<String>())
            .collect();
        println!("TOOLS {names:#?}");
    }
    let _ = REASON;
}

#[test]
fn claude() {
    probe(Cli::Claude)
}
#[test]
fn codex() {
    probe(Cli::Codex)
}
#[test]
fn gemini() {
    probe(Cli::Gemini)
}
#[test]
fn opencode() {
    probe(Cli::OpenCode)
}
