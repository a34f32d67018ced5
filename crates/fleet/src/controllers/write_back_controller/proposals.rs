//! Which of a run's results are proposed for write-back, and the final phase once all of them are settled.

use std::borrow::Cow;

use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AgentTriggerRule, Object, RunPhase, WebhookDelivery,
    WorkItemMode, WriteBackRecord, WriteBackState, WriteBackTarget,
};
use serde_json::Value;

use crate::controllers::ReconcileError;
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::outcome::{EndCode, RunEnd};
use crate::controllers::redaction::TextRedactor;
use crate::controllers::run_results::{ResultWriter, Results};
use crate::controllers::write_back_controller::WriteBackController;
use crate::controllers::write_back_controller::records::{
    denied, planned, policies, recorded, requester,
};
use crate::controllers::write_targets::push_rights;
use crate::ports::{
    Clock, Commits, FinishedWork, Forge as _, Forges, ObjectStore, PullRequestState, Rights,
    SecretStore, StackSources, Worktrees, WriteBack,
};
use crate::write_back::{
    Denial, DenialRule, Dependency, Finished, Obstacle, Permission, Plan, Proposal, ProposedWrite,
    TargetFacts, permit, wanted,
};

impl<S: ObjectStore + SecretStore, W: Clock + Forges + Commits + StackSources + Worktrees>
    WriteBackController<S, W>
{
    /// Proposes the results of verified work, as far as policy allows.
    pub(in crate::controllers) async fn propose(
        &self,
        mut writer: ResultWriter<'_>,
        work: &FinishedWork,
        results: &Results,
        words: &TextRedactor,
    ) -> Result<(), ReconcileError> {
        let pull_request = self.pull_request_of(writer.run).await?;
        let payload = self.payload_of(writer.run).await?;
        let approvals = [&writer.run.spec.approval_policy];
        let reviews = permit(&policies(writer.run, &approvals), WriteBackTarget::PullRequestReview);
        let mut all = wanted(&Finished {
            run: writer.run,
            work,
            answer: &results.answer,
            pull_request: pull_request.as_ref(),
            payload: payload.as_ref(),
            reviews_freely: reviews == Permission::Auto,
            opens_issue: self.opens_issue(writer.run).await?,
        });
        let change = all.iter().map(|one| &one.write).filter(|write| match write {
            WriteBack::Push { .. } | WriteBack::OpenPullRequest { .. } => true,
            WriteBack::OpenIssue { .. }
            | WriteBack::Comment { .. }
            | WriteBack::Review(_)
            | WriteBack::CheckStatus { .. }
            | WriteBack::Rerun { .. }
            | WriteBack::ReleaseNote { .. }
            | WriteBack::DeploymentApproval { .. } => false,
        });
        writer.store_branch(&change.collect::<Vec<_>>())?;
        leave_out_repetition(&mut all, writer.run);
        let contents = PushContents::of(work, words);
        let push = self.push_rights_of(writer.run, all.first().map(|one| &one.write)).await?;
        let facts = TargetFacts { pull_request: pull_request.as_ref(), push };
        self.record_all(&mut writer, (&contents, &facts), &all)
    }

    fn record_all(
        &self,
        writer: &mut ResultWriter<'_>,
        known: (&PushContents<'_>, &TargetFacts<'_>),
        all: &[ProposedWrite],
    ) -> Result<(), ReconcileError> {
        let mut kept: Vec<Option<WriteBackRecord>> = Vec::new();
        for one in all {
            let made = self.record(writer, known, one, &kept)?;
            if let Some(record) = &made {
                writer.run.status.approvals.extend(record.approval.clone());
                writer.run.status.write_backs.push(record.clone());
            }
            kept.push(made);
        }
        Ok(())
    }

    /// The record of a proposal; nothing where policy does not list its target, or where the write that it depends on
    /// is not proposed.
    fn record(
        &self,
        writer: &mut ResultWriter<'_>,
        (contents, facts): (&PushContents<'_>, &TargetFacts<'_>),
        one: &ProposedWrite,
        kept: &[Option<WriteBackRecord>],
    ) -> Result<Option<WriteBackRecord>, ReconcileError> {
        let run = &*writer.run;
        if !run.spec.write_back_policy.allowed_targets.contains(&one.write.target()) {
            return Ok(None);
        }
        let at = |at: usize| kept.get(at).and_then(Option::as_ref);
        let under = match one.depends_on {
            None => None,
            Some(Dependency::Requires(before)) => match at(before) {
                Some(under) => Some(under),
                None => return Ok(None),
            },
            Some(Dependency::After(before)) => {
                at(before).filter(|under| under.denied_by != Some(DenialRule::Policy))
            }
        };
        let content = match is_push(&one.write) {
            true => contents.content(),
            false => Vec::new(),
        };
        let proposal = Proposal {
            repository: &run.spec.repository,
            dispatch_run: run.name(),
            attempt: writer.attempt.name(),
            requested_by: requester(writer.attempt),
            write: &one.write,
            target_state: one.target_state.clone(),
            artifact_refs: run.status.artifacts.clone(),
            content: &content,
            redactor: contents.words.redactor().ok(),
            summary: contents.work.verdict.clone(),
            now: self.world.now(),
        };
        let obstacle = Obstacle::of(&one.write, facts).map(|obstacle| obstacle.denial());
        let denial = contents.unread(&one.write).or(obstacle);
        let plan = match (planned(run, writer.attempt, &proposal), denial) {
            (Plan::Ask(_) | Plan::Write(_), Some(denial)) => Plan::Denied(denial),
            (plan, _) => plan,
        };
        let (mut record, writes) = recorded(run, &one.write, plan)?;
        if let Some(under) = under {
            record.stands_on = Some(under.digest.clone());
            if under.state == WriteBackState::Denied {
                // No approval is requested for a write that cannot happen.
                record.approval = None;
                let record = denied(record, &not_written(under));
                writer.writes.extend(writes.into_iter().take(1));
                return Ok(Some(record));
            }
        }
        writer.writes.extend(writes);
        Ok(Some(record))
    }

    /// The pull request of a run; nothing if the forge does not answer.
    async fn pull_request_of(
        &self,
        run: &Object<AgentDispatchRun>,
    ) -> Result<Option<PullRequestState>, ReconcileError> {
        const ABOUT: [WriteBackTarget; 4] = [
            WriteBackTarget::BranchPush,
            WriteBackTarget::CreateBranch,
            WriteBackTarget::PullRequestComment,
            WriteBackTarget::PullRequestReview,
        ];
        let Some(number) = run.spec.source_refs.pull_request else { return Ok(None) };
        let allowed = &run.spec.write_back_policy.allowed_targets;
        if !ABOUT.iter().any(|target| allowed.contains(target)) {
            return Ok(None);
        }
        let state = async || -> Result<PullRequestState, ReconcileError> {
            let repository = self.store.repository(&run.spec.repository).await?;
            Ok(self.forges.open(&repository).await?.pull_request(number).await?)
        };
        match state().await {
            Ok(state) => Ok(Some(state)),
            Err(error @ ReconcileError::Store(_)) => Err(error),
            // Without a response, the work goes to a new branch.
            Err(_) => Ok(None),
        }
    }

    /// Whether the credential may push the change; unknown if the forge does not answer.
    async fn push_rights_of(
        &self,
        run: &Object<AgentDispatchRun>,
        first: Option<&WriteBack>,
    ) -> Result<Rights, ReconcileError> {
        let allowed = &run.spec.write_back_policy.allowed_targets;
        let Some(write) = first.filter(|write| allowed.contains(&write.target())) else {
            return Ok(Rights::Unknown);
        };
        let rights = async || -> Result<Rights, ReconcileError> {
            let repository = self.store.repository(&run.spec.repository).await?;
            Ok(push_rights(&self.forges.open(&repository).await?, write).await?)
        };
        match rights().await {
            Err(error @ ReconcileError::Store(_)) => Err(error),
            Ok(rights) => Ok(rights),
            Err(_) => Ok(Rights::Unknown),
        }
    }

    /// Whether the rule of a run has it open an issue. One that is about an issue or a pull request, or has opened
    /// one before, comments there instead.
    async fn opens_issue(&self, run: &Object<AgentDispatchRun>) -> Result<bool, ReconcileError> {
        let refs = &run.spec.source_refs;
        let known = refs.issue.or(refs.pull_request).or(run.status.opened_issue);
        let (None, Some(rule)) = (known, &run.spec.trigger_rule) else { return Ok(false) };
        let rule = self.store.typed::<AgentTriggerRule>(rule).await?;
        Ok(rule.is_some_and(|rule| rule.spec.work_item == WorkItemMode::OpenIssue))
    }

    /// The payload of the event that led to a run.
    async fn payload_of(
        &self,
        run: &Object<AgentDispatchRun>,
    ) -> Result<Option<Value>, ReconcileError> {
        let Some(name) = &run.spec.source_refs.webhook_delivery else { return Ok(None) };
        let Some(delivery) = self.store.typed::<WebhookDelivery>(name).await? else {
            return Ok(None);
        };
        let bytes = self.store.blob(&delivery.spec.payload_digest).await?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }
}

