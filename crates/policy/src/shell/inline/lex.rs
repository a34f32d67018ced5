//! Tokens of the languages that look alike: names, strings, comments, signs.
//!
//! It must not lose its place: what looks like a string and is code would hide what it runs. Where
//! it does lose it, there are no tokens at all.

use super::quotes::Quoted;

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

    /// The sign that it is; nothing at all for everything else.
    pub(super) fn sign(&self) -> &'static str {
        if let Self::Sign(sign) = self { sign } else { "" }
    }

    pub(super) fn name(&self) -> Option<&str> {
        if let Self::Name(name) = self { Some(name) } else { None }
    }
}

/// Signs, the longest first.
const SIGNS: [&str; 58] = [
    "===", "!==", "**=", "<=>", "...", "<<=", ">>=", "||=", "&&=", "//=", "->", "=>", "==", "!=",
    "<=", ">=", "=~", "!~", "+=", "-=", "*=", "/=", ".=", "..", "||", "&&", "++", "--", "::", "?.",
    "<<", ">>", ":=", "|&", "&.", "<-", "**", "(", ")", "[", "]", "{", "}", ",", ";", ":", ".",
    "=", "+", "-", "*", "/", "<", ">", "|", "&", "@", "!",
];

/// Words behind which an operand begins, so that `/` begins a pattern.
const BEFORE_OPERANDS: [&str; 23] = [
    "return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do",
    "await", "yield", "if", "unless", "and", "or", "not", "when", "while", "until", "then", "puts",
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
    pub(super) tokens: Vec<Token>,
    /// Here documents that begin at the next line: where their text belongs.
    pub(super) documents: Vec<Document>,
    /// For each open bracket whether an operand ends with it.
    open: Vec<bool>,
    closed_condition: bool,
    pub(super) spaced: bool,
}

pub(super) struct Document {
    pub(super) index: usize,
    pub(super) tag: String,
    pub(super) quoted: Quoted,
}

impl Lexer {
    pub(super) fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    pub(super) fn looking_at(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(index, c)| self.peek(index) == Some(c))
    }

    pub(super) fn push(&mut self, token: Token) {
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

    pub(super) fn skip_line(&mut self) {
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
                let shell = matches!(token, Token::Command(_));
                *token = if shell { Token::Command(parts) } else { Token::Text(parts) };
            }
        }
        if self.family != Family::Perl && self.family != Family::Php {
            self.push(Token::Line);
        }
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

    pub(super) fn skip_to(&mut self, end: &str) -> Option<()> {
        while self.at < self.text.len() {
            if self.looking_at(end) {
                self.at += end.chars().count();
                return Some(());
            }
            self.at += 1;
        }
        None
    }

    fn number(&mut self) {
        while self.peek(0).is_some_and(|c| c.is_alphanumeric() || c == '_') {
            self.at += 1;
        }
        self.push(Token::Other);
    }

    pub(super) fn plain_name(&mut self) -> String {
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
        let quote = next.is_some_and(|c| c == '"' || c == '\'');
        let prefix = name.len() <= 2 && name.chars().all(|c| "rRbBfFuU".contains(c));
        if self.family == Family::Python && quote && prefix {
            return self.python_string(&name);
        }
        if self.family == Family::R && matches!(name.as_str(), "r" | "R") && quote {
            return None;
        }
        let perl = self.family == Family::Perl && !member;
        let ends = (perl && matches!(name.as_str(), "__END__" | "__DATA__"))
            || (self.family == Family::Ruby && name == "__END__");
        if ends {
            self.at = self.text.len();
            return Some(());
        }
        if perl && self.perl_quote(&name)? {
            return Some(());
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

    /// `$name`, `@name`; `$` alone is a name in JavaScript.
    fn sigil(&mut self, c: char) -> bool {
        let next = self.peek(1);
        let word = next.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let (perl, ruby) = (self.family == Family::Perl, self.family == Family::Ruby);
        if word && (perl || self.family == Family::Php) {
            self.at += 1;
            let mut name = self.plain_name();
            while perl && self.looking_at("::") {
                self.at += 2;
                name = format!("{name}.{}", self.plain_name());
            }
            self.push(Token::Name(format!("{c}{name}")));
        } else if perl && c == '$' && next == Some('{') {
            // `${name}` and `${ … }` alike: what is in it is read as code.
            self.at += 1;
            self.push(Token::Name("$".to_owned()));
        } else if perl && c == '$' && next == Some('#') {
            self.at += 2;
            self.push(Token::Name("$#".to_owned()));
        } else if perl && c == '$' {
            let special = next.is_some_and(|c| "&`'+!@/\\,;.-_^<>()[]0\"$".contains(c));
            self.at += if special { 2 } else { 1 };
            self.push(Token::Name(format!("${}", next.unwrap_or(' '))));
        } else if self.family == Family::JavaScript && c == '$' {
            let name = self.plain_name();
            self.push(Token::Name(name));
        } else if ruby && word {
            self.at += 1;
            let name = self.plain_name();
            self.push(Token::Name(format!("{c}{name}")));
        } else if ruby && c == '$' {
            self.at += 2;
            self.push(Token::Other);
        } else {
            return false;
        }
        true
    }

    /// Whether an operand stands before: then `/` divides.
    pub(super) fn behind_operand(&self) -> bool {
        match self.tokens.iter().rev().find(|token| **token != Token::Line) {
            Some(Token::Name(name)) if self.family == Family::Perl => name.starts_with(['$', '@']),
            Some(Token::Name(name)) => !BEFORE_OPERANDS.contains(&name.as_str()),
            Some(Token::Sign(sign)) => matches!(*sign, ")" | "]" | "}") && !self.closed_condition,
            Some(Token::Text(_) | Token::Command(_) | Token::Words(_) | Token::Other) => true,
            Some(Token::Code(_) | Token::Line) => true,
            None => false,
        }
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
