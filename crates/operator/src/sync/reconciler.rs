//! Brings one object into step: plans from both sides, and does what the plan says.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bailiwick_kubernetes::review::{Account, Review, report};
use bailiwick_kubernetes::sync::{
    AddedCondition, ClusterObject, Direction, History, Owner, Refusal, Step, SyncReason,
    Transition, direction, owner, plan_declared, plan_recorded, refused,
};
use bailiwick_resources::{AgentRoleBinding, AgentServiceAccount, AnyObject, Kind, Moment, Object};
use k8s_openapi::jiff::Timestamp;

use super::access_reports::{AccessReports, REVIEW_INTERVAL};
use super::cache::{Cache, Key};
use super::cluster::{Cluster, ClusterError};
use super::control_plane::{ControlPlane, WriteError};
use super::election::Leadership;
use super::reviews::Reviews;

/// How long an object waits for the one that owns it.
const OWNER_DELAY: Duration = Duration::from_millis(500);
/// How often what was refused is tried again.
const REFUSED_DELAY: Duration = Duration::from_secs(60);

/// What became of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Both sides are in step.
    InStep,
    /// Something was written; what follows from it is planned at once.
    Progress,
    /// It has to be looked at again after this delay.
    Later(Duration),
    /// It was changed by somebody else since it was read. If that goes on, it waits longer each time.
    Conflict,
    /// Something was unavailable.
    Failed,
    /// Another operator leads.
    Deposed,
    /// The server does not accept the token.
    TokenRefused,
}

/// Both sides, and the right to write to them.
pub struct Reconciler {
    pub(super) cache: Cache,
    pub(super) cluster: Cluster,
    pub(super) control_plane: ControlPlane,
    leadership: Arc<Leadership>,
    history: History,
    reviews: Reviews,
    reports: AccessReports,
}

impl Reconciler {
    pub fn new(
        cluster: Cluster,
        control_plane: ControlPlane,
        leadership: Arc<Leadership>,
        history: Duration,
    ) -> Self {
        let history = History { millis: u64::try_from(history.as_millis()).unwrap_or(u64::MAX) };
        Self {
            cache: Cache::new(history),
            cluster,
            control_plane,
            leadership,
            history,
            reviews: Reviews::default(),
            reports: AccessReports::default(),
        }
    }

    /// Stores an object of the cluster, as a watch would.
    pub fn observe_object(&self, kind: Kind, object: ClusterObject) {
        self.cache.set_object(kind, object);
    }

    /// Stores an object of the control plane, as its stream would.
    pub fn observe_record(&self, record: AnyObject) {
        self.cache.set_record(record, now());
    }

    /// Forgets what neither side shows any more.
    pub(super) fn forget_old(&self) {
        self.cache.forget_old(now());
    }

    /// Looks at one object. The API server is asked about a binding again and again.
    pub async fn reconcile(&self, key: &Key) -> Outcome {
        let is_reviewed = key.0 == Kind::AgentRoleBinding && self.cache.record(key).is_some();
        let outcome = self.bring_into_step(key).await;
        match is_reviewed && outcome == Outcome::InStep {
            true => Outcome::Later(REVIEW_INTERVAL),
            false => outcome,
        }
    }

    async fn bring_into_step(&self, key: &Key) -> Outcome {
        let object = self.cache.object(key);
        let more = match self.review(key).await {
            Ok(more) => more,
            Err(outcome) => return outcome,
        };
        let steps = self.plan(key, object.as_deref(), &more);
        let mut outcome = Outcome::InStep;
        for step in steps {
            if !self.leadership.is_held() {
                return Outcome::Deposed;
            }
            let is_object = matches!(step, Step::ApplyObject(_));
            outcome = self.execute(key, object.as_deref(), step).await;
            // An object that was changed is planned again. One that stays as it is goes on: an API server with an older
            // definition of the kind drops fields that it does not know, and its status is shown all the same.
            let goes_on = if is_object { Outcome::InStep } else { Outcome::Progress };
            if outcome != goes_on {
                return outcome;
            }
        }
        outcome
    }

    /// What the API server says of a binding. The control plane is told, too.
    async fn review(&self, key: &Key) -> Result<Vec<AddedCondition>, Outcome> {
        let record = self.cache.record(key).filter(|record| record.kind == Kind::AgentRoleBinding);
        let binding = record.and_then(|record| record.typed::<AgentRoleBinding>().ok());
        let Some(binding) = binding else { return Ok(Vec::new()) };
        let identity =
            binding.spec.identity().map(|name| (Kind::AgentServiceAccount, name.to_owned()));
        let identity = identity.and_then(|key| self.cache.record(&key));
        let identity = identity.and_then(|record| record.typed::<AgentServiceAccount>().ok());
        let identity = identity.map(|identity| identity.spec);
        let account = identity.as_ref().map(|one| Account::of(one, self.cluster.namespace()));
        let review = self.reviews.of(&self.cluster, &binding, account).await;
        self.report(&binding, identity.as_ref(), &review).await?;
        Ok(vec![review.condition(&key.1)])
    }

