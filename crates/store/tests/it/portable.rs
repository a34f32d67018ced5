//! One set of statements for SQLite and PostgreSQL: what only SQLite understands stands where a database is
//! opened, or in the short list of what a migration says otherwise there. All of the statements and the
//! migrations were prepared by PostgreSQL 15 by hand; this keeps it so, but for the places `?` of statements that
//! write many rows, which have to be numbered there.

use std::path::{Path, PathBuf};

/// What PostgreSQL does not know, or takes for something else.
const FOREIGN: [&str; 24] = [
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

/// Where a database is opened, and how it is written to, is one file's knowledge.
const OPENING: &str = "open.rs";

/// What migrations say for SQLite, and what they would say for PostgreSQL.
const OTHERWISE: [(&str, &str); 3] = [
    ("INTEGER NOT NULL PRIMARY KEY", "BIGINT NOT NULL PRIMARY KEY"),
    (") WITHOUT ROWID", ")"),
    (" BLOB ", " BYTEA "),
];

const TYPES: [&str; 3] = ["TEXT", "BIGINT", "BYTEA"];

fn foreign(statement: &str) -> Vec<&'static str> {
    let upper = statement.to_uppercase();
    FOREIGN.into_iter().filter(|word| upper.contains(word)).collect()
}

fn files(place: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(place).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The texts of a source file, without its own tests and its comments.
fn texts(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap();
    let code: Vec<&str> =
        source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n").replace("\\\"", "'");
    code.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn no_statement_says_what_only_one_database_understands() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    files(&source, &mut all);
    let mut statements = 0;
    for file in all {
        if file.file_name().is_some_and(|name| name == OPENING) {
            continue;
        }
        for text in texts(&std::fs::read_to_string(&file).unwrap()) {
            assert_eq!(foreign(&text), [] as [&str; 0], "{}: {text}", file.display());
            assert!(!text.contains(" ?"), "{}: places are $1: {text}", file.display());
            let words = ["SELECT ", "INSERT ", "UPDATE ", "DELETE "];
            statements += usize::from(words.iter().any(|word| text.starts_with(word)));
        }
    }
    // It sees them: there are many, and what is foreign is found where it may be.
    assert!(statements > 50, "{statements}");
    let opening = std::fs::read_to_string(source.join(OPENING)).unwrap();
    let found: Vec<&str> = texts(&opening).iter().flat_map(|text| foreign(text)).collect();
    for word in ["PRAGMA", "SQLITE_", "BEGIN IMMEDIATE"] {
        assert!(found.contains(&word), "{word}: {found:?}");
    }
}

#[test]
fn migrations_differ_between_databases_in_three_words() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut all = Vec::new();
    files(&place, &mut all);
    let mut used = 0;
    for file in all {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines = text.lines().map(|line| line.split("--").next().unwrap_or_default());
        let mut text = lines.collect::<Vec<_>>().join("\n");
        for (sqlite, postgres) in OTHERWISE {
            used += text.matches(sqlite).count();
            text = text.replace(sqlite, postgres);
        }
        assert_eq!(foreign(&text), [] as [&str; 0], "{}", file.display());
        // A column is of a type that both have, not of one that SQLite makes up its mind about.
        for table in text.split("CREATE TABLE ").skip(1) {
            let columns = table.split_once("(\n").map(|(_, rest)| rest).unwrap_or_default();
            let columns = columns.split("\n)").next().unwrap_or_default();
            for column in columns.lines().map(str::trim).filter(|line| !line.is_empty()) {
                let mut words = column.trim_end_matches(',').split(' ');
                let (name, kind) = (words.next().unwrap(), words.next().unwrap_or_default());
                let bound = ["PRIMARY", "UNIQUE", "CHECK"].contains(&name);
                assert!(bound || TYPES.contains(&kind), "{}: {column}", file.display());
            }
        }
    }
    assert!(used >= 3, "{used}");
}
