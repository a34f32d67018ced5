//! A real PgBouncer of the system's packages, which gives each transaction any of a few connections to the server.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::postgres::{NOBODY, PostgresServer, is_root, unprivileged};
use tempfile::TempDir;

/// Runs the pooler until standard input is closed, which happens when the tests end in any way, and cleans up.
const SUPERVISOR: &str = r#"
cd /
pgbouncer "$1/pgbouncer.ini" >"$1/log" 2>&1 </dev/null &
pooler=$!
while read -r _; do :; done
kill -TERM "$pooler" 2>/dev/null
wait "$pooler"
rm -rf "$1"
"#;

/// sqlx sends a setting that PgBouncer does not support, and the guide tells people to ignore it, too.
const SETTINGS: &str = "\
[databases]
* = host=SERVER
[pgbouncer]
unix_socket_dir = PLACE
listen_port = 6432
auth_type = trust
auth_file = PLACE/users
pool_mode = transaction
default_pool_size = 4
max_client_conn = 1000
server_idle_timeout = 5
ignore_startup_parameters = extra_float_digits
";

/// A pooler in front of a server.
pub struct PgBouncer {
    directory: TempDir,
    _supervisor: Child,
}

impl PgBouncer {
    /// The pooler of the server that the tests of this process share.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PgBouncer> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(PostgresServer::shared()))
    }

    fn start(server: &PostgresServer) -> Self {
        let directory =
            tempfile::Builder::new().prefix("bailiwick-pgb-").tempdir().expect("a place");
        let place = directory.path();
        let settings = SETTINGS.replace("PLACE", &place.display().to_string());
        let settings = settings.replace("SERVER", &server.directory().display().to_string());
        std::fs::write(place.join("pgbouncer.ini"), settings).expect("settings");
        std::fs::write(place.join("users"), "\"tester\" \"\"\n").expect("users");
        if is_root() {
            std::os::unix::fs::chown(place, Some(NOBODY), Some(NOBODY)).expect("a place");
        }
        let supervisor = unprivileged(Path::new("sh"))
            .args(["-c", SUPERVISOR, "supervisor"])
            .arg(place)
            .stdin(Stdio::piped())
            .spawn()
            .expect("the supervisor starts");
        let pooler = Self { directory, _supervisor: supervisor };
        pooler.wait_until_ready();
        pooler
    }

    /// The URL of a database through the pooler.
    pub fn url(&self, database: &str) -> String {
        let place = self.directory.path().display().to_string().replace('/', "%2F");
        format!("postgres://tester@{place}:6432/{database}")
    }

    fn wait_until_ready(&self) {
        let socket: PathBuf = self.directory.path().join(".s.PGSQL.6432");
        let deadline = Instant::now() + Duration::from_secs(60);
        while !socket.exists() {
            let log = std::fs::read_to_string(self.directory.path().join("log"));
            assert!(Instant::now() < deadline, "PgBouncer does not start: {log:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The version of the installed program.
    pub fn version() -> String {
        let output = Command::new("pgbouncer").arg("--version").output().expect("pgbouncer runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().next().unwrap_or_default().to_owned()
    }
}
