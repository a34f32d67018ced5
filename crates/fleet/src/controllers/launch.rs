//! Starts an attempt with exactly what was admitted and stored before.

use std::sync::Arc;

use bailiwick_model::{IssueName, PhaseName};
use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AgentStack, AgentSubagent, AgentWorkspace,
    AgentWorkspacePolicy, AttemptReason, ChecksOn, ConfigMap, Kind, LabelRef, Metadata, Object,
    Repository, Resource, RunnerPool, RunsOn, StackSnapshot, TrustTier, WorkspaceMode,
};
use serde::Deserialize as _;

use super::costs::within_budget;
use super::forge_access::ForgeAccess;
use super::objects::ObjectQueries as _;
use super::pod_grants::{LaunchIdentity, pod_grants, with_identity_token};
use super::prepared_launch::{CONTEXT_UPDATE, PreparedLaunch, PreparedValue};
use super::run_queries::RunQueries as _;
use super::run_results::with_earlier_verdict;
use super::{LaunchRecordProblem, LaunchRefusal, ReconcileError, ServerValueProblem};
use crate::admission::admit::uncovered;
use crate::admission::compile::subagent_name;
use crate::admission::review::{ReviewInput, Scope};
use crate::admission::snapshot::restore_snapshot;
use crate::admission::{Decision, Inventory, Situation, collect, review};
use crate::ports::{
    AttemptLaunch, AttemptOwner, Clock, Commits, Engine, Forges, IssueBinding, LaunchPlace,
    LaunchWorkspace, ModelKey, ObjectStore, SecretStore, Selection, StackSources, WorkStorage,
    WorkerPlace,
};
use crate::workspaces::{Candidate, NotReusable, Wanted};
use crate::write_back::{Policies, may_keep_work};

/// Launches attempts through the engine.
pub(super) struct Launcher<S, E, W> {
    store: Arc<S>,
    engine: Arc<E>,
    world: Arc<W>,
    forges: Arc<ForgeAccess<S, W>>,
}

impl<S, E, W> Launcher<S, E, W> {
    pub(super) fn new(
        store: Arc<S>,
        engine: Arc<E>,
        world: Arc<W>,
        forges: Arc<ForgeAccess<S, W>>,
    ) -> Self {
        Self { store, engine, world, forges }
    }
}

