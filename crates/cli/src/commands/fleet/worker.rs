//! `bailiwick worker`: runs the attempts of a pool on this machine, for a server elsewhere.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_client::{HttpWorkerApi, PlainHttp, ServerAddress};
use bailiwick_engine::context::Context;
use bailiwick_engine::failure::Failure as ServiceFailure;
use bailiwick_engine::worker::{OnceOutcome, Worker, WorkerOptions};
use bailiwick_resources::{Span, WorkerExit};
use clap::Args;

use super::log_format::LogFormat;
use super::serve::shutdown_signal;
use crate::failure::Failure;
use crate::output;

const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Run attempts of a pool on this machine, for a server elsewhere
///
/// The worker dials the server, takes attempts of pools with `runsOn: workers`, and runs them under the same supervisor
/// and sandbox as the server would. It needs no forge and no database; model keys are granted with each attempt.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick worker --server https://ci.example --pool builds --join-token-file \
                  t\n  bailiwick worker --server https://ci.example --pool builds --slots 2"
)]
pub struct WorkerCommand {
    /// Address of the server
    #[arg(long, value_name = "URL")]
    server: String,
    /// The pool whose attempts it runs
    #[arg(long, value_name = "POOL")]
    pool: String,
    /// File with a token of `bailiwick workers token`; needed to join for the first time
    #[arg(long, value_name = "FILE")]
    join_token_file: Option<PathBuf>,
    /// Label for pools with `workerLabels`
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Name on the server, to which letters are added; default: that of the machine
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How many attempts run at the same time
    #[arg(long, value_name = "N", default_value = "1", value_parser = slots)]
    slots: usize,
    /// Directory for everything that it stores; default: `worker` in the state directory
    #[arg(long = "directory", value_name = "DIR")]
    own_directory: Option<PathBuf>,
    /// Run one attempt and end, as in a Kubernetes Job. Exit code 64: there was none; 65: this machine cannot run it;
    /// 66: it was lost
    #[arg(long, conflicts_with = "slots")]
    once: bool,
    /// With --once: how long to wait for the server, and then for an attempt
    #[arg(long, value_name = "TIME", default_value = "5m", requires = "once")]
    wait: Span,
    /// With --once: directory with values that the pod of the worker has for its attempt
    #[arg(long, value_name = "DIR", requires = "once")]
    values: Option<PathBuf>,
    /// Allow http:// to another machine: others in between can read everything
    #[arg(long)]
    insecure_http: bool,
    /// Format of the log; as JSON, each line about an attempt names it
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => {
            Ok((key.to_owned(), value.to_owned()))
        }
        Some(_) | None => Err("write it as KEY=VALUE".to_owned()),
    }
}

fn slots(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=64) => Ok(count),
        Ok(_) | Err(_) => Err("use a number from 1 to 64".to_owned()),
    }
}

impl WorkerCommand {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        if self.log_format == LogFormat::Json {
            self.log_format.start();
            output::speak_to_the_log();
        }
        let plain = if self.insecure_http { PlainHttp::Anywhere } else { PlainHttp::LoopbackOnly };
        let address = ServerAddress::parse(&self.server, plain)?;
        let token = self.join_token_file.as_ref().map(|file| {
            let read = std::fs::read_to_string(file).map(|text| text.trim().to_owned());
            read.map_err(|error| {
                Failure::usage(format!("{} cannot be read: {error}", file.display()))
            })
        });
        let token = token.transpose()?;
        let api = HttpWorkerApi::new(address)?;
        let wait = Duration::from_millis(self.wait.millis());
        let directory = self.own_directory.unwrap_or_else(|| context.state.join("worker"));
        let options = WorkerOptions {
            directory: context.directory.join(directory),
            server: self.server.trim_end_matches('/').to_owned(),
            pool: self.pool,
            name: self.name.unwrap_or_else(host_name),
            labels: self.labels.into_iter().collect::<BTreeMap<_, _>>(),
            slots: self.slots,
            join_wait: if self.once { wait } else { Duration::ZERO },
            values: self.values.map(|values| context.directory.join(values)),
            notices: context.notices.clone(),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| Failure::general(format!("no runtime: {error}")))?;
        runtime.block_on(async {
            let shutdown = shutdown_signal();
            tokio::pin!(shutdown);
            let started = tokio::select! {
                started = Worker::start(Arc::new(api), options, token) => Some(started),
                () = &mut shutdown => None,
            };
            let Some(started) = started else {
                output::note("stopped before it joined");
                return match self.once {
                    true => Err(Failure::AlreadyReported(WorkerExit::Lost.code())),
                    false => Ok(()),
                };
            };
            if self.once {
                return one_attempt(started, wait, shutdown).await;
            }
            let worker = started?;
            output::line(format_args!("worker {}", worker.name()));
            worker.run(shutdown).await?;
            output::note("stopped; live runs continue");
            Ok(())
        })
    }
}

/// Runs one attempt. A pod failure policy reads the exit code, so a worker that the server refuses has one of its own.
async fn one_attempt(
    started: Result<Worker, ServiceFailure>,
    wait: Duration,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let outcome = match started {
        Ok(worker) => {
            output::line(format_args!("worker {}", worker.name()));
            worker.run_once(wait, shutdown).await?
        }
        Err(refusal @ ServiceFailure::Refused { .. }) => {
            OnceOutcome { exit: WorkerExit::Lost, detail: refusal.in_one_line() }
        }
        Err(failure) => return Err(failure.into()),
    };
    match outcome.exit {
        WorkerExit::Done => Ok(()),
        exit @ (WorkerExit::NothingToDo | WorkerExit::CannotRunHere | WorkerExit::Lost) => {
            output::note(&outcome.detail);
            Err(Failure::AlreadyReported(exit.code()))
        }
    }
}

/// The name of this machine, as far as it can name a worker.
fn host_name() -> String {
    let name = std::fs::read_to_string(HOST_NAME).unwrap_or_default();
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || "-_.".contains(*letter);
    let name: String = name.trim().chars().filter(is_plain).take(50).collect();
    if name.is_empty() { "worker".to_owned() } else { name }
}
