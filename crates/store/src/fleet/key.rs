//! The key that encrypts secrets: 32 bytes in a file next to the database, readable by its owner only.
//! It is created with the first secret and never replaced.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use bailiwick_model::digest::Sha256Hex;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

use crate::location::Location;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;

pub(super) struct EncryptionKey {
    cipher: XChaCha20Poly1305,
    id: String,
}

pub(super) struct EncryptedValue {
    pub(super) nonce: Vec<u8>,
    pub(super) bytes: Vec<u8>,
}

/// The identity of a value. It is authenticated: a value decrypts only under its own identity.
#[derive(Debug, Clone, Copy)]
pub(super) struct AssociatedData<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) key: &'a str,
    pub(super) version: u64,
}

impl AssociatedData<'_> {
    /// An unambiguous encoding: each part follows its length.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"bailiwick.dev/secret/1".to_vec();
        for part in [self.namespace, self.name, self.key] {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(part.as_bytes());
        }
        bytes.extend(self.version.to_be_bytes());
        bytes
    }
}

/// The path of the key file of a database.
pub(super) fn path(location: &Location) -> PathBuf {
    location.companion(".key")
}

/// Why the key or a value cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    #[error("the key of the secrets, {}, cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "the key of the secrets, {0}, is accessible to others (mode {mode:03o}); run `chmod 600 {0}`, and set \
         the secrets again if somebody may have read it",
        path.display()
    )]
    Accessible { path: PathBuf, mode: u32 },
    #[error(
        "the key of the secrets, {}, has {length} bytes instead of {KEY_BYTES}; restore the original file",
        path.display()
    )]
    WrongLength { path: PathBuf, length: usize },
    #[error("the key of the secrets, {}, cannot be created: {source}", path.display())]
    NotCreated { path: PathBuf, source: io::Error },
    #[error("the value cannot be encrypted")]
    NotEncrypted,
    #[error(transparent)]
    NoRandomness(#[from] getrandom::Error),
}

impl EncryptionKey {
    fn of(bytes: [u8; KEY_BYTES]) -> Self {
        let mut labelled = b"bailiwick.dev/key-id/1".to_vec();
        labelled.extend(bytes);
        let id = Sha256Hex::of(labelled).prefix(16).to_owned();
        Self { cipher: XChaCha20Poly1305::new(&bytes.into()), id }
    }

    /// Identifies the key without revealing it.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Reads the key; none if there is no file.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, KeyError> {
        let unreadable = |source| KeyError::Unreadable { path: path.to_owned(), source };
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        };
        let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Accessible { path: path.to_owned(), mode });
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(unreadable)?;
        let length = bytes.len();
        let bytes: [u8; KEY_BYTES] = bytes
            .try_into()
            .map_err(|_| KeyError::WrongLength { path: path.to_owned(), length })?;
        Ok(Some(Self::of(bytes)))
    }

    /// Creates the key. The caller holds the write lock of the database, so nobody else creates one.
    pub(super) fn create(path: &Path) -> Result<Self, KeyError> {
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes)?;
        // Written completely and synced before anything depends on it.
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".new");
        let temporary = PathBuf::from(temporary);
        let write = || -> io::Result<()> {
            match std::fs::remove_file(&temporary) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let mut file =
                OpenOptions::new().create_new(true).write(true).mode(0o600).open(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            std::fs::rename(&temporary, path)?;
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
        };
        write().map_err(|source| KeyError::NotCreated { path: path.to_owned(), source })?;
        Ok(Self::of(bytes))
    }

    pub(super) fn encrypt(
        &self,
        identity: AssociatedData<'_>,
        value: &[u8],
    ) -> Result<EncryptedValue, KeyError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce)?;
        let payload = Payload { msg: value, aad: &identity.bytes() };
        let bytes = self.cipher.encrypt(&XNonce::from(nonce), payload);
        let bytes = bytes.map_err(|_| KeyError::NotEncrypted)?;
        Ok(EncryptedValue { nonce: nonce.to_vec(), bytes })
    }

    /// None if the value was changed or belongs to another identity.
    pub(super) fn decrypt(
        &self,
        identity: AssociatedData<'_>,
        value: &EncryptedValue,
    ) -> Option<Vec<u8>> {
        let nonce: [u8; NONCE_BYTES] = value.nonce.clone().try_into().ok()?;
        let payload = Payload { msg: &value.bytes, aad: &identity.bytes() };
        self.cipher.decrypt(&XNonce::from(nonce), payload).ok()
    }
}
