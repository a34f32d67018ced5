//! The steps of the protocol on a forge: reading an issue, beginning it, and leaving the result of a run. Each step can
//! be stopped anywhere and repeated: comments are found again by their invocation, the rest is made from them.

use serde_json::Value;

use crate::checkpoint::Budget;
use crate::claim_log::ClaimStore;
use crate::event::{Event, EventBudget, EventKind, footer};
use crate::exit::{RunResult, plan_exit, updated_body};
use crate::issue::{Comment, SharedAccount, Trust};
use crate::issue_body::find_checkpoint;
use crate::labels::{
    BUDGET_EXHAUSTED, BUDGET_WARNING, DEPTH_EXCEEDED, Family, LabelChange, VIOLATION, change_labels,
};
use crate::port::{BodyEdit, IssueMemory, MemoryError, ReadIssue};
use crate::prune::prune;
use crate::recorded::Recorded;
use crate::signature::SigningKey;
use crate::state::{State, read_claims, read_state};

/// How often a step is tried again after a conflict or without an answer.
pub(crate) const MAX_ATTEMPTS: u32 = 8;

/// An issue with everything that was read of it.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub read: ReadIssue,
    pub comments: Vec<Comment>,
    pub state: State,
}

/// What an exit could not write. Nothing of it loses an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExitReport {
    /// Whether this call wrote the comment; otherwise an earlier one had.
    pub has_posted: bool,
    pub problems: Vec<String>,
}

/// What a violation was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// A limit was broken, or may not have held.
    Limit,
    Depth,
}

/// The protocol on one repository.
pub struct Protocol<'a, M> {
    pub memory: &'a M,
    pub trust: Trust,
    pub key: SigningKey,
    pub claim_store: ClaimStore,
}

impl<'a, M: IssueMemory> Protocol<'a, M> {
    /// Events count if our own account wrote them and they are signed with the key.
    pub async fn open(memory: &'a M, key: SigningKey) -> Result<Self, MemoryError> {
        let account = memory.account().await?;
        Ok(Self::of_account(memory, key, account))
    }

    /// The same for an account that is known; `None` if the forge does not tell.
    pub fn of_account(memory: &'a M, key: SigningKey, account: Option<String>) -> Self {
        let shared = Some(SharedAccount { account, key: key.clone() });
        let trust = Trust { shared, ..Trust::default() };
        Self { memory, trust, key, claim_store: ClaimStore::Reference }
    }

    pub async fn load(&self, number: u64) -> Result<Loaded, MemoryError> {
        let mut attempt = 0;
        loop {
            let result = self.load_once(number).await;
            match result {
                Err(MemoryError::Unavailable(_)) if attempt < MAX_ATTEMPTS => {
                    attempt += 1;
                    self.memory.back_off(attempt).await;
                }
                other => return other,
            }
        }
    }

    async fn load_once(&self, number: u64) -> Result<Loaded, MemoryError> {
        let read = self.memory.read_issue(number).await?;
        self.load_all(read).await
    }

    pub(crate) async fn load_all(&self, read: ReadIssue) -> Result<Loaded, MemoryError> {
        let number = read.issue.number;
        let comments = self.memory.comments(number, None).await?;
        let mut state = read_state(&read.issue, &comments, &self.trust);
        if self.has_claims(number) && state.claims.last_change > 0 {
            let states = self.memory.state_events(number, None).await?;
            state.claims = read_claims(&read.issue, None, &state.events, &self.trust, &states);
        }
        Ok(Loaded { read, comments, state })
    }

    /// Whether the claims are in the comments of this issue.
    fn has_claims(&self, number: u64) -> bool {
        match self.claim_store {
            ClaimStore::Comments { issue, .. } => issue == number,
            ClaimStore::Reference => false,
        }
    }

    /// Gives an issue its first checkpoint, once.
    pub async fn begin(
        &self,
        number: u64,
        agent: &str,
        phase: &str,
        total: u64,
        next_agent: Option<&str>,
    ) -> Result<Loaded, MemoryError> {
        let loaded = self.load(number).await?;
        if loaded.state.has_recorded_budget() {
            return Ok(loaded);
        }
        let mut event = Event::new(EventKind::Checkpoint, agent);
        event.invocation_id = Some("begin".to_owned());
        event.issue = Some(number);
        event.next_agent = next_agent.map(str::to_owned);
        let remaining = Budget::new(total, 0).remaining;
        event.budget =
            Some(EventBudget { before: remaining, consumed: 0, remaining, total: Some(total) });
        event.other.insert("phase".to_owned(), Value::String(phase.to_owned()));
        let text = format!("Work on this issue begins with {total} tokens.");
        let loaded = self.record(number, &text, event).await?;
        self.write_body(number, loaded, None, &mut Vec::new()).await
    }

