//! `bailiwick-kubernetes manifests --kustomize`: a base with the server, and beside it the operators.

use std::path::PathBuf;

use bailiwick_kubernetes::manifests::{
    Cidr, JOB_OPERATOR, JobOperator, Label, ManifestFile, OPERATOR, Operator, SecretKey, Server,
    ServerAddress,
};
use clap::Args;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::{not_yaml, without_volume};

#[derive(Debug, Args)]
pub(crate) struct KustomizeArguments {
    /// Write them as a base for kustomize into a new directory, instead of printing them. The operators are in its
    /// directories `operator` and `jobs`, which the base does not include: name them in a kustomization
    #[arg(long, value_name = "DIR")]
    kustomize: Option<PathBuf>,
    /// Address of the server, as the operators and pods of attempts dial it. The default is https:// and the host name
    #[arg(long, value_name = "URL", requires = "kustomize")]
    server: Option<ServerAddress>,
    /// Namespace that the operator keeps in step
    #[arg(long, value_name = "NAMESPACE", default_value = "agents", requires = "kustomize")]
    operator_namespace: Label,
    /// Secret and key in it, with a token of `bailiwick tokens new` with the scope `admin`
    #[arg(
        long,
        value_name = "SECRET/KEY",
        default_value = "operator/token",
        requires = "kustomize"
    )]
    operator_token: SecretKey,
    /// Namespace for Jobs; repeat it for each namespace that pools name. The first is that of all other pools
    #[arg(
        long,
        value_name = "NAMESPACE",
        default_value = "bailiwick-attempts",
        requires = "kustomize"
    )]
    attempts: Vec<Label>,
    /// Name of this installation, which no other one in the cluster has. The default is the namespace of the server
    #[arg(long, value_name = "NAME", requires = "kustomize")]
    installation: Option<Label>,
    /// Network of the server, for pods of attempts; repeat it for each. The default is every address, at its port
    #[arg(long, value_name = "CIDR", requires = "kustomize")]
    server_network: Vec<Cidr>,
    /// Network of a model service, for pods of attempts; repeat it for each. The default is every address, at port 443
    #[arg(long, value_name = "CIDR", requires = "kustomize")]
    model_network: Vec<Cidr>,
    /// How many pods each namespace for Jobs may have at the same time. The default is no quota
    #[arg(long, value_name = "N", requires = "kustomize", value_parser = clap::value_parser!(u32).range(1..))]
    quota_pods: Option<u32>,
}

impl KustomizeArguments {
    /// Where the base is written, if it is not printed.
    pub(crate) fn directory(&self) -> Option<PathBuf> {
        self.kustomize.clone()
    }

    /// The base and the directories of the operators.
    pub(crate) fn files(self, server: &Server) -> Result<Vec<ManifestFile>, String> {
        let address = match self.server {
            Some(address) => address,
            None => https(&server.host)?,
        };
        let namespace = &server.place.namespace;
        let operator = Operator {
            place: without_volume(self.operator_namespace, OPERATOR)?,
            image: server.image.clone(),
            server: address.clone(),
            token: self.operator_token,
        };
        let jobs = JobOperator {
            place: without_volume(namespace.clone(), JOB_OPERATOR)?,
            image: server.image.clone(),
            database: server.database.clone(),
            server: address,
            installation: self.installation.unwrap_or_else(|| namespace.clone()),
            server_networks: self.server_network,
            model_networks: self.model_network,
            attempts: self.attempts,
            quota_pods: self.quota_pods.map(|pods| Quantity(pods.to_string())),
        };
        let mut files = server.manifests().kustomize().map_err(not_yaml)?;
        let operator = operator.kustomize().map_err(not_yaml)?;
        files.extend(operator.into_iter().map(|file| file.inside("operator")));
        let jobs = jobs.manifests().kustomize().map_err(not_yaml)?;
        files.extend(jobs.into_iter().map(|file| file.inside("jobs")));
        Ok(files)
    }
}

fn https(host: &str) -> Result<ServerAddress, String> {
    let address = format!("https://{host}");
    address.parse().map_err(|_error| {
        format!("{address} is not the address of a server: name it with --server")
    })
}
