//! Admits requested runs and stores them with everything that they were admitted by.

mod context_sources;

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AgentTriggerRule, AnyObject, ApprovalPolicy, Kind,
    LabelRef, Object, Repository, TrustTier, WebhookDelivery, WriteBackPolicy,
};
use context_sources::{commit_unavailable, not_redacted};

use super::ReconcileError;
use super::audit_log::{Correlation, subject};
use super::forge_access::ForgeAccess;
use super::objects::ObjectQueries as _;
use super::prepared_launch::{LAUNCH, prepared};
use super::redaction::Redaction;
use super::run_queries::RunQueries as _;
use crate::admission::admit::{PoolUse, Request, label_source};
use crate::admission::conditions::SkillProbe;
use crate::admission::context::source_parts;
use crate::admission::{Admission, Admitted, Inventory, Refused, Situation, admit, snapshot};
use crate::bundle::{Bundle, RedactionRules, StackTexts, assemble};
use crate::ports::{
    Clock, Commits, FetchError, ForgeError, Forges, ObjectStore, SecretStore, StackSources, Write,
};
use crate::triggers::{RunDraft, SourceEvent};

/// State that several admissions share. What not all of them need is read on first use.
pub(super) struct AdmissionContext {
    inventory: Inventory,
    /// The values of all secrets.
    known: Option<Vec<String>>,
    /// How full the pools are.
    pools: Option<BTreeMap<String, PoolUse>>,
}

impl AdmissionContext {
    pub(super) fn new(inventory: Inventory) -> Self {
        Self { inventory, known: None, pools: None }
    }
}

/// Admits the runs that rules and people ask for.
pub(super) struct RunAdmission<S, W> {
    store: Arc<S>,
    world: Arc<W>,
    forges: Arc<ForgeAccess<S, W>>,
    redaction: Arc<Redaction<S, W>>,
}

