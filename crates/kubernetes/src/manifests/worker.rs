//! `bailiwick worker`: it dials a server, and nothing reaches it.

use k8s_openapi::api::core::v1::{Container, KeyToPath, SecretVolumeSource, Volume};

use super::{Label, Manifests, Place, Sandbox, SecretKey, ServerAddress, network, pod};

/// Where the token is.
const TOKEN: &str = "/run/bailiwick-join";
/// Readable by the group of the pod.
const TOKEN_MODE: i32 = 0o440;

/// A worker.
#[derive(Debug, Clone)]
pub struct Worker {
    /// Where it is.
    pub place: Place,
    /// The container image, with `bailiwick`, git and the agent programs.
    pub image: String,
    /// The server.
    pub server: ServerAddress,
    /// The pool whose attempts it runs.
    pub pool: Label,
    /// The secret with a token of `bailiwick workers token`.
    pub join_token: SecretKey,
    /// How many attempts run at the same time.
    pub slots: u8,
}

impl Worker {
    /// Its objects.
    pub fn manifests(&self) -> Manifests {
        let sandbox = Sandbox::InPod;
        let token = Volume {
            name: "join".to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(self.join_token.name.clone()),
                items: Some(vec![KeyToPath {
                    key: self.join_token.key.clone(),
                    path: "token".to_owned(),
                    mode: None,
                }]),
                default_mode: Some(TOKEN_MODE),
                optional: None,
            }),
            ..Volume::default()
        };
        let pod = pod::pod(&self.place, sandbox, self.container(sandbox), Some(token));
        let mut ports = vec![443];
        ports.extend(Some(self.server.port()).filter(|port| *port != 443));
        let network = network::policy(&self.place, None, &ports);
        Manifests::new(&self.place, sandbox, pod, network)
    }

    fn container(&self, sandbox: Sandbox) -> Container {
        let (server, pool) = (self.server.to_string(), self.pool.to_string());
        let (name, slots) = (self.place.name.to_string(), self.slots.to_string());
        let (token, directory) = (format!("{TOKEN}/token"), format!("{}/worker", pod::DATA));
        let command = [
            "bailiwick",
            "worker",
            "--server",
            &server,
            "--pool",
            &pool,
            "--name",
            &name,
            "--slots",
            &slots,
            "--join-token-file",
            &token,
            "--directory",
            &directory,
        ];
        let command = command.map(str::to_owned).into();
        let mut container = pod::container(&self.image, sandbox, command, Vec::new());
        let mut join = pod::mount("join", TOKEN);
        join.read_only = Some(true);
        container.volume_mounts.get_or_insert_default().push(join);
        container
    }
}
