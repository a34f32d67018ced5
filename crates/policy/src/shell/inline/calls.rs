//! Calls that start programs, write files or run text: found in the tokens, and noted.

use super::code::{Code, Value};
use super::lex::{Family, Part, Token};
use super::names::{canonical, is_module};
use crate::shell::walk::Walker;
use crate::shell::{How, Why};

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    /// Hands its first argument to a shell.
    Shell,
    /// Runs its first argument: a text by a shell, a list as a program.
    First,
    /// Runs all of its arguments: one by a shell, several as a program.
    All,
    /// Runs its first argument as a program, with the list behind it.
    Spawn,
    /// Runs a program by its path with a list that begins with its name, behind so many others.
    Vector(usize),
    /// The same with the list as arguments.
    Listed(usize),
    /// Runs its first argument as code of this language.
    Eval,
    /// Opens its first argument; the second says whether for writing.
    Open,
    /// Opens what it is a method of; the first argument says whether for writing.
    OpenSelf,
    /// A list of its options says what is run: `Deno.run({cmd: […]})`.
    Options(&'static str),
    /// Writes the arguments at these places.
    Writes(How, &'static [usize]),
    /// Writes all of its arguments.
    WritesAll(How),
    /// Writes what it is a method of.
    WritesSelf(How),
    /// Writes what this keyword says, or else the argument at this place.
    WritesKey(&'static str, usize),
    /// Writes its first argument if some text of the code changes a database.
    Database,
    /// Moves its first argument to its second.
    Moves,
    /// Moves what it is a method of to its only argument.
    MovesSelf,
    /// Writes its first argument if it is told to do so in place.
    InPlace,
    /// Perl's `open`.
    PerlOpen,
    /// Ruby's `open`: a text that begins with `|` is run.
    RubyOpen,
    /// Reads a file, or runs it if it begins with `|`.
    RubyRead,
    /// Calls the function that its first argument names.
    Named,
    /// Runs this program, whatever its arguments.
    Runs(&'static str),
    /// Runs the program that it is named after.
    RunsItself,
    /// Nothing that matters: shields a name from a broader one.
    Nothing,
    /// What it does cannot be told.
    Hidden(Why),
}

/// A language as far as it is known here.
pub(super) struct Language {
    pub(super) family: Family,
    /// Names of calls: `os.system` exactly, `.unlink` as a method, `*execSync` with or without
    /// something in front. The first that fits counts.
    pub(super) calls: &'static [(&'static str, Does)],
    /// Words at which a code that cannot be read is refused.
    pub(super) words: &'static [&'static str],
}

/// Reads a code and notes what it does.
pub(super) fn read(walker: &mut Walker, language: &Language, text: &str) {
    read_with(walker, language, text, &[]);
}

/// The same with values of variables from outside.
pub(super) fn read_with(
    walker: &mut Walker,
    language: &Language,
    text: &str,
    given: &[(String, String)],
) {
    walker.deeper("code", |walker| {
        let Some(mut code) = Code::read(language.family, text) else {
            if language.words.iter().any(|word| text.contains(word)) {
                walker.hide(Why::Unreadable, text);
            }
            return;
        };
        for (name, value) in given {
            code.define(name, Value::Text(value.clone()));
        }
        let by = walker.through.last().cloned().unwrap_or_default();
        let moves = code.tokens.windows(2).any(|pair| {
            matches!(pair, [Token::Name(name), Token::Sign("(") | Token::Text(_) | Token::Name(_)]
                if matches!(name.as_str(), "chdir" | "setwd" | "fchdir" | "cd"))
        });
        let mut scan = Scan { walker, language, code: &code, by, moves };
        for at in 0..code.tokens.len() {
            scan.token(at);
        }
        if code.spend(0) {
            walker.hide(Why::TooComplex, "code");
        }
        super::imported(walker, text);
    });
}

/// One way through the tokens.
pub(super) struct Scan<'a> {
    pub(super) walker: &'a mut Walker,
    pub(super) language: &'a Language,
    pub(super) code: &'a Code,
    pub(super) by: String,
    /// It changes its directory, so relative paths say little.
    pub(super) moves: bool,
}

