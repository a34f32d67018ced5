//! A code as tokens, and what its text decides of the values in it.

use std::collections::HashMap;

use super::lex::{Family, Part, Token, tokens};
use crate::shell::field::Field;

/// What an expression gives, as far as the text decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    List(Vec<Value>),
    Unknown,
    /// Any number of values.
    Many,
}

impl Value {
    /// One argument, or several.
    pub(super) fn fields(&self) -> Vec<Field> {
        match self {
            Self::Text(text) => vec![Field::text(text.clone())],
            Self::List(values) => values.iter().flat_map(Self::fields).collect(),
            Self::Unknown => vec![Field::unknown()],
            Self::Many => vec![Field::unknown_many()],
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::List(_) | Self::Unknown | Self::Many => None,
        }
    }
}

/// A code with its constants and other names for things.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) family: Family,
    pub(super) tokens: Vec<Token>,
    constants: HashMap<String, Value>,
    /// Other names of modules and functions.
    pub(super) aliases: HashMap<String, String>,
}

/// An argument of a call.
pub(super) struct Argument<'a> {
    pub(super) key: Option<String>,
    pub(super) tokens: &'a [Token],
}

impl Code {
    /// Reads a code; nothing if it cannot be told apart into tokens.
    pub(super) fn read(family: Family, text: &str) -> Option<Self> {
        let tokens = tokens(family, text)?;
        let (constants, aliases) = (HashMap::new(), HashMap::new());
        let mut code = Self { family, tokens, constants, aliases };
        // One constant may be made of others.
        for _ in 0..3 {
            code.constants = code.find_constants();
        }
        code.tokens = super::names::spelled_out(&code);
        code.aliases = super::names::aliases(&code);
        code.constants = code.find_constants();
        Some(code)
    }

    /// Gives a name a value from outside of the code.
    pub(super) fn define(&mut self, name: &str, value: Value) {
        let set = self.tokens.windows(2).any(|pair| {
            matches!(pair, [Token::Name(this), Token::Sign("=" | "+=" | "++")] if this == name)
        });
        if !set {
            self.constants.insert(name.to_owned(), value);
        }
    }

    pub(super) fn token(&self, at: usize) -> Option<&Token> {
        self.tokens.get(at)
    }

    pub(super) fn is(&self, at: usize, sign: &str) -> bool {
        self.token(at).is_some_and(|token| token.is(sign))
    }

    pub(super) fn name(&self, at: usize) -> Option<&str> {
        self.token(at).and_then(Token::name)
    }

    /// Names that are given a value once, and nothing else ever.
    fn find_constants(&self) -> HashMap<String, Value> {
        let mut found: HashMap<String, Option<Value>> = HashMap::new();
        for (at, token) in self.tokens.iter().enumerate() {
            let Some(name) = token.name() else { continue };
            let before = at.checked_sub(1).and_then(|before| self.token(before));
            let member = before.is_some_and(|token| token.is("."));
            let (Some(after), false) = (self.token(at + 1), member) else { continue };
            let bound = before.and_then(Token::name).is_some_and(|before| {
                matches!(
                    before,
                    "for" | "foreach" | "as" | "lambda" | "def" | "function" | "global" | "import"
                )
            });
            let listed = before.is_some_and(|token| token.is(",") || token.is("("))
                && (after.is(",") || after.is(")"))
                && self.is_target(at);
            let captured = before.is_some_and(|token| token.is("|"))
                && self.family == Family::Ruby
                && (after.is("|") || after.is(","));
            let changed = ["+=", "-=", "*=", "||=", "&&=", "//=", "++", "--", "=~", "<<", ":="]
                .iter()
                .any(|sign| after.is(sign))
                || (after.is("[") && self.assigned_behind(at + 1))
                || (after.is(".") && self.name(at + 2).is_some_and(changes_its_object));
            if bound || listed || captured || changed {
                let grows = (after.is("+=")
                    || (after.is(".")
                        && matches!(self.name(at + 2), Some("append" | "extend" | "push"))))
                    && !bound;
                match found.get_mut(name) {
                    Some(Some(Value::List(values))) if grows => values.push(Value::Many),
                    _ => {
                        found.insert(name.to_owned(), None);
                    }
                }
            } else if after.is("=") && !self.is_keyword(at) {
                let end = self.statement_end(at + 2);
                let value = self.value(self.tokens.get(at + 2..end).unwrap_or_default());
                let known = !matches!(value, Value::Unknown | Value::Many);
                let value = known.then_some(value);
                let fresh = !found.contains_key(name);
                found.insert(name.to_owned(), value.filter(|_| fresh));
            }
        }
        found.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Whether `name = value` at this place is an argument of a call.
    fn is_keyword(&self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|before| self.token(before));
        let listed = before.is_some_and(|token| token.is("(") || token.is(","));
        listed && matches!(self.family, Family::Python | Family::R)
    }

