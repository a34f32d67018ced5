//! docs/guides/api.md: runs are listed, ended and watched over HTTP.

use super::fleet::Fleet;
use super::guide::Guide;
use serde_json::Value;

pub(crate) fn follow(guide: &mut Guide) {
    let fleet = Fleet::declared();
    let mut shell = fleet.place.shell();
    let address = fleet.serve(&mut shell);
    let run = fleet.running();
    let token = shell.run("bailiwick tokens new ada --scope operator").expect_code(0).out;
    guide.fill("bwk_…", token.trim());
    guide.fill("localhost:7840", address.replace("127.0.0.1", "localhost"));
    guide.fill("runs/adr-…/", format!("runs/{run}/"));
    guide.interrupted("curl -N", "SYNC");
    let said = guide.run(&mut shell);
    let listed: Value = serde_json::from_str(&said.of("curl -H \"$T\" \"localhost").out).unwrap();
    assert_eq!(listed["items"][0]["metadata"]["name"], run.as_str(), "{listed:#}");
    let ended: Value = serde_json::from_str(&said.of("curl -H \"$T\" -H").out).unwrap();
    assert!(ended.get("error").is_none(), "{ended:#}");
    fleet.place.until("the end of the run", || {
        let found = fleet.place.json(&["get", "runs", &run]);
        (found["status"]["phase"] == "cancelled").then_some(())
    });

    // What is wrong is said in the shape that the guide shows.
    guide.fill("\"…\"", "\"x\"");
    let promised: Value = serde_json::from_str(&guide.text("json")).unwrap();
    let bad = format!("curl -s -H \"$T\" http://{address}/api/v1alpha1/runs?limit=none");
    let said: Value = serde_json::from_str(&shell.run(&bad).expect_code(0).out).unwrap();
    for key in ["code", "message", "correlationId"] {
        assert!(promised["error"][key].is_string() && said["error"][key].is_string(), "{said:#}");
    }
}
