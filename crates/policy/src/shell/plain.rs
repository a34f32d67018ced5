//! Parses texts of simple commands directly, because the general parser takes about ten times as long.
//!
//! Words, redirections, pipes, `&&`, `||`, `;`, `&` and comments give the tree that brush-parser gives. Anything
//! else (compound commands, substitutions, here documents, syntax errors) is left to it.

use brush_parser::SourceSpan;
use brush_parser::ast::{
    AndOr, AndOrList, Assignment, AssignmentName, AssignmentValue, Command, CommandPrefix,
    CommandPrefixOrSuffixItem as Item, CommandSuffix, CompoundList, CompoundListItem,
    IoFileRedirectKind, IoFileRedirectTarget, IoRedirect, Pipeline, Program, SeparatorOperator,
    SimpleCommand, Word,
};

use super::parse::is_reserved;

/// The syntax tree, without places in the text; `None` if the text has more than simple commands.
pub(super) fn program(text: &str) -> Option<Program> {
    let mut scan = Scan { text, at: 0 };
    let mut parser = Parser { token: scan.token(), scan, items: Vec::new(), span: None };
    let mut complete_commands = Vec::new();
    loop {
        parser.skip_lines();
        if parser.token == Token::End {
            return Some(Program { complete_commands });
        }
        complete_commands.push(parser.complete_command()?);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    /// Digits directly in front of a redirection.
    Descriptor(&'a str),
    /// A redirection to or from a file.
    File(FileOperator),
    /// `&>` and `&>>`.
    BothOutputs {
        append: bool,
    },
    And,
    Or,
    Pipe,
    Semicolon,
    Ampersand,
    Newline,
    End,
    /// Syntax that simple commands do not have.
    Unsupported,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileOperator {
    Read,
    Write,
    Append,
    ReadAndWrite,
    Clobber,
    DuplicateInput,
    DuplicateOutput,
}

/// Splits a text into tokens; every character that means something is ASCII.
struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn next_if(&mut self, expected: u8) -> bool {
        let is = self.peek() == Some(expected);
        self.at += usize::from(is);
        is
    }

    fn skip_while(&mut self, fits: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&fits) {
            self.at += 1;
        }
    }

    fn token(&mut self) -> Token<'a> {
        self.skip_while(|byte| matches!(byte, b' ' | b'\t'));
        if self.peek() == Some(b'#') {
            self.skip_while(|byte| byte != b'\n');
        }
        let start = self.at;
        match self.peek() {
            None => Token::End,
            Some(b'&' | b';' | b'\n' | b'|' | b'<' | b'>') => self.operator(),
            Some(_) => match self.word().and_then(|()| self.text.get(start..self.at)) {
                None => Token::Unsupported,
                Some(word) => {
                    let redirects = matches!(self.peek(), Some(b'<' | b'>'));
                    match redirects && word.bytes().all(|byte| byte.is_ascii_digit()) {
                        true => Token::Descriptor(word),
                        false => Token::Word(word),
                    }
                }
            },
        }
    }

    /// The longest operator.
    fn operator(&mut self) -> Token<'a> {
        let Some(first) = self.peek() else { return Token::End };
        self.at += 1;
        match first {
            b'\n' => Token::Newline,
            b';' if matches!(self.peek(), Some(b';' | b'&')) => Token::Unsupported,
            b';' => Token::Semicolon,
            b'&' if self.next_if(b'&') => Token::And,
            b'&' if self.next_if(b'>') => Token::BothOutputs { append: self.next_if(b'>') },
            b'&' => Token::Ampersand,
            b'|' if self.next_if(b'|') => Token::Or,
            b'|' if self.peek() == Some(b'&') => Token::Unsupported,
            b'|' => Token::Pipe,
            b'<' if self.peek() == Some(b'<') => Token::Unsupported,
            b'<' if self.next_if(b'&') => Token::File(FileOperator::DuplicateInput),
            b'<' if self.next_if(b'>') => Token::File(FileOperator::ReadAndWrite),
            b'<' => Token::File(FileOperator::Read),
            b'>' if self.next_if(b'>') => Token::File(FileOperator::Append),
            b'>' if self.next_if(b'&') => Token::File(FileOperator::DuplicateOutput),
            b'>' if self.next_if(b'|') => Token::File(FileOperator::Clobber),
            b'>' => Token::File(FileOperator::Write),
            _ => Token::Unsupported,
        }
    }

    /// Goes to the end of a word; `None` if it substitutes or does not end.
    fn word(&mut self) -> Option<()> {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b'&' | b';' | b'|' | b'<' | b'>' => break,
                b'(' | b')' | b'`' => return None,
                b'\\' => self.escape()?,
                b'$' => self.dollar()?,
                b'"' => self.double_quoted()?,
                b'\'' => {
                    // `$'` has escapes, and for the parser `\$'` has too.
                    let before = self.text.get(..self.at)?;
                    if before.ends_with('$') {
                        return None;
                    }
                    self.at += 1;
                    self.skip_while(|byte| byte != b'\'');
                    self.next_if(b'\'').then_some(())?;
                }
                _ => self.at += 1,
            }
        }
        Some(())
    }

    fn escape(&mut self) -> Option<()> {
        self.at += 1;
        let escaped = self.peek().filter(|byte| *byte != b'\n');
        self.at += 1;
        escaped.map(|_| ())
    }

    fn double_quoted(&mut self) -> Option<()> {
        self.at += 1;
        while !self.next_if(b'"') {
            match self.peek()? {
                b'`' => return None,
                b'\\' => self.escape()?,
                b'$' => self.dollar()?,
                _ => self.at += 1,
            }
        }
        Some(())
    }

    /// `$name` and `${name}`; `None` for any other expansion.
    fn dollar(&mut self) -> Option<()> {
        self.at += 1;
        if matches!(self.peek(), Some(b'(' | b'[')) {
            return None;
        }
        if !self.next_if(b'{') {
            return Some(());
        }
        let start = self.at;
        self.skip_while(is_in_name);
        (self.at > start && self.next_if(b'}')).then_some(())
    }
}