impl<S: ObjectStore + SecretStore, E: Engine, W: Clock + Forges + Commits + StackSources>
    Launcher<S, E, W>
{
    /// Launches an attempt; launching it again does nothing.
    pub(super) async fn launch(
        &self,
        run: &Object<AgentDispatchRun>,
        attempt: &Object<AgentDispatchAttempt>,
    ) -> Result<(), ReconcileError> {
        let repository = self.store.repository(&run.spec.repository).await?;
        let identity = self.require_permission(run, attempt, &repository).await?;
        let prepared = self.store.prepared(attempt).await?;
        let mut environment = self.environment(&repository, &prepared).await?;
        environment.extend(self.server_values(&repository, &prepared).await?);
        let resume = match attempt.spec.attempt_reason {
            AttemptReason::Resume | AttemptReason::Continuation => {
                Some(self.resume_message(attempt).await?)
            }
            AttemptReason::Initial
            | AttemptReason::Retry
            | AttemptReason::Repair
            | AttemptReason::RerunAfterFix => None,
        };
        let pool = self.store.typed::<RunnerPool>(&attempt.spec.runner_pool).await?;
        // Without it, nothing says on which machines the attempt may run.
        let pool = pool.ok_or_else(|| LaunchRefusal::PoolGone(attempt.spec.runner_pool.clone()))?;
        let trust = run.spec.trust_tier.min(repository.spec.trust_tier);
        let place = place(&pool.spec, trust, &identity)?;
        let kit_commit = kit_commit(run, &repository, &prepared)?;
        let task = within_budget(run, attempt, prepared.task)?;
        let task = match &place {
            LaunchPlace::Job(grants) => with_identity_token(task, grants)?,
            LaunchPlace::Server | LaunchPlace::Workers(_) => task,
        };
        let launch = AttemptLaunch {
            attempt: attempt.name().to_owned(),
            agent: agent_of(attempt),
            checkout: repository.spec.checkout.clone(),
            base: run.status.pushed.clone().unwrap_or_else(|| run.spec.sha.clone()),
            kit_commit,
            model_key: match prepared.lent_model_key {
                true => ModelKey::Lent,
                false => ModelKey::Withheld,
            },
            task,
            context: with_earlier_verdict(&attempt.spec, prepared.context),
            limits: prepared.limits,
            environment,
            resume,
            owner: owner_of(run, attempt, &pool),
            issue: bound_issue(run, &repository.spec),
            sources: prepared.sources,
            workspace: self.workspace(run, attempt, &repository).await?,
            place,
        };
        Ok(self.engine.launch(launch).await?)
    }

    /// The source of the files of a new worktree.
    async fn workspace(
        &self,
        run: &Object<AgentDispatchRun>,
        attempt: &Object<AgentDispatchAttempt>,
        repository: &Object<Repository>,
    ) -> Result<LaunchWorkspace, ReconcileError> {
        let mut objects = attempt.spec.agent_stack_snapshot.objects.iter();
        let policy = objects.find(|one| one.object.kind == Kind::AgentWorkspacePolicy);
        let Some(policy) = policy else { return Ok(LaunchWorkspace::New) };
        let mode = AgentWorkspacePolicy::deserialize(&policy.spec).map(|policy| policy.mode);
        // Later attempts continue in their own workspace, or begin with the base commit.
        let is_first = attempt.spec.attempt_reason == AttemptReason::Initial;
        // A launch is repeated while the agent starts: then the run may have its workspace already.
        let has_own = run.status.workspace.is_some();
        if !is_first || has_own || !matches!(mode, Ok(WorkspaceMode::PerWorkItem)) {
            return Ok(LaunchWorkspace::New);
        }
        let target = run.spec.branch.as_ref().unwrap_or(&repository.spec.default_branch);
        let wanted = Wanted {
            run: &run.spec,
            trust_tier: run.spec.trust_tier.min(repository.spec.trust_tier),
            policy: &policy.object.name,
            target_branch: target,
        };
        let mut candidates = Vec::new();
        let known = self.store.all_typed::<AgentWorkspace>(Selection::of(Kind::AgentWorkspace));
        for workspace in known.await?.into_iter().filter(|one| wanted.is_about(&one.spec)) {
            if workspace.status.runs.iter().any(|name| name == run.name()) {
                return Ok(LaunchWorkspace::New);
            }
            let mut in_use = false;
            for name in &workspace.status.runs {
                let other = self.store.typed::<AgentDispatchRun>(name).await?;
                in_use |= other.is_some_and(|other| !other.status.phase.is_final());
            }
            candidates.push(Candidate { workspace, in_use });
        }
        Ok(match wanted.choose(candidates) {
            Ok(agent) => LaunchWorkspace::TakeOver(agent),
            // The first run of a work item has nothing to reuse, which needs no explanation.
            Err(NotReusable::Unknown) => LaunchWorkspace::New,
            Err(why) => LaunchWorkspace::NotReused(why.to_string()),
        })
    }

    /// The message for a continued conversation: its new context, if it has one, and the message of the person.
    async fn resume_message(
        &self,
        attempt: &Object<AgentDispatchAttempt>,
    ) -> Result<String, ReconcileError> {
        let message = attempt.spec.message.clone().unwrap_or_default();
        let Some(digest) = attempt.metadata.annotations.get(CONTEXT_UPDATE) else {
            return Ok(message);
        };
        let bytes = self.store.blob(digest).await?;
        let update = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let gone = || ReconcileError::LaunchRecord {
            attempt: attempt.name().to_owned(),
            problem: LaunchRecordProblem::Gone,
        };
        let update = update.ok_or_else(gone)?;
        Ok(format!("The context of the task was gathered again:\n\n{update}\n{message}"))
    }

    /// Refuses an attempt whose admitted stack is not covered by today's grants. The answer is its identity.
    async fn require_permission(
        &self,
        run: &Object<AgentDispatchRun>,
        attempt: &Object<AgentDispatchAttempt>,
        repository: &Object<Repository>,
    ) -> Result<LaunchIdentity, ReconcileError> {
        let spec = &run.spec;
        let refused = |why: String| ReconcileError::from(LaunchRefusal::PermissionsChanged(why));
        let kept = &attempt.spec.agent_stack_snapshot;
        let mut frozen = restore_snapshot(kept, &more_labels(kept))
            .map_err(|error| refused(error.to_string()))?;
        let mut inventory = self.store.inventory().await;
        // What cannot be read now may permit it.
        Kind::ALL.iter().try_for_each(|kind| inventory.require_listed(*kind))?;
        // Permissions are today's; everything else is as admitted.
        let admitted = frozen.service_account.clone();
        let permitting = &mut frozen;
        permitting.service_account = match permitting.service_account.take() {
            Some(then) => current_version(&inventory, &then),
            None => None,
        };
        let bindings = permitting.role_bindings.iter();
        permitting.role_bindings =
            bindings.filter_map(|then| current_version(&inventory, then)).collect();
        let grants = permitting.secret_grants.iter();
        permitting.secret_grants =
            grants.filter_map(|then| current_version(&inventory, then)).collect();
        let grants = permitting.config_grants.iter();
        permitting.config_grants =
            grants.filter_map(|then| current_version(&inventory, then)).collect();
        self.forges.add_owners(&mut inventory, repository, &frozen.role_bindings).await?;
        let situation = Situation {
            repository: spec.repository.clone(),
            reference: spec.reference.clone(),
            trust_tier: spec.trust_tier.min(repository.spec.trust_tier),
            actor: spec.source_event.actor.clone(),
            memberships: inventory.memberships(
                spec.source_event.actor.as_deref(),
                spec.source_event.source,
                self.world.now(),
            ),
            source: spec.source_event.source,
            workflow: spec.source_refs.pipeline.clone(),
            job: spec.source_refs.job.clone(),
            task_kind: spec.task_kind.clone(),
        };
        let namespace = &repository.metadata.namespace;
        let pool = inventory.get(namespace, &attempt.spec.runner_pool).ok();
        let reviewed = review(&ReviewInput {
            frozen: &frozen,
            requirements: &collect(&frozen),
            inventory: &inventory,
            scope: Scope::Run(&situation),
            pool: pool.as_ref(),
            approval_policy: &spec.approval_policy,
            now: self.world.now(),
        });
        let reasons = || {
            let each = reviewed.reasons.iter().map(|why| why.message.as_str());
            each.collect::<Vec<_>>().join("; ")
        };
        match reviewed.decision {
            Decision::Allowed => {}
            Decision::Denied => return Err(refused(reasons())),
            Decision::RequiresApproval => {
                let asked = self.store.start_approvals(run).await?;
                let wanted = &reviewed.approval_requirements;
                let open = uncovered(&asked, wanted, context_of(run), self.world.now());
                if let Some(one) = open.first() {
                    let why = format!("an approval is needed: {}: {}", one.about, one.message);
                    return Err(refused(why));
                }
            }
        }
        Ok(LaunchIdentity { admitted, current: frozen.service_account })
    }

    /// The values of MCP servers, under variables that only the supervisor knows. A secret must have been admitted.
    async fn server_values(
        &self,
        repository: &Object<Repository>,
        prepared: &PreparedLaunch,
    ) -> Result<Vec<(String, String)>, ReconcileError> {
        let namespace = &repository.metadata.namespace;
        let mut all = Vec::new();
        for server in &prepared.limits.mcp_servers {
            for value in server.env_from.iter().chain(&server.headers_from) {
                let unusable = |problem: ServerValueProblem| LaunchRefusal::ServerValue {
                    server: server.name.clone(),
                    value: value.name.clone(),
                    problem,
                };
                let found = match (&value.secret_ref, &value.config_map_ref) {
                    (Some(key), None) => {
                        let admitted =
                            |one: &PreparedValue| one.secret == key.name && one.key == key.key;
                        let Some(admitted) = prepared.values.iter().find(|one| admitted(one))
                        else {
                            return Err(unusable(ServerValueProblem::SecretNotGranted).into());
                        };
                        // The reviewed namespace, not a secret of the same name elsewhere.
                        let home = admitted.namespace.as_ref().unwrap_or(namespace);
                        let bytes = self.store.secret_value(home, &key.name, &key.key).await?;
                        bytes.and_then(|bytes| String::from_utf8(bytes).ok())
                    }
                    (None, Some(key)) => {
                        let admitted =
                            |one: &&PreparedValue| one.secret == key.name && one.key == key.key;
                        let Some(admitted) = prepared.configs.iter().find(admitted) else {
                            return Err(unusable(ServerValueProblem::ConfigNotGranted).into());
                        };
                        self.config_value(namespace, admitted).await?
                    }
                    (Some(_), Some(_)) | (None, None) => None,
                };
                let found = found.ok_or_else(|| unusable(ServerValueProblem::Gone))?;
                all.push((server.variable(value), found));
            }
        }
        Ok(all)
    }

    /// The admitted variables with their current values.
    async fn environment(
        &self,
        repository: &Object<Repository>,
        prepared: &PreparedLaunch,
    ) -> Result<Vec<(String, String)>, ReconcileError> {
        let namespace = &repository.metadata.namespace;
        let mut all = Vec::new();
        for value in &prepared.values {
            // The reviewed namespace, not a secret of the same name elsewhere.
            let home = value.namespace.as_ref().unwrap_or(namespace);
            let found = self.store.secret_value(home, &value.secret, &value.key).await?;
            let found = found.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| {
                LaunchRefusal::SecretGone(value.secret.clone(), value.key.clone())
            })?;
            all.push((value.name.clone(), found));
        }
        for value in &prepared.configs {
            let found = self.config_value(namespace, value).await?.ok_or_else(|| {
                LaunchRefusal::ConfigGone(value.secret.clone(), value.key.clone())
            })?;
            all.push((value.name.clone(), found));
        }
        Ok(all)
    }

    async fn config_value(
        &self,
        namespace: &str,
        value: &PreparedValue,
    ) -> Result<Option<String>, ReconcileError> {
        let home = value.namespace.as_deref().unwrap_or(namespace);
        let map = self.store.get(Kind::ConfigMap, home, &value.secret).await?;
        let map = map.map(|map| map.typed::<ConfigMap>()).transpose()?;
        Ok(map.and_then(|map| map.spec.data.get(&value.key).cloned()))
    }
}

