//! `bailiwick-kubernetes`: prints what a cluster needs for Bailiwick, and runs its operators.

mod confinement;
mod kustomize_command;
#[cfg(test)]
mod reference;
mod review_command;
mod running;
mod sync_command;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bailiwick_kubernetes::access::Access;
use bailiwick_kubernetes::crds;
use bailiwick_kubernetes::manifests::{
    Cidr, JOB_OPERATOR, JobOperator, Label, ManifestFile, Manifests, OPERATOR, Operator, Place,
    SERVER, Sandbox, SecretKey, Server, ServerAddress, Storage, Worker, chart,
};
use bailiwick_resources::Kind;
use clap::{Args, Parser, Subcommand};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use kustomize_command::KustomizeArguments;
use review_command::{ReviewArguments, Reviewed};
use running::JobArguments;
use sync_command::OperatorArguments;

/// Use Bailiwick in a Kubernetes cluster
#[derive(Debug, Parser)]
#[command(name = "bailiwick-kubernetes", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the kinds of the control plane as CustomResourceDefinitions, for `kubectl apply -f -`
    Crds {
        /// Only these kinds. The default is all
        #[arg(value_name = "KIND", value_parser = custom_kind)]
        kinds: Vec<Kind>,
    },
    /// Print what runs `bailiwick serve` on PostgreSQL in a namespace, for `kubectl apply -f -`
    Manifests(ServerArguments),
    /// Print what runs `bailiwick worker` in a namespace, for `kubectl apply -f -`
    Worker(WorkerArguments),
    /// Keep a namespace of a cluster in step with a server, until it is stopped
    Operator(OperatorArguments),
    /// Ask the API server whether it allows what AgentRoleBindings give, and print Roles that add what is missing
    Review(ReviewArguments),
    /// Print the account of the operator and its role in a namespace, for `kubectl apply -f -`
    Access(AccessArguments),
    /// Write a Helm chart for `bailiwick serve` and the operators into a new directory
    Chart {
        /// The directory
        directory: PathBuf,
    },
    /// Print what runs attempts in Kubernetes Jobs: `bailiwick-kubernetes jobs`, for `kubectl apply -f -`
    JobManifests(JobManifestArguments),
    /// Run the attempts of pools with `runsOn: jobs`, each in a Kubernetes Job
    Jobs(JobArguments),
}

#[derive(Debug, Args)]
struct AccessArguments {
    /// Namespace that the operator keeps in step
    #[arg(long)]
    namespace: Label,
    /// Print also what runs the operator in a pod, with this container image; bailiwick-kubernetes must be in it
    #[arg(long, value_parser = image, requires_all = ["server", "token"])]
    image: Option<String>,
    /// Address of the server of the control plane
    #[arg(long, value_name = "URL", requires = "image")]
    server: Option<ServerAddress>,
    /// Secret and key with a token of `bailiwick tokens new` with the scope `admin`
    #[arg(long, value_name = "SECRET/KEY", requires = "image")]
    token: Option<SecretKey>,
}

#[derive(Debug, Args)]
struct JobManifestArguments {
    /// Container image of the operator and of the Jobs, with bailiwick, bailiwick-kubernetes, git and the agent programs
    #[arg(long, value_parser = image)]
    image: String,
    /// Address of the server, as pods of attempts dial it
    #[arg(long, value_name = "URL")]
    server: ServerAddress,
    /// Secret and key with the address of the database of the server
    #[arg(long, value_name = "SECRET/KEY")]
    database: SecretKey,
    /// Namespace of the operator: that of the server
    #[arg(long, default_value = "bailiwick")]
    namespace: Label,
    /// Namespace for Jobs; repeat it for each namespace that pools name. The first is that of all other pools
    #[arg(long, value_name = "NAMESPACE", default_value = "bailiwick-attempts")]
    attempts: Vec<Label>,
    /// Name of this installation, which no other one in the cluster has. The default is the namespace of the operator
    #[arg(long, value_name = "NAME")]
    installation: Option<Label>,
    /// Network of the server, such as 203.0.113.7/32; repeat it for each. The default is every address, at the server's port
    #[arg(long, value_name = "CIDR")]
    server_network: Vec<Cidr>,
    /// Network of a model service, such as 203.0.113.0/24; repeat it for each. The default is every address, at port 443
    #[arg(long, value_name = "CIDR")]
    model_network: Vec<Cidr>,
    /// How many pods each namespace for Jobs may have at the same time. The default is no quota
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    quota_pods: Option<u32>,
}

