//! README.md: from `init` to landed work, with Claude Code and with scripted agents.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use super::gate::run_hook;
use super::guide::Guide;
use super::place::{KEY, Place};
use super::run::{SLEEP_COMMAND, STOPPED_ONCE};
use super::shell::Shell;

/// A project whose tests are a single command.
const MAKEFILE: &str = "test:\n\ttest -f src/index.js\n";
/// The credentials file of Claude Code for a user who is logged in.
const LOGIN: &str = r#"{"claudeAiOauth":{"accessToken":"sk-ant-oat01-a-token-of-nobody"}}"#;
const REPORT: &str = "files-touched: src/index.js\ncommands: pass\n";

pub(crate) fn follow(guide: &mut Guide) {
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell("echo '// Adds two numbers.' >> src/index.js")]),
        Turn::say(REPORT),
    ]));
    // Adds a first line to the body of the task.
    let editor = "sed -i /^text/aMend_the_greeting.";
    let place = Place::new().with_cli(Cli::Claude).with_model(&model).variable("EDITOR", editor);
    place.scratch.write("Makefile", MAKEFILE);
    place.scratch.write("src/index.js", "export const add = (a, b) => a + b\n");
    place.scratch.commit("Begin a project");
    let mut shell = place.shell();
    let demonstrated = "new_user::demo_runs_on_embedded_defaults_and_leaves_no_files runs it";
    guide.elsewhere("cargo run --release -- demo", demonstrated);
    guide.run(&mut shell);
    guide.elsewhere("cargo install", "the programs of this build are used");
    guide.run(&mut shell);
    begin(guide, &place, &mut shell);
    run_with_a_subscription(guide, &place, &mut shell);
    run_agents(guide, &place, &mut shell);
    stop_agents(guide, &place, &mut shell);
    land(guide, &place, &mut shell);
    guide.elsewhere("scripts/dist", "scripts/test runs it at full depth");
    guide.run(&mut shell);
    guide.elsewhere("scripts/test", "this test is part of it");
    guide.run(&mut shell);
}

fn begin(guide: &mut Guide, place: &Place, shell: &mut Shell) {
    guide.fill("cd your-project", format!("cd {}", place.scratch.root().display()));
    guide.fill("ANTHROPIC_API_KEY=…", format!("ANTHROPIC_API_KEY={KEY}"));
    let results = guide.run(shell);
    assert!(results.of("bailiwick lint").out.contains("no problems"));
    assert!(results.of("bailiwick prepare").out.contains("Mend_the_greeting."), "the task was not edited");
    let started = guide.run(shell);
    let ran = &started.of("bailiwick run").out;
    assert!(ran.contains("completed") && !ran.contains("FAIL "), "{ran}");
}

fn run_with_a_subscription(guide: &mut Guide, place: &Place, shell: &mut Shell) {
    let directory = place.scratch.place().join("home/.claude");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join(".credentials.json"), LOGIN).unwrap();
    shell.run("unset ANTHROPIC_API_KEY").expect_code(0);
    let results = guide.run(shell);
    let ran = &results.of("bailiwick run").out;
    assert!(ran.contains("completed") && !ran.contains("FAIL "), "{ran}");
}

fn run_agents(guide: &mut Guide, place: &Place, shell: &mut Shell) {
    place.add_script_task("task.toml", "fix-42", STOPPED_ONCE);
    guide.interrupted("bailiwick logs -f", SLEEP_COMMAND);
    let results = guide.run(shell);
    assert!(results.of("bailiwick ps").out.contains("fix-42"));
    assert!(results.of("bailiwick stop").out.contains("stopped   fix-42"));
}

fn stop_agents(guide: &mut Guide, place: &Place, shell: &mut Shell) {
    let before = guide.run_before("bailiwick hooks status", shell);
    assert!(before.of("bailiwick explain").out.contains("✗ policy::git-read-only"));
    run_hook(place, shell);
    let results = guide.run(shell);
    assert!(results.of("bailiwick hooks status").out.contains("intact         claude"));
}

fn land(guide: &mut Guide, place: &Place, shell: &mut Shell) {
    place.add_work("fix-43", "src/other.txt", "other\n");
    // Two agents: the work of one lands, and that of the other is rejected.
    guide.fill("reject fix-42", "reject fix-43");
    guide.run_before("bailiwick rollback", shell);
    assert_eq!(place.scratch.git(&["show", "main:src/hello.txt"]), "hello\n");
    let runs = place.json(&["ledger", "list"]).to_string();
    assert!(runs.contains("rejected") && runs.contains("merged"), "{runs}");
    guide.run(shell);
    let files = place.scratch.git(&["ls-tree", "-r", "--name-only", "main"]);
    assert!(!files.contains("src/hello.txt"), "it was not rolled back: {files}");
}
