//! docs/guides/admission.md: what it declares is enough for the stack of the first fleet, and nothing less is.

use super::fleet::Fleet;
use super::guide::Guide;

/// What the blocks of the guide declare, in their order.
const DECLARED: [&str; 4] =
    ["agentsecretgrants", "agentconfiggrants", "agentskills", "agentcontextlabels"];

pub(crate) fn follow(guide: &mut Guide) {
    let fleet = Fleet::declared();
    fleet.given("bailiwick secrets set tracker token", "a-token-of-nobody");
    for kind in DECLARED {
        let document = guide.text("yaml");
        fleet.given("bailiwick apply -f -", &document);
        let listed = fleet.place.json(&["get", kind]);
        assert_eq!(listed.as_array().unwrap().len(), 1, "{listed:#}");
    }
    let lines = guide.text("yaml").trim_end().replace('\n', "\n  ");
    let documents = fleet.documents.replace("  toolPolicy: tools", &format!("  {lines}"));
    assert_ne!(documents, fleet.documents, "the stack is not changed");
    fleet.given("bailiwick apply -f -", &documents);
    let mut shell = fleet.place.shell();
    // It waits until the stack is ready.
    fleet.serve(&mut shell);
    let is_admitted = |wanted: &str| {
        let stack = fleet.place.json(&["get", "stacks", "fixer"]);
        let conditions = stack["status"]["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|one| one["type"] == "SecretsAdmitted");
        (found.unwrap()["status"] == wanted).then_some(())
    };
    fleet.place.until("the admitted secret", || is_admitted("True"));
    // Control: the secret is admitted because of its grant.
    shell.run("bailiwick delete secretgrant tracker-for-release-notes").expect_code(0);
    fleet.place.until("the missing grant", || is_admitted("False"));
    let requirements = shell.run("bailiwick get requirements -o yaml").expect_code(0).out;
    assert!(requirements.contains("kind: AgentSecretGrant"), "{requirements}");
}
