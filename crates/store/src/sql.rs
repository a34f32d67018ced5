//! What every part of the store needs of SQL, and what differs between databases.

use std::borrow::Cow;
use std::pin::Pin;
use std::time::{SystemTime, UNIX_EPOCH};

/// The kinds of databases. Every difference between them is a method here, or in `open.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    Sqlite,
    Postgres,
}

impl DatabaseKind {
    /// Starts a write transaction. It waits for other writers at its start, so it never has to be retried, and what
    /// it writes becomes visible in the order of its versions.
    ///
    /// PostgreSQL ends a transaction whose program was paused in the middle: it would stop every other writer, and the
    /// next leader. It has as much time as a leader without a sign of life. A wait for a lock ends before the program
    /// takes the connection for lost.
    pub(crate) fn begin_write(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN IMMEDIATE",
            Self::Postgres => {
                "BEGIN; SET LOCAL lock_timeout = '50s'; \
                 SET LOCAL idle_in_transaction_session_timeout = '10s'; \
                 SELECT pg_advisory_xact_lock(7090124316558219001)"
            }
        }
    }

    /// Starts a transaction that writes rows which it locks itself. SQLite has one lock for all of them.
    pub(crate) fn begin_row_write(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN IMMEDIATE",
            Self::Postgres => {
                "BEGIN; SET LOCAL lock_timeout = '50s'; \
                 SET LOCAL idle_in_transaction_session_timeout = '10s'"
            }
        }
    }

    /// Statements for a transaction that must not time out while its program does something else, for example reads
    /// another database.
    pub(crate) fn without_time_limits(self) -> &'static [&'static str] {
        match self {
            Self::Sqlite => &[],
            Self::Postgres => &[
                "SET LOCAL idle_in_transaction_session_timeout = 0",
                "SET LOCAL statement_timeout = 0",
            ],
        }
    }

    /// Locks the rows that a query finds, and waits for other writers of them.
    pub(crate) fn lock_rows(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => "FOR UPDATE",
        }
    }

    /// The same, without the rows that others have locked.
    pub(crate) fn skip_locked_rows(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => "FOR UPDATE SKIP LOCKED",
        }
    }

    /// What an index has in place of a text that may be long: PostgreSQL limits the size of its entries.
    pub(crate) fn label_set(self, labels: &str) -> String {
        match self {
            Self::Sqlite => labels.to_owned(),
            Self::Postgres => format!("hashtextextended({labels}, 0)"),
        }
    }

    /// The time on the database's clock, in milliseconds since the Unix epoch.
    pub(crate) fn now(self) -> &'static str {
        match self {
            Self::Sqlite => "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
            Self::Postgres => POSTGRES_NOW,
        }
    }

    /// A placeholder in a statement with many. For SQLite it has no number, because SQLite searches the names of all
    /// numbered placeholders for each value; the two kinds cannot be mixed.
    pub(crate) fn placeholder(self, number: usize) -> String {
        match self {
            Self::Sqlite => "?".to_owned(),
            Self::Postgres => format!("${number}"),
        }
    }

    /// Placeholders for rows of this width, from this number on: `($1, $2), ($3, $4)`.
    pub(crate) fn row_placeholders(self, first: usize, count: usize, width: usize) -> String {
        let row = |row: usize| {
            let start = first + row * width;
            let all: Vec<String> =
                (start..start + width).map(|number| self.placeholder(number)).collect();
            format!("({})", all.join(", "))
        };
        (0..count).map(row).collect::<Vec<_>>().join(", ")
    }

    /// Counts the table that says which migrations were run.
    pub(crate) fn migrations_table(self) -> &'static str {
        match self {
            Self::Sqlite => "SELECT COUNT(*) FROM sqlite_master WHERE name = '_sqlx_migrations'",
            Self::Postgres => {
                "SELECT COUNT(*) FROM pg_catalog.pg_class c \
                 WHERE c.oid = to_regclass('_sqlx_migrations')"
            }
        }
    }

    /// Counts the tables that a program other than ours may have made under our names.
    pub(crate) fn foreign_tables(self) -> &'static str {
        match self {
            Self::Sqlite => {
                "SELECT COUNT(*) FROM sqlite_master WHERE type IN ('table', 'view') \
                 AND name IN ('agents', 'runs', 'specs', 'events')"
            }
            Self::Postgres => {
                "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = \
                 current_schema() AND table_name IN ('agents', 'runs', 'specs', 'events')"
            }
        }
    }

    /// A migration in the words of this database. Text is compared by its bytes in both.
    pub(crate) fn migration(self, text: &'static str) -> String {
        let words: &[(&str, &str)] = match self {
            Self::Sqlite => &SQLITE_WORDS,
            Self::Postgres => &POSTGRES_WORDS,
        };
        words.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }
}

