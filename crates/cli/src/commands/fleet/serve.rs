//! `bailiwick serve`: the control plane, over HTTP and by turns.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bailiwick_client::{AddressError, CollectorError, PlainHttp, ServerAddress, TraceCollector};
use bailiwick_engine::context::Context;
use bailiwick_engine::fleet::remote::WorkerService;
use bailiwick_engine::fleet::{LocalPlane, plane_with};
use bailiwick_engine::local_runs::LedgerRuns;
use bailiwick_fleet::controllers::{ReconcileSummary, Retention, RetryTable};
use bailiwick_fleet::ports::FleetStore as _;
use bailiwick_resources::Span;
use bailiwick_server::{ControlLoopMonitor, Exposure, Network, Server, Settings};
use bailiwick_store::{Election, RegisteredWorkers, Store};
use bailiwick_web::WebPages;
use clap::Args;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::log_format::LogFormat;
use super::serve_leader::{Candidate, first_election, first_role};
use super::serve_sign_in::SignInOptions;
use crate::failure::Failure;
use crate::output;

/// How long a pass without work waits for a change, in milliseconds.
const MAX_CHANGE_WAIT: u64 = 1_000;
/// The number of changes that are kept for watchers.
const KEPT_CHANGES: u64 = 100_000;
/// How often everything that is declared is reconciled again.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(60);
/// How long events wait for the first status pass.
const FIRST_PASS_TIMEOUT: Duration = Duration::from_secs(5);
/// How soon after a change it is reconciled again.
const CHANGE_DELAY: Duration = Duration::from_secs(2);
/// The maximum pause of the reconcile loop while webhooks arrive.
const MAX_PAUSE: Duration = Duration::from_millis(300);
/// After a pass with so many changes more of them may be waiting: the next one waits no longer than that one took.
const BUSY_PASS: usize = 64;
/// The standard variable for the address of a collector.
const COLLECTOR_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS_VARIABLE: &str = "OTEL_EXPORTER_OTLP_HEADERS";
/// The pause after a pass in which the store did not answer.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(2);

/// Serve the control plane: API, webhooks, runs
///
/// Rules evaluate webhooks, runs start in their pools, and results are written back as policy and
/// approvals allow. The server can be killed and restarted at any time: nothing is lost or done
/// twice, and runs continue meanwhile. With PostgreSQL, several servers on one machine can use a
/// database: one of them runs the controllers, and another one takes over within seconds.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick tokens new $USER --scope admin\n  bailiwick serve\n  bailiwick \
                  serve --listen 127.0.0.1:9000"
)]
pub struct Serve {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7840")]
    listen: SocketAddr,
    /// Accept connections from other machines; there is no TLS, so put a reverse proxy in front
    #[arg(long)]
    network: bool,
    /// Accept requests for this host name
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Trust the client address that a proxy in this network reports, such as 10.0.0.0/8
    #[arg(long = "trusted-proxy", value_name = "CIDR")]
    trusted_proxies: Vec<Network>,
    /// The path of this server behind a reverse proxy, as /agents
    #[arg(long, value_name = "PATH", default_value = "", value_parser = path_prefix)]
    path_prefix: String,
    /// Retention of ended runs and what belongs to them
    #[arg(long, value_name = "TIME", default_value = "90d")]
    keep: Span,
    /// Retention of the audit log
    #[arg(long, value_name = "TIME", default_value = "365d")]
    keep_audit: Span,
    /// How long a worker may be silent before another one can take its attempts
    #[arg(long, value_name = "TIME", default_value = "60s")]
    worker_lease: Span,
    /// Send traces of runs to this OpenTelemetry collector, by OTLP over HTTP [default: the variable
    /// OTEL_EXPORTER_OTLP_ENDPOINT]
    #[arg(long, value_name = "URL", value_parser = collector)]
    otlp: Option<ServerAddress>,
    /// Format of the log
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "json")]
    log_format: LogFormat,
    #[command(flatten)]
    sign_in: SignInOptions,
}