    /// Whether a list of names that this one stands in is given values.
    fn is_target(&self, at: usize) -> bool {
        let mut at = at;
        loop {
            match self.token(at) {
                Some(token) if token.is(",") || token.is(")") || token.name().is_some() => at += 1,
                Some(token) => {
                    return token.is("=") || token.is("=>") || token.is("{") || token.is(":");
                }
                None => return false,
            }
        }
    }

    fn assigned_behind(&self, open: usize) -> bool {
        self.closing(open)
            .is_some_and(|close| ["=", "+="].iter().any(|sign| self.is(close + 1, sign)))
    }

    /// Where the statement ends that this place is in.
    pub(super) fn statement_end(&self, from: usize) -> usize {
        let mut at = from;
        while let Some(token) = self.token(at) {
            let ends = token.is(";")
                || *token == Token::Line
                || token.is(")")
                || token.is("]")
                || token.is("}")
                || (self.family == Family::JavaScript && token.is(","))
                || token.name().is_some_and(|name| {
                    matches!(name, "if" | "unless" | "or" | "and" | "for" | "while" | "foreach")
                })
                || token.is("||")
                || token.is("&&");
            if ends {
                return at;
            }
            at = match token.sign() {
                "(" | "[" | "{" => match self.closing(at) {
                    Some(close) => close + 1,
                    None => return self.tokens.len(),
                },
                _ => at + 1,
            };
        }
        at
    }

    /// The bracket that closes the one at this place.
    pub(super) fn closing(&self, open: usize) -> Option<usize> {
        closing(&self.tokens, open)
    }

    /// The arguments between two brackets.
    pub(super) fn arguments(&self, open: usize) -> Vec<Argument<'_>> {
        let Some(close) = self.closing(open) else { return Vec::new() };
        self.split(self.tokens.get(open + 1..close).unwrap_or_default())
    }

    /// Tokens apart at commas.
    pub(super) fn split<'a>(&self, tokens: &'a [Token]) -> Vec<Argument<'a>> {
        let (mut depth, mut start, mut all) = (0_usize, 0, Vec::new());
        let mut add = |piece: &'a [Token]| {
            let blank = piece.iter().take_while(|token| **token == Token::Line).count();
            let piece = piece.get(blank..).unwrap_or_default();
            if piece.is_empty() {
                return;
            }
            let key = match piece {
                [Token::Name(name), Token::Sign("=" | ":"), ..] => Some(name.clone()),
                _ => None,
            };
            let skip = if key.is_some() { 2 } else { 0 };
            all.push(Argument { key, tokens: piece.get(skip..).unwrap_or_default() });
        };
        for (at, token) in tokens.iter().enumerate() {
            match token.sign() {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                "," | "=>" if depth == 0 => {
                    add(tokens.get(start..at).unwrap_or_default());
                    start = at + 1;
                }
                _ => {}
            }
        }
        add(tokens.get(start..).unwrap_or_default());
        all
    }

    /// What the parts of a string give together.
    pub(super) fn joined(&self, parts: &[Part]) -> Value {
        let mut whole = String::new();
        for part in parts {
            match part {
                // A hole that the shell fills.
                Part::Text(text) if self.family == Family::Awk && text.contains('…') => {
                    return Value::Unknown;
                }
                Part::Text(text) => whole.push_str(text),
                Part::Hole(name) => match self.constants.get(name.trim()) {
                    Some(Value::Text(text)) => whole.push_str(text),
                    Some(Value::List(_) | Value::Unknown | Value::Many) | None => {
                        return Value::Unknown;
                    }
                },
            }
        }
        Value::Text(whole)
    }

    /// What an expression gives.
    pub(super) fn value(&self, tokens: &[Token]) -> Value {
        let tokens: Vec<Token> =
            tokens.iter().filter(|token| **token != Token::Line).cloned().collect();
        if let Some((Token::Sign("*" | "**" | "..."), rest)) = tokens.split_first() {
            return match self.value(rest) {
                list @ Value::List(_) => list,
                Value::Text(_) | Value::Unknown | Value::Many => Value::Many,
            };
        }
        if let [Token::Name(name)] = tokens.as_slice()
            && name.starts_with('@')
            && !self.constants.contains_key(name)
        {
            return Value::Many;
        }
        let mut reader = Expression { code: self, tokens: &tokens, at: 0 };
        match reader.sum() {
            Some(value) if reader.at == tokens.len() => value,
            _ => Value::Unknown,
        }
    }
}

