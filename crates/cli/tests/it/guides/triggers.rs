//! docs/guides/triggers.md: the rule is accepted, and a webhook that is signed by hand is stored.

use super::fleet::{Fleet, WEBHOOK_SECRET};
use super::guide::Guide;

const GENERIC: &str = "apiVersion: bailiwick.dev/v1alpha1\nkind: Repository\nmetadata: { name: nightly }\n\
                       spec:\n  fullName: acme/nightly\n  forge: generic\n  checkout: CHECKOUT\n  \
                       webhookSecretRef: { name: webhook, key: key }\n";

pub(crate) fn follow(guide: &mut Guide) {
    let fleet = Fleet::declare();
    let root = fleet.place.scratch.root().display().to_string();
    fleet.run_with_input("bailiwick apply -f -", &GENERIC.replace("CHECKOUT", &root));
    fleet.run_with_input("bailiwick apply -f -", &fleet.documents.replace("fixer", "mender"));
    let rule = guide.text("yaml");
    fleet.run_with_input("bailiwick apply -f -", &rule);
    let mut shell = fleet.place.shell();
    let address = fleet.serve(&mut shell);
    for condition in ["SourceConfigured", "MatcherValid", "TargetStackReady", "DedupePolicyValid"] {
        let name = "trigger/mend-failing-checks";
        let wait = format!("bailiwick wait {name} --for condition={condition} --timeout 60s");
        let rule = format!("bailiwick describe {name}");
        shell.run(&format!("{wait} || {{ {rule}; false; }}")).expect_code(0);
    }

    let sha = fleet.place.scratch.git(&["rev-parse", "HEAD"]);
    guide.fill("\"sha\": \"…\"", format!("\"sha\": \"{}\"", sha.trim()));
    fleet.place.scratch.write("body.json", &guide.later_text("json"));
    shell.run(&format!("SECRET={WEBHOOK_SECRET}"));
    let curl_options = format!(
        "--fail-with-body -H 'X-Bailiwick-Event: nightly' -H 'X-Bailiwick-Delivery: 1' \
         http://{address}/webhooks/nightly"
    );
    guide.fill("https://fleet.example", format!("http://{address}"));
    guide.run(&mut shell);
    let deliveries = shell.run("bailiwick get deliveries").expect_code(0).out;
    assert!(deliveries.contains("nightly"), "{deliveries}");
    // Negative control: a wrong signature is refused.
    shell.run("tag=00").expect_code(0);
    let forged_request = format!("curl -H \"X-Bailiwick-Signature: t=$now,v1=$tag\" {curl_options} --data-binary @body.json");
    shell.run(&forged_request).expect_code(22);
}
