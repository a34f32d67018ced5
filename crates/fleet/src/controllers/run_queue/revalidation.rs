//! Checks an admitted run again before it starts, against today's repository, tool profile, servers, identities
//! and grants. An approval never counts for more, or for longer, than it was given.
//!
//! This happens where a run leaves the queue, so it covers a first attempt that waited long, and every retry,
//! resumption and continuation.

use std::sync::Arc;

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentApproval, AgentDispatchAttempt, AgentDispatchRun, AnyObject, AttemptReason, Kind, Moment,
    Object, Repository, RunPhase, StackSnapshot,
};

use super::renewal::renewed;
use super::start_refusal::StartRefusal;
use crate::admission::admit::{
    ApprovalSubject, admitted_digest, dispatcher, label_source, questions, uncovered,
};
use crate::admission::conditions::{AdapterProbe, McpProbe, StackFacts};
use crate::admission::review::{ApprovalRequirement, ReviewInput, Scope, Severity};
use crate::admission::snapshot::{FrozenStack, refreshed};
use crate::admission::validations::{Candidate, objections};
use crate::admission::{Decision, Inventory, Review, Situation, collect, review};
use crate::controllers::ReconcileError;
use crate::controllers::audit_log::Correlation;
use crate::controllers::forge_access::ForgeAccess;
use crate::controllers::launch::{context_of, current_version, more_labels};
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::outcome::EndCode;
use crate::controllers::prepared_launch::{LAUNCH, PreparedLaunch};
use crate::controllers::run_queries::RunQueries as _;
use crate::controllers::run_status::RunStatusWriter;
use crate::controllers::write_back_controller::attempt_requester;
use crate::ports::{
    Clock, Commits, FetchError, Forge as _, Forges, ObjectStore, SecretStore, StackSources,
    Worktrees, Write,
};

/// The result of checking a run again.
pub(super) enum Revalidation {
    /// It may start, with these writes in the same commit.
    MayStart {
        run: Box<Object<AgentDispatchRun>>,
        /// Further writes.
        writes: Vec<Write>,
    },
    /// It has ended or waits for approvals; that is stored.
    Settled,
}

/// An attempt as it would be admitted today.
struct CurrentReview {
    review: Review,
    launch: PreparedLaunch,
    /// The admitted stack with today's servers and sub-agents.
    snapshot: StackSnapshot,
}

/// Checks admitted runs again before they start.
pub(in crate::controllers) struct Revalidator<S, W> {
    store: Arc<S>,
    world: Arc<W>,
    forges: Arc<ForgeAccess<S, W>>,
    statuses: Arc<RunStatusWriter<S, W>>,
}

