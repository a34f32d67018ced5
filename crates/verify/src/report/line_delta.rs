//! Compares the added and removed lines that a report claims with the change.

use std::collections::BTreeMap;

use crate::facts::Texts;

/// The line counts of all changed files. How many lines count as added depends on the diff algorithm;
/// the net change does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    /// Lines after minus lines before.
    pub(crate) net: i64,
    /// The minimum and the maximum that a diff can count as added.
    pub(crate) added: (u64, u64),
    /// The minimum and the maximum that a diff can count as removed.
    pub(crate) removed: (u64, u64),
}

/// Counts the lines; a binary file has none.
pub(crate) fn count<'a>(files: impl Iterator<Item = &'a Texts>) -> Lines {
    let mut lines = Lines::default();
    for texts in files {
        let side = |text: &'a Option<Vec<u8>>| text.as_deref().unwrap_or_default();
        let (before, after) = (side(&texts.before), side(&texts.after));
        if before.contains(&0) || after.contains(&0) {
            continue;
        }
        let mut balance: BTreeMap<&[u8], i64> = BTreeMap::new();
        let (mut old_lines, mut new_lines) = (0_u64, 0_u64);
        for line in before.split_inclusive(|byte| *byte == b'\n') {
            *balance.entry(line).or_default() -= 1;
            old_lines += 1;
        }
        for line in after.split_inclusive(|byte| *byte == b'\n') {
            *balance.entry(line).or_default() += 1;
            new_lines += 1;
        }
        let more = balance.values().filter(|count| **count > 0).map(|count| count.unsigned_abs());
        let less = balance.values().filter(|count| **count < 0).map(|count| count.unsigned_abs());
        let (more, less) = (more.sum::<u64>(), less.sum::<u64>());
        lines.net = lines.net.saturating_add(signed(new_lines) - signed(old_lines));
        lines.added = (lines.added.0 + more, lines.added.1 + new_lines);
        lines.removed = (lines.removed.0 + less, lines.removed.1 + old_lines);
    }
    lines
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The line counts that a value claims.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    added: Vec<u64>,
    removed: Vec<u64>,
    net: Option<i64>,
    unsigned: Option<u64>,
}

/// Reads `+120 -30`, `+90` or `120 insertions(+), 30 deletions(-)`; none if there is no number.
pub(crate) fn parse(value: &str) -> Option<Claim> {
    let value = value.replace(['−', '–', '—'], "-").to_lowercase();
    let is_separator = |character: char| {
        character.is_whitespace()
            || matches!(character, ',' | ';' | '(' | ')' | '/' | '|' | '`' | '*' | ':')
    };
    let words: Vec<&str> = value.split(is_separator).filter(|word| !word.is_empty()).collect();
    let mut claim = Claim::default();
    for (index, word) in words.iter().enumerate() {
        let net = index.checked_sub(1).and_then(|before| words.get(before)) == Some(&"net");
        let word = word.trim_end_matches(['.', '~']).trim_start_matches('~');
        let behind: Vec<&str> = words.iter().skip(index + 1).take(2).copied().collect();
        let is_followed_by = |stems: [&str; 2]| {
            let near = behind
                .iter()
                .take_while(|word| word.parse::<f64>().is_err() && !word.starts_with(['+', '-']));
            near.into_iter().any(|word| stems.iter().any(|stem| word.starts_with(stem)))
        };
        match (word.strip_prefix('+'), word.strip_prefix('-'), word.parse::<u64>()) {
            _ if net => claim.net = word.parse().ok().or(claim.net),
            (Some(number), _, _) => claim.added.extend(number.parse::<u64>().ok()),
            (_, Some(number), _) => claim.removed.extend(number.parse::<u64>().ok()),
            (None, None, Ok(number)) if is_followed_by(["insert", "add"]) => {
                claim.added.push(number)
            }
            (None, None, Ok(number)) if is_followed_by(["delet", "remov"]) => {
                claim.removed.push(number)
            }
            (None, None, Ok(number)) => claim.unsigned = claim.unsigned.or(Some(number)),
            (None, None, Err(_)) => {}
        }
    }
    if matches!(words.first(), Some(&("none" | "nothing" | "zero"))) {
        claim.net = claim.net.or(Some(0));
    }
    (claim != Claim::default()).then_some(claim)
}

impl Claim {
    /// Whether some diff could give these counts.
    pub(crate) fn agrees(&self, lines: &Lines) -> bool {
        let sum = |numbers: &[u64]| numbers.iter().fold(0_u64, |sum, one| sum.saturating_add(*one));
        let firsts = (self.added.first().copied(), self.removed.first().copied());
        let sums = (
            (!self.added.is_empty()).then(|| sum(&self.added)),
            (!self.removed.is_empty()).then(|| sum(&self.removed)),
        );
        let signs = fits(firsts, lines) || fits(sums, lines);
        let signed_at_all = !self.added.is_empty() || !self.removed.is_empty();
        let net = self.net.is_none_or(|net| net == lines.net);
        match (signed_at_all, self.net, self.unsigned) {
            (true, _, _) => signs && net,
            (false, Some(_), _) => net,
            (false, None, Some(number)) => {
                number == lines.net.unsigned_abs() || number == lines.added.0 + lines.removed.0
            }
            (false, None, None) => true,
        }
    }
}

fn fits((added, removed): (Option<u64>, Option<u64>), lines: &Lines) -> bool {
    let within = |number: u64, (least, most): (u64, u64)| number >= least && number <= most;
    match (added, removed) {
        (Some(added), Some(removed)) => {
            signed(added).saturating_sub(signed(removed)) == lines.net
                && within(added, lines.added)
                && within(removed, lines.removed)
        }
        (Some(added), None) => signed(added) == lines.net || added == lines.added.0,
        (None, Some(removed)) => signed(removed) == -lines.net || removed == lines.removed.0,
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::texts;

    fn agrees(value: &str) -> bool {
        let files = [texts(Some("a\nb\nc\n"), Some("a\nx\ny\nz\n")), texts(None, Some("1\n2"))];
        let lines = count(files.iter());
        assert_eq!(lines, Lines { net: 3, added: (5, 6), removed: (2, 3) });
        parse(value).unwrap_or_else(|| panic!("{value} has no number")).agrees(&lines)
    }

    #[test]
    fn true_line_delta_agrees_in_every_format() {
        for value in [
            "+5 -2",
            "+5/-2",
            "+5 / −2",
            "+5, -2 (net +3)",
            "+3",
            "3",
            "net +3",
            "net: 3",
            "**+5 -2**",
            "5 insertions(+), 2 deletions(-)",
            "5 lines added, 2 removed",
            "+4 -1 in a.rs, +1 -1 in b.rs",
            "7",
            "+6 -3",
        ] {
            assert!(agrees(value), "{value}");
        }
    }

    #[test]
    fn false_line_delta_does_not_agree() {
        for value in
            ["+120 -30", "+5 -3", "+4 -1", "90", "-3", "net 4", "+5 -2 (net +9)", "0", "none"]
        {
            assert!(!agrees(value), "{value}");
        }
        assert_eq!(parse("small"), None);
    }
}
