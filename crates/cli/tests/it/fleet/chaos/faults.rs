//! Random faults, each with a start and an end.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bailiwick_testkit::postgres::PostgresServer;
use bailiwick_testkit::random::Random;

use super::machines::{Machines, SERVERS, WORKERS};

/// A fault. Numbers are those of machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A process is killed, and started again at the end of the fault.
    Kill(usize),
    /// A process gets SIGTERM.
    Terminate(usize),
    /// A machine loses its power, with everything that runs on it.
    PowerOff(usize),
    /// A process is stopped by SIGSTOP and continued.
    Pause(usize),
    /// The database crashes and starts again.
    CrashDatabase,
    /// Connections of the database end in the middle of a claim or a report.
    TerminateBackends,
    /// Every statement on these tables waits, until no connection of a pool is left.
    LockTables(&'static str),
    FillDisk(usize),
    Cut(usize, usize),
    /// The wall clock of a machine jumps by seconds, and back.
    StepClock(usize, i64),
}

const TABLES: [&str; 4] =
    ["worker_attempts", "leader_lease", "resources", "workers, worker_events, resource_changes"];
const STEPS: [i64; 6] = [-7_200, -90, -15, 15, 90, 7_200];

impl Fault {
    /// All kinds of faults.
    pub(super) const KINDS: [&str; 10] = [
        "kill",
        "terminate",
        "power off",
        "pause",
        "crash the database",
        "terminate backends",
        "lock tables",
        "fill a disk",
        "cut",
        "step a clock",
    ];

    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Kill(_) => "kill",
            Self::Terminate(_) => "terminate",
            Self::PowerOff(_) => "power off",
            Self::Pause(_) => "pause",
            Self::CrashDatabase => "crash the database",
            Self::TerminateBackends => "terminate backends",
            Self::LockTables(_) => "lock tables",
            Self::FillDisk(_) => "fill a disk",
            Self::Cut(_, _) => "cut",
            Self::StepClock(_, _) => "step a clock",
        }
    }

    pub(super) fn random(random: &mut Random) -> Self {
        let server = random.below(SERVERS);
        let worker = SERVERS + random.below(WORKERS);
        let either = random.below(SERVERS + WORKERS);
        match random.below(12) {
            0 => Self::Kill(server),
            1 => Self::Kill(worker),
            2 => Self::Terminate(either),
            3 => Self::PowerOff(worker),
            4 => Self::Pause(server),
            5 => Self::Pause(worker),
            6 => Self::CrashDatabase,
            7 => Self::TerminateBackends,
            8 => Self::LockTables(TABLES[random.below(TABLES.len())]),
            9 => Self::FillDisk(worker),
            10 => {
                let all = SERVERS + WORKERS + 2;
                let one = random.below(all);
                Self::Cut(one, (one + 1 + random.below(all - 1)) % all)
            }
            _ => Self::StepClock(either, STEPS[random.below(STEPS.len())]),
        }
    }

    /// How long it lasts: some faults end immediately.
    pub(super) fn limit(self, time: Duration) -> Duration {
        match self {
            Self::CrashDatabase => Duration::ZERO,
            // All servers are blocked meanwhile.
            Self::LockTables(_) => time.min(Duration::from_secs(20)),
            Self::Kill(_)
            | Self::Terminate(_)
            | Self::PowerOff(_)
            | Self::Pause(_)
            | Self::TerminateBackends
            | Self::FillDisk(_)
            | Self::Cut(_, _)
            | Self::StepClock(_, _) => time,
        }
    }

    /// Its description for people.
    pub(super) fn describe(self, machines: &Machines<'_>) -> String {
        let name = |index: usize| machines.name(index);
        match self {
            Self::Kill(index) => format!("kill {}", name(index)),
            Self::Terminate(index) => format!("terminate {}", name(index)),
            Self::PowerOff(index) => format!("power off {}", name(index)),
            Self::Pause(index) => format!("pause {}", name(index)),
            Self::CrashDatabase => "crash the database".to_owned(),
            Self::TerminateBackends => "terminate backends".to_owned(),
            Self::LockTables(tables) => format!("lock {tables}"),
            Self::FillDisk(index) => format!("fill the disk of {}", name(index)),
            Self::Cut(one, other) => format!("cut {} from {}", name(one), name(other)),
            Self::StepClock(index, seconds) => format!("step {} by {seconds} s", name(index)),
        }
    }

    /// Starts it. It ends after this time.
    pub(super) fn begin(self, machines: &mut Machines<'_>, time: Duration) -> ActiveFault {
        let mut statement = None;
        match self {
            Self::Kill(index) => take_down(machines, index, "KILL"),
            Self::Terminate(index) => take_down(machines, index, "TERM"),
            Self::PowerOff(index) => {
                take_down(machines, index, "KILL");
                machines.nodes[index].machine.kill_processes();
            }
            Self::Pause(index) => machines.nodes[index].signal("STOP"),
            Self::CrashDatabase => {
                machines.database_machine.run(|| machines.database.crash_and_restart());
            }
            Self::TerminateBackends => {
                let rounds = time.as_millis() / 10;
                statement = Some(psql(machines, &terminate(&machines.database_name, rounds)));
            }
            Self::LockTables(tables) => {
                let seconds = time.as_secs_f64();
                statement = Some(psql(
                    machines,
                    &format!(
                        "BEGIN; LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE; \
                         SELECT pg_sleep({seconds}); COMMIT"
                    ),
                ));
            }
            Self::FillDisk(index) => {
                let node = &machines.nodes[index];
                let file = node.directory.join("fill").display().to_string();
                node.machine.shell(&format!("dd if=/dev/zero of='{file}' bs=1M 2>&1 || true"));
            }
            Self::Cut(one, other) => {
                machines.network.cut(machines.machine(one), machines.machine(other));
            }
            Self::StepClock(index, seconds) => machines.nodes[index].clock.set_offset(seconds),
        }
        ActiveFault { fault: self, statement }
    }
}

