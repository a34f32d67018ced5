//! docs/guides/api.md: runs are listed, cancelled and watched over HTTP.

use super::fleet::Fleet;
use super::guide::Guide;
use serde_json::Value;

pub(crate) fn follow(guide: &mut Guide) {
    let fleet = Fleet::declare();
    let mut shell = fleet.place.shell();
    let address = fleet.serve(&mut shell);
    let run = fleet.start_run();
    let token = shell.run("bailiwick tokens new ada --scope operator").expect_code(0).out;
    guide.fill("bwk_…", token.trim());
    guide.fill("localhost:7840", address.replace("127.0.0.1", "localhost"));
    guide.fill("runs/adr-…/", format!("runs/{run}/"));
    guide.interrupted("curl -N", "SYNC");
    let results = guide.run(&mut shell);
    let listed: Value = serde_json::from_str(&results.of("curl -H \"$T\" \"localhost").out).unwrap();
    assert_eq!(listed["items"][0]["metadata"]["name"], run.as_str(), "{listed:#}");
    let ended: Value = serde_json::from_str(&results.of("curl -H \"$T\" -H").out).unwrap();
    assert!(ended.get("error").is_none(), "{ended:#}");
    fleet.place.wait_for("the end of the run", || {
        let found = fleet.place.json(&["get", "runs", &run]);
        (found["status"]["phase"] == "cancelled").then_some(())
    });

    // Errors have the format that the guide shows.
    guide.fill("\"…\"", "\"x\"");
    let documented: Value = serde_json::from_str(&guide.text("json")).unwrap();
    let invalid_request = format!("curl -s -H \"$T\" http://{address}/api/v1alpha1/runs?limit=none");
    let error: Value = serde_json::from_str(&shell.run(&invalid_request).expect_code(0).out).unwrap();
    for key in ["code", "message", "correlationId"] {
        assert!(documented["error"][key].is_string() && error["error"][key].is_string(), "{error:#}");
    }
}
