//! docs/guides/postgresql.md: from an SQLite file to a real PostgreSQL database.

use bailiwick_testkit::postgres::PostgresServer;

use super::guide::Guide;
use super::place::Place;

const STEPS: &str = r#"
[[agent.script]]
do = "write"
path = "src/hello.txt"
text = "hello\n"
"#;

pub(crate) fn follow(guide: &mut Guide) {
    let server = PostgresServer::start();
    let place = Place::new();
    place.add_script_task("task.toml", "fix-42", STEPS);
    let run = place.scratch.run(crate::BAILIWICK, &["run", "task.toml", "--land", "never"]);
    run.expect_code(0);
    let mut shell = place.shell();
    guide.fill("psql -c", server.psql_command());
    // As the user that the guide creates, who has no other rights.
    let url = server.url("bailiwick").replace("tester@", "bailiwick@");
    guide.fill("postgres://bailiwick@db.example/bailiwick", url);
    let file = place.scratch.state().join("bailiwick.db").display().to_string();
    guide.fill("~/.local/state/bailiwick/bailiwick.db", file);
    guide.run(&mut shell);
    let shown = guide.run(&mut shell);
    let status = &shown.of("bailiwick db status").out;
    assert!(status.contains("database  postgres://bailiwick@"), "{status}");
    let copied = guide.run(&mut shell);
    let copied = &copied.of("bailiwick db copy").out;
    assert!(copied.starts_with("copied ") && copied.contains("tables into postgres://"), "{copied}");
    // The run and its events are copied.
    assert_eq!(server.sql("bailiwick", "SELECT status FROM runs WHERE id = 'fix-42'"), "done");
    let events = server.sql("bailiwick", "SELECT count(*) > 3 FROM events WHERE run = 'fix-42'");
    assert_eq!(events, "t");
    let again = place.scratch.run(crate::BAILIWICK, &[
        "db",
        "copy",
        "--from",
        &place.scratch.state().join("bailiwick.db").display().to_string(),
        "--to",
        &server.url("bailiwick"),
    ]);
    assert!(again.expect_code(1).err.contains("it is not empty"));
    for program in ["pg_dump", "pg_restore"] {
        guide.fill(program, PostgresServer::program(program));
    }
    guide.run(&mut shell);
    server.sql("bailiwick", "UPDATE runs SET status = 'failed'");
    guide.run(&mut shell);
    assert_eq!(server.sql("bailiwick", "SELECT status FROM runs WHERE id = 'fix-42'"), "done");
    guide.background("bailiwick serve");
    for port in ["7840", "7841"] {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        guide.fill(port, free.local_addr().unwrap().port().to_string());
    }
    for _ in ["leader", "follower"] {
        guide.run(&mut shell);
        shell.wait_for_background("listening on http://");
    }
    let roles = guide.run(&mut shell);
    guide.has_shown("ready (leader)", roles.of("curl"));
    assert_eq!(roles.of("curl").out, "ready (leader)\nready (follower)\n");
}
