//! What readers parse from output recorded from the pinned CLIs, and from broken lines.

use std::path::Path;

use bailiwick_model::event::EventKind;
use bailiwick_runner::agents::adapter::Reader;
use bailiwick_testkit::clis::Cli;
use serde_json::{Value, json};

use crate::stage::adapter;

/// The parsed events: the agent, and the event or the verdict.
fn read(cli: Cli, case: &str, code: i32) -> Vec<Value> {
    let name = format!("{}-{case}.jsonl", cli.name());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/streams").join(name);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut reader = adapter(cli).reader(Path::new("/worktree"));
    let mut events: Vec<Value> = Vec::new();
    for read in text.lines().flat_map(|line| reader.line(line)) {
        assert!(!matches!(read.what, EventKind::Usage(_)), "the proxy counts");
        if read.what != EventKind::Other {
            events.push(json!({"agent": read.agent, "what": read.what}));
        }
    }
    let verdict = reader.end(Some(code), "");
    events.push(json!({"completed": verdict.completed, "words": verdict.words}));
    events
}

#[test]
fn plain_run_with_a_denial_is_read() {
    for cli in Cli::ALL {
        insta::assert_json_snapshot!(format!("plain-run-{}", cli.name()), read(cli, "plain", 0));
    }
}

#[test]
fn sub_agent_is_read() {
    for cli in Cli::ALL {
        insta::assert_json_snapshot!(
            format!("sub-agent-{}", cli.name()),
            read(cli, "sub-agent", 0)
        );
    }
}

#[test]
fn model_error_is_read() {
    for cli in Cli::ALL {
        let events = read(cli, "error", 1);
        assert_eq!(events.last().unwrap()["completed"], false, "{cli:?}");
        insta::assert_json_snapshot!(format!("error-{}", cli.name()), events);
    }
}

fn assert_nothing_parsed(reader: &mut dyn Reader, line: &str) {
    for read in reader.line(line) {
        assert_eq!(read.what, EventKind::Other, "{line}");
    }
}

#[test]
fn broken_and_unknown_lines_are_kept_unparsed() {
    for cli in Cli::ALL {
        let mut reader = adapter(cli).reader(Path::new("/worktree"));
        let deep = "[".repeat(100_000);
        for line in [
            "",
            "words",
            "{",
            "null",
            "[1]",
            "\"x\"",
            "{}",
            r#"{"type":7}"#,
            r#"{"type":"new"}"#,
            &deep,
        ] {
            assert_nothing_parsed(reader.as_mut(), line);
        }
        let verdict = reader.end(Some(0), "");
        assert!(!verdict.completed, "{cli:?} has not reported completion");
        assert!(!adapter(cli).reader(Path::new("/")).end(None, "").words.is_empty());
    }
}

#[test]
fn truncated_line_does_not_stop_the_reader() {
    for cli in Cli::ALL {
        let name = format!("tests/fixtures/streams/{}-plain.jsonl", cli.name());
        let text =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
        let mut reader = adapter(cli).reader(Path::new("/worktree"));
        for line in text.lines() {
            for piece in (0..line.len()).step_by(37).filter_map(|end| line.get(..end)) {
                assert_nothing_parsed(reader.as_mut(), piece);
            }
        }
    }
}
