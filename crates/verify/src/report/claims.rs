//! Whether a value claims that something passed, and how many tests it counts.

const GOOD: [&str; 19] = [
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
const BAD: [&str; 21] = [
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
/// What there may be none of.
const HARM: [&str; 11] = [
    "fail", "failed", "failing", "failure", "failures", "error", "errors", "warning", "warnings",
    "problems", "issues",
];

/// Small words, numbers and marks; a slash and a colon stand for themselves.
fn words(value: &str) -> Vec<String> {
    let signs: Vec<char> =
        value.to_lowercase().replace('’', "'").replace("n't", " not ").chars().collect();
    let digit =
        |at: Option<usize>| at.and_then(|at| signs.get(at)).is_some_and(char::is_ascii_digit);
    let mut apart = String::new();
    for (place, sign) in signs.iter().enumerate() {
        let within = digit(place.checked_sub(1)) && digit(Some(place + 1));
        match sign {
            // 1,234 is one number.
            ',' if within => {}
            '/' | ':' | '✓' | '✔' | '✅' | '✗' => apart.extend([' ', *sign, ' ']),
            sign if sign.is_alphanumeric() => apart.push(*sign),
            _ => apart.push(' '),
        }
    }
    apart.split_whitespace().map(ToOwned::to_owned).collect()
}

/// The number in front of a word, or behind its colon.
fn counted(words: &[String], place: usize) -> Option<u64> {
    if words.get(place + 1).is_some_and(|word| word == ":") {
        return number(words.get(place + 2));
    }
    number(place.checked_sub(1).and_then(|before| words.get(before)))
}

fn number(word: Option<&String>) -> Option<u64> {
    word.and_then(|word| word.parse().ok())
}

/// Whether it says that something passed; "not run" and "failed" say no such thing.
pub(crate) fn claims_pass(value: &str) -> bool {
    let words = words(value);
    let mut rest: Vec<&str> = Vec::new();
    let mut none_of = false;
    for (place, word) in words.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|before| words.get(before));
        if HARM.contains(&word.as_str()) {
            let counted = counted(&words, place);
            if counted.is_some_and(|count| count > 0) {
                return false;
            }
            let absent =
                before.is_some_and(|word| matches!(word.as_str(), "no" | "0" | "without" | "zero"));
            if absent || counted == Some(0) {
                none_of = true;
                if absent {
                    rest.pop();
                }
                continue;
            }
        }
        if word == "0"
            && words.iter().take(place).rev().take(3).any(|word| word.starts_with("exit"))
        {
            none_of = true;
        }
        if word != ":" {
            rest.push(word);
        }
    }
    let good = |word: &str| GOOD.contains(&word);
    let bad = rest.iter().any(|word| BAD.contains(word));
    rest.first().copied().is_some_and(good) || ((none_of || rest.into_iter().any(good)) && !bad)
}

/// Whether it says that there are none at all.
pub(crate) fn claims_none(value: &str) -> bool {
    matches!(words(value).first().map(String::as_str), Some("none" | "no" | "0" | "zero"))
}

/// The numbers of tests that it says passed.
pub(crate) fn passed_counts(value: &str) -> Vec<u64> {
    let words = words(value);
    let between = ["tests", "test", "unit", "integration", "cases", "all", "have", "were", "total"];
    let mut counts = Vec::new();
    for (place, word) in words.iter().enumerate() {
        if !["passed", "pass", "passing", "ok", "green", "succeeded"].contains(&word.as_str()) {
            continue;
        }
        let front = words.iter().take(place).rev().take(12);
        let mut front = front.skip_while(|word| between.contains(&word.as_str()));
        let (first, second, third) = (front.next(), front.next(), front.next());
        let part = second.is_some_and(|word| word == "of" || word == "/");
        let counted = if part { number(third) } else { number(first) };
        let labelled = words.get(place + 1).is_some_and(|word| word == ":");
        let behind = number(words.get(place + 2)).filter(|_| labelled);
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
    fn a_pass_is_told_from_an_honest_word() {
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
    fn counts_of_tests_are_read() {
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
