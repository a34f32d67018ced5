//! Tokens of the languages that look alike: names, strings, comments, signs.
//!
//! It must not lose its place: what looks like a string and is code would hide what it runs. Where
//! it does lose it, there are no tokens at all.

use super::quotes::{Hole, Quoted};

/// Languages that are read into tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Python,
    JavaScript,
    Perl,
    Ruby,
    Php,
    Lua,
    R,
    Awk,
    /// Any other: only a few words of it are known.
    Other,
}

/// A part of a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    /// An expression in it.
    Hole(String),
}

/// A piece of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Name(String),
    Text(Vec<Part>),
    /// A text that is run by a shell.
    Command(Vec<Part>),
    /// `qw(a b)`, `%w[a b]`.
    Words(Vec<String>),
    /// Code where text is expected: the second half of `s///e`.
    Code(String),
    /// Numbers and patterns.
    Other,
    Sign(&'static str),
    Line,
}

impl Token {
    pub(super) fn is(&self, sign: &str) -> bool {
        matches!(self, Self::Sign(this) if *this == sign)
    }

    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Text(_)
            | Self::Command(_)
            | Self::Words(_)
            | Self::Code(_)
            | Self::Other
            | Self::Sign(_)
            | Self::Line => None,
        }
    }
}

/// Signs, the longest first.
const SIGNS: [&str; 58] = [
    "===", "!==", "**=", "<=>", "...", "<<=", ">>=", "||=", "&&=", "//=", "->", "=>", "==", "!=",
    "<=", ">=", "=~", "!~", "+=", "-=", "*=", "/=", ".=", "..", "||", "&&", "++", "--", "::", "?.",
    "<<", ">>", ":=", "|&", "&.", "<-", "**", "(", ")", "[", "]", "{", "}", ",", ";", ":", ".",
    "=", "+", "-", "*", "/", "<", ">", "|", "&", "@", "!",
];

/// The tokens of a code; nothing if it does not end as it should.
pub(super) fn tokens(family: Family, text: &str) -> Option<Vec<Token>> {
    let mut lexer = Lexer {
        family,
        text: text.chars().collect(),
        at: 0,
        tokens: Vec::new(),
        documents: Vec::new(),
        open: Vec::new(),
        closed_condition: false,
        spaced: true,
    };
    lexer.run()?;
    lexer.documents.is_empty().then_some(lexer.tokens)
}

/// Reads characters into tokens.
pub(super) struct Lexer {
    pub(super) family: Family,
    pub(super) text: Vec<char>,
    pub(super) at: usize,
    tokens: Vec<Token>,
    /// Here documents that begin at the next line: where their text belongs.
    documents: Vec<Document>,
    /// For each open bracket whether an operand ends with it.
    open: Vec<bool>,
    closed_condition: bool,
    spaced: bool,
}

struct Document {
    index: usize,
    tag: String,
    quoted: Quoted,
}