/// The content of a push, as texts to search for secrets.
pub(super) struct PushContents<'a> {
    work: &'a FinishedWork,
    words: &'a TextRedactor,
    /// The additions of the change.
    added: String,
    /// The messages and additions of its commits.
    history: Option<Cow<'a, str>>,
    /// The names of its files.
    files: String,
}

impl<'a> PushContents<'a> {
    pub(super) fn of(work: &'a FinishedWork, words: &'a TextRedactor) -> Self {
        let patch = String::from_utf8_lossy(&work.patch);
        // Only added lines are searched.
        let added = patch.lines().filter(|line| !line.starts_with([' ', '-']));
        Self {
            work,
            words,
            added: added.collect::<Vec<_>>().join("\n"),
            history: work.history.as_deref().map(String::from_utf8_lossy),
            files: work.files.join("\n"),
        }
    }

    pub(super) fn content(&self) -> Vec<&str> {
        let history = self.history.as_deref().unwrap_or_default();
        vec![self.added.as_str(), history, self.files.as_str()]
    }

    /// The denial of a write that cannot be searched for secrets.
    pub(super) fn unread(&self, write: &WriteBack) -> Option<Denial> {
        let (reason, instead) = match (self.words.redactor(), &self.history) {
            (Err(error), _) => (error.to_string(), "fix that, and retry the run"),
            (Ok(_), None) if is_push(write) => (
                "its commits are too long to be looked through for secrets".to_owned(),
                "have the work done in fewer and smaller commits",
            ),
            (Ok(_), _) => return None,
        };
        Some(Denial { rule: DenialRule::Secret, reason, instead: instead.to_owned() })
    }
}

