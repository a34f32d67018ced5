//! Admission in the seed's ten steps: eight are planned here, the last two are performed by the controllers.
//!
//! The plan writes nothing. Its result can be stored in one commit, and the same inputs give the same result.

mod questions;
mod runner;
mod workspace;
mod write_back;

use std::collections::BTreeMap;

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentApproval, AgentContextBundle, AgentDispatchAttempt, AgentDispatchRun, AgentTriggerRule,
    ApprovalPolicy, AttemptReason, LabelRef, LabelSource, Metadata, Moment, Object, Reason,
    Repository, RunPhase, RunnerPool, SourceEventRef, SourceRefs, StackSnapshot, TrustTier,
    WriteBackPolicy,
};
use serde::{Deserialize, Serialize};

use super::compile::{CompileInput, Compiled, compile};
use super::conditions::{KitRole, StackFacts};
use super::context::stack_parts;
use super::inventory::{Found, Inventory};
use super::requirements::collect;
use super::review::{Review, ReviewInput, ReviewReason, Scope, Severity, Situation, review};
use super::snapshot::{Frozen, snapshot};
use super::validations::{Candidate, Validation, objections};
use crate::bundle::{Bundle, BundleError, RedactionRules, StackTexts, assemble};

pub use questions::{ApprovalSubject, dispatcher, questions, uncovered};
pub use runner::{Placement, PoolUse, select_runner};
pub use workspace::{WorkspaceDecision, select_workspace};
pub use write_back::narrowed;

/// The steps of admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// 1: who, where from, how much trusted.
    ResolveSource,
    /// 2: the rule or the request.
    LoadRule,
    /// 3: the stack with all that it names.
    Snapshot,
    /// 4: what it can do and may do.
    Validate,
    /// 5: what it reads.
    AssembleContext,
    /// 6: where it works.
    SelectWorkspace,
    /// 7: where it is executed.
    SelectRunner,
    /// 8: what is recorded.
    CreateRun,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The names that the run and its first attempt will have.
    pub run: String,
    pub attempt: String,
    /// The rule that asks for it, if one does.
    pub rule: Option<&'a Object<AgentTriggerRule>>,
    /// The stack; that of the rule when there is one.
    pub stack: String,
    /// The commit.
    pub sha: String,
    pub branch: Option<String>,
    /// The event.
    pub source_event: SourceEventRef,
    /// What it is about.
    pub source_refs: SourceRefs,
    /// Labels besides the stack's and the rule's.
    pub labels: Vec<LabelRef>,
    /// The task of the agent.
    pub task: String,
    /// The pool that a person asks for.
    pub runner_pool: Option<String>,
    /// Additional approvals.
    pub approval_policy: ApprovalPolicy,
    /// The run that started it.
    pub parent_run: Option<String>,
    /// The group that counts as one.
    pub concurrency_group: Option<String>,
    /// The commit of the default branch whose kit binds untrusted work; nothing for trusted work, which its own
    /// commit binds.
    pub kit_from: Option<String>,
}

/// Everything that admission looks at.
#[derive(Debug, Clone)]
pub struct Admission<'a> {
    /// Everything there is.
    pub inventory: &'a Inventory,
    /// Where names are looked up.
    pub namespace: &'a str,
    /// The name of the Repository object.
    pub repository: &'a str,
    /// The situation of the work.
    pub situation: &'a Situation,
    /// What is asked for.
    pub request: Request<'a>,
    /// What was observed of the stack.
    pub facts: &'a StackFacts,
    /// What it reads.
    pub texts: StackTexts,
    /// Secret values and the patterns of the machine's owner; those of the repository are added.
    pub redaction: RedactionRules,
    /// How full the pools are.
    pub pools: &'a BTreeMap<String, PoolUse>,
    /// What the repository ignores.
    pub ignored: Option<&'a [String]>,
    /// The time.
    pub now: Moment,
}