impl Serve {
    /// Runs the command.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            // Completed database calls are polled before new requests: many tasks wait for them.
            .global_queue_interval(1)
            .enable_all()
            .build()
            .map_err(|error| Failure::general(format!("no runtime: {error}")))?;
        runtime.block_on(self.serve(context))
    }

    async fn serve(self, context: &Context) -> Result<(), Failure> {
        self.log_format.start();
        let store = Arc::new(Store::open(context.database.location().clone()).await?);
        store.complete_index().await?;
        let is_file = context.database.location().sqlite_file().is_some();
        let election = first_election(&store, is_file).await?;
        let worker_lease = self.worker_lease.millis();
        if let Election::Elected(_) = &election {
            store.extend_worker_leases(worker_lease).await?;
        }
        let plane = plane_with(context, Arc::clone(&store), worker_lease);
        let monitor = ControlLoopMonitor::default();
        monitor.set_role(first_role(&election));
        let sign_in = self.sign_in.settings(self.listen)?;
        let settings = Settings {
            sign_in,
            address: self.listen,
            exposure: if self.network { Exposure::Network } else { Exposure::Loopback },
            hosts: self.hosts,
            trusted_proxies: self.trusted_proxies,
            control_loop: Some(monitor.clone()),
            local_runs: Some(Arc::new(LedgerRuns::new(context))),
            workers: Some(Arc::new(WorkerService::new(
                Arc::clone(&store),
                worker_lease,
                context.state.clone(),
            ))),
            worker_registry: Some(Arc::new(RegisteredWorkers::new(
                Arc::clone(&store),
                worker_lease,
            ))),
            ..Settings::default()
        };
        let server = Server::bind(settings, Arc::clone(&store), Arc::clone(&plane.api))
            .await
            .map_err(|error| Failure::general(error.to_string()))?
            .with_pages(Arc::new(WebPages::new(&self.path_prefix)), &self.path_prefix);
        let address = server.address();
        // From now on, a program that reads the address can end the server.
        let shutdown = shutdown_signal();
        output::line(format_args!("listening on http://{address}{}", self.path_prefix));
        if store.tokens().await?.is_empty() {
            output::next_step(format_args!(
                "bailiwick tokens new {} --scope admin{}",
                super::actor()?,
                context.global_options
            ));
        }
        // Messages of controllers and started runs go to the log, line by line.
        output::speak_to_the_log();
        let collector = trace_collector(self.otlp)?;
        let candidate = Candidate {
            collector,
            context: context.clone(),
            store,
            monitor,
            keep: self.keep,
            keep_audit: self.keep_audit,
            worker_lease,
        };
        let mut broken = None;
        server.run(async { broken = candidate.run(election, shutdown).await }).await;
        output::note("stopped; live runs continue");
        match broken {
            None => Ok(()),
            Some(why) => Err(Failure::general(why).help("start it again; nothing is lost")),
        }
    }
}

/// A collector gets names and times, and no token of ours: it may be reached without TLS, unless it wants a key.
fn collector(text: &str) -> Result<ServerAddress, AddressError> {
    ServerAddress::parse(text, PlainHttp::Anywhere)
}

/// The collector that the option or the standard variables name.
fn trace_collector(option: Option<ServerAddress>) -> Result<Option<TraceCollector>, Failure> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let address = match (option, variable(COLLECTOR_VARIABLE)) {
        (Some(address), _) => address,
        (None, text) if text.is_empty() => return Ok(None),
        (None, text) => collector(&text)
            .map_err(|error| Failure::usage(format!("{COLLECTOR_VARIABLE}: {error}")))?,
    };
    let found = TraceCollector::new(address, &variable(HEADERS_VARIABLE));
    found.map(Some).map_err(|error| match error {
        CollectorError::Unencrypted { .. } | CollectorError::UnreadableHeader { .. } => {
            Failure::usage(format!("{HEADERS_VARIABLE}: {error}"))
        }
        CollectorError::Client(error) => Failure::general(error.to_string()),
    })
}

/// A path without a slash at its end; empty for the root.
fn path_prefix(text: &str) -> Result<String, String> {
    let path = text.trim_end_matches('/');
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~/".contains(c);
    if path.is_empty() || (path.starts_with('/') && !path.contains("//") && path.chars().all(plain))
    {
        return Ok(path.to_owned());
    }
    Err("write it as /agents, with letters, digits, `-`, `_`, `.` and `~`".to_owned())
}

