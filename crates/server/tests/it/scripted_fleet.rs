//! A control plane with scripted answers, which records all calls.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bailiwick_fleet::ports::*;
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    ActionType, ApprovalPhase, ExecutionDecision, LifecycleState, Moment, RunPhase, TrustTier,
    WorkspaceState,
};
use serde_json::{Value, json};

#[derive(Default)]
pub(crate) struct ScriptedFleet {
    pub(crate) calls: Mutex<Vec<(Caller, String, Value)>>,
    /// Every action fails.
    pub(crate) broken: AtomicBool,
    decided: Mutex<BTreeMap<String, String>>,
    pub(crate) events: Mutex<BTreeMap<String, RunEvents>>,
    /// The duration of an action.
    pub(crate) delay: Mutex<Duration>,
    /// Completed actions.
    pub(crate) finished: Mutex<Vec<String>>,
}

/// The signature of test webhooks.
pub(crate) fn signature(secret: &[u8], body: &[u8]) -> String {
    Sha256Hex::of([secret, body].concat()).to_string()
}

impl ScriptedFleet {
    async fn record(
        &self,
        caller: &Caller,
        what: impl Into<String>,
        more: Value,
    ) -> Result<(), ActionError> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(ActionError::Unavailable("no engine is wired".to_owned()));
        }
        let what = what.into();
        self.calls.lock().unwrap().push((caller.clone(), what.clone(), more));
        let slow = *self.delay.lock().unwrap();
        tokio::time::sleep(slow).await;
        self.finished.lock().unwrap().push(what);
        Ok(())
    }

    pub(crate) fn add_event(&self, run: &str, kind: &str, ended: bool) {
        let mut all = self.events.lock().unwrap();
        let events = all.entry(run.to_owned()).or_default();
        let cursor = u64::try_from(events.events.len()).unwrap() + 1;
        let at = Moment::from_millis(cursor);
        let event = RunEvent {
            cursor,
            // The first attempt has three events.
            attempt: if cursor <= 3 { 1 } else { 2 },
            at,
            kind: kind.to_owned(),
            body: json!({ "n": cursor }),
        };
        events.events.push(event);
        events.ended = ended;
    }
}

fn answer(run: &str, phase: RunPhase) -> RunAnswer {
    RunAnswer { accepted: true, run: run.to_owned(), attempt: Some(format!("{run}-1")), phase }
}

fn execution(decision: ExecutionDecision) -> ExecutionAnswer {
    let reason = "scripted".to_owned();
    let execution = "execution-1".to_owned();
    ExecutionAnswer { accepted: true, execution, decision, reason, run: None, work_item: None }
}

impl Fleet for ScriptedFleet {
    async fn act_on_run(
        &self,
        caller: &Caller,
        run: &Target,
        verb: RunVerb,
        request: RunVerbRequest,
    ) -> Result<RunAnswer, ActionError> {
        let more = serde_json::to_value(&request).unwrap();
        self.record(caller, format!("{} {}/{}", verb.as_str(), run.namespace, run.name), more)
            .await?;
        if request.expected_generation.is_some_and(|generation| generation != 1) {
            let (code, message) = ("GenerationMoved".to_owned(), "it is at 1".to_owned());
            return Err(ActionError::Conflict { code, message });
        }
        Ok(answer(&run.name, RunPhase::Queued))
    }

    async fn dispatch(
        &self,
        caller: &Caller,
        namespace: &str,
        request: DispatchRequest,
    ) -> Result<RunAnswer, ActionError> {
        self.record(
            caller,
            format!("dispatch {namespace}"),
            serde_json::to_value(request).unwrap(),
        )
        .await?;
        Ok(answer("run-1", RunPhase::Pending))
    }

    async fn decide(
        &self,
        caller: &Caller,
        approval: &Target,
        request: DecisionRequest,
    ) -> Result<DecisionAnswer, ActionError> {
        self.record(caller, "decide", serde_json::to_value(&request).unwrap()).await?;
        let mut decided = self.decided.lock().unwrap();
        if let Some(by) = decided.get(&approval.name) {
            let (code, message) = ("AlreadyDecided".to_owned(), format!("{by} was first"));
            return Err(ActionError::Conflict { code, message });
        }
        decided.insert(approval.name.clone(), caller.actor.clone());
        Ok(DecisionAnswer {
            approval: approval.name.clone(),
            phase: ApprovalPhase::Approved,
            write_back: None,
        })
    }

    async fn try_rule(
        &self,
        caller: &Caller,
        rule: &Target,
        sample: RuleSample,
    ) -> Result<RuleTrial, ActionError> {
        self.record(caller, format!("try {}", rule.name), serde_json::to_value(sample).unwrap())
            .await?;
        Ok(RuleTrial {
            matched: true,
            matchers: Vec::new(),
            decision: ExecutionDecision::Created,
            reason: "scripted".to_owned(),
            rendered_prompt: Some("mend it".to_owned()),
            context_bundle_plan: json!([]),
            permission_review: None,
            trust_tier: TrustTier::Untrusted,
            distrust: Some("a fork".to_owned()),
            lifecycle: "paused".to_owned(),
            matcher_faults: Vec::new(),
            prompt_fault: None,
            dedupe_key: Some("key".to_owned()),
            dedupe_fault: None,
            duplicate_of: None,
            concurrency_group: None,
            concurrency: Value::Null,
            expected_actions: vec!["create a run".to_owned()],
        })
    }