/// Repeatedly ends all connections with a running statement or transaction on the queue.
fn terminate(database: &str, rounds: u128) -> String {
    format!(
        "DO $$ BEGIN FOR i IN 1..{rounds} LOOP \
         PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}' \
         AND pid <> pg_backend_pid() AND state <> 'idle' AND query LIKE '%worker_attempts%'; \
         PERFORM pg_stat_clear_snapshot(); PERFORM pg_sleep(0.01); END LOOP; END $$"
    )
}

fn psql(machines: &Machines<'_>, statement: &str) -> Child {
    let mut command = Command::new(PostgresServer::program("psql"));
    let host = machines.database_machine.address().to_string();
    command.args(["-X", "-q", "-U", "tester", "-h", &host, "-d", &machines.database_name]);
    command.args(["-c", statement]).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn take_down(machines: &mut Machines<'_>, index: usize, signal: &str) {
    machines.down.push(index);
    machines.nodes[index].end(signal);
}

/// A fault that has started.
pub(super) struct ActiveFault {
    fault: Fault,
    /// The database client that causes it.
    statement: Option<Child>,
}

impl ActiveFault {
    /// Ends it.
    pub(super) fn end(self, machines: &mut Machines<'_>) {
        let Self { fault, statement } = self;
        match fault {
            Fault::Kill(index) | Fault::Terminate(index) | Fault::PowerOff(index) => {
                if let Some(position) = machines.down.iter().position(|down| *down == index) {
                    machines.down.remove(position);
                }
            }
            Fault::Pause(index) => machines.nodes[index].signal("CONT"),
            Fault::CrashDatabase | Fault::TerminateBackends | Fault::LockTables(_) => {}
            Fault::FillDisk(index) => {
                let node = &machines.nodes[index];
                node.machine.shell(&format!("rm '{}'", node.directory.join("fill").display()));
            }
            Fault::Cut(one, other) => {
                machines.network.join(machines.machine(one), machines.machine(other));
            }
            Fault::StepClock(index, _) => machines.nodes[index].clock.set_offset(0),
        }
        if let Some(mut statement) = statement {
            let _ = statement.wait();
        }
    }
}
