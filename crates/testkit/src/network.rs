//! Machines of a network on this machine: each has a network namespace and mounts of its own, and a router between them
//! can cut the connection of any two.
//!
//! ```text
//!  machine 1: eth0 10.77.1.2 ── n1 10.77.1.1 ┐
//!  machine 2: eth0 10.77.2.2 ── n2 10.77.2.1 ┤ router
//! ```
//!
//! Nothing here has a name outside of its own namespaces: any number of networks can exist at the same time, and all of
//! it disappears with the processes of the test, however they end.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::sched::{CloneFlags, setns};

/// How long a proxy waits for the next hop.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A process that keeps namespaces, until it is dropped or the test ends.
struct Namespaces(Child);

impl Namespaces {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "--propagation", "private", "sh", "-c"]);
        command.arg("ip link set lo up && echo ready && exec cat");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("util-linux is missing: install util-linux");
        let mut line = String::new();
        let _ = BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line);
        if line.trim() != "ready" {
            let mut why = String::new();
            let _ = child.stderr.take().expect("a pipe").read_to_string(&mut why);
            panic!("this test needs root and iproute2 to make network namespaces: {}", why.trim());
        }
        Self(child)
    }

    fn process(&self) -> String {
        self.0.id().to_string()
    }

    /// Runs a shell command there; it must succeed.
    fn shell(&self, command: &str) {
        let mut nsenter = Command::new("nsenter");
        nsenter.args(["--target", &self.process(), "--net", "--mount", "sh", "-ec", command]);
        let output = nsenter.output().expect("nsenter");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{command}: {errors}");
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The router between machines.
pub struct Network {
    router: Namespaces,
    machines: AtomicUsize,
}

impl Network {
    /// A network without machines.
    #[expect(clippy::new_without_default, reason = "it makes namespaces")]
    pub fn new() -> Self {
        let router = Namespaces::new();
        router.shell("echo 1 > /proc/sys/net/ipv4/ip_forward");
        Self { router, machines: AtomicUsize::new(0) }
    }

    /// Adds a machine.
    pub fn machine(&self) -> Machine {
        let number = self.machines.fetch_add(1, Ordering::Relaxed) + 1;
        let number = u8::try_from(number).expect("few machines");
        let namespaces = Namespaces::new();
        self.router.shell(&format!(
            "ip link add name n{number} type veth peer name eth0 netns {}; \
             ip address add 10.77.{number}.1/24 dev n{number}; ip link set n{number} up",
            namespaces.process()
        ));
        namespaces.shell(&format!(
            "ip address add 10.77.{number}.2/24 dev eth0; ip link set eth0 up; \
             ip route add default via 10.77.{number}.1"
        ));
        Machine { namespaces, address: Ipv4Addr::new(10, 77, number, 2) }
    }

    /// Drops every packet between two machines until [`Network::join`].
    pub fn cut(&self, one: &Machine, other: &Machine) {
        self.rule("add", one, other);
    }

    /// Ends a [`Network::cut`].
    pub fn join(&self, one: &Machine, other: &Machine) {
        self.rule("delete", one, other);
    }

    fn rule(&self, action: &str, one: &Machine, other: &Machine) {
        let (one, other) = (one.address, other.address);
        self.router.shell(&format!(
            "ip rule {action} from {one} to {other} blackhole; \
             ip rule {action} from {other} to {one} blackhole"
        ));
    }
}

/// A machine of a network.
pub struct Machine {
    namespaces: Namespaces,
    address: Ipv4Addr,
}

impl Machine {
    /// Its address in the network.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Lets the calling thread, and what it starts from now on, use the network of this machine.
    pub fn enter_network(&self) {
        let path = PathBuf::from("/proc").join(self.namespaces.process()).join("ns/net");
        let namespace = File::open(path).expect("the namespace");
        setns(namespace, CloneFlags::CLONE_NEWNET).expect("the namespace can be entered");
    }

    /// Runs this in a thread that uses the network of this machine.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter_network();
                work()
            });
            match thread.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Runs a shell command on it; it must succeed.
    pub fn shell(&self, command: &str) {
        self.namespaces.shell(command);
    }

    /// Mounts an empty file system of this size, such as `64m`, which only this machine sees.
    pub fn mount(&self, directory: &Path, size: &str) {
        self.shell(&format!("mount -t tmpfs -o size={size} tmpfs '{}'", directory.display()));
    }

    /// Changes a command so that it runs on this machine, in this directory as it is there. The process of the program is
    /// that of the command.
    pub fn command(&self, command: &Command, directory: &Path) -> Command {
        let mut inside = Command::new("nsenter");
        inside.args(["--target", &self.namespaces.process(), "--net", "--mount"]);
        inside.arg(format!("--wdns={}", directory.display()));
        inside.arg(command.get_program()).args(command.get_args()).env_clear();
        let variables = command.get_envs();
        inside.envs(variables.filter_map(|(name, value)| value.map(|value| (name, value))));
        inside
    }

    /// Ends all processes that use its network, as if it lost its power.
    pub fn kill_processes(&self) {
        let own = self.namespaces.process();
        let network = |process: &Path| std::fs::read_link(process.join("ns/net")).ok();
        let here = network(&Path::new("/proc").join(&own));
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        for entry in all.filter(|entry| network(&entry.path()) == here) {
            let name = entry.file_name().to_string_lossy().into_owned();
            // Threads of the test that use its network do not count: they are no processes.
            if name != own && name.parse::<u32>().is_ok() {
                let _ = Command::new("kill").args(["-KILL", &name]).stderr(Stdio::null()).status();
            }
        }
    }

    /// Accepts TCP connections at an address of this machine and passes each on to the first of these addresses that
    /// accepts it, beginning with another one each time. It lasts as long as the test.
    pub fn proxy(&self, listen: SocketAddrV4, targets: &[SocketAddrV4]) {
        let (listener, targets) = (self.run(|| TcpListener::bind(listen)), targets.to_vec());
        let listener = listener.expect("a free port");
        let namespace = PathBuf::from("/proc").join(self.namespaces.process()).join("ns/net");
        let namespace = Arc::new(File::open(namespace).expect("the namespace"));
        std::thread::spawn(move || {
            setns(&*namespace, CloneFlags::CLONE_NEWNET).expect("the namespace can be entered");
            for (number, stream) in listener.incoming().enumerate() {
                let Ok(stream) = stream else { continue };
                let targets = targets.clone();
                std::thread::spawn(move || pass_on(&stream, &targets, number));
            }
        });
    }
}

/// Copies between a connection and the first target that accepts one, until both directions end.
fn pass_on(stream: &TcpStream, targets: &[SocketAddrV4], first: usize) {
    let all = targets.iter().cycle().skip(first % targets.len().max(1)).take(targets.len());
    let connect = |target: &SocketAddrV4| {
        TcpStream::connect_timeout(&SocketAddr::V4(*target), CONNECT_TIMEOUT).ok()
    };
    let Some(other) = { all }.find_map(connect) else { return };
    let _ = (stream.set_nodelay(true), other.set_nodelay(true));
    std::thread::scope(|scope| {
        scope.spawn(|| copy(stream, &other));
        copy(&other, stream);
    });
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let mut buffer = [0; 16_384];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = (to.shutdown(Shutdown::Write), from.shutdown(Shutdown::Read));
}
