//! What an earlier attempt may have left in OpenCode's tables: a login, whose host could give it settings.
//!
//! The tables are the agent's own work, so they are opened where it is held, by the program that will
//! read them, and not here.

use super::super::adapter::ConversationCleanup;

/// Where its conversations are, with all else that it remembers.
pub(super) const TABLES: &str = ".local/share/opencode/opencode.db";

/// Run by the program as the interpreter that it is; a module, because of a script with `require` it takes an error
/// for a good end. Only tables and indices are let in, as it makes
/// them: what else there can be would act by itself, and put back what is taken out.
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
