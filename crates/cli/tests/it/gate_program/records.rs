//! What a gate that decides alone keeps.

use bailiwick_policy::record::Record;
use bailiwick_policy::{Outcome, Policy};

use super::{HttpGate, ask};

#[test]
fn every_decision_is_kept_and_gives_the_same_answer_again() {
    let desk = HttpGate::new();
    let log = desk.path("decisions.jsonl");
    let asked = |command: &str| {
        ask(desk.gate("claude").arg("--log").arg(&log), desk.shell(command).as_bytes())
    };
    let commands =
        ["ls", "git push", "echo x > src/a.rs", "echo x > README.md", "rm -rf src", "./x src/*.rs"];
    let codes: Vec<Option<i32>> =
        commands.iter().map(|command| asked(command).status.code()).collect();
    assert_eq!(codes, [Some(0), Some(2), Some(0), Some(2), Some(0), Some(0)]);
    let text = std::fs::read_to_string(&log).unwrap();
    let records: Vec<Record> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), commands.len());
    let policy = std::fs::read(desk.path("policy.json")).unwrap();
    let policy = Policy::read(&policy, &desk.digest).unwrap();
    for (record, command) in records.iter().zip(commands) {
        assert_eq!(record.policy, desk.digest);
        assert_eq!(record.call.command.as_deref(), Some(command));
        // The world has moved on; the record has not.
        std::fs::remove_dir_all(desk.root()).ok();
        assert_eq!(record.decide_again(&policy), record.decision);
    }
    assert_eq!(records[1].decision.outcome, Outcome::Deny);
    let mode = std::os::unix::fs::PermissionsExt::mode(&log.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn secrets_and_the_contents_of_files_are_not_kept() {
    let desk = HttpGate::new();
    let log = desk.path("decisions.jsonl");
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let calls = [
        desk.shell(&format!("curl -H 'Authorization: Bearer {secret}' localhost")),
        serde_json::json!({
            "tool_name": "Write",
            "tool_input": {"file_path": "src/a.rs", "content": format!("key = {secret}")},
            "cwd": desk.root(),
        })
        .to_string(),
    ];
    for call in calls {
        let output = ask(desk.gate("claude").arg("--log").arg(&log), call.as_bytes());
        assert_eq!(output.status.code(), Some(0));
    }
    let text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(text.lines().count(), 2);
    assert!(text.contains("src/a.rs") && text.contains("Authorization"));
    assert!(!text.contains(secret), "{text}");
}

#[test]
fn a_call_that_cannot_be_read_is_kept_as_a_denial() {
    let desk = HttpGate::new();
    let log = desk.path("decisions.jsonl");
    let output = ask(desk.gate("claude").arg("--log").arg(&log), b"{\"tool_name\":\"Frobnicate\"");
    assert_eq!(output.status.code(), Some(2));
    let text = std::fs::read_to_string(&log).unwrap();
    let record: Record = serde_json::from_str(text.trim()).unwrap();
    assert!(record.call.unreadable.is_some());
    assert_eq!(record.decision.outcome, Outcome::Deny);
    let policy = std::fs::read(desk.path("policy.json")).unwrap();
    let policy = Policy::read(&policy, &desk.digest).unwrap();
    assert_eq!(record.decide_again(&policy), record.decision);
}
