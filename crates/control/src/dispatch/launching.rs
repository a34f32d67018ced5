//! Starting an attempt: everything that it gets was admitted and kept before.

use bailiwick_model::fleet::{
    AgentDispatchAttempt, AgentDispatchRun, AttemptReason, Object, Repository,
};

use super::admitting::{LAUNCH, Prepared};
use super::{ControlPlane, PlaneError};
use crate::ports::fleet::{Engine, FleetStore, Launch, World};

impl<S: FleetStore, E: Engine, W: World> ControlPlane<S, E, W> {
    /// Has the engine start an attempt; a second time it does nothing.
    pub(super) async fn launch(
        &self,
        run: &Object<AgentDispatchRun>,
        attempt: &Object<AgentDispatchAttempt>,
    ) -> Result<(), PlaneError> {
        let repository = self.repository(&run.spec.repository).await?;
        let prepared = self.prepared(attempt).await?;
        let environment = self.environment(&repository, &prepared).await?;
        let resume = match attempt.spec.attempt_reason {
            AttemptReason::Resume | AttemptReason::Continuation => {
                Some(attempt.spec.message.clone().unwrap_or_default())
            }
            AttemptReason::Initial
            | AttemptReason::Retry
            | AttemptReason::Repair
            | AttemptReason::RerunAfterFix => None,
        };
        let launch = Launch {
            attempt: attempt.name().to_owned(),
            agent: agent_of(attempt),
            checkout: repository.spec.checkout.clone(),
            base: run.spec.sha.clone(),
            task: prepared.task,
            context: prepared.context,
            limits: prepared.limits,
            environment,
            resume,
        };
        Ok(self.engine.launch(launch).await?)
    }

    async fn prepared(
        &self,
        attempt: &Object<AgentDispatchAttempt>,
    ) -> Result<Prepared, PlaneError> {
        let gone = |why: &str| PlaneError::Other(format!("{}: {why}", attempt.name()));
        let digest = attempt.metadata.annotations.get(LAUNCH);
        let digest = digest.ok_or_else(|| gone("nothing says what it is launched with"))?;
        let bytes = self.store.blob(digest).await?;
        let bytes = bytes.ok_or_else(|| gone("what it is launched with is not kept any more"))?;
        if bailiwick_model::Sha256Hex::of(&bytes).as_str() != digest {
            return Err(gone("what it is launched with is not what was admitted"));
        }
        serde_json::from_slice(&bytes)
            .map_err(|error| gone(&format!("what it is launched with cannot be read: {error}")))
    }

    /// The values that it was admitted with, as they are now.
    async fn environment(
        &self,
        repository: &Object<Repository>,
        prepared: &Prepared,
    ) -> Result<Vec<(String, String)>, PlaneError> {
        let namespace = &repository.metadata.namespace;
        let mut all = Vec::new();
        for value in &prepared.values {
            let found = self.store.secret_value(namespace, &value.secret, &value.key).await?;
            let found = found.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| {
                PlaneError::Other(format!("the secret {}/{} is gone", value.secret, value.key))
            })?;
            all.push((value.name.clone(), found));
        }
        Ok(all)
    }
}

/// The run of the ledger that an attempt is: its own, or that of the conversation it goes on with.
pub(super) fn agent_of(attempt: &Object<AgentDispatchAttempt>) -> String {
    let known = attempt.status.agent_mux_run_id.clone();
    known.unwrap_or_else(|| attempt.name().to_owned())
}
