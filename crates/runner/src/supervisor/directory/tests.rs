//! Tests of the directory of a run.

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
fn checking_the_lock_blocks_nobody_and_leaves_no_trace() {
    let (_state, directory) = place();
    let file = directory.path().join("lock");
    fs::write(&file, "somebody").unwrap();
    let checks = [directory.block_start().unwrap(), directory.block_start().unwrap()];
    assert!(checks.iter().all(Option::is_some), "several may check");
    assert!(!directory.is_supervised().unwrap());
    let copy = directory.clone();
    let locking = std::thread::spawn(move || copy.lock().unwrap());
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(fs::read_to_string(&file).unwrap(), "somebody", "it is not locked yet");
    drop(checks);
    let lock = locking.join().unwrap();
    assert!(lock.is_some(), "the lock was refused");
    assert_eq!(fs::read_to_string(&file).unwrap(), std::process::id().to_string());
}

#[test]
fn truncated_line_is_skipped_and_no_other_line_is_lost() {
    let (_state, directory) = place();
    directory.add_message("first").unwrap();
    let complete = serde_json::to_string("caf\u{e9}").unwrap();
    // Within the last character.
    let truncated = &complete.as_bytes()[..complete.len() - 2];
    assert!(std::str::from_utf8(truncated).is_err());
    let messages =
        [fs::read(directory.pending_messages_file()).unwrap(), truncated.to_vec()].concat();
    fs::write(directory.pending_messages_file(), messages).unwrap();
    assert_eq!(directory.pending_messages().unwrap(), ["first"]);
    directory.add_message("second").unwrap();
    directory.add_message("third").unwrap();
    assert_eq!(directory.pending_messages().unwrap(), ["first", "second", "third"]);
}

#[test]
fn only_messages_that_were_read_are_removed() {
    let (_state, directory) = place();
    for text in ["first", "second"] {
        directory.add_message(text).unwrap();
    }
    let read = directory.pending_messages().unwrap().len();
    directory.add_message("third").unwrap();
    directory.acknowledge(0).unwrap();
    assert_eq!(directory.pending_messages().unwrap(), ["first", "second", "third"]);
    directory.acknowledge(read).unwrap();
    assert_eq!(directory.pending_messages().unwrap(), ["third"]);
    directory.acknowledge(1).unwrap();
    assert!(!directory.pending_messages_file().exists());
    directory.acknowledge(1).unwrap();
}

#[test]
fn message_sent_while_others_are_read_is_not_lost() {
    let (_state, directory) = place();
    let copy = directory.clone();
    let sender = std::thread::spawn(move || {
        (0..500).for_each(|number| copy.add_message(&number.to_string()).unwrap());
    });
    let mut received = Vec::new();
    loop {
        let finished = sender.is_finished();
        let messages = directory.pending_messages().unwrap();
        directory.acknowledge(messages.len()).unwrap();
        received.extend(messages);
        if finished {
            break;
        }
    }
    sender.join().unwrap();
    assert_eq!(received, (0..500).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[test]
fn run_has_at_most_one_supervisor() {
    let (_state, directory) = place();
    assert!(!directory.is_supervised().unwrap());
    let lock = directory.lock().unwrap();
    assert!(lock.is_some() && directory.is_supervised().unwrap());
    assert!(directory.lock().unwrap().is_none());
    assert!(directory.block_start().unwrap().is_none());
    assert!(directory.is_supervised_by(std::process::id()).unwrap());
    drop(lock);
    // A process that another test starts at this moment may inherit the file for an instant.
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while directory.is_supervised().unwrap() {
        assert!(std::time::Instant::now() < deadline, "it stays locked");
        std::thread::yield_now();
    }
    while directory.lock().unwrap().is_none() {
        assert!(std::time::Instant::now() < deadline, "it cannot be locked");
        std::thread::yield_now();
    }
}
