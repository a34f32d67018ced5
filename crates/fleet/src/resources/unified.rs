//! Two texts, and what differs between them, as `diff -u` writes it.

/// The number of unchanged lines around a change.
const AROUND: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit {
    Same,
    Gone,
    New,
}

/// The diff; none if the texts are equal. Both texts end with a newline, or are empty.
pub(super) fn unified(names: (&str, &str), before: &str, after: &str) -> Option<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let edits = edits(&old, &new);
    if edits.iter().all(|(edit, _)| *edit == Edit::Same) {
        return None;
    }
    let mut text = format!("--- {}\n+++ {}\n", names.0, names.1);
    let mut at = (0, 0);
    let mut place = 0;
    for (from, to) in hunks(&edits) {
        for (edit, _) in edits.get(place..from).unwrap_or_default() {
            advance(&mut at, *edit);
        }
        let hunk = edits.get(from..to).unwrap_or_default();
        let count = |not: Edit| hunk.iter().filter(|(edit, _)| *edit != not).count();
        let (gone, new) = (count(Edit::New), count(Edit::Gone));
        let begin = |at: usize, count: usize| if count == 0 { at } else { at + 1 };
        let (a, b) = (begin(at.0, gone), begin(at.1, new));
        text.push_str(&format!("@@ -{a},{gone} +{b},{new} @@\n"));
        for (edit, line) in hunk {
            let mark = match edit {
                Edit::Same => ' ',
                Edit::Gone => '-',
                Edit::New => '+',
            };
            text.push(mark);
            text.push_str(line);
            text.push('\n');
            advance(&mut at, *edit);
        }
        place = to;
    }
    Some(text)
}

fn advance(at: &mut (usize, usize), edit: Edit) {
    at.0 += usize::from(edit != Edit::New);
    at.1 += usize::from(edit != Edit::Gone);
}

/// The ranges that are shown.
fn hunks(edits: &[(Edit, &str)]) -> Vec<(usize, usize)> {
    let mut hunks: Vec<(usize, usize)> = Vec::new();
    for (index, _) in edits.iter().enumerate().filter(|(_, (edit, _))| *edit != Edit::Same) {
        let from = index.saturating_sub(AROUND);
        let to = (index + AROUND + 1).min(edits.len());
        match hunks.last_mut() {
            Some(last) if last.1 >= from => last.1 = to,
            Some(_) | None => hunks.push((from, to)),
        }
    }
    hunks
}

/// A shortest edit script, by the longest common subsequence of lines. The common prefix and suffix are skipped.
fn edits<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Edit, &'a str)> {
    let begins = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (old.get(begins..).unwrap_or(&[]), new.get(begins..).unwrap_or(&[]));
    let ends = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let middle = |all: &'_ [&'a str]| all.get(..all.len() - ends).unwrap_or(&[]).to_vec();
    let (old_middle, new_middle) = (middle(old_rest), middle(new_rest));
    let mut found: Vec<(Edit, &str)> =
        old.iter().take(begins).map(|line| (Edit::Same, *line)).collect();
    found.extend(middle_edits(&old_middle, &new_middle));
    let tail = old_rest.iter().skip(old_rest.len() - ends);
    found.extend(tail.map(|line| (Edit::Same, *line)));
    found
}

fn middle_edits<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Edit, &'a str)> {
    // For each pair of places, how many lines both have in common from there on.
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    let read =
        |common: &[u32], i: usize, j: usize| common.get(i * width + j).copied().unwrap_or_default();
    for (i, a) in old.iter().enumerate().rev() {
        for (j, b) in new.iter().enumerate().rev() {
            let best = match a == b {
                true => read(&common, i + 1, j + 1) + 1,
                false => read(&common, i + 1, j).max(read(&common, i, j + 1)),
            };
            if let Some(cell) = common.get_mut(i * width + j) {
                *cell = best;
            }
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut found = Vec::new();
    loop {
        match (old.get(i), new.get(j)) {
            (Some(a), Some(b)) if a == b => {
                found.push((Edit::Same, *a));
                (i, j) = (i + 1, j + 1);
            }
            (Some(a), right) => {
                let down = read(&common, i + 1, j) >= read(&common, i, j + 1);
                match right {
                    Some(b) if !down => {
                        found.push((Edit::New, *b));
                        j += 1;
                    }
                    Some(_) | None => {
                        found.push((Edit::Gone, *a));
                        i += 1;
                    }
                }
            }
            (None, Some(b)) => {
                found.push((Edit::New, *b));
                j += 1;
            }
            (None, None) => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "real git shows whether a diff can be applied"
    )]

    use std::process::Command;

    use bailiwick_testkit::Scratch;
    use bailiwick_testkit::random::Random;

    use super::unified;

    /// Real git applies the diff of two random texts.
    #[test]
    fn git_can_apply_the_diff() {
        let scratch = Scratch::bare();
        let place = scratch.place();
        let mut random = Random::rotating("unified");
        let mut diffs = 0;
        for _ in 0..60 {
            let mut text = |max_lines: usize| {
                let lines = random.below(max_lines);
                (0..lines)
                    .map(|_| format!("{}\n", "abcdefg".chars().nth(random.below(7)).unwrap()))
                    .collect::<String>()
            };
            let (before, after) = (text(40), text(40));
            let file = place.join("it");
            std::fs::write(&file, &before).unwrap();
            let Some(diff) = unified(("a/it", "b/it"), &before, &after) else {
                assert_eq!(before, after);
                continue;
            };
            diffs += 1;
            std::fs::write(place.join("diff"), &diff).unwrap();
            let mut git = Command::new("git");
            git.args(["apply", "--unidiff-zero", "--whitespace=nowarn", "diff"]);
            git.current_dir(place).env("GIT_CEILING_DIRECTORIES", "/");
            let output = git.output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            let patched = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(
                output.status.success() && patched == after,
                "{stderr}\n{before}\n{after}\n{diff}"
            );
        }
        assert!(diffs > 40);
    }

    #[test]
    fn equal_texts_have_no_diff() {
        assert_eq!(unified(("a", "b"), "x\n", "x\n"), None);
        let diff = unified(("a", "b"), "", "x\n").unwrap();
        assert_eq!(diff, "--- a\n+++ b\n@@ -0,0 +1,1 @@\n+x\n");
    }
}
