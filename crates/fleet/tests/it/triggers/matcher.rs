//! Each field of a matcher with an event that matches, one that does not, and one without data.

use bailiwick_fleet::triggers::{SourceEvent, matcher};
use bailiwick_resources::{EventSource, ForgeKind, Matcher, Reason};
use serde_json::{Value, json};

fn event() -> SourceEvent {
    let mut event = SourceEvent::new(EventSource::Ci, ForgeKind::Github, "e", "acme/app");
    event.event = "check_run".to_owned();
    event.action = Some("completed".to_owned());
    event.actor = Some("alice".to_owned());
    event.branch = Some("release/1.2".to_owned());
    event.workflow = Some("CI".to_owned());
    event.job = Some("test (linux)".to_owned());
    event.step = Some("cargo test".to_owned());
    event.check = Some("build / lint".to_owned());
    event.conclusion = Some("failure".to_owned());
    event.labels = vec!["bug".to_owned(), "area/parser".to_owned()];
    event.body = Some("@bailiwick please look at this".to_owned());
    event.pull_request = Some(7);
    event.changed_paths = Some(vec!["src/parse/mod.rs".to_owned(), "README.md".to_owned()]);
    event.failure_log = Some("error[E0308]: mismatched types\n".to_owned());
    event.payload = json!({ "check_run": { "id": 55, "app": { "slug": "builder" },
        "steps": [{ "n": 1, "ok": true }, { "n": 2, "ok": false }] } })
    .into();
    event
}

/// An event without data.
fn blank() -> SourceEvent {
    SourceEvent::new(EventSource::Ci, ForgeKind::Github, "e", "other/repo")
}

fn matches(matcher_json: Value, event: &SourceEvent) -> bool {
    let matcher_json: Matcher = serde_json::from_value(matcher_json).unwrap();
    matcher::compile(&matcher_json).unwrap().matches(event).matched
}

fn faults(matcher_json: Value) -> Vec<(Reason, String)> {
    let matcher_json: Matcher = serde_json::from_value(matcher_json).unwrap();
    matcher::compile(&matcher_json).err().unwrap_or_default()
}

