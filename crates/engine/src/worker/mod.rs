//! A worker: it dials a server, claims attempts of its pool, and runs them as `serve` runs those of its own machine.
//!
//! ```text
//!  identity     its name and credential, in its own directory
//!  probing      what its machine offers
//!  attempts     an attempt, from its claim to its end:
//!   beginning     fetch and launch
//!   pod_values    values that a cluster mounts for it
//!   following     report what happens
//!   ending        send the work, and report the end
//!  checks       a command or tests of a check
//!  requests     requests that are repeated while the server is away
//!  preparation  whether this machine can begin anything
//!  repository   the commits that it has, and the work that it sends
//!  tidying      keeps repositories small
//! ```
//!
//! The database of its own directory has the events of its agents. They stay there until the server has stored them, so
//! that an agent works on while the server is away.

mod attempts;
mod beginning;
mod checks;
mod ending;
mod following;
mod identity;
mod once;
mod pod_values;
mod preparation;
mod probing;
mod repository;
mod requests;
#[cfg(test)]
mod tests;
mod tidying;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bailiwick_fleet::workers::{
    JoinAnswer, JoinRequest, PollAnswer, PollRequest, WorkerApi, WorkerError,
};
use bailiwick_model::backoff::Backoff;
use bailiwick_store::{Location, Store};
use tokio::task::JoinSet;

use attempts::Attempts;
use following::FollowLimits;
use identity::{Credentials, Identity};
use preparation::Preparation;

pub use once::OnceOutcome;

use crate::context::Context;
use crate::database::Database;
use crate::failure::Failure;
use crate::fleet::engine::{LocalEngine, Verification};
use crate::notices::Notices;

/// How long the server may wait for an attempt.
const POLL_WAIT: Duration = Duration::from_secs(15);
/// How soon a worker without room asks again whether it is to end.
const BUSY_INTERVAL: Duration = Duration::from_secs(1);
/// How long a worker waits when the server is away.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(10));
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where a worker is and what it offers.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// The directory for everything that it stores.
    pub directory: PathBuf,
    /// The server, as a person wrote it: a directory belongs to one server.
    pub server: String,
    pub pool: String,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// How many attempts it runs at the same time.
    pub slots: usize,
    /// How long it tries to join while the server is away.
    pub join_wait: Duration,
    /// The directory with the values of its pod.
    pub values: Option<PathBuf>,
    pub notices: Notices,
}

/// A worker that has joined.
pub struct Worker {
    api: Arc<dyn WorkerApi>,
    credentials: Arc<Credentials>,
    attempts: Arc<Attempts>,
    store: Arc<Store>,
    slots: usize,
    notices: Notices,
    /// Why it can run nothing here, if it cannot.
    lacks: Option<String>,
    /// Locked as long as it runs.
    _lock: File,
}

fn refused(error: WorkerError) -> Failure {
    match error {
        WorkerError::Unavailable(_) | WorkerError::NotReady(_) => {
            Failure::general(error.to_string())
        }
        WorkerError::JoinRefused
        | WorkerError::Unauthorized
        | WorkerError::VersionSkew(_)
        | WorkerError::LeaseLost(_)
        | WorkerError::Refused(_) => Failure::refused(error.to_string()),
    }
}

impl Worker {
    /// Joins the pool, with a token; without one, as the worker that its directory knows.
    pub async fn start(
        api: Arc<dyn WorkerApi>,
        options: WorkerOptions,
        token: Option<String>,
    ) -> Result<Self, Failure> {
        let WorkerOptions {
            directory,
            server,
            pool,
            name,
            labels,
            slots,
            join_wait,
            values,
            notices,
        } = options;
        let unusable = |error: std::io::Error| {
            Failure::general(format!("{} cannot be used: {error}", directory.display()))
        };
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(directory.join("state")).map_err(unusable)?;
        builder.create(directory.join("config/bailiwick")).map_err(unusable)?;
        let lock = File::create(directory.join("lock")).map_err(unusable)?;
        lock.try_lock().map_err(|_| {
            Failure::refused(format!("another worker uses {}", directory.display()))
                .help("give each worker a directory of its own: --directory DIR")
        })?;
        let context = own_context(&directory, notices.clone());
        let database = context.database.location().clone();
        let store = Arc::new(Store::open(database).await?);
        let capabilities = probing::capabilities(&context, &store, slots).await;
        let lacks = once::lacks(&capabilities);
        let version = VERSION.to_owned();
        let request = JoinRequest { version, pool: pool.clone(), name, labels, capabilities };
        let known = Identity::read(&directory)?;
        let joining = Joining { api: api.as_ref(), wait: join_wait, notices: &notices };
        let identity = joining.identify(&server, known, token, request).await?;
        identity.write(&directory)?;
        notices.note(format_args!("worker {} of the pool {pool}", identity.worker));
        let credentials = Arc::new(Credentials::new(directory.clone(), identity));
        // Its repositories have no files checked out, which is no news.
        let quiet = Context { notices: Notices::default(), ..context.clone() };
        let engine = LocalEngine::new(quiet, Arc::clone(&store), Verification::ByServer);
        bailiwick_runner::checks::sweep(&context.state).map_err(|error| {
            Failure::general(format!("what a killed check left cannot be removed: {error}"))
        })?;
        let attempts = Attempts {
            api: Arc::clone(&api),
            credentials: Arc::clone(&credentials),
            context,
            engine,
            directory,
            values,
            adding: tokio::sync::Mutex::default(),
            unreferenced: tokio::sync::RwLock::default(),
            preparation: Preparation::default(),
            follow_limits: FollowLimits::default(),
        };
        let attempts = Arc::new(attempts);
        Ok(Self { api, credentials, attempts, store, slots, notices, lacks, _lock: lock })
    }

