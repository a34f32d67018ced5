//! Texts that go through a pipe and are known: `echo ls | sh`, `cat <<E | python3 -`.

use brush_parser::ast::{self, CommandPrefixOrSuffixItem, IoRedirect};

use super::Write;
use super::field::Field;
use super::redirect::Input;
use super::walk::Walker;
use super::writers::{FoundFiles, listed};

/// More texts than this are as good as unknown.
const MAX_COUNT: usize = 8;

impl Walker {
    /// The input of the next command in a pipe, as far as the text of this one determines it.
    pub(super) fn piped(&mut self, command: &ast::Command) -> Input {
        let texts = match command {
            ast::Command::Simple(simple) if simple.prefix.is_none() => self.prints(simple),
            ast::Command::Simple(_)
            | ast::Command::Compound(..)
            | ast::Command::Function(_)
            | ast::Command::ExtendedTest(..) => None,
        };
        match texts.filter(|texts| !texts.is_empty() && texts.len() <= MAX_COUNT) {
            Some(texts) => Input::Text(Some(texts)),
            None => match command {
                ast::Command::Simple(simple) => {
                    self.finds(simple).map_or(Input::Pipe, Input::Names)
                }
                ast::Command::Compound(..)
                | ast::Command::Function(_)
                | ast::Command::ExtendedTest(..) => Input::Pipe,
            },
        }
    }

    /// The files whose names a command prints.
    fn finds(&mut self, simple: &ast::SimpleCommand) -> Option<FoundFiles> {
        let words = only_words_of(simple)?;
        let name = words.first()?;
        if !matches!(name.as_str(), "find" | "grep" | "egrep" | "fgrep" | "rg")
            || !self.is_itself(name)
        {
            return None;
        }
        let mut fields = Vec::new();
        for word in &words {
            let alternatives = self.word(word);
            let [alternative] = alternatives.as_slice() else { return None };
            fields.extend(alternative.iter().cloned());
        }
        self.found(&fields)
    }

    /// The same for expanded words. A name with a blank would be split.
    pub(super) fn found(&self, argv: &[Field]) -> Option<FoundFiles> {
        let odd = |write: &Write| write.path.to_string().contains(char::is_whitespace);
        let names = self.reading.writes.iter().any(odd);
        listed(argv).filter(|_| !names && self.links.is_empty())
    }

    /// Whether this name is the well-known program: not a function or an alias.
    pub(super) fn is_itself(&self, name: &str) -> bool {
        !self.environment.functions.contains_key(name)
            && !self.environment.aliases.contains_key(name)
            && self.environment.is_untouched("PATH")
            && !self.forget_later
    }

    fn prints(&mut self, simple: &ast::SimpleCommand) -> Option<Vec<String>> {
        let name = simple.word_or_name.as_ref()?.value.as_str();
        let known = |name: &str| matches!(name, "cat" | "echo" | "printf");
        if !known(name) || !self.is_itself(name) {
            return None;
        }
        let items: Vec<&CommandPrefixOrSuffixItem> =
            simple.suffix.iter().flat_map(|suffix| &suffix.0).collect();
        if name == "cat" {
            return match items.as_slice() {
                [CommandPrefixOrSuffixItem::IoRedirect(redirect)] => self.given(redirect),
                _ => None,
            };
        }
        let mut alternatives = vec![Vec::new()];
        for item in items {
            let CommandPrefixOrSuffixItem::Word(word) = item else { return None };
            alternatives = super::expand::product(alternatives, self.word(&word.value));
        }
        let print = |fields: &Vec<Field>| {
            let words = fields.iter().map(Field::known).collect::<Option<Vec<String>>>()?;
            if name == "echo" { echoed(&words) } else { formatted(&words) }
        };
        alternatives.iter().map(print).collect()
    }

