//! Runs a short program with a timeout and returns its output.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The standard output of a short program that exits with 0 within `limit`.
///
/// It gets no input and is killed when its time is over.
pub fn short_output(command: &mut Command, limit: Duration) -> Option<String> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = child.spawn().ok()?;
    let mut pipe = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = pipe.read(&mut piece) {
            if sender.send(piece.get(..length).unwrap_or_default().to_vec()).is_err() {
                break;
            }
        }
    });
    if !exits_well(&mut child, limit) {
        return None;
    }
    // A background process may keep the pipe open: only output that arrives soon is read.
    let mut text = Vec::new();
    while let Ok(piece) = receiver.recv_timeout(Duration::from_secs(2)) {
        text.extend(piece);
        if text.len() > MAX_WORDS {
            break;
        }
    }
    Some(String::from_utf8_lossy(&text).into_owned())
}

const MAX_WORDS: usize = 64 * 1024;

fn exits_well(child: &mut Child, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(_) => break,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_that_does_not_end_is_killed() {
        let mut endless = Command::new("sleep");
        assert_eq!(short_output(endless.arg("600"), Duration::from_millis(50)), None);
        let mut quick = Command::new("echo");
        let output = short_output(quick.arg("hi"), Duration::from_secs(60));
        assert_eq!(output.as_deref(), Some("hi\n"));
        assert_eq!(short_output(&mut Command::new("false"), Duration::from_secs(60)), None);
    }

    #[test]
    fn background_process_is_not_waited_for() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 600 & echo $!"]);
        let output = short_output(&mut shell, Duration::from_secs(60)).unwrap();
        let sleeper = output.trim();
        assert!(
            std::path::Path::new("/proc").join(sleeper).exists(),
            "it waited for the background process: {output:?}"
        );
        assert!(Command::new("kill").arg(sleeper).status().unwrap().success());
    }
}