    /// Changes the total of the budget. A later exit or entry sees it, and the label that paused the issue goes.
    pub async fn set_budget(
        &self,
        number: u64,
        by: &str,
        invocation: &str,
        total: u64,
    ) -> Result<Loaded, MemoryError> {
        let loaded = self.load(number).await?;
        let budget = loaded.state.checkpoint.as_ref().map(|checkpoint| checkpoint.budget);
        let consumed = budget.map_or(0, |budget| budget.consumed);
        let remaining = Budget::new(total, consumed).remaining;
        let mut event = Event::new(EventKind::BudgetUpdate, by);
        event.invocation_id = Some(invocation.to_owned());
        event.issue = Some(number);
        event.budget = Some(EventBudget {
            before: budget.map_or(0, |budget| budget.remaining),
            consumed: 0,
            remaining,
            total: Some(total),
        });
        let loaded =
            self.record(number, &format!("The budget is {total} tokens now."), event).await?;
        let loaded = self.write_body(number, loaded, None, &mut Vec::new()).await?;
        self.write_labels(number, &loaded, &[]).await?;
        Ok(loaded)
    }

    /// Leaves the result of a run: the comment, then the checkpoint, labels and assignee. The milestone is last, and
    /// its error only a problem: Gitea answers an unknown one with an error of its own, as often as it is tried.
    pub async fn exit(&self, number: u64, run: &RunResult) -> Result<ExitReport, MemoryError> {
        let mut report = ExitReport::default();
        let mut loaded = self.load(number).await?;
        let mut attempt = 0;
        while !loaded.state.has_result(&run.invocation) {
            let plan = plan_exit(&loaded.read.issue, &loaded.state, run, Some(&self.key));
            let Some(text) = plan.comment else { break };
            match self.memory.post_comment(number, &text).await {
                Ok(comment) => {
                    report.has_posted = true;
                    loaded = self.load_with(number, comment).await?;
                    if !loaded.state.has_result(&run.invocation) {
                        // Another comment would not count either.
                        let why = "the forge says that another account wrote the result";
                        return Err(MemoryError::Refused(why.to_owned()));
                    }
                }
                Err(MemoryError::Unavailable(_)) if attempt < MAX_ATTEMPTS => {
                    attempt += 1;
                    self.memory.back_off(attempt).await;
                    loaded = self.load(number).await?;
                }
                Err(error) => return Err(error),
            }
        }
        let has_milestone = run.milestone.is_some();
        let run = Some(run.invocation.as_str());
        let loaded = self.write_body(number, loaded, run, &mut report.problems).await?;
        self.write_labels(number, &loaded, &changes_since(&loaded.state, run)).await?;
        let next =
            loaded.state.checkpoint.as_ref().and_then(|checkpoint| checkpoint.next_agent.clone());
        if loaded.read.issue.assignee != next && next.is_some() {
            match self.memory.set_assignee(number, next.as_deref()).await {
                Ok(()) => {}
                // Agents need no account of their own, and without one nobody can be assigned.
                Err(MemoryError::Refused(why)) => report.problems.push(why),
                Err(error) => return Err(error),
            }
        }
        if has_milestone && let Err(error) = self.write_milestone(number, &loaded).await {
            report.problems.push(format!("its milestone could not be set: {error}"));
        }
        Ok(report)
    }

    /// Sets the milestone of the last run that named one: a later run may have set another one.
    async fn write_milestone(&self, number: u64, loaded: &Loaded) -> Result<(), MemoryError> {
        let mut later = loaded.state.events.iter().rev();
        let milestone = later.find_map(|recorded| recorded.event.state_changes.milestone);
        let mut attempt = 0;
        loop {
            match self.memory.set_milestone(number, milestone).await {
                Err(MemoryError::Unavailable(_)) if attempt < MAX_ATTEMPTS => {
                    attempt += 1;
                    self.memory.back_off(attempt).await;
                }
                other => return other,
            }
        }
    }

