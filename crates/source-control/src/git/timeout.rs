//! A limit for git commands that an agent could block for ever: a pipe in place of a file is never read to
//! its end.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Output};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How soon it is seen that nobody waits for git any more.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How long git may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeout {
    /// After this time, `find_obstacle` looks for a file that blocks git.
    pub(super) grace: Duration,
    /// After this time more, git is stopped in any case.
    pub(super) limit: Duration,
    /// Finds a file that blocks git below the directory in which it runs, and describes it.
    pub(super) find_obstacle: fn(&Path) -> Option<String>,
}

/// How waiting for git ended.
#[derive(Debug)]
pub(super) enum Waited {
    /// Git exited by itself.
    Finished(Output),
    /// Git was killed.
    Stopped {
        /// The time limit, or the file that blocked git.
        reason: String,
    },
}

/// How long git may run for somebody who can leave.
#[derive(Clone, Copy)]
pub(super) struct Until<'a> {
    pub(super) limit: Duration,
    /// Whether nobody waits for it any more.
    pub(super) is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl Until<'_> {
    /// Waits until the sender of a channel is gone; why git has to be stopped before that, if it has to.
    pub(super) fn wait(self, finished: &Receiver<()>) -> Option<String> {
        let started = Instant::now();
        while finished.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            if (self.is_cancelled)() {
                return Some("nobody waits for it any more".to_owned());
            }
            if started.elapsed() >= self.limit {
                return Some(format!("it did not finish within {} seconds", self.limit.as_secs()));
            }
        }
        None
    }
}

impl Timeout {
    /// Waits for `child`, which runs in `directory`.
    pub(super) fn wait(&self, mut child: Child, directory: &Path) -> io::Result<Waited> {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        std::thread::scope(|scope| {
            let (done, finished) = mpsc::channel();
            let stdout = scope.spawn(move || {
                let text = read_all(stdout);
                drop(done);
                text
            });
            let stderr = scope.spawn(move || read_all(stderr));
            let runs_longer_than = |time: Duration| {
                let received: Result<(), _> = finished.recv_timeout(time);
                matches!(received, Err(RecvTimeoutError::Timeout))
            };
            let mut reason = None;
            if runs_longer_than(self.grace) {
                reason = (self.find_obstacle)(directory);
                if reason.is_none() && runs_longer_than(self.limit) {
                    let seconds = self.limit.as_secs();
                    reason = Some(format!("it did not finish within {seconds} seconds"));
                }
            }
            if reason.is_some() {
                child.kill()?;
            }
            let status = child.wait()?;
            let panicked = |_| io::Error::other("its output cannot be read");
            let stdout = stdout.join().map_err(panicked)??;
            let stderr = stderr.join().map_err(panicked)??;
            Ok(match reason {
                Some(reason) => Waited::Stopped { reason },
                None => Waited::Finished(Output { status, stdout, stderr }),
            })
        })
    }
}

fn read_all(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use super::{Timeout, Waited};

    const LONG: Duration = Duration::from_secs(3_600);

    fn shell(script: &str) -> Child {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script]).stdin(Stdio::null());
        shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn wait(
        script: &str,
        limit: Duration,
        find_obstacle: fn(&Path) -> Option<String>,
    ) -> Result<std::process::Output, String> {
        let timeout = Timeout { grace: Duration::from_millis(10), limit, find_obstacle };
        match timeout.wait(shell(script), Path::new("/")).unwrap() {
            Waited::Finished(output) => Ok(output),
            Waited::Stopped { reason } => Err(reason),
        }
    }

    #[test]
    fn endless_process_is_stopped_at_the_limit_or_at_an_obstacle() {
        let reason = wait("exec sleep 3600", Duration::from_millis(10), |_| None).unwrap_err();
        assert!(reason.contains("did not finish"), "{reason}");
        let found = |directory: &Path| Some(directory.display().to_string());
        assert_eq!(wait("exec sleep 3600", LONG, found).unwrap_err(), "/");
    }

    #[test]
    fn slow_process_keeps_its_exit_code_and_all_of_its_output() {
        let slow = "sleep 0.2; echo stdout; echo complaint >&2; exit 3";
        let output = wait(slow, LONG, |_| None).unwrap();
        assert_eq!((output.status.code(), output.stdout), (Some(3), b"stdout\n".to_vec()));
        assert_eq!(output.stderr, b"complaint\n");
    }
}
