//! Retries of failed runs after a fix: the changes since the failure, and an admission that uses them.

use bailiwick_resources::{
    AgentDispatchAttempt, AgentDispatchRun, AnyObject, Kind, Object, RunPhase,
};

use super::runs::RunApi;
use crate::admission::Admitted;
use crate::admission::admit::narrowed;
use crate::controllers::ReconcileError;
use crate::controllers::dependencies::{changed_since, dependencies};
use crate::controllers::launch::more_labels;
use crate::controllers::objects::ObjectQueries as _;
use crate::controllers::run_admission::AdmissionContext;
use crate::ports::{
    ActionError, Clock, Commits, Engine, Forges, ObjectStore, SecretStore, Selection, StackSources,
    Write,
};

/// The annotation of a run that was forked: the run that it was forked from.
pub(super) const FORK_OF: &str = "bailiwick.dev/fork-of";

/// The changes since a run failed.
pub(super) struct Fix {
    /// The changed objects, as `Kind/name`.
    pub(super) changed: Vec<String>,
    admission: AdmissionContext,
}

impl<S: ObjectStore + SecretStore, E: Engine, W: Clock + Forges + Commits + StackSources>
    RunApi<S, E, W>
{
    /// The changes since a run failed; none if it did not fail, or nothing has changed.
    pub(super) async fn fix_of(
        &self,
        run: &Object<AgentDispatchRun>,
        last: &Object<AgentDispatchAttempt>,
    ) -> Result<Option<Fix>, ActionError> {
        if run.status.phase != RunPhase::Failed || run.status.failed_with.is_empty() {
            return Ok(None);
        }
        let inventory = self.store.inventory().await;
        let today = dependencies(&inventory, run, Some(last));
        let changed = changed_since(&run.status.failed_with, &today);
        let fix = || Fix { changed: changed.clone(), admission: AdmissionContext::new(inventory) };
        Ok((!changed.is_empty()).then(fix))
    }

    /// Admits the next attempt of a failed run with what was changed; nothing if that does not admit it. The writes store
    /// everything but the run's status and the attempt. Approvals are requested when it leaves the queue.
    pub(super) async fn admit_fixed(
        &self,
        run: &mut Object<AgentDispatchRun>,
        attempt: &mut Object<AgentDispatchAttempt>,
        mut fix: Fix,
    ) -> Result<Option<Vec<Write>>, ActionError> {
        let repository = self.store.repository(&run.spec.repository).await?;
        let rule = match self.rule_of(run).await {
            Ok(rule) => rule,
            Err(ActionError::Conflict { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let labels = match rule {
            Some(_) => Vec::new(),
            None => more_labels(&attempt.spec.agent_stack_snapshot),
        };
        let admitted = self
            .admission
            .admit_again(&mut fix.admission, &repository, run, labels, rule.as_ref())
            .await?;
        let Ok(admitted) = admitted else { return Ok(None) };
        let selection = Selection::of(Kind::AgentContextBundle).field("run", run.name());
        let bundles = self.store.all(selection).await?.len();
        // The context of today replaces one that was gathered before and not used.
        run.status.context_refreshes.retain(|refresh| refresh.attempt.is_some());
        let name = format!("{}-context-{}", run.name(), bundles + 1);
        Ok(Some(self.adopt(run, attempt, admitted, name)?))
    }

    /// Lets a run and its next attempt continue as admitted.
    fn adopt(
        &self,
        run: &mut Object<AgentDispatchRun>,
        attempt: &mut Object<AgentDispatchAttempt>,
        admitted: Admitted,
        context: String,
    ) -> Result<Vec<Write>, ReconcileError> {
        let mut writes = Vec::new();
        let mut bundle = admitted.bundle_object.clone();
        let spec = &admitted.run.spec;
        let before = run.spec.clone();
        let permissions = &admitted.attempt.spec.permission_snapshot_digest;
        // An approval is bound to a context: it does not count for another stack. Other grants have their own
        // approvals.
        let is_approved_as_it_is = run.status.context_bundle_digest.as_ref()
            == Some(&bundle.spec.digest)
            && attempt.spec.agent_stack_snapshot == admitted.snapshot;
        if !is_approved_as_it_is {
            // The earlier bundle stays.
            run.spec.context_bundle_ref = Some(context.clone());
            bundle.metadata.name = context;
            for (digest, text) in admitted.bundle.blobs() {
                writes.push(Write::Blob { digest, bytes: text.into_bytes() });
            }
            writes.push(Write::Create(AnyObject::of(&bundle)?));
        }
        run.spec.runner_pool.clone_from(&spec.runner_pool);
        run.spec.approval_policy.clone_from(&spec.approval_policy);
        // A fork never writes more than the run that it was forked from.
        run.spec.write_back_policy = match run.metadata.annotations.contains_key(FORK_OF) {
            true => narrowed(&spec.write_back_policy, &run.spec.write_back_policy),
            false => spec.write_back_policy.clone(),
        };
        attempt.spec.agent_stack_snapshot.clone_from(&admitted.snapshot);
        attempt.spec.context_bundle_digest.clone_from(&bundle.spec.digest);
        attempt.spec.permission_snapshot_digest.clone_from(permissions);
        attempt.spec.runner_pool.clone_from(&spec.runner_pool);
        let identities = &admitted.attempt.status;
        attempt.status.runtime_identity.clone_from(&identities.runtime_identity);
        attempt.status.runner_identity.clone_from(&identities.runner_identity);
        run.status.context_bundle_digest = Some(bundle.spec.digest.clone());
        run.status.permission_snapshot_digest = Some(permissions.clone());
        writes.extend(self.admission.launch_writes(&admitted, run, attempt)?);
        if run.spec != before {
            writes.push(Write::Replace(AnyObject::of(run)?));
            // The write before has changed the version.
            run.metadata.resource_version = 0;
        }
        Ok(writes)
    }
}
