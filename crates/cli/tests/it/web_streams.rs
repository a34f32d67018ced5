//! Pages of running agents in a real Chromium, whose connection is cut and whose server is killed: at the end they show
//! what the store has, nothing lost and nothing twice.

use bailiwick_testkit::browser::{chromium, node_packages};
use bailiwick_testkit::{Depth, Scratch, figure};
use serde_json::Value;

use crate::BAILIWICK;
use crate::run::{events, kinds, run};

const ROLE: &str = "[role]\nname = \"talker\"\ndescription = \"d\"\n[capabilities]\nrequired = \
                    [\"scope::files-whitelist\"]\n[tools]\nallowed = [\"*\"]\n";

/// An agent that says a line, and the next one only when it is allowed to.
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
    // One for each cut, and the last one.
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
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(seen["faults"], serde_json::json!([]));
    let grown: Vec<u64> = serde_json::from_value(seen["grown"].clone()).unwrap();
    assert_eq!(
        grown,
        vec![count; usize::try_from(cuts).unwrap()],
        "every agent wrote at every cut"
    );
    assert_eq!(seen["list"]["live"], seen["list"]["stored"]);
    assert_eq!(seen["list"]["live"].as_array().unwrap().len(), ids.len());
    let mut rows = 0;
    for id in &ids {
        let page = &seen["pages"][id];
        let shown = page["live"].as_array().unwrap();
        let stored = page["stored"].as_array().unwrap();
        let extra: Vec<&Value> = shown.iter().filter(|row| !stored.contains(row)).collect();
        let lost: Vec<&Value> = stored.iter().filter(|row| !shown.contains(row)).collect();
        assert!(shown == stored, "{id}: lost {lost:?}, too much {extra:?}, of {}", stored.len());
        rows += shown.len();
        let said = shown.iter().filter_map(|row| row[1].as_str());
        let said: Vec<&str> = said.filter(|text| text.starts_with("Line ")).collect();
        let logged = kinds(&events(&scratch, id), "text");
        let kept = logged.iter().map(|event| event["text"].as_str().unwrap());
        let kept: Vec<&str> = kept.filter(|text| text.starts_with("Line ")).collect();
        assert_eq!(said, kept, "{id}");
        let complete: Vec<String> = (1..=lines).map(|number| format!("Line {number}")).collect();
        assert_eq!(kept, complete, "positive control: {id}");
    }
    figure(&format!(
        "pages: {cuts} cut connections and {kills} killed servers while {count} agents wrote, {rows} rows, 0 lost or \
         doubled"
    ));
}
