//! A run ends with all its processes, and starts without anything of the person.

use std::time::Duration;

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use crate::stage::Stage;

#[test]
fn run_at_its_time_limit_leaves_no_process() {
    let stage = Stage::new();
    let model = ScriptedModel::start(Script::new(vec![
        // Claude starts it in its own session, which the end of its process group does not reach.
        Turn::Calls(vec![Call::shell("echo $$ >pid.txt; exec sleep 600")]),
        Turn::say("finished"),
    ]));
    let finished = stage.run(Cli::Claude, &model).limit(Duration::from_secs(30)).run("Sleep.");
    assert_eq!(finished.code, -1);
    assert!(finished.err.ends_with("the time limit of 30s was over\n"), "{}", finished.err);
    let pid = stage.text("pid.txt").expect("the command has started");
    let command_line = std::fs::read_to_string(format!("/proc/{}/cmdline", pid.trim()));
    assert_eq!(command_line.unwrap_or_default(), "", "the process still runs");
}

#[test]
fn run_does_not_see_the_persons_environment() {
    let stage = Stage::new();
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell("env")]),
        Turn::say("finished"),
    ]));
    let run = stage.run(Cli::Codex, &model);
    let home = run.home().display().to_string();
    run.variable("GIVEN", "by the test").run("Look around.").expect_code(0);
    let result = model.result("call_0_0_0");
    assert!(result.contains(&format!("HOME={home}\n")), "{result}");
    assert!(result.contains("GIVEN=by the test\n"), "{result}");
    // Cargo sets this for every test.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!result.contains("CARGO_MANIFEST_DIR"), "{result}");
    let requests = model.requests();
    let posts = requests.iter().filter(|request| request.method == "POST");
    for request in posts {
        let key = request.headers.iter().find(|(name, _)| name == "authorization");
        assert_eq!(key.map(|(_, value)| value.as_str()), Some("Bearer dummy"));
    }
}
