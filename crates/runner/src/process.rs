//! Starting a program and not waiting for it for ever.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a short program printed to standard output, if it exits 0 within `limit`.
///
/// It gets no input and is killed when its time is over.
pub fn first_words(command: &mut Command, limit: Duration) -> Option<String> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = child.spawn().ok()?;
    let mut pipe = child.stdout.take()?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = pipe.by_ref().take(64 * 1024).read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    if !exits_well(&mut child, limit) {
        return None;
    }
    reader.join().ok()
}

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
    fn a_program_that_never_ends_is_ended() {
        let mut endless = Command::new("sleep");
        assert_eq!(first_words(endless.arg("600"), Duration::from_millis(50)), None);
        let mut quick = Command::new("echo");
        let said = first_words(quick.arg("hi"), Duration::from_secs(60));
        assert_eq!(said.as_deref(), Some("hi\n"));
        assert_eq!(first_words(&mut Command::new("false"), Duration::from_secs(60)), None);
    }
}
