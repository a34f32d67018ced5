//! A rendered value is parsed to the same value.

use bailiwick_memory::{
    Checkpoint, Event, EventKind, ResultComment, events_of, find_checkpoint, footer,
    with_checkpoint,
};
use bailiwick_testkit::depth::Depth;
use bailiwick_testkit::random::Random;
use serde_json::Value;

use crate::values::{checkpoint, comment, event, text};

fn each(what: &str, check: impl Fn(&mut Random)) {
    let mut random = Random::rotating(what);
    (0..Depth::from_env().cases(20_000)).for_each(|_| check(&mut random));
}

#[test]
fn checkpoint_is_read_back_as_written() {
    each("checkpoints", |random| {
        let written = checkpoint(random);
        let yaml = written.render().unwrap();
        assert_eq!(Checkpoint::parse(&yaml, written.issue).unwrap(), written, "{yaml}");
    });
}

#[test]
fn body_keeps_the_text_of_people_around_the_checkpoint() {
    each("bodies", |random| {
        let (first, mut second) = (checkpoint(random), checkpoint(random));
        second.issue = first.issue;
        // An unclosed fence would hide the heading, as it does on the forge.
        let prose = text(random, 5).replace("```", "'''").replace("## GNS", "GNS");
        let body = with_checkpoint(&prose, &first).unwrap();
        assert_eq!(find_checkpoint(&body, first.issue).unwrap(), first, "{body}");
        let body = format!("{body}\nmore\n");
        let changed = with_checkpoint(&body, &second).unwrap();
        assert_eq!(find_checkpoint(&changed, first.issue).unwrap(), second, "{changed}");
        assert!(
            changed.starts_with(prose.trim_end()) && changed.ends_with("\nmore\n"),
            "{changed}"
        );
        assert_eq!(with_checkpoint(&changed, &second).unwrap(), changed);
    });
}

#[test]
fn event_is_read_back_as_written() {
    each("events", |random| {
        let written = event(random);
        let body = format!("{}\n{}", text(random, 4).replace("<!--", ""), footer(&written));
        assert_eq!(events_of(&body), [Ok(written)], "{body}");
    });
}

#[test]
fn result_comment_is_read_back_as_written() {
    each("comments", |random| {
        let written = comment(random);
        let body = written.render();
        assert_eq!(ResultComment::parse(&body).unwrap(), written, "{body}");
    });
}

#[test]
fn next_decision_is_shown_with_an_agent_or_a_reason() {
    let mut written = ResultComment {
        phase: "review".to_owned(),
        action: "Did it.".to_owned(),
        result: Value::Null,
        rationale: None,
        event: Event::new(EventKind::SubagentResult, "builder"),
    };
    for (agent, rationale, shown) in [
        (Some("reviewer"), None, Some("Recommended next: @reviewer\n")),
        (None, Some("Nobody may."), Some("Recommended next: none\n")),
        (Some("reviewer"), Some("It is done."), Some("Recommended next: @reviewer\n")),
        (None, None, None),
    ] {
        written.event.next_agent = agent.map(str::to_owned);
        written.rationale = rationale.map(str::to_owned);
        let body = written.render();
        assert_eq!(body.contains("### Next Decision\n"), shown.is_some(), "{body}");
        assert!(body.contains(shown.unwrap_or_default()), "{body}");
        let reason = rationale.map(|text| format!("Rationale: {text}\n"));
        assert!(body.contains(&reason.unwrap_or_default()), "{body}");
        assert_eq!(ResultComment::parse(&body).unwrap(), written, "{body}");
    }
}
