//! Answers the gate: on a socket, or over the program's control protocol. No answer is a denial.

mod socket;
mod texts;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bailiwick_lifecycle::ports::{
    CallPolicy, DecidedCall, ForbiddenFile, ForbiddenFiles, WorkError,
};
use bailiwick_lifecycle::supervision::BudgetState;
use bailiwick_lifecycle::supervision::budget::BudgetLimit;
use bailiwick_model::capability::GateSeverity;
use bailiwick_model::event::{Answer, EventKind, ExitReason, ReportedBy};
use bailiwick_model::role::EscalationPolicy;
use bailiwick_policy::Decision;
use bailiwick_policy::decision::{Objection, Outcome};
use bailiwick_policy::protocol::GateRequest;
use bailiwick_policy::record::RecordedCall;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio::time::error::Elapsed;

use super::attempt_state::{AttemptState, exhausted_by};
use super::per_call_checks::{BlockedCall, PerCallChecks};
use texts::{about, approval_text, left_out_objection, names, removal_objection, tool};

pub(super) use socket::serve;
pub(super) use texts::{left_out_event, removal_event};

/// Calls that are evaluated at the same time; more wait.
const MAX_JUDGING: usize = 8;
/// Questions that are open at the same time, including those that wait for a person: calls that need no
/// approval must not wait for those that do.
pub(super) const MAX_OPEN: usize = 64;
/// Calls that wait for a person at the same time; one more is denied. Fewer than may be open, so that
/// there is always a permit for calls that need no approval.
const MAX_PENDING_APPROVALS: usize = MAX_OPEN / 2;
/// How many calls in a row may find forbidden files. A denied call created none, so a background
/// process did.
const MAX_REMOVALS: u32 = 5;

/// Decides the questions of a gate.
pub(super) trait CallDecider: Send + Sync {
    /// The gate has connected.
    fn on_gate_connected(&self);

    /// Decides a call.
    fn decide(&self, question: GateRequest) -> Pin<Box<dyn Future<Output = Decision> + Send + '_>>;

    /// The decision was not delivered: an objection in it has to be repeated.
    fn on_undelivered(&self, _decision: &Decision) {}

    /// Sets whether the program has nothing left but background work.
    fn set_only_background_work(&self, only_background: bool);
}

/// The rule of the one denial that notifies an agent that its tokens are nearly used.
const NEAR_LIMIT: &str = "bailiwick::near-limit";

/// Decides the calls of one attempt.
pub(super) struct GateService {
    pub(super) attempt_state: Arc<AttemptState>,
    pub(super) call_policy: Arc<dyn CallPolicy>,
    pub(super) tree_checks: Option<Arc<PerCallChecks>>,
    pub(super) forbidden_files: Option<Arc<dyn ForbiddenFiles>>,
    pub(super) approval_timeout: Duration,
    /// How long an answer may take in all; the gate waits a little longer.
    pub(super) timeout: Duration,
    pub(super) fail_fast: bool,
    /// Whether the agent is notified once when its tokens are nearly used.
    pub(super) warns_near_limit: bool,
    /// Permits to evaluate a call.
    pub(super) decision_permits: Semaphore,
    /// Permits to wait for a person.
    pub(super) approval_permits: Semaphore,
    /// How many calls in a row found forbidden files.
    pub(super) removals: AtomicU32,
}

impl GateService {
    /// The permits to evaluate calls.
    pub(super) fn decision_permits() -> Semaphore {
        Semaphore::new(MAX_JUDGING)
    }

    /// The permits to wait for a person.
    pub(super) fn approval_permits() -> Semaphore {
        Semaphore::new(MAX_PENDING_APPROVALS)
    }
}

impl CallDecider for GateService {
    fn on_gate_connected(&self) {
        self.attempt_state.gate_has_connected();
    }

    fn decide(&self, question: GateRequest) -> Pin<Box<dyn Future<Output = Decision> + Send + '_>> {
        Box::pin(self.answer(question))
    }

    fn on_undelivered(&self, decision: &Decision) {
        if decision.because.as_ref().is_some_and(|objection| objection.rule == NEAR_LIMIT) {
            self.attempt_state.forget_limit();
        }
        if let (Some(tree_checks), Some(objection)) = (&self.tree_checks, &decision.because) {
            tree_checks.on_undelivered(objection);
        }
    }

    fn set_only_background_work(&self, only_background: bool) {
        self.attempt_state.set_only_background_work(only_background);
    }
}

