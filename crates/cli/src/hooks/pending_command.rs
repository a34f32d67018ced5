//! Passes shell commands from the hook to the program that runs them in the sandbox: one file each, so that no text
//! is quoted. Each runs once, and the program confirms that with another file.
//!
//! ```text
//!  commands/ID         what the agent's program starts
//!  commands/ID.json    the command
//!  commands/ID.ran     it was started in the sandbox
//!  commands/in-SESSION commands of this session were started in the sandbox
//!  commands/by-PROCESS commands of this agent were
//!  commands/bypassed   one was started without it: no more are allowed
//! ```

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// How long a command that did not run is kept.
const MAX_AGE: Duration = Duration::from_secs(86_400);

/// A command that is to be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Its text.
    pub command: String,
    /// The session of the agent.
    pub session: Option<String>,
}

/// The directory of such commands.
#[derive(Debug, Clone)]
pub struct Commands {
    directory: PathBuf,
}

impl Commands {
    /// In this directory.
    pub fn of(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Stores a command, and returns the command line to start instead. `script` creates that from an ID.
    pub fn put(
        &self,
        pending: &Pending,
        script: impl FnOnce(&str) -> Result<String, io::Error>,
    ) -> io::Result<PathBuf> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        self.sweep();
        let id = new_id()?;
        write(&self.text(&id), 0o600, serde_json::to_string(pending)?.as_bytes())?;
        let program = self.directory.join(&id);
        write(&program, 0o700, script(&id)?.as_bytes())?;
        Ok(program)
    }

    /// Removes and returns a command, which is possible only once.
    pub fn take(&self, id: &str) -> io::Result<Pending> {
        let id = checked(id)?;
        // The rename succeeds for one process only.
        let taken = self.directory.join(format!("{id}.taken"));
        fs::rename(self.text(id), &taken)?;
        let text = fs::read(&taken);
        fs::remove_file(&taken)?;
        Ok(serde_json::from_slice(&text?)?)
    }

    /// Records that a command of the agent above this process was started in the sandbox.
    pub fn started_by_agent(&self) -> io::Result<()> {
        let ancestors = bailiwick_gate::ancestors();
        let Some(agent) = ancestors.iter().find(|process| !process.is_shell()) else {
            return Ok(());
        };
        let mark = self.directory.join(agent.mark());
        if !mark.is_file() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
            self.sweep();
        }
        write(&mark, 0o600, b"")
    }

    /// Records that a command was started in the sandbox.
    pub fn started(&self, id: &str, session: Option<&str>) -> io::Result<()> {
        if let Some(mark) = session.and_then(|session| self.session(session)) {
            write(&mark, 0o600, b"")?;
        }
        write(&self.record(checked(id)?), 0o600, b"")
    }

    /// Removes what is left of a command that has ended; the record stays for the hook.
    pub fn ended(&self, id: &str) {
        if let Ok(id) = checked(id) {
            // A leftover is removed later.
            let _ = fs::remove_file(self.directory.join(id));
        }
    }

    /// The id in the text of a command that was changed by the hook.
    pub fn id_in<'a>(&self, text: &'a str) -> Option<&'a str> {
        let first = text.split_whitespace().next()?;
        let id = Path::new(first).strip_prefix(&self.directory).ok()?.to_str()?;
        checked(id).ok()
    }

    /// Whether a command was started in the sandbox; answered only once.
    pub fn has_started(&self, id: &str) -> bool {
        checked(id).is_ok_and(|id| fs::remove_file(self.record(id)).is_ok())
    }

    /// Whether commands of a session were started in the sandbox.
    pub fn is_verified(&self, session: &str) -> bool {
        self.session(session).is_some_and(|mark| mark.is_file())
    }

    /// Remembers that a command ran without the sandbox.
    pub fn set_bypassed(&self, text: &str) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        write(&self.bypassed(), 0o600, text.as_bytes())
    }

    /// The command that ran without the sandbox, if one did.
    pub fn bypassing(&self) -> Option<String> {
        match fs::read_to_string(self.bypassed()) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(format!("(it cannot be read: {error})")),
        }
    }

    /// The marker file for that.
    pub fn bypassed(&self) -> PathBuf {
        self.directory.join("bypassed")
    }

    fn text(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.json"))
    }

    fn record(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.ran"))
    }

    fn session(&self, session: &str) -> Option<PathBuf> {
        let plain = |one: char| one.is_ascii_alphanumeric() || one == '-' || one == '_';
        let fits = !session.is_empty() && session.len() <= 100 && session.chars().all(plain);
        fits.then(|| self.directory.join(format!("in-{session}")))
    }

    /// Removes what is old.
    fn sweep(&self) {
        let now = SystemTime::now();
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let age = entry.metadata().and_then(|found| found.modified()).ok();
            let age = age.and_then(|time| now.duration_since(time).ok()).unwrap_or_default();
            if age > MAX_AGE && entry.path() != self.bypassed() {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn write(file: &Path, mode: u32, text: &[u8]) -> io::Result<()> {
    let mut file =
        fs::OpenOptions::new().create(true).truncate(true).write(true).mode(mode).open(file)?;
    file.write_all(text)
}

fn new_id() -> io::Result<String> {
    let mut bytes = [0_u8; 12];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Checks that a text is one of our IDs and not a path.
fn checked(id: &str) -> io::Result<&str> {
    let fits = id.len() == 24 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    fits.then_some(id).ok_or_else(|| io::Error::other("this is not the id of a command"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_command_runs_once_and_is_recorded_once() {
        let directory = tempfile::tempdir().unwrap();
        let commands = Commands::of(directory.path().join("commands"));
        let pending =
            Pending { command: "echo 'it''s' \"x\"\n".into(), session: Some("s-1".into()) };
        let program = commands.put(&pending, |id| Ok(format!("run {id}\n"))).unwrap();
        let text = format!("{} # echo", program.display());
        let id = commands.id_in(&text).unwrap().to_owned();
        assert_eq!(fs::read_to_string(&program).unwrap(), format!("run {id}\n"));
        assert!(!commands.has_started(&id) && !commands.is_verified("s-1"));
        assert_eq!(commands.take(&id).unwrap(), pending);
        assert!(commands.take(&id).is_err(), "the command cannot run again");
        commands.started(&id, Some("s-1")).unwrap();
        assert!(commands.has_started(&id) && commands.is_verified("s-1"));
        assert!(!commands.has_started(&id), "each record is returned once");
        commands.ended(&id);
        assert!(!program.exists());
    }

    #[test]
    fn only_valid_command_ids_are_accepted() {
        let directory = tempfile::tempdir().unwrap();
        let commands = Commands::of(directory.path().to_owned());
        for id in ["../../etc/passwd", "", "zzzzzzzzzzzzzzzzzzzzzzzz"] {
            assert!(commands.take(id).is_err() && !commands.has_started(id), "{id}");
        }
        let other = format!("{}/x/{}", directory.path().display(), "a".repeat(24));
        assert_eq!(commands.id_in(&other), None);
        assert_eq!(commands.id_in("git push"), None);
        assert!(!commands.is_verified("../x"));
    }

    #[test]
    fn command_that_ran_without_the_sandbox_is_recorded() {
        let directory = tempfile::tempdir().unwrap();
        let commands = Commands::of(directory.path().join("commands"));
        assert_eq!(commands.bypassing(), None);
        commands.set_bypassed("evil").unwrap();
        assert_eq!(commands.bypassing().as_deref(), Some("evil"));
    }
}
