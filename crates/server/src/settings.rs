//! How the server is set up: where it listens and how much it bears.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::pulse::Pulse;

/// Who can reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Programs of this machine; any other address is refused.
    Loopback,
    /// Whoever reaches the address: somebody has said that this is meant.
    Network,
}

/// Where it listens and how much it bears.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it listens.
    pub address: SocketAddr,
    /// Who can reach it.
    pub reach: Reach,
    /// Names under which it is asked for, beside `localhost` and its own address. On a loopback address
    /// any other `Host` is refused, so that no web page can be made to ask on somebody's behalf.
    pub hosts: Vec<String>,
    /// Who says that turns are taken; nothing where nobody takes any.
    pub pulse: Option<Pulse>,
    /// How much it bears.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7840),
            reach: Reach::Loopback,
            hosts: Vec::new(),
            pulse: None,
            limits: Limits::default(),
        }
    }
}

/// So many a second, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// How many come back each second.
    pub per_second: f64,
    /// How many there are at most.
    pub burst: f64,
}

/// How much the server bears.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Requests of one address.
    pub per_address: Rate,
    /// Requests of one token.
    pub per_token: Rate,
    /// What a wrong token or signature costs of the address's requests.
    pub cost_of_a_wrong_token: f64,
    /// Lines of the audit log for webhooks that were not believed, for each repository.
    pub unbelieved_audit: Rate,
    /// The body of a request.
    pub body: usize,
    /// The body of a webhook.
    pub webhook_body: usize,
    /// All bodies at once of senders who have not shown who they are.
    pub unknown_bodies: usize,
    /// The head of a request.
    pub head: usize,
    /// Connections at once; more wait to be accepted.
    pub connections: usize,
    /// Streams at once; more are refused.
    pub watchers: usize,
    /// Changes that a stream may be behind before it is ended.
    pub behind: usize,
    /// How long a client may take for the head of its next request.
    pub head_time: Duration,
    /// How long a client may take for the body.
    pub body_time: Duration,
    /// How long a body of a sender whom nobody knows waits for room.
    pub room_time: Duration,
    /// How long a client may take to read what is sent to it.
    pub stall_time: Duration,
    /// How long an answer may take.
    pub answer_time: Duration,
    /// How long no turn may have ended before the server calls itself not ready.
    pub turn_time: Duration,
    /// How often a stream says that it is there.
    pub heartbeat: Duration,
    /// How long requests in flight may go on when the server stops.
    pub grace: Duration,
}

const MIB: usize = 1024 * 1024;

impl Default for Limits {
    fn default() -> Self {
        Self {
            per_address: Rate { per_second: 500.0, burst: 2_000.0 },
            per_token: Rate { per_second: 200.0, burst: 1_000.0 },
            cost_of_a_wrong_token: 50.0,
            unbelieved_audit: Rate { per_second: 0.2, burst: 10.0 },
            body: 4 * MIB,
            webhook_body: 25 * MIB,
            unknown_bodies: 256 * MIB,
            head: 32 * 1024,
            connections: 2_048,
            watchers: 1_024,
            behind: 1_024,
            head_time: Duration::from_secs(15),
            body_time: Duration::from_secs(60),
            room_time: Duration::from_secs(5),
            stall_time: Duration::from_secs(30),
            answer_time: Duration::from_secs(60),
            turn_time: Duration::from_secs(60 * 60),
            heartbeat: Duration::from_secs(15),
            grace: Duration::from_secs(20),
        }
    }
}
