//! The key by which secrets are kept: 32 bytes in a file beside the database that only its owner
//! may read. It is made when the first secret is, and never again.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use bailiwick_model::digest::Sha256Hex;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

use crate::location::Location;

const LENGTH: usize = 32;
const NONCE: usize = 24;

/// A key.
pub(super) struct SecretKeeper {
    cipher: XChaCha20Poly1305,
    id: String,
}

/// A value as it is kept.
pub(super) struct Sealed {
    pub(super) nonce: Vec<u8>,
    pub(super) bytes: Vec<u8>,
}

/// What a value belongs to. It opens nowhere else.
#[derive(Debug, Clone, Copy)]
pub(super) struct Belonging<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) key: &'a str,
    pub(super) version: u64,
}

impl Belonging<'_> {
    /// Its bytes; lengths come first, so that no two of them are the same.
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

/// The file of the key of a database.
pub(super) fn path(location: &Location) -> PathBuf {
    let mut path = location.path().as_os_str().to_owned();
    path.push(".key");
    PathBuf::from(path)
}

impl SecretKeeper {
    fn of(bytes: [u8; LENGTH]) -> Self {
        let mut named = b"bailiwick.dev/key-id/1".to_vec();
        named.extend(bytes);
        let id = Sha256Hex::of(named).prefix(16).to_owned();
        Self { cipher: XChaCha20Poly1305::new(&bytes.into()), id }
    }

    /// What tells this key from others; the key cannot be had from it.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Reads the key, if there is a file.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, String> {
        let unread = |error: std::io::Error| {
            format!("the key of the secrets, {}, cannot be read: {error}", path.display())
        };
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unread(error)),
        };
        let mode = file.metadata().map_err(unread)?.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            let path = path.display();
            return Err(format!(
                "the key of the secrets, {path}, may be used by others (mode {mode:03o}); \
                 run `chmod 600 {path}`, and set the secrets anew if somebody may have read it"
            ));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(unread)?;
        let length = bytes.len();
        let bytes: [u8; LENGTH] = bytes.try_into().map_err(|_| {
            format!(
                "the key of the secrets, {}, has {length} bytes and not {LENGTH}; \
                 put back the file that it was",
                path.display()
            )
        })?;
        Ok(Some(Self::of(bytes)))
    }

    /// Makes a key. Whoever calls this is alone: it holds the write lock of the database.
    pub(super) fn make(path: &Path) -> Result<Self, String> {
        let unmade = |error: &dyn std::fmt::Display| {
            format!("the key of the secrets, {}, cannot be made: {error}", path.display())
        };
        let mut bytes = [0; LENGTH];
        getrandom::fill(&mut bytes).map_err(|error| unmade(&error))?;
        // Whole or not at all, and on the disk before anything depends on it.
        let mut half = path.as_os_str().to_owned();
        half.push(".new");
        let half = PathBuf::from(half);
        let write = || -> std::io::Result<()> {
            match std::fs::remove_file(&half) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let mut file =
                OpenOptions::new().create_new(true).write(true).mode(0o600).open(&half)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            std::fs::rename(&half, path)?;
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
        };
        write().map_err(|error| unmade(&error))?;
        Ok(Self::of(bytes))
    }

    /// Encrypts a value for where it belongs.
    pub(super) fn seal(&self, to: Belonging<'_>, value: &[u8]) -> Result<Sealed, String> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(|error| error.to_string())?;
        let payload = Payload { msg: value, aad: &to.bytes() };
        let bytes = self.cipher.encrypt(&XNonce::from(nonce), payload);
        let bytes = bytes.map_err(|_| "the value cannot be encrypted".to_owned())?;
        Ok(Sealed { nonce: nonce.to_vec(), bytes })
    }

    /// Decrypts a value; only where it belongs, and only as it was.
    pub(super) fn open(&self, of: Belonging<'_>, sealed: &Sealed) -> Option<Vec<u8>> {
        let nonce: [u8; NONCE] = sealed.nonce.clone().try_into().ok()?;
        let payload = Payload { msg: &sealed.bytes, aad: &of.bytes() };
        self.cipher.decrypt(&XNonce::from(nonce), payload).ok()
    }
}
