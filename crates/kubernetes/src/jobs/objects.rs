//! What a Job needs beside itself: the token with which its worker joins, and a policy for the network of its pod.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyPeer, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};

use super::job::Cluster;
use super::name::{TOKEN_KEY, common_labels};
use crate::manifests::{Cidr, Label, network};

const MODEL_PORT: i32 = 443;

/// The secret of a Job that exists. It is deleted with the Job.
pub fn token_secret(job: &Job, token: &str) -> Option<Secret> {
    let metadata = &job.metadata;
    let owner = OwnerReference {
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
        name: metadata.name.clone()?,
        uid: metadata.uid.clone()?,
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    Some(Secret {
        metadata: ObjectMeta {
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            labels: metadata.labels.clone(),
            annotations: metadata.annotations.clone(),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        immutable: Some(true),
        string_data: Some(BTreeMap::from([(TOKEN_KEY.to_owned(), token.to_owned())])),
        type_: Some("Opaque".to_owned()),
        data: None,
    })
}

/// The pods of attempts are reached by nothing. They reach names, the server and the model: the networks of the two,
/// or, where none is named, all addresses at their ports.
pub fn network_policy(namespace: &Label, cluster: &Cluster) -> NetworkPolicy {
    let dns = [network::port("UDP", 53), network::port("TCP", 53)];
    let rules = vec![
        NetworkPolicyEgressRule {
            to: Some(vec![network::inside("kube-system".to_owned())]),
            ports: Some(dns.into()),
        },
        NetworkPolicyEgressRule {
            to: Some(peers(&cluster.server_networks)),
            ports: Some(vec![network::port("TCP", cluster.server.port())]),
        },
        NetworkPolicyEgressRule {
            to: Some(peers(&cluster.model_networks)),
            ports: Some(vec![network::port("TCP", MODEL_PORT)]),
        },
    ];
    NetworkPolicy {
        metadata: ObjectMeta {
            name: Some(format!("bailiwick-attempts-{}", cluster.installation)),
            namespace: Some(namespace.to_string()),
            labels: Some(common_labels(&cluster.installation)),
            ..ObjectMeta::default()
        },
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(LabelSelector {
                match_labels: Some(common_labels(&cluster.installation)),
                match_expressions: None,
            }),
            policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
            ingress: None,
            egress: Some(rules),
        }),
    }
}

fn peers(networks: &[Cidr]) -> Vec<NetworkPolicyPeer> {
    match networks {
        [] => network::LINK_LOCAL.map(network::outside).into(),
        networks => networks.iter().map(network::only).collect(),
    }
}
