//! docs/guides/serve.md: the first fleet, from its secrets to a pull request on the forge.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::forge::{RunSeed, StandIn, Told};
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use serde_json::Value;

use super::guide::Guide;
use super::place::{KEY, Place};
use super::shell::Shell;

const WEBHOOK_SECRET: &str = "the-webhook-secret";
/// The script of the broken build, and the fixed one.
const BROKEN: &str = "exit 1\n";
const FIXED: &str = "exit 0\n";

pub(crate) fn follow(guide: &mut Guide) {
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell("sh src/build.sh")]),
        Turn::Calls(vec![Call::shell("echo 'exit 0' > Makefile")]),
        Turn::Calls(vec![Call::shell("echo 'exit 0' > src/build.sh && sh src/build.sh")]),
        Turn::say("The build returned 1; it returns 0 now."),
    ]));
    let place = Place::new().with_cli(Cli::Claude).with_model(&model);
    place.scratch.write("src/build.sh", BROKEN);
    let sha = place.scratch.commit("Break the build");
    let forge = StandIn::gitea("acme/app");
    forge.take(&place.scratch.root(), "main");
    place.scratch.write("token.txt", &forge.token());
    place.scratch.write("webhook.txt", WEBHOOK_SECRET);

    guide.fill("https://forge.example/api/v1", forge.api_url());
    guide.fill("/srv/app", place.scratch.root().display().to_string());
    guide.fill("ANTHROPIC_API_KEY=…", format!("ANTHROPIC_API_KEY={KEY}"));
    let mut shell = place.shell();
    guide.run(&mut shell);
    let fleet = guide.text("yaml");
    place.scratch.write("fleet.yaml", &fleet);
    guide.exits("bailiwick diff -f", 1);
    guide.background("bailiwick serve");
    // Tests run in parallel, so each server gets its own port.
    guide.fill("bailiwick serve", "bailiwick serve --listen 127.0.0.1:0");
    guide.run(&mut shell);
    let address = shell.wait_for_background("listening on http://");
    guide.fill("bailiwick serve", "bailiwick serve");

    let run = report_failed_check(&place, &forge, &sha, &address);
    let first = place.wait_for("an approval request", || {
        let found = place.json(&["get", "runs", &run]);
        assert_ne!(found["status"]["phase"], "failed", "{found:#}");
        let all = place.json(&["get", "approvals", "--field", "phase=pending"]);
        all.as_array().unwrap().first().map(name)
    });
    guide.fill("adr-…", &run);
    guide.fill("aap-…", first);
    guide.fill("wd-…", name(&place.json(&["get", "deliveries"])[0]));
    let shown = guide.run_before("bailiwick runs logs", &mut shell);
    assert!(shown.of("bailiwick get executions").out.contains("created"));
    assert!(shown.of("bailiwick describe stack fixer").out.contains("Ready"));
    approve_until_success(&place, &mut shell, &run);
    let shown = guide.run(&mut shell);
    assert!(shown.of("bailiwick runs logs").out.contains("scope::files-whitelist"));
    cancel_other_run(&place, &mut shell, &run);

    // As the introduction of the guide says: exactly the approved work is on the forge.
    let found = place.json(&["get", "runs", &run]);
    let agent = found["status"]["agentMuxRunId"].as_str().unwrap();
    let pushed = forge.git(&["show", &format!("agent/{agent}:src/build.sh")]);
    assert_eq!(pushed, FIXED);
    assert_eq!(forge.git(&["diff", "--name-only", "main", &format!("agent/{agent}")]), "src/build.sh\n");
    let items = forge.items();
    let pulls: Vec<_> = items.iter().filter_map(|(_, item)| item.pull.as_ref()).collect();
    assert_eq!(pulls.len(), 1, "{pulls:#?}");
    assert_eq!(pulls[0].head, format!("agent/{agent}"));
    assert_eq!(forge.breaches(), [] as [String; 0]);
}

/// Delivers a webhook about a failed check. Returns the run that it starts.
fn report_failed_check(place: &Place, forge: &StandIn, sha: &str, address: &str) -> String {
    let (check, _) = forge.add_run(&RunSeed {
        sha,
        branch: "main",
        conclusion: Some("failure"),
        ..RunSeed::default()
    });
    let webhook = forge.webhook(&Told::RunEnded { run: check });
    let url = format!("http://{address}/webhooks/app");
    let (status, response) = webhook.deliver(&url, WEBHOOK_SECRET);
    assert_eq!(status, 202, "{response}");
    place.wait_for("a run", || place.json(&["get", "runs"]).as_array().unwrap().first().map(name))
}

/// Approves all further requests until the run succeeds.
fn approve_until_success(place: &Place, shell: &mut Shell, run: &str) {
    let phase = place.wait_for("the end of the run", || {
        let pending = place.json(&["get", "approvals", "--field", "phase=pending"]);
        for approval in pending.as_array().unwrap() {
            shell.run(&format!("bailiwick approvals approve {}", name(approval))).expect_code(0);
        }
        let run = place.json(&["get", "runs", run]);
        let phase = run["status"]["phase"].as_str().unwrap_or_default().to_owned();
        ["succeeded", "failed", "cancelled"].contains(&phase.as_str()).then_some(phase)
    });
    assert_eq!(phase, "succeeded", "{:#}", place.json(&["get", "runs", run]));
}

/// Cancels the run that the last command of the guide has started.
fn cancel_other_run(place: &Place, shell: &mut Shell, run: &str) {
    let runs = place.json(&["get", "runs"]);
    let others: Vec<String> = runs.as_array().unwrap().iter().map(name).collect();
    let others: Vec<String> = others.into_iter().filter(|other| other != run).collect();
    assert_eq!(others.len(), 1, "{runs:#}");
    for other in &others {
        shell.run(&format!("bailiwick runs cancel {other}")).expect_code(0);
        shell.run(&format!("bailiwick wait run/{other} --for phase=cancelled")).expect_code(0);
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}