impl GateService {
    async fn answer(&self, question: GateRequest) -> Decision {
        self.attempt_state.touch();
        let deadline = Instant::now() + self.timeout;
        // Before the evaluation: facts that it looks up may change while the checks run.
        let checked = match &self.tree_checks {
            // A timeout is handled below.
            Some(tree_checks) => tokio::time::timeout_at(deadline, tree_checks.check_tree()).await,
            None => Ok(()),
        };
        let call_policy = Arc::clone(&self.call_policy);
        let permit = self.decision_permits.acquire().await;
        let decided = tokio::task::spawn_blocking(move || call_policy.decide(&question)).await;
        drop(permit);
        let mut decided_call = decided.unwrap_or_else(|_| DecidedCall {
            decision: Decision::undecidable("the supervisor failed"),
            call: RecordedCall::unreadable("the supervisor failed"),
            input: serde_json::Value::Null,
            own_tool_text: None,
            input_preview: String::new(),
        });
        if let Some(spent) = self.deny_if_over() {
            decided_call.decision = spent;
        }
        let mut exempt_from_fail_fast = false;
        if let Some(objection) = self.deny_for_forbidden_files().await {
            decided_call.decision = Decision::deny(objection);
            exempt_from_fail_fast = true;
        } else if let Some(denial) =
            self.deny_for_tree_checks(&decided_call, checked, deadline).await
        {
            decided_call.decision = Decision::deny(denial.objection);
            exempt_from_fail_fast = denial.exempt_from_fail_fast;
        } else if let Some(objection) = self.deny_near_limit(&decided_call) {
            decided_call.decision = Decision::deny(objection);
            exempt_from_fail_fast = true;
        }
        if decided_call.decision.outcome == Outcome::Ask {
            decided_call.decision = self.ask_person(&decided_call, deadline).await;
        }
        self.record(&decided_call, self.fail_fast && !exempt_from_fail_fast);
        decided_call.decision
    }

    /// An objection if the last call created a file that was removed or does not land.
    async fn deny_for_forbidden_files(&self) -> Option<Objection> {
        let files = Arc::clone(self.forbidden_files.as_ref()?);
        let result =
            tokio::task::spawn_blocking(move || Ok((files.remove()?, files.left_out()?))).await;
        let failed = |why: String| Objection::new("bailiwick::paths", why, "try the call again");
        match result {
            Ok(Ok((removed, left_out))) => {
                let removals = removed.iter().map(removal_event);
                for what in removals.chain(left_out.iter().map(left_out_event)) {
                    self.attempt_state.record_event(ReportedBy::Supervisor, None, what);
                }
                self.count_removals(&removed);
                removal_objection(&removed).or_else(|| left_out_objection(&left_out))
            }
            Ok(Err(error)) => Some(failed(WorkError::to_string(&error))),
            Err(_) => Some(failed("the supervisor failed".to_owned())),
        }
    }

    /// Ends a run in which removed files keep coming back.
    fn count_removals(&self, removed: &[ForbiddenFile]) {
        if removed.is_empty() {
            self.removals.store(0, Ordering::SeqCst);
            return;
        }
        let removals = self.removals.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        if removals >= MAX_REMOVALS {
            let why = format!(
                "{} was removed before {removals} calls in a row: a process in the background creates it \
                 again each time",
                names(removed)
            );
            self.attempt_state.end(ExitReason::Denied, &why);
        }
    }

    /// The objections of the checks between calls to a call that would run. After a timeout, the result may be that
    /// of the previous tree.
    async fn deny_for_tree_checks(
        &self,
        decided_call: &DecidedCall,
        checked: Result<(), Elapsed>,
        deadline: Instant,
    ) -> Option<BlockedCall> {
        let tree_checks = self.tree_checks.as_ref()?;
        match (decided_call.decision.outcome, checked) {
            (Outcome::Deny, _) => None,
            (Outcome::Allow | Outcome::Ask, Err(_)) => Some(BlockedCall::timed_out()),
            (Outcome::Allow | Outcome::Ask, Ok(())) => {
                let objection = tokio::time::timeout_at(deadline, tree_checks.objection()).await;
                objection.unwrap_or_else(|_| Some(BlockedCall::timed_out()))
            }
        }
    }