fn changes_its_object(name: &str) -> bool {
    matches!(
        name,
        "append"
            | "extend"
            | "insert"
            | "push"
            | "unshift"
            | "prepend"
            | "concat"
            | "pop"
            | "shift"
            | "reverse"
            | "sort"
            | "remove"
            | "splice"
            | "gsub"
    )
}

/// The bracket that closes the one at this place.
pub(super) fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.sign() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Reads an expression whose value the text may decide.
struct Expression<'a> {
    code: &'a Code,
    tokens: &'a [Token],
    at: usize,
}

impl Expression<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn sum(&mut self) -> Option<Value> {
        let mut whole = self.operand()?;
        loop {
            let adjacent = matches!(self.peek(), Some(Token::Text(_)))
                && !matches!(self.code.family, Family::JavaScript | Family::Perl | Family::Php);
            let between = match self.peek() {
                Some(Token::Sign("+")) => "",
                Some(Token::Sign("/")) if self.code.family == Family::Python => "/",
                _ if adjacent => "",
                _ => return Some(whole),
            };
            if !adjacent {
                self.at += 1;
            }
            whole = match (whole, self.operand()?) {
                (Value::Text(one), Value::Text(other)) => {
                    Value::Text(format!("{one}{between}{other}"))
                }
                (Value::List(one), Value::List(other)) => Value::List([one, other].concat()),
                (Value::List(one), _) => Value::List([one, vec![Value::Many]].concat()),
                _ => Value::Unknown,
            };
        }
    }

    fn inner(&mut self) -> Option<Vec<Value>> {
        let close = closing(self.tokens, self.at)?;
        let inner = self.tokens.get(self.at + 1..close)?;
        self.at = close + 1;
        let arguments = self.code.split(inner);
        let positional = arguments.iter().filter(|argument| argument.key.is_none());
        Some(positional.map(|argument| self.code.value(argument.tokens)).collect())
    }

    fn operand(&mut self) -> Option<Value> {
        let token = self.peek()?.clone();
        let value = match token {
            Token::Text(parts) => {
                self.at += 1;
                self.code.joined(&parts)
            }
            Token::Words(words) => {
                self.at += 1;
                Value::List(words.into_iter().map(Value::Text).collect())
            }
            Token::Sign("(") => {
                let close = closing(self.tokens, self.at)?;
                let listed = self.tokens.get(close.checked_sub(1)?).is_some_and(|t| t.is(","));
                let mut values = self.inner()?;
                match values.pop() {
                    Some(only) if values.is_empty() && !listed => only,
                    Some(last) => Value::List([values, vec![last]].concat()),
                    None => Value::List(Vec::new()),
                }
            }
            Token::Sign("[") => Value::List(self.inner()?),
            // A table of Lua, or a list of awk.
            Token::Sign("{") if self.code.family == Family::Lua => Value::List(self.inner()?),
            Token::Name(name) if name == "new" || name == "await" => {
                self.at += 1;
                return self.operand();
            }
            Token::Name(_) => self.named()?,
            Token::Command(_) | Token::Code(_) | Token::Other | Token::Sign(_) | Token::Line => {
                return None;
            }
        };
        self.behind(value)
    }

    fn named(&mut self) -> Option<Value> {
        let mut path = self.peek()?.name()?.to_owned();
        self.at += 1;
        while let [Token::Sign("."), Token::Name(more), ..] = self.tokens.get(self.at..)? {
            // A method of a constant is read further down.
            if self.code.constants.contains_key(&path) {
                break;
            }
            path = format!("{path}.{more}");
            self.at += 2;
        }
        if !self.peek().is_some_and(|token| token.is("(")) {
            return Some(match path.as_str() {
                "sys.executable" => Value::Text("python3".to_owned()),
                "process.execPath" | "process.argv0" => Value::Text("node".to_owned()),
                "os.devnull" => Value::Text("/dev/null".to_owned()),
                _ => self.code.constants.get(&path).cloned().unwrap_or(Value::Unknown),
            });
        }
        let values = self.inner()?;
        let last = path.rsplit('.').next().unwrap_or(&path);
        Some(match (path.as_str(), last, values.as_slice()) {
            ("shlex.split" | "Shellwords.split", _, [Value::Text(text)]) => words(text),
            ("str" | "list" | "tuple" | "String" | "os.fspath", _, [one]) => one.clone(),
            ("array" | "c", _, values) => Value::List(values.to_vec()),
            ("os.path.join" | "path.join" | "File.join" | "path.resolve", _, values)
            | (_, "Path" | "PurePath" | "PosixPath" | "Pathname", values) => {
                let texts: Option<Vec<&str>> = values.iter().map(Value::text).collect();
                texts.map_or(Value::Unknown, |texts| Value::Text(texts.join("/")))
            }
            _ => Value::Unknown,
        })
    }

    /// Methods that leave a text or make words of it.
    fn behind(&mut self, value: Value) -> Option<Value> {
        let mut value = value;
        loop {
            match self.tokens.get(self.at..)? {
                [Token::Sign("."), Token::Name(method), Token::Sign("("), ..] => {
                    let method = method.clone();
                    self.at += 2;
                    let arguments = self.inner()?;
                    value = method_of(value, &method, &arguments);
                }
                [Token::Sign("."), Token::Name(method), ..] => {
                    let method = method.clone();
                    self.at += 2;
                    value = method_of(value, &method, &[]);
                }
                [Token::Sign("["), ..] => {
                    self.inner()?;
                    value = Value::Unknown;
                }
                _ => return Some(value),
            }
        }
    }
}

