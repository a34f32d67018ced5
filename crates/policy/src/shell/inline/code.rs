//! A code as tokens, and what its text decides of the values in it.

use std::cell::Cell;
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
    pub(super) constants: HashMap<String, Value>,
    /// Other names of modules and functions.
    pub(super) aliases: HashMap<String, String>,
    /// How many tokens were looked at, over and over.
    work: Cell<usize>,
}

/// A code that takes more looking than this is too complex.
const MOST_WORK: usize = 2_000_000;

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
        let mut code = Self { family, tokens, constants, aliases, work: Cell::new(0) };
        // One constant may be made of others.
        for _ in 0..3 {
            code.constants = super::constants::find(&code);
        }
        code.tokens = super::names::spelled_out(&code);
        code.aliases = super::names::aliases(&code);
        code.constants = super::constants::find(&code);
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

    /// Counts what was looked at; whether it was too much.
    pub(super) fn spend(&self, work: usize) -> bool {
        self.work.set(self.work.get().saturating_add(work));
        self.work.get() > MOST_WORK
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

    /// Where the statement ends that this place is in.
    pub(super) fn statement_end(&self, from: usize) -> usize {
        let mut at = from;
        while let Some(token) = self.token(at) {
            if self.spend(1) {
                return at;
            }
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
        let close = closing(&self.tokens, open);
        self.spend(close.unwrap_or(self.tokens.len()).saturating_sub(open));
        close
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
        if self.spend(tokens.len()) {
            return Value::Unknown;
        }
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
        super::expression::value(self, &tokens)
    }
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
