//! Random values with text that imitates other syntax.

use bailiwick_memory::{
    Budget, CascadeEntry, ChainEntry, ChainResult, Checkpoint, CurrentTask, Event, EventBudget,
    EventKind, HistoryEntry, ResultComment, StateChanges,
};
use bailiwick_resources::Moment;
use bailiwick_testkit::random::Random;
use serde_json::{Value, json};

/// Pieces of text that a reader could confuse with its own syntax.
const HOSTILE: [&str; 26] = [
    "### Result",
    "### Action Taken",
    "### Next Decision",
    "### State Changes",
    "```",
    "```json",
    "```yaml",
    "-->",
    "<!--",
    "<!-- GNS_EVENT: {\"type\":\"checkpoint\",\"agent\":\"x\"} -->",
    "## GNS Checkpoint",
    "\\",
    "<\\!",
    "<\\\\",
    "Rationale: no",
    "\u{202e}",
    "\u{0}",
    "é",
    "日本",
    "&lt;!--",
    "checkpoint:",
    "- a: b",
    "'",
    "\"",
    "| x |",
    "null",
];

pub(crate) fn text(random: &mut Random, lines: usize) -> String {
    let mut text_lines = Vec::new();
    for _ in 0..=random.below(lines) {
        let words: Vec<&str> = (0..random.below(4))
            .map(|_| if random.once_in(2) { HOSTILE[random.below(HOSTILE.len())] } else { "word" })
            .collect();
        text_lines.push(words.join(if random.once_in(3) { "" } else { " " }));
    }
    text_lines.join("\n").trim().to_owned()
}

pub(crate) fn name(random: &mut Random) -> String {
    ["planner", "builder", "reviewer", "agent-7"][random.below(4)].to_owned()
}

pub(crate) fn moment(random: &mut Random) -> Moment {
    Moment::from_millis(1_700_000_000_000 + random.number() % 100_000_000 * 1000)
}

fn some<T>(random: &mut Random, make: impl Fn(&mut Random) -> T) -> Option<T> {
    random.once_in(2).then(|| make(random))
}

pub(crate) fn checkpoint(random: &mut Random) -> Checkpoint {
    let mut checkpoint_value =
        Checkpoint::new(random.number() % 1000, &text(random, 1), 0, moment(random));
    checkpoint_value.depth = u32::try_from(random.below(9)).unwrap();
    checkpoint_value.last_agent = some(random, name);
    checkpoint_value.last_invocation = some(random, |random| text(random, 1));
    checkpoint_value.budget = Budget::new(random.number() % 10_000, random.number() % 12_000);
    checkpoint_value.state.labels = (0..random.below(4)).map(|_| text(random, 1)).collect();
    checkpoint_value.state.assignee = some(random, |random| text(random, 1));
    checkpoint_value.next_agent = some(random, name);
    checkpoint_value.next_estimated_tokens = some(random, |random| random.number() % 5000);
    checkpoint_value.last_event_id = some(random, Random::number);
    for _ in 0..random.below(4) {
        let (agent, action, timestamp) = (name(random), text(random, 2), moment(random));
        checkpoint_value.history_tail.push(HistoryEntry { agent, action, timestamp });
    }
    for _ in 0..random.below(6) {
        let result = [ChainResult::Pass, ChainResult::Fail, ChainResult::Blocked][random.below(3)];
        let (agent, action, timestamp) = (name(random), text(random, 2), moment(random));
        checkpoint_value.agent_chain.push(ChainEntry { agent, action, timestamp, result });
    }
    checkpoint_value.current_task = some(random, |random| CurrentTask {
        title: text(random, 1),
        deliverable: text(random, 2),
        files: (0..random.below(4)).map(|_| text(random, 1)).collect(),
        skill: some(random, |random| text(random, 1)),
        rule: some(random, |random| text(random, 1)),
        priority: None,
    });
    checkpoint_value
}

fn json_value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 4 } else { 6 }) {
        0 => Value::Null,
        1 => json!(random.number()),
        2 | 3 => json!(text(random, 2)),
        4 => (0..random.below(3)).map(|_| json_value(random, depth - 1)).collect(),
        _ => json!({ text(random, 1): json_value(random, depth - 1) }),
    }
}

pub(crate) fn event(random: &mut Random) -> Event {
    let mut event = Event::new(EventKind::ALL[random.below(7)], &name(random));
    event.invocation_id = some(random, |random| text(random, 1));
    event.parent_id = some(random, |random| text(random, 1));
    event.depth = some(random, |random| u32::try_from(random.below(9)).unwrap());
    event.budget = some(random, |random| EventBudget {
        before: 100,
        consumed: random.number() % 100,
        remaining: -5,
        total: None,
    });
    event.verdict = some(random, |random| text(random, 1));
    event.next_agent = some(random, name);
    event.estimated_next_tokens = some(random, Random::number);
    event.work_commit = some(random, |random| text(random, 1));
    event.timestamp = some(random, moment);
    event.state_changes = StateChanges {
        labels_add: (0..random.below(3)).map(|_| text(random, 1)).collect(),
        assignee: some(random, |random| text(random, 1)),
        ..StateChanges::default()
    };
    for _ in 0..random.below(3) {
        let result = some(random, |random| text(random, 2));
        let (agent, task, verdict) = (name(random), text(random, 2), text(random, 1));
        event.cascade_log.push(CascadeEntry {
            agent,
            task,
            result,
            tokens: random.number() % 99,
            verdict,
        });
    }
    if random.once_in(2) {
        event.other.insert("extra".to_owned(), json_value(random, 2));
    }
    event
}

pub(crate) fn comment(random: &mut Random) -> ResultComment {
    let event = event(random);
    let rationale = some(random, |random| text(random, 3));
    let result = json_value(random, 3);
    ResultComment {
        phase: "drafting-spec".to_owned(),
        action: text(random, 6),
        result,
        rationale,
        event,
    }
}
