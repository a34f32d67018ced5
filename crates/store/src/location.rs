//! The location of a database.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use bailiwick_model::digest::Sha256Hex;
use sqlx::postgres::PgConnectOptions;
use thiserror::Error;

/// The parameter of a URL that says which pooler is between us and the server.
const POOLER: &str = "pooler";

/// The path of an SQLite file, or the address of a PostgreSQL database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location(Place);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    File(PathBuf),
    Postgres(PostgresAddress),
}

#[derive(Clone, PartialEq, Eq)]
struct PostgresAddress {
    /// May contain a password: it is never shown.
    url: String,
    /// Whether a transaction pooler is between us and the server.
    is_behind_pooler: bool,
    shown: String,
    /// The common beginning of the paths of files that this machine keeps for the database.
    local: PathBuf,
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown.fmt(out)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` cannot be used as a database: {why}")]
pub struct LocationError {
    text: String,
    why: String,
}

impl Location {
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(Place::File(path.into()))
    }

    /// Reads what a person wrote: a path, `sqlite://PATH` or `postgres://USER@HOST/NAME`. Files that belong to a
    /// PostgreSQL database on this machine are kept in the state directory.
    pub fn parse(text: &str, state: &Path) -> Result<Self, LocationError> {
        let refuse = |why: &str| Err(LocationError { text: text.to_owned(), why: why.to_owned() });
        match text.split_once("://") {
            _ if text.is_empty() => refuse("it is empty"),
            None => Ok(Self::file(text)),
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::file(path)),
            Some(("postgres" | "postgresql", _)) => Self::postgres(text, state),
            Some(_) => refuse("write a path, sqlite://<path> or postgres://<user>@<host>/<name>"),
        }
    }

    fn postgres(url: &str, state: &Path) -> Result<Self, LocationError> {
        // The URL is not repeated: it may contain a password.
        let refuse = |why| LocationError { text: "postgres://…".to_owned(), why };
        let (url, pooler) = without_pooler(url);
        let is_behind_pooler = match pooler {
            None => false,
            Some("transaction") => true,
            Some(other) => {
                return Err(refuse(format!(
                    "`{POOLER}={other}` is unknown: write `{POOLER}=transaction`, or leave it out if the pooler keeps one connection for each client"
                )));
            }
        };
        let options =
            PgConnectOptions::from_str(&url).map_err(|error| refuse(error.to_string()))?;
        let name = options.get_database().unwrap_or(options.get_username());
        let host = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => options.get_host().to_owned(),
        };
        let shown =
            format!("postgres://{}@{host}:{}/{name}", options.get_username(), options.get_port());
        let local = state.join(format!("postgres-{}", Sha256Hex::of(&shown).prefix(16)));
        Ok(Self(Place::Postgres(PostgresAddress { url, is_behind_pooler, shown, local })))
    }

    /// The file of an SQLite database.
    pub fn sqlite_file(&self) -> Option<&Path> {
        match &self.0 {
            Place::File(path) => Some(path),
            Place::Postgres(_) => None,
        }
    }

    /// The path of a file that this machine keeps for the database, with this ending.
    pub fn companion(&self, ending: &str) -> PathBuf {
        let mut path = match &self.0 {
            Place::File(path) => path,
            Place::Postgres(address) => &address.local,
        }
        .as_os_str()
        .to_owned();
        path.push(ending);
        PathBuf::from(path)
    }

    /// What a process is given so that it opens the same database. It may contain a password: it belongs into the
    /// environment, not among arguments, which everybody can read.
    pub fn secret_text(&self) -> Option<String> {
        match &self.0 {
            Place::File(path) => path.to_str().map(str::to_owned),
            Place::Postgres(address) if address.is_behind_pooler => {
                let separator = if address.url.contains('?') { '&' } else { '?' };
                Some(format!("{}{separator}{POOLER}=transaction", address.url))
            }
            Place::Postgres(address) => Some(address.url.clone()),
        }
    }

    /// Whether statements pass a transaction pooler.
    pub(crate) fn is_behind_pooler(&self) -> bool {
        matches!(&self.0, Place::Postgres(address) if address.is_behind_pooler)
    }

    /// The URL that opens the database; none if its path is not UTF-8. It never creates the file: a database that was
    /// moved away must not be replaced by an empty one.
    pub(crate) fn url(&self) -> Option<String> {
        let path = match &self.0 {
            Place::File(path) => path,
            Place::Postgres(address) => return Some(address.url.clone()),
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte);
        let escape = |byte: u8| match is_plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        };
        let path: String = path.to_str()?.bytes().map(escape).collect();
        Some(format!("sqlite://{path}?mode=rw"))
    }
}

