//! Runs of an agent without a model through `serve`, whole: what is granted to them arrives, and as much is written
//! down as is wanted.

use std::path::PathBuf;

use bailiwick_testkit::forge::Told;
use serde_json::{Value, json};

use super::{Place, SECRET, Serving, document};

/// May write below `src/`, and run anything.
const ROLE: &str = "[role]\nname = \"helper\"\ndescription = \"d\"\n[capabilities]\nrequired = \
                    [\"policy::git-read-only\", \"scope::files-whitelist\", \
                    \"quality::commands-green\"]\n[tools]\nallowed = [\"*\"]\n";

/// A place whose stack plays this script; each document is changed as is wanted.
fn scripted(files: &[(&str, &str)], script: &Value, change: impl Fn(&str, &mut Value)) -> Place {
    scripted_at(Place::bare(), files, script, change)
}

/// The same at a place that is there.
pub(super) fn scripted_at(
    place: Place,
    files: &[(&str, &str)],
    script: &Value,
    change: impl Fn(&str, &mut Value),
) -> Place {
    place.scratch.write(".bailiwick/roles/helper.toml", ROLE);
    files.iter().for_each(|(path, text)| place.scratch.write(path, text));
    place.scratch.commit("Add a role");
    place.forge.take(&place.scratch.root(), "main");
    place.given(&["secrets", "set", "webhook", "key"], SECRET).expect_code(0);
    place.given(&["secrets", "set", "forge", "token"], &place.forge.token()).expect_code(0);
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

/// A run from its wish to its end: its name, and its agent.
pub(super) fn ran(place: &Place) -> (String, String) {
    let said = place.json(&["runs", "start", "app", "fixer", "--task", "Do it."]);
    let name = said["run"].as_str().unwrap().to_owned();
    let run = place.until("its end", || {
        let run = place.json(&["get", "run", &name]);
        let phase = run["status"]["phase"].as_str().unwrap_or_default().to_owned();
        matches!(phase.as_str(), "succeeded" | "failed" | "cancelled").then_some(run)
    });
    assert_eq!(run["status"]["phase"], "succeeded", "{run:#}");
    (name, run["status"]["attempts"][0].as_str().unwrap().to_owned())
}

pub(super) fn ready(place: &Place) -> Serving {
    let serving = Serving::start(place);
    place.run(&["wait", "stack/fixer", "--for", "condition=Ready"]).expect_code(0);
    serving
}

/// What an agent has written.
pub(super) fn made(place: &Place, agent: &str, file: &str) -> String {
    let path: PathBuf = place.scratch.state().join("worktrees").join(agent).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(super) fn play(text: &str) -> Value {
    // In a file, which the gate does not read: what holds there is the sandbox.
    json!([
        { "do": "write", "path": "src/try.sh", "text": text },
        { "do": "shell", "command": "sh src/try.sh" },
    ])
}

#[test]
fn secrets_and_config_maps_arrive_in_files_that_go_with_the_attempt() {
    let value = "the-first-line-of-a-key\nthe-second-line-of-a-key\n";
    let script = play(
        "grep -c line-of-a-key \"$DEPLOY_KEY_FILE\" > src/lines.txt\ncat \"$DEPLOY_KEY_FILE\"\n\
         cat \"$RULES_FILE\" > src/rules.txt\n\
         echo \"[${DEPLOY_KEY-none}] [${RULES-none}]\" > src/variables.txt\n\
         (echo x > \"$DEPLOY_KEY_FILE\") 2>/dev/null || echo HELD > src/held.txt\n",
    );
    let place = scripted(&[], &script, |kind, spec| match kind {
        "AgentToolProfile" => {
            spec["requiredSecretRefs"] = json!([{ "name": "tool", "keys": ["deploy-key"] }]);
            spec["requiredConfigRefs"] = json!([{ "name": "rules", "keys": ["rules"] }]);
        }
        "AgentStack" => spec["secretPolicy"] = json!({ "allowedSecretRefs": ["tool"] }),
        _ => {}
    });
    place.given(&["secrets", "set", "tool", "deploy-key"], value).expect_code(0);
    let granted = |reference: &str, name: &str, key: &str, purpose: &str| {
        json!({
            "subject": { "kind": "tool", "name": "tools" },
            reference: { "name": name, "keys": [key] },
            "purpose": purpose, "allowedRepositories": ["acme/*"], "mountPolicy": "file",
        })
    };
    let documents = [
        document("ConfigMap", "rules", json!({ "data": { "rules": "be kind\n" } })),
        document("AgentSecretGrant", "tool", granted("secretRef", "tool", "deploy-key", "tool")),
        document(
            "AgentConfigGrant",
            "rules",
            granted("configMapRef", "rules", "rules", "tool-config"),
        ),
    ];
    place.apply(&documents).expect_code(0);
    let serving = ready(&place);
    let (run, agent) = ran(&place);
    drop(serving);
    assert_eq!(made(&place, &agent, "src/lines.txt").trim(), "2");
    assert_eq!(made(&place, &agent, "src/rules.txt"), "be kind\n");
    assert_eq!(made(&place, &agent, "src/variables.txt"), "[none] [none]\n");
    assert_eq!(made(&place, &agent, "src/held.txt"), "HELD\n", "it can only be read");
    assert!(!place.scratch.state().join("runs").join(&agent).join("granted").exists());
    // What it printed is among its events, without the secret.
    let logs = place.run(&["runs", "logs", &run, "-o", "json"]).expect_code(0).out;
    assert!(logs.contains("[secret]"), "{logs}");
    let database = std::fs::read(place.scratch.state().join("bailiwick.db")).unwrap();
    for text in [logs.as_str(), &String::from_utf8_lossy(&database)] {
        assert!(!text.contains("-line-of-a-key"), "{text}");
    }
}

/// What was told besides of what was decided.
fn without_decisions(events: &str) -> String {
    let all = serde_json::Deserializer::from_str(events).into_iter::<Value>();
    let all = all.map(Result::unwrap);
    let all = all.flat_map(|one| one.as_array().cloned().unwrap_or_else(|| vec![one]));
    let is_decision = |one: &Value| one["kind"] == "decision" || one["type"] == "decision";
    let (decisions, others): (Vec<Value>, Vec<Value>) = all.partition(is_decision);
    assert!(!decisions.is_empty(), "{others:?}");
    serde_json::to_string(&others).unwrap()
}

#[test]
fn as_much_of_each_call_is_kept_as_the_audit_level_says() {
    let script = json!([{ "do": "shell", "command": "sh src/tell.sh went-into-it" }]);
    let files = [("src/tell.sh", "echo came-out-of-it\n")];
    let place = scripted(&files, &script, |_, _| {});
    let serving = ready(&place);
    let levels = [("metadata", false, false), ("inputs", true, false), ("outputs", true, true)];
    for (level, inputs, outputs) in levels {
        let mut profile = place.documents().remove(3);
        assert_eq!(profile["kind"], "AgentToolProfile");
        profile["spec"]["auditLevel"] = json!(level);
        place.apply(&[profile]).expect_code(0);
        let (run, agent) = ran(&place);
        let kept = place.run(&["runs", "logs", &run, "-o", "json"]).expect_code(0).out;
        assert!(kept.contains("Bash"), "that there was a call is always kept: {kept}");
        assert!(kept.contains("went-into-it"), "a decision is always whole: {kept}");
        let kept = without_decisions(&kept);
        assert_eq!(kept.contains("went-into-it"), inputs, "{level}: {kept}");
        assert_eq!(kept.contains("came-out-of-it"), outputs, "{level}: {kept}");
        let own = place.run(&["logs", &agent, "-o", "json"]).expect_code(0).out;
        let own = without_decisions(&own);
        assert_eq!(own.contains("went-into-it"), inputs, "{level}: {own}");
        assert_eq!(own.contains("came-out-of-it"), outputs, "{level}: {own}");
    }
    drop(serving);
}

#[test]
fn the_files_of_a_skill_arrive_and_can_only_be_read() {
    let script = play(
        "place=\"$HOME/../skills/release\"\nsh \"$place/scripts/version.sh\" > src/version.txt\n\
         cat \"$place/SKILL.md\" > src/skill.txt\n\
         (echo x > \"$place/SKILL.md\") 2>/dev/null || (echo x > \"$place/more\") 2>/dev/null || \
         rm -f \"$place/scripts/version.sh\" 2>/dev/null || echo HELD > src/held.txt\n",
    );
    let files = [
        ("skills/release/SKILL.md", "Say which version it is.\n"),
        ("skills/release/scripts/version.sh", "echo 42\n"),
    ];
    let place = scripted(&files, &script, |kind, spec| {
        if kind == "AgentStack" {
            spec["skillRefs"] = json!(["release"]);
        }
    });
    let skill = json!({ "format": "directory", "sourceRef": { "path": "skills/release" } });
    place.apply(&[document("AgentSkill", "release", skill)]).expect_code(0);
    let serving = ready(&place);
    let (_, agent) = ran(&place);
    drop(serving);
    assert_eq!(made(&place, &agent, "src/version.txt"), "42\n");
    assert_eq!(made(&place, &agent, "src/skill.txt"), "Say which version it is.\n");
    assert_eq!(made(&place, &agent, "src/held.txt"), "HELD\n");
}

#[test]
fn commits_of_others_are_not_the_work_of_a_run() {
    let script = json!([{ "do": "shell", "command": "echo done > src/done.txt" }]);
    let place = scripted(&[], &script, |_, _| {});
    // Others push a file that this run must not touch; the branch of the checkout stays behind.
    place.scratch.write("docs/others.md", "theirs\n");
    let pushed = place.scratch.commit("Work of others");
    place.forge.take(&place.scratch.root(), "main");
    place.scratch.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let serving = ready(&place);
    let (run, agent) = ran(&place);
    drop(serving);
    let run = place.json(&["get", "run", &run]);
    assert_eq!(run["spec"]["sha"], pushed.as_str(), "the control: it starts from their commit");
    assert_eq!(made(&place, &agent, "docs/others.md"), "theirs\n");
    assert_eq!(made(&place, &agent, "src/done.txt"), "done\n");
    let diff = place.run(&["diff", &agent]).expect_code(0).out;
    assert!(diff.contains("src/done.txt") && !diff.contains("others.md"), "{diff}");
}

#[test]
fn run_from_an_issue_reads_it_first_and_leaves_its_result_there() {
    let script = json!([{ "do": "write", "path": "src/made.txt", "text": "made\n" }]);
    let place = scripted(&[], &script, |kind, spec| match kind {
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
    let serving = ready(&place);
    let hook = format!("http://{}/webhooks/app", serving.address);
    let label = |number: u64| {
        place.forge.put_label(number, "agent");
        let told = Told::Label { number, label: "agent".to_owned() };
        let (status, said) = place.forge.webhook(&told).deliver(&hook, SECRET);
        assert_eq!(status, 202, "{said}");
    };
    let ended = |count: usize| {
        place.until("its end", || {
            let runs = place.json(&["get", "runs"]);
            let runs = runs.as_array().unwrap();
            let is_over = |run: &Value| {
                let phase = run["status"]["phase"].as_str().unwrap_or_default();
                matches!(phase, "succeeded" | "failed" | "cancelled")
            };
            let over = runs.len() == count && runs.iter().all(is_over);
            over.then(|| runs.clone())
        })
    };
    label(issue);
    let runs = ended(1);
    assert_eq!(runs[0]["status"]["phase"], "succeeded", "{runs:#?}");
    let comments = place.forge.comments(issue);
    let results = comments.iter().filter(|body| body.contains("\"type\":\"subagent_result\""));
    assert_eq!(results.count(), 1, "{comments:#?}");
    let shown = place.json(&["memory", "show", &format!("acme/app#{issue}")]);
    assert_eq!(shown["problems"], json!([]), "{shown:#}");
    label(paused);
    let runs = ended(2);
    let failed = runs.iter().find(|run| run["status"]["phase"] == "failed");
    assert!(failed.unwrap().to_string().contains("status::paused"), "{runs:#?}");
    assert_eq!(place.forge.comments(paused), Vec::<String>::new());
}
