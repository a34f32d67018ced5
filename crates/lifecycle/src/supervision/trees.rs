//! The trees of an agent that are checked between its calls, and the objections that it receives: one for each
//! failing tree.
//!
//! Once only, because a repair needs calls: an agent that is denied until the tree passes could never make it pass.

use std::collections::BTreeSet;

use bailiwick_model::Event;
use bailiwick_model::event::{Answer, EventKind};
use bailiwick_policy::decision::Objection;
use bailiwick_verify::Verdict;

use crate::ports::Snapshot;
use crate::verification::CheckResult;

const INSTEAD: &str = "mend what you have changed; your calls go on from here, and the same check decides \
                       at the end whether your work lands";

/// The maximum length of an objection, in characters.
const MAX_FOUND_CHARS: usize = 6000;

/// The checked trees of an agent.
#[derive(Debug, Clone, Default)]
pub struct Trees {
    /// Whether the next tree is the one that the agent begins with.
    expects_initial_tree: bool,
    seen: BTreeSet<String>,
    /// A failing tree that was not reported to the agent.
    pending: Option<(String, Objection)>,
    /// The last objection that the agent received.
    last_taken: Option<(String, Objection)>,
    /// Why the agent's files could not become a tree the last time.
    not_a_tree: Option<Objection>,
}

impl Trees {
    /// Restores the state from the events of earlier attempts.
    pub fn new(earlier: &[Event]) -> Self {
        let mut trees = Self { expects_initial_tree: earlier.is_empty(), ..Self::default() };
        for event in earlier {
            if let EventKind::Check { check, tree, ok, found } = &event.what {
                trees.note(check, tree, *ok, found);
            } else if let EventKind::Decision { answer: Answer::Deny, rule: Some(rule), .. } =
                &event.what
            {
                trees.pending.take_if(|(_, objection)| objection.rule == *rule);
            }
        }
        trees
    }

    /// The agent has this tree now. Returns whether to check it: not the initial tree, and none twice.
    pub fn is_new(&mut self, work: &Snapshot) -> bool {
        self.not_a_tree = None;
        self.pending.take_if(|(tree, _)| *tree != work.tree);
        if std::mem::take(&mut self.expects_initial_tree) {
            self.seen.insert(work.tree.to_string());
        }
        work.tree != work.merge_base_tree && !self.seen.contains(work.tree.as_str())
    }

    /// The agent's files cannot become a tree, for a reason that the agent can repair: it is notified once per
    /// reason.
    pub fn not_a_tree(&mut self, why: &Objection) {
        // Later changes are made by the agent.
        self.expects_initial_tree = false;
        if self.not_a_tree.as_ref() != Some(why) {
            self.not_a_tree = Some(why.clone());
            self.pending = Some((String::new(), why.clone()));
        }
    }

    /// A tree was checked; returns the results to record.
    pub fn checked(&mut self, tree: &str, results: &[CheckResult]) -> Vec<EventKind> {
        let checked = results.iter().map(|result| {
            let (check, ok) = (result.capability.clone(), result.verdict.is_pass());
            let found = found(&result.verdict);
            self.note(&check, tree, ok, &found);
            EventKind::Check { check, tree: tree.to_owned(), ok, found }
        });
        checked.collect()
    }

    /// The objection for the agent; it counts as delivered.
    pub fn take_objection(&mut self) -> Option<Objection> {
        self.last_taken = self.pending.take();
        self.last_taken.as_ref().map(|(_, objection)| objection.clone())
    }

    /// The objection was not delivered: it is sent again while the tree is the same.
    pub fn restore_objection(&mut self, objection: &Objection) {
        let last_taken = self.last_taken.take_if(|(_, last_taken)| last_taken == objection);
        self.pending = self.pending.take().or(last_taken);
    }

