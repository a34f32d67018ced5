//! Reads the numbers of executed tests from the output of test runners, line by line.
//!
//! A skipped test is not executed. Each runner has one function; the first that knows a line counts it.

use serde::Deserialize;

/// A longer line is cut: only events of `go test -json` can be that long.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// Counts the tests that an output reports.
#[derive(Debug, Default)]
pub struct TestCounter {
    line: Vec<u8>,
    /// Numbers of summaries and of events; none if there was neither.
    reported: Option<u64>,
    /// Tests in TAP, which some runners print before their summary.
    tap: Option<u64>,
    /// Whether a summary covers the tests in TAP.
    has_tap_summary: bool,
    /// Whether the next verdict of unittest can name skipped tests.
    is_in_unittest: bool,
}

impl TestCounter {
    /// Reads the next piece of an output.
    pub fn push(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.extend(rest.get(..end).unwrap_or_default());
            self.end_line();
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        self.extend(rest);
    }

    /// The number of executed tests; none if no test runner reported one.
    pub fn finish(mut self) -> Option<u64> {
        self.end_line();
        match (self.reported, self.tap.filter(|_| !self.has_tap_summary)) {
            (None, tap) => tap,
            (Some(reported), tap) => Some(reported.saturating_add(tap.unwrap_or(0))),
        }
    }

    fn extend(&mut self, piece: &[u8]) {
        let room = MAX_LINE_BYTES.saturating_sub(self.line.len());
        self.line.extend(piece.iter().take(room));
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return;
        }
        let text = without_colours(&String::from_utf8_lossy(&line));
        self.read(text.trim_end());
    }

    fn read(&mut self, line: &str) {
        if let Some(is_executed) = tap(line) {
            let count = self.tap.get_or_insert(0);
            *count = count.saturating_add(u64::from(is_executed));
            return;
        }
        let line = line.trim_start();
        if let Some(count) = node(line) {
            self.has_tap_summary = true;
            return self.add(count);
        }
        if let Some(count) = unittest(line) {
            self.is_in_unittest = true;
            return self.add(count);
        }
        if self.is_in_unittest && (line.starts_with("OK") || line.starts_with("FAILED")) {
            self.is_in_unittest = false;
            let skipped = line.split_once("skipped=").and_then(|(_, rest)| leading(rest));
            self.reported =
                self.reported.map(|count| count.saturating_sub(skipped.unwrap_or_default()));
            return;
        }
        let runners = [libtest, nextest, jest, vitest, mocha, go, maven, ruby, pytest];
        if let Some(count) = runners.iter().find_map(|runner| runner(line)) {
            self.add(count);
        }
    }

    fn add(&mut self, count: u64) {
        let reported = self.reported.get_or_insert(0);
        *reported = reported.saturating_add(count);
    }
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; …`
fn libtest(line: &str) -> Option<u64> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    sum(counts.split("; "), &["passed", "failed"])
}

/// `Summary [   0.1s] 3 tests run: 3 passed, 1 skipped`; `2/3 tests run` if it was cancelled.
fn nextest(line: &str) -> Option<u64> {
    let run = line.strip_prefix("Summary [")?.split_once(']')?.1.trim_start();
    let (number, _) = run.split_once(" run: ").or_else(|| run.split_once(" run:"))?;
    leading(number)
}

/// `Tests:       1 failed, 1 skipped, 3 passed, 5 total`
fn jest(line: &str) -> Option<u64> {
    let counts = line.strip_prefix("Tests:")?.strip_suffix(" total")?;
    sum(counts.split(", "), &["passed", "failed"])
}

/// `Tests  1 failed | 3 passed | 1 skipped (5)`
fn vitest(line: &str) -> Option<u64> {
    let counts = line.strip_prefix("Tests  ")?.strip_suffix(')')?.rsplit_once(" (")?.0;
    sum(counts.split(" | "), &["passed", "failed", "expected fail"])
}

/// `3 passing (8ms)` and `1 failing`
fn mocha(line: &str) -> Option<u64> {
    let (number, rest) = line.split_once(' ')?;
    let is_summary = rest == "failing" || (rest.starts_with("passing (") && rest.ends_with(')'));
    is_summary.then(|| number.parse().ok())?
}

/// `ℹ pass 3` and `ℹ fail 1`; `# pass 3` in TAP.
fn node(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("ℹ ").or_else(|| line.strip_prefix("# "))?;
    let number = rest.strip_prefix("pass ").or_else(|| rest.strip_prefix("fail "))?;
    number.trim().parse().ok()
}