    /// Tells the control plane what the API server says of a binding.
    async fn report(
        &self,
        binding: &Object<AgentRoleBinding>,
        identity: Option<&AgentServiceAccount>,
        review: &Review,
    ) -> Result<(), Outcome> {
        let report = report(binding, identity, review, self.cluster.namespace());
        let name = binding.name();
        let recorded = binding.status.access.as_ref().map(|access| &access.report);
        let is_recorded = recorded == Some(&report) && !self.reports.is_due(name, &report);
        if is_recorded || !binding.spec.is_about_platform() {
            return Ok(());
        }
        if !self.leadership.is_held() {
            return Err(Outcome::Deposed);
        }
        match self.control_plane.record_access(name, report.clone()).await {
            Ok(recorded) => {
                self.cache.set_record(recorded, now());
                self.reports.sent(name, report);
            }
            Err(WriteError::FenceLost) => return Err(Outcome::Deposed),
            Err(WriteError::TokenRefused(error)) => {
                tracing::error!(%error, "the server refuses the token");
                return Err(Outcome::TokenRefused);
            }
            // The change that caused it arrives, and the report is tried again.
            Err(WriteError::Conflict) => {}
            // Without an answer, the control plane starts nothing that relies on the binding.
            Err(
                error @ (WriteError::Exists(_)
                | WriteError::Changed(_)
                | WriteError::Refused(_)
                | WriteError::Unavailable(_)),
            ) => {
                tracing::warn!(binding = name, %error, "cannot report what the API server allows");
            }
        }
        Ok(())
    }

    fn plan(
        &self,
        key: &Key,
        object: Option<&ClusterObject>,
        more: &[AddedCondition],
    ) -> Vec<Step> {
        let record = self.cache.record(key);
        match direction(key.0) {
            None => Vec::new(),
            Some(Direction::Declared) => {
                let namespace = self.control_plane.namespace();
                plan_declared(key.0, object, record.as_deref(), namespace, more, now())
            }
            Some(Direction::Recorded) => {
                let run = record.as_deref().and_then(owner);
                let run = run.map(|name| (Kind::AgentDispatchRun, name.to_owned()));
                let run = run.map(|key| (self.cache.record(&key), self.cache.object(&key)));
                let owner = match &run {
                    None => Owner::None,
                    Some((record, object)) => {
                        Owner::Run { record: record.as_deref(), object: object.as_deref() }
                    }
                };
                plan_recorded(key.0, object, record.as_deref(), owner, self.history, now())
            }
        }
    }

    async fn execute(&self, key: &Key, object: Option<&ClusterObject>, step: Step) -> Outcome {
        let (kind, name) = (key.0, key.1.as_str());
        let written = match (step, object) {
            (Step::Copy(document), object) => return self.copy(key, object, *document).await,
            (Step::DeleteCopy { version }, object) => {
                return self.delete_copy(key, object, version).await;
            }
            (Step::WaitForOwner, _) => return Outcome::Later(OWNER_DELAY),
            (Step::ApplyObject(body), _) => self.cluster.apply(kind, name, &body).await,
            (Step::ApplyStatus(body), _) => self.cluster.apply_status(kind, name, &body).await,
            (Step::AddFinalizer, Some(object)) => self.cluster.add_finalizer(kind, object).await,
            (Step::RemoveFinalizer, Some(object)) => {
                let removed = self.cluster.remove_finalizer(kind, object).await;
                // The watch says whether the object is gone.
                return self.written(key, removed.map(drop), Outcome::InStep).await;
            }
            (Step::DeleteObject, Some(object)) => {
                let deleted = self.cluster.delete(kind, object).await;
                return self.written(key, deleted, Outcome::InStep).await;
            }
            (Step::Record(change), Some(object)) => {
                let recorded = self.record(key, object, &change).await;
                return self.written(key, recorded, Outcome::Progress).await;
            }
            (
                Step::AddFinalizer | Step::RemoveFinalizer | Step::DeleteObject | Step::Record(_),
                None,
            ) => return Outcome::InStep,
        };
        match written {
            Ok(now) => {
                // The API server may have its own notation of what it was given: that is no difference to write again.
                let is_same = object
                    .is_some_and(|before| before.resource_version() == now.resource_version());
                self.cache.set_object(kind, now);
                if is_same { Outcome::InStep } else { Outcome::Progress }
            }
            Err(error) => self.failed(key, &error).await,
        }
    }

