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
fn looking_blocks_nobody_and_leaves_no_trace() {
    let (_state, directory) = place();
    let file = directory.path().join("lock");
    fs::write(&file, "somebody").unwrap();
    let looking = [directory.block_start().unwrap(), directory.block_start().unwrap()];
    assert!(looking.iter().all(Option::is_some), "several may look");
    assert!(!directory.is_supervised().unwrap());
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
    directory.add_message("first").unwrap();
    let whole = serde_json::to_string("caf\u{e9}").unwrap();
    // Within the last character.
    let half = &whole.as_bytes()[..whole.len() - 2];
    assert!(std::str::from_utf8(half).is_err());
    let said = [fs::read(directory.pending_messages_file()).unwrap(), half.to_vec()].concat();
    fs::write(directory.pending_messages_file(), said).unwrap();
    assert_eq!(directory.pending_messages().unwrap(), ["first"]);
    directory.add_message("second").unwrap();
    directory.add_message("third").unwrap();
    assert_eq!(directory.pending_messages().unwrap(), ["first", "second", "third"]);
}

#[test]
fn only_what_was_read_is_heard() {
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
fn what_is_said_while_something_is_heard_is_not_lost() {
    let (_state, directory) = place();
    let own = directory.clone();
    let talks = std::thread::spawn(move || {
        (0..500).for_each(|number| own.add_message(&number.to_string()).unwrap());
    });
    let mut heard = Vec::new();
    loop {
        let over = talks.is_finished();
        let now = directory.pending_messages().unwrap();
        directory.acknowledge(now.len()).unwrap();
        heard.extend(now);
        if over {
            break;
        }
    }
    talks.join().unwrap();
    assert_eq!(heard, (0..500).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[test]
fn run_has_at_most_one_supervisor() {
    let (_state, directory) = place();
    assert!(!directory.is_supervised().unwrap());
    let held = directory.lock().unwrap();
    assert!(held.is_some() && directory.is_supervised().unwrap());
    assert!(directory.lock().unwrap().is_none());
    assert!(directory.block_start().unwrap().is_none());
    assert!(directory.is_supervised_by(std::process::id()).unwrap());
    drop(held);
    // A process that another test starts at this moment may inherit the file for an instant.
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while directory.is_supervised().unwrap() {
        assert!(std::time::Instant::now() < deadline, "it is held for ever");
        std::thread::yield_now();
    }
    while directory.lock().unwrap().is_none() {
        assert!(std::time::Instant::now() < deadline, "nobody can hold it");
        std::thread::yield_now();
    }
}
