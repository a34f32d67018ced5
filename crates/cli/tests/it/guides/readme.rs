//! README.md: from `init` to work that has landed, with Claude Code and with agents that need no model.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use super::gate::calls_a_tool;
use super::guide::Guide;
use super::place::{KEY, Place};
use super::run::{ASLEEP, STOPPED_ONCE, is_at_work};
use super::shell::Shell;

/// A project whose tests are one command.
const PACKAGE: &str = r#"{ "name": "app", "scripts": { "test": "test -f src/index.js" } }"#;
const REPORT: &str = "files-touched: src/index.js\ncommands: pass\n";

pub(crate) fn follow(guide: &mut Guide) {
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell("echo '// Adds two numbers.' >> src/index.js")]),
        Turn::say(REPORT),
    ]));
    let editor = "sed -i s/^Find/Look_for/";
    let place = Place::new().with_cli(Cli::Claude).with_model(&model).variable("EDITOR", editor);
    place.scratch.write("package.json", PACKAGE);
    place.scratch.write("src/index.js", "export const add = (a, b) => a + b\n");
    place.scratch.commit("Begin a project");
    let mut shell = place.shell();
    let demonstrated = "new_user::the_demo_runs_on_embedded_defaults_and_leaves_nothing runs it";
    guide.elsewhere("cargo run --release -- demo", demonstrated);
    guide.run(&mut shell);
    guide.elsewhere("scripts/test", "this test is a part of it");
    guide.run(&mut shell);
    begin(guide, &place, &mut shell);
    run_agents(guide, &place, &mut shell);
    stop_agents(guide, &place, &mut shell);
    land(guide, &place, &mut shell);
}

fn begin(guide: &mut Guide, place: &Place, shell: &mut Shell) {
    guide.elsewhere("cargo install", "the programs of this build are used");
    guide.fill("cd your-project", format!("cd {}", place.scratch.root().display()));
    guide.fill("ANTHROPIC_API_KEY=…", format!("ANTHROPIC_API_KEY={KEY}"));
    let said = guide.run(shell);
    assert!(said.of("bailiwick lint").out.contains("no problems"));
    assert!(said.of("bailiwick prepare").out.contains("Look_for the public"), "it was not edited");
    let ran = &said.of("bailiwick run").out;
    assert!(ran.contains("completed") && !ran.contains("FAILS"), "{ran}");
}

fn run_agents(guide: &mut Guide, place: &Place, shell: &mut Shell) {
    place.add_script_task("task.toml", "fix-42", STOPPED_ONCE);
    guide.interrupted("bailiwick logs -f", ASLEEP);
    guide.run_before("bailiwick ps", shell);
    is_at_work(place, "fix-42");
    let said = guide.run(shell);
    assert!(said.of("bailiwick ps").out.contains("fix-42"));
    assert!(said.of("bailiwick stop").out.contains("stopped   fix-42"));
}

fn stop_agents(guide: &mut Guide, place: &Place, shell: &mut Shell) {
    let before = guide.run_before("bailiwick hooks status", shell);
    assert!(before.of("bailiwick explain").out.contains("✗ policy::git-read-only"));
    calls_a_tool(place, shell);
    let said = guide.run(shell);
    assert!(said.of("bailiwick hooks status").out.contains("intact         claude"));
}

fn land(guide: &mut Guide, place: &Place, shell: &mut Shell) {
    place.add_work("fix-43", "src/other.txt", "other\n");
    // Two agents: the work of one lands, that of the other is turned down.
    guide.fill("reject fix-42", "reject fix-43");
    guide.run_before("bailiwick rollback", shell);
    assert_eq!(place.scratch.git(&["show", "main:src/hello.txt"]), "hello\n");
    let runs = place.json(&["ledger", "list"]).to_string();
    assert!(runs.contains("rejected") && runs.contains("merged"), "{runs}");
    guide.run(shell);
    let files = place.scratch.git(&["ls-tree", "-r", "--name-only", "main"]);
    assert!(!files.contains("src/hello.txt"), "it was not taken back: {files}");
}