impl<S, W> RunAdmission<S, W> {
    pub(super) fn new(
        store: Arc<S>,
        world: Arc<W>,
        forges: Arc<ForgeAccess<S, W>>,
        redaction: Arc<Redaction<S, W>>,
    ) -> Self {
        Self { store, world, forges, redaction }
    }
}

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits + StackSources> RunAdmission<S, W> {
    /// Admits the run of a trigger rule.
    pub(super) async fn admit_draft(
        &self,
        admission_context: &mut AdmissionContext,
        repository: &Object<Repository>,
        rule: &Object<AgentTriggerRule>,
        draft: &RunDraft,
        events: &[SourceEvent],
    ) -> Result<Result<Admitted, Box<Refused>>, ReconcileError> {
        let event = events.iter().find(|event| event.source == draft.spec.source_event.source);
        let run_request = RunRequest {
            rule: Some(rule),
            labels: Vec::new(),
            trigger: Some((format!("AgentTriggerRule/{}", rule.name()), draft.spec.task.clone())),
            task: None,
            workflow: event.and_then(|event| event.workflow.clone()),
            job: event.and_then(|event| event.job.clone()),
            approval_policy: ApprovalPolicy::default(),
            write_back_policy: None,
            runner_pool: None,
        };
        self.admit_about(
            admission_context,
            repository,
            &draft.name,
            &draft.spec,
            run_request,
            event,
        )
        .await
    }

    /// Admits a run that a person requests.
    pub(super) async fn admit_request(
        &self,
        admission_context: &mut AdmissionContext,
        repository: &Object<Repository>,
        name: &str,
        spec: &AgentDispatchRun,
        run_request: RunRequest<'_>,
    ) -> Result<Result<Admitted, Box<Refused>>, ReconcileError> {
        self.admit_about(admission_context, repository, name, spec, run_request, None).await
    }

    /// Admits a run again, with the current stack, rule and permissions. Its task stays the same.
    pub(super) async fn admit_again(
        &self,
        admission_context: &mut AdmissionContext,
        repository: &Object<Repository>,
        run: &Object<AgentDispatchRun>,
        labels: Vec<LabelRef>,
        rule: Option<&Object<AgentTriggerRule>>,
    ) -> Result<Result<Admitted, Box<Refused>>, ReconcileError> {
        let spec = &run.spec;
        let event = self.event_of(spec).await?;
        let of_person = rule.is_none();
        let actor = spec.source_event.actor.clone().unwrap_or_default();
        let named = |rule: &Object<AgentTriggerRule>| format!("AgentTriggerRule/{}", rule.name());
        let namespace = &repository.metadata.namespace;
        let has_pool =
            admission_context.inventory.has(Kind::RunnerPool, namespace, &spec.runner_pool);
        let run_request = RunRequest {
            rule,
            labels,
            trigger: rule.map(|rule| (named(rule), spec.task.clone())),
            task: of_person.then(|| (actor, spec.task.clone())),
            workflow: spec.source_refs.pipeline.clone(),
            job: spec.source_refs.job.clone(),
            approval_policy: match of_person {
                true => spec.approval_policy.clone(),
                false => ApprovalPolicy::default(),
            },
            write_back_policy: None,
            // The pool that a person chose; a rule and a stack choose again.
            runner_pool: Some(spec.runner_pool.clone()).filter(|_| of_person && has_pool),
        };
        let name = run.name();
        self.admit_about(admission_context, repository, name, spec, run_request, event.as_ref())
            .await
    }

    /// The instructions of an earlier bundle with the sources that a rule attaches, as they are today.
    pub(super) async fn gather_again(
        &self,
        (repository, rule): (&Object<Repository>, Option<&Object<AgentTriggerRule>>),
        (spec, kit_commit): (&AgentDispatchRun, &str),
        before: &Bundle,
    ) -> Result<Result<Bundle, Box<Refused>>, ReconcileError> {
        let event = self.event_of(spec).await?;
        let attached = self.attached(repository, (spec, kit_commit), rule, event.as_ref()).await?;
        let attached = match attached {
            Ok(attached) => attached,
            Err(refused) => return Ok(Err(refused)),
        };
        let mut redaction = self.redaction.stored_values(&self.store.inventory().await).await?;
        match self.world.redactions().await {
            Ok(personal) => redaction.personal = personal,
            Err(error) => return Ok(Err(not_redacted(error.to_string()))),
        }
        redaction.repository.extend(repository.spec.policy.redact.iter().cloned());
        let lines = [Some(breadcrumbs(spec)), attached.left_out_line()];
        let texts = StackTexts {
            breadcrumbs: lines.into_iter().flatten().collect::<Vec<_>>().join("\n"),
            sources: attached.parts,
            ..StackTexts::default()
        };
        let parts = before.instructions().chain(source_parts(texts)).collect();
        let most = rule.map_or(u64::MAX, |rule| rule.spec.context_bundle_template.max_bytes);
        Ok(assemble(parts, &redaction, most).map_err(|error| not_redacted(error.to_string())))
    }

    /// The event of a run, from its stored delivery; nothing if there is none any more.
    pub(super) async fn event_of(
        &self,
        spec: &AgentDispatchRun,
    ) -> Result<Option<SourceEvent>, ReconcileError> {
        let Some(name) = &spec.source_refs.webhook_delivery else { return Ok(None) };
        let Some(delivery) = self.store.typed::<WebhookDelivery>(name).await? else {
            return Ok(None);
        };
        let events = self.store.read_delivery(&delivery).await?.map(|(_, events)| events);
        let mut events = events.unwrap_or_default().into_iter();
        Ok(events.find(|event| event.source == spec.source_event.source))
    }

    async fn admit_about(
        &self,
        admission_context: &mut AdmissionContext,
        repository: &Object<Repository>,
        name: &str,
        spec: &AgentDispatchRun,
        run_request: RunRequest<'_>,
        event: Option<&SourceEvent>,
    ) -> Result<Result<Admitted, Box<Refused>>, ReconcileError> {
        let namespace = &repository.metadata.namespace;
        // The commit is read below, so it is fetched first.
        let here = self.forges.fetch_commit(repository, &spec.reference, Some(&spec.sha)).await;
        if let Some(refused) = commit_unavailable(spec, here)? {
            return Ok(Err(refused));
        }
        let trusted_kit_commit = match spec.trust_tier {
            TrustTier::Trusted => None,
            TrustTier::Untrusted => self.default_tip(repository).await?,
        };
        let kit_commit = trusted_kit_commit.as_deref().unwrap_or(&spec.sha);
        let ruled =
            run_request.rule.map(|rule| rule.spec.context_labels.clone()).unwrap_or_default();
        let labels: Vec<LabelRef> =
            ruled.into_iter().chain(run_request.labels.iter().cloned()).collect();
        let frozen = snapshot(&admission_context.inventory, namespace, &spec.agent_stack, &labels);
        if let Ok(frozen) = &frozen {
            let inventory = &mut admission_context.inventory;
            self.forges.add_owners(inventory, repository, &frozen.role_bindings).await?;
        }
        let facts = match &frozen {
            Ok(frozen) => {
                let at = Some((&repository.spec, kit_commit));
                self.world.stack_facts(frozen, at).await
            }
            Err(_) => crate::admission::conditions::StackFacts::default(),
        };
        let texts =
            match self.texts(repository, (spec, kit_commit), &run_request, &facts, event).await? {
                Ok(texts) => texts,
                Err(refused) => return Ok(Err(refused)),
            };
        let situation = Situation {
            repository: spec.repository.clone(),
            reference: spec.reference.clone(),
            trust_tier: spec.trust_tier,
            actor: spec.source_event.actor.clone(),
            memberships: admission_context.inventory.memberships(
                spec.source_event.actor.as_deref(),
                spec.source_event.source,
                self.world.now(),
            ),
            source: spec.source_event.source,
            workflow: run_request.workflow.clone(),
            job: run_request.job.clone(),
            task_kind: spec.task_kind.clone(),
        };
        let mut redaction = self.redaction_on(admission_context).await?;
        match self.world.redactions().await {
            Ok(personal) => redaction.personal = personal,
            Err(error) => return Ok(Err(not_redacted(error.to_string()))),
        }
        let pools = match admission_context.pools.take() {
            Some(pools) => pools,
            None => self.store.pool_use(&admission_context.inventory).await?,
        };
        let pools = admission_context.pools.insert(pools);
        let ignored = self.world.ignored(&repository.spec, kit_commit).await;
        let admission = Admission {
            inventory: &admission_context.inventory,
            namespace,
            repository: repository.name(),
            situation: &situation,
            request: Request {
                run: name.to_owned(),
                attempt: attempt_name(name, 1),
                rule: run_request.rule,
                stack: spec.agent_stack.clone(),
                sha: spec.sha.clone(),
                branch: spec.branch.clone(),
                source_event: spec.source_event.clone(),
                source_refs: spec.source_refs.clone(),
                labels: run_request.labels.clone(),
                task: spec.task.clone(),
                runner_pool: run_request.runner_pool.clone(),
                approval_policy: run_request.approval_policy.clone(),
                parent_run: spec.parent_run.clone(),
                concurrency_group: spec.concurrency_group.clone(),
                kit_commit: trusted_kit_commit.clone(),
            },
            facts: &facts,
            texts,
            redaction,
            pools,
            ignored: ignored.as_deref(),
            now: self.world.now(),
        };
        Ok(admit(&admission))
    }

    /// The tip of the default branch on the forge, whose kit binds untrusted work.
    async fn default_tip(
        &self,
        repository: &Object<Repository>,
    ) -> Result<Option<String>, ReconcileError> {
        let branch = format!("refs/heads/{}", repository.spec.default_branch);
        match self.forges.fetch_commit(repository, &branch, None).await {
            Ok(found) => Ok(found),
            // Tried again later; other deliveries do not wait for it.
            Err(FetchError::Unavailable(why)) => Err(ForgeError::Unavailable(why).into()),
            Err(FetchError::Account(problem)) => Err(ForgeError::Account(problem).into()),
            Err(FetchError::Local(error)) => Err(error.into()),
            Err(FetchError::Missing(_)) => Ok(None),
            Err(failed @ FetchError::Failed(_)) => Err(ReconcileError::Fetch(failed)),
        }
    }

    /// The texts of a run besides those of its stack.
    async fn texts(
        &self,
        repository: &Object<Repository>,
        (spec, kit_commit): (&AgentDispatchRun, &str),
        run_request: &RunRequest<'_>,
        facts: &crate::admission::conditions::StackFacts,
        event: Option<&SourceEvent>,
    ) -> Result<Result<StackTexts, Box<Refused>>, ReconcileError> {
        let skills = facts.skills.iter().filter_map(|(name, probe)| match probe {
            SkillProbe::Found { text, .. } => Some((name.clone(), text.clone())),
            SkillProbe::NotYet | SkillProbe::Missing | SkillProbe::Invalid(_) => None,
        });
        let attached =
            match self.attached(repository, (spec, kit_commit), run_request.rule, event).await? {
                Ok(attached) => attached,
                Err(refused) => return Ok(Err(refused)),
            };
        let agents_doc = match &facts.agents_doc {
            SkillProbe::Found { text, .. } => Some((kit_commit.to_owned(), text.clone())),
            SkillProbe::NotYet | SkillProbe::Missing | SkillProbe::Invalid(_) => None,
        };
        let lines = [Some(breadcrumbs(spec)), attached.left_out_line()];
        Ok(Ok(StackTexts {
            skills: skills.collect(),
            agents_doc,
            trigger: run_request.trigger.clone(),
            task: run_request.task.clone(),
            breadcrumbs: lines.into_iter().flatten().collect::<Vec<_>>().join("\n"),
            sources: attached.parts,
            about: Some(label_source(&spec.source_refs, spec.source_event.source)),
        }))
    }

    /// The values of all secrets, read once for all admissions of a context.
    async fn redaction_on(
        &self,
        admission_context: &mut AdmissionContext,
    ) -> Result<RedactionRules, ReconcileError> {
        if let Some(known) = &admission_context.known {
            return Ok(RedactionRules { known: known.clone(), ..RedactionRules::default() });
        }
        let rules = self.redaction.stored_values(&admission_context.inventory).await?;
        admission_context.known = Some(rules.known.clone());
        Ok(rules)
    }

    /// The writes that store an admitted run.
    pub(super) fn admitted_writes(
        &self,
        admitted: &Admitted,
        queue_behind: Vec<String>,
    ) -> Result<Vec<Write>, ReconcileError> {
        let mut writes = Vec::new();
        for (digest, text) in admitted.bundle.blobs() {
            writes.push(Write::Blob { digest, bytes: text.into_bytes() });
        }
        let mut run = admitted.run.clone();
        run.status.queue_behind = queue_behind;
        run.status.check_report = super::commit_status::begun(&run);
        let mut attempt = admitted.attempt.clone();
        writes.push(Write::Create(AnyObject::of(&admitted.bundle_object)?));
        for approval in &admitted.approvals {
            writes.push(Write::Create(AnyObject::of(approval)?));
        }
        writes.extend(self.launch_writes(admitted, &run, &mut attempt)?);
        writes.push(Write::Create(AnyObject::of(&attempt)?));
        writes.push(Write::Create(AnyObject::of(&run)?));
        Ok(writes)
    }

    /// The writes that store what an admitted attempt is launched with, which the attempt then names.
    pub(super) fn launch_writes(
        &self,
        admitted: &Admitted,
        run: &Object<AgentDispatchRun>,
        attempt: &mut Object<AgentDispatchAttempt>,
    ) -> Result<[Write; 2], ReconcileError> {
        let prepared = prepared(admitted);
        let bytes = serde_json::to_vec(&prepared).map_err(ReconcileError::encode("a launch"))?;
        let digest = Sha256Hex::of(&bytes).to_string();
        attempt.metadata.annotations.insert(LAUNCH.to_owned(), digest.clone());
        show_limits(attempt, admitted);
        let detail = serde_json::json!({
            "permissionSnapshotDigest": attempt.spec.permission_snapshot_digest,
            "contextBundleDigest": attempt.spec.context_bundle_digest,
            "stackDigest": admitted.snapshot.digest,
            "run": run.name(),
            "kitFrom": admitted.kit_commit,
            "lentModelKey": admitted.lent_model_key,
            "workspace": admitted.workspace.why(),
        });
        let event = "AgentDispatchPermissionSnapshotCreated";
        let joined = Correlation::of_run(run);
        let line = joined.line(self.world.now(), event, subject(attempt), detail);
        Ok([Write::Blob { digest, bytes }, line])
    }
}

