//! `bailiwick serve`: its log, its API for workspaces, and the scopes for it.

use bailiwick_testkit::forge::RunSeed;
use serde_json::{Value, json};

use super::{Place, Serving};

#[test]
fn serve_writes_a_json_log_and_one_line_to_stdout() {
    let place = Place::ready();
    place.run(&["tokens", "new", "ada", "--scope", "admin"]).expect_code(0);
    let serving = Serving::start(&place);
    let started = place.json(&["runs", "start", "app", "fixer", "--task", "Nothing."]);
    let run = started["run"].as_str().unwrap().to_owned();
    // The stack has no script, so the run fails soon; but it is spawned.
    place.wait_for("a spawn", || {
        let log = std::fs::read_to_string(&serving.log).unwrap();
        log.contains("making the worktree").then_some(())
    });
    // It may have ended already.
    place.run(&["runs", "cancel", &run]);
    let log = std::fs::read_to_string(&serving.log).unwrap();
    let complete_lines =
        log.rsplit_once('\n').map(|(complete_lines, _)| complete_lines).unwrap_or_default();
    let read = |line| {
        serde_json::from_str::<Value>(line)
            .unwrap_or_else(|_| panic!("not a JSON log line: {line}"))
    };
    let lines: Vec<Value> = complete_lines.lines().map(read).collect();
    // It names its run and its attempt; a line about the server names none.
    let says = |line: &&Value, part: &str| line.to_string().contains(part);
    let spawn = lines.iter().find(|line| says(line, "making the worktree")).unwrap();
    assert_eq!(spawn["spans"][0]["run"], run.as_str(), "{spawn}");
    let attempt = spawn["span"]["attempt"].as_str().unwrap_or_default();
    assert!(attempt.starts_with(&run.replacen("adr-", "ada-", 1)), "{spawn}");
    let leader = lines.iter().find(|line| says(line, "this server is the leader")).unwrap();
    assert!(leader["span"].is_null(), "{leader}");
}

#[test]
fn serve_lists_runs_beside_the_checks_of_the_forge() {
    let place = Place::ready();
    let sha = place.scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let other = "1".repeat(40);
    for (sha, workflow) in [(&sha, "ours.yml"), (&other, "other.yml")] {
        let conclusion = Some("failure");
        place.forge.add_run(&RunSeed {
            sha,
            branch: "main",
            workflow,
            conclusion,
            ..RunSeed::default()
        });
    }
    let viewer = place.run(&["tokens", "new", "bob", "--scope", "viewer"]).expect_code(0).out;
    let started = place.json(&["runs", "start", "app", "fixer", "--task", "Nothing."]);
    place.run(&["runs", "cancel", started["run"].as_str().unwrap()]).expect_code(0);
    let serving = Serving::start(&place);
    let path = format!("/api/agents/repositories/app/checks?sha={sha}");
    let (status, body) = serving.request("GET", &path, viewer.trim(), &Value::Null);
    assert_eq!(status, 200, "{body:#}");
    assert_eq!(body["unavailable"], Value::Null, "{body:#}");
    let checks = body["checks"].as_array().unwrap();
    assert!(
        !checks.is_empty() && checks.iter().all(|one| one["workflow"] == "ours.yml"),
        "{body:#}"
    );
    assert_eq!(checks[0]["conclusion"], "failure");
    assert_eq!(body["runs"][0]["run"], started["run"]);
    assert_eq!(body["runs"].as_array().unwrap().len(), 1);
    let path = format!("/api/agents/repositories/app/checks?sha={other}");
    let (_, body) = serving.request("GET", &path, viewer.trim(), &Value::Null);
    assert_eq!(body["runs"], json!([]), "{body:#}");
}

#[test]
fn serve_lets_operators_change_workspaces_and_viewers_only_read() {
    let place = Place::new();
    let token = |scope: &str| {
        let output = place.run(&["tokens", "new", scope, "--scope", scope]).expect_code(0).out;
        output.trim().to_owned()
    };
    let (viewer, operator) = (token("viewer"), token("operator"));
    let serving = Serving::start(&place);
    let provision_request = json!({
        "action": "provision", "name": "mend", "repository": "app",
        "workItem": { "kind": "issue", "repository": "app", "id": "42" },
    });
    let provision =
        |token: &str| serving.request("POST", "/api/agents/workspaces", token, &provision_request);
    assert_eq!(provision(&viewer).0, 403);
    let path = place.scratch.state().join("worktrees/mend");
    assert!(!path.exists());
    let (status, body) = provision(&operator);
    assert_eq!(status, 202, "{body}");
    assert!(path.join("src/kept.txt").exists());
    std::fs::write(path.join("src/kept.txt"), "changed\n").unwrap();
    let act = |token: &str, verb: &str| {
        let path = "/api/v1alpha1/workspaces/mend/action";
        serving.request("POST", path, token, &json!({ "action": verb }))
    };
    assert_eq!(act(&viewer, "archive").0, 403);
    let (status, body) = act(&operator, "cleanup");
    assert_eq!((status, &body["error"]["reasons"][0]["code"]), (409, &json!("WorkspaceRefused")));
    let (status, body) = act(&operator, "archive");
    assert_eq!((status, &body["state"]), (202, &json!("archived")), "{body}");
    assert!(!path.exists());
    let (status, body) = act(&operator, "recover");
    assert_eq!((status, &body["state"]), (202, &json!("idle")), "{body}");
    assert_eq!(std::fs::read_to_string(path.join("src/kept.txt")).unwrap(), "changed\n");
    let (status, body) =
        serving.request("GET", "/api/agents/workspaces/mend", &viewer, &Value::Null);
    assert_eq!((status, &body["status"]["git"]["dirty"]), (200, &json!(true)), "{body}");
    let audit = place.audit();
    let refused = audit.iter().filter(|(event, _)| event == "AgentWorkspaceActionRefused").count();
    assert_eq!(refused, 1, "{audit:?}");
}