    async fn written(
        &self,
        key: &Key,
        written: Result<(), ClusterError>,
        outcome: Outcome,
    ) -> Outcome {
        match written {
            Ok(()) => outcome,
            Err(error) => self.failed(key, &error).await,
        }
    }

    async fn failed(&self, key: &Key, error: &ClusterError) -> Outcome {
        match error {
            ClusterError::Conflict => {
                // The watch may be late.
                match self.cluster.get(key.0, &key.1).await {
                    Ok(Some(there)) => drop(self.cache.set_object(key.0, there)),
                    Ok(None) => self.cache.remove_object(key),
                    Err(error) => {
                        tracing::warn!(kind = %key.0, name = key.1, %error, "cannot read an object");
                    }
                }
                return Outcome::Conflict;
            }
            // The watch has more to say.
            ClusterError::NotFound => return Outcome::InStep,
            ClusterError::Rejected(_)
            | ClusterError::FinalizerKept
            | ClusterError::Unavailable(_) => {}
        }
        tracing::warn!(kind = %key.0, name = key.1, %error, "cannot write to the cluster");
        match error {
            ClusterError::Rejected(_) => Outcome::Later(REFUSED_DELAY),
            ClusterError::Conflict
            | ClusterError::NotFound
            | ClusterError::FinalizerKept
            | ClusterError::Unavailable(_) => Outcome::Failed,
        }
    }

    /// Records an Event. One that the API server refuses is only logged: the status says the same.
    async fn record(
        &self,
        key: &Key,
        object: &ClusterObject,
        change: &Transition,
    ) -> Result<(), ClusterError> {
        match self.cluster.record(key.0, object, change, timestamp()).await {
            Err(error) if error.is_refusal() => {
                tracing::warn!(kind = %key.0, name = key.1, %error, "cannot record an Event");
                Ok(())
            }
            recorded => recorded,
        }
    }

    async fn copy(
        &self,
        key: &Key,
        object: Option<&ClusterObject>,
        document: AnyObject,
    ) -> Outcome {
        match self.control_plane.apply(document).await {
            Ok(written) => {
                self.cache.set_record(written, now());
                Outcome::Progress
            }
            Err(error) => self.write_failed(key, object, error, None).await,
        }
    }

    async fn delete_copy(
        &self,
        key: &Key,
        object: Option<&ClusterObject>,
        version: u64,
    ) -> Outcome {
        match self.control_plane.delete(key.0, &key.1, version).await {
            Ok(()) => {
                self.cache.remove_record(key.0, &key.1, version);
                Outcome::Progress
            }
            Err(error) => {
                let reason = Some(SyncReason::DeletionRefused);
                self.write_failed(key, object, error, reason).await
            }
        }
    }

    async fn write_failed(
        &self,
        key: &Key,
        object: Option<&ClusterObject>,
        error: WriteError,
        reason: Option<SyncReason>,
    ) -> Outcome {
        let refusal = match error {
            WriteError::Conflict => return Outcome::Conflict,
            WriteError::Changed(there) => {
                self.cache.set_record(*there, now());
                return Outcome::Conflict;
            }
            WriteError::FenceLost => return Outcome::Deposed,
            WriteError::TokenRefused(error) => {
                tracing::error!(%error, "the server refuses the token");
                return Outcome::TokenRefused;
            }
            WriteError::Exists(there) => {
                // Its stream is late; the plan says what it means.
                self.cache.set_record(*there, now());
                return Outcome::Progress;
            }
            WriteError::Unavailable(error) => {
                tracing::warn!(kind = %key.0, name = key.1, %error, "cannot write to the control plane");
                return Outcome::Failed;
            }
            WriteError::Refused(refusal) => {
                Refusal { reason: reason.unwrap_or(refusal.reason), message: refusal.message }
            }
        };
        let Some(object) = object else { return Outcome::Later(REFUSED_DELAY) };
        let record = self.cache.record(key);
        for step in refused(key.0, object, record.as_deref(), &refusal, now()) {
            let done = match step {
                Step::ApplyStatus(body) => {
                    let written = self.cluster.apply_status(key.0, &key.1, &body).await;
                    written.map(|object| drop(self.cache.set_object(key.0, object)))
                }
                Step::Record(change) => self.record(key, object, &change).await,
                Step::AddFinalizer
                | Step::RemoveFinalizer
                | Step::Copy(_)
                | Step::DeleteCopy { .. }
                | Step::ApplyObject(_)
                | Step::DeleteObject
                | Step::WaitForOwner => Ok(()),
            };
            if let Err(error) = done {
                return self.failed(key, &error).await;
            }
        }
        Outcome::Later(REFUSED_DELAY)
    }
}

pub(super) fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn timestamp() -> Timestamp {
    Timestamp::now()
}
