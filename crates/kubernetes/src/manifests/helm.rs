//! A Helm chart around the objects of a server and of the operators. Its templates are the printed objects, in which
//! values stand for what a person gives.

mod operators;
mod template;
mod values;

use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule,
    IngressServiceBackend, IngressSpec, IngressTLS, ServiceBackendPort,
};

use super::kustomize::ManifestFile;
use super::{NameError, Place, SERVER, Sandbox, Server};
use template::{NAMESPACE, template, when};
use values::VALUES_YAML;

const METRICS: &str = concat!(
    "  annotations:\n",
    "    prometheus.io/scrape: \"true\"\n",
    "    prometheus.io/port: \"7840\"\n",
    "    prometheus.io/path: /metrics\n",
);

/// Why a chart cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    /// A name that stands for a value is no name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// An object cannot be written.
    #[error("cannot write YAML: {0}")]
    Yaml(#[from] serde_saphyr::SerializeError),
}

/// The files of the chart. The namespace is that of the release, and no part of it.
pub fn chart(version: &str) -> Result<Vec<ManifestFile>, ChartError> {
    let (plain, agents) = (server(Sandbox::None)?, server(Sandbox::InPod)?);
    let plain_files = plain.manifests().files()?;
    let agent_files = agents.manifests().files()?;
    let mut files = vec![
        ManifestFile {
            path: "Chart.yaml".to_owned(),
            text: format!(
                "apiVersion: v2\nname: bailiwick\n\
                 description: bailiwick serve on PostgreSQL, and its operators\ntype: application\n\
                 version: {version}\nappVersion: \"{version}\"\nkubeVersion: \">=1.33.0-0\"\n"
            ),
        },
        ManifestFile { path: "values.yaml".to_owned(), text: VALUES_YAML.to_owned() },
    ];
    for (one, other) in plain_files.into_iter().zip(agent_files) {
        if one.path == "namespace.yaml" {
            continue;
        }
        let text = match one.path.as_str() {
            "networkpolicy.yaml" => when("networkPolicy.enabled", &one.text, None),
            "service.yaml" => with_annotations(&one.text),
            _ if one.text != other.text => when("agents", &other.text, Some(&one.text)),
            _ => one.text,
        };
        files.push(template(&one.path, &text));
    }
    let ingress = serde_saphyr::to_string(&ingress(&plain.place, &plain.host))?;
    files.push(template("ingress.yaml", &when("ingress.enabled", &ingress, None)));
    files.extend(operators::operator()?);
    files.extend(operators::jobs()?);
    Ok(files)
}

fn with_annotations(service: &str) -> String {
    let annotations = when("metrics.annotations", METRICS, None);
    service.replacen("metadata:\n", &format!("metadata:\n{annotations}"), 1)
}

fn server(sandbox: Sandbox) -> Result<Server, NameError> {
    Ok(Server {
        place: Place {
            namespace: NAMESPACE.parse()?,
            name: SERVER.parse()?,
            storage: "424242Gi".parse()?,
        },
        image: "values-image".to_owned(),
        host: "values-host".to_owned(),
        database: "values-database-secret/values-database-key".parse()?,
        ingress: "values-ingress-namespace".parse()?,
        sandbox,
    })
}

/// TLS ends at the controller.
fn ingress(place: &Place, host: &str) -> Ingress {
    let path = HTTPIngressPath {
        path: Some("/".to_owned()),
        path_type: "Prefix".to_owned(),
        backend: IngressBackend {
            service: Some(IngressServiceBackend {
                name: place.name.to_string(),
                port: Some(ServiceBackendPort { name: Some("http".to_owned()), number: None }),
            }),
            resource: None,
        },
    };
    Ingress {
        metadata: place.metadata(),
        spec: Some(IngressSpec {
            ingress_class_name: Some("values-ingress-class".to_owned()),
            tls: Some(vec![IngressTLS {
                hosts: Some(vec![host.to_owned()]),
                secret_name: Some("values-tls-secret".to_owned()),
            }]),
            rules: Some(vec![IngressRule {
                host: Some(host.to_owned()),
                http: Some(HTTPIngressRuleValue { paths: vec![path] }),
            }]),
            default_backend: None,
        }),
        status: None,
    }
}