/// The owner of an attempt, with the capacity of its pool.
fn owner_of(
    run: &Object<AgentDispatchRun>,
    attempt: &Object<AgentDispatchAttempt>,
    pool: &Object<RunnerPool>,
) -> AttemptOwner {
    AttemptOwner {
        stack: run.spec.agent_stack.clone(),
        pool: attempt.spec.runner_pool.clone(),
        capacity: Some(pool.spec.capacity),
        repository: run.spec.repository.clone(),
    }
}

/// The machines on which an attempt of a pool runs. Workers never check the work of untrusted runs.
fn place(
    pool: &RunnerPool,
    trust: TrustTier,
    identity: &LaunchIdentity,
) -> Result<LaunchPlace, LaunchRefusal> {
    let trust = trust.min(pool.trust_tier);
    let checks_on = match trust {
        TrustTier::Trusted => pool.checks_on,
        TrustTier::Untrusted => ChecksOn::Server,
    };
    Ok(match pool.runs_on {
        RunsOn::Server => LaunchPlace::Server,
        RunsOn::Workers => LaunchPlace::Workers(WorkerPlace {
            labels: pool.worker_labels.clone(),
            cores: pool.worker_cores,
            checks_on,
        }),
        RunsOn::Jobs => LaunchPlace::Job(pod_grants(identity, trust)?),
    })
}

