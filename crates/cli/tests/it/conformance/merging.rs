//! What `merge_agent` refuses, and that a refusal changes nothing. The calls come through the socket of the run.

use bailiwick_testkit::scripted_model::{Call, Script, Turn};
use serde_json::json;

use super::ownership::{HOLDS, MAY, asked, spawn, stage, tree, wait};

/// More than one merge may have.
const TOO_LARGE: usize = 16 * 1024 * 1024 + 1;

#[test]
fn merge_of_work_that_does_not_fit_is_refused_and_changes_nothing() {
    let stage = stage("", "");
    let works = "echo theirs > src/theirs.txt; echo theirs > src/both.txt";
    let script = Script::new(vec![
        spawn("HELPER-WORK"),
        wait(),
        spawn("SLOW-WORK"),
        Turn::Calls(vec![Call::shell(HOLDS)]),
        Turn::say("finished"),
    ])
    .when("HELPER-WORK", vec![Turn::Calls(vec![Call::shell(works)]), Turn::say("made")])
    .when("SLOW-WORK", vec![Turn::Calls(vec![Call::shell(HOLDS)]), Turn::say("held")]);
    let mut working = stage.agent("parent").task(MAY).start(script);
    let parent = stage.agent("parent");
    let below = || -> Vec<String> {
        let own = tree(&stage).into_iter().filter(|one| one["parent"] == "parent");
        own.map(|one| one["agent"].as_str().unwrap().to_owned()).collect()
    };
    working.until("it holds with both helpers", || {
        parent.text("src/begun.txt").is_some()
            && below().iter().any(|id| stage.agent(id).text("src/begun.txt").is_some())
    });
    let (made, slow): (Vec<String>, Vec<String>) =
        below().into_iter().partition(|id| stage.agent(id).text("src/theirs.txt").is_some());
    let ([made], [slow]) = (made.as_slice(), slow.as_slice()) else { panic!("{made:?} {slow:?}") };
    let helper = stage.agent(made);
    let refused = |id: &str, words: &str| {
        let refusal = asked(&stage, "parent", "merge_agent", json!({ "id": id })).unwrap_err();
        assert!(refusal.contains(words), "{refusal}");
        assert_eq!(parent.text("src/theirs.txt"), None);
    };
    refused(slow, "only the work of an agent that has completed can be merged");
    std::fs::write(parent.path("src/both.txt"), "mine\n").unwrap();
    refused(made, "its changes conflict with yours, nothing was merged (src/both.txt");
    assert_eq!(parent.text("src/both.txt").as_deref(), Some("mine\n"));
    std::fs::remove_file(parent.path("src/both.txt")).unwrap();
    // Files that its caller could not write itself, or that are too large.
    let large = helper.path("src/large.bin");
    std::fs::write(&large, vec![b'x'; TOO_LARGE]).unwrap();
    refused(made, "has more than 16777216 bytes");
    std::fs::remove_file(&large).unwrap();
    let outside = helper.path("outside.txt");
    std::fs::write(&outside, "theirs\n").unwrap();
    refused(made, "`outside.txt` cannot be merged");
    std::fs::remove_file(&outside).unwrap();
    // What fits is merged.
    let plan = asked(&stage, "parent", "merge_agent", json!({ "id": made })).unwrap();
    let files = plan["files"].as_array().unwrap().iter();
    let paths: Vec<&str> = files.map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["src/both.txt", "src/theirs.txt"]);
    for id in [slow.as_str(), "parent"] {
        std::fs::write(stage.agent(id).path("src/go.txt"), "").unwrap();
    }
    working.end().expect("completed", 0);
}