/// An event of `go test -json`, or a result of `go test -v`.
fn go(line: &str) -> Option<u64> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Event {
        action: String,
        test: Option<String>,
    }
    if line.starts_with("--- PASS: ") || line.starts_with("--- FAIL: ") {
        return Some(1);
    }
    if !line.starts_with('{') || !line.contains("\"Action\"") {
        return None;
    }
    let event: Event = serde_json::from_str(line).ok()?;
    let is_result = matches!(event.action.as_str(), "pass" | "fail");
    (is_result && event.test.is_some()).then_some(1)
}

/// `Tests run: 5, Failures: 0, Errors: 0, Skipped: 1`; such a line with a time is of one class.
fn maven(line: &str) -> Option<u64> {
    let (_, counts) = line.split_once("Tests run: ")?;
    if counts.contains("Time elapsed") {
        return None;
    }
    let (all, rest) = counts.split_once(", ")?;
    let skipped = rest.split_once("Skipped: ").and_then(|(_, skipped)| leading(skipped))?;
    Some(all.parse::<u64>().ok()?.saturating_sub(skipped))
}

/// RSpec: `5 examples, 0 failures, 1 pending`; Minitest: `5 runs, 9 assertions, …, 1 skips`.
fn ruby(line: &str) -> Option<u64> {
    let is_summary = line.contains("example") && line.contains(" failure")
        || line.contains(" runs, ") && line.contains(" assertions, ");
    is_summary.then_some(())?;
    let words = ["example", "examples", "runs"];
    let all = sum(line.split(", "), &words)?;
    Some(all.saturating_sub(sum(line.split(", "), &["pending", "skips"]).unwrap_or(0)))
}

/// `Ran 5 tests in 0.001s`
fn unittest(line: &str) -> Option<u64> {
    let (number, rest) = line.strip_prefix("Ran ")?.split_once(' ')?;
    (rest.starts_with("tests in ") || rest.starts_with("test in ")).then(|| number.parse().ok())?
}

/// `==== 1 failed, 3 passed, 1 skipped in 0.12s ====`, without the frame under `-q`.
fn pytest(line: &str) -> Option<u64> {
    let (counts, time) = line.trim_matches(['=', ' ']).rsplit_once(" in ")?;
    // `in 61.20s (0:01:01)` from a minute on.
    let time = time.split(' ').next().and_then(|time| time.strip_suffix('s'))?;
    time.parse::<f64>().ok()?;
    if counts == "no tests ran" {
        return Some(0);
    }
    let executed = ["passed", "failed", "error", "errors", "xfailed", "xpassed"];
    let others = ["skipped", "deselected", "warning", "warnings", "rerun", "subtests passed"];
    let is_known = |count: &str| {
        let word = count.split_once(' ').filter(|(number, _)| number.parse::<u64>().is_ok());
        word.is_some_and(|(_, word)| executed.contains(&word) || others.contains(&word))
    };
    counts.split(", ").all(is_known).then_some(())?;
    Some(sum(counts.split(", "), &executed).unwrap_or(0))
}

/// `ok 1 name` and `not ok 2 name`: whether the test was executed. Tests in a test are indented.
fn tap(line: &str) -> Option<bool> {
    let rest = line.strip_prefix("ok ").or_else(|| line.strip_prefix("not ok "))?;
    let number = rest.split(' ').next()?;
    number.parse::<u64>().ok()?;
    Some(!rest.to_ascii_lowercase().contains("# skip"))
}

/// The sum of the counts that have one of these words; none if no count has.
fn sum<'a>(counts: impl Iterator<Item = &'a str>, words: &[&str]) -> Option<u64> {
    let count = |count: &str| {
        let (number, word) = count.trim().split_once(' ')?;
        words.contains(&word.trim()).then(|| number.parse::<u64>().ok())?
    };
    counts.filter_map(count).reduce(u64::saturating_add)
}

/// The number at the start of a text.
fn leading(text: &str) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

