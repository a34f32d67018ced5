//! The literal values in code: texts, lists of them, names with one text.

use std::collections::{HashMap, HashSet};

use super::languages::Language;
use super::tokens::Token;

/// Longer expressions than this are no plain values.
const MAX_TOKENS: usize = 64;

/// An argument: its key, and its place.
pub(super) type Argument<'a> = (Option<&'a str>, usize, usize);

pub(super) struct Scan<'a> {
    pub(super) language: &'static Language,
    pub(super) tokens: Vec<Token>,
    /// The bracket that closes the one at each place.
    pub(super) closing: Vec<Option<usize>>,
    /// The bracket that opens what the one at each place closes.
    pub(super) opening: Vec<Option<usize>>,
    /// Names that are given one text, and no other anywhere.
    pub(super) constants: HashMap<String, Option<String>>,
    pub(super) text: &'a str,
}

/// For each bracket the one that closes it, and the one that opens it.
pub(super) fn brackets(tokens: &[Token]) -> (Vec<Option<usize>>, Vec<Option<usize>>) {
    let (mut closing, mut opening) = (vec![None; tokens.len()], vec![None; tokens.len()]);
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign('(' | '[' | '{') => open.push(at),
            Token::Sign(')' | ']' | '}') => {
                let start: Option<usize> = open.pop();
                if let Some(place) = start.and_then(|start| closing.get_mut(start)) {
                    *place = Some(at);
                }
                if let Some(place) = opening.get_mut(at) {
                    *place = start;
                }
            }
            Token::Name(_) | Token::Text(_) | Token::Sign(_) => {}
        }
    }
    (closing, opening)
}

