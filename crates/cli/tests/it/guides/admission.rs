//! docs/guides/admission.md: the stack of the first fleet is admitted with its declarations, and not without them.

use super::fleet::Fleet;
use super::guide::Guide;

/// The kinds that the blocks of the guide declare, in order.
const DECLARED: [&str; 4] =
    ["agentsecretgrants", "agentconfiggrants", "agentskills", "agentcontextlabels"];

pub(crate) fn follow(guide: &mut Guide) {
    let fleet = Fleet::declare();
    fleet.run_with_input("bailiwick secrets set tracker token", "a-token-of-nobody");
    for kind in DECLARED {
        let document = guide.text("yaml");
        fleet.run_with_input("bailiwick apply -f -", &document);
        let listed = fleet.place.json(&["get", kind]);
        assert_eq!(listed.as_array().unwrap().len(), 1, "{listed:#}");
    }
    let lines = guide.text("yaml").trim_end().replace('\n', "\n  ");
    let documents = fleet.documents.replace("  toolPolicy: tools", &format!("  {lines}"));
    assert_ne!(documents, fleet.documents, "the stack is not changed");
    fleet.run_with_input("bailiwick apply -f -", &documents);
    let mut shell = fleet.place.shell();
    // It waits until the stack is ready.
    fleet.serve(&mut shell);
    let is_admitted = |wanted: &str| {
        let stack = fleet.place.json(&["get", "stacks", "fixer"]);
        let conditions = stack["status"]["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|one| one["type"] == "SecretsAdmitted");
        (found.unwrap()["status"] == wanted).then_some(())
    };
    fleet.place.wait_for("the admitted secret", || is_admitted("True"));
    // Negative control: without its grant the secret is not admitted.
    shell.run("bailiwick delete secretgrant tracker-for-release-notes").expect_code(0);
    fleet.place.wait_for("the missing grant", || is_admitted("False"));
    let requirements = shell.run("bailiwick get requirements -o yaml").expect_code(0).out;
    assert!(requirements.contains("kind: AgentSecretGrant"), "{requirements}");
}
