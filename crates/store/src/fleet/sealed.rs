//! Bytes that are stored encrypted with the key of the secrets, outside of the table of secrets.

use bailiwick_fleet::ports::FleetError;

use super::Fleet;
use super::key::{AssociatedData, EncryptedValue, EncryptionKey, path};

/// Encrypted bytes, and the key that opens them.
pub(crate) struct Sealed {
    pub(crate) key_id: String,
    pub(crate) nonce: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
}

/// The identity of the launch of an attempt. No namespace is empty, so it is never that of a secret.
fn identity(attempt: &str) -> AssociatedData<'_> {
    AssociatedData { namespace: "", name: attempt, key: "launch", version: 0 }
}

impl Fleet {
    /// Encrypts what an attempt is launched with. The key is created if there is none yet.
    pub(crate) async fn seal_launch(
        &self,
        attempt: &str,
        launch: &[u8],
    ) -> Result<Sealed, FleetError> {
        let mut transaction = self.begin_write().await?;
        let key = transaction.encryption_key().await;
        transaction.rollback().await;
        let key = key?;
        let EncryptedValue { nonce, bytes } =
            key.encrypt(identity(attempt), launch).map_err(|error| self.unavailable(error))?;
        Ok(Sealed { key_id: key.id().to_owned(), nonce, bytes })
    }

    /// The key that this program has. What is encrypted with another one cannot be opened here.
    pub(crate) fn key_id(&self) -> Result<Option<String>, FleetError> {
        let key = EncryptionKey::read(&path(&self.location));
        Ok(key.map_err(|error| self.unavailable(error))?.map(|key| key.id().to_owned()))
    }

    pub(crate) fn open_launch(&self, attempt: &str, sealed: Sealed) -> Result<Vec<u8>, FleetError> {
        let Sealed { key_id, nonce, bytes } = sealed;
        let key = EncryptionKey::read(&path(&self.location));
        let key = key.map_err(|error| self.unavailable(error))?;
        let key = key.filter(|key| key.id() == key_id);
        let opened =
            key.and_then(|key| key.decrypt(identity(attempt), &EncryptedValue { nonce, bytes }));
        opened.ok_or_else(|| {
            self.unavailable(format!(
                "what `{attempt}` is launched with cannot be decrypted; retry its run"
            ))
        })
    }
}
