//! Options and operands of programs that write.

use super::super::field::{Field, Piece};

/// Which options a program has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Grammar {
    /// Letters of options without a value.
    pub(super) flags: &'static str,
    /// Letters of options with a value, in the same word or the next.
    pub(super) values: &'static str,
    /// Letters of options with a value in the same word, or none.
    pub(super) attached: &'static str,
    /// Long options without a value, or with one behind `=` that names no files.
    pub(super) long_flags: &'static [&'static str],
    /// Long options with a value, behind `=` or in the next word.
    pub(super) long_values: &'static [&'static str],
}

/// The parsed arguments of a program.
#[derive(Debug, Default)]
pub(super) struct ParsedArguments {
    options: Vec<(String, Option<Field>)>,
    pub(super) operands: Vec<Field>,
    /// An option is not known, or an operand may be one: any operand may mean anything.
    pub(super) unsure: bool,
}

impl ParsedArguments {
    /// Whether one of these options is there: `t` for `-t`, `target-directory` for the long one.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(option, _)| names.contains(&option.as_str()))
    }

    /// The values of these options.
    pub(super) fn all(&self, names: &[&str]) -> Vec<Field> {
        let named = self.options.iter().filter(|(option, _)| names.contains(&option.as_str()));
        named.filter_map(|(_, value)| value.clone()).collect()
    }

    /// The last value of these options.
    pub(super) fn value(&self, names: &[&str]) -> Option<Field> {
        self.all(names).pop()
    }

    fn add(&mut self, option: &str, value: Option<Field>) {
        self.options.push((option.to_owned(), value));
    }
}

impl Grammar {
    /// Sorts what a program is given.
    pub(super) fn read(&self, arguments: &[Field]) -> ParsedArguments {
        let mut parsed = ParsedArguments::default();
        let mut rest = arguments.iter();
        while let Some(field) = rest.next() {
            let (head, tail) = beginning(field);
            if tail.is_none() && head == "--" {
                parsed.operands.extend(rest.cloned());
                break;
            }
            match head.strip_prefix('-') {
                None => {
                    let opaque =
                        matches!(field.pieces().first(), Some(Piece::Unknown | Piece::UnknownMany));
                    parsed.unsure |= opaque;
                    parsed.operands.push(field.clone());
                }
                Some("") if tail.is_none() => parsed.operands.push(field.clone()),
                Some(letters) => {
                    let wants = match letters.strip_prefix('-') {
                        Some(long) => self.long(&mut parsed, long, tail),
                        None => self.short(&mut parsed, letters, tail),
                    };
                    if let Some(option) = wants {
                        parsed.add(&option, rest.next().cloned());
                    }
                }
            }
        }
        parsed
    }

    /// Records a long option; returns its name if its value is the next word.
    fn long(
        &self,
        parsed: &mut ParsedArguments,
        text: &str,
        tail: Option<Field>,
    ) -> Option<String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(with(value, tail.as_ref()))),
            None => {
                parsed.unsure |= tail.is_some();
                (text, None)
            }
        };
        // A beginning of a long name will do.
        let exact = |names: &'static [&'static str]| names.iter().find(|known| **known == name);
        let begun = |names: &'static [&'static str]| {
            names.iter().find(|known| known.starts_with(name) && !name.is_empty())
        };
        let valued = exact(self.long_values);
        let flag = exact(self.long_flags);
        let (valued, flag) = match (valued, flag) {
            (None, None) => (begun(self.long_values), begun(self.long_flags)),
            both => both,
        };
        match (valued, flag, value) {
            (Some(known), _, Some(value)) => parsed.add(known, Some(value)),
            (Some(known), _, None) => return Some((*known).to_owned()),
            (None, Some(known), value) => parsed.add(known, value),
            (None, None, value) => {
                parsed.unsure = true;
                parsed.operands.extend(value);
            }
        }
        None
    }

    /// Records the short options in one word; returns the last if its value is the next word.
    fn short(
        &self,
        parsed: &mut ParsedArguments,
        letters: &str,
        tail: Option<Field>,
    ) -> Option<String> {
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            let option = letter.to_string();
            let more = rest.as_str();
            let value = (!more.is_empty() || tail.is_some()).then(|| with(more, tail.as_ref()));
            if self.values.contains(letter) {
                match value {
                    Some(value) => parsed.add(&option, Some(value)),
                    None => return Some(option),
                }
                return None;
            }
            if self.attached.contains(letter) {
                parsed.add(&option, value);
                return None;
            }
            parsed.unsure |= !self.flags.contains(letter);
            parsed.add(&option, None);
        }
        parsed.unsure |= tail.is_some();
        None
    }
}

/// The text that a field begins with, and the rest of it.
pub(super) fn beginning(field: &Field) -> (&str, Option<Field>) {
    match field.pieces().split_first() {
        Some((Piece::Text(text), rest)) => {
            (text, (!rest.is_empty()).then(|| Field::of(rest.to_vec())))
        }
        Some((Piece::Pattern(text), rest)) => {
            let at = text.find(['*', '?', '[']).unwrap_or(text.len());
            let (head, tail) = text.split_at(at);
            let tail = Piece::Pattern(tail.to_owned());
            (head, Some(Field::of(std::iter::once(tail).chain(rest.iter().cloned()).collect())))
        }
        _ => ("", Some(field.clone())),
    }
}

fn with(text: &str, tail: Option<&Field>) -> Field {
    match tail {
        Some(tail) if text.is_empty() => tail.clone(),
        Some(tail) => Field::text(text).joined(tail),
        None => Field::text(text),
    }
}

/// The values of options that are written like `-out FILE` or `of=FILE`.
pub(super) fn named_values(arguments: &[Field], names: &[&str]) -> Vec<Field> {
    let mut found = Vec::new();
    let mut rest = arguments.iter();
    while let Some(field) = rest.next() {
        let (head, tail) = beginning(field);
        for name in names {
            match head.strip_prefix(name) {
                Some("") if tail.is_none() && !name.ends_with('=') => {
                    found.extend(rest.next().cloned());
                    break;
                }
                Some(value) if name.ends_with('=') => found.push(with(value, tail.as_ref())),
                _ => {}
            }
        }
    }
    found
}
