//! docs/guides/sub-agents-and-servers.md: servers and sub-agents are declared, and runs are asked about.

use super::fleet::Fleet;
use super::guide::Guide;

pub(crate) fn follow(guide: &mut Guide) {
    let fleet = Fleet::declared();
    fleet.given("bailiwick secrets set docs token", "a-token-of-nobody");
    for kind in ["agentmcpservers", "agentsubagents"] {
        let document = guide.text("yaml");
        fleet.given("bailiwick apply -f -", &document);
        let listed = fleet.place.json(&["get", kind]);
        assert_eq!(listed.as_array().unwrap().len(), 1, "{listed:#}");
    }
    let mut shell = fleet.place.shell();
    fleet.serve(&mut shell);
    let run = fleet.running();
    guide.fill("adr-…", &run);
    let said = guide.run(&mut shell);
    assert!(said.of("bailiwick get runs adr-…").out.contains(&run));
    fleet.place.until("the end of the run", || {
        let found = fleet.place.json(&["get", "runs", &run]);
        (found["status"]["phase"] == "cancelled").then_some(())
    });
}
