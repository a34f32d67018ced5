//! OpenCode stores logins beside its conversations: logins that an attempt stores are deleted before the next
//! one starts, and a run whose logins cannot be deleted is not resumed.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};

use super::stage::Stage;

const OPEN: &str = r#"
const { Database } = require("bun:sqlite");
const tables = new Database(`${process.env.HOME}/.local/share/opencode/opencode.db`);
// The program itself writes to the database at the same time.
tables.run("pragma busy_timeout = 60000");
const logins = ["account", "account_state", "control_account"];
"#;
/// Inserts a row into each table of logins.
const PLANT: &str = r#"
tables.run("pragma foreign_keys = off");
for (const name of logins) {
  const columns = tables.query(`pragma table_info(${name})`).all();
  const values = columns.map(({ type }) => (/int/i.test(type) ? "1" : "'planted'"));
  tables.run(`insert into ${name} values (${values})`);
}
"#;
/// Prints their number of rows.
const LOOK: &str = r#"
const rows = (name) => tables.query(`select count(*) as rows from ${name}`).get().rows;
console.log(logins.map(rows).join(" "));
"#;
/// A trigger that could restore a deleted row.
const TRIGGER: &str = r#"
tables.run("create trigger back after delete on control_account begin select 1; end");
"#;

#[test]
fn login_that_an_attempt_stores_is_deleted_before_the_next() {
    let stage = Stage::new(Cli::OpenCode);
    let agent = stage.agent("planting");
    let program = stage.cli.program().display().to_string();
    let write_script = |name: &str, text: &str| {
        Call::write(agent.path(&format!("src/{name}.js")), format!("{OPEN}{text}"))
    };
    let run_script = |name: &str, output: &str| {
        Call::shell(format!("BUN_BE_BUN=1 {program} src/{name}.js > src/{output}.txt 2>&1"))
    };
    let ended = agent.run(Script::new(vec![
        Turn::Calls(vec![
            write_script("plant", PLANT),
            write_script("look", LOOK),
            write_script("trigger", TRIGGER),
        ]),
        Turn::Calls(vec![run_script("plant", "planted")]),
        Turn::Calls(vec![run_script("look", "before")]),
        Turn::say("the first part is done"),
    ]));
    ended.expect("completed", 0);
    assert_eq!(agent.text("src/planted.txt").as_deref(), Some(""), "{:#?}", ended.model.results());
    assert_eq!(agent.text("src/before.txt").as_deref(), Some("1 1 1\n"));

    let turns = vec![
        Turn::Calls(vec![run_script("look", "after")]),
        Turn::Calls(vec![run_script("trigger", "triggered")]),
        Turn::say("the second part is done"),
    ];
    let ended = agent.resume("Look again.", &[], Script::continuing("again", turns)).end();
    ended.expect("completed", 0);
    assert_eq!(agent.text("src/after.txt").as_deref(), Some("0 0 0\n"));
    assert_eq!(agent.text("src/triggered.txt").as_deref(), Some(""));
    let last = ended.model.requests().pop().unwrap().body.to_string();
    assert!(last.contains("the first part is done"), "its conversation was deleted: {last}");

    let turns = vec![Turn::say("the third part is done")];
    let ended = agent.resume("Go on.", &[], Script::continuing("more", turns)).end();
    assert_ne!(ended.code, 0, "{:#}\n{}", ended.report, ended.errors);
    let expected = "is not cleared of logins";
    assert!(ended.errors.contains(expected), "{:#}\n{}", ended.report, ended.errors);
    assert!(ended.model.requests().is_empty(), "the agent was started");
}