/// An admitted run, with everything that is stored of it.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// The run, in its first phase.
    pub run: Object<AgentDispatchRun>,
    /// Its first attempt.
    pub attempt: Object<AgentDispatchAttempt>,
    /// The stack as it is now.
    pub snapshot: StackSnapshot,
    /// What it is permitted.
    pub review: Review,
    /// What it reads.
    pub bundle: Bundle,
    pub bundle_object: Object<AgentContextBundle>,
    /// The compiled stack.
    pub compiled: Compiled,
    pub pool: Object<RunnerPool>,
    /// Whether it has room.
    pub placement: Placement,
    /// Where it works.
    pub workspace: WorkspaceDecision,
    /// Questions to people; as long as one is open, nothing is launched.
    pub approvals: Vec<Object<AgentApproval>>,
    /// The digest of all that was admitted: what those questions are bound to.
    pub admitted_digest: String,
    /// The commit whose kit binds it, if that is not its own.
    pub kit_from: Option<String>,
    /// Whether it may spend the key of the model that the control plane was started with.
    pub lent_model_key: bool,
}

impl Admitted {
    /// Whether it can start without an approval.
    pub fn may_launch(&self) -> bool {
        self.approvals.is_empty() && self.run.status.phase == RunPhase::Queued
    }
}

/// What may not start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Refused {
    /// The step that refused.
    pub step: Step,
    /// The validation that objected, for the fourth step.
    pub validations: Vec<Validation>,
    /// Why.
    pub reasons: Vec<ReviewReason>,
    /// The review, as far as there is one: it has what is missing, ready to be applied.
    pub review: Option<Box<Review>>,
}

impl Refused {
    fn at(step: Step, code: Reason, about: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let why =
            ReviewReason { severity: Severity::Error, code, about: about.to_owned(), message };
        Self { step, validations: Vec::new(), reasons: vec![why], review: None }
    }
}

/// Plans steps 1 to 8.
pub fn admit(admission: &Admission<'_>) -> Result<Admitted, Box<Refused>> {
    let repository = resolve_source(admission)?;
    let rule = load_rule(admission)?;
    let request = &admission.request;
    let labels: Vec<LabelRef> = rule
        .map(|rule| rule.spec.context_labels.clone())
        .unwrap_or_default()
        .into_iter()
        .chain(request.labels.iter().cloned())
        .collect();
    let frozen = snapshot(admission.inventory, admission.namespace, &request.stack, &labels)
        .map_err(|error| {
            let code = match error.unknown {
                true => Reason::AccessReviewUnavailable,
                false => Reason::StackMissing,
            };
            refuse(Step::Snapshot, code, &request.stack, error.to_string())
        })?;
    let chosen = select_runner(admission, &frozen);
    let pool = chosen.as_ref().ok().map(|(pool, _)| pool);
    let approval_policy = approval_policy(admission, rule);
    let requirements = collect(&frozen);
    let review = review(&ReviewInput {
        frozen: &frozen,
        requirements: &requirements,
        inventory: admission.inventory,
        scope: Scope::Here(admission.situation),
        pool,
        approval_policy: &approval_policy,
        now: admission.now,
    });
    validate(admission, &frozen, &repository, &review, pool.is_some())?;
    let bundle = assemble_context(admission, &frozen, &repository, rule)?;
    let workspace = select_workspace(admission, &frozen)?;
    let (pool, placement) = chosen?;
    let compiled = compiled(admission, &frozen, &repository, &review, &approval_policy)?;
    Ok(create(
        admission,
        rule,
        Parts { frozen, review, bundle, workspace, pool, placement, compiled, approval_policy },
    ))
}

fn refuse(step: Step, code: Reason, about: &str, message: impl Into<String>) -> Box<Refused> {
    Box::new(Refused::at(step, code, about, message))
}

