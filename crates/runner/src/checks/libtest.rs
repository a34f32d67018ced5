//! What a test program with the standard harness says of its tests: its listing, and the file that
//! `--logfile` names. What it prints while its tests run counts for nothing.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_verify::job::TestResult;

/// The tests of `--list --format terse`.
pub(super) fn parse_listing(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// The results of listed tests. A result is a word or `word: a message`, a blank and the name; the
/// message may have several lines. Where a test has two results, the worse one counts.
pub(super) fn parse_log(text: &[u8], listed: &[String]) -> BTreeMap<String, TestResult> {
    let text = String::from_utf8_lossy(text);
    let mut results: BTreeMap<String, TestResult> = BTreeMap::new();
    let listed: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    let mut pending: Option<TestResult> = None;
    for line in text.lines() {
        let result = pending.unwrap_or_else(|| first_word(line));
        let name = line.rsplit_once(' ').map_or(line, |(_, name)| name);
        if listed.contains(name) {
            let worse = results.get(name).map_or(result, |other| worse(*other, result));
            results.insert(name.to_owned(), worse);
            pending = None;
        } else {
            pending = Some(result);
        }
    }
    results
}

fn first_word(line: &str) -> TestResult {
    match line.split([' ', ':']).next() {
        Some("ok") => TestResult::Ok,
        Some("ignored") => TestResult::Ignored,
        _ => TestResult::Failed,
    }
}

fn worse(one: TestResult, other: TestResult) -> TestResult {
    match (one, other) {
        (TestResult::Failed, _) | (_, TestResult::Failed) => TestResult::Failed,
        (TestResult::Ignored, _) | (_, TestResult::Ignored) => TestResult::Ignored,
        (TestResult::Ok, TestResult::Ok) => TestResult::Ok,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_and_logs_are_read() {
        let listed = parse_listing(b"a::b: test\nc: test\nd: test\nbench: benchmark\n2 tests\n");
        assert_eq!(listed, ["a::b", "c", "d"]);
        let log = b"ok a::b\nignored: slow: one c\nfailed d\nok unknown\n";
        let results: Vec<TestResult> = parse_log(log, &listed).into_values().collect();
        assert_eq!(results, [TestResult::Ok, TestResult::Ignored, TestResult::Failed]);
    }

    #[test]
    fn a_message_of_several_lines_is_one_result_and_the_worse_of_two_counts() {
        let listed: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
        let log = b"ignored: first\nok b\nfailed b\nfailed: panic\n  said: ok\nok a\nok c\n";
        let results = parse_log(log, &listed);
        assert_eq!(results.get("b"), Some(&TestResult::Failed));
        assert_eq!(results.get("a"), Some(&TestResult::Failed));
        assert_eq!(results.get("c"), Some(&TestResult::Ok));
    }
}
