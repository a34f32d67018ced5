//! The results of a test program with the standard harness: its listing, and the file of `--logfile`. The output of
//! the tests does not count.

use bailiwick_verify::job::TestResult;

/// The tests of `--list --format terse`.
pub(super) fn parse_listing(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// The result of a test in the log of a run of only this one: `ok`, a blank and its name. With another
/// word, or with anything beside it, it failed; with nothing it has no result.
pub(super) fn parse_log(text: &[u8], test: &str) -> Option<TestResult> {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines();
    let first = lines.next()?;
    let only = lines.next().is_none();
    let word = first.strip_suffix(test).and_then(|rest| rest.strip_suffix(' '));
    Some(if only && word == Some("ok") { TestResult::Ok } else { TestResult::Failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listing_is_parsed() {
        let listed = parse_listing(b"a::b: test\nc: test\nd: test\nbench: benchmark\n2 tests\n");
        assert_eq!(listed, ["a::b", "c", "d"]);
    }

    #[test]
    fn only_ok_is_a_success() {
        assert_eq!(parse_log(b"ok a::b\n", "a::b"), Some(TestResult::Ok));
        assert_eq!(parse_log(b"", "a::b"), None);
        for log in [
            "failed a::b\n",
            "failed: ok a::b\n",
            "ok a::bc\n",
            "ok x a::b\n",
            "ignored a::b\n",
            "ok a::b\nok c\n",
            "ok a::b\nfailed a::b\n",
            "failed: a\nok a::b\n",
            "ok c\n",
        ] {
            assert_eq!(parse_log(log.as_bytes(), "a::b"), Some(TestResult::Failed), "{log}");
        }
    }
}
