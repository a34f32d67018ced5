//! Step 8 of admission: the run with its first attempt, as it is stored.

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AgentTriggerRule, ApprovalPolicy, AttemptReason,
    Metadata, Object, RunPhase, RunnerPool, TrustTier, WriteBackPolicy,
};

use super::super::compile::Compiled;
use super::super::review::Review;
use super::super::snapshot::FrozenStack;
use super::{
    Admission, Admitted, ApprovalSubject, Placement, WorkspaceDecision, dispatcher, narrowed,
    questions::questions,
};
use crate::bundle::Bundle;

/// The results of the steps before.
pub(super) struct Parts {
    pub(super) frozen: FrozenStack,
    pub(super) review: Review,
    pub(super) bundle: Bundle,
    pub(super) workspace: WorkspaceDecision,
    pub(super) pool: Object<RunnerPool>,
    pub(super) placement: Placement,
    pub(super) compiled: Compiled,
    pub(super) approval_policy: ApprovalPolicy,
}

/// 8: the objects to store. A run that needs an approval is created and waits.
pub(super) fn create(
    admission: &Admission<'_>,
    rule: Option<&Object<AgentTriggerRule>>,
    parts: Parts,
) -> Admitted {
    let Parts { frozen, review, bundle, workspace, pool, placement, compiled, approval_policy } =
        parts;
    let request = &admission.request;
    let metadata = |name: &str| Metadata {
        namespace: admission.namespace.to_owned(),
        ..Metadata::named(name)
    };
    let permissions = review.digest().to_string();
    let admitted_digest = admitted_digest(&frozen.snapshot.digest, &permissions, &bundle.digest);
    let stack_policy = &frozen.stack.spec.write_back_policy;
    let write_back_policy = match rule.and_then(|rule| rule.spec.write_back_policy.as_ref()) {
        Some(rule) => narrowed(stack_policy, rule),
        None => WriteBackPolicy::clone(stack_policy),
    };
    let bundle_name = format!("{}-context", request.run);
    let spec = AgentDispatchRun {
        repository: admission.situation.repository.clone(),
        reference: admission.situation.reference.clone(),
        branch: request.branch.clone(),
        sha: request.sha.clone(),
        source_event: request.source_event.clone(),
        source_refs: request.source_refs.clone(),
        agent_stack: request.stack.clone(),
        task_kind: admission.situation.task_kind.clone(),
        trigger_rule: rule.map(|rule| rule.name().to_owned()),
        task: request.task.clone(),
        context_bundle_ref: Some(bundle_name.clone()),
        workspace_ref: None,
        runner_pool: pool.name().to_owned(),
        trust_tier: admission.situation.trust_tier,
        approval_policy: approval_policy.clone(),
        write_back_policy,
        parent_run: request.parent_run.clone(),
        concurrency_group: request.concurrency_group.clone(),
    };
    let subject = ApprovalSubject {
        namespace: admission.namespace,
        run: &request.run,
        attempt: &request.attempt,
        stack: &request.stack,
        repository: &admission.situation.repository,
        reference: &admission.situation.reference,
        sha: &request.sha,
        digest: &admitted_digest,
        context: &bundle_name,
        dispatched_by: dispatcher(&request.source_event),
        attempt_asked_by: None,
    };
    let required: Vec<_> = review.approval_requirements.iter().collect();
    let approvals = questions(&subject, &required, &approval_policy, admission.now);
    let mut run = Object::new(metadata(&request.run), spec);
    run.status.phase = match approvals.is_empty() {
        true => RunPhase::Queued,
        false => RunPhase::WaitingForApproval,
    };
    run.status.attempts = vec![request.attempt.clone()];
    run.status.approvals = approvals.iter().map(|one| one.name().to_owned()).collect();
    run.status.queue_entered_at = Some(admission.now);
    run.status.permission_snapshot_digest = Some(permissions.clone());
    run.status.context_bundle_digest = Some(bundle.digest.clone());
    let mut attempt = Object::new(
        metadata(&request.attempt),
        AgentDispatchAttempt {
            agent_dispatch_run: request.run.clone(),
            number: 1,
            attempt_reason: AttemptReason::Initial,
            requested_by: dispatcher(&request.source_event).map(str::to_owned),
            message: None,
            fixed: Vec::new(),
            agent_stack_snapshot: frozen.snapshot.clone(),
            context_bundle_digest: bundle.digest.clone(),
            permission_snapshot_digest: permissions,
            workspace_ref: None,
            runner_pool: pool.name().to_owned(),
        },
    );
    attempt.status.queue_entered_at = Some(admission.now);
    attempt.status.runtime_identity = review.runtime_identity.clone();
    attempt.status.runner_identity = review.runner_identity.clone();
    let object = bundle.object(&request.run, admission.now);
    let bundle_object = Object::new(metadata(&bundle_name), object);
    let trust = admission.situation.trust_tier;
    let lent_model_key = pool.spec.model_key.lends_to(trust);
    let kit_commit = request.kit_commit.clone().filter(|_| trust == TrustTier::Untrusted);
    Admitted {
        run,
        attempt,
        snapshot: frozen.snapshot,
        review,
        bundle,
        bundle_object,
        compiled,
        pool,
        placement,
        workspace,
        approvals,
        admitted_digest,
        kit_commit,
        lent_model_key,
    }
}

/// The digest that the approvals of a launch are bound to: another stack, other permissions or another context need
/// another approval.
pub fn admitted_digest(snapshot: &str, permissions: &str, bundle: &str) -> String {
    let text = format!("snapshot {snapshot}\npermissions {permissions}\ncontext {bundle}\n");
    Sha256Hex::of(text).to_string()
}