    /// The text of a here document or here string.
    fn given(&mut self, redirect: &IoRedirect) -> Option<Vec<String>> {
        match redirect {
            IoRedirect::HereDocument(None | Some(0), document) => self.document_texts(document),
            IoRedirect::HereString(None | Some(0), word) => {
                let texts = self.scalar(&word.value).scalars()?;
                Some(texts.into_iter().map(|text| text + "\n").collect())
            }
            IoRedirect::HereDocument(..)
            | IoRedirect::HereString(..)
            | IoRedirect::File(..)
            | IoRedirect::OutputAndError(..) => None,
        }
    }
}

impl Input {
    /// The output of a command that only filters or sorts lines.
    pub(super) fn filtered(&self, command: &ast::Command) -> Self {
        let Self::Names(_) = self else { return Self::Pipe };
        let ast::Command::Simple(simple) = command else { return Self::Pipe };
        let Some(words) = only_words_of(simple) else { return Self::Pipe };
        let Some((name, arguments)) = words.split_first() else { return Self::Pipe };
        let options: Vec<&String> = arguments.iter().filter(|word| word.starts_with('-')).collect();
        let letters = |known: &str| {
            options.iter().all(|word| word.chars().skip(1).all(|c| known.contains(c)))
        };
        let operands = arguments.len() - options.len();
        let drops = match name.as_str() {
            "grep" => letters("vEFiwxe") && operands <= 1,
            "head" | "tail" => letters("n0123456789") && operands <= 1,
            "sort" | "uniq" => letters("uzVrn") && operands == 0,
            _ => false,
        };
        if drops { self.clone() } else { Self::Pipe }
    }
}

/// The words of a plain command without anything around it.
pub(super) fn only_words_of(simple: &ast::SimpleCommand) -> Option<Vec<String>> {
    if simple.prefix.is_some() {
        return None;
    }
    let mut words = vec![simple.word_or_name.as_ref()?.value.clone()];
    for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
        match item {
            CommandPrefixOrSuffixItem::Word(word) => words.push(word.value.clone()),
            // Standard error is not part of its output.
            CommandPrefixOrSuffixItem::IoRedirect(IoRedirect::File(Some(2), ..)) => {}
            CommandPrefixOrSuffixItem::IoRedirect(_)
            | CommandPrefixOrSuffixItem::AssignmentWord(..)
            | CommandPrefixOrSuffixItem::ProcessSubstitution(..) => return None,
        }
    }
    Some(words)
}

/// The output of `echo` for words that all shells treat alike.
fn echoed(words: &[String]) -> Option<String> {
    let option = words.first().is_some_and(|first| first.starts_with('-'));
    let escapes = words.iter().any(|word| word.contains('\\'));
    (!option && !escapes).then(|| words.join(" ") + "\n")
}

/// The output of `printf` with the simplest formats.
fn formatted(words: &[String]) -> Option<String> {
    let (format, values) = words.split_first()?;
    match format.as_str() {
        "%s" if !values.is_empty() => Some(values.concat()),
        "%s\\n" if !values.is_empty() => {
            Some(values.iter().map(|value| format!("{value}\n")).collect())
        }
        plain if values.is_empty() && !plain.contains('%') && !plain.starts_with('-') => {
            let text = plain.replace("\\n", "\n");
            (!text.contains('\\')).then_some(text)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn output_is_known_only_for_plain_words() {
        assert_eq!(echoed(&words(&["a", "b c"])).as_deref(), Some("a b c\n"));
        assert_eq!(echoed(&words(&["-n", "a"])), None);
        assert_eq!(echoed(&words(&["a\\nb"])), None);
        assert_eq!(formatted(&words(&["%s\\n", "a", "%d"])).as_deref(), Some("a\n%d\n"));
        assert_eq!(formatted(&words(&["a\\nb"])).as_deref(), Some("a\nb"));
        for odd in [["%d", "1"], ["a", "b"], ["-v", "x"]] {
            assert_eq!(formatted(&words(&odd)), None, "{odd:?}");
        }
        assert_eq!(formatted(&words(&["a\\\\nb"])), None);
        assert_eq!(formatted(&words(&["\\x67it"])), None);
    }
}
