//! The grades of findings: whole words in capitals.

use std::collections::BTreeSet;

use super::lines::without_emphasis;

/// The grades, the worst first.
pub(crate) const GRADES: [&str; 4] = ["CRITICAL", "HIGH", "MEDIUM", "LOW"];

/// The grades in a text, outside of code spans; a code span with only a grade can start the text.
pub(super) fn grades(text: &str) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    for (index, piece) in text.split('`').enumerate() {
        let code = index % 2 == 1;
        let first = index == 1
            && text.split('`').next().is_some_and(|front| without_emphasis(front).is_empty());
        if code && !(first && only_a_grade(piece).is_some()) {
            continue;
        }
        found.extend(GRADES.iter().copied().filter(|grade| has_word(piece, grade)));
    }
    found
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(index, _)| {
        let before = text.get(..index).and_then(|front| front.chars().next_back());
        let mut after = text.get(index + word.len()..).unwrap_or_default().chars();
        let (next, second) = (after.next(), after.next());
        let joined = next == Some('-') && second.is_some_and(char::is_alphanumeric);
        let part = |character: Option<char>| {
            character.is_some_and(|character| character.is_alphanumeric())
        };
        let underscored = |character: Option<char>, beyond: bool| character == Some('_') && beyond;
        let front = text.get(..index).unwrap_or_default();
        let deep =
            front.trim_end_matches('_').chars().next_back().is_some_and(char::is_alphanumeric);
        !part(before)
            && !part(next)
            && !joined
            && before != Some('-')
            && !underscored(before, deep)
            && !underscored(next, second.is_some_and(char::is_alphanumeric))
    })
}

/// The grade, if the text has nothing else except punctuation and a count.
pub(super) fn only_a_grade(text: &str) -> Option<&'static str> {
    let words: Vec<&str> = text
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty() && word.parse::<u64>().is_err())
        .filter(|word| {
            !["severity", "findings", "finding", "issues"].contains(&word.to_lowercase().as_str())
        })
        .collect();
    let [word] = words.as_slice() else { return None };
    GRADES.iter().copied().find(|grade| word == grade)
}

pub(super) fn starts_with_grade(text: &str) -> bool {
    let text = text.trim_start_matches(|character: char| !character.is_alphanumeric());
    GRADES.iter().any(|grade| {
        text.strip_prefix(grade).is_some_and(|rest| has_word(&format!("{grade}{rest}"), grade))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_6_grade_is_a_complete_word() {
        for text in [
            "BELOW",
            "LOWER",
            "HIGHER",
            "x_LOW_y",
            "ALLOW",
            "low",
            "High",
            "NON-CRITICAL",
            "LOW-level",
        ] {
            assert_eq!(grades(text), BTreeSet::new(), "{text}");
        }
        for text in [
            "LOW",
            "**LOW**",
            "[LOW]",
            "(LOW)",
            "LOW:",
            "_LOW_",
            "LOW,",
            "LOW - x",
            "Severity=LOW",
            "|LOW|",
        ] {
            assert_eq!(grades(text), BTreeSet::from(["LOW"]), "{text}");
        }
    }
}