    /// Denies every call once the run has ended or a budget is spent.
    fn deny_if_over(&self) -> Option<Decision> {
        let (rule, why) = match (self.attempt_state.ending(), self.attempt_state.budget_state()) {
            (Some((ending, detail)), _) => {
                ("bailiwick::run", format!("the run has ended ({ending}): {detail}"))
            }
            (
                None,
                BudgetState::Exhausted(limit @ (BudgetLimit::ToolCalls | BudgetLimit::Time)),
            ) => {
                let why = format!("the budget is spent: {}", limit.as_str());
                self.attempt_state.record_exhaustion(exhausted_by(limit), &why);
                ("bailiwick::budget", why)
            }
            (None, BudgetState::Fine | BudgetState::Near(_) | BudgetState::Exhausted(_)) => {
                return None;
            }
        };
        Some(Decision::deny(Objection::new(rule, why, "say what you have done, and stop")))
    }

    /// Denies one call so that the agent learns that its tokens are nearly used. Later calls are not denied for it.
    fn deny_near_limit(&self, decided_call: &DecidedCall) -> Option<Objection> {
        if !self.warns_near_limit || decided_call.decision.outcome == Outcome::Deny {
            return None;
        }
        let why = self.attempt_state.near_limit_notice()?;
        let instead = "finish what you are doing, say what is done and what is left, and stop; calls that this needs \
                       are allowed";
        Some(Objection::new(NEAR_LIMIT, why, instead))
    }

    /// Asks a person, and waits. No answer is a denial.
    async fn ask_person(&self, decided_call: &DecidedCall, deadline: Instant) -> Decision {
        let rule = decided_call.decision.because.as_ref().map_or("approval", |one| &one.rule);
        let denied = |why: &str| {
            let instead = "continue with what needs no approval, and say what you would need";
            Decision::deny(Objection::new(rule, why, instead))
        };
        let Ok(_permit) = self.approval_permits.try_acquire() else {
            return denied(&format!("{MAX_PENDING_APPROVALS} calls wait for a person already"));
        };
        let timeout = deadline.saturating_duration_since(Instant::now()).min(self.approval_timeout);
        let deadline = Instant::now() + timeout;
        let (id, answer) = self.attempt_state.ask(&approval_text(decided_call), timeout);
        let answer = tokio::time::timeout_at(deadline, answer).await;
        self.attempt_state.drop_question(&id);
        match answer {
            Ok(Ok(Answer::Allow)) => {
                if decided_call.own_tool_text.is_some() {
                    self.attempt_state.consented(&tool(&decided_call.call), &decided_call.input);
                }
                Decision { outcome: Outcome::Allow, ..decided_call.decision.clone() }
            }
            Ok(Ok(Answer::Deny)) => denied("a person was asked, and said no"),
            Ok(Err(_)) | Err(_) => denied("a person was asked, and did not answer in time"),
        }
    }

    fn record(&self, decided_call: &DecidedCall, fail_fast: bool) {
        let DecidedCall { decision, call, input, own_tool_text: _, input_preview: _ } =
            decided_call;
        let denied = decision.outcome != Outcome::Allow;
        let because = decision.because.as_ref();
        let rule = denied.then(|| because.map_or("", |one| one.rule.as_str()));
        self.attempt_state.on_decision(call.id.as_deref(), &call.cli_tool_name, input, rule);
        let what = EventKind::Decision {
            call: call.id.clone(),
            tool: tool(call),
            about: about(decided_call),
            answer: if denied { Answer::Deny } else { Answer::Allow },
            rule: because.map(|one| one.rule.clone()),
            reason: because.map(Objection::sentence),
        };
        self.attempt_state.record_event(ReportedBy::Gate, call.agent.as_deref(), what);
        for warning in &decision.warnings {
            let what = EventKind::Warning {
                rule: warning.objection.rule.clone(),
                text: warning.objection.sentence(),
                told: warning.severity == GateSeverity::Warn && !denied,
            };
            self.attempt_state.record_event(ReportedBy::Gate, call.agent.as_deref(), what);
        }
        if denied && decision.escalation == Some(EscalationPolicy::OrchestratorNotify) {
            let why = because.map_or_else(String::new, Objection::sentence);
            let text = format!("denied {} {}: {why}", tool(call), about(decided_call));
            let what = EventKind::Notification { text };
            self.attempt_state.record_event(ReportedBy::Supervisor, call.agent.as_deref(), what);
        }
        if denied && fail_fast {
            let rule = because.map_or_else(String::new, |one| one.sentence());
            self.attempt_state
                .end(ExitReason::Denied, &format!("its role ends at the first denial: {rule}"));
        }
    }
}

#[cfg(test)]
mod tests;
