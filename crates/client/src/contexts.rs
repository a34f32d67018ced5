//! The file with the logins: which servers a person uses, and with which token.
//!
//! Only its owner may read it. A file that others can read is refused, because its tokens are not secret any more.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{DirBuilder, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::server_address::{AddressError, PlainHttp, ServerAddress};

/// The name that stands for this machine's own database.
pub const LOCAL: &str = "local";

const MAX_FILE_BYTES: u64 = 1024 * 1024;
const MAX_NAME_LENGTH: usize = 100;
const DEFAULT_NAMESPACE: &str = "default";

#[derive(Debug, Error)]
pub enum ContextsError {
    #[error("{} cannot be used: {why}", path.display())]
    Unusable { path: PathBuf, why: String },
    #[error("other users can read {}, so its tokens are not secret", path.display())]
    Exposed { path: PathBuf },
    #[error("there is no context `{name}`")]
    Unknown { name: String },
    #[error("`{name}` cannot name a context: use letters, digits and `-_.:@`, not `{LOCAL}`")]
    Name { name: String },
}

/// A token; it is never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// A token that can be sent in a header.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_sendable = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_sendable.then(|| Self(text.to_owned()))
    }

    pub(crate) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token(…)")
    }
}

/// The name of a context; never that of the local database.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContextName(String);

impl ContextName {
    pub fn parse(name: &str) -> Result<Self, ContextsError> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:@".contains(letter);
        let is_valid = !name.is_empty()
            && name.len() <= MAX_NAME_LENGTH
            && name != LOCAL
            && !name.starts_with('-')
            && name.chars().all(is_plain);
        if is_valid {
            Ok(Self(name.to_owned()))
        } else {
            Err(ContextsError::Name { name: name.to_owned() })
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A login: a server, and who to be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerContext {
    pub server: String,
    pub token: Token,
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Whether the person has allowed to send the token unencrypted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure_http: bool,
}

fn default_namespace() -> String {
    DEFAULT_NAMESPACE.to_owned()
}

impl ServerContext {
    pub fn address(&self) -> Result<ServerAddress, AddressError> {
        let plain = if self.insecure_http { PlainHttp::Anywhere } else { PlainHttp::LoopbackOnly };
        ServerAddress::parse(&self.server, plain)
    }
}

/// All logins, and the one that is used if none is named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    #[serde(default)]
    contexts: BTreeMap<String, ServerContext>,
}

impl Contexts {
    /// The name of the context in use; nothing is the local database.
    pub fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    pub fn all(&self) -> impl Iterator<Item = (&str, &ServerContext)> {
        self.contexts.iter().map(|(name, context)| (name.as_str(), context))
    }

    pub fn find(&self, name: &str) -> Result<&ServerContext, ContextsError> {
        self.contexts.get(name).ok_or_else(|| ContextsError::Unknown { name: name.to_owned() })
    }

    /// Adds or replaces a login and uses it.
    pub fn insert(&mut self, name: &ContextName, context: ServerContext) {
        self.contexts.insert(name.as_str().to_owned(), context);
        self.current = Some(name.as_str().to_owned());
    }

    /// Uses a login, or the local database.
    pub fn select(&mut self, name: &str) -> Result<(), ContextsError> {
        if name == LOCAL {
            self.current = None;
            return Ok(());
        }
        self.find(name)?;
        self.current = Some(name.to_owned());
        Ok(())
    }

