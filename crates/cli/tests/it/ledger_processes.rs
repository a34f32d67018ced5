//! Several processes write to the ledger at the same time, beginning with a new file.

use std::process::Stdio;

use bailiwick_testkit::{Scratch, figure};

use crate::KEI_LEDGER;

const PROCESSES: usize = 64;
const ROWS_EACH: usize = 50;

/// 64 shells at the same time, each with 50 `fork` processes that add one row each: 3,200 rows.
#[test]
fn sixty_four_writers_lose_no_row() {
    let scratch = Scratch::bare();
    let database = scratch.place().join("fresh/ledger.db");
    let start = scratch.place().join("start");
    let script = format!(
        "while [ ! -e \"$2\" ]; do sleep 0.01; done\n\
         for row in $(seq {ROWS_EACH}); do\n\
         \"$0\" fork \"w$1-$row\" \"agent/w$1-$row\" --spec-sha \"sha-$1-$row\" --parent main || exit 1\n\
         done"
    );
    let writers: Vec<_> = (0..PROCESSES)
        .map(|writer| {
            let mut shell = scratch.command("sh");
            shell.args(["-c", &script, KEI_LEDGER, &writer.to_string()]).arg(&start);
            shell.env("KEI_LEDGER_DB", &database).stdout(Stdio::null()).stderr(Stdio::piped());
            shell.spawn().unwrap()
        })
        .collect();
    std::fs::write(&start, "").unwrap();
    for writer in writers {
        let output = writer.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let mut list = scratch.command(KEI_LEDGER);
    let output = list.arg("list").env("KEI_LEDGER_DB", &database).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut ids: Vec<&str> = text.lines().filter_map(|line| line.split('\t').next()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), PROCESSES * ROWS_EACH);
    figure(&format!(
        "ledger: {PROCESSES} processes forked {ROWS_EACH} rows each on a fresh database: {} rows, 0 errors",
        ids.len()
    ));
}
