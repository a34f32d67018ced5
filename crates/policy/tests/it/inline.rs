//! Code of other languages inside of shell commands: what it runs, writes, hides, or only mentions.

use bailiwick_policy::shell::{HiddenReason, ShellEffects, read};

use crate::bash::Oracle;
use crate::inline_examples::{EVASIVE, HIDDEN, NOTHING, RUNS, SEEN, WRITES};

fn names(reading: &ShellEffects) -> Vec<String> {
    let base = |name: String| name.rsplit('/').next().unwrap_or_default().to_owned();
    reading.runs.iter().filter_map(|run| run.program()).map(base).collect()
}

/// What fails of all examples, so that one failure does not hide the others.
fn none_of(failures: Vec<String>) {
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn code_that_runs_a_program_is_seen_to_run_it_or_said_to_hide_it() {
    let mut failures = Vec::new();
    let mut seen = 0;
    for text in RUNS.into_iter().chain(SEEN) {
        let reading = read(text);
        let runs = names(&reading).iter().any(|name| name == "git");
        seen += usize::from(runs && reading.hidden.is_empty());
        if !runs && reading.hidden.is_empty() {
            failures.push(format!("{text}\n  {:?} {:?}", names(&reading), reading.hidden));
        }
    }
    none_of(failures);
    // Plain cases get an answer that names the program.
    assert!(seen >= 60, "{seen} of {} are seen", RUNS.len() + SEEN.len());
}

#[test]
fn evasive_code_is_seen_or_said_to_hide_something() {
    let mut failures = Vec::new();
    for text in EVASIVE {
        let reading = read(text);
        let hides = reading.hidden.iter().any(|hidden| hidden.why != HiddenReason::ComputedPath);
        if !hides && !names(&reading).iter().any(|name| name == "git") {
            failures.push(format!("{text}\n  {:?}", names(&reading)));
        }
    }
    none_of(failures);
}

#[test]
fn the_examples_really_run_it() {
    let oracle = Oracle::with(&["python3", "perl", "awk", "cp", "tee"], &["git"]);
    let mut bash = oracle.bash(0);
    let mut failures = Vec::new();
    for text in RUNS {
        // A busy machine may need more than one try.
        let done = (0..3).find_map(|_| bash.run(text));
        if !done.is_some_and(|done| done.files.contains("git")) {
            failures.push(text.to_owned());
        }
    }
    none_of(failures);
}

#[test]
fn code_that_hides_what_it_does_is_said_to_hide_it() {
    let mut failures = Vec::new();
    for (why, text) in HIDDEN {
        let reading = read(text);
        if !reading.hidden.iter().any(|hidden| hidden.why == why) {
            failures.push(format!("{text}\n  {why:?} expected: {:?}", reading.hidden));
        }
        let path_only = why == HiddenReason::ComputedPath;
        if path_only && reading.hidden.iter().any(|hidden| hidden.why != why) {
            failures.push(format!("{text}\n  more than a path: {:?}", reading.hidden));
        }
    }
    none_of(failures);
}

#[test]
fn code_that_writes_a_file_is_seen_to_write_it_or_said_to_hide_it() {
    let mut failures = Vec::new();
    let mut seen = 0;
    for (path, text) in WRITES {
        let reading = read(text);
        let written = reading.writes.iter().any(|write| write.path.to_string() == path);
        seen += usize::from(written && reading.hidden.is_empty());
        if !written && reading.hidden.is_empty() {
            failures.push(format!("{text}\n  {:?} {:?}", reading.writes, reading.hidden));
        }
    }
    none_of(failures);
    assert!(seen >= 40, "{seen} of {} are seen", WRITES.len());
}

#[test]
fn code_that_only_mentions_or_reads_does_nothing() {
    let mut failures = Vec::new();
    for text in NOTHING {
        let reading = read(text);
        let runs = names(&reading).iter().any(|name| name == "git");
        // Only what the code does counts: redirections and other programs write as they did.
        let writers =
            ["python3", "node", "perl", "ruby", "php", "lua", "awk", "sed", "bun", "deno"];
        let writes = reading.writes.iter().any(|write| writers.contains(&write.by.as_str()));
        if runs || writes || !reading.hidden.is_empty() {
            failures.push(format!("{text}\n  {:?} {:?}", reading.writes, reading.hidden));
        }
    }
    none_of(failures);
}

#[test]
fn bombs_of_code_end_quickly_and_closed() {
    for (interpreter, piece) in [
        ("python3 -c", "x = \"a\" + "),
        ("python3 -c", "x.unlink()."),
        ("python3 -c", "a.b.c."),
        ("python3 -c", "import a, b as c, "),
        ("python3 -c", "f("),
        ("node -e", "x = a.b."),
        ("node -e", "`${"),
        ("node -e", "writeFileSync(\"a\"+"),
        ("ruby -e", "system \"a\", "),
        ("php -r", "$f(\"a\");"),
        ("perl -e", "s{a}{b}e;"),
        ("ruby -e", "x = y = system \"a\", "),
        ("lua -e", "x[\"a\"]"),
        ("awk", "\"a\" | getline;"),
        ("sed", "s/a/b/e;"),
    ] {
        let bomb = format!("{interpreter} '{}'", piece.repeat(40_000 / piece.len()));
        let reading = read(&bomb);
        assert!(!reading.hidden.is_empty() || !reading.runs.is_empty(), "{bomb:.40}");
        let bomb = format!("{interpreter} '{}'; git push", piece.repeat(40_000 / piece.len()));
        let reading = read(&bomb);
        let seen = names(&reading).iter().any(|name| name == "git");
        assert!(seen || !reading.hidden.is_empty(), "{bomb:.40}");
    }
}