impl Scan<'_> {
    pub(super) fn token(&self, at: usize) -> Option<&Token> {
        self.tokens.get(at)
    }

    pub(super) fn is(&self, at: usize, sign: char) -> bool {
        self.token(at).is_some_and(|token| token.is(sign))
    }

    /// Names with the text that they are given, if it is one.
    pub(super) fn constants(&self) -> HashMap<String, Option<String>> {
        let parameters = self.parameters();
        let mut constants: HashMap<String, Option<String>> = HashMap::new();
        for (at, token) in self.tokens.iter().enumerate() {
            let Some(name) = token.name() else { continue };
            let assigned = self.is(at + 1, '=')
                && !matches!(self.token(at + 2), Some(Token::Sign('=' | '~' | '>')));
            if self.is_bound(at) || parameters.contains(name) {
                constants.insert(name.to_owned(), None);
            } else if assigned {
                let end = self.end_of(at + 2);
                let value = self.value(at + 2, end, false);
                constants.entry(name.to_owned()).and_modify(|known| *known = None).or_insert(value);
            }
        }
        constants
    }

    /// Whether a name is given something here in another way than by `name = …`.
    fn is_bound(&self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|before| self.token(before));
        let word = before.and_then(Token::name);
        let bound = word.is_some_and(|word| {
            matches!(
                word,
                "for"
                    | "as"
                    | "foreach"
                    | "each"
                    | "def"
                    | "lambda"
                    | "function"
                    | "del"
                    | "global"
            )
        });
        // `for a, b in`, `a, b = …`, `($a) = …`, `|a|`, `(a := …)`, `a += …`
        let listed =
            matches!(before, None | Some(Token::Sign('\n' | ';' | ':'))) && self.is(at + 1, ',');
        let iterated = self
            .token(at + 1)
            .and_then(Token::name)
            .is_some_and(|word| matches!(word, "in" | "of"));
        let bars = before.is_some_and(|before| before.is('|')) || self.is(at + 1, '|');
        let changed = matches!(
            (self.token(at + 1), self.token(at + 2)),
            (
                Some(Token::Sign('+' | '-' | '*' | '/' | '.' | '|' | '%' | ':' | ')')),
                Some(Token::Sign('='))
            )
        );
        bound || listed || iterated || bars || changed
    }

    /// The names in the brackets of a definition.
    fn parameters(&self) -> HashSet<&str> {
        let mut names = HashSet::new();
        for (open, close) in self.closing.iter().enumerate() {
            let defines = |back: usize| {
                let word =
                    open.checked_sub(back).and_then(|at| self.token(at)).and_then(Token::name);
                word.is_some_and(|word| matches!(word, "def" | "function" | "sub"))
            };
            if let Some(close) = close.filter(|_| defines(1) || defines(2)) {
                let inside = self.tokens.get(open..close).unwrap_or_default();
                names.extend(inside.iter().filter_map(Token::name));
            }
        }
        names
    }

    /// The end of an expression: where a line, an argument or a bracket ends.
    pub(super) fn end_of(&self, from: usize) -> usize {
        let mut at = from;
        while let Some(token) = self.token(at) {
            match token {
                Token::Sign('\n' | ';' | ',' | ')' | ']' | '}') => break,
                Token::Sign('(' | '[' | '{') => match self.closing.get(at).copied().flatten() {
                    Some(close) => at = close + 1,
                    None => return self.tokens.len(),
                },
                Token::Name(_) | Token::Text(_) | Token::Sign(_) => at += 1,
            }
        }
        at
    }

    /// The text of an expression, if it is a literal: adjacent texts, a path, or, if names count, a name with one
    /// text.
    pub(super) fn value(&self, from: usize, to: usize, names: bool) -> Option<String> {
        // Literal values are short, so reading them takes no time.
        if to.saturating_sub(from) > MAX_TOKENS {
            return None;
        }
        let mut whole = String::new();
        let (mut at, mut joins, mut empty) = (from, "", true);
        while at < to {
            let part = match self.token(at)? {
                Token::Text(text) => {
                    at += 1;
                    text.clone()?
                }
                Token::Name(name) if self.is(at + 1, '(') => {
                    let close = self.closing.get(at + 1).copied().flatten()?;
                    let arguments = self.arguments(at + 1);
                    let parts = arguments.iter().map(|(_, from, to)| self.value(*from, *to, names));
                    let parts = parts.collect::<Option<Vec<String>>>()?;
                    at = close + 1;
                    match name.as_str() {
                        "os.path.join" | "path.join" | "File.join" | "Path" | "pathlib.Path" => {
                            parts.join("/")
                        }
                        "str" | "os.fspath" | "String" => parts.concat(),
                        _ => return None,
                    }
                }
                Token::Name(name) => {
                    at += 1;
                    self.constants.get(name).filter(|_| names).cloned().flatten()?
                }
                Token::Sign('(') => {
                    let close = self.closing.get(at).copied().flatten()?;
                    let inner = self.value(at + 1, close, names)?;
                    at = close + 1;
                    inner
                }
                Token::Sign(_) => return None,
            };
            if !empty {
                whole.push_str(joins);
            }
            whole.push_str(&part);
            empty = false;
            joins = match self.token(at) {
                Some(Token::Sign('/')) if at < to => "/",
                Some(Token::Sign('+')) if at < to => "",
                Some(Token::Text(_)) if at < to => {
                    joins = "";
                    continue;
                }
                _ if at >= to => break,
                _ => return None,
            };
            at += 1;
        }
        (!empty).then_some(whole)
    }

    /// The arguments of a call: their keys and places.
    pub(super) fn arguments(&self, open: usize) -> Vec<Argument<'_>> {
        let Some(close) = self.closing.get(open).copied().flatten() else { return Vec::new() };
        self.listed(open + 1, close)
    }

    pub(super) fn listed(&self, from: usize, to: usize) -> Vec<Argument<'_>> {
        let mut all = Vec::new();
        let mut at = from;
        while at < to {
            while at < to && self.is(at, '\n') {
                at += 1;
            }
            let mut end = self.end_of(at);
            // An argument may go over several lines.
            while end < to && self.is(end, '\n') {
                end = self.end_of(end + 1);
            }
            let end = end.min(to);
            let key = self
                .token(at)
                .and_then(Token::name)
                .filter(|_| self.is(at + 1, '=') && !self.is(at + 2, '='));
            let from = if key.is_some() { at + 2 } else { at };
            let trimmed =
                (from..end).rev().find(|at| !self.is(*at, '\n')).map_or(from, |last| last + 1);
            if trimmed > from {
                all.push((key, from, trimmed));
            }
            at = end + 1;
        }
        all
    }
}
