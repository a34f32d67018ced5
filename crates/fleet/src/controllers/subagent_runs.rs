//! Sub-agents as runs of their own: what each received and returned, and whether its contract is fulfilled.
//!
//! The agent starts them through the engine, which enforces every limit at that moment. This is their record,
//! created and updated from what the engine reports; repeating it changes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentArtifact, AgentContextBundle, AgentDispatchAttempt, AgentDispatchRun,
    AgentDispatchRunStatus, AgentSubagent, AnyObject, ApprovalPolicy, ArtifactKind, BundleLayer,
    BundlePart, ChildRun, Kind, Moment, Object, RunPhase, SubagentEvent,
};

use super::audit_log::Correlation;
use super::launch::{agent_of, subagents_of};
use super::objects::ObjectQueries as _;
use super::outcome::{EndCode, RunEnd, subagent_event_text};
use super::redaction::Redaction;
use super::run_controller::metadata_beside;
use super::run_status::{RunStatusWriter, When};
use super::summary::Task;
use super::tool_approvals::{Questioner, ToolApprovals};
use super::{ReconcileError, ReconcileSummary};
use crate::bundle::Redactor;
use crate::ports::{
    ChildState, Clock, Engine, LaunchedChild, ObjectStore, SecretStore, Selection, StackSources,
    Worktrees, Write,
};
use crate::subagents::contract_faults;

/// The label with the name of the sub-agent that a run is.
pub(super) const SUBAGENT: &str = "bailiwick.dev/subagent";
/// The label with the parent run.
const PARENT: &str = "bailiwick.dev/parent-run";
/// How much of a sub-agent's task is stored in its spec.
const MAX_TASK_BYTES: usize = 16 * 1024;
/// How much of a result is stored in the parent's status; all of it is an artifact.
const MAX_RESULT_BYTES: usize = 8 * 1024;

/// Whether a run is a sub-agent. It uses neither a pool nor a queue.
pub(super) fn is_child(run: &Object<AgentDispatchRun>) -> bool {
    run.metadata.labels.contains_key(SUBAGENT)
}

/// Records sub-agents as runs.
pub(super) struct SubagentController<S, E, W> {
    store: Arc<S>,
    engine: Arc<E>,
    world: Arc<W>,
    approvals: Arc<ToolApprovals<S, E, W>>,
    statuses: Arc<RunStatusWriter<S, W>>,
    redaction: Arc<Redaction<S, W>>,
}

impl<S, E, W> SubagentController<S, E, W> {
    pub(super) fn new(
        store: Arc<S>,
        engine: Arc<E>,
        world: Arc<W>,
        approvals: Arc<ToolApprovals<S, E, W>>,
        statuses: Arc<RunStatusWriter<S, W>>,
        redaction: Arc<Redaction<S, W>>,
    ) -> Self {
        Self { store, engine, world, approvals, statuses, redaction }
    }
}

