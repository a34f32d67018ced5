//! `bailiwick serve`: the control plane, over HTTP and by turns.

use std::fs::{File, TryLockError};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bailiwick_engine::context::Context;
use bailiwick_engine::fleet::{LocalPlane, plane};
use bailiwick_fleet::controllers::{ReconcileSummary, Retention, RetryTable};
use bailiwick_fleet::ports::FleetStore as _;
use bailiwick_resources::Span;
use bailiwick_server::{ControlLoopMonitor, Exposure, Server, Settings};
use bailiwick_store::Store;
use clap::Args;
use tokio::task::JoinHandle;

use crate::failure::Failure;
use crate::output;

/// How long a turn waits for something to change before it looks again, in milliseconds.
const PAUSE: u64 = 1_000;
/// How many changes are kept for those who watch.
const CHANGES: u64 = 100_000;
/// How often everything that is declared is looked at anew.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How soon, where something has changed.
const LOOK_SOON: Duration = Duration::from_secs(2);
/// How long a turn waits at most while webhooks pour in.
const MAX_PAUSE: Duration = Duration::from_millis(300);
/// After a turn that did so much, more of it may be waiting: the next one waits no longer than that one took.
const MUCH: usize = 64;
/// How long it waits after a turn in which the store did not answer.
const AFTER_TROUBLE: Duration = Duration::from_secs(2);

/// Serve the control plane: API, webhooks, runs
///
/// Rules evaluate webhooks, runs start in their pools, and results are written back as policy and
/// approvals allow. The server can be killed and restarted at any time: nothing is lost or done
/// twice, and runs continue meanwhile.
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
    /// Retention of ended runs and what belongs to them
    #[arg(long, value_name = "TIME", default_value = "90d")]
    keep: Span,
    /// Retention of the audit log
    #[arg(long, value_name = "TIME", default_value = "365d")]
    keep_audit: Span,
}

impl Serve {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            // What the database has done is gone on with before the next request is looked at: many wait for it.
            .global_queue_interval(1)
            .enable_all()
            .build()
            .map_err(|error| Failure::general(format!("no runtime: {error}")))?;
        runtime.block_on(self.serve(context))
    }

    async fn serve(self, context: &Context) -> Result<(), Failure> {
        // A second one in the same process would be the same.
        let _ = tracing_subscriber::fmt()
            .json()
            .with_writer(std::io::stderr)
            .with_max_level(tracing::Level::INFO)
            .try_init();
        let _alone = alone(context)?;
        let store = Arc::new(Store::open(context.database.location().clone()).await?);
        let plane = plane(context, Arc::clone(&store));
        let pulse = ControlLoopMonitor::default();
        let settings = Settings {
            address: self.listen,
            exposure: if self.network { Exposure::Network } else { Exposure::Loopback },
            hosts: self.hosts,
            control_loop: Some(pulse.clone()),
            ..Settings::default()
        };
        let server = Server::bind(settings, Arc::clone(&store), Arc::clone(&plane.api))
            .await
            .map_err(|error| Failure::general(error.to_string()))?;
        let address = server.address();
        output::line(format_args!("listening on http://{address}"));
        if store.tokens().await?.is_empty() {
            output::next_step(format_args!(
                "bailiwick tokens new {} --scope admin{}",
                super::actor()?,
                context.repeated
            ));
        }
        // What spawns and turns tell belongs to the log, line by line, as everything else there.
        output::speak_to_the_log();
        let retention = Retention::new(self.keep, self.keep_audit);
        let mut control_loop = tokio::spawn(turn(plane, retention, pulse));
        let mut broken = None;
        server.run(async { broken = wait_for_end(&mut control_loop, ended()).await }).await;
        control_loop.abort();
        output::note("stopped; runs that are at work go on");
        match broken {
            None => Ok(()),
            Some(why) => Err(Failure::general(why).help("start it again; nothing is lost")),
        }
    }
}

/// Makes sure that nobody else takes turns on this database.
fn alone(context: &Context) -> Result<File, Failure> {
    let mut name = context.database.path().as_os_str().to_owned();
    name.push(".serve");
    let failed = |error: std::io::Error| {
        Failure::general(format!("{} cannot be used: {error}", name.to_string_lossy()))
    };
    if let Some(directory) = context.database.path().parent() {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    let file = File::options().create(true).write(true).truncate(false).open(&name);
    let file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(Failure::usage("another `bailiwick serve` is at work on this database"))
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Waits for a shutdown, or for the end of the control loop and its reason: a server must not answer requests
/// without it.
async fn wait_for_end(
    control_loop: &mut JoinHandle<()>,
    ended: impl Future<Output = ()>,
) -> Option<String> {
    tokio::select! {
        () = ended => None,
        done = control_loop => {
            let why = done.err().map_or_else(|| "it ended".to_owned(), |error| error.to_string());
            tracing::error!(why, "the control loop stopped");
            Some(format!("the control loop stopped: {why}"))
        }
    }
}

/// Reconciles in a loop until the server stops.
async fn turn(plane: LocalPlane, mut retention: Retention, pulse: ControlLoopMonitor) {
    let mut looked: Option<(u64, Instant)> = None;
    let mut backoff = RetryTable::default();
    let mut longest = MAX_PAUSE;
    loop {
        let version = latest(&plane).await;
        let stale = looked.is_none_or(|(seen, when)| {
            when.elapsed() > LOOK_AGAIN || (seen != version && when.elapsed() > LOOK_SOON)
        });
        if stale {
            let turn = plane.reconcile_statuses().await;
            tell(&turn);
            tell(&plane.prune(&mut retention).await);
            if let Err(error) = plane.store.forget_changes(CHANGES).await {
                tracing::warn!(%error, "old changes could not be forgotten");
            }
            looked = Some((latest(&plane).await, Instant::now()));
        }
        plane.store.wait_for_quiet_intake(longest).await;
        let begun = Instant::now();
        let turn = plane.advance_with(&mut backoff).await;
        longest = if turn.done < MUCH { MAX_PAUSE } else { begun.elapsed().min(MAX_PAUSE) };
        tell(&turn);
        pulse.record_iteration();
        // Whatever else has trouble rests by itself.
        if turn.store_unavailable {
            tokio::time::sleep(AFTER_TROUBLE).await;
        }
        if turn.done == 0 {
            plane.store.wait_for_change(version, PAUSE).await;
        }
    }
}

fn tell(turn: &ReconcileSummary) {
    for (about, why) in &turn.errors {
        tracing::warn!(about, why, "reconciling failed; it is retried");
    }
}

/// The version of the store before a turn, so that no change is slept through.
async fn latest(plane: &LocalPlane) -> u64 {
    use bailiwick_fleet::ports::{FleetStore, Selection};
    use bailiwick_resources::Kind;
    let selection = Selection { limit: 1, ..Selection::of(Kind::Repository) };
    FleetStore::list(plane.store.as_ref(), &selection).await.map_or(0, |page| page.version)
}

/// Ends when somebody wants us to.
async fn ended() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::wait_for_end;

    #[tokio::test]
    async fn turns_that_break_off_end_the_server_with_a_reason() {
        let mut broken = tokio::spawn(async { panic!("a fault of ours") });
        let why = wait_for_end(&mut broken, std::future::pending()).await.unwrap();
        assert!(why.contains("the control loop stopped") && why.contains("panicked"), "{why}");
        let mut control_loop = tokio::spawn(std::future::pending());
        assert_eq!(wait_for_end(&mut control_loop, std::future::ready(())).await, None);
    }
}
