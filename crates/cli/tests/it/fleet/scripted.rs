//! Runs of a scripted agent through `serve`, end to end: they get their granted values, and as much is recorded as the
//! audit level says.

use std::path::PathBuf;

use bailiwick_testkit::forge::Told;
use serde_json::{Value, json};

use super::{Place, SECRET, Serving, document};

/// A role that may write below `src/`, and run any command.
const ROLE: &str = "[role]\nname = \"helper\"\ndescription = \"d\"\n[capabilities]\nrequired = \
                    [\"policy::git-read-only\", \"scope::files-whitelist\", \
                    \"quality::commands-green\"]\n[tools]\nallowed = [\"*\"]\n";

/// A place whose stack runs this script, with changed documents.
fn place_with_script(
    files: &[(&str, &str)],
    script: &Value,
    change: impl Fn(&str, &mut Value),
) -> Place {
    place_with_script_at(Place::bare(), files, script, change)
}

/// The same at an existing place.
pub(super) fn place_with_script_at(
    place: Place,
    files: &[(&str, &str)],
    script: &Value,
    change: impl Fn(&str, &mut Value),
) -> Place {
    place.scratch.write(".bailiwick/roles/helper.toml", ROLE);
    files.iter().for_each(|(path, text)| place.scratch.write(path, text));
    place.scratch.commit("Add a role");
    place.forge.take(&place.scratch.root(), "main");
    place.run_with_input(&["secrets", "set", "webhook", "key"], SECRET).expect_code(0);
    place
        .run_with_input(&["secrets", "set", "forge", "token"], &place.forge.token())
        .expect_code(0);
    let mut documents = place.documents();
    for document in &mut documents {
        let kind = document["kind"].as_str().unwrap().to_owned();
        if kind == "AgentStack" {
            document["spec"]["role"] = json!("helper");
            document["spec"]["verificationCommands"] = json!(["true"]);
            document["spec"]["script"] = script.clone();
        }
        change(&kind, &mut document["spec"]);
    }
    place.apply(&documents).expect_code(0);
    place
}

/// Starts a run and waits for its success. Returns its name and its agent.
pub(super) fn run_to_success(place: &Place) -> (String, String) {
    let output = place.json(&["runs", "start", "app", "fixer", "--task", "Do it."]);
    let name = output["run"].as_str().unwrap().to_owned();
    let run = place.wait_for("its end", || {
        let run = place.json(&["get", "run", &name]);
        let phase = run["status"]["phase"].as_str().unwrap_or_default().to_owned();
        matches!(phase.as_str(), "succeeded" | "failed" | "cancelled").then_some(run)
    });
    assert_eq!(run["status"]["phase"], "succeeded", "{run:#}");
    (name, run["status"]["attempts"][0].as_str().unwrap().to_owned())
}

pub(super) fn start_ready(place: &Place) -> Serving {
    let serving = Serving::start(place);
    place.run(&["wait", "stack/fixer", "--for", "condition=Ready"]).expect_code(0);
    serving
}