impl<S: ObjectStore + SecretStore, E: Engine, W: Clock + StackSources + Worktrees>
    SubagentController<S, E, W>
{
    /// The writes that record the sub-agents of an attempt.
    pub(super) async fn children(
        &self,
        run: &mut Object<AgentDispatchRun>,
        attempt: &mut Object<AgentDispatchAttempt>,
    ) -> Result<Vec<Write>, ReconcileError> {
        let definitions = subagents_of(attempt);
        if definitions.is_empty() {
            return Ok(Vec::new());
        }
        let seen = self.engine.children(&agent_of(attempt)).await?;
        let mut writes = Vec::new();
        let mut redactor = None;
        for one in &seen {
            let definition = definitions.iter().find(|(name, _)| *name == one.subagent);
            let definition = definition.map(|(_, definition)| definition);
            let known = self.store.typed::<AgentDispatchRun>(&name_of(run, one)).await?;
            let parent_ended = has_ended(run, attempt);
            let settled = match &known {
                Some(known) => is_settled(known, one),
                // Its record was deleted by retention.
                None => was_recorded(run, one) && is_past(one, parent_ended),
            };
            if settled {
                continue;
            }
            // A sub-agent's own texts are stored only at its start and end; only they can contain secrets.
            if redactor.is_none() && (known.is_none() || is_over(one)) {
                // Without a redactor none of its texts are stored.
                redactor = self.redaction.redactor(run).await?.ok();
            }
            let redactor = redactor.as_ref();
            let report = ChildReport { one, definition, redactor, parent_ended };
            writes.extend(self.child(run, attempt, known, &report).await?);
        }
        Ok(writes)
    }

    /// The writes that record one sub-agent.
    async fn child(
        &self,
        run: &mut Object<AgentDispatchRun>,
        attempt: &mut Object<AgentDispatchAttempt>,
        known: Option<Object<AgentDispatchRun>>,
        report: &ChildReport<'_>,
    ) -> Result<Vec<Write>, ReconcileError> {
        let now = self.world.now();
        let is_new = known.is_none();
        let mut child = known.unwrap_or_else(|| report.fresh(run));
        let before = child.status.clone();
        let mut writes = Vec::new();
        let (faults, end_code) = report.update_status(&mut child.status, now);
        if child.status.cancel_requested.is_some() && !child.status.phase.is_final() {
            self.engine.cancel(&report.one.agent).await?;
        }
        if is_new && let Some((bundle, blob)) = report.bundle(&mut child, run.name(), now) {
            // One whose record retention deleted may have left its context.
            if self.store.typed::<AgentContextBundle>(bundle.name()).await?.is_none() {
                writes.extend([blob, Write::Create(AnyObject::of(&bundle)?)]);
            }
        }
        let asked = (report.one.agent.as_str(), report.one.questions.as_slice());
        writes.extend(
            self.approvals.sync(&child, Questioner::Child(report.one.attempts), asked).await?,
        );
        let returned = report.returned();
        if let Some(returned) = &returned {
            let (artifact, blob) = output(&child, attempt, returned);
            if !child.status.artifacts.contains(&artifact.name().to_owned()) {
                child.status.artifacts.push(artifact.name().to_owned());
                writes.extend([blob, Write::Create(AnyObject::of(&artifact)?)]);
            }
        }
        if child.status.phase.is_final() {
            // A new object has the generation of its first spec.
            child.metadata.generation = child.metadata.generation.max(1);
            self.statuses.with_conditions(&mut child, When::Ended(end_code)).await?;
        }
        let subject = format!("AgentDispatchRun/{}/{}", child.metadata.namespace, child.name());
        if is_new {
            let detail =
                serde_json::json!({ "parent": run.name(), "subagent": report.one.subagent });
            let joined = Correlation::of_run(&child).with("parent", Some(run.name()));
            writes.push(joined.line(now, "AgentSubagentStarted", subject.clone(), detail));
            writes.push(Write::Create(AnyObject::of(&child)?));
        } else if child.status != before {
            writes.push(Write::Status(AnyObject::of(&child)?));
        }
        if is_new || child.status.phase != before.phase {
            if child.status.phase.is_final() {
                let good = child.status.phase == RunPhase::Succeeded;
                let event = if good { "AgentDispatchCompleted" } else { "AgentDispatchFailed" };
                let reason = &child.status.terminal_reason;
                let detail = serde_json::json!({ "phase": child.status.phase, "reason": reason });
                let joined = Correlation::of_run(&child).with("parent", Some(run.name()));
                writes.push(joined.line(now, event, subject, detail));
            }
            attempt.status.subagent_events.push(SubagentEvent {
                run: child.name().to_owned(),
                subagent: report.one.subagent.clone(),
                what: subagent_event_text(
                    child.status.phase,
                    child.status.terminal_reason.as_deref().map(first_line),
                ),
                phase: Some(child.status.phase),
                at: now,
            });
        }
        let record = ChildRun {
            run: child.name().to_owned(),
            subagent: report.one.subagent.clone(),
            context_digest: Sha256Hex::of(&report.one.received).to_string(),
            returned: returned.map(|text| bounded(&text, MAX_RESULT_BYTES)),
            contract_fulfilled: faults.map(|faults| faults.is_empty()),
        };
        let all = &mut run.status.child_subagent_runs;
        match all.iter_mut().find(|kept| kept.run == record.run) {
            Some(kept) => *kept = record,
            None => all.push(record),
        }
        Ok(writes)
    }

    /// Follows sub-agents of attempts that have ended, until they have ended as well.
    pub(super) async fn follow_children(&self, summary: &mut ReconcileSummary) {
        let mut parents = BTreeSet::new();
        for phase in [RunPhase::Pending, RunPhase::Running, RunPhase::WaitingForApproval] {
            let selection = Selection::of(Kind::AgentDispatchRun).field("status", phase.as_str());
            match self.store.all_typed::<AgentDispatchRun>(selection).await {
                Ok(runs) => {
                    let children = runs.iter().filter(|run| is_child(run));
                    parents.extend(children.filter_map(|run| run.spec.parent_run.clone()));
                }
                Err(error) => return summary.record("children", Err(error)),
            }
        }
        for parent in parents {
            if !summary.is_backing_off(Task::Subagents, &parent) {
                let result = self.follow_children_of(&parent).await;
                summary.record_with_backoff(Task::Subagents, &parent, result);
            }
        }
    }

    async fn follow_children_of(&self, parent: &str) -> Result<bool, ReconcileError> {
        let Some(mut run) = self.store.typed::<AgentDispatchRun>(parent).await? else {
            return Ok(false);
        };
        let before = run.status.clone();
        let mut writes = Vec::new();
        let mut looked_after = BTreeSet::new();
        // The last first: attempts of one conversation share its sub-agents.
        for name in run.status.attempts.clone().into_iter().rev() {
            let Some(mut attempt) = self.store.typed::<AgentDispatchAttempt>(&name).await? else {
                continue;
            };
            // Those of a running attempt are followed with it.
            if !looked_after.insert(agent_of(&attempt)) || !has_ended(&run, &attempt) {
                continue;
            }
            let attempt_before = attempt.status.clone();
            writes.extend(self.children(&mut run, &mut attempt).await?);
            if attempt.status != attempt_before {
                writes.push(Write::Status(AnyObject::of(&attempt)?));
            }
        }
        if run.status != before {
            writes.push(Write::Status(AnyObject::of(&run)?));
        }
        if writes.is_empty() {
            return Ok(false);
        }
        self.store.commit(writes, self.world.now()).await?;
        Ok(true)
    }
}

