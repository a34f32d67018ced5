//! `bailiwick-kubernetes review`: what the API server does not allow, and the objects that would add it.

use bailiwick_kubernetes::review::{Account, NotReviewed, Review, permissions, remedy};
use bailiwick_operator::sync::{Cluster, ask};
use bailiwick_resources::{AgentRoleBinding, AgentServiceAccount, Kind};
use clap::Args;
use kube::Client;
use serde::de::DeserializeOwned;

#[derive(Debug, Args)]
pub(crate) struct ReviewArguments {
    /// Names of AgentRoleBindings. The default is all of the namespace
    #[arg(value_name = "BINDING")]
    bindings: Vec<String>,
    /// Namespace of the bindings. The default is that of the kubeconfig or the pod
    #[arg(long)]
    namespace: Option<String>,
}

/// The objects to print, and what could not be reviewed.
pub(crate) struct Reviewed {
    pub(crate) remedies: String,
    pub(crate) unknown: Vec<String>,
}

pub(crate) fn review(arguments: ReviewArguments) -> Result<Reviewed, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(review_bindings(arguments))
}

async fn review_bindings(arguments: ReviewArguments) -> Result<Reviewed, String> {
    let client = Client::try_default()
        .await
        .map_err(|error| format!("cannot connect to a cluster: {error}; set KUBECONFIG"))?;
    let namespace = arguments.namespace.unwrap_or_else(|| client.default_namespace().to_owned());
    let cluster = Cluster::new(client, &namespace);
    let mut names = arguments.bindings;
    if names.is_empty() {
        names = cluster.names(Kind::AgentRoleBinding).await.map_err(|error| error.to_string())?;
    }
    let mut reviewed = Reviewed { remedies: String::new(), unknown: Vec::new() };
    for name in names {
        let binding: AgentRoleBinding =
            spec(&cluster, Kind::AgentRoleBinding, &name).await?.ok_or_else(|| {
                format!("there is no AgentRoleBinding `{name}` in the namespace {namespace}")
            })?;
        let account = match binding.identity() {
            None => None,
            Some(identity) => {
                spec::<AgentServiceAccount>(&cluster, Kind::AgentServiceAccount, identity)
                    .await?
                    .map(|identity| Account::of(&identity, &namespace))
            }
        };
        let review = ask(&cluster, &binding, account.as_ref()).await;
        match (&review, &account) {
            (Review::Allowed, _) => {}
            // A binding without rules asks for nothing.
            (Review::NotReviewed(NotReviewed::NoRules), _) => {}
            (Review::Missing(_), Some(account)) => {
                // What is missing is part of it, so the API server was asked about all of it.
                let all = permissions(&binding, &namespace)
                    .map_err(|why| format!("{name}: {}", why.as_str()))?;
                let yaml = remedy(&name, account, &namespace, &all);
                reviewed.remedies +=
                    &yaml.map_err(|error| format!("cannot write YAML: {error}"))?;
            }
            (Review::Missing(_) | Review::Unknown(_) | Review::NotReviewed(_), _) => {
                reviewed.unknown.push(format!("{name}: {}", review.condition(&name).message));
            }
        }
    }
    Ok(reviewed)
}

async fn spec<T: DeserializeOwned>(
    cluster: &Cluster,
    kind: Kind,
    name: &str,
) -> Result<Option<T>, String> {
    let found = cluster.get(kind, name).await.map_err(|error| error.to_string())?;
    let read =
        |spec| serde_json::from_value(spec).map_err(|error| format!("{kind} `{name}`: {error}"));
    found.map(|object| read(object.spec)).transpose()
}