fn is_in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

struct Parser<'a> {
    scan: Scan<'a>,
    token: Token<'a>,
    /// The parts of the command that is read now, in memory that serves for all.
    items: Vec<Item>,
    /// Assignments must have a place in the text; all have this one.
    span: Option<SourceSpan>,
}

impl<'a> Parser<'a> {
    fn take(&mut self) -> Token<'a> {
        let next = self.scan.token();
        std::mem::replace(&mut self.token, next)
    }

    fn next_if(&mut self, expected: Token<'_>) -> bool {
        let is = self.token == expected;
        if is {
            self.take();
        }
        is
    }

    fn skip_lines(&mut self) {
        while self.next_if(Token::Newline) {}
    }

    /// Lists of commands up to the end of a line.
    fn complete_command(&mut self) -> Option<CompoundList> {
        let mut items = Vec::with_capacity(1);
        loop {
            let list = self.and_or()?;
            let background = self.next_if(Token::Ampersand);
            let separated = background || self.next_if(Token::Semicolon);
            let separator = match background {
                true => SeparatorOperator::Async,
                false => SeparatorOperator::Sequence,
            };
            items.push(CompoundListItem(list, separator));
            if matches!(self.token, Token::Newline | Token::End) {
                return Some(CompoundList(items));
            }
            if !separated {
                return None;
            }
        }
    }

    fn and_or(&mut self) -> Option<AndOrList> {
        let first = self.pipeline()?;
        let mut additional = Vec::new();
        loop {
            let join = if self.next_if(Token::And) {
                AndOr::And
            } else if self.next_if(Token::Or) {
                AndOr::Or
            } else {
                return Some(AndOrList { first, additional });
            };
            self.skip_lines();
            additional.push(join(self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Option<Pipeline> {
        let mut seq = Vec::with_capacity(1);
        loop {
            seq.push(Command::Simple(self.simple_command()?));
            if !self.next_if(Token::Pipe) {
                return Some(Pipeline { timed: None, bang: false, seq });
            }
            self.skip_lines();
        }
    }

    fn simple_command(&mut self) -> Option<SimpleCommand> {
        let mut prefix = None;
        let mut name = None;
        loop {
            let item = if let Token::Word(text) = self.token {
                self.take();
                match self.assignment(text)? {
                    Some(assignment) => Item::AssignmentWord(assignment, Word::new(text)),
                    None if name.is_some() => Item::Word(Word::new(text)),
                    None if is_reserved(text) => return None,
                    None => {
                        prefix = self.taken_items();
                        name = Some(Word::new(text));
                        continue;
                    }
                }
            } else if self.at_redirect() {
                Item::IoRedirect(self.redirect()?)
            } else {
                break;
            };
            self.items.push(item);
        }
        let items = self.taken_items();
        let (prefix, suffix) = if name.is_some() { (prefix, items) } else { (items, None) };
        (prefix.is_some() || name.is_some()).then(|| SimpleCommand {
            prefix: prefix.map(CommandPrefix),
            word_or_name: name,
            suffix: suffix.map(CommandSuffix),
        })
    }

    fn taken_items(&mut self) -> Option<Vec<Item>> {
        (!self.items.is_empty()).then(|| self.items.drain(..).collect())
    }

    fn at_redirect(&self) -> bool {
        matches!(self.token, Token::Descriptor(_) | Token::File(_) | Token::BothOutputs { .. })
    }

    fn redirect(&mut self) -> Option<IoRedirect> {
        let mut descriptor = None;
        if let Token::Descriptor(digits) = self.token {
            self.take();
            descriptor = Some(digits.parse().ok()?);
        }
        let operator = self.take();
        let Token::Word(target) = self.take() else { return None };
        let target = Word::new(target);
        if let Token::BothOutputs { append } = operator {
            return Some(IoRedirect::OutputAndError(target, append));
        }
        let Token::File(operator) = operator else { return None };
        Some(file(descriptor, operator, target))
    }

    /// The assignment that a word is, if it is one; the outer nothing if it may be one to an element of an array.
    fn assignment(&mut self, word: &str) -> Option<Option<Assignment>> {
        let Some((name, value)) = word.split_once('=') else { return Some(None) };
        let (name, append) = match name.strip_suffix('+') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let digit = name.starts_with(|c: char| c.is_ascii_digit());
        if name.is_empty() || digit || !name.bytes().all(is_in_name) {
            return (!word.contains('[')).then_some(None);
        }
        Some(Some(Assignment {
            name: AssignmentName::VariableName(name.to_owned()),
            value: AssignmentValue::Scalar(Word::new(value)),
            append,
            loc: self.span.get_or_insert_default().clone(),
        }))
    }
}

fn file(descriptor: Option<i32>, operator: FileOperator, target: Word) -> IoRedirect {
    let kind = match operator {
        FileOperator::Read => IoFileRedirectKind::Read,
        FileOperator::Write => IoFileRedirectKind::Write,
        FileOperator::Append => IoFileRedirectKind::Append,
        FileOperator::ReadAndWrite => IoFileRedirectKind::ReadAndWrite,
        FileOperator::Clobber => IoFileRedirectKind::Clobber,
        FileOperator::DuplicateInput => IoFileRedirectKind::DuplicateInput,
        FileOperator::DuplicateOutput => IoFileRedirectKind::DuplicateOutput,
    };
    let target = match operator {
        FileOperator::DuplicateInput | FileOperator::DuplicateOutput => {
            IoFileRedirectTarget::Duplicate(target)
        }
        FileOperator::Read
        | FileOperator::Write
        | FileOperator::Append
        | FileOperator::ReadAndWrite
        | FileOperator::Clobber => IoFileRedirectTarget::Filename(target),
    };
    IoRedirect::File(descriptor, kind, target)
}
#[cfg(test)]
mod tests;
