//! `bailiwick-kubernetes operator`: its arguments, its connections, and its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_client::{Http, PlainHttp, ServerAddress, Token};
use bailiwick_kubernetes::sync::Takeover;
use bailiwick_operator::sync::{Cluster, Settings, check_own_rights, run};
use clap::Args;
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Args)]
pub(crate) struct OperatorArguments {
    /// Address of the server of the control plane, as https://HOST
    #[arg(long, value_name = "URL")]
    server: String,
    /// Send the token without encryption: only in a network that nobody else can read
    #[arg(long)]
    plain_http: bool,
    /// File with a token of `bailiwick tokens new` with the scope `admin`
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Namespace to keep in step. The default is that of the kubeconfig or the pod
    #[arg(long)]
    namespace: Option<String>,
    /// How long runs that have ended stay in the cluster
    #[arg(long, value_name = "HOURS", default_value = "168", value_parser = clap::value_parser!(u64).range(1..=8_760))]
    keep_ended: u64,
    /// Lead also if the server follows another namespace or cluster now. Its copies stay as they are
    #[arg(long)]
    take_over: bool,
}

pub(crate) fn operate(arguments: OperatorArguments) -> Result<(), String> {
    // A log that cannot be set up is set up already.
    let _ = tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).try_init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(connect_and_run(arguments))
}

async fn connect_and_run(arguments: OperatorArguments) -> Result<(), String> {
    let OperatorArguments { server, plain_http, token_file, namespace, keep_ended, take_over } =
        arguments;
    let plain = if plain_http { PlainHttp::Anywhere } else { PlainHttp::LoopbackOnly };
    let server = ServerAddress::parse(&server, plain).map_err(|error| error.to_string())?;
    let text = std::fs::read_to_string(&token_file)
        .map_err(|error| format!("cannot read {}: {error}", token_file.display()))?;
    let token = Token::parse(&text)
        .ok_or_else(|| format!("{} does not have one token", token_file.display()))?;
    let http = Http::new(server, &token).map_err(|error| error.to_string())?;
    http.who_am_i().await.map_err(|error| error.to_string())?;
    let client = Client::try_default()
        .await
        .map_err(|error| format!("cannot connect to a cluster: {error}; set KUBECONFIG"))?;
    let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
    let cluster = Cluster::new(client, &namespace);
    check_own_rights(&cluster).await.map_err(|error| error.to_string())?;
    let settings = Settings {
        identity: identity()?,
        history: Duration::from_secs(keep_ended.saturating_mul(3_600)),
        takeover: if take_over { Takeover::AnyNamespace } else { Takeover::SameNamespace },
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
    let shutdown = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let ended = run(cluster, Arc::new(http), &settings, shutdown).await;
    ended.map_err(|error| error.to_string())
}

/// The host name, and what no other process has.
fn identity() -> Result<String, String> {
    let unique = std::fs::read_to_string("/proc/sys/kernel/random/uuid")
        .map_err(|error| format!("cannot read a random number: {error}"))?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Ok(format!("{}_{}", host.trim(), unique.trim()))
}