/// A URL without what it says of a pooler, which the server would not understand; and that.
fn without_pooler(url: &str) -> (String, Option<&str>) {
    let Some((address, query)) = url.split_once('?') else { return (url.to_owned(), None) };
    let mut pooler = None;
    let mut others = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some((POOLER, value)) => pooler = Some(value),
            _ => others.push(pair),
        }
    }
    match others.is_empty() {
        true => (address.to_owned(), pooler),
        false => (format!("{address}?{}", others.join("&")), pooler),
    }
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::File(path) => path.display().fmt(out),
            Place::Postgres(address) => address.shown.fmt(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Location;

    #[test]
    fn special_characters_stay_part_of_the_path() {
        let url = Location::file("/a b/c?d#e%f/ü.db").url().unwrap();
        assert_eq!(url, "sqlite:///a%20b/c%3Fd%23e%25f/%C3%BC.db?mode=rw");
    }

    #[test]
    fn other_databases_are_refused() {
        let parse = |text: &str| Location::parse(text, Path::new("/state"));
        assert!(parse("mysql://x/y").is_err());
        assert!(parse("").is_err());
        assert_eq!(parse("sqlite:///x.db"), Ok(Location::file("/x.db")));
        assert_eq!(parse("x.db"), Ok(Location::file("x.db")));
    }

    #[test]
    fn password_is_never_shown() {
        let url = "postgres://ada:hunter2@db.example:5433/fleet?sslmode=require";
        let location = Location::parse(url, Path::new("/state")).unwrap();
        assert_eq!(location.to_string(), "postgres://ada@db.example:5433/fleet");
        assert!(!format!("{location:?}").contains("hunter2"));
        assert_eq!(location.url().as_deref(), Some(url), "positive control: the password is used");
        let wrong = Location::parse("postgres://ada:hunter2@:x:y/fleet", Path::new("/state"));
        assert!(!wrong.unwrap_err().to_string().contains("hunter2"));
    }

    #[test]
    fn pooler_is_not_another_database() {
        let parse = |text: &str| Location::parse(text, Path::new("/state"));
        let direct = parse("postgres://ada@h/fleet?sslmode=require").unwrap();
        let pooled = parse("postgres://ada@h/fleet?pooler=transaction&sslmode=require").unwrap();
        assert_eq!(pooled.url(), direct.url());
        assert_eq!(pooled.companion(".key"), direct.companion(".key"));
        assert!(pooled.is_behind_pooler() && !direct.is_behind_pooler());
        let passed_on = parse(&pooled.secret_text().unwrap()).unwrap();
        assert_eq!(passed_on, pooled);
        assert!(parse("postgres://ada@h/fleet?pooler=session").is_err());
    }

    #[test]
    fn databases_with_different_addresses_have_different_files() {
        let key = |url: &str| Location::parse(url, Path::new("/state")).unwrap().companion(".key");
        assert_eq!(key("/a/x.db"), Path::new("/a/x.db.key"));
        assert_ne!(key("postgres://a@h/one"), key("postgres://a@h/two"));
        assert!(key("postgres://a@h/one").starts_with("/state"));
    }
}
