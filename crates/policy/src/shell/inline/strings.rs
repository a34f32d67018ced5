//! Strings, patterns and here documents: where they end, and what is in them.

use super::lex::{Document, Family, Lexer, Part, Token};
use super::quotes::{Hole, Quoted};

impl Lexer {
    pub(super) fn document(&mut self, document: &Document) -> Option<Vec<Part>> {
        let mut body = String::new();
        loop {
            let start = self.at;
            if start >= self.text.len() {
                return None;
            }
            self.skip_line();
            let line: String = self.text.get(start..self.at)?.iter().collect();
            self.at += 1;
            if line.trim().trim_end_matches(';') == document.tag {
                break;
            }
            body.push_str(&line);
            body.push('\n');
        }
        Quoted::parts(&document.quoted, &body)
    }

    pub(super) fn string(&mut self, quote: char) -> Option<()> {
        let hole = self.hole(quote);
        let triple: String = std::iter::repeat_n(quote, 3).collect();
        if matches!(self.family, Family::Python | Family::Other) && self.looking_at(&triple) {
            return self.python_string("");
        }
        if self.family == Family::Python {
            return self.python_string("");
        }
        self.at += 1;
        let raw = quote == '\''
            && matches!(self.family, Family::Perl | Family::Php | Family::Ruby | Family::Awk);
        let quoted = Quoted { hole, raw };
        let body = self.until(quote, None)?;
        let parts = Quoted::parts(&quoted, &body)?;
        let shell = quote == '`'
            && (matches!(self.family, Family::Perl | Family::Php | Family::Ruby | Family::Other)
                || self.tokens.last().and_then(Token::name).is_some_and(|name| name == "$"));
        self.push(if shell { Token::Command(parts) } else { Token::Text(parts) });
        Some(())
    }

    pub(super) fn hole(&self, quote: char) -> Hole {
        match (self.family, quote) {
            (Family::JavaScript, '`') => Hole::Dollar,
            (Family::Perl, '"' | '`') => Hole::Perl,
            (Family::Php, '"' | '`') => Hole::Php,
            (Family::Ruby, '"' | '`') => Hole::Hash,
            (Family::Other, '"' | '`') => Hole::Any,
            _ => Hole::None,
        }
    }

    /// The text up to a delimiter, with its escapes; nested if there is another to open it.
    pub(super) fn until(&mut self, close: char, open: Option<char>) -> Option<String> {
        let mut body = String::new();
        let mut depth = 0;
        loop {
            let c = self.peek(0)?;
            self.at += 1;
            if c == '\\' {
                body.push(c);
                body.push(self.peek(0)?);
                self.at += 1;
                continue;
            }
            if Some(c) == open {
                depth += 1;
            } else if c == close {
                if depth == 0 {
                    return Some(body);
                }
                depth -= 1;
            }
            body.push(c);
            // A hole may hold quotes of its own.
            let hole = (self.family == Family::JavaScript
                && close == '`'
                && c == '$'
                && self.peek(0) == Some('{'))
                || (self.family == Family::Ruby && c == '#' && self.peek(0) == Some('{'));
            if hole {
                self.at += 1;
                let inner = self.balanced()?;
                body.push('{');
                body.push_str(&inner);
                body.push('}');
            }
        }
    }