fn words(text: &str) -> Value {
    if text.contains(['\'', '"', '\\']) {
        return Value::Unknown;
    }
    Value::List(text.split_whitespace().map(|word| Value::Text(word.to_owned())).collect())
}

fn method_of(value: Value, method: &str, arguments: &[Value]) -> Value {
    match (&value, method, arguments) {
        (Value::Text(text), "split" | "shellsplit", []) => words(text),
        (Value::Text(text), "split", [Value::Text(at)]) if at == " " => {
            Value::List(text.split(' ').map(|word| Value::Text(word.to_owned())).collect())
        }
        (Value::Text(text), "strip" | "trim" | "chomp", []) => Value::Text(text.trim().to_owned()),
        (Value::Text(_), "encode" | "toString" | "freeze" | "to_s" | "as_posix", _) => value,
        (Value::Text(text), "joinpath" | "join", [Value::Text(more)]) => {
            Value::Text(format!("{text}/{more}"))
        }
        (Value::Text(between), "join", [Value::List(values)])
        | (Value::List(values), "join", [Value::Text(between)]) => {
            let texts: Option<Vec<&str>> = values.iter().map(Value::text).collect();
            texts.map_or(Value::Unknown, |texts| Value::Text(texts.join(between)))
        }
        _ => Value::Unknown,
    }
}
