//! Options of interpreters: where their code is.

use crate::shell::field::Field;

/// The options with which an interpreter receives code.
pub(super) struct Options {
    /// Letters whose value is code.
    pub(super) text: &'static str,
    /// Letters whose value is a file with code.
    pub(super) file: &'static str,
    /// Letters with some other value, in the same word or the next.
    pub(super) value: &'static str,
    /// Letters with a value only in the same word.
    pub(super) rest: &'static str,
    /// Letters behind which a module is named, and everything else is for that module.
    pub(super) module: &'static str,
    /// Letters that start an interactive session.
    pub(super) prompt: &'static str,
    /// Letters with which nothing is run.
    pub(super) quiet: &'static str,
    /// The same as long options.
    pub(super) long_text: &'static [&'static str],
    pub(super) long_file: &'static [&'static str],
    pub(super) long_value: &'static [&'static str],
    pub(super) long_quiet: &'static [&'static str],
    /// Letters with which the files behind are changed in place.
    pub(super) in_place: &'static str,
}

/// An interpreter without options.
pub(super) const BARE: Options = Options {
    text: "",
    file: "",
    value: "",
    rest: "",
    module: "",
    prompt: "",
    quiet: "",
    long_text: &[],
    long_file: &[],
    long_value: &[],
    long_quiet: &["--version", "--help"],
    in_place: "",
};

/// The parsed options of an interpreter.
#[derive(Debug, Default)]
pub(super) struct ParsedOptions<'a> {
    pub(super) texts: Vec<Field>,
    pub(super) files: Vec<Field>,
    /// Values of other options with their letters.
    pub(super) values: Vec<(char, Field)>,
    pub(super) rest: &'a [Field],
    pub(super) module: bool,
    pub(super) prompt: bool,
    pub(super) quiet: bool,
    pub(super) in_place: bool,
    /// An argument that may be an option or not.
    pub(super) unsure: Option<Field>,
}

impl Options {
    /// Reads the arguments of an interpreter.
    pub(super) fn read<'a>(&self, arguments: &'a [Field]) -> ParsedOptions<'a> {
        let mut parsed = ParsedOptions { rest: arguments, ..ParsedOptions::default() };
        while let Some((first, more)) = parsed.rest.split_first() {
            let Some(word) = first.known() else {
                let text = first.to_string();
                let whole = text == "…" || first.may_be_many();
                // Behind its code, what is not known is a file.
                let told_already = !parsed.texts.is_empty() || !parsed.files.is_empty();
                if told_already {
                    return parsed;
                }
                if text.starts_with('-') || (text.starts_with('…') && whole) {
                    // The value of a short option may be displayed.
                    let letter = text.chars().nth(1).unwrap_or(' ');
                    if text.starts_with('-') && self.value.contains(letter) {
                        parsed.rest = more;
                        continue;
                    }
                    parsed.unsure = Some(first.clone());
                }
                return parsed;
            };
            if word == "--" {
                parsed.rest = more;
                return parsed;
            }
            if word == "-" || !word.starts_with('-') {
                return parsed;
            }
            parsed.rest = more;
            let is_end = if word.starts_with("--") || self.is_long(&word) {
                self.long(&mut parsed, &word)
            } else {
                self.short(&mut parsed, &word)
            };
            if is_end {
                return parsed;
            }
        }
        parsed
    }

    fn is_long(&self, word: &str) -> bool {
        [self.long_text, self.long_file, self.long_value, self.long_quiet]
            .iter()
            .any(|list| list.contains(&word))
    }

    fn long(&self, parsed: &mut ParsedOptions<'_>, word: &str) -> bool {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(Field::text(value))),
            None => (word, None),
        };
        let (text, file) = (self.long_text.contains(&name), self.long_file.contains(&name));
        if text || file {
            let value = value.or_else(|| next(parsed));
            if let Some(value) = value {
                if text { parsed.texts.push(value) } else { parsed.files.push(value) }
            }
        } else if self.long_value.contains(&name) && value.is_none() {
            next(parsed);
        } else if self.long_quiet.contains(&name) {
            parsed.quiet = true;
        } else if name == "--in-place" && !self.in_place.is_empty() {
            parsed.in_place = true;
        } else if matches!(name, "--interactive" | "--repl") {
            parsed.prompt = true;
        }
        false
    }

    /// A word of letters; whether everything behind it belongs to something else.
    fn short(&self, parsed: &mut ParsedOptions<'_>, word: &str) -> bool {
        let letters: Vec<char> = word.chars().skip(1).collect();
        for (index, letter) in letters.iter().enumerate() {
            let behind: String = letters.iter().skip(index + 1).collect();
            if self.quiet.contains(*letter) {
                parsed.quiet = true;
            }
            if self.prompt.contains(*letter) {
                parsed.prompt = true;
            }
            if self.in_place.contains(*letter) {
                parsed.in_place = true;
            }
            if self.rest.contains(*letter) {
                // Digits may be followed by more letters.
                parsed.values.push((*letter, Field::text(behind.clone())));
                let digits = behind.chars().take_while(char::is_ascii_digit).count();
                let more: String = behind.chars().skip(digits).collect();
                if matches!(letter, '0' | 'l') && !more.is_empty() {
                    return self.short(parsed, &format!("-{}", more.trim_start_matches('x')));
                }
                return false;
            }
            let (text, file) = (self.text.contains(*letter), self.file.contains(*letter));
            let module = self.module.contains(*letter);
            if text || file || module || self.value.contains(*letter) {
                let value = match behind.is_empty() {
                    true => next(parsed),
                    false => Some(Field::text(behind)),
                };
                parsed.module |= module;
                if let Some(value) = value {
                    if text {
                        parsed.texts.push(value);
                    } else if file {
                        parsed.files.push(value);
                    } else {
                        parsed.values.push((*letter, value));
                    }
                }
                return module;
            }
        }
        false
    }
}

fn next(parsed: &mut ParsedOptions<'_>) -> Option<Field> {
    let (first, more) = parsed.rest.split_first()?;
    parsed.rest = more;
    Some(first.clone())
}