fn is_push(write: &WriteBack) -> bool {
    match write {
        WriteBack::Push { .. } => true,
        WriteBack::OpenIssue { .. }
        | WriteBack::Comment { .. }
        | WriteBack::Review(_)
        | WriteBack::OpenPullRequest { .. }
        | WriteBack::CheckStatus { .. }
        | WriteBack::Rerun { .. }
        | WriteBack::ReleaseNote { .. }
        | WriteBack::DeploymentApproval { .. } => false,
    }
}

/// Removes the comment if a review has the same text.
fn leave_out_repetition(all: &mut Vec<ProposedWrite>, run: &Object<AgentDispatchRun>) {
    let allowed = &run.spec.write_back_policy.allowed_targets;
    let reviewed = allowed.contains(&WriteBackTarget::PullRequestReview)
        && all.iter().any(|one| matches!(one.write, WriteBack::Review(_)));
    if reviewed {
        // No other write depends on the comment.
        all.retain(|one| !matches!(one.write, WriteBack::Comment { pull_request: true, .. }));
    }
}

fn not_written(under: &WriteBackRecord) -> String {
    format!("{} is not written: {}", under.target, under.detail)
}

/// Why a write is blocked by the one that it depends on.
pub(super) fn blocked_by_dependency(
    run: &Object<AgentDispatchRun>,
    record: &WriteBackRecord,
) -> Option<String> {
    let on = record.stands_on.as_ref()?;
    let under = run.status.write_backs.iter().find(|one| one.digest == *on)?;
    let gone = matches!(under.state, WriteBackState::Denied | WriteBackState::Failed);
    gone.then(|| not_written(under))
}

/// How a run ends when all of its write-backs are settled.
pub(super) fn final_phase(
    run: &Object<AgentDispatchRun>,
    attempt: &Object<AgentDispatchAttempt>,
) -> RunEnd {
    let all = &run.status.write_backs;
    if let Some(failed) = all.iter().find(|one| one.state == WriteBackState::Failed) {
        return EndCode::WriteBackFailed.because(failed.detail.as_str());
    }
    // A refused change fails the run, even if it was verified. A change that policy never allows was not expected to
    // be written.
    let refused = |one: &&WriteBackRecord| {
        let change =
            matches!(one.action, WriteBackTarget::BranchPush | WriteBackTarget::CreateBranch);
        let by_policy = one.denied_by == Some(DenialRule::Policy);
        change && one.state == WriteBackState::Denied && !by_policy
    };
    if let Some(refused) = all.iter().find(refused) {
        return EndCode::WriteBackDenied.because(refused.detail.as_str());
    }
    let why = attempt.status.exit_reason.clone().unwrap_or_else(|| "done".to_owned());
    RunEnd::new(RunPhase::Succeeded, why)
}