impl<S, W> Revalidator<S, W> {
    pub(in crate::controllers) fn new(
        store: Arc<S>,
        world: Arc<W>,
        forges: Arc<ForgeAccess<S, W>>,
        statuses: Arc<RunStatusWriter<S, W>>,
    ) -> Self {
        Self { store, world, forges, statuses }
    }
}

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits + StackSources + Worktrees>
    Revalidator<S, W>
{
    /// Checks a run as if it were requested today.
    pub(super) async fn revalidate(
        &self,
        run: Object<AgentDispatchRun>,
    ) -> Result<Revalidation, ReconcileError> {
        let last = run.status.attempts.last().cloned().unwrap_or_default();
        let Some(attempt) = self.store.typed::<AgentDispatchAttempt>(&last).await? else {
            // The run controller ends it.
            return Ok(Revalidation::MayStart { run: Box::new(run), writes: Vec::new() });
        };
        let mut inventory = self.store.inventory().await;
        // A run waits while anything that permits it is unknown.
        Kind::ALL.iter().try_for_each(|kind| inventory.require_listed(*kind))?;
        let today = match self.review_again(&mut inventory, &run, &attempt).await? {
            Ok(today) => today,
            Err(why) => {
                let end = EndCode::PermissionsChanged.because(why.to_string());
                self.statuses.not_launched(run, attempt, end).await?;
                return Ok(Revalidation::Settled);
            }
        };
        let asked = self.store.start_approvals(&run).await?;
        let wanted = &today.review.approval_requirements;
        let open = uncovered(&asked, wanted, context_of(&run), self.world.now());
        if !open.is_empty() {
            return self.request_approvals(run, &attempt, &today, (&asked, &open)).await;
        }
        let run = self.on_branch_tip(run, &attempt).await?;
        self.kept(run, attempt, &today)
    }

    /// A run that has pushed to its branch starts from the branch's current tip, because its author may have reset it
    /// or added commits. An attempt that continues a conversation stays where its work is. A deleted branch changes
    /// nothing.
    async fn on_branch_tip(
        &self,
        mut run: Object<AgentDispatchRun>,
        attempt: &Object<AgentDispatchAttempt>,
    ) -> Result<Object<AgentDispatchRun>, ReconcileError> {
        if run.status.pushed.is_none() || continues_conversation(attempt) {
            return Ok(run);
        }
        let Some(branch) = run.spec.branch.clone() else { return Ok(run) };
        let repository = self.store.repository(&run.spec.repository).await?;
        let Some(head) = self.forges.open(&repository).await?.branch(&branch).await? else {
            return Ok(run);
        };
        let reference = format!("refs/heads/{branch}");
        let here = self.forges.fetched_commit(&repository, &reference, Some(&head)).await?;
        let gone = || {
            let why = format!("the commit {head} of {reference} is not there");
            ReconcileError::Fetch(FetchError::Missing(why))
        };
        run.status.pushed = Some(here.ok_or_else(gone)?);
        Ok(run)
    }

    /// Today's review, or why the run may not start.
    async fn review_again(
        &self,
        inventory: &mut Inventory,
        run: &Object<AgentDispatchRun>,
        attempt: &Object<AgentDispatchAttempt>,
    ) -> Result<Result<CurrentReview, StartRefusal>, ReconcileError> {
        let repository = match todays_repository(inventory, run) {
            Ok(repository) => repository,
            Err(why) => return Ok(Err(why)),
        };
        let frozen = match as_it_is(inventory, attempt) {
            Ok(frozen) => frozen,
            Err(why) => return Ok(Err(why)),
        };
        self.forges.add_owners(inventory, &repository, &frozen.role_bindings).await?;
        let prepared = match self.store.prepared(attempt).await {
            Ok(prepared) => prepared,
            Err(error @ ReconcileError::Store(_)) => return Err(error),
            Err(error) => return Ok(Err(error.into())),
        };
        let kit_commit = prepared.kit_commit.clone().unwrap_or_else(|| run.spec.sha.clone());
        let at = Some((&repository.spec, kit_commit.as_str()));
        let facts = self.world.stack_facts(&frozen, at).await;
        if let Some(why) = not_known(&frozen, &facts) {
            // The facts may be available later: the run stays queued until the pool's timeout.
            return Err(ReconcileError::NotObserved(why));
        }
        let ignored = self.world.ignored(&repository.spec, &kit_commit).await;
        let situation = situation(run, inventory, self.world.now());
        let namespace = &repository.metadata.namespace;
        let pool = inventory.get(namespace, &attempt.spec.runner_pool).ok();
        let review = review(&ReviewInput {
            frozen: &frozen,
            requirements: &collect(&frozen),
            inventory,
            scope: Scope::Run(&situation),
            pool: pool.as_ref(),
            approval_policy: &run.spec.approval_policy,
            now: self.world.now(),
        });
        let candidate = Candidate {
            frozen: &frozen,
            inventory,
            facts: &facts,
            repository: &repository,
            situation: &situation,
            review: &review,
            about: Some(label_source(&run.spec.source_refs, run.spec.source_event.source)),
        };
        if let Some(why) = objected(&candidate) {
            return Ok(Err(why));
        }
        let renewed = renewed(prepared, &candidate, run, ignored.as_deref());
        let goes_on = continues_conversation(attempt);
        Ok(renewed.and_then(|(launch, change)| match change.filter(|_| goes_on) {
            Some(change) => Err(StartRefusal::ConversationOutdated(change)),
            None => Ok(CurrentReview { review, launch, snapshot: frozen.snapshot.clone() }),
        }))
    }

    /// Requests the missing approvals; the run waits for them.
    async fn request_approvals(
        &self,
        mut run: Object<AgentDispatchRun>,
        attempt: &Object<AgentDispatchAttempt>,
        today: &CurrentReview,
        (asked, open): (&[Object<AgentApproval>], &[&ApprovalRequirement]),
    ) -> Result<Revalidation, ReconcileError> {
        let spec = &attempt.spec;
        let permissions = today.review.digest().to_string();
        let stack = &today.snapshot.digest;
        let digest = admitted_digest(stack, &permissions, &spec.context_bundle_digest);
        let asking = ApprovalSubject {
            namespace: &run.metadata.namespace,
            run: run.name(),
            attempt: attempt.name(),
            stack: &run.spec.agent_stack,
            repository: &run.spec.repository,
            reference: &run.spec.reference,
            sha: &run.spec.sha,
            digest: &digest,
            context: context_of(&run),
            dispatched_by: dispatcher(&run.spec.source_event),
            attempt_asked_by: attempt_requester(&run, attempt),
        };
        let at = self.world.now();
        let mut writes = Vec::new();
        let mut names = Vec::new();
        for mut question in questions(&asking, open, &run.spec.approval_policy, at) {
            let first = question.name().to_owned();
            let taken = |name: &String| asked.iter().any(|one| one.name() == name.as_str());
            let numbered = (2_u32..).map(|number| format!("{first}-{number}"));
            let free = std::iter::once(first.clone()).chain(numbered).find(|name| !taken(name));
            question.metadata.name = free.unwrap_or(first);
            names.push(question.name().to_owned());
            writes.push(Write::Create(AnyObject::of(&question)?));
        }
        run.status.approvals.extend(names);
        run.status.phase = RunPhase::WaitingForApproval;
        writes.push(Write::Status(AnyObject::of(&run)?));
        self.store.commit(writes, at).await?;
        Ok(Revalidation::Settled)
    }

    /// The writes for a run that may start: today's permissions and launch.
    fn kept(
        &self,
        mut run: Object<AgentDispatchRun>,
        mut attempt: Object<AgentDispatchAttempt>,
        today: &CurrentReview,
    ) -> Result<Revalidation, ReconcileError> {
        let mut writes = Vec::new();
        let bytes =
            serde_json::to_vec(&today.launch).map_err(ReconcileError::encode("a launch"))?;
        let digest = Sha256Hex::of(&bytes).to_string();
        if attempt.metadata.annotations.get(LAUNCH) != Some(&digest) {
            attempt.metadata.annotations.insert(LAUNCH.to_owned(), digest.clone());
            writes.push(Write::Blob { digest, bytes });
        }
        let permissions = today.review.digest().to_string();
        let stack = &today.snapshot.digest;
        let same = attempt.spec.agent_stack_snapshot.digest == *stack
            && attempt.spec.permission_snapshot_digest == permissions;
        if !writes.is_empty() || !same {
            attempt.spec.agent_stack_snapshot.clone_from(&today.snapshot);
            attempt.spec.permission_snapshot_digest.clone_from(&permissions);
            let subject =
                format!("AgentDispatchAttempt/{}/{}", attempt.metadata.namespace, attempt.name());
            let detail = serde_json::json!({
                "permissionSnapshotDigest": permissions, "stackDigest": stack, "run": run.name(),
                "renewed": true,
            });
            let joined = Correlation::of_run(&run).with("attempt", Some(attempt.name()));
            let event = "AgentDispatchPermissionSnapshotCreated";
            writes.push(joined.line(self.world.now(), event, subject, detail));
            writes.push(Write::Replace(AnyObject::of(&attempt)?));
        }
        run.status.permission_snapshot_digest = Some(permissions);
        Ok(Revalidation::MayStart { run: Box::new(run), writes })
    }
}

