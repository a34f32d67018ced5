//! What templates can do, and why invalid templates are refused.

use bailiwick_fleet::triggers::prompt::{render, validate};
use bailiwick_fleet::triggers::template::{TemplateContext, inspect, render_key};
use bailiwick_resources::Reason;
use serde_json::json;

use super::{SHA, failed_check};

fn prompt(template: &str) -> Result<String, Reason> {
    let mut event = failed_check();
    event.labels = vec!["bug".to_owned(), "urgent".to_owned()];
    event.body = Some("one\ntwo".to_owned());
    event.pull_request = Some(7);
    std::sync::Arc::make_mut(&mut event.payload)["count"] = json!(3);
    let about = TemplateContext { rule: "on-failure", task_kind: "diagnose", event: &event };
    render(template, &about).map(|prompt| prompt.text).map_err(|error| error.reason)
}

#[test]
fn numbers_commits_and_own_values_are_rendered_inline() {
    let text = prompt(
        "#{{ event.pullRequest }} {{ event.sha }} {{ event.source }} {{ rule.name }} \
         {{ rule.taskKind }} {{ event.repository }} {{ event.trustTier }} {{ payload.count }} \
         {{ event.byAgent }}",
    );
    let expected = format!("#7 {SHA} ci on-failure diagnose acme/app trusted 3 false");
    assert_eq!(text, Ok(expected));
}

#[test]
fn texts_become_references_to_data_blocks() {
    let text = prompt("Why did {{ event.check }} fail? {{ event.check }}!").unwrap();
    assert!(text.starts_with("Why did «data 1» fail? «data 1»!\n"), "{text}");
    assert!(text.contains("Data 1 (event.check; 5 bytes):\n~~~~~~~~ data-1 "), "{text}");
    assert_eq!(text.matches("\nbuild\n").count(), 1, "{text}");
}

#[test]
fn conditions_loops_and_filters_work() {
    assert_eq!(
        prompt("{% if event.conclusion == 'failure' %}It failed.{% else %}It holds.{% endif %}"),
        Ok("It failed.".to_owned())
    );
    assert_eq!(prompt("{% if event.tag is defined %}tag{% endif %}-"), Ok("-".to_owned()));
    assert_eq!(prompt("{{ event.labels|length }} {{ event.body|lines|count }}"), Ok("2 2".into()));
    let text = prompt("{% for label in event.labels %}- {{ label|upper }}\n{% endfor %}").unwrap();
    assert!(text.starts_with("- «data 1»\n- «data 2»"), "{text}");
    assert!(text.contains("\nURGENT\n"), "{text}");
    let text = prompt("{{ event.tag|default('none') }} {{ event.labels|first }}").unwrap();
    assert!(text.contains("\nnone\n") && text.contains("\nbug\n"), "{text}");
    let text = prompt("{{ payload.check_run }}").unwrap();
    assert!(text.contains("\"conclusion\":\"failure\""), "{text}");
}

#[test]
fn template_faults_have_their_reasons() {
    for (template, reason) in [
        ("{{ payload.nothing }}", Reason::MissingPayloadField),
        ("{{ event.tag }}", Reason::MissingPayloadField),
        ("{{ payload.nothing.deeper }}", Reason::MissingPayloadField),
        ("{{ nobody }}", Reason::MissingPayloadField),
        ("{{ event.body|safe }}", Reason::UnsafeRawPayload),
        ("{{ event.body | safe }}", Reason::UnsafeRawPayload),
        ("{{ event.body|escape }}", Reason::UnsafeRawPayload),
        ("{% autoescape false %}{{ event.body }}{% endautoescape %}", Reason::UnsafeRawPayload),
        ("{% if false %}{{ event.body|safe }}{% endif %}", Reason::UnsafeRawPayload),
        ("{{ event.body", Reason::InvalidTemplate),
        ("{% if true %}", Reason::InvalidTemplate),
        ("{% set x = 1 %}", Reason::InvalidTemplate),
        ("{% include 'x' %}", Reason::InvalidTemplate),
        ("{% macro x() %}{% endmacro %}", Reason::InvalidTemplate),
        ("{% with x = 1 %}{% endwith %}", Reason::InvalidTemplate),
        ("{% filter upper %}x{% endfilter %}", Reason::InvalidTemplate),
        ("{{ event.body|replace('a', 'b') }}", Reason::InvalidTemplate),
        ("{{ event.body ~ event.body }}", Reason::InvalidTemplate),
        ("{{ 'a' * 1000000000 }}", Reason::InvalidTemplate),
        ("{{ event.body + event.body }}", Reason::InvalidTemplate),
        ("{{ namespace() }}", Reason::InvalidTemplate),
        ("{{ range(10) }}", Reason::InvalidTemplate),
        ("{{ event.labels|upper }}", Reason::InvalidTemplate),
    ] {
        assert_eq!(prompt(template), Err(reason), "{template}");
    }
    let nested = "{% for a in event.labels %}{% for b in event.labels %}{% for c in event.labels %}\
        {% endfor %}{% endfor %}{% endfor %}";
    assert_eq!(prompt(nested), Err(Reason::InvalidTemplate));
}