impl Lexer {
    pub(super) fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn looking_at(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(index, c)| self.peek(index) == Some(c))
    }

    fn push(&mut self, token: Token) {
        self.closed_condition = false;
        self.tokens.push(token);
    }

    fn run(&mut self) -> Option<()> {
        if self.looking_at("#!") {
            self.skip_line();
        }
        while let Some(c) = self.peek(0) {
            self.spaced = self.at == 0
                || self.text.get(self.at - 1).is_none_or(|before| before.is_whitespace());
            match c {
                '\n' => self.line(),
                '\\' if self.peek(1) == Some('\n') => self.at += 2,
                c if c.is_whitespace() => self.at += 1,
                _ if self.comment()? => {}
                '"' | '\'' | '`' => self.string(c)?,
                c if c.is_alphabetic() || c == '_' => self.word()?,
                '$' | '@' if self.sigil(c) => {}
                c if c.is_ascii_digit() => self.number(),
                _ if self.pattern()? => {}
                _ if self.special()? => {}
                _ => self.sign(),
            }
            if self.tokens.len() > 50_000 {
                return None;
            }
        }
        self.line();
        Some(())
    }

    fn skip_line(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.at += 1;
        }
    }

    fn line(&mut self) {
        self.at += 1;
        for document in std::mem::take(&mut self.documents) {
            let Some(parts) = self.document(&document) else {
                self.documents.push(document);
                return;
            };
            if let Some(token) = self.tokens.get_mut(document.index) {
                *token = match token {
                    Token::Command(_) => Token::Command(parts),
                    _ => Token::Text(parts),
                };
            }
        }
        if self.family != Family::Perl && self.family != Family::Php {
            self.push(Token::Line);
        }
    }

    fn document(&mut self, document: &Document) -> Option<Vec<Part>> {
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

    fn comment(&mut self) -> Option<bool> {
        let line = match self.family {
            Family::Python | Family::Ruby | Family::R | Family::Awk => self.looking_at("#"),
            Family::Perl => self.looking_at("#"),
            Family::JavaScript => self.looking_at("//"),
            Family::Php => {
                (self.looking_at("#") && !self.looking_at("#[")) || self.looking_at("//")
            }
            Family::Lua => self.looking_at("--") && !self.long_bracket(2),
            Family::Other => self.looking_at("//") || (self.spaced && self.looking_at("# ")),
        };
        if line {
            self.skip_line();
            return Some(true);
        }
        let slashes = matches!(self.family, Family::JavaScript | Family::Php | Family::Other);
        if slashes && self.looking_at("/*") {
            return self.skip_to("*/").map(|()| true);
        }
        if self.family == Family::Lua && self.looking_at("--") {
            self.at += 2;
            self.long_string()?;
            return Some(true);
        }
        let begins_line = self.at == 0 || self.text.get(self.at - 1) == Some(&'\n');
        if begins_line && self.family == Family::Ruby && self.looking_at("=begin") {
            return self.skip_to("\n=end").map(|()| true);
        }
        let letter = self.peek(1).is_some_and(char::is_alphabetic);
        if begins_line && self.family == Family::Perl && self.peek(0) == Some('=') && letter {
            if self.skip_to("\n=cut").is_none() {
                self.at = self.text.len();
            }
            return Some(true);
        }
        Some(false)
    }

    fn skip_to(&mut self, end: &str) -> Option<()> {
        while self.at < self.text.len() {
            if self.looking_at(end) {
                self.at += end.chars().count();
                return Some(());
            }
            self.at += 1;
        }
        None
    }

    fn string(&mut self, quote: char) -> Option<()> {
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

    fn hole(&self, quote: char) -> Hole {
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
            let hole = match self.family {
                Family::JavaScript => close == '`' && c == '$' && self.peek(0) == Some('{'),
                Family::Ruby => c == '#' && self.peek(0) == Some('{'),
                _ => false,
            };
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
    fn balanced(&mut self) -> Option<String> {
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

    fn python_string(&mut self, prefix: &str) -> Option<()> {
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

    fn number(&mut self) {
        while self.peek(0).is_some_and(|c| c.is_alphanumeric() || c == '_') {
            self.at += 1;
        }
        self.push(Token::Other);
    }

    fn plain_name(&mut self) -> String {
        let dots = self.family == Family::R;
        let dollars = self.family == Family::JavaScript;
        let mut name = String::new();
        while let Some(c) = self.peek(0) {
            if !(c.is_alphanumeric() || c == '_' || (dots && c == '.') || (dollars && c == '$')) {
                break;
            }
            name.push(c);
            self.at += 1;
        }
        name
    }

    fn word(&mut self) -> Option<()> {
        let name = self.plain_name();
        let member = self.tokens.last().is_some_and(|token| token.is("."));
        let next = self.peek(0);
        match self.family {
            Family::Python if next.is_some_and(|c| c == '"' || c == '\'') => {
                let prefix = name.len() <= 2 && name.chars().all(|c| "rRbBfFuU".contains(c));
                if prefix {
                    return self.python_string(&name);
                }
            }
            Family::R if matches!(name.as_str(), "r" | "R") && next == Some('"') => return None,
            Family::Perl if !member => {
                if matches!(name.as_str(), "__END__" | "__DATA__") {
                    self.at = self.text.len();
                    return Some(());
                }
                if self.perl_quote(&name)? {
                    return Some(());
                }
            }
            Family::Ruby if name == "__END__" => {
                self.at = self.text.len();
                return Some(());
            }
            _ => {}
        }
        if matches!(self.family, Family::Ruby) && !member {
            let ends = matches!(self.peek(0), Some('?' | '!')) && self.peek(1) != Some('=');
            if ends {
                self.at += 1;
            }
        }
        self.push(Token::Name(name));
        Some(())
    }

    /// `q(…)`, `qq{…}`, `qw/…/`, `m/…/`, `s/…/…/e`; whether it is one.
    fn perl_quote(&mut self, name: &str) -> Option<bool> {
        if !matches!(name, "q" | "qq" | "qw" | "qx" | "qr" | "m" | "s" | "tr" | "y") {
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

    fn substitution(&mut self, name: &str, body: &str, replacement: String) {
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
    fn in_pattern(&mut self, body: &str) {
        if body.contains("(?{") || body.contains("(??{") || body.contains("@{[") {
            let code = body.replace(['{', '}', '?', '[', ']'], " ");
            self.push(Token::Code(code));
        } else {
            self.push(Token::Other);
        }
    }

    fn flags(&mut self) -> String {
        let mut flags = String::new();
        while let Some(c) = self.peek(0).filter(char::is_ascii_lowercase) {
            flags.push(c);
            self.at += 1;
        }
        flags
    }

    fn delimited(&mut self, open: char) -> Option<String> {
        let close = closing(open);
        self.until(close, (close != open).then_some(open))
    }

    /// `$name`, `@name`; `$` alone is a name in JavaScript.
    fn sigil(&mut self, c: char) -> bool {
        let next = self.peek(1);
        let word = next.is_some_and(|c| c.is_alphanumeric() || c == '_');
        match self.family {
            Family::Perl | Family::Php if word => {
                self.at += 1;
                let mut name = self.plain_name();
                while self.family == Family::Perl && self.looking_at("::") {
                    self.at += 2;
                    name = format!("{name}.{}", self.plain_name());
                }
                self.push(Token::Name(format!("{c}{name}")));
            }
            Family::Perl if c == '$' && next == Some('{') => {
                // `${name}` and `${ … }` alike: what is in it is read as code.
                self.at += 1;
                self.push(Token::Name("$".to_owned()));
            }
            Family::Perl if c == '$' && next == Some('#') => {
                self.at += 2;
                self.push(Token::Name("$#".to_owned()));
            }
            Family::Perl if c == '$' => {
                let special = next.is_some_and(|c| "&`'+!@/\\,;.-_^<>()[]0\"$".contains(c));
                self.at += if special { 2 } else { 1 };
                self.push(Token::Name(format!("${}", next.unwrap_or(' '))));
            }
            Family::JavaScript if c == '$' => {
                let name = self.plain_name();
                self.push(Token::Name(name));
            }
            Family::Ruby if word => {
                self.at += 1;
                let name = self.plain_name();
                self.push(Token::Name(format!("{c}{name}")));
            }
            Family::Ruby if c == '$' => {
                self.at += 2;
                self.push(Token::Other);
            }
            _ => return false,
        }
        true
    }

    /// Whether an operand stands before: then `/` divides.
    fn behind_operand(&self) -> bool {
        match self.tokens.iter().rev().find(|token| **token != Token::Line) {
            Some(Token::Name(name)) => match self.family {
                Family::Perl => name.starts_with(['$', '@']) || name == "}",
                _ => !matches!(
                    name.as_str(),
                    "return"
                        | "typeof"
                        | "case"
                        | "in"
                        | "of"
                        | "delete"
                        | "void"
                        | "throw"
                        | "new"
                        | "else"
                        | "do"
                        | "await"
                        | "yield"
                        | "if"
                        | "unless"
                        | "and"
                        | "or"
                        | "not"
                        | "when"
                        | "while"
                        | "until"
                        | "then"
                        | "puts"
                        | "print"
                ),
            },
            Some(Token::Sign(sign)) => match *sign {
                ")" | "]" | "}" => !self.closed_condition,
                _ => false,
            },
            Some(Token::Text(_) | Token::Command(_) | Token::Words(_) | Token::Other) => true,
            Some(Token::Code(_) | Token::Line) => true,
            None => false,
        }
    }

    /// A pattern between slashes; whether it is one.
    fn pattern(&mut self) -> Option<bool> {
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

    fn long_bracket(&self, from: usize) -> bool {
        let mut ahead = from + 1;
        while self.peek(ahead) == Some('=') {
            ahead += 1;
        }
        self.peek(from) == Some('[') && self.peek(ahead) == Some('[')
    }

    fn long_string(&mut self) -> Option<()> {
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
    fn special(&mut self) -> Option<bool> {
        let operand = self.behind_operand();
        match self.family {
            Family::Lua if self.peek(0) == Some('[') && self.long_bracket(0) => {
                self.long_string()?;
                return Some(true);
            }
            Family::Ruby if self.peek(0) == Some('%') && (!operand || self.spaced) => {
                return self.percent();
            }
            Family::Ruby if self.peek(0) == Some(':') && self.peek(1) == Some('"') => {
                self.at += 1;
                self.string('"')?;
                return Some(true);
            }
            Family::Ruby if self.peek(0) == Some(':') && (self.spaced || !operand) => {
                if self.peek(1).is_some_and(|c| c.is_alphabetic() || c == '_') {
                    self.at += 1;
                    let name = self.plain_name();
                    self.push(Token::Text(vec![Part::Text(name)]));
                    return Some(true);
                }
            }
            Family::Ruby if self.peek(0) == Some('?') && !operand => {
                if self.peek(2).is_none_or(|c| !c.is_alphanumeric()) {
                    self.at += 2;
                    self.push(Token::Other);
                    return Some(true);
                }
            }
            Family::Perl | Family::Ruby | Family::Php if self.looking_at("<<") => {
                let argument = matches!(self.tokens.last(), Some(Token::Name(_))) && self.spaced;
                if !operand || argument || self.family == Family::Php {
                    return Some(self.here_document());
                }
            }
            _ => {}
        }
        Some(false)
    }

    fn percent(&mut self) -> Option<bool> {
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

    fn here_document(&mut self) -> bool {
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

    fn sign(&mut self) {
        let Some(sign) = SIGNS.into_iter().find(|sign| self.looking_at(sign)) else {
            self.at += 1;
            return self.push(Token::Sign("other"));
        };
        self.at += sign.chars().count();
        let dotted = matches!(self.family, Family::Perl | Family::Php);
        let sign = match sign {
            "->" | "::" if dotted => ".",
            "." if dotted => "+",
            ".=" if dotted => "+=",
            "+" | "-" if dotted => "other",
            "::" | "?." | "&." => ".",
            ".." if self.family == Family::Lua => "+",
            ":" if self.family == Family::Lua => ".",
            "<-" if self.family == Family::R => "=",
            other => other,
        };
        match sign {
            "(" | "[" | "{" => {
                let condition = matches!(
                    self.tokens.last().and_then(Token::name),
                    Some(
                        "if" | "while" | "for" | "with" | "foreach" | "unless" | "until" | "elsif"
                    )
                );
                let subscript = sign == "{"
                    && self.family == Family::Perl
                    && matches!(self.tokens.last(), Some(last)
                        if last.is(".") || last.is("}") || last.is("]")
                            || last.name().is_some_and(|name| name.starts_with(['$', '@'])));
                let block = sign == "{" && !subscript;
                self.open.push(condition || block);
                self.push(Token::Sign(sign));
            }
            ")" | "]" | "}" => {
                let condition = self.open.pop().unwrap_or(false);
                self.push(Token::Sign(sign));
                self.closed_condition = condition;
            }
            _ => self.push(Token::Sign(sign)),
        }
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