    fn note(&mut self, check: &str, tree: &str, ok: bool, found: &str) {
        self.pending.take_if(|(pending, _)| pending != tree);
        self.seen.insert(tree.to_owned());
        if ok {
            return;
        }
        let reason = format!("check {check} failed after your last change: {}", cut(found));
        match &mut self.pending {
            Some((_, objection)) => objection.reason = format!("{}\n{reason}", objection.reason),
            None => {
                self.pending = Some((tree.to_owned(), Objection::new(check, reason, INSTEAD)));
            }
        }
    }
}

/// The findings of a check, as text.
fn found(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Pass { evidence } => evidence.clone(),
        Verdict::Fail { reason, detail: None } => reason.clone(),
        Verdict::Fail { reason, detail: Some(detail) } => format!("{reason}\n{detail}"),
    }
}

/// Keeps the beginning, which says what failed, and the end, which says why.
fn cut(found: &str) -> String {
    let length = found.chars().count();
    if length <= MAX_FOUND_CHARS {
        return found.to_owned();
    }
    let first = found.lines().next().unwrap_or_default();
    let first: String = first.chars().take(MAX_FOUND_CHARS / 4).collect();
    let last: String = found.chars().skip(length - MAX_FOUND_CHARS * 3 / 4).collect();
    format!("{first}\n…\n{last}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_model::event::ReportedBy;
    use bailiwick_model::{CommitId, TreeId};
    use bailiwick_verify::Pass;

    fn work(tree: &str) -> Snapshot {
        Snapshot {
            head: CommitId::new("h"),
            commit: CommitId::new("c"),
            tree: TreeId::new(tree),
            merge_base: CommitId::new("b"),
            merge_base_tree: TreeId::new("given"),
        }
    }

    fn result(check: &str, verdict: Verdict) -> CheckResult {
        let capability = check.to_owned();
        CheckResult { capability, pass: Pass::Worktree, verdict, reused: false }
    }

    fn event(what: EventKind) -> Event {
        Event {
            number: 1,
            at: 1,
            reported_by: ReportedBy::Supervisor,
            agent: None,
            what,
            raw: None,
        }
    }

    fn denied(rule: &str) -> EventKind {
        EventKind::Decision {
            call: None,
            tool: "Bash".to_owned(),
            about: "ls".to_owned(),
            answer: Answer::Deny,
            rule: Some(rule.to_owned()),
            reason: None,
        }
    }

    #[test]
    fn failing_tree_is_reported_once_and_checked_once() {
        let mut trees = Trees::new(&[]);
        assert!(!trees.is_new(&work("given")));
        assert!(trees.is_new(&work("one")));
        let events = trees.checked(
            "one",
            &[
                result("quality::a", Verdict::pass("fine")),
                result("quality::b", Verdict::fail_with("`make` ended with 2", "line 7")),
                result("quality::c", Verdict::fail("too long")),
            ],
        );
        assert_eq!(events.len(), 3);
        assert!(!trees.is_new(&work("one")), "the tree is unchanged");
        let objection = trees.take_objection().unwrap();
        assert_eq!(objection.rule, "quality::b");
        for words in ["check quality::b failed after your last change", "line 7", "quality::c"] {
            assert!(objection.reason.contains(words), "{}", objection.reason);
        }
        assert_eq!(trees.take_objection(), None);
        assert!(!trees.is_new(&work("one")));
        assert_eq!(trees.take_objection(), None, "an objection is given only once");
        assert!(trees.is_new(&work("two")));
        trees.checked("two", &[result("quality::b", Verdict::pass("fine"))]);
        assert_eq!(trees.take_objection(), None, "a passing check is not reported");
    }

    #[test]
    fn undelivered_objection_is_repeated_unless_the_tree_changed() {
        let mut trees = Trees::new(&[event(EventKind::Announced)]);
        assert!(trees.is_new(&work("one")));
        trees.checked("one", &[result("quality::a", Verdict::fail("no"))]);
        let objection = trees.take_objection().unwrap();
        trees.restore_objection(&Objection::new("other", "no", "no"));
        assert_eq!(trees.take_objection(), None, "the objection came from another rule");
        trees.checked("one", &[result("quality::a", Verdict::fail("no"))]);
        assert_eq!(trees.take_objection().as_ref(), Some(&objection));
        trees.restore_objection(&objection);
        assert!(!trees.is_new(&work("one")));
        assert_eq!(trees.take_objection().as_ref(), Some(&objection));
        trees.restore_objection(&objection);
        assert!(trees.is_new(&work("two")));
        assert_eq!(trees.take_objection(), None);
    }

    #[test]
    fn invalid_tree_is_reported_once_until_it_is_valid_again() {
        let mut trees = Trees::new(&[]);
        assert!(!trees.is_new(&work("given")));
        let (one, two) = (Objection::new("r", "one", "mend"), Objection::new("r", "two", "mend"));
        trees.not_a_tree(&one);
        assert_eq!(trees.take_objection().as_ref(), Some(&one));
        trees.restore_objection(&one);
        trees.not_a_tree(&one);
        assert_eq!(trees.take_objection().as_ref(), Some(&one), "the objection was not delivered");
        trees.not_a_tree(&one);
        assert_eq!(trees.take_objection(), None, "it was delivered");
        trees.not_a_tree(&two);
        assert_eq!(trees.take_objection().as_ref(), Some(&two), "the reason is another one");
        trees.not_a_tree(&one);
        assert!(trees.is_new(&work("one")));
        assert_eq!(trees.take_objection(), None, "the tree was fixed");
        trees.not_a_tree(&one);
        assert_eq!(trees.take_objection().as_ref(), Some(&one), "and is invalid again");
    }

    #[test]
    fn files_given_to_the_agent_are_not_its_change() {
        let mut trees = Trees::new(&[]);
        assert!(!trees.is_new(&work("with files of the setup")));
        assert!(trees.is_new(&work("one")), "an edit is a change");
        let earlier = [event(EventKind::Announced)];
        let mut resumed = Trees::new(&earlier);
        assert!(!resumed.is_new(&work("given")));
        assert!(
            Trees::new(&earlier).is_new(&work("one")),
            "the change is of an interrupted attempt"
        );
    }

    #[test]
    fn failure_fixed_before_delivery_is_not_reported() {
        let mut trees = Trees::new(&[]);
        assert!(!trees.is_new(&work("given")));
        assert!(trees.is_new(&work("one")));
        trees.checked("one", &[result("quality::a", Verdict::fail("no"))]);
        assert!(!trees.is_new(&work("given")));
        assert_eq!(trees.take_objection(), None);
    }

    #[test]
    fn attempt_resumes_where_the_last_one_ended() {
        let mut first = Trees::new(&[]);
        assert!(!first.is_new(&work("given")) && first.is_new(&work("one")));
        let results = [result("quality::a", Verdict::fail("no"))];
        let mut events: Vec<Event> =
            first.checked("one", &results).into_iter().map(event).collect();
        let mut pending = Trees::new(&events);
        assert!(!pending.is_new(&work("one")), "the tree was checked already");
        assert_eq!(
            pending.take_objection(),
            first.take_objection(),
            "the objection was not delivered"
        );
        events.push(event(denied("scope::other")));
        assert!(Trees::new(&events).take_objection().is_some(), "another rule denied another call");
        events.push(event(denied("quality::a")));
        assert_eq!(Trees::new(&events).take_objection(), None);
    }

    #[test]
    fn long_output_is_shortened_to_its_beginning_and_end() {
        let long = format!("`make` ended with 2\n{}the end", "x".repeat(2 * MAX_FOUND_CHARS));
        let shortened = cut(&long);
        assert!(shortened.starts_with("`make` ended with 2\n") && shortened.ends_with("the end"));
        assert!(shortened.chars().count() <= MAX_FOUND_CHARS + 4);
        assert_eq!(cut("short"), "short");
    }
}