/// 1: the repository is there and is the one of the situation.
fn resolve_source(admission: &Admission<'_>) -> Result<Object<Repository>, Box<Refused>> {
    let (step, name) = (Step::ResolveSource, admission.repository);
    match admission.inventory.get::<Repository>(admission.namespace, name) {
        Found::Missing => {
            Err(refuse(step, Reason::RepositoryMissing, name, "there is no such repository"))
        }
        Found::Unknown(why) => Err(refuse(step, Reason::AccessReviewUnavailable, name, why)),
        Found::Here(repository) if repository.spec.full_name != admission.situation.repository => {
            let message = format!(
                "it is `{}`, not `{}`",
                repository.spec.full_name, admission.situation.repository
            );
            Err(refuse(step, Reason::RepositoryMissing, name, message))
        }
        // No event is trusted more than its repository.
        Found::Here(repository) if admission.situation.trust_tier > repository.spec.trust_tier => {
            let message = "the repository is not trusted, and the work claims to be";
            Err(refuse(step, Reason::UntrustedRepository, name, message))
        }
        // An untrusted commit must not define roles, checks or settings.
        Found::Here(_)
            if admission.situation.trust_tier == TrustTier::Untrusted
                && admission.request.kit_from.is_none() =>
        {
            let message = "the work is not trusted, and no default branch is there to bind it";
            Err(refuse(step, Reason::TrustedKitMissing, name, message))
        }
        Found::Here(repository) => Ok(*repository),
    }
}

/// 2: the rule is active and asks for this stack.
fn load_rule<'a>(
    admission: &Admission<'a>,
) -> Result<Option<&'a Object<AgentTriggerRule>>, Box<Refused>> {
    use bailiwick_resources::LifecycleState;
    let Some(rule) = admission.request.rule else { return Ok(None) };
    let (step, name) = (Step::LoadRule, rule.name());
    let code = match rule.spec.lifecycle_state {
        LifecycleState::Active => None,
        LifecycleState::Draft => Some(Reason::RuleDraft),
        LifecycleState::Paused => Some(Reason::RulePaused),
        LifecycleState::Disabled => Some(Reason::RuleDisabled),
        LifecycleState::Archived => Some(Reason::RuleArchived),
    };
    if let Some(code) = code {
        return Err(refuse(step, code, name, "the rule is not active"));
    }
    if rule.spec.agent_stack != admission.request.stack {
        let message = format!(
            "the rule starts `{}`, not `{}`",
            rule.spec.agent_stack, admission.request.stack
        );
        return Err(refuse(step, Reason::StackMissing, name, message));
    }
    Ok(Some(rule))
}

/// What the rule and the person want to be asked for, together.
fn approval_policy(
    admission: &Admission<'_>,
    rule: Option<&Object<AgentTriggerRule>>,
) -> ApprovalPolicy {
    let own = &admission.request.approval_policy;
    let mut policy = rule.map(|rule| rule.spec.approval_policy.clone()).unwrap_or_default();
    for reason in &own.require_for {
        if !policy.require_for.contains(reason) {
            policy.require_for.push(*reason);
        }
    }
    policy.expires_after = match (policy.expires_after, own.expires_after) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    policy
}

/// 4: the ten validations. Without a pool, those that need one are left to the seventh step.
fn validate(
    admission: &Admission<'_>,
    frozen: &Frozen,
    repository: &Object<Repository>,
    review: &Review,
    has_pool: bool,
) -> Result<(), Box<Refused>> {
    let candidate = Candidate {
        frozen,
        inventory: admission.inventory,
        facts: admission.facts,
        repository,
        situation: admission.situation,
        review,
        about: admission.texts.about,
    };
    let mut found = objections(&candidate);
    if !has_pool {
        found.retain(|(validation, _)| *validation != Validation::Identities);
    }
    // Whatever no validation named and the review denies stops it all the same.
    let denied = review.decision == super::review::Decision::Denied;
    if found.is_empty() && denied && has_pool {
        let reasons = review.reasons.iter().filter(|why| why.severity == Severity::Error);
        let reasons: Vec<ReviewReason> = reasons.cloned().collect();
        found.push((Validation::Identities, reasons));
    }
    if found.is_empty() {
        return Ok(());
    }
    let validations = found.iter().map(|(validation, _)| *validation).collect();
    let mut reasons: Vec<ReviewReason> =
        found.into_iter().flat_map(|(_, reasons)| reasons).collect();
    reasons.sort();
    reasons.dedup();
    let review = Some(Box::new(review.clone()));
    Err(Box::new(Refused { step: Step::Validate, validations, reasons, review }))
}

