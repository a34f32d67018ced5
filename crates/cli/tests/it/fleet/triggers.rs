//! Rules on the command line: test, replay and the lifecycle.

use bailiwick_testkit::forge::{RunSeed, Told};
use serde_json::{Value, json};

use super::{Place, SECRET, Serving};

/// Sends a delivery about a failed check, and returns its name when it is stored.
pub(super) fn store_delivery(place: &Place) -> String {
    let sha = place.scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let serving = Serving::start(place);
    let seed =
        RunSeed { sha: &sha, branch: "main", conclusion: Some("failure"), ..RunSeed::default() };
    let (run, _) = place.forge.add_run(&seed);
    let hook = format!("http://{}/webhooks/app", serving.address);
    let (status, response) = place.forge.webhook(&Told::RunEnded { run }).deliver(&hook, SECRET);
    assert_eq!(status, 202, "{response}");
    place.wait_for("a delivery", || {
        let all = place.json(&["get", "deliveries", "--field", "evaluated=true"]);
        all[0]["metadata"]["name"].as_str().map(str::to_owned)
    })
}

fn runs(place: &Place) -> usize {
    place.json(&["get", "runs"]).as_array().unwrap().len()
}

#[test]
fn trigger_test_changes_nothing_and_trigger_replay_and_trigger_materialize_do() {
    let place = Place::new();
    let delivery = store_delivery(&place);
    assert_eq!(runs(&place), 0, "a draft starts nothing");
    let executions = || place.json(&["get", "executions"]).as_array().unwrap().clone();
    let before = executions();
    place.run(&["trigger", "enable", "broken"]).expect_code(0);
    let trial = place.json(&["trigger", "test", "broken", "--delivery", &delivery]);
    assert_eq!(trial["matched"], true, "{trial:#}");
    assert!(trial["renderedPrompt"].as_str().unwrap().contains("A check failed"), "{trial:#}");
    assert!(!trial["expectedActions"].as_array().unwrap().is_empty(), "{trial:#}");
    assert_eq!((executions(), runs(&place)), (before, 0));
    assert_eq!((&trial["trustTier"], &trial["lifecycle"]), (&json!("trusted"), &json!("active")));
    let shown = place.run(&["trigger", "test", "broken", "--delivery", &delivery]).expect_code(0);
    for word in ["trust     trusted", "key       ", "group     "] {
        assert!(shown.out.contains(word), "{word}: {}", shown.out);
    }
    let materialized = place.json(&["trigger", "materialize", "broken", "--delivery", &delivery]);
    assert_eq!(
        (&materialized["decision"], runs(&place)),
        (&json!("materialized"), 0),
        "{materialized:#}"
    );
    let replayed = place.json(&["trigger", "replay", "broken", &delivery]);
    assert_eq!(replayed["decision"], "created", "{replayed:#}");
    assert_eq!(runs(&place), 1);
    let run = replayed["run"].as_str().unwrap();
    let explained: Value = place.json(&["explain", &format!("run/{run}")]);
    let lines = explained["facts"][0]["lines"].to_string();
    assert!(lines.contains("rule broken") && lines.contains("execution"), "{explained:#}");
    place.run(&["trigger", "replay", "broken", "wd-none"]).expect_code(2);
    place.run(&["trigger", "test", "none", "--delivery", &delivery]).expect_code(2);
}

