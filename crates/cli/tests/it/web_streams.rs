//! Pages of running agents in a real Chromium, while connections are cut and the server is killed: at the end they
//! show exactly the rows of the store.

use bailiwick_testkit::browser::{chromium, node_packages};
use bailiwick_testkit::{Depth, Scratch, figure};
use serde_json::Value;

use crate::BAILIWICK;
use crate::run::{events, kinds, run};

const ROLE: &str = "[role]\nname = \"talker\"\ndescription = \"d\"\n[capabilities]\nrequired = \
                    [\"scope::files-whitelist\"]\n[tools]\nallowed = [\"*\"]\n";

/// An agent that prints one line at a time, and waits for a file before the next.
fn task(id: &str, lines: u64) -> String {
    let step = |number: u64| {
        format!(
            "[[agent.script]]\ndo = \"say\"\ntext = \"Line {number}\"\n\
             [[agent.script]]\ndo = \"shell\"\ncommand = \"until [ -e src/go-{number} ]; do sleep 0.1; done\"\n"
        )
    };
    let steps: String = (1..=lines).map(step).collect();
    format!(
        "[task]\nrole = \"talker\"\nagent-id = \"{id}\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n\
         [body]\ntext = \"Talk.\"\n[agent]\ncli = \"script\"\n{steps}"
    )
}

#[test]
fn pages_equal_the_store_after_cut_streams_and_killed_servers() {
    let depth = Depth::from_env();
    let (count, cuts, kills) = (depth.cases(20), depth.cases(50), depth.cases(10));
    // One line for each cut, and a last one.
    let lines = cuts + 1;
    let scratch = Scratch::repository();
    scratch.write(".bailiwick/roles/talker.toml", ROLE);
    scratch.write("src/a.txt", "a\n");
    let ids: Vec<String> = (0..count).map(|number| format!("talker-{number}")).collect();
    for id in &ids {
        scratch.write(&format!("{id}.toml"), &task(id, lines));
    }
    scratch.commit("start");
    for id in &ids {
        let task = format!("{id}.toml");
        run(&scratch, &["run", "-d", &task, "--land", "never"]).expect_code(0);
    }
    let output = scratch
        .command("node")
        .arg(crate::workspace().join("crates/cli/tests/browser/streams.mjs"))
        .arg(BAILIWICK)
        .arg(scratch.state().join("worktrees"))
        .args([cuts.to_string(), kills.to_string()])
        .args(&ids)
        .env("CHROMIUM", chromium())
        .env("NODE_MODULES", node_packages())
        .output()
        .expect("node can be run");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["faults"], serde_json::json!([]));
    let grown: Vec<u64> = serde_json::from_value(report["grown"].clone()).unwrap();
    assert_eq!(
        grown,
        vec![count; usize::try_from(cuts).unwrap()],
        "every agent printed a line at every cut"
    );
    assert_eq!(report["list"]["live"], report["list"]["stored"]);
    assert_eq!(report["list"]["live"].as_array().unwrap().len(), ids.len());
    let mut rows = 0;
    for id in &ids {
        let page = &report["pages"][id];
        let shown = page["live"].as_array().unwrap();
        let stored = page["stored"].as_array().unwrap();
        let extra: Vec<&Value> = shown.iter().filter(|row| !stored.contains(row)).collect();
        let lost: Vec<&Value> = stored.iter().filter(|row| !shown.contains(row)).collect();
        assert!(shown == stored, "{id}: lost {lost:?}, extra {extra:?}, of {}", stored.len());
        rows += shown.len();
        let shown_lines = shown.iter().filter_map(|row| row[1].as_str());
        let shown_lines: Vec<&str> = shown_lines.filter(|text| text.starts_with("Line ")).collect();
        let logged = kinds(&events(&scratch, id), "text");
        let logged_lines = logged.iter().map(|event| event["text"].as_str().unwrap());
        let logged_lines: Vec<&str> =
            logged_lines.filter(|text| text.starts_with("Line ")).collect();
        assert_eq!(shown_lines, logged_lines, "{id}");
        let complete: Vec<String> = (1..=lines).map(|number| format!("Line {number}")).collect();
        assert_eq!(logged_lines, complete, "positive control: {id}");
    }
    figure(&format!(
        "pages: {cuts} cut connections and {kills} killed servers while {count} agents wrote, {rows} rows, 0 lost or \
         duplicated"
    ));
}