/// 5: the bundle, with its digest, before anything is launched.
fn assemble_context(
    admission: &Admission<'_>,
    frozen: &Frozen,
    repository: &Object<Repository>,
    rule: Option<&Object<AgentTriggerRule>>,
) -> Result<Bundle, Box<Refused>> {
    let mut redaction = admission.redaction.clone();
    redaction.repository.extend(repository.spec.policy.redact.iter().cloned());
    let most = rule.map_or(u64::MAX, |rule| rule.spec.context_bundle_template.max_bytes);
    let parts = stack_parts(frozen, admission.texts.clone());
    assemble(parts, &redaction, most).map_err(|error| {
        let code = match &error {
            BundleError::Redaction(_) => Reason::RedactionFailed,
            BundleError::PromptTooLong { .. } => Reason::AttachmentTooLarge,
            BundleError::Altered { .. }
            | BundleError::Gone { .. }
            | BundleError::OtherBundle { .. } => Reason::ArtifactFetchFailed,
        };
        refuse(Step::AssembleContext, code, "context", error.to_string())
    })
}

fn compiled(
    admission: &Admission<'_>,
    frozen: &Frozen,
    repository: &Object<Repository>,
    review: &Review,
    approval_policy: &ApprovalPolicy,
) -> Result<Compiled, Box<Refused>> {
    let accepted = match &admission.facts.role {
        KitRole::Found(role) => role.accepted.as_slice(),
        KitRole::NotYet | KitRole::Missing(_) => &[],
    };
    let input = CompileInput {
        frozen,
        repository,
        approval_policy,
        review: Some(review),
        accepted,
        ignored: admission.ignored,
        discovered: &admission.facts.discovered(),
        child: None,
        body: &admission.request.task,
    };
    compile(&input).map_err(|faults| {
        let reasons = faults.into_iter().map(|fault| ReviewReason {
            severity: Severity::Error,
            code: fault.reason,
            about: frozen.stack.name().to_owned(),
            message: fault.message,
        });
        let reasons = reasons.collect();
        let validations = vec![Validation::ToolProfile];
        Box::new(Refused { step: Step::Validate, validations, reasons, review: None })
    })
}

struct Parts {
    frozen: Frozen,
    review: Review,
    bundle: Bundle,
    workspace: WorkspaceDecision,
    pool: Object<RunnerPool>,
    placement: Placement,
    compiled: Compiled,
    approval_policy: ApprovalPolicy,
}

/// 8: what is recorded. A run that has to be approved is made, and waits.
fn create(
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
    let asking = ApprovalSubject {
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
    let wanted: Vec<_> = review.approval_requirements.iter().collect();
    let approvals = questions(&asking, &wanted, &approval_policy, admission.now);
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
    let kit_from = request.kit_from.clone().filter(|_| trust == TrustTier::Untrusted);
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
        kit_from,
        lent_model_key,
    }
}

/// What an approval of a launch is bound to: another stack, other permissions or another context need
/// another yes.
pub fn admitted_digest(snapshot: &str, permissions: &str, bundle: &str) -> String {
    let text = format!("snapshot {snapshot}\npermissions {permissions}\ncontext {bundle}\n");
    Sha256Hex::of(text).to_string()
}

/// What a piece of work is about, for labels: by what it points at, then by where it came from.
pub fn label_source(refs: &SourceRefs, source: bailiwick_resources::EventSource) -> LabelSource {
    use bailiwick_resources::EventSource;
    if refs.job.is_some() {
        return LabelSource::Job;
    }
    if refs.pipeline.is_some() || refs.check.is_some() {
        return LabelSource::Pipeline;
    }
    if refs.pull_request.is_some() {
        return LabelSource::PullRequest;
    }
    if refs.issue.is_some() {
        return LabelSource::Issue;
    }
    match source {
        EventSource::Ci => LabelSource::Pipeline,
        EventSource::Push | EventSource::Tag => LabelSource::Push,
        EventSource::IssueComment => LabelSource::Issue,
        EventSource::PrComment => LabelSource::PullRequest,
        EventSource::Schedule => LabelSource::Schedule,
        EventSource::Manual => LabelSource::Manual,
        EventSource::Webhook | EventSource::Label | EventSource::RepositoryDispatch => {
            LabelSource::Webhook
        }
    }
}