/// The time on the clock of a PostgreSQL server, in milliseconds since the Unix epoch.
pub(crate) const POSTGRES_NOW: &str = "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT";

/// Words of the migrations that neither database knows, and what SQLite says instead.
const SQLITE_WORDS: [(&str, &str); 1] = [("LABEL_SET(labels)", "labels")];

/// Words of the migrations, which are written for SQLite, and what PostgreSQL says instead.
const POSTGRES_WORDS: [(&str, &str); 5] = [
    ("LABEL_SET(labels)", "hashtextextended(labels, 0)"),
    ("INTEGER NOT NULL PRIMARY KEY", "BIGINT NOT NULL PRIMARY KEY"),
    (") WITHOUT ROWID", ")"),
    (" BLOB ", " BYTEA "),
    (" TEXT", " TEXT COLLATE \"C\""),
];

/// A boxed future: its code is compiled once, not again in each caller.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Words of our own, for SQL.
pub(crate) fn quoted(words: impl Iterator<Item = &'static str>) -> String {
    words.map(|word| format!("'{word}'")).collect::<Vec<String>>().join(", ")
}

/// The message of the database, without the layers around it.
pub(crate) fn database_message(error: &sqlx::Error) -> String {
    match error.as_database_error() {
        Some(error) => error.message().to_owned(),
        None => error.to_string(),
    }
}

/// A text as both databases can store and compare it: PostgreSQL's has no NUL. The sign of the escape is escaped, too, so
/// that no two texts become equal.
pub(crate) fn escaped(text: &str) -> String {
    match text.contains(['\0', ESCAPE]) {
        true => text.replace(ESCAPE, "\u{1}1").replace('\0', "\u{1}0"),
        false => text.to_owned(),
    }
}

/// The text that was escaped.
pub(crate) fn unescaped(text: String) -> String {
    match text.contains(ESCAPE) {
        true => text.replace("\u{1}0", "\0").replace("\u{1}1", "\u{1}"),
        false => text,
    }
}

const ESCAPE: char = '\u{1}';

/// A text for people to read, as both databases can store it.
pub(crate) fn storable(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => Cow::Owned(text.replace('\0', "\u{2400}")),
        false => Cow::Borrowed(text),
    }
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{DatabaseKind, escaped, unescaped};

    #[test]
    fn escaped_texts_have_no_nul_and_come_back() {
        let parts = ["\0", "\u{1}", "0", "1", "x"];
        let mut escaped_texts = std::collections::BTreeSet::new();
        for number in 0..5_usize.pow(4) {
            let digits = [number % 5, number / 5 % 5, number / 25 % 5, number / 125];
            let text: String =
                digits.iter().filter_map(|digit| parts.get(*digit)).copied().collect();
            let stored = escaped(&text);
            assert!(!stored.contains('\0'), "{text:?}");
            assert!(escaped_texts.insert(stored.clone()), "{text:?}");
            assert_eq!(unescaped(stored), text);
        }
    }

    #[test]
    fn placeholders_have_numbers_for_postgres_only() {
        assert_eq!(DatabaseKind::Sqlite.row_placeholders(1, 2, 3), "(?, ?, ?), (?, ?, ?)");
        assert_eq!(DatabaseKind::Postgres.row_placeholders(4, 2, 2), "($4, $5), ($6, $7)");
        assert_eq!(DatabaseKind::Postgres.row_placeholders(4, 0, 2), "");
    }
}
