//! Admission in ten steps: eight are planned here, the last two are performed by the controllers.
//!
//! The plan writes nothing. Its result can be stored in one commit, and the same inputs give the same result.

mod questions;
mod record;
mod runner;
mod source;
mod workspace;
mod write_back;

use std::collections::BTreeMap;

use bailiwick_resources::{
    AgentApproval, AgentContextBundle, AgentDispatchAttempt, AgentDispatchRun, AgentTriggerRule,
    ApprovalPolicy, LabelRef, LabelSource, Moment, Object, Reason, Repository, RunnerPool,
    SourceEventRef, SourceRefs, StackSnapshot,
};
use serde::{Deserialize, Serialize};

use super::compile::{CompileInput, Compiled, compile};
use super::conditions::{KitRole, StackFacts};
use super::context::stack_parts;
use super::inventory::Inventory;
use super::requirements::collect;
use super::review::{Review, ReviewInput, ReviewReason, Scope, Severity, Situation, review};
use super::snapshot::{FrozenStack, snapshot};
use super::validations::{Candidate, Validation, objections};
use crate::bundle::{Bundle, BundleError, RedactionRules, StackTexts, assemble};

use record::{Parts, create};
use source::{approval_policy, load_rule, resolve_source};

pub use questions::{ApprovalSubject, dispatcher, questions, uncovered};
pub use record::admitted_digest;
pub use runner::{Placement, PoolUse, select_runner};
pub use workspace::{WorkspaceDecision, select_workspace};
pub use write_back::narrowed;

/// The steps of admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// 1: the repository and its trust.
    ResolveSource,
    /// 2: the rule or the request.
    LoadRule,
    /// 3: the stack with everything it names.
    Snapshot,
    /// 4: its abilities and permissions.
    Validate,
    /// 5: the context bundle.
    AssembleContext,
    /// 6: the workspace.
    SelectWorkspace,
    /// 7: the runner pool.
    SelectRunner,
    /// 8: the objects to store.
    CreateRun,
}

/// A request to start a run.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The names that the run and its first attempt will have.
    pub run: String,
    pub attempt: String,
    /// The rule that starts it, if one does.
    pub rule: Option<&'a Object<AgentTriggerRule>>,
    /// The stack; the rule's if there is a rule.
    pub stack: String,
    pub sha: String,
    pub branch: Option<String>,
    pub source_event: SourceEventRef,
    /// What the run is about.
    pub source_refs: SourceRefs,
    /// Labels besides the stack's and the rule's.
    pub labels: Vec<LabelRef>,
    /// The task of the agent.
    pub task: String,
    /// The pool that a person chose.
    pub runner_pool: Option<String>,
    /// Additional approvals.
    pub approval_policy: ApprovalPolicy,
    /// The run that started it.
    pub parent_run: Option<String>,
    /// Its concurrency group.
    pub concurrency_group: Option<String>,
    /// For untrusted work, the commit of the default branch whose kit binds it. Trusted work is bound by its own commit.
    pub kit_commit: Option<String>,
}

/// The inputs of admission.
#[derive(Debug, Clone)]
pub struct Admission<'a> {
    pub inventory: &'a Inventory,
    /// The namespace of all names.
    pub namespace: &'a str,
    /// The name of the Repository object.
    pub repository: &'a str,
    pub situation: &'a Situation,
    pub request: Request<'a>,
    /// Observations about the stack.
    pub facts: &'a StackFacts,
    /// The texts for its context.
    pub texts: StackTexts,
    /// Secret values and the patterns of the machine's owner; those of the repository are added.
    pub redaction: RedactionRules,
    /// The current use of the pools.
    pub pools: &'a BTreeMap<String, PoolUse>,
    /// The patterns of files that the repository ignores.
    pub ignored: Option<&'a [String]>,
    pub now: Moment,
}

/// An admitted run with all objects to store.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// The run in its first phase.
    pub run: Object<AgentDispatchRun>,
    /// Its first attempt.
    pub attempt: Object<AgentDispatchAttempt>,
    /// The current stack.
    pub snapshot: StackSnapshot,
    pub review: Review,
    pub bundle: Bundle,
    pub bundle_object: Object<AgentContextBundle>,
    /// The compiled stack.
    pub compiled: Compiled,
    pub pool: Object<RunnerPool>,
    /// Whether the pool has room.
    pub placement: Placement,
    pub workspace: WorkspaceDecision,
    /// Open approvals; nothing is launched before they are given.
    pub approvals: Vec<Object<AgentApproval>>,
    /// The digest of everything that was admitted; the approvals are bound to it.
    pub admitted_digest: String,
    /// The commit whose kit binds the run, if that is not its own.
    pub kit_commit: Option<String>,
    /// Whether it may use the model key of the control plane.
    pub lent_model_key: bool,
}

/// Why a run was not admitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Refused {
    /// The step that refused.
    pub step: Step,
    /// The validation that objected, for the fourth step.
    pub validations: Vec<Validation>,
    pub reasons: Vec<ReviewReason>,
    /// The review, if the step had one. It lists the missing grants as objects to apply.
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
        scope: Scope::Run(admission.situation),
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

/// 4: the ten validations. Without a pool, step 7 refuses, so the validation that needs one is skipped.
fn validate(
    admission: &Admission<'_>,
    frozen: &FrozenStack,
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
    // A denial by the review that no validation names refuses the run, too.
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

/// 5: the context bundle with its digest.
fn assemble_context(
    admission: &Admission<'_>,
    frozen: &FrozenStack,
    repository: &Object<Repository>,
    rule: Option<&Object<AgentTriggerRule>>,
) -> Result<Bundle, Box<Refused>> {
    let mut redaction = admission.redaction.clone();
    redaction.repository.extend(repository.spec.policy.redact.iter().cloned());
    let max_bytes = rule.map_or(u64::MAX, |rule| rule.spec.context_bundle_template.max_bytes);
    let parts = stack_parts(frozen, admission.texts.clone());
    assemble(parts, &redaction, max_bytes).map_err(|error| {
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
    frozen: &FrozenStack,
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

/// What a run is about, for context labels: its references decide first, then the source of its event.
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