/// Whether an attempt continues a conversation.
fn continues_conversation(attempt: &Object<AgentDispatchAttempt>) -> bool {
    match attempt.spec.attempt_reason {
        AttemptReason::Resume | AttemptReason::Continuation => true,
        AttemptReason::Initial
        | AttemptReason::Retry
        | AttemptReason::Repair
        | AttemptReason::RerunAfterFix => false,
    }
}

/// Why facts are missing; missing facts do not count as changed permissions.
fn not_known(frozen: &FrozenStack, facts: &StackFacts) -> Option<String> {
    if let AdapterProbe::Unavailable(why) = &facts.adapter {
        return Some(why.clone());
    }
    let servers = frozen.mcp_servers.iter().filter(|server| !server.spec.lazy);
    servers.map(Object::name).find_map(|name| match facts.mcp.get(name)? {
        McpProbe::Failed(why) | McpProbe::TimedOut(why) => {
            Some(format!("the MCP server `{name}`: {why}"))
        }
        McpProbe::NotYet => Some(format!("the MCP server `{name}` has not answered yet")),
        McpProbe::Answered(_) => None,
    })
}

/// The repository of a run, unless it is trusted less than at admission.
fn todays_repository(
    inventory: &Inventory,
    run: &Object<AgentDispatchRun>,
) -> Result<Object<Repository>, StartRefusal> {
    let full_name = &run.spec.repository;
    let all = inventory.readable::<Repository>()?;
    let mut all = all.into_iter();
    let repository = all
        .find(|repository| repository.spec.full_name.eq_ignore_ascii_case(full_name))
        .ok_or_else(|| StartRefusal::RepositoryGone(full_name.clone()))?;
    match repository.spec.trust_tier < run.spec.trust_tier {
        true => Err(StartRefusal::LessTrusted(full_name.clone())),
        false => Ok(repository),
    }
}