    /// Sets the label of the next agent again, as an event that starts its run. What a lost machine did not write after
    /// its last comment is written before.
    pub async fn hand_on_again(&self, number: u64, agent: &str) -> Result<(), MemoryError> {
        let label = format!("{}::{agent}", Family::Agent.as_str());
        let loaded = self.load(number).await?;
        let mut loaded = self.write_body(number, loaded, None, &mut Vec::new()).await?;
        if loaded.read.issue.labels.contains(&label) {
            let removed = LabelChange { add: Vec::new(), remove: vec![label.clone()] };
            self.send_labels(number, &removed).await?;
            loaded.read.issue.labels.retain(|one| *one != label);
        }
        let added = LabelChange { add: vec![label], remove: Vec::new() };
        self.write_labels(number, &loaded, &[added]).await
    }

    /// Records that an agent broke a limit: labels and locks the issue, so that nothing runs until a person has looked.
    pub async fn alert(
        &self,
        number: u64,
        agent: &str,
        invocation: &str,
        violation: Violation,
        text: &str,
    ) -> Result<(), MemoryError> {
        let label = match violation {
            Violation::Limit => VIOLATION,
            Violation::Depth => DEPTH_EXCEEDED,
        };
        let loaded = self.load(number).await?;
        let is_recorded = loaded.state.events.iter().any(|recorded| {
            recorded.event.kind == EventKind::SecurityAlert
                && recorded.event.invocation_id.as_deref() == Some(invocation)
        });
        let mut loaded = loaded;
        if !is_recorded {
            let mut event = Event::new(EventKind::SecurityAlert, agent);
            event.invocation_id = Some(invocation.to_owned());
            event.issue = Some(number);
            event.state_changes.labels_add.push(label.to_owned());
            event.state_changes.is_locked = true;
            loaded = self.record(number, text, event).await?;
        }
        let change = LabelChange { add: vec![label.to_owned()], remove: Vec::new() };
        self.write_labels(number, &loaded, &[change]).await?;
        match self.memory.set_locked(number, true).await {
            // The label stops every run as well.
            Ok(()) | Err(MemoryError::Unsupported(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Posts an event, unless it is there, and reads the issue with it.
    async fn record(&self, number: u64, text: &str, event: Event) -> Result<Loaded, MemoryError> {
        let comment = self.post_event(number, text, event).await?;
        self.load_with(number, comment).await
    }

    /// Posts an event; one whose answer was lost is found again, if it is visible.
    pub(crate) async fn post_event(
        &self,
        number: u64,
        text: &str,
        event: Event,
    ) -> Result<Comment, MemoryError> {
        let signed = self.key.sign(event, self.memory.repository(), number);
        let body = format!("{text}\n\n{}\n", footer(&signed));
        let mut attempt = 0;
        loop {
            match self.memory.post_comment(number, &body).await {
                Err(MemoryError::Unavailable(_)) if attempt < MAX_ATTEMPTS => {
                    attempt += 1;
                    self.memory.back_off(attempt).await;
                    let loaded = self.load(number).await?;
                    let own = loaded.state.events.iter().find(|one| one.event == signed);
                    let id = own.map(|recorded| recorded.comment);
                    if let Some(own) = loaded.comments.into_iter().find(|one| Some(one.id) == id) {
                        return Ok(own);
                    }
                }
                other => return other,
            }
        }
    }

    /// The issue with a comment that was just written: a forge may not list it yet.
    async fn load_with(&self, number: u64, comment: Comment) -> Result<Loaded, MemoryError> {
        let mut loaded = self.load(number).await?;
        if loaded.comments.iter().all(|listed| listed.id != comment.id) {
            loaded.comments.push(comment);
            loaded.state = read_state(&loaded.read.issue, &loaded.comments, &self.trust);
        }
        Ok(loaded)
    }

    /// Writes the checkpoint that the comments lead to. What cannot be written is a problem and no loss.
    async fn write_body(
        &self,
        number: u64,
        mut loaded: Loaded,
        run: Option<&str>,
        problems: &mut Vec<String>,
    ) -> Result<Loaded, MemoryError> {
        for attempt in 1..=MAX_ATTEMPTS {
            if loaded.read.is_body_cut {
                problems
                    .push("the issue's text is too long to write a checkpoint into it".to_owned());
                return Ok(loaded);
            }
            let in_body = find_checkpoint(&loaded.read.issue.body, number).ok();
            if let Some((_, archive)) = in_body.as_ref().and_then(prune)
                && !loaded.comments.iter().any(|comment| comment.body.contains(&archive.digest))
            {
                let comment = self.memory.post_comment(number, &archive.text).await?;
                loaded.comments.push(comment);
            }
            // The checkpoint has the labels and the assignee that are written after it.
            let mut issue = loaded.read.issue.clone();
            issue.labels = labels_after(&loaded, &changes_since(&loaded.state, run));
            if let (Some(_), Some(checkpoint)) = (run, &loaded.state.checkpoint) {
                issue.assignee = checkpoint.next_agent.clone().or(issue.assignee);
            }
            let state = read_state(&issue, &loaded.comments, &self.trust);
            let body = match updated_body(&issue, &state) {
                Ok(Some(body)) => body,
                Ok(None) => return Ok(loaded),
                Err(error) => {
                    problems.push(error.to_string());
                    return Ok(loaded);
                }
            };
            let version = loaded.read.body_version;
            match self.memory.edit_body(number, version, &body).await {
                Ok(BodyEdit::Written) if version.is_some() => {
                    loaded.read.issue.body = body;
                    return Ok(loaded);
                }
                // Without a version an edit can be lost, so it is read again.
                Ok(BodyEdit::Written) => {}
                Ok(BodyEdit::Conflict) | Err(MemoryError::Unavailable(_)) => {
                    self.memory.back_off(attempt).await;
                }
                Err(MemoryError::Refused(why)) => {
                    problems.push(why);
                    return Ok(loaded);
                }
                Err(error) => return Err(error),
            }
            let again = self.load(number).await?;
            // A comment of ours may not be listed yet.
            let missing: Vec<Comment> = loaded
                .comments
                .iter()
                .filter(|comment| again.comments.iter().all(|listed| listed.id != comment.id))
                .cloned()
                .collect();
            loaded = again;
            if !missing.is_empty() {
                loaded.comments.extend(missing);
                loaded.state = read_state(&loaded.read.issue, &loaded.comments, &self.trust);
            }
        }
        problems.push(
            "others changed the issue's text at the same time; the next run corrects it".to_owned(),
        );
        Ok(loaded)
    }

    /// Writes the labels after these changes.
    async fn write_labels(
        &self,
        number: u64,
        loaded: &Loaded,
        changes: &[LabelChange],
    ) -> Result<(), MemoryError> {
        let current = &loaded.read.issue.labels;
        let change = LabelChange::between(current, &labels_after(loaded, changes));
        if change.is_empty() {
            return Ok(());
        }
        self.send_labels(number, &change).await
    }

    async fn send_labels(&self, number: u64, change: &LabelChange) -> Result<(), MemoryError> {
        let mut attempt = 0;
        loop {
            match self.memory.change_labels(number, change).await {
                Err(MemoryError::Unavailable(_)) if attempt < MAX_ATTEMPTS => {
                    attempt += 1;
                    self.memory.back_off(attempt).await;
                }
                other => return other,
            }
        }
    }
}

/// What a run and all later ones changed: a later run may have left its changes meanwhile, and they stay on top.
fn changes_since(state: &State, run: Option<&str>) -> Vec<LabelChange> {
    let Some(run) = run else { return Vec::new() };
    let events = state.events.iter();
    let later = events.skip_while(|recorded| recorded.event.invocation_id.as_deref() != Some(run));
    let change = |recorded: &Recorded| LabelChange {
        add: recorded.event.state_changes.labels_add.clone(),
        remove: recorded.event.state_changes.labels_remove.clone(),
    };
    later.map(change).collect()
}

/// The labels after these changes. Those of the budget come from the checkpoint.
fn labels_after(loaded: &Loaded, changes: &[LabelChange]) -> Vec<String> {
    let mut labels = loaded.read.issue.labels.clone();
    for change in changes {
        labels = change_labels(&labels, change);
    }
    if let Some(budget) = loaded.state.checkpoint.as_ref().map(|checkpoint| checkpoint.budget) {
        let is_of_budget = |label: &str| matches!(label, BUDGET_WARNING | BUDGET_EXHAUSTED);
        labels.retain(|label| !is_of_budget(label));
        let half = i64::try_from(budget.total / 2).unwrap_or(i64::MAX);
        if budget.remaining <= 0 {
            labels.push(BUDGET_EXHAUSTED.to_owned());
        } else if budget.remaining <= half {
            labels.push(BUDGET_WARNING.to_owned());
        }
    }
    labels
}
