//! What stands between quotes: escapes, and expressions in the text.

use super::lex::Part;

/// How expressions stand in a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hole {
    /// Not at all.
    None,
    /// `${…}`
    Dollar,
    /// `{…}`, and `{{` for a brace.
    Braces,
    /// `#{…}`
    Hash,
    /// `$name`, `@name`, `@{[…]}`
    Perl,
    /// `$name`, `{$…}`
    Php,
    /// Some way that is not known: a `$` or `#{` leaves the text undecided.
    Any,
}

/// How a string is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quoted {
    pub(super) hole: Hole,
    /// Only a quote and a backslash can be escaped.
    pub(super) raw: bool,
}

impl Quoted {
    /// The parts of the text between quotes.
    pub(super) fn parts(&self, body: &str) -> Option<Vec<Part>> {
        let mut reader = Reader { text: body.chars().collect(), at: 0, parts: Vec::new() };
        while let Some(c) = reader.peek(0) {
            if c == '\\' {
                reader.escape(self.raw)?;
            } else if !reader.hole(self.hole, c)? {
                reader.add(c);
                reader.at += 1;
            }
        }
        Some(reader.parts)
    }
}

struct Reader {
    text: Vec<char>,
    at: usize,
    parts: Vec<Part>,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn add(&mut self, c: char) {
        match self.parts.last_mut() {
            Some(Part::Text(text)) => text.push(c),
            _ => self.parts.push(Part::Text(c.to_string())),
        }
    }

    fn escape(&mut self, raw: bool) -> Option<()> {
        let next = self.peek(1)?;
        self.at += 2;
        if raw {
            if !matches!(next, '\\' | '\'' | '"') {
                self.add('\\');
            }
            self.add(next);
            return Some(());
        }
        match next {
            'n' => self.add('\n'),
            't' => self.add('\t'),
            'r' => self.add('\r'),
            '\n' => {}
            'x' => self.code(16, 2),
            'u' => self.code(16, 4),
            'U' => self.code(16, 8),
            '0'..='7' => {
                self.at -= 1;
                self.code(8, 3);
            }
            // Names of characters are not known here.
            'N' if self.peek(0) == Some('{') => {
                self.braces()?;
                self.parts.push(Part::Hole("\\N".to_owned()));
            }
            other => self.add(other),
        }
        Some(())
    }

    fn code(&mut self, radix: u32, most: usize) {
        let mut digits = String::new();
        if self.peek(0) == Some('{') {
            digits = self.braces().unwrap_or_default();
        } else {
            while let Some(c) = self.peek(0).filter(|c| c.is_digit(radix) && digits.len() < most) {
                digits.push(c);
                self.at += 1;
            }
        }
        match u32::from_str_radix(&digits, radix).ok().and_then(char::from_u32) {
            Some(c) => self.add(c),
            None => self.parts.push(Part::Hole("\\".to_owned())),
        }
    }

    /// From an open brace to the one that closes it; what is between them.
    fn braces(&mut self) -> Option<String> {
        let (mut depth, mut body) = (0, String::new());
        loop {
            let c = self.peek(0)?;
            self.at += 1;
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(body.chars().skip(1).collect());
            }
            body.push(c);
        }
    }

    fn word(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.peek(0).filter(|c| c.is_alphanumeric() || *c == '_') {
            name.push(c);
            self.at += 1;
        }
        name
    }

    /// An expression at this place; whether there is one.
    fn hole(&mut self, hole: Hole, c: char) -> Option<bool> {
        let next = self.peek(1);
        let code = match (hole, c, next) {
            (Hole::Dollar, '$', Some('{')) | (Hole::Hash, '#', Some('{')) => {
                self.at += 1;
                self.braces()?
            }
            (Hole::Hash, '#', Some('$' | '@')) => {
                self.at += 2;
                self.word();
                "?".to_owned()
            }
            (Hole::Braces, '{', Some('{')) | (Hole::Braces, '}', Some('}')) => {
                self.at += 2;
                self.add(c);
                return Some(true);
            }
            (Hole::Braces, '{', _) => self.braces()?,
            (Hole::Php, '{', Some('$')) => self.braces()?,
            (Hole::Perl, '$' | '@', Some('{')) => {
                self.at += 1;
                let inner = self.braces()?;
                if inner.chars().all(|c| c.is_alphanumeric() || c == '_') {
                    format!("{c}{inner}")
                } else {
                    inner
                }
            }
            (Hole::Perl | Hole::Php, '$' | '@', Some(next))
                if (next.is_alphabetic() || next == '_') && (hole == Hole::Perl || c == '$') =>
            {
                self.at += 1;
                let name = self.word();
                let more = match self.peek(0) {
                    Some('[' | '{') => true,
                    Some('-') => self.peek(1) == Some('>'),
                    Some(':') => self.peek(1) == Some(':'),
                    _ => false,
                };
                format!("{c}{name}{}", if more { "?" } else { "" })
            }
            (Hole::Perl, '$', Some(next))
                if !next.is_whitespace() && next != '|' && next != ')' =>
            {
                self.at += 2;
                "?".to_owned()
            }
            (Hole::Any, '$', Some(next)) if next.is_alphanumeric() || "({_".contains(next) => {
                self.at += 1;
                "?".to_owned()
            }
            (Hole::Any, '#' | '\\', Some('{' | '(')) => {
                self.at += 1;
                "?".to_owned()
            }
            _ => return Some(false),
        };
        self.parts.push(Part::Hole(code));
        Some(true)
    }
}
