//! The records of a gate that decides without a supervisor.

use bailiwick_policy::record::Record;
use bailiwick_policy::{Outcome, Policy};

use super::{GateFixture, run_with_input};

#[test]
fn every_decision_is_recorded_and_can_be_repeated() {
    let fixture = GateFixture::new();
    let log = fixture.path("decisions.jsonl");
    let decide = |command: &str| {
        run_with_input(
            fixture.gate("claude").arg("--log").arg(&log),
            fixture.shell(command).as_bytes(),
        )
    };
    let commands =
        ["ls", "git push", "echo x > src/a.rs", "echo x > README.md", "rm -rf src", "./x src/*.rs"];
    let codes: Vec<Option<i32>> =
        commands.iter().map(|command| decide(command).status.code()).collect();
    assert_eq!(codes, [Some(0), Some(2), Some(0), Some(2), Some(0), Some(0)]);
    let text = std::fs::read_to_string(&log).unwrap();
    let records: Vec<Record> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), commands.len());
    let policy = std::fs::read(fixture.path("policy.json")).unwrap();
    let policy = Policy::read(&policy, &fixture.digest).unwrap();
    for (record, command) in records.iter().zip(commands) {
        assert_eq!(record.policy, fixture.digest);
        assert_eq!(record.call.command.as_deref(), Some(command));
        // The repository is deleted, but the record is complete.
        std::fs::remove_dir_all(fixture.root()).ok();
        assert_eq!(record.decide_again(&policy), record.decision);
    }
    assert_eq!(records[1].decision.outcome, Outcome::Deny);
    let mode = std::os::unix::fs::PermissionsExt::mode(&log.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn secrets_and_file_contents_are_not_recorded() {
    let fixture = GateFixture::new();
    let log = fixture.path("decisions.jsonl");
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let calls = [
        fixture.shell(&format!("curl -H 'Authorization: Bearer {secret}' localhost")),
        serde_json::json!({
            "tool_name": "Write",
            "tool_input": {"file_path": "src/a.rs", "content": format!("key = {secret}")},
            "cwd": fixture.root(),
        })
        .to_string(),
    ];
    for call in calls {
        let output = run_with_input(fixture.gate("claude").arg("--log").arg(&log), call.as_bytes());
        assert_eq!(output.status.code(), Some(0));
    }
    let text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(text.lines().count(), 2);
    assert!(text.contains("src/a.rs") && text.contains("Authorization"));
    assert!(!text.contains(secret), "{text}");
}

#[test]
fn unreadable_call_is_recorded_as_a_denial() {
    let fixture = GateFixture::new();
    let log = fixture.path("decisions.jsonl");
    let output = run_with_input(
        fixture.gate("claude").arg("--log").arg(&log),
        b"{\"tool_name\":\"Frobnicate\"",
    );
    assert_eq!(output.status.code(), Some(2));
    let text = std::fs::read_to_string(&log).unwrap();
    let record: Record = serde_json::from_str(text.trim()).unwrap();
    assert!(record.call.unreadable.is_some());
    assert_eq!(record.decision.outcome, Outcome::Deny);
    let policy = std::fs::read(fixture.path("policy.json")).unwrap();
    let policy = Policy::read(&policy, &fixture.digest).unwrap();
    assert_eq!(record.decide_again(&policy), record.decision);
}
