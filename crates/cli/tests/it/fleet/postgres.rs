//! The fleet on a real PostgreSQL, without an SQLite file.

use bailiwick_testkit::postgres::PostgresServer;

use super::Place;
use super::scripted::{
    place_with_script_at, run_to_success, shell_script, start_ready, worktree_file,
};

/// The server accepts any password; it must not appear anywhere.
const PASSWORD: &str = "hunter2-of-the-database";

pub(super) fn on_postgres() -> Place {
    let mut place = Place::bare();
    let url = PostgresServer::shared().create_database();
    let url = url.replace("tester@", &format!("tester:{PASSWORD}@"));
    place.scratch.set_variable("KEI_LEDGER_DB", &url);
    place
}

/// The command lines of all processes on this machine.
fn command_lines() -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let read = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).ok();
    all.filter_map(read).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

#[test]
fn fleet_works_on_postgresql_without_a_sqlite_file() {
    let script = shell_script("echo done > src/done.txt; sleep 2");
    let place = place_with_script_at(on_postgres(), &[], &script, |_, _| {});
    let serving = start_ready(&place);
    let name_and_agent = std::thread::scope(|scope| {
        let run = scope.spawn(|| run_to_success(&place));
        let (mut is_supervised, mut is_leaked) = (false, false);
        while !run.is_finished() {
            let lines = command_lines();
            is_supervised |= lines.iter().any(|line| line.contains("\0supervise\0"));
            is_leaked |= lines.iter().any(|line| line.contains(PASSWORD));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(is_supervised, "positive control: arguments of a supervisor were seen");
        assert!(!is_leaked, "the password is among the arguments of a process");
        run.join().unwrap()
    });
    let (name, agent) = name_and_agent;
    assert_eq!(worktree_file(&place, &agent, "src/done.txt"), "done\n");
    let logs = place.run(&["runs", "logs", &name]).expect_code(0).out;
    assert!(logs.contains("src/try.sh"), "{logs}");
    let shown = place.run(&["ps", "--all"]).expect_code(0).out;
    assert!(shown.contains(&agent), "{shown}");
    let log = std::fs::read_to_string(&serving.log).unwrap();
    assert!(!log.contains(PASSWORD), "{log}");
    assert!(!place.scratch.state().join("bailiwick.db").exists(), "an SQLite file was created");
}

#[test]
fn unreachable_database_is_named_without_its_password() {
    let place = Place::bare();
    let ran = place.run(&["get", "stacks", "--db", "postgres://ada:hunter2@127.0.0.1:1/fleet"]);
    let ran = ran.expect_code(1);
    assert!(ran.err.contains("postgres://ada@127.0.0.1:1/fleet"), "{}", ran.err);
    assert!(!ran.err.contains("hunter2"), "{}", ran.err);
}