/// The issue that stores the state of a run, if the repository enables that.
fn bound_issue(run: &Object<AgentDispatchRun>, repository: &Repository) -> Option<IssueBinding> {
    let number = run.spec.source_refs.issue.filter(|_| repository.issue_memory)?;
    Some(IssueBinding {
        issue: IssueName { repository: Some(repository.full_name.clone()), number },
        phase: PhaseName::parse(&run.spec.task_kind).ok(),
        milestone: None,
        work_storage: work_storage(run, repository),
    })
}

fn work_storage(run: &Object<AgentDispatchRun>, repository: &Repository) -> WorkStorage {
    let policies = Policies {
        stack: &run.spec.write_back_policy,
        rule: None,
        approvals: &[&run.spec.approval_policy],
        trust: run.spec.trust_tier.min(repository.trust_tier),
    };
    if may_keep_work(&policies) { WorkStorage::WithIssue } else { WorkStorage::OnMachine }
}

/// The commit whose kit binds an attempt; never that of untrusted work.
fn kit_commit(
    run: &Object<AgentDispatchRun>,
    repository: &Object<Repository>,
    prepared: &PreparedLaunch,
) -> Result<Option<String>, ReconcileError> {
    match (run.spec.trust_tier.min(repository.spec.trust_tier), &prepared.kit_commit) {
        (TrustTier::Untrusted, None) => Err(LaunchRefusal::TrustedKitMissing.into()),
        // A pushed commit does not bind: the kit stays that of the original commit.
        (TrustTier::Trusted | TrustTier::Untrusted, kit_commit) => {
            let own = run.status.pushed.as_ref().map(|_| run.spec.sha.clone());
            Ok(kit_commit.clone().or(own))
        }
    }
}