/// For each field: values that match `event()`, and values that do not.
fn cases() -> Vec<(&'static str, Vec<Value>, Vec<Value>)> {
    vec![
        (
            "repository",
            vec![json!(["acme/app"]), json!(["ACME/*"]), json!(["x/y", "*/app"]), json!(["**"])],
            vec![json!(["acme/ap"]), json!(["*"]), json!(["acme"]), json!(["acme/app/x"])],
        ),
        (
            "eventTypes",
            vec![json!(["completed"]), json!(["check_run"]), json!(["x", "check_run.completed"])],
            vec![json!(["opened"]), json!(["check_run.created"]), json!(["check"])],
        ),
        ("conclusion", vec![json!(["failure"]), json!(["Failure"])], vec![json!(["success"])]),
        ("workflow", vec![json!(["CI"]), json!(["C*"])], vec![json!(["C"]), json!(["Release"])]),
        ("job", vec![json!(["test (*)"]), json!(["test*"])], vec![json!(["test"])]),
        ("step", vec![json!(["cargo test"]), json!(["cargo ????"])], vec![json!(["cargo ???"])]),
        (
            "check",
            vec![json!(["build / lint"]), json!(["build*"]), json!(["build ? [kl]int"])],
            vec![json!(["lint"]), json!(["build / [!l]int"])],
        ),
        (
            "branches",
            vec![
                json!({ "include": ["release/*"] }),
                json!({ "exclude": ["main"] }),
                json!({ "include": ["**"], "exclude": ["release/2.*"] }),
            ],
            vec![
                json!({ "include": ["*"] }),
                json!({ "include": ["Release/*"] }),
                json!({ "include": ["release/*"], "exclude": ["release/1.*"] }),
            ],
        ),
        (
            "paths",
            vec![
                json!({ "include": ["src/**"] }),
                json!({ "include": ["*.md"] }),
                json!({ "exclude": ["src/**"] }),
            ],
            vec![
                json!({ "include": ["docs/**"] }),
                json!({ "include": ["src/**"], "exclude": ["src/parse/**"] }),
                json!({ "exclude": ["src/**", "*.md"] }),
            ],
        ),
        (
            "labels",
            vec![json!(["bug"]), json!(["area/*"]), json!(["x", "BUG"])],
            vec![json!(["bu"]), json!(["area"])],
        ),
        (
            "actors",
            vec![json!({ "include": ["Alice"] }), json!({ "exclude": ["*-bot"] })],
            vec![json!({ "include": ["bob"] }), json!({ "exclude": ["ali*"] })],
        ),
        ("mention", vec![json!(["@bailiwick"]), json!(["@Bailiwick"])], vec![json!(["@bail"])]),
        ("body", vec![json!(["^@bailiwick"]), json!(["x", "look at"])], vec![json!(["(?i)never"])]),
        (
            "payload",
            vec![
                json!([{ "jsonPath": "$.check_run.id" }]),
                json!([{ "jsonPath": "$.check_run.id", "oneOf": [1, 55.0] }]),
                json!([{ "jsonPath": "$.check_run.steps[?@.ok == false].n", "oneOf": [2] }]),
                json!([{ "jsonPath": "$..slug", "oneOf": ["builder"] }]),
            ],
            vec![
                json!([{ "jsonPath": "$.check_run.name" }]),
                json!([{ "jsonPath": "$.check_run.id", "oneOf": ["55"] }]),
                json!([{ "jsonPath": "$.check_run.id" }, { "jsonPath": "$.missing" }]),
            ],
        ),
        (
            "failureSignature",
            vec![json!([r"error\[E\d+\]"]), json!(["x", "mismatched"])],
            vec![json!(["linker"])],
        ),
        ("pullRequestRequired", vec![json!(true), json!(false)], vec![]),
    ]
}

#[test]
fn every_field_has_matching_and_other_values() {
    let all = serde_json::to_value(schemars::schema_for!(Matcher)).unwrap();
    let mut known: Vec<String> = all["properties"].as_object().unwrap().keys().cloned().collect();
    for (field, matching, other_values) in cases() {
        for value in matching {
            assert!(matches(json!({ field: value }), &event()), "{field} {value}");
        }
        for value in other_values {
            assert!(!matches(json!({ field: value }), &event()), "{field} {value}");
        }
        known.retain(|name| name != field);
    }
    assert!(known.is_empty(), "untested: {known:?}");
}

#[test]
fn required_field_that_is_unknown_does_not_match() {
    for (field, matching, _) in cases() {
        for value in matching.into_iter().filter(|value| *value != json!(false)) {
            let expected = field == "repository" && value == json!(["**"]);
            assert_eq!(matches(json!({ field: value }), &blank()), expected, "{field} {value}");
        }
    }
    assert!(matches(json!({}), &blank()), "an empty matcher matches every event");
}

#[test]
fn all_fields_of_a_matcher_must_match() {
    let both = json!({ "workflow": ["CI"], "conclusion": ["failure"] });
    assert!(matches(both.clone(), &event()));
    let mut other = event();
    other.conclusion = Some("success".to_owned());
    assert!(!matches(both, &other));
}

#[test]
fn report_names_expected_and_found_values() {
    let matcher_json: Matcher = serde_json::from_value(
        json!({ "conclusion": ["failure"], "branches": { "include": ["main"] }, "step": ["x"] }),
    )
    .unwrap();
    let mut event = event();
    event.step = None;
    let report = matcher::compile(&matcher_json).unwrap().matches(&event);
    assert!(!report.matched);
    let field = |name: &str| report.fields.iter().find(|field| field.field == name).unwrap();
    assert!(field("conclusion").agreed);
    assert_eq!(field("branches").expected, "`main`");
    assert_eq!(field("branches").found, "`release/1.2`");
    assert_eq!(field("step").found, "unknown");
    assert_eq!(report.fields.len(), 3, "only the fields of the matcher are listed");
    assert!(report.objections().contains("branches is `release/1.2`, not `main`"));
}

