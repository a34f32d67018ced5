//! Where a run has its things on the host: below `runs/` of the state.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directory of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDirectory(PathBuf);

/// Held as long as somebody supervises the run. The kernel lets go of it when they are killed.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

/// Held as long as nobody is to become the supervisor of a run that has none.
#[derive(Debug)]
pub struct Unheld {
    _file: File,
}

/// How long somebody who only looks has the lock, and how often they are waited for.
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(2);
const MOST_LOOKS: u32 = 1_000;

impl RunDirectory {
    /// The directory of the run `id`.
    pub fn new(state: &Path, id: &str) -> Self {
        // A sandbox is told places without links on the way.
        let state = fs::canonicalize(state).unwrap_or_else(|_| state.to_path_buf());
        Self(state.join("runs").join(id))
    }

    /// Makes it, with all that is written to below it.
    pub fn make(&self) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        let git = self.git_layer();
        let layers = [git.join("common"), git.join("private"), self.scratch()];
        let all = [self.0.clone(), self.home(), self.temp(), self.gate()];
        all.iter().chain(&layers).try_for_each(|place| builder.create(place))
    }

    /// Itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The agent's home.
    pub fn home(&self) -> PathBuf {
        self.0.join("home")
    }

    /// The agent's temporary files.
    pub fn temp(&self) -> PathBuf {
        self.0.join("temp")
    }

    /// What the agent is granted in files, while it is at work.
    pub fn granted(&self) -> PathBuf {
        self.0.join("granted")
    }

    /// The files of the skills that it was handed.
    pub fn skills(&self) -> PathBuf {
        self.0.join("skills")
    }

    /// What the gate inside of the sandbox sees: the socket, and nothing else.
    pub fn gate(&self) -> PathBuf {
        self.0.join("gate")
    }

    /// Where the supervisor answers the gate.
    pub fn gate_socket(&self) -> PathBuf {
        self.gate().join("gate.sock")
    }

    /// Where it answers an agent that delegates.
    pub fn delegation_socket(&self) -> PathBuf {
        self.gate().join("delegate.sock")
    }

    /// Where it answers people.
    pub fn control_socket(&self) -> PathBuf {
        self.0.join("control.sock")
    }

    /// What was said to the agent and it has not heard, one text of JSON in a line.
    pub fn unheard(&self) -> PathBuf {
        self.0.join("unheard.jsonl")
    }

    /// The same, in the order in which it was said.
    pub fn not_heard(&self) -> io::Result<Vec<String>> {
        Ok(self.said()?.split(|byte| *byte == b'\n').filter_map(read).collect())
    }

    fn said(&self) -> io::Result<Vec<u8>> {
        match fs::read(self.unheard()) {
            Ok(bytes) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Keeps what is said to the agent until it has heard it, whatever becomes of its supervisor.
    pub fn say(&self, text: &str) -> io::Result<()> {
        let _turn = self.lock_messages()?;
        let mut options = File::options();
        let mut file =
            options.create(true).read(true).append(true).mode(0o600).open(self.unheard())?;
        let mut line = serde_json::to_string(text)?;
        line.push('\n');
        // What was cut off must not take this with it.
        if is_cut_off(&file)? {
            line.insert(0, '\n');
        }
        file.write_all(line.as_bytes())
    }

    /// It has heard the first `count` of what `not_heard` gave; what was said since stays.
    pub fn heard(&self, count: usize) -> io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let _turn = self.lock_messages()?;
        let said = self.said()?;
        let mut passed = 0;
        let rest = said.split_inclusive(|byte| *byte == b'\n').skip_while(|line| {
            let heard = passed < count;
            passed += usize::from(read(line).is_some());
            heard
        });
        let rest: Vec<&[u8]> = rest.collect();
        if rest.iter().all(|line| read(line).is_none()) {
            return match fs::remove_file(self.unheard()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                Ok(()) | Err(_) => Ok(()),
            };
        }
        // Whoever is killed here has lost nothing of it.
        let anew = self.unheard().with_extension("new");
        let mut options = File::options();
        let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(&anew)?;
        file.write_all(&rest.concat())?;
        fs::rename(anew, self.unheard())
    }

    /// Held while what was said is changed: nobody adds to a file that is just being replaced.
    fn lock_messages(&self) -> io::Result<File> {
        let place = self.0.join("unheard.lock");
        let file =
            File::options().create(true).truncate(false).write(true).mode(0o600).open(place)?;
        file.lock()?;
        Ok(file)
    }

    /// What only the agent needed: removed when its work has landed or was given up.
    pub fn private_places(&self) -> [PathBuf; 5] {
        [self.home(), self.temp(), self.gate(), self.git_layer(), self.scratch()]
    }

    /// What the agent's git writes, where it may commit.
    pub fn git_layer(&self) -> PathBuf {
        self.0.join("git")
    }

    /// What was written in the worktree outside of the agent's scope: build output, mostly. It never lands.
    pub fn scratch(&self) -> PathBuf {
        self.0.join("scratch")
    }

    /// The files of the scratch space, at their paths in the worktree.
    pub fn written_outside_scope(&self) -> PathBuf {
        self.scratch().join("upper")
    }

    /// New files that the agent may not make, taken out of the worktree.
    pub fn removed(&self) -> PathBuf {
        self.0.join("removed")
    }

    /// What the base ignores, as rules of one file.
    pub fn ignore_rules(&self) -> PathBuf {
        self.0.join("ignored")
    }

    /// The new files that were in the worktree before the agent first started.
    pub fn files_before(&self) -> PathBuf {
        self.0.join("files-before")
    }

    /// Every decision, with what was known.
    pub fn decisions(&self) -> PathBuf {
        self.0.join("decisions.jsonl")
    }

    /// What the agent program said on standard error.
    pub fn errors(&self) -> PathBuf {
        self.0.join("stderr.log")
    }

    /// Becomes the one supervisor of this run; nothing if there is another. Whoever only looks is waited for.
    pub fn lock(&self) -> io::Result<Option<RunLock>> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let file = self.lock_file()?;
        for _ in 0..MOST_LOOKS {
            match file.try_lock() {
                Ok(()) => {
                    // Whoever waits for this very process sees that it is the one.
                    file.set_len(0)?;
                    (&file).write_all(std::process::id().to_string().as_bytes())?;
                    return Ok(Some(RunLock { _file: file }));
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            if !is_shared(&file)? {
                return Ok(None);
            }
            file.unlock()?;
            std::thread::sleep(LOCK_RETRY_PAUSE);
        }
        Ok(None)
    }

    /// Keeps everybody from becoming its supervisor; nothing if somebody is. It is for moments: whoever comes
    /// meanwhile waits, and is not turned away.
    pub fn keep_unheld(&self) -> io::Result<Option<Unheld>> {
        let file = self.lock_file()?;
        Ok(is_shared(&file)?.then_some(Unheld { _file: file }))
    }

    fn lock_file(&self) -> io::Result<File> {
        File::options().create(true).truncate(false).write(true).open(self.0.join("lock"))
    }

    /// Whether this process supervises it now.
    pub fn is_held_by(&self, process: u32) -> io::Result<bool> {
        // To look whether it is held is to hold it for a moment, which must not be in its way.
        match fs::read_to_string(self.0.join("lock")) {
            Ok(holder) => Ok(holder == process.to_string() && self.is_held()?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether somebody supervises it now.
    pub fn is_held(&self) -> io::Result<bool> {
        let file = match File::open(self.0.join("lock")) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        Ok(!is_shared(&file)?)
    }
}

/// A text that was said. A line may be half written, and end within a character: then nobody was told that it
/// would be heard.
fn read(line: &[u8]) -> Option<String> {
    serde_json::from_slice(line).ok()
}

/// Whether the last line of a file is half written.
fn is_cut_off(file: &File) -> io::Result<bool> {
    let Some(last) = file.metadata()?.len().checked_sub(1) else { return Ok(false) };
    let mut byte = [0];
    file.read_exact_at(&mut byte, last)?;
    Ok(byte != *b"\n")
}

/// Whether the lock is shared with us from now on: nobody supervises the run.
fn is_shared(file: &File) -> io::Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::RunDirectory;

    fn place() -> (tempfile::TempDir, RunDirectory) {
        let state = tempfile::tempdir().unwrap();
        let directory = RunDirectory::new(state.path(), "one");
        directory.make().unwrap();
        (state, directory)
    }

    #[test]
    fn whoever_only_looks_turns_nobody_away_and_leaves_no_trace() {
        let (_state, directory) = place();
        let file = directory.path().join("lock");
        fs::write(&file, "somebody").unwrap();
        let looking = [directory.keep_unheld().unwrap(), directory.keep_unheld().unwrap()];
        assert!(looking.iter().all(Option::is_some), "several may look");
        assert!(!directory.is_held().unwrap());
        let own = directory.clone();
        let comes = std::thread::spawn(move || own.lock().unwrap());
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(fs::read_to_string(&file).unwrap(), "somebody", "nobody holds it yet");
        drop(looking);
        let held = comes.join().unwrap();
        assert!(held.is_some(), "it was turned away");
        assert_eq!(fs::read_to_string(&file).unwrap(), std::process::id().to_string());
    }

    #[test]
    fn a_line_that_was_cut_off_is_skipped_and_takes_no_other_with_it() {
        let (_state, directory) = place();
        directory.say("first").unwrap();
        let whole = serde_json::to_string("caf\u{e9}").unwrap();
        // Within the last character.
        let half = &whole.as_bytes()[..whole.len() - 2];
        assert!(std::str::from_utf8(half).is_err());
        let said = [fs::read(directory.unheard()).unwrap(), half.to_vec()].concat();
        fs::write(directory.unheard(), said).unwrap();
        assert_eq!(directory.not_heard().unwrap(), ["first"]);
        directory.say("second").unwrap();
        directory.say("third").unwrap();
        assert_eq!(directory.not_heard().unwrap(), ["first", "second", "third"]);
    }

    #[test]
    fn only_what_was_read_is_heard() {
        let (_state, directory) = place();
        for text in ["first", "second"] {
            directory.say(text).unwrap();
        }
        let read = directory.not_heard().unwrap().len();
        directory.say("third").unwrap();
        directory.heard(0).unwrap();
        assert_eq!(directory.not_heard().unwrap(), ["first", "second", "third"]);
        directory.heard(read).unwrap();
        assert_eq!(directory.not_heard().unwrap(), ["third"]);
        directory.heard(1).unwrap();
        assert!(!directory.unheard().exists());
        directory.heard(1).unwrap();
    }

    #[test]
    fn what_is_said_while_something_is_heard_is_not_lost() {
        let (_state, directory) = place();
        let own = directory.clone();
        let talks = std::thread::spawn(move || {
            (0..500).for_each(|number| own.say(&number.to_string()).unwrap());
        });
        let mut heard = Vec::new();
        loop {
            let over = talks.is_finished();
            let now = directory.not_heard().unwrap();
            directory.heard(now.len()).unwrap();
            heard.extend(now);
            if over {
                break;
            }
        }
        talks.join().unwrap();
        assert_eq!(heard, (0..500).map(|number| number.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn whoever_supervises_a_run_does_so_alone() {
        let (_state, directory) = place();
        assert!(!directory.is_held().unwrap());
        let held = directory.lock().unwrap();
        assert!(held.is_some() && directory.is_held().unwrap());
        assert!(directory.lock().unwrap().is_none());
        assert!(directory.keep_unheld().unwrap().is_none());
        assert!(directory.is_held_by(std::process::id()).unwrap());
        drop(held);
        // What another test starts at this moment has it open until it begins.
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while directory.is_held().unwrap() {
            assert!(std::time::Instant::now() < deadline, "it is held for ever");
            std::thread::yield_now();
        }
        while directory.lock().unwrap().is_none() {
            assert!(std::time::Instant::now() < deadline, "nobody can hold it");
            std::thread::yield_now();
        }
    }
}
