//! The state does not depend on the order in which comments become visible, nor on the body.

use bailiwick_memory::{
    Comment, Event, Inconsistency, RunResult, plan_exit, read_state, updated_body,
};
use bailiwick_testkit::depth::Depth;
use bailiwick_testkit::random::Random;
use serde_json::json;

use crate::hostile::{begin, comment_with, issue, spent, trust};

/// A plain model of the budget: the consumption of each agent, each invocation once.
#[derive(Default)]
struct Model {
    invocations: std::collections::BTreeSet<String>,
    consumed: u64,
    last: Option<String>,
}

#[test]
fn random_histories_reach_the_state_of_a_plain_model() {
    let mut random = Random::rotating("histories");
    for _ in 0..Depth::from_env().cases(5_000) {
        let mut model = Model::default();
        let mut comments = vec![comment_with(1, "boss", &begin(10_000))];
        for id in 2..u64::try_from(2 + random.below(20)).unwrap() {
            let agent = ["a", "b"][random.below(2)];
            let (invocation, consumed) = (format!("i{}", random.below(12)), random.number() % 500);
            let event = spent(agent, &invocation, consumed);
            let author = match random.below(5) {
                0 => "stranger".to_owned(),
                1 => "bot-a".to_owned(),
                _ => format!("bot-{agent}"),
            };
            let mut comment = comment_with(id, &author, &event);
            let is_edited = random.once_in(8);
            if is_edited {
                comment.updated_at = comment.updated_at.plus_millis(1);
            }
            let counts = author == format!("bot-{agent}") && !is_edited;
            if counts && model.invocations.insert(invocation.clone()) {
                model.consumed += consumed;
                model.last = Some(invocation);
            }
            comments.push(comment);
        }
        shuffle(&mut random, &mut comments);
        let checkpoint = read_state(&issue(), &comments, &trust()).checkpoint.unwrap();
        assert_eq!(checkpoint.budget.consumed, model.consumed);
        assert_eq!(checkpoint.budget.remaining, 10_000 - i64::try_from(model.consumed).unwrap());
        assert_eq!(checkpoint.last_invocation, model.last);
        assert!(checkpoint.history_tail.len() <= 3 && checkpoint.agent_chain.len() <= 5);
    }
}

fn shuffle(random: &mut Random, comments: &mut [Comment]) {
    for index in (1..comments.len()).rev() {
        comments.swap(index, random.below(index + 1));
    }
}

fn result(agent: &str, invocation: &str) -> RunResult {
    RunResult {
        agent: agent.to_owned(),
        invocation: invocation.to_owned(),
        parent: None,
        depth: 1,
        phase: "review".to_owned(),
        action: "Wrote the parser.".to_owned(),
        result: json!({ "files": 2 }),
        verdict: "pass".to_owned(),
        consumed: 600,
        labels: bailiwick_memory::LabelChange::default(),
        milestone: None,
        next_agent: Some("b".to_owned()),
        rationale: Some("It reviews.".to_owned()),
        estimated_next_tokens: Some(100),
        work_commit: None,
        cascade: Vec::new(),
        ended_at: None,
    }
}

/// The comment of an exit, as stored by the forge.
fn posted(id: u64, author: &str, body: String) -> Comment {
    Comment {
        body,
        ..comment_with(id, author, &Event::new(bailiwick_memory::EventKind::StateChange, "a"))
    }
}

#[test]
fn exit_can_be_repeated_from_any_point() {
    let mut issue = issue();
    let mut comments = vec![comment_with(1, "boss", &begin(1000))];
    let run = result("a", "run-1");
    let plan = plan_exit(&issue, &read_state(&issue, &comments, &trust()), &run, None);
    comments.push(posted(2, "bot-a", plan.comment.unwrap()));
    // Interrupted here, the next start finds that the comment was written.
    let state = read_state(&issue, &comments, &trust());
    assert_eq!(plan_exit(&issue, &state, &run, None).comment, None);
    issue.body = updated_body(&issue, &state).unwrap().unwrap();
    issue.labels = plan.labels;
    issue.assignee = plan.assignee;
    let state = read_state(&issue, &comments, &trust());
    let checkpoint = state.checkpoint.clone().unwrap();
    assert_eq!(checkpoint.budget.remaining, 400);
    assert_eq!(checkpoint.next_agent.as_deref(), Some("b"));
    assert_eq!(checkpoint.phase, "review");
    assert_eq!(checkpoint.history_tail[0].action, "Wrote the parser.");
    assert_eq!(issue.labels, ["phase::review", "budget::warning"]);
    assert_eq!(state.inconsistencies, []);
    issue.body = updated_body(&issue, &state).unwrap().unwrap_or(issue.body);
    assert_eq!(updated_body(&issue, &read_state(&issue, &comments, &trust())).unwrap(), None);
}

#[test]
fn lost_edit_of_the_body_loses_nothing() {
    let mut issue = issue();
    let mut comments = vec![comment_with(1, "boss", &begin(1000))];
    let empty = read_state(&issue, &comments, &trust());
    issue.body = updated_body(&issue, &empty).unwrap().unwrap();
    comments.push(comment_with(2, "bot-a", &spent("a", "one", 250)));
    let state = read_state(&issue, &comments, &trust());
    assert_eq!(state.checkpoint.as_ref().unwrap().budget.remaining, 750);
    let differs = |field: &str| {
        state.inconsistencies.iter().any(
            |inconsistency| matches!(inconsistency, Inconsistency::Differs { field: found, .. } if *found == field),
        )
    };
    assert!(differs("budget.consumed") && !differs("phase"), "{:?}", state.inconsistencies);
    issue.body.clear();
    assert_eq!(read_state(&issue, &comments, &trust()).checkpoint, state.checkpoint);
}
