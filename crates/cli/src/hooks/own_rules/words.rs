//! Whether a command contains the words of a rule anywhere: too many matches are safe, a missed one is not.

/// Whether the words follow each other in the command; each is one of several.
pub(super) fn follow(command: &str, words: &[Vec<String>]) -> bool {
    [Quotes::Dropped, Quotes::Separate].into_iter().any(|quotes| {
        let wanted: Vec<Vec<Vec<String>>> =
            words.iter().map(|one| one.iter().map(|word| split(word, quotes)).collect()).collect();
        let found = split(command, quotes);
        (0..found.len())
            .any(|start| matches_at(found.get(start..).unwrap_or_default(), &wanted, true))
    })
}

/// Whether a command contains this text, as words or literally.
pub(super) fn has(command: &str, text: &str) -> bool {
    let words: Vec<Vec<String>> =
        text.split_whitespace().map(|word| vec![word.to_owned()]).collect();
    words.is_empty() || command.contains(text) || follow(command, &words)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    /// `g"i"t` is one word.
    Dropped,
    /// `git"x"` is two.
    Separate,
}

/// The words of a text, without what quotes or joins them.
fn split(text: &str, quotes: Quotes) -> Vec<String> {
    let text: String = match quotes {
        Quotes::Dropped => text.chars().filter(|one| !"'\"\\".contains(*one)).collect(),
        Quotes::Separate => text.to_owned(),
    };
    let between = |one: char| one.is_whitespace() || ";|&()<>{}`$'\"\\=".contains(one);
    text.split(between).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Whether what was found begins with one of each of the wanted words, which may have several parts.
fn matches_at(found: &[String], wanted: &[Vec<Vec<String>>], first: bool) -> bool {
    let Some((alternatives, rest)) = wanted.split_first() else { return true };
    alternatives.iter().any(|parts| {
        let Some(here) = found.get(..parts.len()) else { return false };
        let same = here.iter().zip(parts).enumerate().all(|(index, (found, part))| {
            // A program may be named by its path.
            let name = found.rsplit('/').next().unwrap_or(found);
            found == part || (first && index == 0 && name == part)
        });
        same && matches_at(found.get(parts.len()..).unwrap_or_default(), rest, false)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git_push() -> Vec<Vec<String>> {
        vec![vec!["git".into()], vec!["push".into(), "fetch".into()]]
    }

    #[test]
    fn words_are_found_in_any_position_and_quoting() {
        for command in [
            "git push",
            "git  push origin",
            "cd x && git push",
            "(git push)",
            "'git' \"push\"",
            "g\"it\" pu\\sh",
            "/usr/bin/git fetch",
            "echo `git push`",
            "bash -c 'git push'",
            "x=$(git push)",
            "git push\"x\"",
        ] {
            assert!(follow(command, &git_push()), "{command}");
        }
        for command in ["git status", "git pushed", "push git", "gitpush", ""] {
            assert!(!follow(command, &git_push()), "{command}");
        }
    }

    #[test]
    fn text_is_found_literally_or_by_its_words() {
        assert!(has("rm -rf x", "rm"));
        assert!(has("echo a; rm x", "rm"));
        assert!(has("a --b=c", "--b=c"));
        assert!(!has("ls", "rm"));
        assert!(has("anything", ""), "a rule without words matches every command");
    }
}