#[test]
fn push_without_the_credential_of_its_repository_starts_one_run_once_the_secret_is_set() {
    let place = Place::bare();
    place.run_with_input(&["secrets", "set", "webhook", "key"], SECRET).expect_code(0);
    let mut documents = place.documents();
    let rule = documents.iter_mut().find(|one| one["kind"] == "AgentTriggerRule").unwrap();
    rule["spec"]["lifecycleState"] = json!("active");
    rule["spec"]["sources"] = json!(["push"]);
    rule["spec"]["match"] = json!({ "repository": ["acme/app"] });
    rule["spec"]["dedupePolicy"]["key"] = json!("{{ event.sha }}");
    place.apply(&documents).expect_code(0);
    // Only the forge has the commit.
    let before = place.forge.git(&["rev-parse", "main"]).trim().to_owned();
    let author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
    let commit = ["commit-tree", "main^{tree}", "-p", "main", "-m", "Push"];
    let after = place.forge.git(&[&author[..], &commit[..]].concat()).trim().to_owned();
    place.forge.git(&["update-ref", "refs/heads/main", &after]);
    let serving = Serving::start(&place);
    let files = vec!["src/kept.txt".to_owned()];
    let push = Told::Push { branch: "main".to_owned(), before, after: after.clone(), files };
    let hook = format!("http://{}/webhooks/app", serving.address);
    let (status, response) = place.forge.webhook(&push).deliver(&hook, SECRET);
    assert_eq!(status, 202, "{response}");
    place.wait_for("a delivery that waits", || {
        let all = place.json(&["get", "deliveries", "--field", "evaluated=false"]);
        let fault = all[0]["status"]["fault"].as_str()?.to_owned();
        fault.contains("forge/token").then_some(())
    });
    let repository = place.json(&["get", "repository/app"]);
    let reasons = repository["status"]["conditions"].to_string();
    assert!(reasons.contains("CredentialMissing"), "{reasons}");
    assert_eq!(runs(&place), 0);
    let token = place.forge.token();
    place.run_with_input(&["secrets", "set", "forge", "token"], &token).expect_code(0);
    place.wait_for("its run", || (runs(&place) > 0).then_some(()));
    place.wait_for("the evaluated delivery", || {
        let all = place.json(&["get", "deliveries", "--field", "evaluated=true"]);
        all[0]["metadata"]["name"].as_str().map(str::to_owned)
    });
    let all = place.json(&["get", "runs"]);
    assert_eq!((runs(&place), &all[0]["spec"]["sha"]), (1, &json!(after)));
}

#[test]
fn trigger_fire_starts_a_rule_with_a_manual_source() {
    let place = Place::ready();
    place.run(&["trigger", "enable", "broken"]).expect_code(0);
    let fire = ["trigger", "fire", "broken", "--repository", "app", "--reason", "to see it"];
    let refused = place.run(&fire);
    assert!(refused.code != 0 && refused.err.contains("`manual`"), "{}", refused.err);
    let mut rule = place.json(&["get", "trigger", "broken"]);
    rule["spec"]["sources"] = json!(["ci", "manual"]);
    rule["spec"]["match"] = json!({ "repository": ["acme/app"] });
    rule["spec"]["dedupePolicy"]["key"] = json!("{{ event.ref }}");
    place.run_with_input(&["apply", "-f", "-"], &rule.to_string()).expect_code(0);
    let fired = place.json(&fire);
    assert_eq!((&fired["decision"], runs(&place)), (&json!("created"), 1), "{fired:#}");
    // The rule's key makes the second one a duplicate.
    assert_eq!(place.json(&fire)["decision"], "deduplicated");
}

#[test]
fn trigger_enable_pause_resume_disable_and_archive_are_the_lifecycle() {
    let place = Place::new();
    let state = || place.json(&["get", "trigger", "broken"])["spec"]["lifecycleState"].clone();
    let steps = [
        // trigger_enable, trigger_pause, trigger_resume, trigger_disable, trigger_archive
        ("pause", 2, "draft"),
        ("enable", 0, "active"),
        ("pause", 0, "paused"),
        ("resume", 0, "active"),
        ("disable", 0, "disabled"),
        ("resume", 2, "disabled"),
        ("enable", 0, "active"),
        ("archive", 0, "archived"),
        ("enable", 2, "archived"),
    ];
    for (verb, code, expected) in steps {
        place.run(&["trigger", verb, "broken"]).expect_code(code);
        assert_eq!(state(), expected, "after {verb}");
    }
    let audit = place.audit();
    let changes = audit.iter().filter(|(event, _)| event == "AgentTriggerLifecycleChanged").count();
    assert_eq!(changes, 6);
}
