//! Stores the results of a run with its end: the change, the agent's answer, a review, requested actions.

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentArtifact, AgentDispatchAttempt, AgentDispatchRun, AgentReviewArtifact, AnyObject,
    ApplyStrategy, ArtifactKind, AttemptReason, Object, PatchCommit, PatchDetail,
};
use serde::Serialize;

use super::ReconcileError;
use super::outcome::{EndCode, RunEnd};
use super::redaction::TextRedactor;
use super::run_controller::metadata_beside;
use crate::ports::{FinishedWork, Write, WriteBack};
use crate::write_back::{AgentAnswer, RequestedReview, report_kind};

/// The stored results of an attempt besides the change.
pub(super) struct Results {
    /// The agent's answer.
    pub(super) answer: AgentAnswer,
    /// Why the run fails although its checks passed.
    pub(super) fault: Option<RunEnd>,
}

/// An attempt that has ended, and the writes of the commit that stores its end.
pub(super) struct ResultWriter<'a> {
    pub(super) run: &'a mut Object<AgentDispatchRun>,
    pub(super) attempt: &'a mut Object<AgentDispatchAttempt>,
    pub(super) writes: &'a mut Vec<Write>,
}

/// The context of an attempt. A repair also gets the verdict on the earlier attempt, and a rerun what was changed.
pub(super) fn with_earlier_verdict(attempt: &AgentDispatchAttempt, context: String) -> String {
    let quoted = |verdict: &str| {
        let lines: Vec<String> = verdict.lines().map(|line| format!("    {line}")).collect();
        lines.join("\n")
    };
    match (attempt.attempt_reason, &attempt.message) {
        (AttemptReason::Repair, Some(verdict)) => {
            let verdict = quoted(verdict);
            format!(
                "{context}\n\nAn earlier attempt did not pass its checks. They said:\n\n{verdict}\n"
            )
        }
        (AttemptReason::RerunAfterFix, Some(verdict)) => {
            let (fixed, verdict) = (attempt.fixed.join(", "), quoted(verdict));
            format!(
                "{context}\n\nAn earlier attempt failed. Since then was changed: {fixed}. About that \
                 attempt:\n\n{verdict}\n"
            )
        }
        (
            AttemptReason::Initial
            | AttemptReason::Retry
            | AttemptReason::Resume
            | AttemptReason::Repair
            | AttemptReason::RerunAfterFix
            | AttemptReason::Continuation,
            _,
        ) => context,
    }
}