#[derive(Debug, Args)]
struct ServerArguments {
    /// Container image with bailiwick, git and the agent programs
    #[arg(long, value_parser = image)]
    image: String,
    /// Host name that people and forges use
    #[arg(long, value_name = "NAME")]
    host: String,
    /// Secret and key with the address of the database, as postgres://…
    #[arg(long, value_name = "SECRET/KEY")]
    database: SecretKey,
    /// Namespace to install in
    #[arg(long, default_value = "bailiwick")]
    namespace: Label,
    /// Namespace of the ingress controller, from which requests come
    #[arg(long, value_name = "NAMESPACE", default_value = "ingress-nginx")]
    ingress: Label,
    /// Size of the volume for repositories and runs
    #[arg(long, value_name = "SIZE", default_value = "20Gi")]
    storage: Storage,
    /// Let agents and checks run in the pod: no seccomp and AppArmor profiles, in a user namespace of the pod
    #[arg(long)]
    agents: bool,
    #[command(flatten)]
    kustomize: KustomizeArguments,
}

#[derive(Debug, Args)]
struct WorkerArguments {
    /// Container image with bailiwick, git and the agent programs
    #[arg(long, value_parser = image)]
    image: String,
    /// Address of the server
    #[arg(long, value_name = "URL")]
    server: ServerAddress,
    /// The pool whose attempts it runs
    #[arg(long)]
    pool: Label,
    /// Secret and key with a token of `bailiwick workers token`
    #[arg(long, value_name = "SECRET/KEY")]
    join_token: SecretKey,
    /// Name of the worker and its objects; each worker has another one
    #[arg(long, default_value = "worker")]
    name: Label,
    /// Namespace to install in
    #[arg(long, default_value = "bailiwick-workers")]
    namespace: Label,
    /// Size of the volume for repositories and runs
    #[arg(long, value_name = "SIZE", default_value = "20Gi")]
    storage: Storage,
    /// How many attempts run at the same time
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=64))]
    slots: u8,
}

fn custom_kind(text: &str) -> Result<Kind, String> {
    let kind: Kind = text.parse().map_err(|error| format!("{error}"))?;
    match crds::home(kind) {
        crds::Home::CustomResource => Ok(kind),
        crds::Home::Kubernetes => Err(format!("Kubernetes has the kind {kind} itself")),
        crds::Home::Database => Err(format!(
            "a {kind} is kept in the database only: read it with `bailiwick get {}`",
            kind.short()
        )),
    }
}

pub(crate) fn image(text: &str) -> Result<String, String> {
    match text.is_empty() || text.contains(char::is_whitespace) {
        true => Err("write an image such as registry.example/bailiwick:1.0".to_owned()),
        false => Ok(text.to_owned()),
    }
}

fn main() -> ExitCode {
    let printed = match Arguments::parse().command {
        Command::Crds { kinds } => definitions(kinds),
        Command::Manifests(arguments) => manifests(arguments),
        Command::Worker(arguments) => yaml(&worker(arguments)),
        Command::Access(arguments) => access(arguments),
        Command::Review(arguments) => match review_command::review(arguments) {
            Ok(Reviewed { remedies, unknown }) if unknown.is_empty() => Ok(remedies),
            Ok(Reviewed { remedies, unknown }) => {
                print(&remedies);
                Err(unknown.join("\n"))
            }
            Err(message) => Err(message),
        },
        Command::Operator(arguments) => {
            return match sync_command::operate(arguments) {
                Ok(()) => ExitCode::SUCCESS,
                Err(message) => fail(&message),
            };
        }
        Command::Chart { directory } => {
            let files = chart(env!("CARGO_PKG_VERSION")).map_err(|error| error.to_string());
            written(&directory, files)
        }
        Command::JobManifests(arguments) => job_manifests(arguments),
        Command::Jobs(arguments) => running::run(arguments).map(|()| String::new()),
    };
    match printed {
        Ok(text) => print(&text),
        Err(message) => fail(&message),
    }
}

