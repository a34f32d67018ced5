//! The lifecycle of a rule: draft, active, paused, disabled, archived.

use bailiwick_fleet::ports::LifecycleVerb;
use bailiwick_fleet::triggers::lifecycle::{apply, may_dispatch};
use bailiwick_fleet::triggers::{Intent, evaluate};
use bailiwick_resources::{ExecutionDecision, LifecycleState};

use super::{failed_check, now, rule, seen};

const STATES: [LifecycleState; 5] = [
    LifecycleState::Draft,
    LifecycleState::Active,
    LifecycleState::Paused,
    LifecycleState::Disabled,
    LifecycleState::Archived,
];

#[test]
fn only_legal_lifecycle_changes_are_made() {
    use LifecycleState::{Active, Archived, Disabled, Draft, Paused};
    use LifecycleVerb::{Archive, Disable, Enable, Pause, Resume};
    let legal = [
        (Draft, Enable, Active),
        (Draft, Disable, Disabled),
        (Draft, Archive, Archived),
        (Active, Pause, Paused),
        (Active, Disable, Disabled),
        (Active, Archive, Archived),
        (Paused, Resume, Active),
        (Paused, Disable, Disabled),
        (Paused, Archive, Archived),
        (Disabled, Enable, Active),
        (Disabled, Archive, Archived),
    ];
    for from in STATES {
        for verb in LifecycleVerb::ALL {
            let expected = legal.iter().find(|(start, with, _)| (*start, *with) == (from, verb));
            match (apply(from, verb), expected) {
                (Ok(to), Some((_, _, wanted))) => assert_eq!(to, *wanted),
                (Err(error), None) => assert!(!error.instead.is_empty()),
                (found, _) => panic!("{from:?} {verb:?}: {found:?}"),
            }
        }
    }
}

#[test]
fn only_an_active_rule_dispatches_and_other_rules_leave_a_record() {
    for (state, code) in [
        ("draft", "RuleDraft"),
        ("paused", "RulePaused"),
        ("disabled", "RuleDisabled"),
        ("archived", "RuleArchived"),
    ] {
        let rules = [rule(|spec| spec["lifecycleState"] = state.into())];
        let plans = evaluate(&[failed_check()], &rules, &seen(), Intent::Deliver, now());
        assert_eq!(plans.len(), 1, "{state}");
        assert_eq!(plans[0].run, None, "{state}");
        assert_eq!(plans[0].execution.decision, ExecutionDecision::Rejected);
        assert!(plans[0].execution.reason.starts_with(code), "{}", plans[0].execution.reason);
        assert!(may_dispatch(rules[0].spec.lifecycle_state).is_err());
    }
    let plans = evaluate(&[failed_check()], &[rule(|_| {})], &seen(), Intent::Deliver, now());
    assert!(plans[0].run.is_some(), "positive control");
}
