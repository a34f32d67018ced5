//! The settings and limits of the server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bailiwick_fleet::ports::LocalRuns;
use bailiwick_fleet::workers::{WorkerRegistry, WorkerServer};

use crate::control_loop::ControlLoopMonitor;
use crate::network::Network;
use crate::sign_in_settings::SignInSettings;

/// Which clients can reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// Only this machine: other addresses are refused.
    Loopback,
    /// The network; must be chosen explicitly.
    Network,
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub address: SocketAddr,
    pub exposure: Exposure,
    /// Accepted host names, in addition to `localhost` and its own address. On a loopback address any other
    /// `Host` is refused, as a protection against DNS rebinding.
    pub hosts: Vec<String>,
    /// Proxies whose `Forwarded` and `X-Forwarded-For` are believed. Without any, the address of a client is the
    /// one that it connects from.
    pub trusted_proxies: Vec<Network>,
    /// Sign-in by OpenID Connect; none if people use tokens only.
    pub sign_in: Option<SignInSettings>,
    /// The monitor of the control loop; none if there is no loop.
    pub control_loop: Option<ControlLoopMonitor>,
    /// The agents of this machine; none if the API does not show them.
    pub local_runs: Option<Arc<dyn LocalRuns>>,
    /// The workers of pools; none if the server has no workers.
    pub workers: Option<Arc<dyn WorkerServer>>,
    /// The workers of which `/metrics` tells.
    pub worker_registry: Option<Arc<dyn WorkerRegistry>>,
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7840),
            exposure: Exposure::Loopback,
            hosts: Vec::new(),
            trusted_proxies: Vec::new(),
            sign_in: None,
            control_loop: None,
            local_runs: None,
            workers: None,
            worker_registry: None,
            limits: Limits::default(),
        }
    }
}

/// A token bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    pub per_second: f64,
    pub burst: f64,
}

#[derive(Debug, Clone)]
pub struct Limits {
    pub per_address: Rate,
    pub per_token: Rate,
    /// How many requests of the address a wrong token costs.
    pub failed_auth_cost: f64,
    /// How many requests of its token a sign-in costs: each session is stored for hours.
    pub sign_in_cost: f64,
    /// Webhooks with a wrong signature, for each address and repository.
    pub failed_signatures: Rate,
    /// Audit entries for webhooks with a wrong signature, for each repository.
    pub rejected_webhook_audit: Rate,
    pub body_bytes: usize,
    pub webhook_body_bytes: usize,
    /// All concurrent bodies of unauthenticated clients.
    pub anonymous_body_bytes: usize,
    pub header_bytes: usize,
    /// A further connection replaces one that waits for a request; if none does, it waits to be accepted.
    pub max_connections: usize,
    /// The same for the connections of one address, which are refused if none of them waits.
    pub max_connections_per_address: usize,
    /// Further streams are refused.
    pub max_streams: usize,
    /// The same for one person, by all tokens and sessions.
    pub max_streams_per_person: usize,
    /// How many changes a stream can lag behind before it is closed.
    pub max_stream_lag: usize,
    /// For the header of the next request.
    pub header_timeout: Duration,
    /// For the body of a request.
    pub body_timeout: Duration,
    /// How long the body of an unauthenticated client waits for memory.
    pub body_budget_timeout: Duration,
    /// How much is read and discarded after a request was refused early, so that the client reads the response.
    pub discarded_bytes: usize,
    /// How long that takes at most.
    pub discard_timeout: Duration,
    /// How long a client may block a write.
    pub write_timeout: Duration,
    pub handler_timeout: Duration,
    /// How long one step of the control loop may take before the server is not ready.
    pub control_loop_timeout: Duration,
    /// How often the tokens of open streams are checked for changes by other processes.
    pub token_check: Duration,
    /// The interval of the heartbeats of a stream.
    pub heartbeat: Duration,
    /// How long requests in flight may run during shutdown.
    pub shutdown_grace: Duration,
}

const MIB: usize = 1024 * 1024;

impl Default for Limits {
    fn default() -> Self {
        Self {
            per_address: Rate { per_second: 500.0, burst: 2_000.0 },
            per_token: Rate { per_second: 200.0, burst: 1_000.0 },
            failed_auth_cost: 50.0,
            sign_in_cost: 50.0,
            failed_signatures: Rate { per_second: 0.2, burst: 20.0 },
            rejected_webhook_audit: Rate { per_second: 0.2, burst: 10.0 },
            body_bytes: 4 * MIB,
            webhook_body_bytes: 25 * MIB,
            anonymous_body_bytes: 256 * MIB,
            header_bytes: 32 * 1024,
            max_connections: 2_048,
            max_connections_per_address: 512,
            max_streams: 1_024,
            max_streams_per_person: 256,
            max_stream_lag: 1_024,
            header_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(60),
            body_budget_timeout: Duration::from_secs(5),
            discarded_bytes: 64 * MIB,
            discard_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            handler_timeout: Duration::from_secs(60),
            control_loop_timeout: Duration::from_secs(60),
            token_check: Duration::from_secs(1),
            heartbeat: Duration::from_secs(15),
            shutdown_grace: Duration::from_secs(20),
        }
    }
}