/// The engine's report of a sub-agent, and what is needed to judge it.
struct ChildReport<'a> {
    one: &'a LaunchedChild,
    definition: Option<&'a AgentSubagent>,
    redactor: Option<&'a Redactor>,
    parent_ended: bool,
}

impl ChildReport<'_> {
    /// A text without secrets; empty without a redactor.
    fn clean(&self, text: &str) -> String {
        self.redactor.map_or_else(String::new, |redactor| redactor.redact(text).text)
    }

    /// The new object of a sub-agent.
    fn fresh(&self, parent: &Object<AgentDispatchRun>) -> Object<AgentDispatchRun> {
        let received = self.clean(&self.one.received);
        let spec = AgentDispatchRun {
            task: bounded(&received, MAX_TASK_BYTES),
            parent_run: Some(parent.name().to_owned()),
            trigger_rule: None,
            context_bundle_ref: None,
            workspace_ref: None,
            // Its results go to its parent and are not written to a forge.
            write_back_policy: Default::default(),
            concurrency_group: None,
            approval_policy: self.asks(parent),
            ..parent.spec.clone()
        };
        let mut object =
            Object::new(metadata_beside(&parent.metadata, name_of(parent, self.one)), spec);
        let labels = &mut object.metadata.labels;
        labels.insert(SUBAGENT.to_owned(), self.one.subagent.clone());
        labels.insert(PARENT.to_owned(), parent.name().to_owned());
        object
    }

    /// Its context, which is the message of its parent; none if it cannot be stored.
    fn bundle(
        &self,
        child: &mut Object<AgentDispatchRun>,
        parent: &str,
        now: Moment,
    ) -> Option<(Object<AgentContextBundle>, Write)> {
        let received = self.redactor?.redact(&self.one.received);
        let digest = Sha256Hex::of(&received.text).to_string();
        let bytes = u64::try_from(received.text.len()).unwrap_or(u64::MAX);
        let name = format!("{}-context-{}", child.name(), Sha256Hex::of(&digest).prefix(8));
        let part = BundlePart {
            layer: BundleLayer::UserTask,
            name: "task".to_owned(),
            provenance: format!("AgentDispatchRun/{parent}"),
            digest: digest.clone(),
            bytes,
            truncated: None,
        };
        let spec = AgentContextBundle {
            dispatch_run: child.name().to_owned(),
            digest: digest.clone(),
            sources: vec![part],
            total_bytes: bytes,
            redactions: received.counts,
            assembled_at: now,
        };
        child.spec.context_bundle_ref = Some(name.clone());
        child.status.context_bundle_digest = Some(digest.clone());
        let blob = Write::Blob { digest, bytes: received.text.into_bytes() };
        Some((Object::new(metadata_beside(&child.metadata, name), spec), blob))
    }

    /// Its approval policy, with the parent's expiry as the default.
    fn asks(&self, parent: &Object<AgentDispatchRun>) -> ApprovalPolicy {
        let own = self.definition.map(|definition| definition.approval_policy.clone());
        let mut asked = own.unwrap_or_default();
        asked.expires_after = asked.expires_after.or(parent.spec.approval_policy.expires_after);
        asked
    }

    /// Its result, without secrets.
    fn returned(&self) -> Option<String> {
        let returned = self.one.returned.as_deref()?;
        (self.one.state == ChildState::Completed).then(|| self.clean(returned))
    }

    /// Updates its status. Returns the faults of its answer, once there is one to judge, and the code of its end.
    fn update_status(
        &self,
        status: &mut AgentDispatchRunStatus,
        now: Moment,
    ) -> (Option<Vec<String>>, Option<EndCode>) {
        let one = self.one;
        status.ledger_run_id = Some(one.agent.clone());
        if one.session.is_some() {
            status.agent_session_id.clone_from(&one.session);
        }
        status.cost = one.cost;
        status.event_cursor = format!("{:020}", one.cursor);
        let mut faults = None;
        let detail = || self.clean(&one.detail);
        let end = match one.state {
            ChildState::Starting if self.parent_ended => Ok(RunEnd::failed("it never began")),
            ChildState::Starting => Err(RunPhase::Pending),
            ChildState::Running if one.questions.is_empty() => Err(RunPhase::Running),
            ChildState::Running => Err(RunPhase::WaitingForApproval),
            ChildState::Completed => {
                let returned = one.returned.as_deref().unwrap_or_default();
                let found = self
                    .definition
                    .map(|definition| contract_faults(&definition.output_contract, returned));
                let broken = found.clone().filter(|found| !found.is_empty());
                faults = found;
                match broken {
                    None => Ok(RunEnd::new(RunPhase::Succeeded, "returned")),
                    Some(broken) => {
                        Ok(EndCode::ContractBroken.because(self.clean(&broken.join("; "))))
                    }
                }
            }
            ChildState::Failed => Ok(RunEnd::failed(detail())),
            ChildState::Stopped => Ok(RunEnd::cancelled(detail())),
        };
        let phase = end.as_ref().map_or_else(|phase| *phase, |end| end.phase);
        status.phase = phase;
        status.terminal_reason =
            end.as_ref().ok().map(|end| bounded(&end.to_string(), MAX_RESULT_BYTES));
        if !matches!(one.state, ChildState::Starting) {
            status.started_at.get_or_insert(Moment::from_millis(one.at));
        }
        match phase.is_final() {
            true => {
                status.completed_at.get_or_insert(now);
            }
            // It was resumed.
            false => status.completed_at = None,
        }
        (faults, end.ok().and_then(|end| end.code))
    }
}

