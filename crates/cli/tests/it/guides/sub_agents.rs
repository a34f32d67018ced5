//! docs/guides/sub-agents-and-servers.md: servers and sub-agents are declared, and runs are queried.

use super::fleet::Fleet;
use super::guide::Guide;

pub(crate) fn follow(guide: &mut Guide) {
    let fleet = Fleet::declare();
    fleet.run_with_input("bailiwick secrets set docs token", "a-token-of-nobody");
    for kind in ["agentmcpservers", "agentsubagents"] {
        let document = guide.text("yaml");
        fleet.run_with_input("bailiwick apply -f -", &document);
        let listed = fleet.place.json(&["get", kind]);
        assert_eq!(listed.as_array().unwrap().len(), 1, "{listed:#}");
    }
    let mut shell = fleet.place.shell();
    fleet.serve(&mut shell);
    let run = fleet.start_run();
    guide.fill("adr-…", &run);
    let results = guide.run(&mut shell);
    assert!(results.of("bailiwick get runs adr-…").out.contains(&run));
    fleet.place.wait_for("the end of the run", || {
        let found = fleet.place.json(&["get", "runs", &run]);
        (found["status"]["phase"] == "cancelled").then_some(())
    });
}
