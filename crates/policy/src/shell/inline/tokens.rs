//! Code of other languages as names, texts and signs: enough to see what it mentions and plainly calls.

/// How a language writes comments, texts and names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Python,
    JavaScript,
    Perl,
    Ruby,
    Awk,
}

/// A piece of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A name with its members: `os.path.join`; behind a bracket it begins with a dot.
    Name(String),
    /// A text; `None` if it is not plain.
    Text(Option<String>),
    /// Anything else. Numbers are all `0`.
    Sign(char),
}

impl Token {
    pub(super) fn is(&self, sign: char) -> bool {
        *self == Self::Sign(sign)
    }

    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Text(_) | Self::Sign(_) => None,
        }
    }
}

/// The maximum nesting of code in texts in code.
const MAX_DEPTH: usize = 4;

/// The tokens of a code; `None` if they cannot be separated.
pub(super) fn tokens(style: Style, text: &str) -> Option<Vec<Token>> {
    let mut reader =
        Reader { style, text: text.chars().collect(), at: 0, tokens: Vec::new(), depth: 0 };
    reader.read()?;
    Some(reader.tokens)
}

struct Reader {
    style: Style,
    text: Vec<char>,
    at: usize,
    tokens: Vec<Token>,
    depth: usize,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn looking_at(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c))
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        Some(c)
    }

    fn skip_line(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.at += 1;
        }
    }

    fn sign(&mut self, c: char) {
        self.tokens.push(Token::Sign(c));
    }

    fn read(&mut self) -> Option<()> {
        while let Some(c) = self.peek(0) {
            match c {
                '\n' => {
                    self.at += 1;
                    self.sign('\n');
                }
                c if c.is_whitespace() => self.at += 1,
                '#' if self.style != Style::JavaScript => self.skip_line(),
                '/' if self.style == Style::JavaScript && self.looking_at("//") => self.skip_line(),
                '/' if self.style == Style::JavaScript && self.looking_at("/*") => {
                    while !self.looking_at("*/") {
                        self.next()?;
                    }
                    self.at += 2;
                }
                '"' | '\'' if c == '"' || self.style != Style::Awk => {
                    self.text_token(false, false)?
                }
                '`' if self.style == Style::JavaScript => self.text_token(false, true)?,
                '`' if matches!(self.style, Style::Perl | Style::Ruby) => {
                    self.tokens.push(Token::Name("`".to_owned()));
                    self.text_token(false, self.style == Style::Ruby)?;
                }
                '/' if self.style != Style::Python && self.begins_pattern() => {
                    self.delimited('/')?
                }
                // Behind a bracket it may divide or begin a pattern: with quotes in that, nothing is sure.
                '/' if self.style == Style::JavaScript && self.may_hide_quotes() => return None,
                '%' if self.style == Style::Ruby && self.is_percent_text() => {
                    self.percent_text()?
                }
                // Documents inside of code are not followed.
                '<' if matches!(self.style, Style::Perl | Style::Ruby) && self.is_document() => {
                    return None;
                }
                c if is_start(c) || (matches!(c, '$' | '@') && self.style != Style::Python) => {
                    self.name()?
                }
                '.' if self.peek(1).is_some_and(is_start) => {
                    self.at += 1;
                    self.member();
                }
                c if c.is_ascii_digit() => {
                    while self.peek(0).is_some_and(|c| c.is_alphanumeric() || c == '_') {
                        self.at += 1;
                    }
                    self.sign('0');
                }
                c => {
                    self.at += 1;
                    self.sign(c);
                }
            }
        }
        Some(())
    }

    /// Whether an operand is expected, so that a slash begins a pattern.
    fn begins_pattern(&self) -> bool {
        match self.tokens.last() {
            None => true,
            Some(Token::Name(name)) => {
                matches!(
                    name.as_str(),
                    "return" | "if" | "unless" | "and" | "or" | "not" | "split" | "while" | "when"
                )
            }
            Some(Token::Sign(c)) => {
                !matches!(c, ')' | ']' | '0' | '}')
                    || (*c == '}' && self.style != Style::JavaScript)
            }
            Some(Token::Text(_)) => false,
        }
    }

    fn may_hide_quotes(&self) -> bool {
        let line = self.text.iter().skip(self.at + 1).take_while(|c| **c != '\n');
        let behind: String = line.take_while(|c| **c != '/').collect();
        behind.contains(['"', '\'', '`'])
            && self.tokens.last().is_some_and(|last| last.is(')') || last.is('}'))
    }

    /// Passes over a pattern and its letters.
    fn delimited(&mut self, open: char) -> Option<()> {
        self.at += 1;
        self.passed(open)?;
        while self.peek(0).is_some_and(char::is_alphabetic) && self.style != Style::Awk {
            self.at += 1;
        }
        self.tokens.push(Token::Text(None));
        Some(())
    }

    /// The text before the closing sign of this one.
    fn passed(&mut self, open: char) -> Option<String> {
        let close = match open {
            '(' => ')',
            '{' => '}',
            '[' => ']',
            '<' => '>',
            other => other,
        };
        let (mut depth, mut class, mut text) = (0_usize, false, String::new());
        loop {
            let c = self.next()?;
            match c {
                '\\' => {
                    text.push(c);
                    text.push(self.next()?);
                    continue;
                }
                c if c == close && depth == 0 && !class => return Some(text),
                c if c == close && close != open => depth -= 1,
                c if c == open && close != open => depth += 1,
                '[' if open == '/' => class = true,
                ']' if open == '/' => class = false,
                _ => {}
            }
            text.push(c);
        }
    }

    fn is_percent_text(&self) -> bool {
        let letter = self.peek(1).is_some_and(|c| "xqQwWiIr".contains(c));
        letter && self.peek(2).is_some_and(|c| "({[<|!/".contains(c))
    }

    /// `%x(git push)`
    fn percent_text(&mut self) -> Option<()> {
        self.at += 1;
        let letter = self.next()?;
        let open = self.next()?;
        let text = self.passed(open)?;
        if letter == 'x' {
            self.tokens.push(Token::Name("`".to_owned()));
        }
        let plain = !text.contains("#{") && !text.contains('\\');
        self.tokens.push(Token::Text(plain.then_some(text)));
        Some(())
    }

    fn is_document(&self) -> bool {
        self.looking_at("<<")
            && self.peek(2).is_some_and(|c| c.is_uppercase() || "'\"~-_".contains(c))
    }

    /// A name and its members, a text with letters in front of it, or one of Perl's many quotes.
    fn name(&mut self) -> Option<()> {
        let mut name = String::new();
        while let Some(c) =
            self.peek(0).filter(|c| matches!(c, '$' | '@') && self.style != Style::Python)
        {
            name.push(c);
            self.at += 1;
        }
        // `$/`, `$@` and their like.
        let special = self.peek(0).filter(|c| "/!,;&\"'.\\|?<>]".contains(*c));
        if let Some(c) = special.filter(|_| self.style == Style::Perl && name == "$") {
            self.at += 1;
            name.push(c);
            self.tokens.push(Token::Name(name));
            return Some(());
        }
        while let Some(c) = self.peek(0).filter(|c| is_part(*c)) {
            name.push(c);
            self.at += 1;
        }
        let quote = self.peek(0).filter(|c| matches!(c, '"' | '\''));
        if self.style == Style::Python && quote.is_some() && name.len() <= 2 {
            let letters = name.to_ascii_lowercase();
            if letters.chars().all(|c| "rbfut".contains(c)) {
                let holes = letters.contains(['f', 't']);
                return self.text_token(letters.contains('r'), holes);
            }
        }
        if self.style == Style::Perl && self.is_quoting(&name) {
            return self.perl_quote(&name);
        }
        self.members(name);
        Some(())
    }

    /// `.name` behind a bracket or a text.
    fn member(&mut self) {
        let mut name = ".".to_owned();
        while let Some(c) = self.peek(0).filter(|c| is_part(*c)) {
            name.push(c);
            self.at += 1;
        }
        self.members(name);
    }

    fn members(&mut self, mut name: String) {
        let arrows: &[&str] = match self.style {
            Style::Python => &["."],
            Style::JavaScript => &[".", "?."],
            Style::Perl => &["->", "::"],
            Style::Ruby => &[".", "::", "&."],
            Style::Awk => &[],
        };
        while let Some(arrow) = arrows
            .iter()
            .find(|arrow| self.looking_at(arrow) && self.peek(arrow.len()).is_some_and(is_start))
        {
            self.at += arrow.len();
            name.push('.');
            while let Some(c) = self.peek(0).filter(|c| is_part(*c)) {
                name.push(c);
                self.at += 1;
            }
        }
        // A sign alone, such as `$` in a pattern of awk.
        if name.chars().all(|c| matches!(c, '$' | '@')) {
            name.chars().for_each(|c| self.tokens.push(Token::Sign(c)));
        } else {
            self.tokens.push(Token::Name(name));
        }
    }

    fn is_quoting(&self, name: &str) -> bool {
        let word = matches!(name, "s" | "m" | "q" | "qq" | "qw" | "qr" | "qx" | "tr" | "y");
        let key = self.tokens.last().is_some_and(|before| before.is('{') || before.is('-'));
        let delimiter =
            |c: char| !c.is_alphanumeric() && !c.is_whitespace() && !",;)=_".contains(c);
        word && self.peek(0).is_some_and(delimiter) && !(key && self.peek(0) == Some('}'))
    }

    /// `s{a}{b}e`, `qx(git push)`.
    fn perl_quote(&mut self, name: &str) -> Option<()> {
        let open = self.next()?;
        let text = self.passed(open)?;
        let mut second = None;
        if matches!(name, "s" | "tr" | "y") {
            let mut inner = open;
            if "({[<".contains(open) {
                while self.peek(0).is_some_and(char::is_whitespace) {
                    self.at += 1;
                }
                inner = self.next()?;
            }
            second = Some(self.passed(inner)?);
        }
        let mut letters = String::new();
        while let Some(c) = self.peek(0).filter(|c| c.is_ascii_alphabetic()) {
            letters.push(c);
            self.at += 1;
        }
        match name {
            "s" if letters.contains('e') => {
                // The replacement is code.
                let code = second.unwrap_or_default();
                if letters.contains("ee") {
                    self.tokens.push(Token::Name("eval".to_owned()));
                }
                self.inner(&code)?;
            }
            "qx" => {
                self.tokens.push(Token::Name("`".to_owned()));
                let plain = !text.contains(['$', '@', '\\']);
                self.tokens.push(Token::Text(plain.then_some(text)));
                return Some(());
            }
            // A pattern may contain code in braces.
            "s" | "m" | "qr" if text.contains("(?{") || text.contains("(??{") => return None,
            _ => {}
        }
        self.tokens.push(Token::Text(matches!(name, "q").then_some(text)));
        Some(())
    }

    /// Code inside of a text.
    fn inner(&mut self, text: &str) -> Option<()> {
        if self.depth >= MAX_DEPTH {
            return None;
        }
        let mut reader = Reader {
            style: self.style,
            text: text.chars().collect(),
            at: 0,
            tokens: Vec::new(),
            depth: self.depth + 1,
        };
        reader.read()?;
        self.sign('(');
        self.tokens.append(&mut reader.tokens);
        self.sign(')');
        Some(())
    }

    /// A text, with what is code inside of it behind it.
    fn text_token(&mut self, raw: bool, holes: bool) -> Option<()> {
        let quote = self.next()?;
        let triple = self.style == Style::Python
            && self.peek(0) == Some(quote)
            && self.peek(1) == Some(quote);
        if triple {
            self.at += 2;
        }
        let mut text = Some(String::new());
        let mut codes = Vec::new();
        let start = match self.style {
            Style::Python if holes => "{",
            Style::JavaScript if quote == '`' => "${",
            Style::Ruby if quote != '\'' => "#{",
            Style::Perl if quote != '\'' => "@{",
            Style::Python | Style::JavaScript | Style::Ruby | Style::Perl | Style::Awk => "",
        };
        loop {
            if !start.is_empty() && self.looking_at(start) {
                if self.style == Style::Python && self.peek(1) == Some('{') {
                    self.at += 2;
                    text = None;
                    continue;
                }
                self.at += start.len();
                codes.push(self.passed('{')?);
                text = None;
                continue;
            }
            let c = self.next()?;
            if c == quote
                && (!triple || (self.peek(0) == Some(quote) && self.peek(1) == Some(quote)))
            {
                self.at += if triple { 2 } else { 0 };
                break;
            }
            if c == '\n'
                && !triple
                && quote != '`'
                && matches!(self.style, Style::Python | Style::Awk)
            {
                return None;
            }
            let variable = matches!(c, '$' | '@')
                && self.style == Style::Perl
                && quote != '\''
                && self.peek(0).is_some_and(|c| is_start(c) || "{$&1234567890".contains(c));
            if variable {
                text = None;
            }
            let c = match c {
                '\\' if raw => {
                    let next = self.next()?;
                    text.iter_mut().for_each(|text| text.push('\\'));
                    next
                }
                '\\' => match (self.next()?, quote) {
                    (c @ ('\\' | '\'' | '"' | '`' | '/' | '$' | '@'), _) => c,
                    ('n', q)
                        if q != '\''
                            || self.style == Style::Python
                            || self.style == Style::JavaScript =>
                    {
                        '\n'
                    }
                    ('t', q)
                        if q != '\''
                            || self.style == Style::Python
                            || self.style == Style::JavaScript =>
                    {
                        '\t'
                    }
                    // Other escapes may spell anything.
                    (_, _) => {
                        text = None;
                        continue;
                    }
                },
                c => c,
            };
            text.iter_mut().for_each(|text| text.push(c));
        }
        self.tokens.push(Token::Text(text));
        codes.iter().try_for_each(|code| self.inner(code))
    }
}

fn is_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
#[cfg(test)]
mod tests;
