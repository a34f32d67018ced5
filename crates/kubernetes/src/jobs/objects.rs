//! What a Job needs beside itself: the token with which its worker joins, and a policy for the network of its pod.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyPeer, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};

use super::job::Cluster;
use super::name::{TOKEN_KEY, common_labels};
use crate::manifests::{Label, network};

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
            labels: Some(common_labels()),
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

/// The pods of attempts are reached by nothing. They reach names, the server and the model.
pub fn network_policy(namespace: &Label, cluster: &Cluster) -> NetworkPolicy {
    let dns = [network::port("UDP", 53), network::port("TCP", 53)];
    let anywhere =
        || -> Vec<NetworkPolicyPeer> { network::LINK_LOCAL.map(network::outside).into() };
    let networks = cluster.model_networks.iter();
    let models: Vec<NetworkPolicyPeer> = networks.map(|cidr| only(cidr)).collect();
    let models = if models.is_empty() { anywhere() } else { models };
    let rules = vec![
        NetworkPolicyEgressRule {
            to: Some(vec![network::inside("kube-system".to_owned())]),
            ports: Some(dns.into()),
        },
        NetworkPolicyEgressRule {
            to: Some(anywhere()),
            ports: Some(vec![network::port("TCP", cluster.server.port())]),
        },
        NetworkPolicyEgressRule {
            to: Some(models),
            ports: Some(vec![network::port("TCP", MODEL_PORT)]),
        },
    ];
    NetworkPolicy {
        metadata: ObjectMeta {
            name: Some("bailiwick-attempts".to_owned()),
            namespace: Some(namespace.to_string()),
            labels: Some(common_labels()),
            ..ObjectMeta::default()
        },
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(LabelSelector {
                match_labels: Some(common_labels()),
                match_expressions: None,
            }),
            policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
            ingress: None,
            egress: Some(rules),
        }),
    }
}

fn only(cidr: &str) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        ip_block: Some(IPBlock { cidr: cidr.to_owned(), except: None }),
        ..NetworkPolicyPeer::default()
    }
}