/// Whether the end of a sub-agent is recorded.
fn is_settled(known: &Object<AgentDispatchRun>, one: &LaunchedChild) -> bool {
    let status = &known.status;
    is_over(one) && status.phase.is_final() && status.event_cursor == format!("{:020}", one.cursor)
}

/// Whether the parent's status lists a sub-agent.
fn was_recorded(parent: &Object<AgentDispatchRun>, one: &LaunchedChild) -> bool {
    let name = name_of(parent, one);
    parent.status.child_subagent_runs.iter().any(|kept| kept.run == name)
}

/// Whether a sub-agent has ended, or will never start.
fn is_past(one: &LaunchedChild, parent_ended: bool) -> bool {
    is_over(one) || (one.state == ChildState::Starting && parent_ended)
}

/// Whether a sub-agent has ended.
fn is_over(one: &LaunchedChild) -> bool {
    match one.state {
        ChildState::Starting | ChildState::Running => false,
        ChildState::Completed | ChildState::Failed | ChildState::Stopped => true,
    }
}

fn has_ended(run: &Object<AgentDispatchRun>, attempt: &Object<AgentDispatchAttempt>) -> bool {
    attempt.status.completed_at.is_some() || run.status.phase.is_final()
}

fn name_of(parent: &Object<AgentDispatchRun>, one: &LaunchedChild) -> String {
    format!("adr-{}", Sha256Hex::of(format!("{}\n{}", parent.name(), one.agent)).prefix(24))
}

/// The result of a sub-agent as an artifact.
fn output(
    child: &Object<AgentDispatchRun>,
    attempt: &Object<AgentDispatchAttempt>,
    returned: &str,
) -> (Object<AgentArtifact>, Write) {
    let digest = Sha256Hex::of(returned).to_string();
    let name = format!("aar-{}", Sha256Hex::of(format!("{}\n{digest}", child.name())).prefix(24));
    let spec = AgentArtifact {
        dispatch_run: child.name().to_owned(),
        attempt: attempt.name().to_owned(),
        kind: ArtifactKind::SubagentOutput,
        digest: digest.clone(),
        bytes: u64::try_from(returned.len()).unwrap_or(u64::MAX),
        summary: bounded(first_line(returned), 200),
        patch: None,
    };
    let blob = Write::Blob { digest, bytes: returned.as_bytes().to_vec() };
    (Object::new(metadata_beside(&child.metadata, name), spec), blob)
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

/// The start of a text, with the number of omitted bytes.
fn bounded(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    format!("{}\n… {} bytes more", text.get(..end).unwrap_or_default(), text.len() - end)
}
