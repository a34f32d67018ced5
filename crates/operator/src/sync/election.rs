//! Leads as long as this operator has the Lease.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use bailiwick_kubernetes::election::{RENEWAL_DEADLINE, RETRY_PERIOD, Turn, released, turn};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};

use super::LEASE_NAME;
use super::cluster::{Cluster, ClusterError};

/// The right to write. It ends by itself when it is not renewed.
#[derive(Debug)]
pub struct Leadership {
    /// When the last renewal that succeeded began.
    renewed: Mutex<Option<Instant>>,
}

impl Leadership {
    /// From a moment at which the Lease was written.
    pub fn since(renewed: Instant) -> Self {
        Self { renewed: Mutex::new(Some(renewed)) }
    }

    /// Whether no other operator can have taken over yet.
    pub fn is_held(&self) -> bool {
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        renewed.is_some_and(|renewed| renewed.elapsed() < RENEWAL_DEADLINE)
    }

    fn set(&self, renewed: Option<Instant>) {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = renewed;
    }
}

/// A candidate for the Lease of a namespace.
pub(super) struct Candidate {
    leases: Api<Lease>,
    namespace: String,
    identity: String,
    /// The version that was seen, and since when it is the same.
    seen: Option<(String, Instant)>,
}

impl Candidate {
    pub(super) fn new(cluster: &Cluster, identity: &str) -> Self {
        Self {
            leases: Api::namespaced(cluster.client().clone(), cluster.namespace()),
            namespace: cluster.namespace().to_owned(),
            identity: identity.to_owned(),
            seen: None,
        }
    }

    /// Takes or renews the Lease if it may. Returns whether this operator has it.
    pub(super) async fn attempt(&mut self) -> Result<bool, ClusterError> {
        let lease = self.leases.get_opt(LEASE_NAME).await?;
        let unchanged = self.unchanged(lease.as_ref());
        let place = (self.namespace.as_str(), LEASE_NAME);
        let parameters = PostParams::default();
        let written = match turn(place, lease.as_ref(), &self.identity, unchanged, Timestamp::now())
        {
            Turn::Wait => return Ok(false),
            Turn::Create(lease) => self.leases.create(&parameters, &lease).await,
            Turn::Replace(lease) => self.leases.replace(LEASE_NAME, &parameters, &lease).await,
        };
        match written.map_err(ClusterError::from) {
            Ok(_) => Ok(true),
            // Another candidate was faster.
            Err(ClusterError::Conflict | ClusterError::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// How long the Lease has not changed, on this clock.
    fn unchanged(&mut self, lease: Option<&Lease>) -> Duration {
        let version = lease.and_then(|lease| lease.metadata.resource_version.clone());
        let version = version.unwrap_or_default();
        match &self.seen {
            Some((seen, since)) if *seen == version => since.elapsed(),
            Some(_) | None => {
                self.seen = Some((version, Instant::now()));
                Duration::ZERO
            }
        }
    }

    /// Waits until this operator leads.
    pub(super) async fn lead(&mut self) -> Leadership {
        loop {
            let begun = Instant::now();
            match self.attempt().await {
                Ok(true) => return Leadership::since(begun),
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "cannot read or write the Lease"),
            }
            tokio::time::sleep(RETRY_PERIOD).await;
        }
    }

    /// Renews the Lease until it is lost.
    pub(super) async fn renew_until_lost(&mut self, leadership: &Leadership) {
        while leadership.is_held() {
            tokio::time::sleep(RETRY_PERIOD).await;
            let begun = Instant::now();
            match tokio::time::timeout(RENEWAL_DEADLINE, self.attempt()).await {
                Ok(Ok(true)) => leadership.set(Some(begun)),
                Ok(Ok(false)) => {
                    // A conflict with another program may pass; another holder does not.
                    tracing::warn!("the Lease was not renewed");
                }
                Ok(Err(error)) => tracing::warn!(%error, "cannot renew the Lease"),
                Err(_) => tracing::warn!("the API server did not answer in time"),
            }
        }
        leadership.set(None);
    }

    /// Lets another operator lead at once. If this fails, the Lease expires.
    pub(super) async fn release(&self, leadership: &Leadership) {
        leadership.set(None);
        let Ok(Some(lease)) = self.leases.get_opt(LEASE_NAME).await else { return };
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
        if holder == Some(self.identity.as_str()) {
            let _ =
                self.leases.replace(LEASE_NAME, &PostParams::default(), &released(&lease)).await;
        }
    }
}
