//! `bailiwick serve`, and its address.

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, Probe, SecretKeySelector,
    Service, ServicePort, ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Label, Manifests, Place, Sandbox, SecretKey, network, pod};

/// The port of the server.
const PORT: i32 = 7840;

/// A server.
#[derive(Debug, Clone)]
pub struct Server {
    /// Where it is.
    pub place: Place,
    /// The container image, with `bailiwick`, git and the agent programs.
    pub image: String,
    /// The host name that people and forges use.
    pub host: String,
    /// The secret with the address of the database, as `postgres://…`.
    pub database: SecretKey,
    /// The namespace from which requests come: that of the ingress controller.
    pub ingress: Label,
    /// What the pod can do.
    pub sandbox: Sandbox,
}

impl Server {
    /// Its objects.
    pub fn manifests(&self) -> Manifests {
        let pod = pod::pod(&self.place, self.sandbox, self.container(), None);
        let network = network::policy(&self.place, Some((&self.ingress, PORT)), &[443, 5432]);
        let manifests = Manifests::new(&self.place, self.sandbox, pod, network);
        Manifests { service: Some(self.service()), ..manifests }
    }

    fn container(&self) -> Container {
        let Place { namespace, name, .. } = &self.place;
        let (listen, inside) = (format!("0.0.0.0:{PORT}"), format!("{name}.{namespace}.svc"));
        let host = &self.host;
        let command = [
            "bailiwick",
            "serve",
            "--listen",
            &listen,
            "--network",
            "--host",
            host,
            "--host",
            &inside,
        ];
        let command = command.map(str::to_owned).into();
        Container {
            ports: Some(vec![ContainerPort {
                name: Some("http".to_owned()),
                container_port: PORT,
                ..ContainerPort::default()
            }]),
            readiness_probe: Some(probe("/readyz")),
            liveness_probe: Some(probe("/healthz")),
            ..pod::container(&self.image, self.sandbox, command, vec![self.database()])
        }
    }

    fn database(&self) -> EnvVar {
        let from_secret = EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: self.database.name.clone(),
                key: self.database.key.clone(),
                optional: None,
            }),
            ..EnvVarSource::default()
        };
        EnvVar {
            name: "KEI_LEDGER_DB".to_owned(),
            value_from: Some(from_secret),
            ..EnvVar::default()
        }
    }

    fn service(&self) -> Service {
        Service {
            metadata: self.place.metadata(),
            spec: Some(ServiceSpec {
                selector: self.place.selector().match_labels,
                ports: Some(vec![ServicePort {
                    name: Some("http".to_owned()),
                    port: PORT,
                    target_port: Some(IntOrString::String("http".to_owned())),
                    ..ServicePort::default()
                }]),
                ..ServiceSpec::default()
            }),
            status: None,
        }
    }
}

fn probe(path: &str) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String("http".to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(10),
        timeout_seconds: Some(5),
        failure_threshold: Some(6),
        ..Probe::default()
    }
}