    /// Forgets a login; commands use the local database afterwards if it was in use.
    pub fn remove(&mut self, name: &str) -> Result<ServerContext, ContextsError> {
        let removed = self
            .contexts
            .remove(name)
            .ok_or_else(|| ContextsError::Unknown { name: name.to_owned() })?;
        if self.current.as_deref() == Some(name) {
            self.current = None;
        }
        Ok(removed)
    }
}

/// Where the logins are stored.
#[derive(Debug, Clone)]
pub struct ContextsFile {
    path: PathBuf,
}

impl ContextsFile {
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The logins; none if there is no file.
    pub fn load(&self) -> Result<Contexts, ContextsError> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Contexts::default());
            }
            Err(error) => return Err(self.unusable(error)),
        };
        let about = file.metadata().map_err(|error| self.unusable(error))?;
        if about.permissions().mode() & 0o077 != 0 {
            return Err(ContextsError::Exposed { path: self.path.clone() });
        }
        let mut text = String::new();
        let read = (&mut file).take(MAX_FILE_BYTES + 1).read_to_string(&mut text);
        read.map_err(|error| self.unusable(error))?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(self.unusable(format!("it is larger than {MAX_FILE_BYTES} bytes")));
        }
        // The parser would quote the line, and the line may have a token.
        toml::from_str(&text).map_err(|error| self.unusable(error.message()))
    }

    /// Changes the logins; nobody else writes meanwhile.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut Contexts) -> Result<T, ContextsError>,
    ) -> Result<T, ContextsError> {
        let directory = self.path.parent().filter(|path| !path.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(directory).map_err(|error| self.unusable(error))?;
        let lock = File::open(directory).map_err(|error| self.unusable(error))?;
        lock.lock().map_err(|error| self.unusable(error))?;
        let mut contexts = self.load()?;
        let changed = change(&mut contexts)?;
        let text = toml::to_string(&contexts).map_err(|error| self.unusable(error))?;
        // A temporary file is readable by its owner only, and replaces the old file at once.
        let mut file =
            tempfile::NamedTempFile::new_in(directory).map_err(|error| self.unusable(error))?;
        file.write_all(text.as_bytes()).map_err(|error| self.unusable(error))?;
        file.as_file().sync_all().map_err(|error| self.unusable(error))?;
        file.persist(&self.path).map_err(|error| self.unusable(error.error))?;
        Ok(changed)
    }

    fn unusable(&self, why: impl fmt::Display) -> ContextsError {
        ContextsError::Unusable { path: self.path.clone(), why: why.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::{ContextName, ContextsError, ContextsFile, LOCAL, ServerContext, Token};

    fn context(token: &str) -> ServerContext {
        ServerContext {
            server: "https://fleet.example".to_owned(),
            token: Token::parse(token).unwrap(),
            namespace: "default".to_owned(),
            insecure_http: false,
        }
    }

    fn log_in(file: &ContextsFile) {
        let name = ContextName::parse("team").unwrap();
        let insert = |all: &mut super::Contexts| {
            all.insert(&name, context("bwk_one"));
            Ok(())
        };
        file.change(insert).unwrap();
    }

    fn mode(path: &std::path::Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn logins_are_readable_by_their_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let file = ContextsFile::at(directory.path().join("new/client/contexts.toml"));
        assert_eq!(file.load().unwrap().all().count(), 0);
        log_in(&file);
        assert_eq!((mode(file.path()), mode(file.path().parent().unwrap())), (0o600, 0o700));
        let all = file.load().unwrap();
        assert_eq!((all.current(), all.find("team").unwrap()), (Some("team"), &context("bwk_one")));
        assert!(!format!("{all:?}").contains("bwk_one"));
        file.change(|all| all.select(LOCAL)).unwrap();
        assert_eq!(file.load().unwrap().current(), None);
        file.change(|all| all.select("team")).unwrap();
        file.change(|all| all.remove("team")).unwrap();
        let all = file.load().unwrap();
        assert_eq!((all.current(), all.all().count()), (None, 0));
        assert!(matches!(
            file.change(|all| all.select("team")),
            Err(ContextsError::Unknown { .. })
        ));
    }

    #[test]
    fn file_that_others_can_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = ContextsFile::at(directory.path().join("contexts.toml"));
        log_in(&file);
        file.load().unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(file.load(), Err(ContextsError::Exposed { .. })));
    }

    #[test]
    fn errors_do_not_contain_tokens() {
        let directory = tempfile::tempdir().unwrap();
        let file = ContextsFile::at(directory.path().join("contexts.toml"));
        log_in(&file);
        let text = std::fs::read_to_string(file.path()).unwrap();
        for malformed in [text.replace("token", "tokken"), text.replace("\"bwk_one\"", "\"bwk_one")]
        {
            std::fs::write(file.path(), malformed).unwrap();
            let message = file.load().unwrap_err().to_string();
            assert!(!message.contains("bwk_one"), "{message}");
        }
    }

    #[test]
    fn invalid_names_and_tokens_are_refused() {
        for invalid in ["", LOCAL, "a b", "-x", "a/b", "a\u{1b}[1m"] {
            assert!(ContextName::parse(invalid).is_err(), "{invalid:?}");
        }
        ContextName::parse("fleet.example:7840").unwrap();
        assert!(Token::parse("bwk_a b").is_none() && Token::parse(" ").is_none());
        assert_eq!(Token::parse(" bwk_a\n").unwrap().secret(), "bwk_a");
    }
}