impl ResultWriter<'_> {
    /// Stores the change, the answer and the review of an attempt.
    pub(super) fn store_results(
        mut self,
        work: &FinishedWork,
        words: &TextRedactor,
    ) -> Result<Results, ReconcileError> {
        if !work.patch.is_empty() {
            self.store_patch(work, words)?;
        }
        let Some(report) = &work.report else {
            let answer = AgentAnswer::default();
            let fault = self.store_review(&answer)?;
            return Ok(Results { answer, fault });
        };
        if let Err(error) = words.redactor() {
            let fault = EndCode::RedactionFailed.because(error.to_string());
            return Ok(Results { answer: AgentAnswer::default(), fault: Some(fault) });
        }
        let answer = AgentAnswer::read(report, |text: &str| words.clean(text));
        self.store_text(&answer)?;
        let fault = self.store_review(&answer)?;
        if let Some(rerun) = &answer.rerun {
            self.store_json(ArtifactKind::RerunRequest, &rerun.reason, rerun)?;
        }
        Ok(Results { answer, fault })
    }

    fn store_artifact(
        &mut self,
        kind: ArtifactKind,
        summary: &str,
        bytes: Vec<u8>,
        patch: Option<PatchDetail>,
    ) -> Result<String, ReconcileError> {
        let digest = Sha256Hex::of(&bytes).to_string();
        let identity = match kind {
            // The same change on another commit is another patch.
            ArtifactKind::Patch => {
                let commits = patch.as_ref().map(|patch| (&patch.base_sha, &patch.commit));
                format!("{}\n{digest}\n{commits:?}", self.attempt.name())
            }
            ArtifactKind::Diagnosis
            | ArtifactKind::BranchProposal
            | ArtifactKind::Review
            | ArtifactKind::TestReport
            | ArtifactKind::ReleaseReport
            | ArtifactKind::SubagentOutput
            | ArtifactKind::WorkspaceDiff
            | ArtifactKind::RerunRequest => {
                format!("{}\n{kind:?}\n{digest}", self.attempt.name())
            }
        };
        let name = format!("aar-{}", Sha256Hex::of(identity).prefix(24));
        let spec = AgentArtifact {
            dispatch_run: self.run.name().to_owned(),
            attempt: self.attempt.name().to_owned(),
            kind,
            digest: digest.clone(),
            bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            summary: summary.lines().next().unwrap_or_default().chars().take(200).collect(),
            patch,
        };
        let object = Object::new(metadata_beside(&self.run.metadata, name.clone()), spec);
        self.writes.push(Write::Blob { digest, bytes });
        self.writes.push(Write::Create(AnyObject::of(&object)?));
        self.run.status.artifacts.push(name.clone());
        self.attempt.status.produced_artifacts.push(name.clone());
        Ok(name)
    }

    fn store_json(
        &mut self,
        kind: ArtifactKind,
        summary: &str,
        value: &impl Serialize,
    ) -> Result<(), ReconcileError> {
        let bytes = serde_json::to_vec(value).map_err(ReconcileError::encode("an artifact"))?;
        self.store_artifact(kind, summary, bytes, None).map(drop)
    }

    /// Stores a change that was rebased after the end of its attempt.
    pub(super) fn store_rebased(
        mut self,
        work: &FinishedWork,
        words: &TextRedactor,
    ) -> Result<(), ReconcileError> {
        match work.patch.is_empty() {
            true => Ok(()),
            false => self.store_patch(work, words),
        }
    }

    /// Stores the change. Pushing it is a separate write-back.
    fn store_patch(
        &mut self,
        work: &FinishedWork,
        words: &TextRedactor,
    ) -> Result<(), ReconcileError> {
        let risky = |file: &&String| {
            file.starts_with(".github/")
                || file.starts_with(".gitea/")
                || file.ends_with("Cargo.lock")
        };
        let apply_strategy = match (work.verified, self.run.spec.source_refs.pull_request) {
            (false, _) => ApplyStrategy::LocalOnly,
            (true, Some(_)) => ApplyStrategy::PrUpdate,
            (true, None) => ApplyStrategy::BranchUpdate,
        };
        let clean = |commit: &PatchCommit| PatchCommit {
            sha: commit.sha.clone(),
            author: words.clean(&commit.author),
            committer: commit.committer.as_deref().map(|committer| words.clean(committer)),
            message: words.clean(&commit.message),
            files: commit.files.iter().map(|file| words.clean(file)).collect(),
        };
        let detail = PatchDetail {
            base_sha: work.base.clone(),
            tree: Some(work.tree.clone()),
            commit: Some(work.commit.clone()),
            files: work.files.clone(),
            merges: work.merges,
            verified: work.verified,
            unsafe_files: work.files.iter().filter(risky).cloned().collect(),
            commits: work.commits.iter().map(clean).collect(),
            apply_strategy,
        };
        self.store_artifact(ArtifactKind::Patch, &work.verdict, work.patch.clone(), Some(detail))
            .map(drop)
    }

    /// Stores the answer as the kind of artifact that the task kind requires.
    fn store_text(&mut self, answer: &AgentAnswer) -> Result<(), ReconcileError> {
        let kind = report_kind(&self.run.spec.task_kind);
        let notes = answer.release.as_ref().map(|release| release.notes.as_str());
        let words = notes.filter(|_| answer.text.is_empty()).unwrap_or(&answer.text);
        if words.is_empty() {
            return Ok(());
        }
        self.store_artifact(kind, words, words.as_bytes().to_vec(), None).map(drop)
    }

    /// Stores the review. A run for a review fails without one.
    fn store_review(&mut self, answer: &AgentAnswer) -> Result<Option<RunEnd>, ReconcileError> {
        let asked = report_kind(&self.run.spec.task_kind) == ArtifactKind::Review;
        let Some(review) = &answer.review else {
            let why = answer.fault("review").map(ToString::to_string);
            let why = why.unwrap_or_else(|| "its agent gave none".to_owned());
            return Ok(asked.then(|| EndCode::ReviewArtifactInvalid.because(why)));
        };
        self.store_requested_review(review)?;
        Ok(None)
    }

    fn store_requested_review(&mut self, review: &RequestedReview) -> Result<(), ReconcileError> {
        let spec = &self.run.spec;
        let target_ref = match spec.source_refs.pull_request {
            Some(number) => format!("{}#{number}@{}", spec.repository, spec.sha),
            None => format!("{}@{}", spec.repository, spec.sha),
        };
        let bytes = review.body.clone().into_bytes();
        let digest = Sha256Hex::of(&bytes).to_string();
        let whole = serde_json::to_string(review).map_err(ReconcileError::encode("a review"))?;
        let identity = format!("{}\n{target_ref}\n{whole}", self.attempt.name());
        let name = format!("arv-{}", Sha256Hex::of(identity).prefix(24));
        let spec = AgentReviewArtifact {
            dispatch_run: self.run.name().to_owned(),
            target_ref,
            decision: review.decision,
            digest: digest.clone(),
            comments: review.comments.clone(),
        };
        let object = Object::new(metadata_beside(&self.run.metadata, name.clone()), spec);
        self.writes.push(Write::Blob { digest, bytes });
        self.writes.push(Write::Create(AnyObject::of(&object)?));
        self.run.status.artifacts.push(name.clone());
        self.attempt.status.produced_artifacts.push(name);
        Ok(())
    }

    /// Stores the proposed branch, so that a person can push it where policy forbids that here.
    pub(super) fn store_branch(&mut self, change: &[&WriteBack]) -> Result<(), ReconcileError> {
        let Some(WriteBack::Push { branch, .. }) = change.first() else { return Ok(()) };
        let summary = branch.clone();
        self.store_json(ArtifactKind::BranchProposal, &summary, &change)
    }
}
