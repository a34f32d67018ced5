//! OpenCode keeps logins beside its conversations: what an attempt leaves there is gone before the next one
//! begins, and what cannot be cleared is not taken up.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};

use super::stage::Stage;

const OPEN: &str = r#"
const { Database } = require("bun:sqlite");
const tables = new Database(`${process.env.HOME}/.local/share/opencode/opencode.db`);
// The program itself writes there all the while.
tables.run("pragma busy_timeout = 60000");
const logins = ["account", "account_state", "control_account"];
"#;
/// A row for each table of logins.
const PLANT: &str = r#"
tables.run("pragma foreign_keys = off");
for (const name of logins) {
  const columns = tables.query(`pragma table_info(${name})`).all();
  const values = columns.map(({ type }) => (/int/i.test(type) ? "1" : "'planted'"));
  tables.run(`insert into ${name} values (${values})`);
}
"#;
/// How many rows they have.
const LOOK: &str = r#"
const rows = (name) => tables.query(`select count(*) as rows from ${name}`).get().rows;
console.log(logins.map(rows).join(" "));
"#;
/// Something that puts a row back.
const TRIGGER: &str = r#"
tables.run("create trigger back after delete on control_account begin select 1; end");
"#;

#[test]
fn a_login_that_an_attempt_leaves_is_gone_before_the_next() {
    let stage = Stage::new(Cli::OpenCode);
    let agent = stage.agent("planting");
    let program = stage.cli.program().display().to_string();
    let write = |name: &str, text: &str| {
        Call::write(agent.path(&format!("src/{name}.js")), format!("{OPEN}{text}"))
    };
    let run = |name: &str, to: &str| {
        Call::shell(format!("BUN_BE_BUN=1 {program} src/{name}.js > src/{to}.txt 2>&1"))
    };
    let ended = agent.run(Script::new(vec![
        Turn::Calls(vec![write("plant", PLANT), write("look", LOOK), write("trigger", TRIGGER)]),
        Turn::Calls(vec![run("plant", "planted")]),
        Turn::Calls(vec![run("look", "before")]),
        Turn::say("the first part is done"),
    ]));
    ended.expect("completed", 0);
    assert_eq!(agent.text("src/planted.txt").as_deref(), Some(""), "{:#?}", ended.model.results());
    assert_eq!(agent.text("src/before.txt").as_deref(), Some("1 1 1\n"));

    let turns = vec![
        Turn::Calls(vec![run("look", "after")]),
        Turn::Calls(vec![run("trigger", "triggered")]),
        Turn::say("the second part is done"),
    ];
    let ended = agent.take_up("Look again.", &[], Script::continuing("again", turns)).end();
    ended.expect("completed", 0);
    assert_eq!(agent.text("src/after.txt").as_deref(), Some("0 0 0\n"));
    assert_eq!(agent.text("src/triggered.txt").as_deref(), Some(""));
    let last = ended.model.requests().pop().unwrap().body.to_string();
    assert!(last.contains("the first part is done"), "its conversation is gone: {last}");

    let said = vec![Turn::say("the third part is done")];
    let ended = agent.take_up("Go on.", &[], Script::continuing("more", said)).end();
    assert_ne!(ended.code, 0, "{:#}\n{}", ended.said, ended.errors);
    let why = "is not cleared of logins";
    assert!(ended.errors.contains(why), "{:#}\n{}", ended.said, ended.errors);
    assert!(ended.model.requests().is_empty(), "it was started all the same");
}