impl Scan<'_> {
    fn token(&mut self, at: usize) {
        match self.code.token(at) {
            Some(Token::Command(parts)) => {
                self.holes(parts);
                let value = self.code.joined(parts);
                self.shell(&value);
            }
            Some(Token::Text(parts)) => {
                self.holes(parts);
                if self.language.family == Family::Other {
                    super::generic::beside(self, at);
                }
            }
            Some(Token::Code(text)) => {
                let text = text.clone();
                read(self.walker, self.language, &text);
            }
            Some(Token::Name(_)) => self.name(at),
            Some(Token::Sign(sign)) => self.sign(at, sign),
            Some(Token::Words(_) | Token::Other | Token::Line) | None => {}
        }
    }

    fn holes(&mut self, parts: &[Part]) {
        for part in parts {
            if let Part::Hole(code) = part
                && code.contains(['(', '`', '"', '\''])
            {
                read(self.walker, self.language, code);
            }
        }
    }

    /// `x[y](…)` on something that matters: which function that is cannot be told.
    fn sign(&mut self, at: usize, sign: &str) {
        let family = self.language.family;
        if family == Family::Php && sign == ")" && self.code.is(at + 1, "(") {
            return self.called_expression(at);
        }
        // `&$name(…)`, `&{"name"}(…)`
        let named = self.code.name(at + 1).is_some_and(|name| name.starts_with('$'));
        if family == Family::Perl && sign == "&" && (named || self.code.is(at + 1, "{")) {
            let operand = at.checked_sub(1).and_then(|before| self.code.token(before));
            let operator = operand.is_some_and(|token| {
                token.name().is_some_and(|name| name.starts_with('$')) || token.is(")")
            });
            if !operator {
                self.walker.hide(Why::ComputedName, "&");
            }
        }
        // `"name"->(…)`, `$name->(…)`
        if family == Family::Perl && sign == "." && self.code.is(at + 1, "(") {
            let before = at.checked_sub(1).map(|before| before..at).unwrap_or_default();
            let value = self.code.value(self.code.tokens.get(before).unwrap_or_default());
            if value.text().is_some_and(|name| self.does(name).is_some()) {
                self.walker.hide(Why::ComputedName, "->");
            }
        }
        if family == Family::Python && sign == "[" && self.called_behind(at) {
            let inside = at.checked_sub(1).and_then(|before| self.code.name(before));
            if matches!(inside, Some("__dict__" | "__globals__" | "__builtins__")) {
                self.walker.hide(Why::ComputedName, "__dict__");
            }
        }
        if sign != "[" || !matches!(self.language.family, Family::JavaScript | Family::Lua) {
            return;
        }
        let called = self.code.closing(at).is_some_and(|close| self.code.is(close + 1, "("));
        let Some(before) = at.checked_sub(1) else { return };
        let (path, _) = self.path_to(before);
        let path = canonical(&path, &self.code.aliases);
        let root = path.split('.').next().unwrap_or_default();
        if called && (is_module(root) || matches!(root, "io" | "_G" | "require")) {
            self.walker.hide(Why::ComputedName, &path);
        }
    }

    /// `("sys" . "tem")("git push")`
    fn called_expression(&mut self, close: usize) {
        let Some(open) = self.opening(close) else { return };
        let inner = self.code.tokens.get(open + 1..close).unwrap_or_default();
        let called = open.checked_sub(1).and_then(|before| self.code.token(before));
        if called.is_some_and(|token| token.name().is_some() || token.is(")")) {
            return;
        }
        let closure = inner.iter().any(|token| matches!(token.name(), Some("function" | "fn")));
        if !closure {
            self.walker.hide(Why::ComputedName, "(…)(…)");
        }
    }

    /// The dotted name that ends at a place, and where it begins.
    fn path_to(&self, at: usize) -> (String, usize) {
        let mut path = self.code.name(at).unwrap_or("?").to_owned();
        let mut start = at;
        while start >= 2 && self.code.is(start - 1, ".") {
            if self.code.spend(path.len()) {
                break;
            }
            match self.code.name(start - 2) {
                Some(name) => {
                    path = format!("{name}.{path}");
                    start -= 2;
                }
                None => return (format!("?.{path}"), start),
            }
        }
        (path, start)
    }

    /// What a name that ends at this place does when it is called.
    pub(super) fn does(&self, path: &str) -> Option<Does> {
        let whole = canonical(path, &self.code.aliases);
        let starred = self.code.aliases.get("*").map(|module| format!("{module}.{whole}"));
        let last = whole.rsplit('.').next().unwrap_or(&whole);
        let fits = |pattern: &str| match pattern.strip_prefix('*') {
            Some(name) => name == last,
            None if pattern.starts_with('.') => {
                whole.contains('.') && pattern.get(1..) == Some(last)
            }
            None => pattern == whole || starred.as_deref() == Some(pattern),
        };
        if self.language.family == Family::Python && whole.starts_with("sh.") {
            return Some(Does::RunsItself);
        }
        let found = self.language.calls.iter().find(|(pattern, _)| fits(pattern));
        if let (None, Some((function, "call" | "apply" | "bind"))) = (found, whole.rsplit_once('.'))
        {
            // It is called in a way that moves its arguments.
            return self
                .does(function)
                .filter(|does| starts_programs(*does))
                .map(|_| Does::Hidden(Why::ComputedName));
        }
        found.map(|(_, does)| *does)
    }

    fn name(&mut self, at: usize) {
        let Some(name) = self.code.name(at) else { return };
        let before = at.checked_sub(1).and_then(|before| self.code.name(before));
        if matches!(before, Some("def" | "function" | "sub" | "fn" | "import" | "class" | "func")) {
            return;
        }
        let behind = self.code.token(at + 1);
        if behind.is_some_and(|token| token.is(".") && self.code.name(at + 2).is_some()) {
            return;
        }
        let (path, start) = self.path_to(at);
        if behind.is_some_and(|token| token.is("(")) {
            if self.variable_function(name, at) {
                return;
            }
            let Some(does) = self.does(&path) else {
                return self.computed_member(&path, at);
            };
            let close = self.code.closing(at + 1).unwrap_or(self.code.tokens.len());
            let inner = self.code.tokens.get(at + 2..close).unwrap_or_default();
            return self.call(does, &path, start, inner);
        }
        let Some(does) = self.does(&path) else { return };
        let bare = matches!(self.language.family, Family::Perl | Family::Ruby | Family::Php);
        let operand = match behind {
            Some(Token::Text(_) | Token::Words(_) | Token::Command(_)) => true,
            Some(Token::Name(name)) => !matches!(
                name.as_str(),
                "if" | "unless"
                    | "or"
                    | "and"
                    | "for"
                    | "foreach"
                    | "while"
                    | "do"
                    | "then"
                    | "eq"
                    | "ne"
                    | "x"
                    | "end"
                    | "in"
            ),
            Some(Token::Sign("[")) => !path.contains('.') && self.language.family == Family::Ruby,
            Some(Token::Sign("{")) => does == Does::All && self.language.family == Family::Perl,
            Some(Token::Sign("*" | "\\")) => true,
            _ => false,
        };
        let lua = self.language.family == Family::Lua && matches!(behind, Some(Token::Text(_)));
        if (bare && operand) || lua {
            let end = self.code.statement_end(at + 1);
            let inner = self.code.tokens.get(at + 1..end).unwrap_or_default();
            return self.call(does, &path, start, inner);
        }
        if matches!(does, Does::WritesSelf(_)) && self.language.family == Family::Ruby {
            return self.call(does, &path, start, &[]);
        }
        self.mentioned(does, &path, start, at);
    }

    /// `$f("git push")`: a function whose name is in a variable.
    fn variable_function(&mut self, name: &str, at: usize) -> bool {
        if self.language.family != Family::Php || !name.starts_with('$') {
            return false;
        }
        let member = at.checked_sub(1).is_some_and(|before| self.code.is(before, "."));
        if member {
            return false;
        }
        let name_tokens = self.code.tokens.get(at..=at).unwrap_or_default();
        match self.code.value(name_tokens) {
            Value::Text(function) => {
                if let Some(does) = self.does(&function) {
                    let close = self.code.closing(at + 1).unwrap_or(self.code.tokens.len());
                    let inner = self.code.tokens.get(at + 2..close).unwrap_or_default();
                    self.call(does, &function, at, inner);
                }
            }
            Value::List(_) | Value::Unknown | Value::Many => {
                self.code.spend(self.code.tokens.len());
                let closure = self.code.tokens.windows(3).any(|three| {
                    matches!(three, [Token::Name(this), Token::Sign("="), Token::Name(next)]
                        if this == name && matches!(next.as_str(), "function" | "fn" | "static"))
                });
                if !closure {
                    self.walker.hide(Why::ComputedName, name);
                }
            }
        }
        true
    }

    /// `getattr(os, x)`, `importlib.import_module(x).y`: which function that is cannot be told.
    fn computed_member(&mut self, path: &str, at: usize) {
        let whole = canonical(path, &self.code.aliases);
        let arguments = self.code.arguments(at + 1);
        let computed = match (self.language.family, whole.as_str()) {
            (Family::Python, "getattr" | "vars") => {
                let object = arguments.first().map(|argument| argument.tokens);
                matches!(object, Some([Token::Name(name)])
                    if is_module(&canonical(name, &self.code.aliases)) || name == "__builtins__")
            }
            (Family::Python, "__import__" | "importlib.import_module")
            | (Family::JavaScript, "require" | "import") => {
                let close = self.code.closing(at + 1).unwrap_or_default();
                let local = self.language.family == Family::JavaScript;
                let called = self.code.is(close + 1, ".") && self.called_behind(close + 1);
                !arguments.is_empty() && called && !local
            }
            (Family::Python, "globals" | "locals") => {
                let close = self.code.closing(at + 1).unwrap_or_default();
                self.code.is(close + 1, "[") && self.called_behind(close + 1)
            }
            (Family::Ruby, "const_get" | "Object.const_get") => true,
            _ => false,
        };
        if computed {
            self.walker.hide(Why::ComputedName, path);
        }
    }

    fn called_behind(&self, at: usize) -> bool {
        match self.code.token(at) {
            Some(Token::Sign("[")) => {
                self.code.closing(at).is_some_and(|close| self.code.is(close + 1, "("))
            }
            _ => self.code.is(at + 2, "("),
        }
    }

    /// A function that starts programs is handed on without being called here.
    fn mentioned(&mut self, does: Does, path: &str, start: usize, at: usize) {
        let runs = starts_programs(does);
        let whole = canonical(path, &self.code.aliases);
        let handed =
            matches!(self.language.family, Family::Python | Family::JavaScript | Family::Lua)
                && self.language.calls.iter().any(|(pattern, _)| *pattern == whole);
        let before = start.checked_sub(1).and_then(|before| self.code.token(before));
        let two_before = start.checked_sub(3).and_then(|before| self.code.token(before));
        let argument = two_before.is_some_and(|token| token.is("(") || token.is(","));
        let bound = before.is_some_and(|token| token.is("=")) && !argument && {
            self.code.token(at + 1).is_none_or(|t| *t == Token::Line || t.is(";") || t.is(","))
        };
        let declared = before.is_some_and(|token| {
            token.is("{")
                || token.is("*")
                || token.is(".")
                || matches!(token.name(), Some("import" | "from" | "as" | "const" | "let" | "var"))
        }) || self.in_import(start);
        let set = self.code.is(at + 1, "=") || self.code.is(at + 1, ":");
        if runs && handed && !bound && !declared && !set {
            self.walker.hide(Why::ComputedName, path);
        }
    }

    fn in_import(&self, at: usize) -> bool {
        let line = self.code.tokens.get(..at).unwrap_or_default();
        let line = line.iter().rev().take_while(|token| **token != Token::Line && !token.is(";"));
        line.filter_map(Token::name).any(|name| name == "import" || name == "from")
            || (self.code.family == Family::JavaScript && self.in_braces_before_equals(at))
    }

    fn in_braces_before_equals(&self, at: usize) -> bool {
        let rest = self.code.tokens.get(at..).unwrap_or_default();
        let close = rest.iter().position(|token| token.is("}") || token.is("(") || token.is(";"));
        close.is_some_and(|close| {
            self.code.is(at + close, "}")
                && (self.code.is(at + close + 1, "=")
                    || self.code.name(at + close + 1) == Some("from"))
        })
    }
}

fn starts_programs(does: Does) -> bool {
    matches!(
        does,
        Does::Shell
            | Does::First
            | Does::All
            | Does::Spawn
            | Does::Vector(_)
            | Does::Listed(_)
            | Does::Eval
            | Does::Runs(_)
    )
}