/// The text of a file in the worktree of an agent.
pub(super) fn worktree_file(place: &Place, agent: &str, file: &str) -> String {
    let path: PathBuf = place.scratch.state().join("worktrees").join(agent).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(super) fn shell_script(text: &str) -> Value {
    // In a file, which the gate does not read, so that only the sandbox limits it.
    json!([
        { "do": "write", "path": "src/try.sh", "text": text },
        { "do": "shell", "command": "sh src/try.sh" },
    ])
}

#[test]
fn secrets_and_config_maps_are_files_deleted_with_the_attempt() {
    let value = "the-first-line-of-a-key\nthe-second-line-of-a-key\n";
    let script = shell_script(
        "grep -c line-of-a-key \"$DEPLOY_KEY_FILE\" > src/lines.txt\ncat \"$DEPLOY_KEY_FILE\"\n\
         cat \"$RULES_FILE\" > src/rules.txt\n\
         echo \"[${DEPLOY_KEY-none}] [${RULES-none}]\" > src/variables.txt\n\
         (echo x > \"$DEPLOY_KEY_FILE\") 2>/dev/null || echo HELD > src/held.txt\n",
    );
    let place = place_with_script(&[], &script, |kind, spec| match kind {
        "AgentToolProfile" => {
            spec["requiredSecretRefs"] = json!([{ "name": "tool", "keys": ["deploy-key"] }]);
            spec["requiredConfigRefs"] = json!([{ "name": "rules", "keys": ["rules"] }]);
        }
        "AgentStack" => spec["secretPolicy"] = json!({ "allowedSecretRefs": ["tool"] }),
        _ => {}
    });
    place.run_with_input(&["secrets", "set", "tool", "deploy-key"], value).expect_code(0);
    let grant = |reference: &str, name: &str, key: &str, purpose: &str| {
        json!({
            "subject": { "kind": "tool", "name": "tools" },
            reference: { "name": name, "keys": [key] },
            "purpose": purpose, "allowedRepositories": ["acme/*"], "mountPolicy": "file",
        })
    };
    let documents = [
        document("ConfigMap", "rules", json!({ "data": { "rules": "be kind\n" } })),
        document("AgentSecretGrant", "tool", grant("secretRef", "tool", "deploy-key", "tool")),
        document(
            "AgentConfigGrant",
            "rules",
            grant("configMapRef", "rules", "rules", "tool-config"),
        ),
    ];
    place.apply(&documents).expect_code(0);
    let serving = start_ready(&place);
    let (run, agent) = run_to_success(&place);
    drop(serving);
    assert_eq!(worktree_file(&place, &agent, "src/lines.txt").trim(), "2");
    assert_eq!(worktree_file(&place, &agent, "src/rules.txt"), "be kind\n");
    assert_eq!(worktree_file(&place, &agent, "src/variables.txt"), "[none] [none]\n");
    assert_eq!(
        worktree_file(&place, &agent, "src/held.txt"),
        "HELD\n",
        "the file is not read-only"
    );
    assert!(!place.scratch.state().join("runs").join(&agent).join("granted").exists());
    // Its output is among its events, with the secret masked.
    let logs = place.run(&["runs", "logs", &run, "-o", "json"]).expect_code(0).out;
    assert!(logs.contains("[secret]"), "{logs}");
    let database = std::fs::read(place.scratch.state().join("bailiwick.db")).unwrap();
    for text in [logs.as_str(), &String::from_utf8_lossy(&database)] {
        assert!(!text.contains("-line-of-a-key"), "{text}");
    }
}

/// The events that are not decisions.
fn without_decisions(events: &str) -> String {
    let events_and_lists = serde_json::Deserializer::from_str(events).into_iter::<Value>();
    let events_and_lists = events_and_lists.map(Result::unwrap);
    let events_and_lists =
        events_and_lists.flat_map(|one| one.as_array().cloned().unwrap_or_else(|| vec![one]));
    let is_decision = |one: &Value| one["kind"] == "decision" || one["type"] == "decision";
    let (decisions, others): (Vec<Value>, Vec<Value>) = events_and_lists.partition(is_decision);
    assert!(!decisions.is_empty(), "{others:?}");
    serde_json::to_string(&others).unwrap()
}

#[test]
fn audit_level_limits_what_is_stored_of_each_call() {
    let script = json!([{ "do": "shell", "command": "sh src/tell.sh went-into-it" }]);
    let files = [("src/tell.sh", "echo came-out-of-it\n")];
    let place = place_with_script(&files, &script, |_, _| {});
    let serving = start_ready(&place);
    let levels = [("metadata", false, false), ("inputs", true, false), ("outputs", true, true)];
    for (level, inputs, outputs) in levels {
        let mut profile = place.documents().remove(3);
        assert_eq!(profile["kind"], "AgentToolProfile");
        profile["spec"]["auditLevel"] = json!(level);
        place.apply(&[profile]).expect_code(0);
        let (run, agent) = run_to_success(&place);
        let events = place.run(&["runs", "logs", &run, "-o", "json"]).expect_code(0).out;
        assert!(events.contains("Bash"), "the call itself is not recorded: {events}");
        assert!(events.contains("went-into-it"), "the decision is not complete: {events}");
        let events = without_decisions(&events);
        assert_eq!(events.contains("went-into-it"), inputs, "{level}: {events}");
        assert_eq!(events.contains("came-out-of-it"), outputs, "{level}: {events}");
        let agent_events = place.run(&["logs", &agent, "-o", "json"]).expect_code(0).out;
        let agent_events = without_decisions(&agent_events);
        assert_eq!(agent_events.contains("went-into-it"), inputs, "{level}: {agent_events}");
        assert_eq!(agent_events.contains("came-out-of-it"), outputs, "{level}: {agent_events}");
    }
    drop(serving);
}

#[test]
fn files_of_a_skill_are_available_and_read_only() {
    let script = shell_script(
        "place=\"$HOME/../skills/release\"\nsh \"$place/scripts/version.sh\" > src/version.txt\n\
         cat \"$place/SKILL.md\" > src/skill.txt\n\
         (echo x > \"$place/SKILL.md\") 2>/dev/null || (echo x > \"$place/more\") 2>/dev/null || \
         rm -f \"$place/scripts/version.sh\" 2>/dev/null || echo HELD > src/held.txt\n",
    );
    let files = [
        ("skills/release/SKILL.md", "Say which version it is.\n"),
        ("skills/release/scripts/version.sh", "echo 42\n"),
    ];
    let place = place_with_script(&files, &script, |kind, spec| {
        if kind == "AgentStack" {
            spec["skillRefs"] = json!(["release"]);
        }
    });
    let skill = json!({ "format": "directory", "sourceRef": { "path": "skills/release" } });
    place.apply(&[document("AgentSkill", "release", skill)]).expect_code(0);
    let serving = start_ready(&place);
    let (_, agent) = run_to_success(&place);
    drop(serving);
    assert_eq!(worktree_file(&place, &agent, "src/version.txt"), "42\n");
    assert_eq!(worktree_file(&place, &agent, "src/skill.txt"), "Say which version it is.\n");
    assert_eq!(worktree_file(&place, &agent, "src/held.txt"), "HELD\n");
}

#[test]
fn commits_of_others_are_not_the_work_of_a_run() {
    let script = json!([{ "do": "shell", "command": "echo done > src/done.txt" }]);
    let place = place_with_script(&[], &script, |_, _| {});
    // Others push a file outside of the run's scope; the branch of the checkout is behind.
    place.scratch.write("docs/others.md", "theirs\n");
    let pushed_commit = place.scratch.commit("Work of others");
    place.forge.take(&place.scratch.root(), "main");
    place.scratch.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let serving = start_ready(&place);
    let (run, agent) = run_to_success(&place);
    drop(serving);
    let run = place.json(&["get", "run", &run]);
    assert_eq!(
        run["spec"]["sha"],
        pushed_commit.as_str(),
        "positive control: it starts from their commit"
    );
    assert_eq!(worktree_file(&place, &agent, "docs/others.md"), "theirs\n");
    assert_eq!(worktree_file(&place, &agent, "src/done.txt"), "done\n");
    let diff = place.run(&["diff", &agent]).expect_code(0).out;
    assert!(diff.contains("src/done.txt") && !diff.contains("others.md"), "{diff}");
}

#[test]
fn run_from_an_issue_reads_it_and_records_its_result() {
    let script = json!([{ "do": "write", "path": "src/made.txt", "text": "made\n" }]);
    let place = place_with_script(&[], &script, |kind, spec| match kind {
        "Repository" => spec["issueMemory"] = json!(true),
        "AgentTriggerRule" => {
            *spec = json!({
                "lifecycleState": "active", "sources": ["label"], "allowLabelDispatch": true,
                "match": { "repository": ["acme/app"], "labels": ["agent"] },
                "agentStack": "fixer", "taskKind": "repair", "promptTemplate": "Do it.",
            });
        }
        _ => {}
    });
    place.forge.permit("labeller", "write");
    let issue = place.forge.add_issue("Parser", "Please.");
    let paused = place.forge.add_issue("Later", "Not now.");
    place.forge.put_label(paused, "status::paused");
    let serving = start_ready(&place);
    let hook = format!("http://{}/webhooks/app", serving.address);
    let label = |number: u64| {
        place.forge.put_label(number, "agent");
        let event = Told::Label { number, label: "agent".to_owned() };
        let (status, response) = place.forge.webhook(&event).deliver(&hook, SECRET);
        assert_eq!(status, 202, "{response}");
    };
    let wait_for_end = |count: usize| {
        place.wait_for("its end", || {
            let runs = place.json(&["get", "runs"]);
            let runs = runs.as_array().unwrap();
            let is_over = |run: &Value| {
                let phase = run["status"]["phase"].as_str().unwrap_or_default();
                matches!(phase, "succeeded" | "failed" | "cancelled")
            };
            let have_ended = runs.len() == count && runs.iter().all(is_over);
            have_ended.then(|| runs.clone())
        })
    };
    label(issue);
    let runs = wait_for_end(1);
    assert_eq!(runs[0]["status"]["phase"], "succeeded", "{runs:#?}");
    let comments = place.forge.comments(issue);
    let results = comments.iter().filter(|body| body.contains("\"type\":\"subagent_result\""));
    assert_eq!(results.count(), 1, "{comments:#?}");
    let shown = place.json(&["memory", "show", &format!("acme/app#{issue}")]);
    assert_eq!(shown["problems"], json!([]), "{shown:#}");
    label(paused);
    let runs = wait_for_end(2);
    let failed = runs.iter().find(|run| run["status"]["phase"] == "failed");
    assert!(failed.unwrap().to_string().contains("status::paused"), "{runs:#?}");
    assert_eq!(place.forge.comments(paused), Vec::<String>::new());
}

/// What lists, counts and numbers say about the agent of a run that has succeeded.
#[test]
fn succeeded_run_waits_for_nobody_and_counts_as_landed() {
    let place = place_with_script(&[], &shell_script("echo done > src/done.txt\n"), |_, _| {});
    let viewer = place.run(&["tokens", "new", "bob", "--scope", "viewer"]).expect_code(0).out;
    let serving = start_ready(&place);
    let (run, agent) = run_to_success(&place);
    let get = |path: &str| {
        let (status, body) = serving.request("GET", path, viewer.trim(), &Value::Null);
        assert_eq!(status, 200, "{path}: {body:#}");
        body
    };
    let found = get(&format!("/api/v1alpha1/local/runs/{agent}"));
    let run_of_agent = &found["run"];
    let stands = [&run_of_agent["stage"], &run_of_agent["group"], &run_of_agent["isManaged"]];
    assert_eq!(stands, [&json!("landed"), &json!("ended"), &json!(true)], "{found:#}");
    assert_eq!(run_of_agent["next"], Value::Null, "{found:#}");
    let waiting = get("/api/v1alpha1/local/runs?group=needs-you");
    assert_eq!(waiting["items"], json!([]), "{waiting:#}");
    let ended = get("/api/v1alpha1/local/runs?group=ended");
    assert_eq!(ended["items"][0]["id"], agent.as_str(), "positive control: {ended:#}");
    let stages = get("/api/v1alpha1/all-runs/stages");
    for stage in stages["stages"].as_array().unwrap() {
        let expected = u64::from(stage["stage"] == "landed");
        assert_eq!(stage["count"], expected, "{stages:#}");
    }
    let numbers = get("/api/v1alpha1/numbers");
    let days = numbers["runs"].as_array().unwrap();
    assert_eq!(days.len(), 1, "{numbers:#}");
    assert_eq!((&days[0]["stage"], &days[0]["count"]), (&json!("landed"), &json!(1)));
    let status = place.run(&["status"]).expect_code(0).out;
    assert!(!status.contains(&agent), "{status}");
    let listed = place.run(&["ps", "--all"]).expect_code(0).out;
    assert!(listed.contains(&agent), "positive control, {run}: {listed}");
}
