//! The location of a database.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use bailiwick_model::digest::Sha256Hex;
use sqlx::postgres::PgConnectOptions;
use thiserror::Error;

use crate::connections::{LEASE_HOLDERS, WRITERS};

/// The parameter of a URL that says which pooler is between us and the server.
const POOLER: &str = "pooler";

/// The parameter of a URL that limits the connections of a program.
const MAX_CONNECTIONS: &str = "max_connections";

/// How many connections a program may have, if its URL does not say it.
const DEFAULT_MAX_CONNECTIONS: u32 = 12;

/// With fewer connections, a write or the renewal of the leader's lease could wait for reads.
const MIN_CONNECTIONS: u32 = 6;

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
    /// How many connections a program may have at most.
    max_connections: Option<u32>,
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
        let OwnParameters { url, pooler, max_connections } = OwnParameters::of(url);
        let is_behind_pooler = match pooler {
            None => false,
            Some("transaction") => true,
            Some(other) => {
                return Err(refuse(format!(
                    "`{POOLER}={other}` is unknown: write `{POOLER}=transaction`, or leave it out if the pooler keeps one connection for each client"
                )));
            }
        };
        let max_connections = match max_connections.map(|text| (text, text.parse::<u32>())) {
            None => None,
            Some((_, Ok(max))) if max >= MIN_CONNECTIONS => Some(max),
            Some((text, _)) => {
                return Err(refuse(format!(
                    "`{MAX_CONNECTIONS}={text}` is not possible: write a number of {MIN_CONNECTIONS} or more"
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
        let address = PostgresAddress { url, is_behind_pooler, max_connections, shown, local };
        Ok(Self(Place::Postgres(address)))
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
            Place::Postgres(address) => Some(address.url_with_own_parameters()),
        }
    }

    /// How many connections this program may have for reads, besides those for writes and for the leader's lease.
    pub(crate) fn max_readers(&self) -> u32 {
        let max = match &self.0 {
            Place::File(_) => None,
            Place::Postgres(address) => address.max_connections,
        };
        max.unwrap_or(DEFAULT_MAX_CONNECTIONS).saturating_sub(WRITERS + LEASE_HOLDERS).max(1)
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

impl PostgresAddress {
    /// The URL with the parameters that only this program understands.
    fn url_with_own_parameters(&self) -> String {
        let pooler = self.is_behind_pooler.then(|| format!("{POOLER}=transaction"));
        let max = self.max_connections.map(|max| format!("{MAX_CONNECTIONS}={max}"));
        pooler.into_iter().chain(max).fold(self.url.clone(), |url, parameter| {
            let separator = if url.contains('?') { '&' } else { '?' };
            format!("{url}{separator}{parameter}")
        })
    }
}

/// A URL without the parameters that the server would not understand; and those.
struct OwnParameters<'a> {
    url: String,
    pooler: Option<&'a str>,
    max_connections: Option<&'a str>,
}

impl<'a> OwnParameters<'a> {
    fn of(url: &'a str) -> Self {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut pooler, mut max_connections) = (None, None);
        let mut others = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some((POOLER, value)) => pooler = Some(value),
                Some((MAX_CONNECTIONS, value)) => max_connections = Some(value),
                _ => others.push(pair),
            }
        }
        let url = match others.is_empty() {
            true => address.to_owned(),
            false => format!("{address}?{}", others.join("&")),
        };
        Self { url, pooler, max_connections }
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
    fn number_of_connections_is_limited_and_passed_on() {
        let parse = |text: &str| Location::parse(text, Path::new("/state"));
        let url = "postgres://ada@h/fleet?sslmode=require";
        let limited = parse(&format!("{url}&max_connections=9&pooler=transaction")).unwrap();
        assert_eq!(limited.url().as_deref(), Some(url));
        assert_eq!(limited.max_readers(), 5);
        assert!(limited.is_behind_pooler());
        assert_eq!(parse(&limited.secret_text().unwrap()), Ok(limited));
        assert_eq!(parse(url).unwrap().max_readers(), 8);
        assert_eq!(parse("postgres://ada@h/fleet?max_connections=6").unwrap().max_readers(), 2);
        for refused in ["5", "0", "-1", "many", ""] {
            let parsed = parse(&format!("postgres://ada@h/fleet?max_connections={refused}"));
            assert!(parsed.is_err(), "{refused}");
        }
    }

    #[test]
    fn databases_with_different_addresses_have_different_files() {
        let key = |url: &str| Location::parse(url, Path::new("/state")).unwrap().companion(".key");
        assert_eq!(key("/a/x.db"), Path::new("/a/x.db.key"));
        assert_ne!(key("postgres://a@h/one"), key("postgres://a@h/two"));
        assert!(key("postgres://a@h/one").starts_with("/state"));
    }
}
