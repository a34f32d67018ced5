//! A chain of agents on one issue of the real server: its webhooks report the label that starts the next agent, and
//! it closes the issue when a person merges the pull request. The agents are the real Claude Code.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::ScriptedModel;
use serde_json::{Value, json};

use super::site::{Site, text};
use crate::guides::chain::script;
use crate::guides::guide::Guide;

/// Lets the programs that the control plane starts find Claude Code and its model.
fn use_claude(site: &mut Site, model: &ScriptedModel) {
    let programs = Cli::Claude.program().parent().unwrap().to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&path))).unwrap();
    site.scratch.set_variable("PATH", path.to_str().unwrap());
    site.scratch.set_variable("ANTHROPIC_BASE_URL", &model.base_url());
    site.scratch.set_variable("ANTHROPIC_API_KEY", "a-key-of-nobody");
}

/// The documents of the guide, for this repository.
fn documents(site: &Site) -> String {
    let mut guide = Guide::read("docs/guides/chain.md");
    guide.fill("https://forge.example/api/v1", format!("{}/api/v1", site.faults.url));
    // The site uses other names.
    guide.fill("name: shop }", "name: app }");
    guide.fill("shop-forge", "forge");
    guide.fill("shop-webhook", "webhook");
    guide.fill("/srv/shop", site.scratch.root().display().to_string());
    guide.fill("acme/shop", &site.repository);
    guide.fill("acme/*", &site.repository);
    guide.fill("role: developer", "role: helper\n  verificationCommands: [\"true\"]");
    guide.later_text("yaml")
}

#[test]
#[ignore = "needs GITEA_URL and GITEA_ADMIN"]
fn labelled_issue_is_solved_reviewed_merged_and_closed() {
    let model = ScriptedModel::start(script());
    let mut site = Site::new(&[]);
    use_claude(&mut site, &model);
    site.run_with_input(&["apply", "-f", "-"], &documents(&site)).expect_code(0);
    site.serve();
    for stack in ["stack/orchestrator", "stack/reviewer"] {
        site.run(&["wait", stack, "--for", "condition=Ready"]).expect_code(0);
    }
    for label in ["agent::orchestrator", "cascade::depth-2"] {
        site.request_as(
            &site.dev,
            "POST",
            "/labels",
            &json!({ "name": label, "color": "#00aabb" }),
        );
    }
    let issue = site.issue(&site.dev, "A parser");
    let named = format!("{}#{issue}", site.repository);
    site.run(&["memory", "budget", &named, "400000"]).expect_code(0);
    site.label(&site.dev, issue, "cascade::depth-2");
    site.label(&site.dev, issue, "agent::orchestrator");

    site.wait_until("the run of the reviewer", || {
        site.started_runs().contains_key("reviewer").then_some(())
    });
    let pull = site.wait_until("the pull request", || {
        let runs = site.json(&["get", "runs"]);
        let failed = runs.as_array().unwrap().iter().find(|run| run["status"]["phase"] == "failed");
        assert_eq!(failed, None, "{}", site.report());
        let all = site.request_as(&site.dev, "GET", "/pulls?state=all", &Value::Null);
        all.as_array().unwrap().first().cloned()
    });
    for (run, phase) in site.wait_for_all_runs() {
        assert_eq!(phase, "succeeded", "{:#}", site.json(&["get", "run", &run]));
    }
    let started = site.started_runs();
    assert_eq!((started["orchestrator"], started["reviewer"]), (1, 1), "{started:?}");
    let path = format!("/pulls/{}/merge", pull["number"]);
    site.request_as(&site.dev, "POST", &path, &json!({ "Do": "merge" }));
    let shown = site.wait_until("the end of the issue", || {
        let shown = site.request_as(&site.dev, "GET", &format!("/issues/{issue}"), &Value::Null);
        (shown["state"] == "closed").then_some(shown)
    });
    let labels: Vec<String> =
        shown["labels"].as_array().unwrap().iter().map(|label| text(&label["name"])).collect();
    assert!(!labels.iter().any(|label| label.starts_with("agent::")), "{labels:?}");
    let path = format!("/issues/{issue}/comments");
    let comments = site.request_as(&site.dev, "GET", &path, &Value::Null);
    let results = comments
        .as_array()
        .unwrap()
        .iter()
        .filter(|comment| text(&comment["body"]).contains("\"type\":\"subagent_result\""));
    assert_eq!(results.count(), 2, "{comments:#}");
    let memory = site.json(&["memory", "show", &named]);
    assert_eq!(memory["problems"], json!([]), "{memory:#}");
}