#[test]
fn text_that_looks_like_code_is_text() {
    assert!(inspect("a | safe, a * b, {# {{ x|safe }} #} { % set } 100 %").is_ok());
    assert!(inspect("{{ \"a|safe ~ }} b\" }}").is_ok());
    assert_eq!(prompt("{# hidden #}shown"), Ok("shown".to_owned()));
}

#[test]
fn steps_and_size_are_limited() {
    let mut event = failed_check();
    event.payload = json!({ "many": vec![1; 50_000] }).into();
    let about = TemplateContext { rule: "r", task_kind: "t", event: &event };
    let endless = render("{% for n in payload.many %}{{ n }}{% endfor %}", &about).unwrap_err();
    assert_eq!(endless.reason, Reason::InvalidTemplate);
    assert!(endless.message.contains("steps"), "{endless}");

    event.payload = json!({ "many": vec![1; 2_000] }).into();
    let about = TemplateContext { rule: "r", task_kind: "t", event: &event };
    let long = format!("{{% for n in payload.many %}}{}{{% endfor %}}", "x".repeat(100));
    assert_eq!(render(&long, &about).unwrap_err().reason, Reason::AttachmentTooLarge);

    let texts: Vec<String> = (0..40).map(|number| format!("text {number}")).collect();
    event.payload = json!({ "many": texts }).into();
    let about = TemplateContext { rule: "r", task_kind: "t", event: &event };
    let many = render("{% for n in payload.many %}{{ n }}{% endfor %}", &about).unwrap_err();
    assert_eq!(many.reason, Reason::AttachmentTooLarge);
    assert_eq!(inspect(&"x".repeat(40_000)).unwrap_err().reason, Reason::InvalidTemplate);
}

#[test]
fn template_is_validated_with_or_without_a_sample() {
    let event = failed_check();
    let about = TemplateContext { rule: "r", task_kind: "t", event: &event };
    assert_eq!(validate("{{ event.tag }}", None), []);
    assert_eq!(validate("{{ event.tag }}", Some(&about))[0].reason, Reason::MissingPayloadField);
    let missing = &validate("{{ event.check }}{{ event.tag }}{{ payload.a.b }}", Some(&about))[0];
    assert!(missing.message.contains("no event.tag, payload.a.b;"), "{missing}");
    assert_eq!(validate("{{ event.", None)[0].reason, Reason::InvalidTemplate);
    assert_eq!(validate("{{ event.sha }}", Some(&about)), []);
}

#[test]
fn key_is_escaped_and_limited_in_length() {
    let mut event = failed_check();
    event.branch = Some("a/b:c d\n{{ x }}%".to_owned());
    event.check = Some("x".repeat(5_000));
    let about = TemplateContext { rule: "r", task_kind: "t", event: &event };
    let key = render_key("{{ event.branch }}:{{ event.conclusion }}", &about).unwrap();
    assert_eq!(key, "a%2Fb%3Ac%20d%0A%7B%7B%20x%20%7D%7D%25:failure");
    let key = render_key("{{ event.check }}", &about).unwrap();
    assert_eq!(key.len(), 33, "{key}");
    for (template, reason) in [
        ("{{ payload }}", Reason::UnboundedDedupeKey),
        ("{{ event.labels }}", Reason::UnboundedDedupeKey),
        ("  ", Reason::UnboundedDedupeKey),
        ("{{ event.tag }}", Reason::MissingPayloadField),
    ] {
        assert_eq!(render_key(template, &about).unwrap_err().reason, reason, "{template}");
    }
    let long = "{{ event.check }}".repeat(20);
    assert_eq!(render_key(&long, &about).unwrap_err().reason, Reason::UnboundedDedupeKey);
}

#[test]
fn different_values_have_different_keys() {
    let texts = ["a", "b", "a/b", "a%2Fb", "a b", "a\tb", "", "A", "ä", "%", "~", "-", "_"];
    let mut seen = std::collections::BTreeMap::new();
    let mut values: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    values.extend((95..100).map(|length| "x".repeat(length)));
    for value in values {
        let mut event = failed_check();
        event.branch = Some(value.clone());
        let about = TemplateContext { rule: "r", task_kind: "t", event: &event };
        let key = render_key("k{{ event.branch }}", &about).unwrap();
        assert_eq!(seen.insert(key, value.clone()), None, "{value:?}");
    }
}