    /// Up to the brace that closes, passing over strings.
    pub(super) fn balanced(&mut self) -> Option<String> {
        let mut body = String::new();
        let mut depth = 0;
        loop {
            let c = self.peek(0)?;
            self.at += 1;
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => return Some(body),
                '}' => depth -= 1,
                '"' | '\'' | '`' => {
                    body.push(c);
                    body.push_str(&self.until(c, None)?);
                }
                _ => {}
            }
            body.push(c);
        }
    }

    pub(super) fn python_string(&mut self, prefix: &str) -> Option<()> {
        let quote = self.peek(0)?;
        let triple: String = std::iter::repeat_n(quote, 3).collect();
        let raw = prefix.contains(['r', 'R']);
        let hole = if prefix.contains(['f', 'F']) { Hole::Braces } else { Hole::None };
        let body = if self.looking_at(&triple) {
            self.at += 3;
            let start = self.at;
            loop {
                if self.looking_at(&triple) {
                    break;
                }
                self.peek(0)?;
                self.at += if self.peek(0) == Some('\\') { 2 } else { 1 };
            }
            let body: String = self.text.get(start..self.at)?.iter().collect();
            self.at += 3;
            body
        } else {
            self.at += 1;
            self.until(quote, None)?
        };
        let parts = if raw && hole == Hole::None {
            vec![Part::Text(body)]
        } else {
            Quoted::parts(&Quoted { hole, raw }, &body)?
        };
        self.push(Token::Text(parts));
        Some(())
    }

    /// `q(…)`, `qq{…}`, `qw/…/`, `m/…/`, `s/…/…/e`; whether it is one.
    pub(super) fn perl_quote(&mut self, name: &str) -> Option<bool> {
        if !matches!(name, "q" | "qq" | "qw" | "qx" | "qr" | "m" | "s" | "tr" | "y") {
            return Some(false);
        }
        // `sub s {…}` names it, and `-s $file` asks for a size.
        let tested = self.text.get(self.at.wrapping_sub(name.len() + 1)) == Some(&'-')
            && name == "s"
            && self.peek(0).is_some_and(char::is_whitespace);
        if tested || self.tokens.last().and_then(Token::name) == Some("sub") {
            return Some(false);
        }
        let start = self.at;
        while self.peek(0).is_some_and(char::is_whitespace) {
            self.at += 1;
        }
        let spaced = self.at > start;
        let delimiter = self.peek(0);
        let plain = |c: char| {
            c.is_whitespace()
                || matches!(c, ',' | ';' | ')')
                || (c == '=' && (spaced || self.peek(1) == Some('>')))
                || (c == '}' || c == '#' && spaced)
                || (c.is_alphanumeric() && !spaced)
        };
        let Some(open) = delimiter.filter(|c| !plain(*c)) else {
            self.at = start;
            return Some(false);
        };
        self.at += 1;
        let body = self.delimited(open)?;
        let verbatim = open == '\'';
        let hole = if verbatim { Hole::None } else { Hole::Perl };
        match name {
            "q" => {
                let parts = Quoted::parts(&Quoted { hole: Hole::None, raw: true }, &body)?;
                self.push(Token::Text(parts));
            }
            "qq" => {
                let parts = Quoted::parts(&Quoted { hole, raw: false }, &body)?;
                self.push(Token::Text(parts));
            }
            "qx" => {
                let parts = Quoted::parts(&Quoted { hole, raw: verbatim }, &body)?;
                self.push(Token::Command(parts));
            }
            "qw" => {
                let words = body.split_whitespace().map(str::to_owned).collect();
                self.push(Token::Words(words));
            }
            "s" | "tr" | "y" => {
                if closing(open) != open {
                    while self.peek(0).is_some_and(char::is_whitespace) {
                        self.at += 1;
                    }
                    let second = self.peek(0)?;
                    self.at += 1;
                    let replacement = self.delimited(second)?;
                    self.substitution(name, &body, replacement);
                } else {
                    let replacement = self.delimited(open)?;
                    self.substitution(name, &body, replacement);
                }
            }
            _ => {
                self.flags();
                self.in_pattern(&body);
            }
        }
        Some(true)
    }

    pub(super) fn substitution(&mut self, name: &str, body: &str, replacement: String) {
        let flags = self.flags();
        if name == "s" && flags.matches('e').count() > 1 {
            // It is run twice: the second time what came out of the first.
            self.push(Token::Name("eval".to_owned()));
            self.push(Token::Sign("("));
            self.push(Token::Name("$_".to_owned()));
            self.push(Token::Sign(")"));
        }
        if name == "s" && flags.contains('e') {
            self.push(Token::Code(replacement));
        } else if name == "s" {
            self.in_pattern(&replacement);
        }
        self.in_pattern(body);
    }

    /// Perl runs `(?{…})` and `@{[…]}` in patterns.
    pub(super) fn in_pattern(&mut self, body: &str) {
        if body.contains("(?{") || body.contains("(??{") || body.contains("@{[") {
            let code = body.replace(['{', '}', '?', '[', ']'], " ");
            self.push(Token::Code(code));
        } else {
            self.push(Token::Other);
        }
    }

    pub(super) fn flags(&mut self) -> String {
        let mut flags = String::new();
        while let Some(c) = self.peek(0).filter(char::is_ascii_lowercase) {
            flags.push(c);
            self.at += 1;
        }
        flags
    }

    pub(super) fn delimited(&mut self, open: char) -> Option<String> {
        let close = closing(open);
        self.until(close, (close != open).then_some(open))
    }

    /// A pattern between slashes; whether it is one.
    pub(super) fn pattern(&mut self) -> Option<bool> {
        let has =
            matches!(self.family, Family::JavaScript | Family::Perl | Family::Ruby | Family::Awk);
        if !has || self.peek(0) != Some('/') {
            return Some(false);
        }
        let blank_behind = self.peek(1).is_some_and(char::is_whitespace);
        let argument = self.family == Family::Ruby
            && self.spaced
            && !blank_behind
            && matches!(self.tokens.last(), Some(Token::Name(_)));
        if self.behind_operand() && !argument {
            return Some(false);
        }
        self.at += 1;
        let mut body = String::new();
        let mut class = false;
        loop {
            let c = self.peek(0)?;
            self.at += 1;
            match c {
                '\n' if self.family != Family::Perl && self.family != Family::Ruby => return None,
                '\\' => {
                    self.peek(0)?;
                    self.at += 1;
                }
                '[' if self.family == Family::JavaScript => class = true,
                ']' => class = false,
                '/' if !class => break,
                _ => body.push(c),
            }
        }
        self.flags();
        if self.family == Family::Perl {
            self.in_pattern(&body)
        } else {
            self.push(Token::Other)
        }
        Some(true)
    }

    pub(super) fn long_bracket(&self, from: usize) -> bool {
        let mut ahead = from + 1;
        while self.peek(ahead) == Some('=') {
            ahead += 1;
        }
        self.peek(from) == Some('[') && self.peek(ahead) == Some('[')
    }

    pub(super) fn long_string(&mut self) -> Option<()> {
        let start = self.at;
        self.at += 1;
        while self.peek(0) == Some('=') {
            self.at += 1;
        }
        let level = self.at - start - 1;
        self.at += 1;
        let begin = self.at;
        let close = format!("]{}]", "=".repeat(level));
        self.skip_to(&close)?;
        let end = self.at - close.len();
        let body: String = self.text.get(begin..end)?.iter().collect();
        self.push(Token::Text(vec![Part::Text(body)]));
        Some(())
    }

    /// Here documents, `%w[]`, symbols, long strings; whether it is one.
    pub(super) fn special(&mut self) -> Option<bool> {
        let operand = self.behind_operand();
        let (first, second) = (self.peek(0), self.peek(1));
        if self.family == Family::Lua && first == Some('[') && self.long_bracket(0) {
            self.long_string()?;
            return Some(true);
        }
        if self.family == Family::Ruby {
            if first == Some('%') && (!operand || self.spaced) {
                return self.percent();
            }
            if first == Some(':') && second == Some('"') {
                self.at += 1;
                self.string('"')?;
                return Some(true);
            }
            let letter = second.is_some_and(|c| c.is_alphabetic() || c == '_');
            if first == Some(':') && letter && (self.spaced || !operand) {
                self.at += 1;
                let name = self.plain_name();
                self.push(Token::Text(vec![Part::Text(name)]));
                return Some(true);
            }
            let lone = self.peek(2).is_none_or(|c| !c.is_alphanumeric());
            if first == Some('?') && !operand && lone {
                self.at += 2;
                self.push(Token::Other);
                return Some(true);
            }
        }
        let documents = matches!(self.family, Family::Perl | Family::Ruby | Family::Php);
        if documents && self.looking_at("<<") {
            let argument = matches!(self.tokens.last(), Some(Token::Name(_))) && self.spaced;
            if !operand || argument || self.family == Family::Php {
                return Some(self.here_document());
            }
        }
        Some(false)
    }

    pub(super) fn percent(&mut self) -> Option<bool> {
        let kind = self.peek(1)?;
        let (kind, open, skip) =
            if kind.is_alphabetic() { (kind, self.peek(2)?, 3) } else { ('Q', kind, 2) };
        if !"wWiIqQxrs".contains(kind) || !"([{<|!/^-".contains(open) {
            return Some(false);
        }
        self.at += skip;
        let body = self.delimited(open)?;
        let hole = if kind.is_uppercase() || kind == 'x' { Hole::Hash } else { Hole::None };
        match kind {
            'w' | 'W' | 'i' | 'I' => {
                let words = body.split_whitespace().map(str::to_owned).collect();
                self.push(Token::Words(words));
            }
            'x' => {
                let parts = Quoted::parts(&Quoted { hole, raw: false }, &body)?;
                self.push(Token::Command(parts));
            }
            'r' => {
                self.flags();
                self.push(Token::Other);
            }
            _ => {
                let raw = kind == 'q' || kind == 's';
                let parts = Quoted::parts(&Quoted { hole, raw }, &body)?;
                self.push(Token::Text(parts));
            }
        }
        Some(true)
    }

    pub(super) fn here_document(&mut self) -> bool {
        let mut ahead = 2;
        if self.family == Family::Php {
            if self.peek(2) != Some('<') {
                return false;
            }
            ahead = 3;
            while self.peek(ahead) == Some(' ') {
                ahead += 1;
            }
        } else if matches!(self.peek(2), Some('~' | '-')) {
            ahead = 3;
        }
        let quote = self.peek(ahead).filter(|c| "'\"`".contains(*c));
        if quote.is_some() {
            ahead += 1;
        }
        let mut tag = String::new();
        while let Some(c) = self.peek(ahead).filter(|c| c.is_alphanumeric() || *c == '_') {
            tag.push(c);
            ahead += 1;
        }
        if tag.is_empty() || (quote.is_none() && tag.starts_with(|c: char| c.is_ascii_digit())) {
            return false;
        }
        if quote.is_some() {
            ahead += 1;
        }
        self.at += ahead;
        let hole = match quote {
            Some('\'') => Hole::None,
            _ => self.hole('"'),
        };
        let index = self.tokens.len();
        self.documents.push(Document {
            index,
            tag,
            quoted: Quoted { hole, raw: quote == Some('\'') },
        });
        let token = match quote {
            Some('`') => Token::Command(Vec::new()),
            _ => Token::Text(Vec::new()),
        };
        self.push(token);
        true
    }
}

fn closing(open: char) -> char {
    match open {
        '(' => ')',
        '[' => ']',
        '{' => '}',
        '<' => '>',
        other => other,
    }
}
