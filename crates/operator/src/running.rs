//! `bailiwick-kubernetes jobs`: the operator for attempts in Jobs, until it is stopped.

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bailiwick_kubernetes::jobs::Cluster;
use bailiwick_kubernetes::manifests::{Cidr, Label, ServerAddress};
use bailiwick_operator::jobs::{JobCluster, JobController, StoreQueue, claim_installation};
use bailiwick_resources::Moment;
use bailiwick_store::{Location, Store};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Args)]
pub(crate) struct JobArguments {
    /// Address of the server, as pods of attempts dial it
    #[arg(long, value_name = "URL")]
    server: ServerAddress,
    /// Container image of pools that name no other one
    #[arg(long, value_parser = crate::image)]
    image: String,
    /// Namespace for Jobs; repeat it for each namespace that pools name. The first is that of all other pools
    #[arg(long, value_name = "NAMESPACE", default_value = "bailiwick-attempts")]
    namespace: Vec<Label>,
    /// Name of this installation. Jobs of others in the cluster are left alone
    #[arg(long, value_name = "NAME", default_value = "bailiwick")]
    installation: Label,
    /// Network of the server, such as 203.0.113.7/32; repeat it for each. The default is every address, at the server's port
    #[arg(long, value_name = "CIDR")]
    server_network: Vec<Cidr>,
    /// Network of a model service, such as 203.0.113.0/24; repeat it for each. The default is every address, at port 443
    #[arg(long, value_name = "CIDR")]
    model_network: Vec<Cidr>,
    /// Database of the server, as postgres://…; the default is $KEI_LEDGER_DB, so that no other user sees a password
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

/// Runs until it is stopped by a signal.
pub(crate) fn run(arguments: JobArguments) -> Result<(), String> {
    if let Some(shortfall) = crate::confinement::shortfall_here() {
        // If standard error is closed, there is nobody to tell.
        let _ = writeln!(std::io::stderr(), "warning: {shortfall}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| format!("no runtime: {error}"))?.block_on(until_stopped(arguments))
}

async fn until_stopped(arguments: JobArguments) -> Result<(), String> {
    let database = arguments.database.clone();
    let cluster = cluster(arguments)?;
    let mut stop = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let database = database.or_else(|| std::env::var("KEI_LEDGER_DB").ok());
    let database =
        database.ok_or("name the database of the server: --database, or $KEI_LEDGER_DB")?;
    let state =
        std::env::var_os("BAILIWICK_STATE").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let location = Location::parse(&database, &state).map_err(|error| error.to_string())?;
    if location.sqlite_file().is_some() {
        // A new file would be an empty database, for which every Job runs for nothing.
        return Err(format!(
            "the operator for Jobs needs the PostgreSQL database of the server, and `{location}` is a file; write it as \
             postgres://<user>@<host>/<name>"
        ));
    }
    let store = Store::open(location).await.map_err(|error| error.to_string())?;
    let claimed = claim_installation(&store, &cluster.installation, now()).await;
    claimed.map_err(|error| error.to_string())?;
    let client = kube::Client::try_default()
        .await
        .map_err(|error| format!("there is no way to the API server: {error}"))?;
    let queue = StoreQueue::new(Arc::new(store));
    let controller = JobController::new(queue, JobCluster::new(client, cluster));
    let shutdown = async {
        tokio::select! {
            _ = stop.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    controller.run(report, shutdown).await;
    Ok(())
}

fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn cluster(arguments: JobArguments) -> Result<Cluster, String> {
    let JobArguments { server, image, namespace, installation, .. } = arguments;
    let mut namespaces = namespace.into_iter();
    let namespace = namespaces.next().ok_or("name a namespace for Jobs")?;
    Ok(Cluster {
        installation,
        namespace,
        other_namespaces: namespaces.collect(),
        image,
        server,
        server_networks: arguments.server_network,
        model_networks: arguments.model_network,
    })
}

/// If standard error is closed, there is nobody to tell.
fn report(error: &(dyn Error + 'static)) {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    let _ = writeln!(std::io::stderr(), "{text}; trying again");
}
