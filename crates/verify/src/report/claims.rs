//! Whether the value of a field claims a pass, and how many passed tests it claims.

const PASS_WORDS: [&str; 19] = [
    "pass",
    "passed",
    "passes",
    "passing",
    "ok",
    "okay",
    "green",
    "success",
    "successful",
    "successfully",
    "succeeded",
    "succeeds",
    "clean",
    "compiles",
    "compiled",
    "yes",
    "✓",
    "✔",
    "✅",
];
const FAILURE_WORDS: [&str; 21] = [
    "not",
    "no",
    "never",
    "fail",
    "fails",
    "failed",
    "failing",
    "failure",
    "failures",
    "error",
    "errors",
    "broken",
    "red",
    "skipped",
    "unable",
    "cannot",
    "unknown",
    "unverified",
    "pending",
    "without",
    "✗",
];
/// Words that a count of 0 turns into a pass.
const PROBLEM_WORDS: [&str; 11] = [
    "fail", "failed", "failing", "failure", "failures", "error", "errors", "warning", "warnings",
    "problems", "issues",
];

/// Lowercase words, numbers and check marks; a slash and a colon are their own words.
fn words(value: &str) -> Vec<String> {
    let characters: Vec<char> =
        value.to_lowercase().replace('’', "'").replace("n't", " not ").chars().collect();
    let digit =
        |at: Option<usize>| at.and_then(|at| characters.get(at)).is_some_and(char::is_ascii_digit);
    let mut separated = String::new();
    for (index, character) in characters.iter().enumerate() {
        let within = digit(index.checked_sub(1)) && digit(Some(index + 1));
        match character {
            // 1,234 is one number.
            ',' if within => {}
            '/' | ':' | '✓' | '✔' | '✅' | '✗' => separated.extend([' ', *character, ' ']),
            character if character.is_alphanumeric() => separated.push(*character),
            _ => separated.push(' '),
        }
    }
    separated.split_whitespace().map(ToOwned::to_owned).collect()
}

/// The number before a word, or after its colon.
fn counted(words: &[String], index: usize) -> Option<u64> {
    if words.get(index + 1).is_some_and(|word| word == ":") {
        return number(words.get(index + 2));
    }
    number(index.checked_sub(1).and_then(|before| words.get(before)))
}

fn number(word: Option<&String>) -> Option<u64> {
    word.and_then(|word| word.parse().ok())
}

/// Whether it claims a pass; "not run" and "failed" do not.
pub(crate) fn claims_pass(value: &str) -> bool {
    let words = words(value);
    let mut rest: Vec<&str> = Vec::new();
    let mut has_no_problems = false;
    for (index, word) in words.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| words.get(before));
        if PROBLEM_WORDS.contains(&word.as_str()) {
            let counted = counted(&words, index);
            if counted.is_some_and(|count| count > 0) {
                return false;
            }
            let absent =
                before.is_some_and(|word| matches!(word.as_str(), "no" | "0" | "without" | "zero"));
            if absent || counted == Some(0) {
                has_no_problems = true;
                if absent {
                    rest.pop();
                }
                continue;
            }
        }
        if word == "0"
            && words.iter().take(index).rev().take(3).any(|word| word.starts_with("exit"))
        {
            has_no_problems = true;
        }
        if word != ":" {
            rest.push(word);
        }
    }
    let is_pass = |word: &str| PASS_WORDS.contains(&word);
    let has_failure = rest.iter().any(|word| FAILURE_WORDS.contains(word));
    rest.first().copied().is_some_and(is_pass)
        || ((has_no_problems || rest.into_iter().any(is_pass)) && !has_failure)
}

/// Whether it claims that there are none.
pub(crate) fn claims_none(value: &str) -> bool {
    matches!(words(value).first().map(String::as_str), Some("none" | "no" | "0" | "zero"))
}

/// The numbers of passed tests that it claims.
pub(crate) fn passed_counts(value: &str) -> Vec<u64> {
    let words = words(value);
    let between = ["tests", "test", "unit", "integration", "cases", "all", "have", "were", "total"];
    let mut counts = Vec::new();
    for (index, word) in words.iter().enumerate() {
        if !["passed", "pass", "passing", "ok", "green", "succeeded"].contains(&word.as_str()) {
            continue;
        }
        let front = words.iter().take(index).rev().take(12);
        let mut front = front.skip_while(|word| between.contains(&word.as_str()));
        let (first, second, third) = (front.next(), front.next(), front.next());
        let part = second.is_some_and(|word| word == "of" || word == "/");
        let counted = if part { number(third) } else { number(first) };
        let labelled = words.get(index + 1).is_some_and(|word| word == ":");
        let behind = number(words.get(index + 2)).filter(|_| labelled);
        counts.extend(behind.or(counted));
    }
    counts
}

/// The first number of a value.
pub(crate) fn first_number(value: &str) -> Option<u64> {
    words(value).iter().find_map(|word| number(Some(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claimed_pass_differs_from_an_honest_failure() {
        for pass in [
            "pass",
            "**passed**",
            "OK",
            "✓",
            "✅ all good",
            "green",
            "44 passed",
            "44 passed; 0 failed",
            "all tests pass",
            "exit 0",
            "exit code 0",
            "no errors",
            "0 errors, 0 warnings",
            "Success.",
            "pass (not failed)",
            "cargo test: 12 passed, 0 failed, 1 ignored",
            "compiles",
            "passed: 4, failed: 0",
        ] {
            assert!(claims_pass(pass), "{pass}");
        }
        for honest in [
            "not run",
            "failed",
            "fail",
            "did not pass",
            "doesn't pass",
            "44 passed; 1 failed",
            "skipped",
            "none",
            "passed: 4, failed: 1",
            "2 errors",
            "not green",
            "exit 101",
            "red",
            "",
            "could not be run",
        ] {
            assert!(!claims_pass(honest), "{honest}");
        }
    }

    #[test]
    fn claimed_test_counts_are_read() {
        for (value, counts) in [
            ("44 passed", vec![44]),
            ("pass (44 tests passed)", vec![44]),
            ("44/45 passed", vec![44]),
            ("44 of 45 tests passed", vec![44]),
            ("1,234 passed", vec![1234]),
            ("passed: 7, failed: 0", vec![7]),
            ("40 unit tests passed, 4 integration passed", vec![40, 4]),
            ("pass", vec![]),
            ("pass, 0 failed", vec![]),
            ("test result: ok. 3 passed; 0 failed", vec![3]),
        ] {
            assert_eq!(passed_counts(value), counts, "{value}");
        }
    }
}