fn definitions(kinds: Vec<Kind>) -> Result<String, String> {
    let printed =
        if kinds.is_empty() { crds::yaml(crds::custom_kinds()) } else { crds::yaml(kinds) };
    printed.map_err(|error| error.to_string())
}

fn manifests(arguments: ServerArguments) -> Result<String, String> {
    let name = SERVER.parse().map_err(|error| format!("{SERVER}: {error}"))?;
    let place = Place { namespace: arguments.namespace, name, storage: arguments.storage };
    let server = Server {
        place,
        image: arguments.image,
        host: arguments.host,
        database: arguments.database,
        ingress: arguments.ingress,
        sandbox: if arguments.agents { Sandbox::InPod } else { Sandbox::None },
    };
    match arguments.kustomize.directory() {
        None => yaml(&server.manifests()),
        Some(base) => written(&base, arguments.kustomize.files(&server)),
    }
}

fn worker(arguments: WorkerArguments) -> Manifests {
    let WorkerArguments { name, namespace, storage, .. } = arguments;
    let worker = Worker {
        place: Place { namespace, name, storage },
        image: arguments.image,
        server: arguments.server,
        pool: arguments.pool,
        join_token: arguments.join_token,
        slots: arguments.slots,
    };
    worker.manifests()
}

fn access(arguments: AccessArguments) -> Result<String, String> {
    let AccessArguments { namespace, image, server, token } = arguments;
    let access = Access::of(&namespace).yaml().map_err(not_yaml)?;
    let (Some(image), Some(server), Some(token)) = (image, server, token) else {
        return Ok(access);
    };
    let place = without_volume(namespace, OPERATOR)?;
    let operator = Operator { place, image, server, token };
    Ok(access + &operator.yaml().map_err(not_yaml)?)
}

fn job_manifests(arguments: JobManifestArguments) -> Result<String, String> {
    let installation = arguments.installation.unwrap_or_else(|| arguments.namespace.clone());
    let operator = JobOperator {
        installation,
        server_networks: arguments.server_network,
        model_networks: arguments.model_network,
        place: without_volume(arguments.namespace, JOB_OPERATOR)?,
        image: arguments.image,
        database: arguments.database,
        server: arguments.server,
        attempts: arguments.attempts,
        quota_pods: arguments.quota_pods.map(|pods| Quantity(pods.to_string())),
    };
    operator.manifests().yaml().map_err(not_yaml)
}

pub(crate) fn without_volume(namespace: Label, name: &str) -> Result<Place, String> {
    Place::without_volume(namespace, name).map_err(|error| format!("{name}: {error}"))
}

pub(crate) fn not_yaml(error: impl std::fmt::Display) -> String {
    format!("cannot write YAML: {error}")
}

fn yaml(manifests: &Manifests) -> Result<String, String> {
    manifests.yaml().map_err(not_yaml)
}

/// Writes files into a directory that must be new or empty: old files would be installed, too.
fn written(directory: &Path, files: Result<Vec<ManifestFile>, String>) -> Result<String, String> {
    let files = files?;
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", directory.display());
    std::fs::create_dir_all(directory).map_err(failed)?;
    if std::fs::read_dir(directory).map_err(failed)?.next().is_some() {
        return Err(format!("{} is not empty: name a new directory", directory.display()));
    }
    for file in files {
        let path = directory.join(&file.path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        std::fs::write(path, file.text).map_err(failed)?;
    }
    Ok(String::new())
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed the pipe, as `head` does.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(&format!("cannot write the output: {error}")),
    }
}

fn fail(message: &str) -> ExitCode {
    // If standard error is closed, there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "error: {message}");
    ExitCode::FAILURE
}
