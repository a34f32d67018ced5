//! Code of other languages inside of shell commands: what it runs, writes, hides, or only mentions.

use bailiwick_policy::shell::{HiddenReason, ShellEffects, read};

use crate::bash::Oracle;
use crate::inline_examples::{
    EVASIVE, HIDDEN, NOTHING, RUNS, RUNS_WITH_OPTIONAL_INTERPRETERS, WRITES,
};

fn names(reading: &ShellEffects) -> Vec<String> {
    let base = |name: String| name.rsplit('/').next().unwrap_or_default().to_owned();
    reading.runs.iter().filter_map(|run| run.program()).map(base).collect()
}

/// Reports all failing examples, so that one failure does not hide the others.
fn assert_none(failures: Vec<String>) {
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn code_that_runs_a_program_is_recognised_or_hides() {
    let mut failures = Vec::new();
    let mut recognised = 0;
    for text in RUNS.into_iter().chain(RUNS_WITH_OPTIONAL_INTERPRETERS) {
        let reading = read(text);
        let runs = names(&reading).iter().any(|name| name == "git");
        recognised += usize::from(runs && reading.hidden.is_empty());
        if !runs && reading.hidden.is_empty() {
            failures.push(format!("{text}\n  {:?} {:?}", names(&reading), reading.hidden));
        }
    }
    assert_none(failures);
    // The reading of simple cases names the program.
    assert!(
        recognised >= 60,
        "{recognised} of {} are recognised",
        RUNS.len() + RUNS_WITH_OPTIONAL_INTERPRETERS.len()
    );
}

#[test]
fn evasive_code_is_recognised_or_hides() {
    let mut failures = Vec::new();
    for text in EVASIVE {
        let reading = read(text);
        let hides = reading.hidden.iter().any(|hidden| hidden.why != HiddenReason::ComputedPath);
        if !hides && !names(&reading).iter().any(|name| name == "git") {
            failures.push(format!("{text}\n  {:?}", names(&reading)));
        }
    }
    assert_none(failures);
}

#[test]
fn examples_really_run_the_program() {
    let oracle = Oracle::with(&["python3", "perl", "awk", "cp", "tee"], &["git"]);
    let mut bash = oracle.bash(0);
    let mut failures = Vec::new();
    for text in RUNS {
        // A busy machine may need more than one try.
        let effects_in_bash = (0..3).find_map(|_| bash.run(text));
        if !effects_in_bash.is_some_and(|effects| effects.files.contains("git")) {
            failures.push(text.to_owned());
        }
    }
    assert_none(failures);
}

#[test]
fn code_with_hidden_actions_is_reported_with_the_right_reason() {
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
    assert_none(failures);
}

#[test]
fn code_that_writes_a_file_is_recognised_or_hides() {
    let mut failures = Vec::new();
    let mut recognised = 0;
    for (path, text) in WRITES {
        let reading = read(text);
        let written = reading.writes.iter().any(|write| write.path.to_string() == path);
        recognised += usize::from(written && reading.hidden.is_empty());
        if !written && reading.hidden.is_empty() {
            failures.push(format!("{text}\n  {:?} {:?}", reading.writes, reading.hidden));
        }
    }
    assert_none(failures);
    assert!(recognised >= 40, "{recognised} of {} are recognised", WRITES.len());
}

#[test]
fn code_that_only_mentions_or_reads_does_nothing() {
    let mut failures = Vec::new();
    for text in NOTHING {
        let reading = read(text);
        let runs = names(&reading).iter().any(|name| name == "git");
        // Only the effects of the code count: redirections and other programs write as before.
        let writers =
            ["python3", "node", "perl", "ruby", "php", "lua", "awk", "sed", "bun", "deno"];
        let writes = reading.writes.iter().any(|write| writers.contains(&write.by.as_str()));
        if runs || writes || !reading.hidden.is_empty() {
            failures.push(format!("{text}\n  {:?} {:?}", reading.writes, reading.hidden));
        }
    }
    assert_none(failures);
}

#[test]
fn oversized_code_ends_quickly_and_hides() {
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
        let recognised = names(&reading).iter().any(|name| name == "git");
        assert!(recognised || !reading.hidden.is_empty(), "{bomb:.40}");
    }
}