    async fn set_lifecycle(
        &self,
        caller: &Caller,
        rule: &Target,
        request: LifecycleRequest,
    ) -> Result<LifecycleAnswer, ActionError> {
        self.record(caller, "lifecycle", serde_json::to_value(request).unwrap()).await?;
        let lifecycle_state = LifecycleState::Paused;
        Ok(LifecycleAnswer { rule: rule.name.clone(), lifecycle_state, generation: 2 })
    }

    async fn replay_delivery(
        &self,
        caller: &Caller,
        _: &Target,
        request: ReplayRequest,
    ) -> Result<ExecutionAnswer, ActionError> {
        self.record(caller, "replay", serde_json::to_value(request).unwrap()).await?;
        Ok(execution(ExecutionDecision::Deduplicated))
    }

    async fn fire(
        &self,
        caller: &Caller,
        _: &Target,
        request: FireRequest,
    ) -> Result<ExecutionAnswer, ActionError> {
        self.record(caller, "fire", serde_json::to_value(request).unwrap()).await?;
        Ok(execution(ExecutionDecision::Created))
    }

    async fn materialize(
        &self,
        caller: &Caller,
        _: &Target,
        sample: RuleSample,
    ) -> Result<ExecutionAnswer, ActionError> {
        self.record(caller, "materialize", serde_json::to_value(sample).unwrap()).await?;
        Ok(execution(ExecutionDecision::Materialized))
    }

    async fn review_permissions(
        &self,
        caller: &Caller,
        _: &str,
        question: PermissionQuestion,
    ) -> Result<PermissionReview, ActionError> {
        self.record(caller, "review", serde_json::to_value(question).unwrap()).await?;
        Err(ActionError::Denied {
            message: "a grant is missing".to_owned(),
            reasons: vec![ActionReason {
                code: "MissingSecretGrant".to_owned(),
                field: "spec.secretRef".to_owned(),
                message: "no grant".to_owned(),
            }],
        })
    }

    async fn act_on_workspace(
        &self,
        caller: &Caller,
        _: &str,
        workspace: Option<&str>,
        request: WorkspaceRequest,
    ) -> Result<WorkspaceAnswer, ActionError> {
        self.record(caller, "workspace", serde_json::to_value(request).unwrap()).await?;
        Ok(WorkspaceAnswer {
            accepted: true,
            workspace: workspace.unwrap_or("made-1").to_owned(),
            state: WorkspaceState::Active,
            rebase: None,
            files: Vec::new(),
            kept: None,
            message: "done".to_owned(),
        })
    }

    async fn preview_approval(&self, approval: &Target) -> Result<ApprovalPreview, ActionError> {
        Ok(ApprovalPreview {
            approval: approval.name.clone(),
            phase: ApprovalPhase::Pending,
            action: ActionType::ToolCall,
            target: "agent-1".to_owned(),
            summary: "may it?".to_owned(),
            run: "adr-1".to_owned(),
            attempt: None,
            requested_by: "agent-1".to_owned(),
            digest: "d".to_owned(),
            expires_at: Default::default(),
            target_state: None,
            target_now: None,
            obstacle: None,
            note: None,
            unknown: None,
            content: None,
            commits: Vec::new(),
            diff: None,
        })
    }

    async fn checks(&self, repository: &Target, sha: &str) -> Result<ChecksAnswer, ActionError> {
        if sha.len() != 40 {
            return Err(ActionError::Invalid(Vec::new()));
        }
        Ok(ChecksAnswer {
            repository: repository.name.clone(),
            sha: sha.to_owned(),
            checks: Vec::new(),
            unavailable: Some("no forge is wired".to_owned()),
            runs: Vec::new(),
            unreadable: Vec::new(),
        })
    }

    async fn capabilities(&self) -> Result<BTreeMap<String, Value>, ActionError> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(ActionError::Unavailable("no engine is wired".to_owned()));
        }
        Ok(BTreeMap::from([("claude".to_owned(), json!({ "canResume": true }))]))
    }

    async fn run_events(
        &self,
        run: &Target,
        attempt: Option<u32>,
        after: u64,
        limit: usize,
    ) -> Result<RunEvents, ActionError> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(ActionError::Unavailable("no engine is wired".to_owned()));
        }
        let all = self.events.lock().unwrap().get(&run.name).cloned().unwrap_or_default();
        let is_requested = |number: u32| attempt.is_none_or(|wanted| wanted == number);
        if attempt.is_some() && !all.events.iter().any(|event| is_requested(event.attempt)) {
            return Err(ActionError::NotFound("there is no such attempt".to_owned()));
        }
        let later = all.events.into_iter().filter(|event| event.cursor > after);
        let later = later.filter(|event| is_requested(event.attempt));
        Ok(RunEvents { events: later.take(limit).collect(), ended: all.ended })
    }

    async fn wait_for_run_event(&self, _: &Target, _: u64, _: u64) {}

    fn verify_webhook(&self, webhook: Unverified<'_>) -> Result<(), WebhookRejected> {
        let actual = webhook.headers.get("x-test-signature");
        let expected = signature(webhook.secret, webhook.body);
        (actual == Some(&expected)).then_some(()).ok_or_else(|| WebhookRejected("wrong".to_owned()))
    }
}
