//! What may reach a pod, and what it may reach.

use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
    NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Cidr, Label, Place};

/// All addresses, and those of a link, at which clouds offer credentials.
pub(crate) const LINK_LOCAL: [(&str, &str); 2] =
    [("0.0.0.0/0", "169.254.0.0/16"), ("::/0", "fe80::/10")];
/// More addresses at which clouds offer credentials.
const METADATA: &str = "fd00:ec2::/32";

/// Requests come from one namespace to one port, or from nowhere. The pod reaches names, and these ports of others.
pub(super) fn policy(
    place: &Place,
    ingress: Option<(&Label, i32)>,
    ports: &[i32],
) -> NetworkPolicySpec {
    let dns = [port("UDP", 53), port("TCP", 53)];
    let rule = |(namespace, number): (&Label, i32)| NetworkPolicyIngressRule {
        from: Some(vec![inside(namespace.to_string())]),
        ports: Some(vec![port("TCP", number)]),
    };
    NetworkPolicySpec {
        pod_selector: Some(place.selector()),
        policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
        ingress: ingress.map(|from| vec![rule(from)]),
        egress: Some(vec![
            NetworkPolicyEgressRule {
                to: Some(vec![inside("kube-system".to_owned())]),
                ports: Some(dns.into()),
            },
            NetworkPolicyEgressRule {
                to: Some(LINK_LOCAL.map(outside).into()),
                ports: Some(ports.iter().map(|number| port("TCP", *number)).collect()),
            },
        ]),
    }
}

/// All pods of a namespace.
pub(crate) fn inside(namespace: String) -> NetworkPolicyPeer {
    let label = ("kubernetes.io/metadata.name".to_owned(), namespace);
    NetworkPolicyPeer {
        namespace_selector: Some(LabelSelector {
            match_labels: Some([label].into()),
            match_expressions: None,
        }),
        ..NetworkPolicyPeer::default()
    }
}

/// All addresses but those at which clouds offer credentials. Nodes, pods and the API server are among them.
pub(crate) fn outside((all, except): (&str, &str)) -> NetworkPolicyPeer {
    let metadata = all.contains(':').then(|| METADATA.to_owned());
    let except = [except.to_owned()].into_iter().chain(metadata).collect();
    NetworkPolicyPeer {
        ip_block: Some(IPBlock { cidr: all.to_owned(), except: Some(except) }),
        ..NetworkPolicyPeer::default()
    }
}

/// The addresses of a network, but those at which clouds offer credentials.
pub(crate) fn only(network: &Cidr) -> NetworkPolicyPeer {
    let except = Some(network.credentials()).filter(|except| !except.is_empty());
    NetworkPolicyPeer {
        ip_block: Some(IPBlock { cidr: network.to_string(), except }),
        ..NetworkPolicyPeer::default()
    }
}

pub(crate) fn port(protocol: &str, number: i32) -> NetworkPolicyPort {
    NetworkPolicyPort {
        protocol: Some(protocol.to_owned()),
        port: Some(IntOrString::Int(number)),
        end_port: None,
    }
}
