//! The fleet on a real PostgreSQL: declared, served, run and shown, with nothing in a file of SQLite.

use bailiwick_testkit::postgres::PostgresServer;

use super::Place;
use super::scripted::{made, play, ran, ready, scripted_at};

/// The server takes any password; it must be seen nowhere.
const PASSWORD: &str = "hunter2-of-the-database";

pub(super) fn on_postgres() -> Place {
    let mut place = Place::bare();
    let url = PostgresServer::shared().create_database();
    let url = url.replace("tester@", &format!("tester:{PASSWORD}@"));
    place.scratch.set_variable("KEI_LEDGER_DB", &url);
    place
}

/// The arguments of all processes on this machine.
fn arguments() -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let read = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).ok();
    all.filter_map(read).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

#[test]
fn a_fleet_lives_in_postgresql_as_in_a_file() {
    let script = play("echo done > src/done.txt; sleep 2");
    let place = scripted_at(on_postgres(), &[], &script, |_, _| {});
    let serving = ready(&place);
    let seen = std::thread::scope(|scope| {
        let run = scope.spawn(|| ran(&place));
        let (mut supervised, mut leaked) = (false, false);
        while !run.is_finished() {
            let all = arguments();
            supervised |= all.iter().any(|line| line.contains("\0supervise\0"));
            leaked |= all.iter().any(|line| line.contains(PASSWORD));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(supervised, "positive control: arguments of a supervisor were seen");
        assert!(!leaked, "the password is among the arguments of a process");
        run.join().unwrap()
    });
    let (name, agent) = seen;
    assert_eq!(made(&place, &agent, "src/done.txt"), "done\n");
    let logs = place.run(&["runs", "logs", &name]).expect_code(0).out;
    assert!(logs.contains("src/try.sh"), "{logs}");
    let shown = place.run(&["ps", "--all"]).expect_code(0).out;
    assert!(shown.contains(&agent), "{shown}");
    let log = std::fs::read_to_string(&serving.log).unwrap();
    assert!(!log.contains(PASSWORD), "{log}");
    assert!(!place.scratch.state().join("bailiwick.db").exists(), "a file was made beside it");
}

#[test]
fn a_database_that_cannot_be_reached_is_named_with_the_way_out() {
    let place = Place::bare();
    let ran = place.run(&["get", "stacks", "--db", "postgres://ada:hunter2@127.0.0.1:1/fleet"]);
    let ran = ran.expect_code(1);
    assert!(ran.err.contains("postgres://ada@127.0.0.1:1/fleet"), "{}", ran.err);
    assert!(!ran.err.contains("hunter2"), "{}", ran.err);
}
