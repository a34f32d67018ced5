//! Refreshes the context of a run: a new bundle with its own digest and reason, for the next attempt. The earlier
//! bundle stays.

use std::collections::BTreeMap;

use bailiwick_model::Sha256Hex;
use bailiwick_resources::{
    AgentContextBundle, AgentDispatchAttempt, AgentDispatchRun, AgentTriggerRule, AnyObject,
    AttemptReason, ContextRefresh, Kind, Object,
};
use serde_json::json;

use super::conflict;
use super::runs::RunApi;
use crate::bundle::{Bundle, BundleError};
use crate::controllers::ReconcileError;
use crate::controllers::audit_log::{Correlation, subject};
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::prepared_launch::{CONTEXT_UPDATE, LAUNCH};
use crate::controllers::run_controller::metadata_beside;
use crate::controllers::run_queries::RunQueries as _;
use crate::ports::{
    ActionError, Caller, Clock, Commits, Engine, Forges, ObjectStore, RunAnswer, RunVerbRequest,
    SecretStore, Selection, StackSources, Write,
};

impl<S: ObjectStore + SecretStore, E: Engine, W: Clock + Forges + Commits + StackSources>
    RunApi<S, E, W>
{
    /// Gathers the sources of a run again. An attempt that has not started uses them; otherwise the next one does.
    pub(super) async fn refresh_context(
        &self,
        caller: &Caller,
        mut run: Object<AgentDispatchRun>,
        request: &RunVerbRequest,
    ) -> Result<RunAnswer, ActionError> {
        if request.reason.trim().is_empty() {
            return Err(conflict(
                "ReasonMissing",
                "say why, with `--reason` (`reason` in the API)",
            ));
        }
        let last = run.status.attempts.last().cloned().unwrap_or_default();
        let Some(mut attempt) = self.store.typed::<AgentDispatchAttempt>(&last).await? else {
            return Err(conflict("NoAttempt", format!("{} has no attempt", run.name())));
        };
        let newest = run.status.context_refreshes.last().map(|refresh| refresh.bundle.clone());
        let known = newest.or_else(|| run.spec.context_bundle_ref.clone()).unwrap_or_default();
        let before = self.kept_bundle(&known).await?;
        let bundle = self.gather_again(caller, &run, &attempt, &before).await?;
        if bundle.digest == before.digest {
            let message = "nothing that it reads has changed; its context stays as it is";
            return Err(conflict("ContextUnchanged", message));
        }
        let selection = Selection::of(Kind::AgentContextBundle).field("run", run.name());
        let number = self.store.all(selection).await?.len() + 1;
        let name = format!("{}-context-{number}", run.name());
        let metadata = metadata_beside(&run.metadata, name.clone());
        let object = Object::new(metadata, bundle.object(run.name(), caller.at));
        let mut writes = kept_texts(&bundle);
        writes.push(Write::Create(AnyObject::of(&object).map_err(ReconcileError::from)?));
        run.status.context_refreshes.push(ContextRefresh {
            bundle: name.clone(),
            digest: bundle.digest.clone(),
            reason: request.reason.clone(),
            requested_by: caller.actor.clone(),
            at: caller.at,
            attempt: None,
        });
        let waits = !run.status.phase.is_final() && run.status.started_at.is_none();
        if waits {
            writes.extend(self.adopt_refreshed(&mut run, &mut attempt, &bundle).await?);
            writes.push(Write::Replace(AnyObject::of(&attempt).map_err(ReconcileError::from)?));
        }
        let detail = json!({
            "bundle": name, "digest": bundle.digest, "previousDigest": before.digest,
            "reason": request.reason, "attempt": waits.then(|| attempt.name()),
        });
        let joined = Correlation::of_run(&run);
        writes.extend([
            Write::Status(AnyObject::of(&run).map_err(ReconcileError::from)?),
            joined.line_of(caller, "AgentContextRefreshed", subject(&run), detail),
        ]);
        self.store.commit(writes, caller.at).await?;
        Ok(RunAnswer {
            accepted: true,
            run: run.name().to_owned(),
            attempt: Some(attempt.name().to_owned()),
            phase: run.status.phase,
        })
    }

    /// The instructions of an earlier bundle with the sources of today.
    async fn gather_again(
        &self,
        caller: &Caller,
        run: &Object<AgentDispatchRun>,
        attempt: &Object<AgentDispatchAttempt>,
        before: &Bundle,
    ) -> Result<Bundle, ActionError> {
        let repository = self.store.repository(&run.spec.repository).await?;
        let rule = self.rule_of(run).await?;
        let prepared = self.store.prepared(attempt).await?;
        let kit_commit = prepared.kit_commit.as_deref().unwrap_or(&run.spec.sha);
        let gathered = self
            .admission
            .gather_again((&repository, rule.as_ref()), (&run.spec, kit_commit), before)
            .await?;
        match gathered {
            Ok(bundle) => Ok(bundle),
            Err(refused) => Err(self.refused(caller, (run.name(), &run.spec), &refused).await),
        }
    }

    /// The rule of a run, if it has one; a run whose rule is gone is refused.
    pub(super) async fn rule_of(
        &self,
        run: &Object<AgentDispatchRun>,
    ) -> Result<Option<Object<AgentTriggerRule>>, ActionError> {
        let Some(name) = &run.spec.trigger_rule else { return Ok(None) };
        let gone = || conflict("RuleGone", format!("its rule `{name}` is gone; start a new run"));
        self.store.typed::<AgentTriggerRule>(name).await?.ok_or_else(gone).map(Some)
    }

    /// Makes an attempt use the last refreshed context, if no attempt does yet. The writes come before those of the
    /// run's status and of the attempt.
    pub(super) async fn use_refreshed(
        &self,
        run: &mut Object<AgentDispatchRun>,
        attempt: &mut Object<AgentDispatchAttempt>,
    ) -> Result<Vec<Write>, ActionError> {
        let pending = run.status.context_refreshes.last().filter(|last| last.attempt.is_none());
        let Some(pending) = pending else { return Ok(Vec::new()) };
        let bundle = self.kept_bundle(&pending.bundle).await?;
        self.adopt_refreshed(run, attempt, &bundle).await
    }

    /// Lets an attempt use the context that was gathered last, which is this one.
    async fn adopt_refreshed(
        &self,
        run: &mut Object<AgentDispatchRun>,
        attempt: &mut Object<AgentDispatchAttempt>,
        bundle: &Bundle,
    ) -> Result<Vec<Write>, ActionError> {
        let Some(refresh) = run.status.context_refreshes.last_mut() else { return Ok(Vec::new()) };
        refresh.attempt = Some(attempt.name().to_owned());
        run.spec.context_bundle_ref = Some(refresh.bundle.clone());
        run.status.context_bundle_digest = Some(refresh.digest.clone());
        attempt.spec.context_bundle_digest.clone_from(&refresh.digest);
        let mut prepared = self.store.prepared(attempt).await?;
        prepared.context = bundle.render();
        // Only where a sub-agent may be given some of them.
        if !prepared.sources.is_empty() {
            prepared.sources = bundle.sources();
        }
        let bytes = serde_json::to_vec(&prepared).map_err(ReconcileError::encode("a launch"))?;
        let mut writes = Vec::new();
        let mut keep = |annotation: &str, bytes: Vec<u8>| {
            let digest = Sha256Hex::of(&bytes).to_string();
            attempt.metadata.annotations.insert(annotation.to_owned(), digest.clone());
            writes.push(Write::Blob { digest, bytes });
        };
        keep(LAUNCH, bytes);
        match attempt.spec.attempt_reason {
            // The conversation has read the instructions before.
            AttemptReason::Resume | AttemptReason::Continuation => {
                keep(CONTEXT_UPDATE, bundle.render_sources().into_bytes());
            }
            AttemptReason::Initial
            | AttemptReason::Retry
            | AttemptReason::Repair
            | AttemptReason::RerunAfterFix => {}
        }
        writes.push(Write::Replace(AnyObject::of(run).map_err(ReconcileError::from)?));
        // The write before has changed the version.
        run.metadata.resource_version = 0;
        Ok(writes)
    }

    /// A stored bundle with its texts.
    async fn kept_bundle(&self, name: &str) -> Result<Bundle, ActionError> {
        let gone = |why: String| conflict("ContextGone", format!("{why}; fork the run instead"));
        let Some(kept) = self.store.typed::<AgentContextBundle>(name).await? else {
            return Err(gone(format!("its context bundle `{name}` is gone")));
        };
        let mut texts = BTreeMap::new();
        for part in &kept.spec.sources {
            let bytes = self.store.blob(&part.digest).await?;
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            texts.extend(text.map(|text| (part.digest.clone(), text)));
        }
        let restored = Bundle::restore(&kept.spec, |digest| texts.get(digest).cloned());
        restored.map_err(|error: BundleError| gone(error.to_string()))
    }
}

/// The writes that store the texts of a bundle.
fn kept_texts(bundle: &Bundle) -> Vec<Write> {
    let blob = |(digest, text): (String, String)| Write::Blob { digest, bytes: text.into_bytes() };
    bundle.blobs().into_iter().map(blob).collect()
}