/// A text without the escape sequences that colour it.
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            // A sequence ends with its first letter.
            letters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(letter);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(output: &str) -> Option<u64> {
        let mut counter = TestCounter::default();
        // In pieces, as from a pipe.
        output.as_bytes().chunks(7).for_each(|piece| counter.push(piece));
        counter.finish()
    }

    #[test]
    fn summary_of_each_runner_is_read() {
        for (runner, output, executed) in [
            (
                "cargo test",
                "running 3 tests\ntest a ... ok\ntest result: ok. 2 passed; 0 failed; 1 ignored; \
                 0 measured; 0 filtered out; finished in 0.00s\n\ntest result: FAILED. 1 passed; \
                 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n",
                4,
            ),
            ("nextest", "     Summary [   0.005s] 3 tests run: 3 passed, 1 skipped\n", 3),
            ("nextest, one", "     Summary [   0.005s] 1 test run: 1 passed, 0 skipped\n", 1),
            ("pytest", "=== 1 failed, 3 passed, 2 skipped, 1 warning in 0.12s ===\n", 4),
            ("pytest -q", "..s\n2 passed, 1 skipped in 61.20s (0:01:01)\n", 2),
            ("pytest, none", "===== no tests ran in 0.01s =====\n", 0),
            ("unittest", "Ran 5 tests in 0.001s\n\nOK (skipped=2)\n", 3),
            (
                "jest",
                "Test Suites: 1 passed, 1 total\nTests:       1 failed, 1 skipped, 3 passed, 5 total\n",
                4,
            ),
            ("vitest", " Test Files  1 passed (1)\n      Tests  3 passed | 1 skipped (4)\n", 3),
            (
                "vitest, coloured",
                "\u{1b}[2m      Tests \u{1b}[22m \u{1b}[1m\u{1b}[32m3 passed\u{1b}[39m\u{1b}[22m\
                 \u{1b}[90m (3)\u{1b}[39m\n",
                3,
            ),
            ("mocha", "\n  3 passing (8ms)\n  1 pending\n  2 failing\n", 5),
            (
                "node --test",
                "✔ a (1ms)\nℹ tests 4\nℹ suites 0\nℹ pass 2\nℹ fail 1\nℹ skipped 1\n",
                3,
            ),
            (
                "node --test, TAP",
                "TAP version 13\nok 1 - a\nnot ok 2 - b\n1..2\n# tests 2\n# pass 1\n# fail 1\n",
                2,
            ),
            ("TAP", "1..3\nok 1 a\nnot ok 2 b\nok 3 c # skip later\n    ok 1 inner\n", 2),
            (
                "go test -json",
                "{\"Action\":\"run\",\"Test\":\"A\"}\n{\"Action\":\"pass\",\"Package\":\"p\",\
                 \"Test\":\"A\"}\n{\"Action\":\"skip\",\"Test\":\"B\"}\n{\"Action\":\"pass\",\
                 \"Package\":\"p\"}\n",
                1,
            ),
            ("go test -v", "--- PASS: A (0.00s)\n    --- FAIL: A/b (0.00s)\n--- SKIP: C\n", 2),
            (
                "maven",
                "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 1, Time elapsed: 0.1 s - in \
                 A\n[INFO] Results:\n[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 1\n",
                2,
            ),
            ("rspec", "5 examples, 0 failures, 1 pending\n", 4),
            ("minitest", "5 runs, 9 assertions, 0 failures, 0 errors, 2 skips\n", 3),
        ] {
            assert_eq!(counted(output), Some(executed), "{runner}");
        }
    }

    #[test]
    fn several_runners_in_one_command_are_added() {
        let two_summaries = "2 passed in 0.1s\n\n  3 passing (8ms)\nok 1 a\n";
        assert_eq!(counted(two_summaries), Some(6));
    }

    #[test]
    fn other_output_has_no_number() {
        for output in [
            "",
            "ok  \texample.org/a\t0.003s\n",
            "Finished in 3 s\n12 files passed in review\n",
            "Tests: none\n# pass the salt\n",
            "{\"Action\":\"start\"}\n",
            "all passed in 3s\n",
        ] {
            assert_eq!(counted(output), None, "{output}");
        }
    }

    #[test]
    fn line_without_an_end_uses_bounded_memory() {
        let mut counter = TestCounter::default();
        for _ in 0..100 {
            counter.push(&[b'x'; 16 * 1024]);
        }
        assert!(counter.line.len() <= MAX_LINE_BYTES);
        counter.push(b"\n2 passed in 0.1s");
        assert_eq!(counter.finish(), Some(2));
    }
}
