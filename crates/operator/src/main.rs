//! `bailiwick-kubernetes`: prints what a cluster needs for Bailiwick, and runs the operator.

mod review_command;
mod sync_command;

use std::io::Write as _;
use std::process::ExitCode;

use bailiwick_kubernetes::access::Access;
use bailiwick_kubernetes::crds;
use bailiwick_kubernetes::manifests::{
    Label, Manifests, Place, Sandbox, SecretKey, Server, ServerAddress, Storage, Worker,
};
use bailiwick_resources::Kind;
use clap::{Args, Parser, Subcommand};

use review_command::{ReviewArguments, Reviewed};
use sync_command::OperatorArguments;

/// The name of the server's objects.
const SERVER: &str = "bailiwick";

/// Use Bailiwick in a Kubernetes cluster
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
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
    Access {
        /// Namespace that the operator keeps in step
        #[arg(long)]
        namespace: Label,
    },
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

fn image(text: &str) -> Result<String, String> {
    match text.is_empty() || text.contains(char::is_whitespace) {
        true => Err("write an image such as registry.example/bailiwick:1.0".to_owned()),
        false => Ok(text.to_owned()),
    }
}

fn main() -> ExitCode {
    let printed = match Arguments::parse().command {
        Command::Crds { kinds } => definitions(kinds),
        Command::Manifests(arguments) => server(arguments).and_then(|all| yaml(&all)),
        Command::Worker(arguments) => yaml(&worker(arguments)),
        Command::Access { namespace } => access(&namespace),
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

fn server(arguments: ServerArguments) -> Result<Manifests, String> {
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
    Ok(server.manifests())
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

fn access(namespace: &Label) -> Result<String, String> {
    Access::of(namespace).yaml().map_err(|error| format!("cannot write YAML: {error}"))
}

fn yaml(manifests: &Manifests) -> Result<String, String> {
    manifests.yaml().map_err(|error| format!("cannot write YAML: {error}"))
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