/// The version of an object that is in the inventory now.
pub(super) fn current_version<R: Resource>(
    inventory: &Inventory,
    then: &Object<R>,
) -> Option<Object<R>> {
    inventory.get::<R>(&then.metadata.namespace, then.name()).ok()
}

/// The labels that a rule or a person added to the stack's own.
pub(super) fn more_labels(snapshot: &StackSnapshot) -> Vec<LabelRef> {
    let stack =
        snapshot.objects.first().and_then(|first| AgentStack::deserialize(&first.spec).ok());
    let own = stack.map(|stack| stack.context_label_refs).unwrap_or_default();
    let labels = snapshot.objects.iter().filter(|one| one.object.kind == Kind::AgentContextLabel);
    let more = labels.filter(|one| !own.iter().any(|label| label.name == one.object.name));
    more.map(|one| LabelRef { name: one.object.name.clone(), digest: None }).collect()
}

/// The name of the context bundle of a run.
pub(super) fn context_of(run: &Object<AgentDispatchRun>) -> &str {
    run.spec.context_bundle_ref.as_deref().unwrap_or_default()
}

/// The agent of an attempt: its own, or that of the conversation that it continues.
pub(super) fn agent_of(attempt: &Object<AgentDispatchAttempt>) -> String {
    let known = attempt.status.ledger_run_id.clone();
    known.unwrap_or_else(|| attempt.name().to_owned())
}

/// The sub-agents that an attempt was admitted with, by the names that the agent uses.
pub(super) fn subagents_of(attempt: &Object<AgentDispatchAttempt>) -> Vec<(String, AgentSubagent)> {
    let objects = attempt.spec.agent_stack_snapshot.objects.iter();
    let children = objects.filter(|one| one.object.kind == Kind::AgentSubagent);
    let named = children.filter_map(|one| {
        let spec = AgentSubagent::deserialize(&one.spec).ok()?;
        let child = Object::new(Metadata::named(one.object.name.clone()), spec);
        Some((subagent_name(&child).to_owned(), child.spec))
    });
    named.collect()
}
