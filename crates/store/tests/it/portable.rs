//! The statements work on SQLite and PostgreSQL. SQLite-only SQL is allowed in `open.rs` and in a short list of
//! words in migrations. All statements and migrations were prepared by hand with PostgreSQL 15; these tests keep
//! them portable, except for the `?` placeholders of statements that write many rows.

use std::path::{Path, PathBuf};

/// What PostgreSQL does not support, or understands differently.
const SQLITE_ONLY: [&str; 24] = [
    "AUTOINCREMENT",
    "INSERT OR",
    "REPLACE INTO",
    "UPDATE OR",
    "ROWID",
    "LAST_INSERT_ROWID",
    "STRFTIME",
    "DATETIME(",
    "JULIANDAY",
    "UNIXEPOCH",
    "JSON_",
    "PRAGMA",
    "SQLITE_",
    "BEGIN IMMEDIATE",
    "BEGIN EXCLUSIVE",
    "GLOB ",
    "IFNULL",
    "GROUP_CONCAT",
    "INSTR(",
    "HEX(",
    "TYPEOF",
    "COLLATE NOCASE",
    "INDEXED BY",
    " IS ?",
];

/// The only file with SQLite-only SQL.
const OPENING: &str = "open.rs";

/// Words of the migrations for SQLite, and their replacements for PostgreSQL.
const REPLACEMENTS: [(&str, &str); 3] = [
    ("INTEGER NOT NULL PRIMARY KEY", "BIGINT NOT NULL PRIMARY KEY"),
    (") WITHOUT ROWID", ")"),
    (" BLOB ", " BYTEA "),
];

const COLUMN_TYPES: [&str; 3] = ["TEXT", "BIGINT", "BYTEA"];

fn sqlite_only(statement: &str) -> Vec<&'static str> {
    let upper = statement.to_uppercase();
    SQLITE_ONLY.into_iter().filter(|word| upper.contains(word)).collect()
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The string literals of a source file, without its tests and comments.
fn texts(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap();
    let code: Vec<&str> =
        source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n").replace("\\\"", "'");
    code.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn statements_have_no_sqlite_only_sql() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    files(&source, &mut all);
    let mut statements = 0;
    for file in all {
        if file.file_name().is_some_and(|name| name == OPENING) {
            continue;
        }
        for text in texts(&std::fs::read_to_string(&file).unwrap()) {
            assert_eq!(sqlite_only(&text), [] as [&str; 0], "{}: {text}", file.display());
            assert!(!text.contains(" ?"), "{}: placeholders are $1: {text}", file.display());
            let words = ["SELECT ", "INSERT ", "UPDATE ", "DELETE "];
            statements += usize::from(words.iter().any(|word| text.starts_with(word)));
        }
    }
    // Positive control: there are many statements, and SQLite-only words are found in `open.rs`.
    assert!(statements > 50, "{statements}");
    let opening = std::fs::read_to_string(source.join(OPENING)).unwrap();
    let found: Vec<&str> = texts(&opening).iter().flat_map(|text| sqlite_only(text)).collect();
    for word in ["PRAGMA", "SQLITE_", "BEGIN IMMEDIATE"] {
        assert!(found.contains(&word), "{word}: {found:?}");
    }
}

#[test]
fn migrations_differ_between_databases_in_three_words_only() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut all = Vec::new();
    files(&directory, &mut all);
    let mut used = 0;
    for file in all {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines = text.lines().map(|line| line.split("--").next().unwrap_or_default());
        let mut text = lines.collect::<Vec<_>>().join("\n");
        for (sqlite, postgres) in REPLACEMENTS {
            used += text.matches(sqlite).count();
            text = text.replace(sqlite, postgres);
        }
        assert_eq!(sqlite_only(&text), [] as [&str; 0], "{}", file.display());
        // Each column has a type that both databases have.
        for table in text.split("CREATE TABLE ").skip(1) {
            let columns = table.split_once("(\n").map(|(_, rest)| rest).unwrap_or_default();
            let columns = columns.split("\n)").next().unwrap_or_default();
            for column in columns.lines().map(str::trim).filter(|line| !line.is_empty()) {
                let mut words = column.trim_end_matches(',').split(' ');
                let (name, kind) = (words.next().unwrap(), words.next().unwrap_or_default());
                let bound = ["PRIMARY", "UNIQUE", "CHECK"].contains(&name);
                assert!(bound || COLUMN_TYPES.contains(&kind), "{}: {column}", file.display());
            }
        }
    }
    assert!(used >= 3, "{used}");
}
