//! A real PostgreSQL server of the system's packages, in a temporary directory, with its own socket.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Runs the server until standard input is closed, which happens when the tests end in any way, and cleans up.
const SUPERVISOR: &str = r#"
cd /
"$1/postgres" -D "$2/data" -c listen_addresses= -c unix_socket_directories="$2" -c fsync=off \
    -c full_page_writes=off -c max_connections=300 -c shared_buffers=32MB $4 >"$2/log" 2>&1 </dev/null &
server=$!
while read -r order; do kill "-$order" "$server"; done
kill -QUIT "$server" 2>/dev/null
wait "$server"
[ -z "$3" ] || rm -rf "$2"
"#;

/// Creates an authority, a certificate for `localhost`, and rules that accept TCP connections with TLS only.
const CERTIFICATES: &str = r#"
set -e
cd "$1"
key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
openssl req -x509 $key -days 2 -subj /CN=authority -keyout ca.key -out ca.pem
openssl req $key -subj /CN=localhost -keyout data/server.key -out server.csr
echo subjectAltName=DNS:localhost >names
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out data/server.crt
chmod 600 data/server.key
printf 'local all all trust\nhostssl all all 127.0.0.1/32 trust\n' >data/pg_hba.conf
"#;

/// A user without rights: PostgreSQL refuses to run as root.
pub(crate) const NOBODY: u32 = 65_534;

/// A server; it ends when it is dropped.
pub struct PostgresServer {
    directory: TempDir,
    supervisor: Mutex<Child>,
    /// Of connections over TCP, and of the socket.
    port: u16,
    options: String,
}

const USUAL_PORT: u16 = 5432;

