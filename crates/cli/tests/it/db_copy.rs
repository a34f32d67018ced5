//! `bailiwick db copy`, and a copy that was interrupted.

use std::cell::Cell;
use std::path::Path;
use std::pin::pin;
use std::task::Poll;

use bailiwick_store::{Location, Store};
use bailiwick_testkit::Scratch;

use crate::BAILIWICK;

/// Copies some rows of a database into another one, and stops in the middle.
fn copy_some(from: &Path, to: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let from = Store::open(Location::file(from)).await.unwrap();
        let to = Store::open_for_copy(Location::file(to)).await.unwrap();
        let committed = Cell::new(0);
        let mut copy = pin!(from.copy_in_batches(&to, 1, |_| committed.set(committed.get() + 1)));
        std::future::poll_fn(|context| match committed.get() {
            0 | 1 => copy.as_mut().poll(context).map(drop),
            _ => Poll::Ready(()),
        })
        .await;
    });
}

#[test]
fn unfinished_copy_is_refused_until_it_is_completed() {
    let scratch = Scratch::repository();
    scratch.commit("start");
    let run_on = |database: &str, command: &str| {
        let arguments: Vec<&str> =
            ["--db", database].into_iter().chain(command.split(' ')).collect();
        scratch.run(BAILIWICK, &arguments)
    };
    run_on("one.db", "tokens new ada").expect_code(0);
    copy_some(&scratch.root().join("one.db"), &scratch.root().join("two.db"));
    for command in ["serve --listen 127.0.0.1:0", "db status", "tokens list", "ps"] {
        let refused = run_on("two.db", command).expect_code(1);
        for expected in
            ["it is an unfinished copy of ", "finish it with `bailiwick db copy --from "]
        {
            assert!(refused.err.contains(expected), "{command}: {}", refused.err);
        }
    }
    let copy = ["db", "copy", "--from", "one.db", "--to", "two.db"];
    scratch.run(BAILIWICK, &copy).expect_code(0);
    let tokens = |database: &str| run_on(database, "tokens list -o json").expect_code(0).out;
    assert!(tokens("two.db").contains("ada"), "{}", tokens("two.db"));
    assert_eq!(tokens("two.db"), tokens("one.db"));
    let again = scratch.run(BAILIWICK, &copy).expect_code(1);
    assert!(again.err.contains("it is not empty"), "{}", again.err);
}