/// Shows the limits of an attempt in its status.
fn show_limits(attempt: &mut Object<AgentDispatchAttempt>, admitted: &Admitted) {
    let limits = admitted.compiled.limits.0.iter();
    attempt.status.limits = limits.filter_map(|limit| serde_json::to_value(limit).ok()).collect();
    let task = admitted.compiled.task.parse::<toml::Table>().ok();
    let hosts = task.as_ref().and_then(|task| task.get("agent")?.get("hosts")?.as_array());
    let hosts = hosts.into_iter().flatten().filter_map(|host| host.as_str());
    attempt.status.hosts = hosts.map(str::to_owned).collect();
    attempt.status.limit_notes.clone_from(&admitted.compiled.notes);
}

/// A request for a run, besides its spec.
pub(super) struct RunRequest<'a> {
    /// The trigger rule, if there is one.
    pub(super) rule: Option<&'a Object<AgentTriggerRule>>,
    /// Labels besides the stack's and the rule's.
    pub(super) labels: Vec<LabelRef>,
    /// The name of the rule, and its rendered template.
    pub(super) trigger: Option<(String, String)>,
    /// The person, and the task that they wrote.
    pub(super) task: Option<(String, String)>,
    /// The workflow it is about.
    pub(super) workflow: Option<String>,
    /// The job it is about.
    pub(super) job: Option<String>,
    /// Additional approvals.
    pub(super) approval_policy: ApprovalPolicy,
    /// A further limit on write-backs.
    pub(super) write_back_policy: Option<WriteBackPolicy>,
    /// The requested pool.
    pub(super) runner_pool: Option<String>,
}

/// The name of an attempt and of its agent.
pub(super) fn attempt_name(run: &str, number: u32) -> String {
    let stem = run.strip_prefix("adr-").unwrap_or(run);
    format!("ada-{stem}-{number}")
}

fn breadcrumbs(spec: &AgentDispatchRun) -> String {
    let refs = &spec.source_refs;
    let mut lines = vec![
        format!("repository: {}", spec.repository),
        format!("ref: {} at {}", spec.reference, spec.sha),
        format!("source: {}", spec.source_event.source.as_str()),
    ];
    let mut add = |name: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("{name}: {value}")));
    };
    add("pull request", refs.pull_request.map(|number| number.to_string()));
    add("issue", refs.issue.map(|number| number.to_string()));
    add("workflow", refs.pipeline.clone());
    add("job", refs.job.clone());
    add("check", refs.check.clone());
    lines.join("\n")
}
