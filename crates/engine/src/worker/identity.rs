//! The name and the credential of a worker, in a file that only its owner can read.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bailiwick_fleet::workers::{
    JoinAnswer, RenewRequest, WorkerApi, WorkerCapabilities, WorkerError,
};
use serde::{Deserialize, Serialize};

use super::VERSION;
use crate::failure::Failure;
use crate::system;

const FILE: &str = "identity.json";

/// A worker that has joined.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Identity {
    server: String,
    pool: String,
    pub(super) worker: String,
    credential: String,
    /// When the credential is renewed, in milliseconds since 1970.
    renew_at: u64,
}

impl Identity {
    pub(super) fn new(server: &str, pool: &str, joined: JoinAnswer) -> Self {
        let JoinAnswer { worker, credential, valid_seconds } = joined;
        // At half of its time.
        let renew_at = system::now_ms().saturating_add(valid_seconds.saturating_mul(500));
        Self { server: server.to_owned(), pool: pool.to_owned(), worker, credential, renew_at }
    }

    pub(super) fn secret(&self) -> &str {
        &self.credential
    }

    pub(super) fn read(directory: &Path) -> Result<Option<Self>, Failure> {
        system::read_json(&directory.join(FILE))
    }

    pub(super) fn write(&self, directory: &Path) -> Result<(), Failure> {
        system::write_json(&directory.join(FILE), self)
    }

    /// A directory belongs to one server and one pool.
    pub(super) fn require(&self, server: &str, pool: &str) -> Result<(), Failure> {
        if self.server == server && self.pool == pool {
            return Ok(());
        }
        let text = format!(
            "this directory belongs to the worker {} of {}, pool {}",
            self.worker, self.server, self.pool
        );
        Err(Failure::refused(text).help("give this worker another one: --directory DIR"))
    }
}

/// A request for another credential, with what the machine offers now.
pub(super) fn renewal(offered: WorkerCapabilities) -> RenewRequest {
    RenewRequest { version: VERSION.to_owned(), capabilities: Some(offered) }
}

/// The identity of a running worker.
pub(super) struct Credentials {
    directory: PathBuf,
    identity: Mutex<Identity>,
}

impl Credentials {
    pub(super) fn new(directory: PathBuf, identity: Identity) -> Self {
        Self { directory, identity: Mutex::new(identity) }
    }

    fn identity(&self) -> MutexGuard<'_, Identity> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn worker(&self) -> String {
        self.identity().worker.clone()
    }

    pub(super) fn secret(&self) -> String {
        self.identity().credential.clone()
    }

    /// Renews the credential if it is time.
    pub(super) async fn renew(
        &self,
        api: &dyn WorkerApi,
        offered: impl Future<Output = WorkerCapabilities>,
    ) -> Result<(), WorkerError> {
        let (server, pool, is_due) = {
            let now = self.identity();
            (now.server.clone(), now.pool.clone(), system::now_ms() >= now.renew_at)
        };
        if !is_due {
            return Ok(());
        }
        let renewed = api.renew(&self.secret(), renewal(offered.await)).await?;
        let fresh = Identity::new(&server, &pool, renewed);
        let written = fresh.write(&self.directory);
        *self.identity() = fresh;
        written.map_err(|failure| WorkerError::Unavailable(failure.in_one_line()))
    }
}
