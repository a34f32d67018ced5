//! Git's own counts of added and removed lines always agree, and false counts never do.

use bailiwick_model::module::CheckModule;
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, Scratch};
use bailiwick_verify::Verdict;
use bailiwick_verify::facts::{Facts, Report, Texts};

use crate::{change, no_facts, verdict};

#[test]
fn line_counts_of_git_agree_and_false_ones_do_not() {
    let mut random = Random::rotating("line deltas");
    let scratch = Scratch::repository();
    for _ in 0..Depth::from_env().cases(400) {
        let before = lines(&mut random, Vec::new());
        let after = lines(&mut random, before.clone());
        let (before, after) = (text(&mut random, &before), text(&mut random, &after));
        scratch.write("before", &before);
        scratch.write("after", &after);
        let finished = scratch.run("git", &["diff", "--no-index", "--numstat", "before", "after"]);
        let mut numbers = finished.out.split_whitespace().map(|word| word.parse::<i64>());
        let mut number = || numbers.next().map_or(0, |number| number.expect("a line count of git"));
        let (added, removed) = (number(), number());
        let claimed = |claim: String| judged(&claim, &before, &after);
        for claim in [
            format!("+{added} -{removed}"),
            format!("+{added}/-{removed} (net {:+})", added - removed),
            format!("{:+}", added - removed),
        ] {
            assert!(claimed(claim.clone()).is_pass(), "{claim}\n{before:?}\n{after:?}");
        }
        for claim in [
            format!("+{} -{removed}", added + 1),
            format!("+{added} -{}", removed + 1),
            format!("+{} -{}", added + 500, removed + 500),
            format!("net {:+}", added - removed + 1),
        ] {
            assert!(!claimed(claim.clone()).is_pass(), "{claim}\n{before:?}\n{after:?}");
        }
    }
}

/// Removes some lines and inserts some.
fn lines(random: &mut Random, mut lines: Vec<usize>) -> Vec<usize> {
    lines.retain(|_| !random.once_in(4));
    for _ in 0..random.below(12) {
        let index = random.below(lines.len() + 1);
        lines.insert(index, random.below(9));
    }
    lines
}

fn text(random: &mut Random, lines: &[usize]) -> String {
    let text = lines.iter().map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n");
    if random.once_in(3) || text.is_empty() { text } else { text + "\n" }
}

fn judged(claim: &str, before: &str, after: &str) -> Verdict {
    let report =
        Report { place: "review.md".to_owned(), text: Ok(format!("loc-delta: {claim}\n")) };
    let facts = Facts { report: Some(report), ..no_facts() };
    let bytes = |text: &str| Some(text.as_bytes().to_vec());
    let texts = Texts { before: bytes(before), after: bytes(after) };
    let output_section = "[output]\nreport-fields-required = [\"loc-delta\"]";
    verdict(CheckModule::OutputReportFormat, output_section, change("a.txt", true), texts, facts)
}