/// The admitted stack with today's permissions and limits.
fn as_it_is(
    inventory: &Inventory,
    attempt: &Object<AgentDispatchAttempt>,
) -> Result<FrozenStack, StartRefusal> {
    let kept = &attempt.spec.agent_stack_snapshot;
    let mut frozen = refreshed(kept, &more_labels(kept), inventory)?;
    for (kind, what) in [(Kind::AgentMcpServer, "MCP server"), (Kind::AgentSubagent, "sub-agent")] {
        if let Some(gone) = frozen.missing_of(kind).next() {
            return Err(StartRefusal::PartGone { what, name: gone.object.name.clone() });
        }
    }
    frozen.service_account =
        frozen.service_account.and_then(|then| current_version(inventory, &then));
    frozen.role_bindings =
        frozen.role_bindings.iter().filter_map(|then| current_version(inventory, then)).collect();
    frozen.secret_grants =
        frozen.secret_grants.iter().filter_map(|then| current_version(inventory, then)).collect();
    frozen.config_grants =
        frozen.config_grants.iter().filter_map(|then| current_version(inventory, then)).collect();
    if let Some(then) = frozen.tool_profile.take() {
        let name = then.name().to_owned();
        let gone = || StartRefusal::PartGone { what: "tool profile", name };
        frozen.tool_profile = Some(current_version(inventory, &then).ok_or_else(gone)?);
    }
    Ok(frozen)
}

fn situation(run: &Object<AgentDispatchRun>, inventory: &Inventory, now: Moment) -> Situation {
    let spec = &run.spec;
    let event = &spec.source_event;
    Situation {
        repository: spec.repository.clone(),
        reference: spec.reference.clone(),
        trust_tier: spec.trust_tier,
        actor: spec.source_event.actor.clone(),
        memberships: inventory.memberships(event.actor.as_deref(), event.source, now),
        source: spec.source_event.source,
        workflow: spec.source_refs.pipeline.clone(),
        job: spec.source_refs.job.clone(),
        task_kind: spec.task_kind.clone(),
    }
}

/// The objections of the ten validations or of the review.
fn objected(candidate: &Candidate<'_>) -> Option<StartRefusal> {
    let objections = objections(candidate);
    let mut reasons: Vec<String> =
        objections.iter().flat_map(|(_, whys)| whys).map(|why| why.message.clone()).collect();
    if reasons.is_empty() && candidate.review.decision == Decision::Denied {
        let grave = candidate.review.reasons.iter().filter(|why| why.severity == Severity::Error);
        reasons.extend(grave.map(|why| why.message.clone()));
    }
    reasons.sort();
    reasons.dedup();
    (!reasons.is_empty()).then_some(StartRefusal::Objections(reasons))
}
