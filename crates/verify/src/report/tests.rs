//! Random reports never make the readers panic.

use bailiwick_testkit::depth::Depth;
use bailiwick_testkit::random::Random;

use super::{claims, fields, findings, line_delta, touched};
use crate::example::{changed, renamed};

#[test]
fn random_reports_never_panic() {
    let mut random = Random::rotating("random reports");
    let words = [
        "#",
        "## ",
        "- ",
        "* ",
        "1. ",
        "|",
        "---",
        "===",
        "```",
        "~~~",
        "**",
        "`",
        "_",
        ":",
        "::",
        ",",
        ";",
        "(",
        ")",
        "[",
        "]",
        "<!--",
        "-->",
        "\n",
        "\n\n",
        " ",
        "    ",
        "HIGH",
        "LOW",
        "BELOW",
        "findings",
        "Findings",
        "No findings.",
        "none",
        "files-touched",
        "cargo-test",
        "a/b.rs:1",
        "c.rs",
        "d/e.rs",
        "+12",
        "-3",
        "net",
        "44",
        "passed",
        "0",
        "failed",
        "not",
        "é",
        "→",
        "–",
        "\r\n",
        "\0",
        "…",
        "✓",
        "1,2",
        "999999999999999999999999",
    ];
    let changes = [changed("a/b.rs"), renamed("c.rs", "d/e.rs")];
    for _ in 0..Depth::from_env().cases(50_000) {
        let count = random.below(50);
        let text: String = (0..count).map(|_| words[random.below(words.len())]).collect();
        for field in fields::fields(&text, &|name| !name.is_empty() && name.len() < 14) {
            let value = field.text();
            let _claimed = (claims::claims_pass(&value), claims::passed_counts(&value));
            let _numbers = (claims::first_number(&value), claims::claims_none(&value));
            let _delta =
                line_delta::parse(&value).map(|claim| claim.agrees(&line_delta::Lines::default()));
            let _touched = touched::disagreement(&field.value, &changes, Some("c.rs"));
        }
        let _findings = findings::findings(&text);
    }
}

#[test]
fn long_reports_never_panic() {
    for piece in [
        "a and ",
        "(",
        "`",
        "<!--",
        "- HIGH x\n",
        "cargo-test: ",
        "| a ",
        "LOW_",
        "+1 ",
        "1 passed ",
    ] {
        let text = format!("files-touched: {}", piece.repeat(20_000));
        for field in fields::fields(&text, &|name| name == "files-touched" || name == "cargo-test")
        {
            let value = field.text();
            let _claimed = (claims::claims_pass(&value), claims::passed_counts(&value));
            let _delta = line_delta::parse(&value);
            let _touched = touched::disagreement(&field.value, &[], None);
        }
        let _findings = findings::findings(&text);
    }
}
