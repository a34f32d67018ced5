//! Runs that people start, cancel, retry, resume and fork.

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AgentWorkspace, AnyObject, AttemptReason,
    DEFAULT_NAMESPACE, EventSource, Fault, LabelRef, Metadata, Object, Repository, RunPhase,
    SourceEventRef, TrustTier, WorkspaceState,
};
use serde_json::json;

use super::reruns::FORK_OF;
use super::{conflict, refusal};
use crate::admission::Refused;
use crate::admission::admit::narrowed;
use crate::controllers::ReconcileError;
use crate::controllers::audit_log::{Correlation, subject};
use crate::controllers::commit_status::begun;
use crate::controllers::forge_access::ForgeAccess;
use crate::controllers::idempotency::{CONTENT, content_digest, require_same};
use crate::controllers::launch::agent_of;
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::outcome::reason_for_retry;
use crate::controllers::prepared_launch::LAUNCH;
use crate::controllers::run_admission::{AdmissionContext, RunAdmission, RunRequest, attempt_name};
use crate::controllers::run_controller::EARLIER;
use crate::controllers::run_queries::RunQueries as _;
use crate::controllers::sessions::{FORKED_FROM, SessionRecorder, session_of};
use crate::controllers::subagent_runs::is_child;
use crate::controllers::write_back_controller::pushed;
use crate::ports::{
    ActionError, Caller, Clock, Commits, DispatchRequest, Engine, FetchError, Forges, ObjectStore,
    RunAnswer, RunVerb, RunVerbRequest, SecretStore, StackSources, Target, Write,
};
use crate::workspaces::workspace_name;

/// Runs that people start and change.
pub(super) struct RunApi<S, E, W> {
    pub(super) store: Arc<S>,
    engine: Arc<E>,
    forges: Arc<ForgeAccess<S, W>>,
    pub(super) admission: Arc<RunAdmission<S, W>>,
    sessions: Arc<SessionRecorder<S, W>>,
}

impl<S, E, W> RunApi<S, E, W> {
    pub(super) fn new(
        store: Arc<S>,
        engine: Arc<E>,
        forges: Arc<ForgeAccess<S, W>>,
        admission: Arc<RunAdmission<S, W>>,
        sessions: Arc<SessionRecorder<S, W>>,
    ) -> Self {
        Self { store, engine, forges, admission, sessions }
    }
}

