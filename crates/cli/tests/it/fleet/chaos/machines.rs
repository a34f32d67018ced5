//! Three servers and four workers, each on its own machine, a database on another one, and a machine for the forge and
//! the users. Programs that end are restarted, as a service manager does it.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use bailiwick_testkit::Scratch;
use bailiwick_testkit::clock::{Clock, ClockLibrary};
use bailiwick_testkit::network::{Machine, Network};
use bailiwick_testkit::postgres::PostgresServer;

use crate::BAILIWICK;
use crate::fleet::Place;

pub(super) const SERVERS: usize = 3;
pub(super) const WORKERS: usize = 4;
/// The size of the disk of a worker.
const DISK: &str = "96m";
const PORT: u16 = 7840;

/// A program that runs on its own machine.
pub(super) struct Node {
    pub(super) name: String,
    pub(super) machine: Machine,
    pub(super) clock: Clock,
    command: Command,
    /// Its working directory.
    pub(super) directory: PathBuf,
    log: PathBuf,
    /// The process; `None` while it must not run.
    child: Option<Child>,
    /// The number of starts.
    pub(super) starts: usize,
}

impl Node {
    /// Starts the program if it has ended.
    fn start_if_ended(&mut self) {
        let has_ended = self.child.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some());
        if has_ended {
            let log = File::options().create(true).append(true).open(&self.log).unwrap();
            self.command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
            self.child = Some(self.command.spawn().unwrap());
            self.starts += 1;
        }
    }

    pub(super) fn signal(&self, name: &str) {
        if let Some(child) = &self.child {
            let process = child.id().to_string();
            let mut kill = Command::new("kill");
            let _ = kill.args([&format!("-{name}"), &process]).stderr(Stdio::null()).status();
        }
    }

    /// Ends the program by a signal, and does not restart it.
    pub(super) fn end(&mut self, signal: &str) {
        self.signal(signal);
        // A paused process ends when it is continued.
        self.signal("CONT");
        if let Some(mut child) = self.child.take() {
            child.wait().unwrap();
        }
    }

    /// The last lines of its log.
    pub(super) fn last_log_lines(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

/// All machines. Servers come first, then workers.
pub(super) struct Machines<'a> {
    pub(super) place: &'a Place,
    pub(super) nodes: Vec<Node>,
    /// Indices of nodes that must not run now.
    pub(super) down: Vec<usize>,
    pub(super) database: PostgresServer,
    pub(super) database_name: String,
    pub(super) database_machine: Machine,
    pub(super) client: Machine,
    pub(super) network: Network,
    _workers: Vec<Scratch>,
    _clocks: Scratch,
}

impl Drop for Machines<'_> {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.end("KILL");
            node.machine.kill_processes();
        }
    }
}

/// The base of a place whose database is on another machine. The calling thread uses the network of `client` from now on.
pub(super) fn place_with_database(
    client: &Machine,
    database_machine: &Machine,
) -> (Place, PostgresServer, String) {
    client.enter_network();
    let database =
        database_machine.run(|| PostgresServer::start_on_all_addresses("-c max_connections=100"));
    let name = database.create_database().rsplit('/').next().unwrap().to_owned();
    let mut place = Place::bare();
    let url = format!("postgres://tester@{}/{name}?sslmode=disable", database_machine.address());
    place.scratch.set_variable("KEI_LEDGER_DB", &url);
    (place, database, name)
}

