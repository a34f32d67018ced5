//! Notes, errors and advice in lines that fit the terminal.

use std::io::{self, IsTerminal as _};

use textwrap::core::Word;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

use super::width;

/// A sentence in lines that fit the terminal. A reader of a pipe looks for whole sentences.
pub(super) fn sentence(text: &str) -> String {
    match io::stderr().is_terminal() {
        true => folded(width(), text),
        false => text.to_owned(),
    }
}

/// A sentence folded at spaces. Long words and commands are not broken: people copy them.
fn folded(width: usize, text: &str) -> String {
    let options = Options::new(width)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
        .break_words(false)
        .word_separator(WordSeparator::Custom(words_and_commands))
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(text, options)
}

/// The words of a line. A command is one word: `between backticks`, or behind a colon up to a semicolon.
fn words_and_commands(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    let has_quotes = line.matches('`').count().is_multiple_of(2);
    let (mut is_quoted, mut is_command) = (false, false);
    let mut words = Vec::new();
    let mut rest = line;
    let mut length = 0;
    while let Some(c) = rest.get(length..).and_then(|rest| rest.chars().next()) {
        length += c.len_utf8();
        let (before, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        is_quoted ^= c == '`' && has_quotes;
        is_command &= c != ';';
        if c == ' ' && !is_quoted && !is_command && !after.starts_with(' ') {
            words.push(Word::from(before));
            is_command = before.ends_with(": ") && after.starts_with("bailiwick ");
            (rest, length) = (after, 0);
        }
    }
    words.push(Word::from(rest));
    Box::new(words.into_iter())
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn lines_break_at_spaces_but_not_in_words_or_commands() {
        let text = "error: there is no agent `fix` in /home/ada/a-long-path/of/a/repository";
        assert_eq!(
            folded(40, text),
            "error: there is no agent `fix` in\n/home/ada/a-long-path/of/a/repository"
        );
        assert_eq!(folded(80, text), text);
        let command = "note: look at it again with `bailiwick verify fix --fresh` before it lands";
        assert_eq!(
            folded(40, command),
            "note: look at it again with\n`bailiwick verify fix --fresh` before it\nlands"
        );
        let advice = " help: check it: bailiwick contexts list --output json; or ask an admin";
        assert_eq!(
            folded(40, advice),
            " help: check it:\nbailiwick contexts list --output json;\nor ask an admin"
        );
    }

    #[test]
    fn existing_line_breaks_and_single_backticks_stay() {
        assert_eq!(folded(40, "error: no\n  indented  line"), "error: no\n  indented  line");
        assert_eq!(folded(10, "a ` b c d e f"), "a ` b c d\ne f");
    }
}
