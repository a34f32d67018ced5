//! Removes what an earlier attempt may have planted in OpenCode's tables: a login, whose host could provide
//! settings.
//!
//! The tables are the agent's own work, so they are opened in its sandbox, by the program that will read them, and
//! not here.

use super::super::adapter::ConversationCleanup;

/// The database of its conversations and its other state.
pub(super) const TABLES: &str = ".local/share/opencode/opencode.db";

/// Run by the CLI itself, as a JavaScript interpreter; a module, because it exits with 0 after an error in a script
/// with `require`. Only tables and indices with the expected definitions are allowed: triggers and views could
/// restore what is removed.
const SCRIPT: &str = r#"
import { Database } from "bun:sqlite";
const tables = new Database(`${process.env.HOME}/TABLES`, { readwrite: true, create: false });
tables.run("pragma foreign_keys = off");
const plain = /^create\s+(table|(unique\s+)?index)\s/i;
const all = tables.query("select type, name, sql from sqlite_master").all();
for (const { type, name, sql } of all) {
  if (!["table", "index"].includes(type) || (sql !== null && !plain.test(sql))) {
    throw new Error(`there is a ${type} ${name}, which is not of its making`);
  }
}
const logins = ["account", "account_state", "control_account"];
const found = all.filter(({ type, name }) => type === "table" && logins.includes(name.toLowerCase()));
for (const { name } of found) {
  tables.run(`delete from "${name}"`);
  const { remaining } = tables.query(`select count(*) as remaining from "${name}" not indexed`).get();
  if (remaining !== 0) throw new Error(`${name} keeps what was deleted`);
}
tables.run("pragma wal_checkpoint(truncate)");
tables.close(true);
"#;

pub(super) fn cleanup() -> ConversationCleanup {
    ConversationCleanup {
        file: TABLES.to_owned(),
        arguments: vec!["-e".to_owned(), SCRIPT.replace("TABLES", TABLES)],
        environment: vec![("BUN_BE_BUN".to_owned(), "1".to_owned())],
    }
}