/// Runs the controllers until the server stops. Declared objects are reconciled in a loop of their own, because that
/// probes programs and fetches from forges, which can take long.
pub(super) async fn control(
    plane: Arc<LocalPlane>,
    retention: Retention,
    monitor: ControlLoopMonitor,
) {
    let statuses_updated = Arc::new(Notify::new());
    let mut loops = JoinSet::new();
    loops.spawn(reconcile_declared(
        Arc::clone(&plane),
        retention,
        monitor.clone(),
        Arc::clone(&statuses_updated),
    ));
    loops.spawn(async move {
        // Rules are evaluated after the first status pass, unless that takes long.
        let _ = tokio::time::timeout(FIRST_PASS_TIMEOUT, statuses_updated.notified()).await;
        run_passes(&plane, &monitor).await;
    });
    // Neither loop ends unless it fails.
    if let Some(Err(error)) = loops.join_next().await
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}

/// Runs the passes of the controllers, one after the other.
async fn run_passes(plane: &LocalPlane, monitor: &ControlLoopMonitor) {
    let begin = |step: &'static str| monitor.begin_step("controllers", step);
    let mut backoff = RetryTable::default();
    let mut longest = MAX_PAUSE;
    // An attempt that ended on a worker changes no resource.
    let mut finished = plane.store.finished_signal();
    loop {
        begin("waiting for events");
        let version = latest(plane).await;
        plane.store.wait_for_quiet_intake(longest).await;
        let begun = Instant::now();
        let pass = plane.advance_by_steps(&mut backoff, &begin).await;
        longest = if pass.done < BUSY_PASS { MAX_PAUSE } else { begun.elapsed().min(MAX_PAUSE) };
        log_errors(&pass);
        begin("waiting for events");
        // Other failures have their own backoff.
        if pass.store_unavailable {
            tokio::time::sleep(STORE_RETRY_DELAY).await;
        }
        if pass.done == 0 {
            tokio::select! {
                () = plane.store.wait_for_change(version, MAX_CHANGE_WAIT) => {}
                () = plane.wait_for_finished() => {}
                () = finished.wait() => {}
            }
        }
    }
}

/// Updates the status of declared objects and deletes expired ones: at an interval, and soon after a change.
async fn reconcile_declared(
    plane: Arc<LocalPlane>,
    mut retention: Retention,
    monitor: ControlLoopMonitor,
    statuses_updated: Arc<Notify>,
) {
    let begin = |step: &'static str| monitor.begin_step("declared", step);
    loop {
        begin("updating statuses");
        log_errors(&plane.reconcile_statuses().await);
        begin("deleting old records");
        log_errors(&plane.prune(&mut retention).await);
        if let Err(error) = plane.store.forget_changes(KEPT_CHANGES).await {
            tracing::warn!(%error, "old changes could not be forgotten");
        }
        statuses_updated.notify_one();
        begin("waiting for changes");
        let (version, done) = (latest(&plane).await, Instant::now());
        tokio::time::sleep(CHANGE_DELAY).await;
        while latest(&plane).await == version && done.elapsed() < RECONCILE_INTERVAL {
            begin("waiting for changes");
            plane.store.wait_for_change(version, MAX_CHANGE_WAIT).await;
        }
    }
}

fn log_errors(pass: &ReconcileSummary) {
    for (about, why) in &pass.errors {
        tracing::warn!(about, why, "reconciling failed; it is retried");
    }
}

/// The version of the store before a pass, so that no change is missed while it waits.
async fn latest(plane: &LocalPlane) -> u64 {
    use bailiwick_fleet::ports::{FleetStore, Selection};
    use bailiwick_resources::Kind;
    let selection = Selection { limit: 1, ..Selection::of(Kind::Repository) };
    FleetStore::list(plane.store.as_ref(), &selection).await.map_or(0, |page| page.version)
}

/// Completes when the process receives a signal to end. Signals are received from the call on, not only once it is
/// awaited.
pub(crate) fn shutdown_signal() -> impl Future<Output = ()> + use<> {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