impl PostgresServer {
    /// The server that the tests of this process share.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        // A static value is never dropped: its files are removed by its supervisor.
        SHARED.get_or_init(|| Self::initialised().started("remove", USUAL_PORT, ""))
    }

    /// Starts a server.
    pub fn start() -> Self {
        Self::initialised().started("", USUAL_PORT, "")
    }

    /// Starts a server that also accepts TCP connections, with TLS only.
    pub fn start_with_tls() -> Self {
        let place = Self::initialised();
        let made = unprivileged(Path::new("sh"))
            .args(["-c", CERTIFICATES, "certificates"])
            .arg(place.0.path())
            .output()
            .expect("openssl runs");
        let errors = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success(), "no certificates: {errors}");
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr());
        let port = free.expect("a free port").port();
        place.started("", port, &format!("-c listen_addresses=127.0.0.1 -c port={port} -c ssl=on"))
    }

    /// The URL of a database over TCP.
    pub fn tcp_url(&self, name: &str) -> String {
        format!("postgres://tester@localhost:{}/{name}", self.port)
    }

    /// The certificate of the authority that signed the server's.
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// Starts a server that also accepts TCP connections from any address, without TLS, in the network namespace of the
    /// calling thread.
    pub fn start_on_all_addresses(options: &str) -> Self {
        let place = Self::initialised();
        let mut rules = std::fs::OpenOptions::new()
            .append(true)
            .open(place.0.path().join("data/pg_hba.conf"))
            .expect("the rules");
        rules.write_all(b"host all all 0.0.0.0/0 trust\n").expect("the rules");
        place.started("", USUAL_PORT, &format!("-c listen_addresses=0.0.0.0 {options}"))
    }

    fn initialised() -> Place {
        let directory =
            tempfile::Builder::new().prefix("bailiwick-pg-").tempdir().expect("a place");
        if is_root() {
            std::os::unix::fs::chown(directory.path(), Some(NOBODY), Some(NOBODY))
                .expect("a place");
        }
        let output = unprivileged(&programs().join("initdb"))
            .args(["--no-sync", "-A", "trust", "-U", "tester", "--locale=C.UTF-8", "-D"])
            .arg(directory.path().join("data"))
            .current_dir("/")
            .output()
            .expect("initdb runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "initdb failed: {errors}");
        Place(directory)
    }

    /// Creates an empty database; returns its URL.
    pub fn create_database(&self) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// The URL of a database.
    pub fn url(&self, name: &str) -> String {
        let directory = self.directory.path().display().to_string().replace('/', "%2F");
        format!("postgres://tester@{directory}/{name}")
    }

    /// The directory of its socket.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A shell command that runs the statement that follows it.
    pub fn psql_command(&self) -> String {
        let program = programs().join("psql").display().to_string();
        format!("{program} -q -U tester -d postgres -h {} -c", self.directory.path().display())
    }

    /// The path of a program of PostgreSQL, such as `pg_dump`.
    pub fn program(name: &str) -> String {
        programs().join(name).display().to_string()
    }

    /// Runs a statement in a database; gives what it prints, without frames.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        let output = self.psql(database, statement);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{statement}: {errors}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// All of a database as SQL.
    pub fn dump(&self, database: &str) -> String {
        let output = Command::new(programs().join("pg_dump"))
            .args(["-U", "tester", "-h"])
            .arg(self.directory.path())
            .arg(database)
            .output()
            .expect("pg_dump runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "pg_dump failed: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Replaces a database by what a dump of it has.
    pub fn restore(&self, database: &str, dump: &str) {
        self.sql("postgres", &format!("DROP DATABASE {database} WITH (FORCE)"));
        self.sql("postgres", &format!("CREATE DATABASE {database}"));
        let file = self.directory.path().join(format!("{database}.sql"));
        std::fs::write(&file, dump).expect("the dump is written");
        let output = Command::new(programs().join("psql"))
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-U", "tester", "-d", database, "-h"])
            .arg(self.directory.path())
            .args(["-p", &self.port.to_string(), "-f"])
            .arg(&file)
            .output()
            .expect("psql runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "the dump was not restored: {errors}");
        let _ = std::fs::remove_file(file);
    }

    /// Sends a signal to the server: INT ends it with all connections, QUIT is a crash.
    pub fn signal(&self, signal: &str) {
        let mut supervisor = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner);
        let orders = supervisor.stdin.as_mut().expect("a pipe");
        writeln!(orders, "{signal}").expect("the supervisor reads");
    }

    /// Crashes the server and starts it again on the same data.
    pub fn crash_and_restart(&self) {
        self.signal("QUIT");
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.directory.path().join("data/postmaster.pid").exists() && self.is_ready() {
            assert!(Instant::now() < deadline, "the server did not crash");
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut supervisor = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner);
        drop(supervisor.stdin.take());
        supervisor.wait().expect("the supervisor ends");
        *supervisor = supervise(self.directory.path(), "", &self.options);
        drop(supervisor);
        self.wait_until_ready();
    }

    fn psql(&self, database: &str, statement: &str) -> std::process::Output {
        Command::new(programs().join("psql"))
            .args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-U", "tester", "-d", database])
            .arg("-h")
            .arg(self.directory.path())
            .args(["-p", &self.port.to_string(), "-c", statement])
            .output()
            .expect("psql runs")
    }

    fn is_ready(&self) -> bool {
        self.psql("postgres", "SELECT 1").status.success()
    }

    fn wait_until_ready(&self) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !self.is_ready() {
            let log = std::fs::read_to_string(self.directory.path().join("log"));
            assert!(Instant::now() < deadline, "PostgreSQL does not answer: {log:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        let mut supervisor = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner);
        drop(supervisor.stdin.take());
        let _ = supervisor.wait();
    }
}

/// The files of a server that is not started yet.
struct Place(TempDir);

impl Place {
    fn started(self, at_end: &str, port: u16, options: &str) -> PostgresServer {
        let supervisor = Mutex::new(supervise(self.0.path(), at_end, options));
        let options = options.to_owned();
        let server = PostgresServer { directory: self.0, supervisor, port, options };
        server.wait_until_ready();
        server
    }
}

fn supervise(directory: &Path, at_end: &str, options: &str) -> Child {
    unprivileged(Path::new("sh"))
        .args(["-c", SUPERVISOR, "supervisor"])
        .arg(programs())
        .arg(directory)
        .arg(at_end)
        .arg(options)
        .stdin(Stdio::piped())
        .spawn()
        .expect("the supervisor starts")
}

pub(crate) fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

/// A command of a user without rights.
pub(crate) fn unprivileged(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let id = NOBODY.to_string();
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]).arg(program);
    command
}

/// The directory of the newest server on this machine: Debian does not put it into `PATH`.
fn programs() -> PathBuf {
    let of_debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = of_debian.map(|version| version.path().join("bin")).collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    all.extend(std::env::split_paths(&path));
    all.retain(|directory| directory.join("postgres").is_file());
    all.sort_by_key(|directory| {
        let version = directory.parent().and_then(Path::file_name).unwrap_or_default();
        version.to_string_lossy().parse::<u32>().unwrap_or_default()
    });
    all.pop().expect("PostgreSQL is missing: install postgresql")
}