impl<'a> Machines<'a> {
    pub(super) fn start(
        network: Network,
        (client, database_machine): (Machine, Machine),
        place: &'a Place,
        (database, database_name): (PostgresServer, String),
    ) -> Self {
        let clocks = Scratch::bare();
        let library = ClockLibrary::compile(clocks.place());
        let clock = |name: &str| library.clock(&clocks.place().join(name));
        let loopback = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let forge: u16 = place.forge.base_url().rsplit(':').next().unwrap().parse().unwrap();
        let forge_address = SocketAddrV4::new(client.address(), forge);
        client.proxy(forge_address, &[loopback(forge)]);
        let mut nodes = Vec::new();
        let mut addresses = Vec::new();
        for number in 0..SERVERS {
            let (name, machine) = (format!("server-{number}"), network.machine());
            let address = SocketAddrV4::new(machine.address(), PORT);
            machine.proxy(address, &[loopback(PORT)]);
            machine.proxy(loopback(forge), &[forge_address]);
            addresses.push(address);
            let mut command = place.scratch.command(BAILIWICK);
            command.args(["serve", "--worker-lease", "8s", "--host"]);
            command.arg(machine.address().to_string());
            let clock = clock(&name);
            clock.give_to(&mut command);
            let directory = place.scratch.root();
            let command = machine.command(&command, &directory);
            let log = clocks.place().join(format!("{name}.log"));
            nodes.push(Node {
                name,
                machine,
                clock,
                command,
                directory,
                log,
                child: None,
                starts: 0,
            });
        }
        let mut workers = Vec::new();
        for number in 0..WORKERS {
            let (name, machine, scratch) =
                (format!("worker-{number}"), network.machine(), Scratch::bare());
            machine.proxy(loopback(PORT), &addresses);
            machine.mount(scratch.place(), DISK);
            let directory = scratch.place().to_owned();
            machine.shell(&format!("mkdir '{0}/home' '{0}/config'", directory.display()));
            let mut command = scratch.command(BAILIWICK);
            command.args(["worker", "--server", &format!("http://127.0.0.1:{PORT}")]);
            command.args(["--pool", "inside", "--join-token-file", "token"]);
            command.args(["--directory", "own", "--name", &name]);
            let clock = clock(&name);
            clock.give_to(&mut command);
            let command = machine.command(&command, &directory);
            let log = clocks.place().join(format!("{name}.log"));
            nodes.push(Node {
                name,
                machine,
                clock,
                command,
                directory,
                log,
                child: None,
                starts: 0,
            });
            workers.push(scratch);
        }
        let mut machines = Self {
            place,
            nodes,
            down: (SERVERS..SERVERS + WORKERS).collect(),
            database,
            database_name,
            database_machine,
            client,
            network,
            _workers: workers,
            _clocks: clocks,
        };
        machines.keep_running();
        machines.place.wait_for("a ready stack", || {
            let wait = ["wait", "stack/fixer", "--for", "condition=Ready"];
            (machines.place.run(&wait).code == 0).then_some(())
        });
        machines.let_workers_join();
        machines
    }

    fn let_workers_join(&mut self) {
        for (index, scratch) in (SERVERS..).zip(&self._workers) {
            let token = self.place.run(&["workers", "token", "--pool", "inside"]).expect_code(0);
            let file = scratch.place().join("token");
            let write = format!("echo {} > '{}'", token.out.trim(), file.display());
            self.nodes[index].machine.shell(&write);
        }
        self.down.clear();
        self.keep_running();
        self.place.wait_for("all workers", || {
            let all = self.place.json(&["workers", "list"]);
            (all.as_array().unwrap().len() == WORKERS).then_some(())
        });
    }

    /// The addresses at which the servers are reached from other machines.
    pub(super) fn addresses(&self) -> Vec<String> {
        let servers = self.nodes.iter().take(SERVERS);
        servers.map(|node| format!("{}:{PORT}", node.machine.address())).collect()
    }

    /// Restarts programs that have ended and must run.
    pub(super) fn keep_running(&mut self) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if !self.down.contains(&index) {
                node.start_if_ended();
            }
        }
    }

    /// A machine by its index: first those of the nodes, then that of the database and that of the forge.
    pub(super) fn machine(&self, index: usize) -> &Machine {
        match self.nodes.get(index) {
            Some(node) => &node.machine,
            None if index == self.nodes.len() => &self.database_machine,
            None => &self.client,
        }
    }

    /// The name of a machine.
    pub(super) fn name(&self, index: usize) -> &str {
        match self.nodes.get(index) {
            Some(node) => &node.name,
            None if index == self.nodes.len() => "database",
            None => "forge",
        }
    }
}
