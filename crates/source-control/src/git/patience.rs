//! How long git is waited for where an agent could have it wait for ever: a pipe in the place of a
//! file is never read to its end.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Output};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How long git may take, and what is looked for when it takes long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// After this time, somebody looks for what git could be waiting for.
    pub(super) grace: Duration,
    /// After this time more, git is ended in any case.
    pub(super) limit: Duration,
    /// What git could be waiting for, in the directory that it works in.
    pub(super) obstacle: fn(&Path) -> Option<String>,
}

impl Patience {
    /// Waits for git; if it is ended before its time, the error says why.
    pub(super) fn wait(
        &self,
        mut child: Child,
        place: &Path,
    ) -> io::Result<Result<Output, String>> {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        std::thread::scope(|scope| {
            let (done, ended) = mpsc::channel();
            let stdout = scope.spawn(move || {
                let text = whole(stdout);
                drop(done);
                text
            });
            let stderr = scope.spawn(move || whole(stderr));
            let late = |time: Duration| {
                matches!(ended.recv_timeout(time), Result::<(), _>::Err(RecvTimeoutError::Timeout))
            };
            let mut why = None;
            if late(self.grace) {
                why = (self.obstacle)(place);
                if why.is_none() && late(self.limit) {
                    why = Some(format!("it did not end within {} seconds", self.limit.as_secs()));
                }
            }
            if why.is_some() {
                child.kill()?;
            }
            let status = child.wait()?;
            let broken = |_| io::Error::other("its output could not be read");
            let stdout = stdout.join().map_err(broken)??;
            let stderr = stderr.join().map_err(broken)??;
            Ok(why.map_or(Ok(Output { status, stdout, stderr }), Err))
        })
    }
}

fn whole(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
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

    use super::Patience;

    fn shell(script: &str) -> Child {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script]).stdin(Stdio::null());
        shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn patience(limit: Duration, obstacle: fn(&Path) -> Option<String>) -> Patience {
        Patience { grace: Duration::from_millis(10), limit, obstacle }
    }

    #[test]
    fn what_does_not_end_is_ended_and_what_does_is_heard_to_its_end() {
        let place = Path::new("/");
        let long = Duration::from_secs(3_600);
        let forever = "exec sleep 3600";
        let why = patience(Duration::from_millis(10), |_| None).wait(shell(forever), place);
        assert!(why.unwrap().unwrap_err().contains("did not end"));
        let why = patience(long, |place| Some(place.display().to_string()));
        assert_eq!(why.wait(shell(forever), place).unwrap().unwrap_err(), "/");
        let slow = "sleep 0.2; echo heard; echo complaint >&2; exit 3";
        let output = patience(long, |_| None).wait(shell(slow), place).unwrap().unwrap();
        assert_eq!((output.status.code(), output.stdout), (Some(3), b"heard\n".to_vec()));
        assert_eq!(output.stderr, b"complaint\n");
    }
}
