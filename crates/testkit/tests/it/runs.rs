//! A run ends with all that it started, and starts with nothing of the person's.

use std::time::Duration;

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use crate::stage::Stage;

#[test]
fn a_run_whose_time_is_over_leaves_nothing_behind() {
    let stage = Stage::new();
    let model = ScriptedModel::start(Script::new(vec![
        // Claude gives it a session of its own, where its process group's end does not reach it.
        Turn::Calls(vec![Call::shell("echo $$ >pid.txt; exec sleep 600")]),
        Turn::say("finished"),
    ]));
    let ran = stage.run(Cli::Claude, &model).limit(Duration::from_secs(30)).run("Sleep.");
    assert_eq!(ran.code, -1);
    assert!(ran.err.ends_with("the time limit of 30s was over\n"), "{}", ran.err);
    let pid = stage.text("pid.txt").expect("the command has begun");
    let seen = std::fs::read_to_string(format!("/proc/{}/cmdline", pid.trim()));
    assert_eq!(seen.unwrap_or_default(), "", "it still runs");
}

#[test]
fn a_run_knows_nothing_of_the_person() {
    let stage = Stage::new();
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell("env")]),
        Turn::say("finished"),
    ]));
    let run = stage.run(Cli::Codex, &model);
    let home = run.home().display().to_string();
    run.variable("GIVEN", "by the test").run("Look around.").expect_code(0);
    let told = model.result("call_0_0_0");
    assert!(told.contains(&format!("HOME={home}\n")), "{told}");
    assert!(told.contains("GIVEN=by the test\n"), "{told}");
    // Cargo sets this for every test.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!told.contains("CARGO_MANIFEST_DIR"), "{told}");
    let requests = model.requests();
    let asked = requests.iter().filter(|request| request.method == "POST");
    for request in asked {
        let key = request.headers.iter().find(|(name, _)| name == "authorization");
        assert_eq!(key.map(|(_, value)| value.as_str()), Some("Bearer dummy"));
    }
}
