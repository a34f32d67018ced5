//! The state that handlers share.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use bailiwick_fleet::ports::LocalRuns;
use bailiwick_fleet::workers::{WorkerRegistry, WorkerServer};
use hyper::header::HeaderValue;
use tokio::sync::RwLock;

use crate::access::{Buckets, Hosts, OpenTokens, TrustedProxies};
use crate::bodies::BodyBudget;
use crate::connections::{ConnectionAddresses, ConnectionSlot};
use crate::control_loop::ControlLoopMonitor;
use crate::hub::Hub;
use crate::job_list::JobList;
use crate::openid::SignIn;
use crate::settings::Limits;
use crate::shutdown::Shutdown;
use crate::stream_slots::StreamSlots;
use crate::telemetry::{Metrics, RunCounts, TimedStore};
use crate::webhook_targets::WebhookTargets;
use crate::write_check::WriteCheck;

/// The state that handlers share.
pub(crate) struct App<S, F> {
    pub(crate) store: Arc<TimedStore<S>>,
    pub(crate) fleet: Arc<F>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) run_counts: Arc<RunCounts>,
    pub(crate) hosts: Hosts,
    pub(crate) proxies: TrustedProxies,
    pub(crate) limits: Limits,
    pub(crate) addresses: Buckets<IpAddr>,
    pub(crate) tokens: Buckets<String>,
    pub(crate) failed_signatures: Buckets<(IpAddr, String)>,
    pub(crate) rejected_webhooks: Buckets<String>,
    pub(crate) webhook_targets: WebhookTargets,
    pub(crate) sign_in: Option<SignIn>,
    pub(crate) local_runs: Option<Arc<dyn LocalRuns>>,
    pub(crate) workers: Option<Arc<dyn WorkerServer>>,
    pub(crate) worker_registry: Option<Arc<dyn WorkerRegistry>>,
    pub(crate) jobs: Arc<JobList>,
    /// Where browsers find the pages.
    pub(crate) pages_at: OnceLock<HeaderValue>,
    pub(crate) streams: Arc<StreamSlots>,
    pub(crate) open_tokens: Arc<OpenTokens>,
    pub(crate) body_budget: BodyBudget,
    pub(crate) control_loop: Option<ControlLoopMonitor>,
    pub(crate) write_check: Arc<WriteCheck>,
    pub(crate) shutdown: Shutdown,
    /// Locked for reading by every request that writes; the shutdown waits for them.
    pub(crate) active_writes: Arc<RwLock<()>>,
}

/// The connection of a client.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// None if the kernel does not tell its own end.
    pub(crate) addresses: Option<ConnectionAddresses>,
    pub(crate) slot: Arc<ConnectionSlot>,
}