    /// Its name on the server.
    pub fn name(&self) -> String {
        self.credentials.worker()
    }

    /// Runs attempts until it is drained or shut down. Agents work on after a shutdown, and the next start follows them.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), Failure> {
        tokio::pin!(shutdown);
        let mut running = JoinSet::new();
        for kept in self.attempts.kept()? {
            running.spawn(Arc::clone(&self.attempts).go_on(kept));
        }
        let mut failures = 0_u32;
        loop {
            while running.try_join_next().is_some() {}
            let has_room = running.len() < self.slots && self.attempts.can_prepare().await;
            let next = self.next(has_room);
            let answer = tokio::select! {
                () = &mut shutdown => return Ok(()),
                answer = next => answer,
            };
            let pause = match answer {
                Ok(PollAnswer { assignment: Some(assignment), .. }) => {
                    running.spawn(Arc::clone(&self.attempts).begin(assignment));
                    Duration::ZERO
                }
                Ok(PollAnswer { drain: true, .. }) if running.is_empty() => {
                    self.notices.note("drained");
                    return Ok(());
                }
                Ok(PollAnswer { drain, .. }) if drain || !has_room => BUSY_INTERVAL,
                Ok(_) => {
                    failures = 0;
                    Duration::ZERO
                }
                Err(WorkerError::Unavailable(why)) => {
                    self.notices.note(format_args!("{why}; trying again"));
                    failures = failures.saturating_add(1);
                    BACKOFF.delay(failures)
                }
                // What runs is followed to its end first.
                Err(_) if !running.is_empty() => BUSY_INTERVAL,
                Err(error) => return Err(refused(error)),
            };
            tokio::select! {
                () = &mut shutdown => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Renews the credential if it is time, and asks for an attempt.
    async fn next(&self, has_room: bool) -> Result<PollAnswer, WorkerError> {
        let offered = probing::capabilities(&self.attempts.context, &self.store, self.slots);
        self.credentials.renew(self.api.as_ref(), offered).await?;
        let follows = self.attempts.followed();
        let follows = follows.map_err(|failure| WorkerError::Unavailable(failure.in_one_line()))?;
        let wait = if has_room { POLL_WAIT } else { Duration::ZERO };
        let request = PollRequest {
            version: VERSION.to_owned(),
            has_room,
            wait_millis: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            follows: Some(follows),
        };
        self.api.poll(&self.credentials.secret(), request).await
    }
}

/// How a worker gets its identity.
struct Joining<'a> {
    api: &'a dyn WorkerApi,
    /// How long it tries while the server is away.
    wait: Duration,
    notices: &'a Notices,
}

impl Joining<'_> {
    /// The identity that the directory has, as long as the server accepts it; else a new one, for the token.
    async fn identify(
        &self,
        server: &str,
        known: Option<Identity>,
        token: Option<String>,
        request: JoinRequest,
    ) -> Result<Identity, Failure> {
        let pool = request.pool.clone();
        if let Some(known) = known {
            known.require(server, &pool)?;
            let renewal = identity::renewal(request.capabilities.clone());
            match self.api.renew(known.secret(), renewal).await {
                Ok(renewed) => return Ok(Identity::new(server, &pool, renewed)),
                // It keeps using what it has, and renews it later.
                Err(WorkerError::Unavailable(_)) => return Ok(known),
                Err(WorkerError::Unauthorized) if token.is_some() => {}
                Err(error) => return Err(refused(error)),
            }
        }
        let Some(token) = token else {
            return Err(Failure::refused("this worker has not joined yet").help(format!(
                "on the server: bailiwick workers token --pool {pool} > token; here: --join-token-file token"
            )));
        };
        let joined = self.join(&token, &request).await.map_err(refused)?;
        Ok(Identity::new(server, &pool, joined))
    }

    async fn join(&self, token: &str, request: &JoinRequest) -> Result<JoinAnswer, WorkerError> {
        let deadline = Instant::now() + self.wait;
        let mut failures = 0_u32;
        loop {
            match self.api.join(token, request.clone()).await {
                Err(WorkerError::Unavailable(why)) if Instant::now() < deadline => {
                    self.notices.note(format_args!("{why}; trying again"));
                }
                joined => return joined,
            }
            tokio::time::sleep(BACKOFF.delay(failures)).await;
            failures = failures.saturating_add(1);
        }
    }
}

/// The surroundings of a worker: nothing but its own directory. A kit of its user binds no agent.
fn own_context(directory: &std::path::Path, notices: Notices) -> Context {
    let state = directory.join("state");
    let database = Database::at(Location::file(state.join("bailiwick.db")));
    Context {
        directory: directory.to_owned(),
        user_kit: directory.join("config/bailiwick"),
        kit_root: None,
        database,
        global_options: String::new(),
        notices,
        state,
    }
}
