//! A control plane with hostile responses that records its calls, and its objects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bailiwick_fleet::ports::*;
use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    API_VERSION, AnyObject, ApprovalPhase, ExecutionDecision, KeysRef, Kind, LifecycleState,
    Metadata, MissingGrant, RunPhase, TrustTier, WorkspaceState,
};
use serde_json::{Value, json};

use crate::scripted_runs::{HOSTILE, TestServer, serve_with};

#[derive(Default)]
pub(crate) struct ScriptedFleet {
    calls: Mutex<Vec<String>>,
}

impl ScriptedFleet {
    fn record(&self, caller: &Caller, call: &str) {
        self.calls.lock().unwrap().push(format!("{} {call}", caller.actor));
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

fn text() -> String {
    HOSTILE.to_owned()
}

fn refuse<T>() -> Result<T, ActionError> {
    Err(ActionError::Unavailable(text()))
}

fn execution(decision: ExecutionDecision) -> ExecutionAnswer {
    let execution = "ate-1".to_owned();
    ExecutionAnswer {
        accepted: true,
        execution,
        decision,
        reason: text(),
        run: None,
        work_item: None,
    }
}

fn review() -> PermissionReview {
    PermissionReview {
        decision: PermissionDecision::Denied,
        runtime_identity: Some(text()),
        runner_identity: Some(text()),
        required_roles: vec![text()],
        required_secrets: vec![KeysRef { name: text(), namespace: None, keys: vec![text()] }],
        required_configs: vec![KeysRef { name: text(), namespace: None, keys: vec![text()] }],
        missing_grants: vec![MissingGrant {
            kind: Kind::AgentSecretGrant,
            suggested_name: "fixer-key".to_owned(),
            reason: text(),
            blocking: true,
        }],
        approval_requirements: vec![text()],
        yaml_preview: vec![format!("kind: AgentSecretGrant # {HOSTILE}\n")],
        reasons: vec![ActionReason {
            code: "MissingSecretGrant".to_owned(),
            field: String::new(),
            message: text(),
        }],
        snapshot_digest: "d".to_owned(),
    }
}

impl Fleet for ScriptedFleet {
    async fn act_on_run(
        &self,
        caller: &Caller,
        run: &Target,
        verb: RunVerb,
        request: RunVerbRequest,
    ) -> Result<RunAnswer, ActionError> {
        let message = request.message;
        self.record(caller, format!("{} {} {message}", verb.as_str(), run.name).trim_end());
        let (run, phase) = (run.name.clone(), RunPhase::Queued);
        Ok(RunAnswer { accepted: true, run, attempt: None, phase })
    }

    async fn dispatch(
        &self,
        _: &Caller,
        _: &str,
        _: DispatchRequest,
    ) -> Result<RunAnswer, ActionError> {
        refuse()
    }

    async fn decide(
        &self,
        caller: &Caller,
        approval: &Target,
        request: DecisionRequest,
    ) -> Result<DecisionAnswer, ActionError> {
        let DecisionRequest { decision, expected_artifact_digest, .. } = request;
        let approval = approval.name.clone();
        self.record(caller, &format!("{decision:?} {approval} {expected_artifact_digest}"));
        Ok(DecisionAnswer { approval, phase: ApprovalPhase::Approved, write_back: None })
    }

    async fn try_rule(
        &self,
        caller: &Caller,
        rule: &Target,
        sample: RuleSample,
    ) -> Result<RuleTrial, ActionError> {
        self.record(caller, &format!("test {} {}", rule.name, sample.delivery.unwrap_or_default()));
        Ok(RuleTrial {
            matched: true,
            matchers: vec![MatcherResult {
                field: "match.branches".to_owned(),
                holds: false,
                why: text(),
            }],
            decision: ExecutionDecision::Created,
            reason: text(),
            rendered_prompt: Some(text()),
            context_bundle_plan: json!([]),
            permission_review: Some(review()),
            trust_tier: TrustTier::Untrusted,
            distrust: Some(text()),
            lifecycle: text(),
            matcher_faults: vec![text()],
            prompt_fault: Some(text()),
            dedupe_key: Some(text()),
            dedupe_fault: None,
            duplicate_of: Some(text()),
            concurrency_group: Some(text()),
            concurrency: Value::Null,
            expected_actions: vec![text()],
        })
    }

    async fn set_lifecycle(
        &self,
        caller: &Caller,
        rule: &Target,
        request: LifecycleRequest,
    ) -> Result<LifecycleAnswer, ActionError> {
        let LifecycleRequest { action, reason, expected_generation } = request;
        self.record(
            caller,
            &format!("{} {} {expected_generation:?} {reason}", action.as_str(), rule.name),
        );
        let lifecycle_state = LifecycleState::Paused;
        Ok(LifecycleAnswer { rule: rule.name.clone(), lifecycle_state, generation: 2 })
    }

    async fn replay_delivery(
        &self,
        caller: &Caller,
        rule: &Target,
        request: ReplayRequest,
    ) -> Result<ExecutionAnswer, ActionError> {
        self.record(caller, &format!("replay {} {}", rule.name, request.delivery));
        Ok(execution(ExecutionDecision::Deduplicated))
    }

    async fn fire(
        &self,
        caller: &Caller,
        rule: &Target,
        request: FireRequest,
    ) -> Result<ExecutionAnswer, ActionError> {
        self.record(caller, &format!("fire {} {}", rule.name, request.repository));
        Ok(execution(ExecutionDecision::Created))
    }

    async fn materialize(
        &self,
        caller: &Caller,
        rule: &Target,
        sample: RuleSample,
    ) -> Result<ExecutionAnswer, ActionError> {
        let delivery = sample.delivery.unwrap_or_default();
        self.record(caller, &format!("materialize {} {delivery}", rule.name));
        Ok(execution(ExecutionDecision::Materialized))
    }

    async fn review_permissions(
        &self,
        caller: &Caller,
        _: &str,
        question: PermissionQuestion,
    ) -> Result<PermissionReview, ActionError> {
        let PermissionQuestion { agent_stack, repository, .. } = question;
        self.record(caller, &format!("review {agent_stack} {repository}"));
        Ok(review())
    }

    async fn act_on_workspace(
        &self,
        caller: &Caller,
        _: &str,
        workspace: Option<&str>,
        request: WorkspaceRequest,
    ) -> Result<WorkspaceAnswer, ActionError> {
        let name = workspace.unwrap_or("made-1");
        self.record(
            caller,
            &format!("{} {name} {}", request.action.as_str(), request.discard_ignored),
        );
        Ok(WorkspaceAnswer {
            accepted: true,
            workspace: name.to_owned(),
            state: WorkspaceState::Idle,
            rebase: None,
            files: Vec::new(),
            kept: None,
            message: text(),
        })
    }

    async fn preview_approval(&self, _: &Target) -> Result<ApprovalPreview, ActionError> {
        refuse()
    }

    async fn checks(&self, _: &Target, _: &str) -> Result<ChecksAnswer, ActionError> {
        refuse()
    }

    async fn capabilities(&self) -> Result<BTreeMap<String, Value>, ActionError> {
        refuse()
    }

    async fn run_events(
        &self,
        _: &Target,
        _: Option<u32>,
        _: u64,
        _: usize,
    ) -> Result<RunEvents, ActionError> {
        refuse()
    }

    async fn wait_for_run_event(&self, _: &Target, _: u64, _: u64) {}

    fn verify_webhook(&self, _: Unverified<'_>) -> Result<(), WebhookRejected> {
        Err(WebhookRejected("not here".to_owned()))
    }
}

/// The body of the stored delivery: not UTF-8, and one line of a million characters.
fn payload() -> Vec<u8> {
    [HOSTILE.as_bytes(), b"\xff\xfe", "A".repeat(1_000_000).as_bytes()].concat()
}

fn object(kind: Kind, name: &str, spec: Value, status: Value) -> AnyObject {
    let labels = BTreeMap::from([("note".to_owned(), HOSTILE.to_owned())]);
    let metadata = Metadata { labels, ..Metadata::named(name) };
    AnyObject { api_version: API_VERSION.to_owned(), kind, metadata, spec, status }
}

fn conditions() -> Value {
    json!([
        { "type": "SecretsAdmitted", "status": "False", "reason": "MissingSecretGrant", "message": HOSTILE,
          "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z" },
        { "type": "Ready", "status": "Unknown", "reason": "MissingSecretGrant", "message": HOSTILE,
          "observedGeneration": 0, "lastTransitionTime": "2026-01-01T00:00:00Z" },
    ])
}

/// One object of each kind that has its own page layout, with hostile text in every free field.
pub(crate) fn objects() -> Vec<AnyObject> {
    let at = "2026-01-02T03:04:05Z";
    let delivery = json!({
        "forge": "gitea", "deliveryId": HOSTILE, "event": HOSTILE, "repository": HOSTILE,
        "payloadDigest": Sha256Hex::of(payload()).to_string(), "bytes": 1_000_000, "receivedAt": at,
        "headers": { HOSTILE: HOSTILE },
    });
    let delivery_status = json!({
        "evaluated": true, "executions": [HOSTILE], "fault": HOSTILE, "redeliveries": 2, "tries": 0,
    });
    let execution = json!({
        "triggerRule": "mend", "ruleGeneration": 1, "source": "push", "eventUid": HOSTILE,
        "trustTier": "untrusted", "decision": "created", "reason": HOSTILE, "dispatchRun": HOSTILE, "at": at,
    });
    let workspace = json!({
        "repository": HOSTILE, "workspacePath": HOSTILE, "ownership": "host", "branch": HOSTILE,
        "targetBranch": HOSTILE, "trustTier": "trusted", "notes": HOSTILE,
        "workItem": { "kind": "issue", "repository": HOSTILE, "id": HOSTILE },
    });
    let rebase = json!({ "state": "rebase-conflicts", "targetBranch": HOSTILE, "attemptCount": 1 });
    let rebase_conflict = json!({ "state": "archived", "rebase": rebase });
    let git = json!({ "branch": HOSTILE, "head": HOSTILE, "conflictingFiles": [HOSTILE] });
    let stack = json!({
        "displayName": HOSTILE, "baseAgent": "claude-code", "role": HOSTILE, "model": HOSTILE,
        "runtimeIdentity": { "serviceAccountRef": "fixer" }, "prompt": { "task": HOSTILE },
    });
    let rule = |state: &str| {
        json!({
            "lifecycleState": state, "sources": ["push", "manual"], "agentStack": "fixer",
            "taskKind": "mend", "promptTemplate": HOSTILE,
        })
    };
    let repository = json!({ "fullName": HOSTILE, "forge": "local", "checkout": HOSTILE });
    let named_repository = json!({ "fullName": "o/n", "forge": "local", "checkout": HOSTILE });
    let run = json!({
        "repository": HOSTILE, "ref": HOSTILE, "sha": HOSTILE, "agentStack": HOSTILE, "taskKind": HOSTILE,
        "sourceEvent": { "source": "manual", "uid": HOSTILE }, "task": HOSTILE, "runnerPool": "p",
        "trustTier": "trusted",
    });
    let failed_run = json!({
        "phase": "failed", "attempts": ["ada-1"], "queueEnteredAt": at, "startedAt": "2026-01-02T03:04:09Z",
        "cost": { "tokens": 5, "microUsd": 7, "turns": 1, "toolCalls": 1, "denied": 0 },
        "childSubagentRuns": [{ "run": HOSTILE, "subagent": HOSTILE, "contextDigest": HOSTILE }],
    });
    let attempt = json!({
        "agentDispatchRun": "adr-1", "number": 1, "attemptReason": "retry", "agentStackSnapshot": {},
        "contextBundleDigest": "", "permissionSnapshotDigest": "", "runnerPool": "p",
    });
    let attempt_status =
        json!({ "agentMuxRunId": HOSTILE, "startedAt": at, "exitReason": HOSTILE });
    let pool = json!({ "capacity": 2, "trustTier": "trusted", "serviceAccountRef": "runner" });
    let session =
        json!({ "agentMuxSessionId": HOSTILE, "dispatchRun": HOSTILE, "adapter": HOSTILE });
    vec![
        object(Kind::AgentStack, "fixer", stack, json!({ "conditions": conditions() })),
        object(
            Kind::AgentTriggerRule,
            "mend",
            rule("active"),
            json!({ "conditions": conditions() }),
        ),
        object(Kind::AgentTriggerRule, "resting", rule("paused"), Value::Null),
        object(Kind::AgentTriggerRule, "planned", rule("draft"), Value::Null),
        object(Kind::Repository, "app", repository, Value::Null),
        object(Kind::Repository, "named", named_repository, Value::Null),
        object(Kind::RunnerPool, "pool", pool, Value::Null),
        object(Kind::WebhookDelivery, "wd-1", delivery, delivery_status),
        object(Kind::AgentTriggerExecution, "ate-1", execution, Value::Null),
        object(
            Kind::AgentWorkspace,
            "ws-1",
            workspace.clone(),
            json!({ "state": "idle", "git": git }),
        ),
        // The workspace that a provision request returns.
        object(Kind::AgentWorkspace, "made-1", workspace.clone(), Value::Null),
        object(Kind::AgentWorkspace, "ws-2", pinned(workspace), rebase_conflict),
        object(Kind::AgentDispatchRun, "adr-1", run.clone(), failed_run),
        object(Kind::AgentDispatchRun, "adr-2", run, json!({ "phase": "running" })),
        object(Kind::AgentDispatchAttempt, "ada-1", attempt, attempt_status),
        object(Kind::AgentSession, "as-1", session, json!({ "live": true })),
    ]
}

fn pinned(mut workspace: Value) -> Value {
    workspace["pinned"] = json!(true);
    workspace
}

/// A server with a control plane, and objects in the states that offer every action.
pub(crate) async fn serve_fleet() -> (TestServer, Arc<ScriptedFleet>) {
    serve_fleet_at("").await
}

pub(crate) async fn serve_fleet_at(path_prefix: &str) -> (TestServer, Arc<ScriptedFleet>) {
    let fleet = Arc::new(ScriptedFleet::default());
    let server = serve_with(path_prefix, fleet.clone()).await;
    let bytes = payload();
    let mut writes = vec![Write::Blob { digest: Sha256Hex::of(&bytes).to_string(), bytes }];
    for object in objects() {
        writes.push(Write::Create(object.clone()));
        if !object.status.is_null() {
            writes.push(Write::Status(object));
        }
    }
    let at = bailiwick_resources::Moment::from_millis(1_000);
    for number in 0..450 {
        writes.push(Write::Audit(AuditEntry {
            at,
            actor: text(),
            event: format!("Event{number}"),
            subject: "AgentTriggerRule/default/mend".to_owned(),
            correlation: BTreeMap::new(),
            detail: json!({ "text": HOSTILE }),
        }));
    }
    server.write(writes).await;
    (server, fleet)
}