#[test]
fn mention_is_a_whole_word_outside_of_code_and_quotes() {
    let mentions = |text: &str| {
        let mut event = event();
        event.body = Some(text.to_owned());
        matches(json!({ "mention": ["@bailiwick"] }), &event)
    };
    for text in [
        "@bailiwick",
        "Hello @bailiwick, please",
        "(@bailiwick)",
        "thanks @bailiwick.",
        "> quoted\n\n@bailiwick now",
        "```\ncode\n```\n@bailiwick",
        "`x` @Bailiwick",
        "a ` b @bailiwick",
    ] {
        assert!(mentions(text), "{text:?}");
    }
    for text in [
        "",
        "bailiwick",
        "me@bailiwick.dev",
        "@bailiwick-two",
        "@bailiwicks",
        "@bailiwick/team",
        "@bailiwick.dev",
        "@@bailiwick",
        "> @bailiwick do it",
        "  > @bailiwick do it",
        "```\n@bailiwick\n```",
        "~~~sh\n@bailiwick\n~~~",
        "````\n```\n@bailiwick\n````",
        "`@bailiwick`",
        "``a ` @bailiwick``",
        "    @bailiwick",
        "<!-- @bailiwick -->",
        "<!-- never closed\n@bailiwick",
        "```\nnever closed\n@bailiwick",
    ] {
        assert!(!mentions(text), "{text:?}");
    }
}

#[test]
fn agent_account_does_not_mention_itself() {
    let mut event = event();
    event.actor = Some("bailiwick-bot".to_owned());
    assert!(matches(json!({ "mention": ["@bailiwick"] }), &event), "positive control");
    event.mark_agent(&["Bailiwick-Bot".to_owned()]);
    assert!(!matches(json!({ "mention": ["@bailiwick"] }), &event));
}

#[test]
fn invalid_matcher_is_reported_with_its_reason() {
    for (matcher_json, reason) in [
        (json!({ "payload": [{ "jsonPath": "check_run.id" }] }), Reason::InvalidJsonPath),
        (json!({ "payload": [{ "jsonPath": "$[" }] }), Reason::InvalidJsonPath),
        (json!({ "payload": [{ "jsonPath": "$..a..b..c" }] }), Reason::InvalidJsonPath),
        (json!({ "payload": [{ "jsonPath": "$.a", "oneOf": [] }] }), Reason::InvalidJsonPath),
        (json!({ "failureSignature": ["("] }), Reason::UnsupportedFailureSignature),
        (json!({ "failureSignature": [r"(?=look)"] }), Reason::UnsupportedFailureSignature),
        (json!({ "failureSignature": ["\\w{5000}{5000}"] }), Reason::UnsupportedFailureSignature),
        (json!({ "workflow": ["[a"] }), Reason::InvalidGlob),
        (json!({ "labels": [""] }), Reason::InvalidGlob),
        (json!({ "branches": { "include": ["!main"] } }), Reason::InvalidGlob),
        (json!({ "branches": { "include": ["{a,b}"] } }), Reason::InvalidGlob),
        (json!({ "paths": { "exclude": [""] } }), Reason::InvalidGlob),
        (json!({ "mention": ["two words"] }), Reason::InvalidGlob),
    ] {
        let found = faults(matcher_json.clone());
        assert_eq!(found.first().map(|(reason, _)| *reason), Some(reason), "{matcher_json}");
    }
    let both = faults(json!({ "job": ["["], "payload": [{ "jsonPath": "x" }] }));
    assert_eq!(both.len(), 2, "all faults are reported at once");
}
