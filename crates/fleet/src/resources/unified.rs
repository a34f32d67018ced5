//! Two texts, and what differs between them, as `diff -u` writes it.

use similar::TextDiff;

/// The diff; none if the texts are equal.
pub(super) fn unified(names: (&str, &str), before: &str, after: &str) -> Option<String> {
    if before == after {
        return None;
    }
    let diff = TextDiff::from_lines(before, after);
    Some(diff.unified_diff().header(names.0, names.1).to_string())
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
        assert_eq!(diff, "--- a\n+++ b\n@@ -0,0 +1 @@\n+x\n");
    }
}
