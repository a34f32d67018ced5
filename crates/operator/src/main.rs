//! `bailiwick-kubernetes`: prints what a cluster needs for Bailiwick.

use std::io::Write as _;
use std::process::ExitCode;

use bailiwick_kubernetes::crds;
use bailiwick_kubernetes::manifests::{
    Installation, Label, Manifests, Sandbox, SecretKey, Storage,
};
use bailiwick_resources::Kind;
use clap::{Args, Parser, Subcommand};

/// Print what a Kubernetes cluster needs for Bailiwick
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
    Manifests(ManifestArguments),
}

#[derive(Debug, Args)]
struct ManifestArguments {
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
        Command::Manifests(arguments) => manifests(arguments),
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

fn manifests(arguments: ManifestArguments) -> Result<String, String> {
    let installation = Installation {
        namespace: arguments.namespace,
        image: arguments.image,
        host: arguments.host,
        database: arguments.database,
        storage: arguments.storage,
        ingress: arguments.ingress,
        sandbox: if arguments.agents { Sandbox::InPod } else { Sandbox::None },
    };
    let printed = Manifests::new(&installation).yaml();
    printed.map_err(|error| format!("cannot write YAML: {error}"))
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