impl<S: ObjectStore + SecretStore, E: Engine, W: Clock + Forges + Commits + StackSources>
    RunApi<S, E, W>
{
    pub(super) async fn act_on_named_run(
        &self,
        caller: &Caller,
        run: &Target,
        verb: RunVerb,
        request: &RunVerbRequest,
    ) -> Result<RunAnswer, ActionError> {
        let run = self.store.named::<AgentDispatchRun>(run).await?;
        let generation = run.metadata.generation;
        if request.expected_generation.is_some_and(|wanted| wanted != generation) {
            let message = format!("{} is of generation {generation}", run.name());
            return Err(conflict("StaleGeneration", message));
        }
        if is_child(&run) && verb != RunVerb::Cancel {
            let message = format!("{} is a sub-agent: its parent takes it up again", run.name());
            return Err(conflict("Subagent", message));
        }
        match verb {
            RunVerb::Cancel => self.cancel(caller, run, request).await,
            RunVerb::Retry => self.again(caller, run, AttemptReason::Retry, request).await,
            RunVerb::Resume => self.again(caller, run, AttemptReason::Resume, request).await,
            RunVerb::Continue => {
                if request.message.is_empty() {
                    return Err(conflict("NothingToSay", "say what the agent is to do now"));
                }
                self.again(caller, run, AttemptReason::Continuation, request).await
            }
            RunVerb::RefreshContext => self.refresh_context(caller, run, request).await,
            RunVerb::Fork => {
                let repository = self.store.repository(&run.spec.repository).await?;
                let seed = format!("fork of {}\n{}", run.name(), caller.request);
                let name = run_name(&seed);
                let task = match request.message.as_str() {
                    "" => run.spec.task.clone(),
                    message => message.to_owned(),
                };
                let spec = AgentDispatchRun {
                    source_event: SourceEventRef {
                        source: EventSource::Manual,
                        uid: caller.request.clone(),
                        actor: Some(caller.actor.clone()),
                        asked_by: None,
                    },
                    trigger_rule: None,
                    task: task.clone(),
                    concurrency_group: None,
                    ..run.spec.clone()
                };
                let mut run_request = RunRequest::of_person(&caller.actor, task);
                run_request.approval_policy = run.spec.approval_policy.clone();
                run_request.write_back_policy = Some(run.spec.write_back_policy.clone());
                let mut marks = BTreeMap::from([
                    (CONTENT.to_owned(), content_digest(request)),
                    (FORK_OF.to_owned(), run.name().to_owned()),
                ]);
                marks.extend(session_of(&run).map(|session| (FORKED_FROM.to_owned(), session)));
                self.admit_person(caller, &repository, (&name, marks), spec, run_request).await
            }
        }
    }

    pub(super) async fn request_run(
        &self,
        caller: &Caller,
        namespace: &str,
        request: &DispatchRequest,
    ) -> Result<RunAnswer, ActionError> {
        let target = Target { namespace: namespace.to_owned(), name: request.repository.clone() };
        let repository = match self.store.named::<Repository>(&target).await {
            Ok(repository) => repository,
            Err(ActionError::NotFound(_)) => self.store.repository(&request.repository).await?,
            Err(error) => return Err(error),
        };
        if request.sha.as_deref().is_some_and(|sha| !is_commit_name(sha)) {
            let message = "write the full name of a commit, 40 or 64 hex digits";
            return Err(ActionError::Invalid(vec![Fault::new("sha", message)]));
        }
        let default = format!("refs/heads/{}", repository.spec.default_branch);
        let reference = request.reference.clone().unwrap_or(default);
        let sha = request.sha.as_deref();
        let found = self.forges.fetch_commit(&repository, &reference, sha).await;
        let fetch_failed = |fault: FetchError| ActionError::Unavailable(fault.to_string());
        let Some(sha) = found.map_err(fetch_failed)? else {
            return Err(ActionError::NotFound(format!("{reference} names no commit")));
        };
        // Only the tips of branches and tags are known to be the repository's own.
        let own = (reference.starts_with("refs/heads/") || reference.starts_with("refs/tags/"))
            && request.sha.is_none();
        let trust_tier = if own { repository.spec.trust_tier } else { TrustTier::Untrusted };
        let uid = request.request_id.clone().unwrap_or_else(|| caller.request.clone());
        let name = run_name(&format!("request of {}\n{uid}", caller.actor));
        let content =
            content_digest(&(namespace, DispatchRequest { request_id: None, ..request.clone() }));
        let spec = AgentDispatchRun {
            repository: repository.spec.full_name.clone(),
            branch: reference.strip_prefix("refs/heads/").map(str::to_owned),
            reference,
            sha,
            source_event: SourceEventRef {
                source: EventSource::Manual,
                uid,
                actor: Some(caller.actor.clone()),
                asked_by: None,
            },
            source_refs: request.source_refs.clone(),
            agent_stack: request.agent_stack.clone(),
            task_kind: request.task_kind.clone(),
            trigger_rule: None,
            task: request.task.clone(),
            context_bundle_ref: None,
            workspace_ref: None,
            runner_pool: request.runner_pool.clone().unwrap_or_default(),
            trust_tier,
            approval_policy: Default::default(),
            write_back_policy: Default::default(),
            parent_run: None,
            concurrency_group: None,
        };
        let mut run_request = RunRequest::of_person(&caller.actor, request.task.clone());
        run_request.runner_pool = request.runner_pool.clone();
        let label = |name: String| LabelRef { name, digest: None };
        run_request.labels = request.context_labels.iter().cloned().map(label).collect();
        let marks = BTreeMap::from([(CONTENT.to_owned(), content)]);
        self.admit_person(caller, &repository, (&name, marks), spec, run_request).await
    }

    /// Queues another attempt of a run.
    async fn again(
        &self,
        caller: &Caller,
        mut run: Object<AgentDispatchRun>,
        reason: AttemptReason,
        request: &RunVerbRequest,
    ) -> Result<RunAnswer, ActionError> {
        if !run.status.phase.is_final() {
            let message = format!("{} has not ended; cancel it first", run.name());
            return Err(conflict("RunActive", message));
        }
        if !self.store.may_start(&run).await? {
            let message = format!("{} was not approved; ask for a new one", run.name());
            return Err(conflict("NotApproved", message));
        }
        let last = run.status.attempts.last().cloned().unwrap_or_default();
        let Some(last) = self.store.typed::<AgentDispatchAttempt>(&last).await? else {
            return Err(conflict("NoAttempt", format!("{} has no attempt", run.name())));
        };
        let (reason, verdict) = match reason {
            AttemptReason::Retry => reason_for_retry(&last.status),
            AttemptReason::Initial
            | AttemptReason::Repair
            | AttemptReason::Resume
            | AttemptReason::Continuation
            | AttemptReason::RerunAfterFix => (reason, None),
        };
        let fix = match reason {
            AttemptReason::Retry | AttemptReason::Repair => self.fix_of(&run, &last).await?,
            AttemptReason::Initial
            | AttemptReason::Resume
            | AttemptReason::Continuation
            | AttemptReason::RerunAfterFix => None,
        };
        let number = last.spec.number.saturating_add(1);
        let name = attempt_name(run.name(), number);
        let mut attempt = Object::new(
            Metadata {
                namespace: run.metadata.namespace.clone(),
                ..Metadata::named(name.as_str())
            },
            AgentDispatchAttempt {
                number,
                attempt_reason: reason,
                requested_by: Some(caller.actor.clone()),
                message: Some(request.message.clone()).filter(|text| !text.is_empty()).or(verdict),
                fixed: Vec::new(),
                ..last.spec.clone()
            },
        );
        let launch = last.metadata.annotations.get(LAUNCH).cloned().unwrap_or_default();
        attempt.metadata.annotations.insert(LAUNCH.to_owned(), launch);
        let goes_on = match reason {
            AttemptReason::Resume | AttemptReason::Continuation => true,
            AttemptReason::Initial
            | AttemptReason::Retry
            | AttemptReason::Repair
            | AttemptReason::RerunAfterFix => false,
        };
        if goes_on {
            self.require_conversation(&run, &last).await?;
            attempt.status.ledger_run_id.clone_from(&last.status.ledger_run_id);
            let agent = agent_of(&attempt);
            self.require_workspace(&agent).await?;
            let known = self.engine.state(&agent).await.map_err(ReconcileError::from)?;
            let earlier = known.map_or(0, |known| known.attempts);
            attempt.metadata.annotations.insert(EARLIER.to_owned(), earlier.to_string());
        }
        if !goes_on {
            // A new attempt gets a new worktree.
            run.status.workspace = None;
        }
        attempt.status.queue_entered_at = Some(caller.at);
        attempt.status.runtime_identity.clone_from(&last.status.runtime_identity);
        attempt.status.runner_identity.clone_from(&last.status.runner_identity);
        run.status.attempts.push(name.clone());
        let adopted = match fix {
            Some(fix) => {
                let changed = fix.changed.clone();
                let admitted = self.admit_fixed(&mut run, &mut attempt, fix).await?;
                if admitted.is_some() {
                    attempt.spec.attempt_reason = AttemptReason::RerunAfterFix;
                    attempt.spec.fixed = changed;
                }
                admitted
            }
            None => None,
        };
        let mut writes = match adopted {
            Some(writes) => writes,
            None => self.use_refreshed(&mut run, &mut attempt).await?,
        };
        run.status.phase = RunPhase::Queued;
        run.status.queue_entered_at = Some(caller.at);
        run.status.started_at = None;
        run.status.completed_at = None;
        run.status.terminal_reason = None;
        run.status.cancel_requested = None;
        run.status.pushed = pushed(self.store.as_ref(), &run).await?;
        run.status.write_backs.clear();
        // The reports of the last attempt do not count for this one.
        run.status.check_report = begun(&run);
        run.status.failed_with.clear();
        let detail = json!({
            "attempt": name, "reason": request.reason,
            "attemptReason": attempt.spec.attempt_reason,
            "fixed": attempt.spec.fixed,
        });
        let joined = Correlation::of_run(&run);
        writes.extend([
            Write::Create(AnyObject::of(&attempt).map_err(ReconcileError::from)?),
            Write::Status(AnyObject::of(&run).map_err(ReconcileError::from)?),
            joined.line_of(caller, "AgentDispatchQueued", subject(&run), detail),
        ]);
        self.store.commit(writes, caller.at).await?;
        Ok(RunAnswer {
            accepted: true,
            run: run.name().to_owned(),
            attempt: Some(name),
            phase: RunPhase::Queued,
        })
    }

    /// Refuses to continue a conversation that cannot be resumed.
    async fn require_conversation(
        &self,
        run: &Object<AgentDispatchRun>,
        last: &Object<AgentDispatchAttempt>,
    ) -> Result<(), ActionError> {
        if last.status.agent_session_id.is_none() {
            let message = "its conversation is not known; retry it instead";
            return Err(conflict("NotResumable", message));
        }
        let adapter = self.store.adapter_of(run).await?;
        if !self.sessions.can_resume(&adapter).await {
            let message = format!(
                "`{adapter}` cannot take a conversation up again here; retry the run instead"
            );
            return Err(conflict("NotResumable", message));
        }
        if !self.store.keeps_inputs(last).await? {
            let message = "which of its calls were decided was not written down; retry the run \
                           instead, with `auditLevel: inputs` or more to resume it later";
            return Err(conflict("NotResumable", message));
        }
        Ok(())
    }

    /// Refuses to continue a conversation whose files are gone.
    async fn require_workspace(&self, agent: &str) -> Result<(), ActionError> {
        let name = workspace_name(agent);
        let Some(workspace) = self.store.typed::<AgentWorkspace>(&name).await? else {
            return Ok(());
        };
        match workspace.status.state {
            WorkspaceState::Active | WorkspaceState::Idle => Ok(()),
            WorkspaceState::Archived | WorkspaceState::Missing => {
                let message =
                    format!("the files of its workspace `{name}` are not there; recover it first");
                Err(conflict("WorkspaceAway", message))
            }
        }
    }

    async fn cancel(
        &self,
        caller: &Caller,
        mut run: Object<AgentDispatchRun>,
        request: &RunVerbRequest,
    ) -> Result<RunAnswer, ActionError> {
        if run.status.phase.is_final() {
            return Err(conflict("RunEnded", format!("{} has ended", run.name())));
        }
        let why = match request.reason.as_str() {
            "" => format!("cancelled by {}", caller.actor),
            reason => format!("cancelled by {}: {reason}", caller.actor),
        };
        run.status.cancel_requested = Some(why.clone());
        let joined = Correlation::of_run(&run);
        let detail = json!({ "reason": why });
        let writes = vec![
            Write::Status(AnyObject::of(&run).map_err(ReconcileError::from)?),
            joined.line_of(caller, "AgentDispatchCancelRequested", subject(&run), detail),
        ];
        self.store.commit(writes, caller.at).await?;
        let (phase, attempt) = (run.status.phase, run.status.attempts.last().cloned());
        Ok(RunAnswer { accepted: true, run: run.name().to_owned(), attempt, phase })
    }

    /// The refusal of a run, which is also written to the audit log.
    pub(super) async fn refused(
        &self,
        caller: &Caller,
        (name, spec): (&str, &AgentDispatchRun),
        refused: &Refused,
    ) -> ActionError {
        let reasons = refused.reasons.iter().map(|why| why.code.as_str());
        let detail = json!({
            "stack": spec.agent_stack, "repository": spec.repository,
            "step": format!("{:?}", refused.step), "reasons": reasons.collect::<Vec<_>>(),
        });
        let joined = Correlation::default()
            .with("run", Some(name))
            .with("event", Some(&spec.source_event.uid));
        let about = format!("AgentDispatchRun/{DEFAULT_NAMESPACE}/{name}");
        let line = joined.line_of(caller, "AgentPermissionReviewDenied", about, detail);
        match self.store.commit(vec![line], caller.at).await {
            Ok(_) => refusal(refused),
            Err(error) => error.into(),
        }
    }

    /// Admits a run that a person requests, and stores it with annotations.
    async fn admit_person(
        &self,
        caller: &Caller,
        repository: &Object<Repository>,
        (name, marks): (&str, BTreeMap<String, String>),
        spec: AgentDispatchRun,
        run_request: RunRequest<'_>,
    ) -> Result<RunAnswer, ActionError> {
        if let Some(known) = self.store.typed::<AgentDispatchRun>(name).await? {
            let content = marks.get(CONTENT).map(String::as_str).unwrap_or_default();
            require_same(&known.metadata, content, &spec.source_event.uid)?;
            // A repeated request is the same run.
            let (phase, attempt) = (known.status.phase, known.status.attempts.last().cloned());
            return Ok(RunAnswer { accepted: true, run: name.to_owned(), attempt, phase });
        }
        let mut admission_context = AdmissionContext::new(self.store.inventory().await);
        let narrower = run_request.write_back_policy.clone();
        let admitted = self
            .admission
            .admit_request(&mut admission_context, repository, name, &spec, run_request)
            .await?;
        let mut admitted = match admitted {
            Ok(admitted) => admitted,
            Err(refused) => return Err(self.refused(caller, (name, &spec), &refused).await),
        };
        admitted.run.metadata.annotations.extend(marks);
        if let Some(narrower) = narrower {
            let policy = &mut admitted.run.spec.write_back_policy;
            *policy = narrowed(policy, &narrower);
        }
        let mut writes = self.admission.admitted_writes(&admitted, Vec::new())?;
        let detail = json!({ "stack": spec.agent_stack, "repository": spec.repository });
        let joined = Correlation::of_run(&admitted.run);
        let about = subject(&admitted.run);
        writes.push(joined.line_of(caller, "AgentDispatchQueued", about, detail));
        self.store.commit(writes, caller.at).await?;
        Ok(RunAnswer {
            accepted: true,
            run: name.to_owned(),
            attempt: Some(admitted.attempt.name().to_owned()),
            phase: admitted.run.status.phase,
        })
    }
}

fn is_commit_name(sha: &str) -> bool {
    matches!(sha.len(), 40 | 64) && sha.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The name of a run that a person requests: a repeated request has the same name.
fn run_name(seed: &str) -> String {
    format!("adr-{}", Sha256Hex::of(seed).prefix(26))
}

impl RunRequest<'_> {
    fn of_person(actor: &str, task: String) -> Self {
        Self {
            rule: None,
            labels: Vec::new(),
            trigger: None,
            task: Some((actor.to_owned(), task)),
            workflow: None,
            job: None,
            approval_policy: Default::default(),
            write_back_policy: None,
            runner_pool: None,
        }
    }
}
