//! `merge_agent` refuses invalid merges without changing anything. The calls come through the socket of the run.

use bailiwick_testkit::scripted_model::{Call, Script, Turn};
use serde_json::json;

use super::ownership::{ALLOWED_SUBAGENTS, WAIT_FOR_GO, call_tool, spawn, stage, tree, wait};

/// Larger than the limit of a merge.
const TOO_LARGE: usize = 16 * 1024 * 1024 + 1;

#[test]
fn refused_merge_changes_nothing() {
    let stage = stage("", "");
    let write_files = "echo theirs > src/theirs.txt; echo theirs > src/both.txt";
    let script = Script::new(vec![
        spawn("HELPER-WORK"),
        wait(),
        spawn("SLOW-WORK"),
        Turn::Calls(vec![Call::shell(WAIT_FOR_GO)]),
        Turn::say("finished"),
    ])
    .when("HELPER-WORK", vec![Turn::Calls(vec![Call::shell(write_files)]), Turn::say("made")])
    .when("SLOW-WORK", vec![Turn::Calls(vec![Call::shell(WAIT_FOR_GO)]), Turn::say("held")]);
    let mut working = stage.agent("parent").task(ALLOWED_SUBAGENTS).start(script);
    let parent = stage.agent("parent");
    let children = || -> Vec<String> {
        let of_parent = tree(&stage).into_iter().filter(|one| one["parent"] == "parent");
        of_parent.map(|one| one["agent"].as_str().unwrap().to_owned()).collect()
    };
    working.wait_until("the parent and both helpers wait", || {
        parent.text("src/begun.txt").is_some()
            && children().iter().any(|id| stage.agent(id).text("src/begun.txt").is_some())
    });
    let (done, slow): (Vec<String>, Vec<String>) =
        children().into_iter().partition(|id| stage.agent(id).text("src/theirs.txt").is_some());
    let ([done], [slow]) = (done.as_slice(), slow.as_slice()) else { panic!("{done:?} {slow:?}") };
    let helper = stage.agent(done);
    let expect_refused = |id: &str, expected: &str| {
        let error = call_tool(&stage, "parent", "merge_agent", json!({ "id": id })).unwrap_err();
        assert!(error.contains(expected), "{error}");
        assert_eq!(parent.text("src/theirs.txt"), None);
    };
    expect_refused(slow, "only the work of an agent that has completed can be merged");
    std::fs::write(parent.path("src/both.txt"), "mine\n").unwrap();
    expect_refused(done, "its changes conflict with yours, nothing was merged (src/both.txt");
    assert_eq!(parent.text("src/both.txt").as_deref(), Some("mine\n"));
    std::fs::remove_file(parent.path("src/both.txt")).unwrap();
    // Files that the caller may not write itself, or that are too large.
    let large = helper.path("src/large.bin");
    std::fs::write(&large, vec![b'x'; TOO_LARGE]).unwrap();
    expect_refused(done, "has more than 16777216 bytes");
    std::fs::remove_file(&large).unwrap();
    let outside = helper.path("outside.txt");
    std::fs::write(&outside, "theirs\n").unwrap();
    expect_refused(done, "`outside.txt` cannot be merged");
    std::fs::remove_file(&outside).unwrap();
    // A valid merge succeeds.
    let plan = call_tool(&stage, "parent", "merge_agent", json!({ "id": done })).unwrap();
    let files = plan["files"].as_array().unwrap().iter();
    let paths: Vec<&str> = files.map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["src/both.txt", "src/theirs.txt"]);
    for id in [slow.as_str(), "parent"] {
        std::fs::write(stage.agent(id).path("src/go.txt"), "").unwrap();
    }
    working.end().expect("completed", 0);
}
