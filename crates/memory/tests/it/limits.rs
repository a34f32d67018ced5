//! Budget, depth, context, labels and pruning.

use bailiwick_memory::{
    Budget, Checkpoint, ContextParts, ContextRefusal, HistoryEntry, LabelChange, SpawnRefusal,
    change_labels, check_context, max_depth, may_enter, may_spawn, prune,
};
use bailiwick_resources::Moment;

fn labels(names: &[&str]) -> Vec<String> {
    names.iter().map(|label| (*label).to_owned()).collect()
}

#[test]
fn depth_comes_from_the_label_and_the_smaller_limit_counts() {
    assert_eq!(max_depth(&labels(&["cascade::depth-2"]), false, None), Some(2));
    assert_eq!(max_depth(&labels(&["cascade::depth-2"]), false, Some(1)), Some(1));
    assert_eq!(max_depth(&labels(&["cascade::depth-n"]), true, None), None);
    // The label is on the issue, which everybody shares: it removes the limit only for the orchestrator. The agents that
    // it hands the issue to have the limit of sub-agents.
    assert_eq!(max_depth(&labels(&["cascade::depth-n"]), false, None), Some(2));
    assert_eq!(max_depth(&labels(&["cascade::depth-n"]), false, Some(1)), Some(1));
    assert_eq!(max_depth(&labels(&["cascade::depth-n", "cascade::depth-1"]), false, None), Some(1));
    assert_eq!(max_depth(&labels(&["cascade::depth-x"]), false, None), Some(0));
    assert_eq!(max_depth(&[], false, None), Some(0));
    assert_eq!(
        max_depth(&labels(&["cascade::depth-exceeded", "cascade::depth-1"]), false, None),
        Some(1)
    );
    assert!(may_enter(2, Some(2)).is_ok());
    assert!(may_enter(3, Some(2)).is_err());
}

#[test]
fn sub_agent_gets_at_most_half_of_the_unreserved_rest() {
    let budget = Budget::new(1000, 0);
    let spawn = |tier, depth, reserved, estimate| {
        may_spawn(tier, depth, Some(2), budget, reserved, estimate)
    };
    assert_eq!(spawn(2, 1, 0, 500), Ok(()));
    assert!(matches!(spawn(2, 1, 0, 501), Err(SpawnRefusal::Budget { .. })));
    assert!(matches!(spawn(2, 1, 200, 500), Err(SpawnRefusal::Budget { remaining: 800, .. })));
    assert!(matches!(spawn(2, 2, 0, 1), Err(SpawnRefusal::Depth(_))));
    assert_eq!(spawn(1, 1, 0, 1), Err(SpawnRefusal::Tier(1)));
    assert!(matches!(spawn(2, 1, 1000, 0), Err(SpawnRefusal::Budget { .. })));
}

#[test]
fn label_family_has_one_label() {
    let current = labels(&["phase::new", "bug", "permission::a", "cascade::depth-1"]);
    let add = labels(&["phase::review", "permission::b", "cascade::depth-exceeded"]);
    let change = LabelChange { add, remove: labels(&["bug"]) };
    let expected = [
        "permission::a",
        "cascade::depth-1",
        "phase::review",
        "permission::b",
        "cascade::depth-exceeded",
    ];
    assert_eq!(change_labels(&current, &change), expected);
    let changed_twice = change_labels(&change_labels(&current, &change), &change);
    assert_eq!(changed_twice.len(), expected.len());
}

#[test]
fn context_is_bounded_in_number_and_size() {
    let parts = ContextParts {
        checkpoint: 100,
        comments: vec![10; 3],
        files: vec![50; 3],
        ..ContextParts::default()
    };
    assert_eq!(check_context(&parts, 1000), Ok(280));
    assert_eq!(
        check_context(&parts, 280 * 100 / 30),
        Err(ContextRefusal::TooLarge { estimate: 280, window: 933 })
    );
    let too_many = ContextParts { comments: vec![1; 4], ..parts };
    assert!(matches!(
        check_context(&too_many, 1000),
        Err(ContextRefusal::TooMany { what: "comments", .. })
    ));
}

#[test]
fn pruning_keeps_the_end_and_is_idempotent() {
    let at = Moment::from_millis(1_700_000_000_000);
    let mut checkpoint = Checkpoint::new(7, "p", 1000, at);
    let entry = |number: usize| HistoryEntry {
        agent: "a".to_owned(),
        action: format!("{number}"),
        timestamp: at,
    };
    checkpoint.history_tail = (0..9).map(entry).collect();
    checkpoint.budget = Budget::new(1000, 800);
    assert_eq!(prune(&checkpoint), None);
    checkpoint.budget = Budget::new(1000, 801);
    let (pruned, archive) = prune(&checkpoint).unwrap();
    assert_eq!(pruned.history_tail, checkpoint.history_tail[6..]);
    assert_eq!((pruned.budget, pruned.issue, pruned.depth), (checkpoint.budget, 7, 0));
    assert!(
        archive.text.contains(&archive.digest) && archive.text.contains("action: \"0\""),
        "{}",
        archive.text
    );
    assert_eq!(prune(&pruned), None);
}
