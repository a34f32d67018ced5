//! Calls that start programs, write files or run text: found in the tokens, and noted.

use super::code::{Argument, Code, Value};
use super::lex::{Family, Part, Token};
use super::names::{canonical, is_module};
use crate::shell::field::Field;
use crate::shell::redirect::Input;
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
        super::imported(walker, text);
    });
}

/// One way through the tokens.
pub(super) struct Scan<'a> {
    pub(super) walker: &'a mut Walker,
    pub(super) language: &'a Language,
    pub(super) code: &'a Code,
    by: String,
    /// It changes its directory, so relative paths say little.
    moves: bool,
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
    fn does(&self, path: &str) -> Option<Does> {
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
        let (path, start) = self.path_to(at);
        let behind = self.code.token(at + 1);
        if behind.is_some_and(|token| token.is(".") && self.code.name(at + 2).is_some()) {
            return;
        }
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

    fn call(&mut self, does: Does, path: &str, start: usize, inner: &[Token]) {
        let arguments = self.code.split(inner);
        let python = matches!(self.language.family, Family::Python | Family::R | Family::Php);
        let skips = |argument: &&Argument<'_>| {
            let keyed = argument.key.is_some() && (python || self.language.family == Family::Ruby);
            let object = matches!(argument.tokens.first(), Some(Token::Sign("{")))
                && matches!(self.language.family, Family::JavaScript | Family::Ruby);
            !keyed && !object
        };
        let values: Vec<Value> =
            arguments.iter().filter(skips).map(|one| self.code.value(one.tokens)).collect();
        let key = |name: &str| {
            let found = arguments.iter().find(|one| one.key.as_deref() == Some(name));
            found.map(|one| self.code.value(one.tokens))
        };
        match does {
            Does::Nothing => {}
            Does::Runs(name) => self.program(&[Field::text(name), Field::unknown_many()]),
            Does::RunsItself => {
                let name = path.rsplit('.').next().unwrap_or(path);
                let mut argv = vec![Field::text(name)];
                argv.extend(values.iter().flat_map(Value::fields));
                self.program(&argv);
            }
            Does::Hidden(why) => self.walker.hide(why, path),
            Does::Shell => {
                let value =
                    values.first().cloned().or_else(|| key("cmd")).or_else(|| key("command"));
                if let Some(value) = value {
                    self.shell(&value);
                }
            }
            Does::First => {
                let in_shell = inner.windows(3).any(|three| {
                    matches!(three, [Token::Name(name), Token::Sign("=" | ":"), Token::Name(set)]
                        if name == "shell" && !matches!(set.as_str(), "False" | "false"))
                }) || inner.windows(3).any(|three| {
                    matches!(three, [Token::Name(name), Token::Sign("="), Token::Other] if name == "shell")
                });
                if let Some(program) = key("executable") {
                    self.program(&program.fields());
                }
                match values.first().cloned().or_else(|| key("args")) {
                    Some(Value::List(list)) if in_shell => {
                        if let Some(first) = list.first() {
                            self.shell(first);
                        }
                    }
                    Some(Value::List(list)) => self.program(&Value::List(list).fields()),
                    Some(text @ (Value::Text(_) | Value::Unknown | Value::Many)) => {
                        self.shell(&text);
                    }
                    None => {}
                }
            }
            Does::All => match values.as_slice() {
                [] if arguments.is_empty() => {}
                [] => self.walker.hide(Why::ComputedName, path),
                [Value::List(list)] => self.program(&Value::List(list.clone()).fields()),
                [one] => self.shell(one),
                several => self.program(&Value::List(several.to_vec()).fields()),
            },
            Does::Spawn => self.spawn(&values, inner),
            Does::Vector(skip) => {
                let Some(program) = values.get(skip) else { return };
                let mut argv = program.fields();
                match values.get(skip + 1) {
                    Some(Value::List(list)) => {
                        argv.extend(list.iter().skip(1).flat_map(Value::fields));
                    }
                    Some(Value::Text(_) | Value::Unknown | Value::Many) => {
                        argv.push(Field::unknown_many());
                    }
                    None => {}
                }
                self.program(&argv);
            }
            Does::Listed(skip) => {
                let Some(program) = values.get(skip) else { return };
                let mut argv = program.fields();
                argv.extend(values.iter().skip(skip + 2).flat_map(Value::fields));
                self.program(&argv);
            }
            Does::Eval => match values.first() {
                Some(Value::Text(text)) => {
                    let text = text.clone();
                    read(self.walker, self.language, &text);
                }
                Some(_) => self.walker.hide(Why::ComputedText, path),
                None => {}
            },
            Does::Open | Does::RubyOpen | Does::RubyRead => {
                let file = values.first().cloned().or_else(|| key("file"));
                let Some(file) = file else { return };
                if does != Does::Open
                    && let Some(command) = file.text().and_then(|text| text.strip_prefix('|'))
                {
                    return self.shell(&Value::Text(command.to_owned()));
                }
                let mode = values.get(1).cloned().or_else(|| key("mode"));
                if does != Does::RubyRead && mode.as_ref().is_some_and(may_write) {
                    self.writes(&file, How::Change);
                }
            }
            Does::OpenSelf => {
                let mode = values.first().cloned().or_else(|| key("mode"));
                let sure = mode.as_ref().and_then(Value::text).is_some_and(|text| {
                    text.len() < 5 && text.chars().all(|c| "rwaxbt+".contains(c))
                });
                if sure && mode.as_ref().is_some_and(may_write) {
                    let file = self.receiver(start);
                    self.writes(&file, How::Change);
                }
            }
            Does::Options(name) => {
                let at = inner.windows(2).position(
                    |pair| matches!(pair, [Token::Name(this), Token::Sign(":")] if this == name),
                );
                let list = at.map(|at| one_expression(inner.get(at + 2..).unwrap_or_default()));
                let list = list.map(|rest| self.code.split(rest));
                let value =
                    list.and_then(|list| list.first().map(|one| self.code.value(one.tokens)));
                let mut argv: Vec<Field> = Vec::new();
                if name == "args" {
                    argv.extend(values.first().map(Value::fields).unwrap_or_default());
                }
                match (value, name) {
                    (Some(value), _) => argv.extend(value.fields()),
                    (None, "args") => {}
                    (None, _) => argv.extend(values.first().map(Value::fields).unwrap_or_default()),
                }
                self.program(&argv);
            }
            Does::Writes(how, places) => {
                for place in places {
                    if let Some(file) = values.get(*place) {
                        self.writes(&file.clone(), how);
                    }
                }
            }
            Does::WritesAll(how) => {
                for file in &values {
                    self.writes(file, how);
                }
            }
            Does::WritesSelf(how) => {
                let file = self.receiver(start);
                self.writes(&file, how);
            }
            Does::Moves => {
                if let [from, to, ..] = values.as_slice() {
                    self.writes(from, How::DeleteTree);
                    self.writes(to, How::Change);
                }
            }
            Does::MovesSelf => {
                let file = self.receiver(start);
                if let ([target], true) = (values.as_slice(), arguments.len() == 1)
                    && (file.text().is_some() || target.text().is_some())
                {
                    self.writes(&file, How::DeleteTree);
                    self.writes(target, How::Change);
                }
            }
            Does::InPlace => {
                if key("inplace").is_some() {
                    let file = values.first().cloned().or_else(|| key("files"));
                    self.writes(&file.unwrap_or(Value::Unknown), How::Change);
                }
            }
            Does::WritesKey(name, place) => {
                if let Some(file) = key(name).or_else(|| values.get(place).cloned()) {
                    self.writes(&file, How::Change);
                }
            }
            Does::PerlOpen => super::perl::open(self, &arguments),
            Does::Named => {
                if let Some(does) =
                    values.first().and_then(Value::text).and_then(|name| self.does(name))
                {
                    let rest = inner
                        .iter()
                        .position(|token| token.is(","))
                        .map_or(inner.len(), |at| at + 1);
                    let rest = inner.get(rest..).unwrap_or_default();
                    if rest.is_empty() {
                        self.walker.hide(Why::ComputedName, path);
                    }
                    self.call(does, path, start, rest);
                }
            }
        }
    }

    fn spawn(&mut self, values: &[Value], inner: &[Token]) {
        let Some(first) = values.first() else { return };
        let in_shell = inner.windows(3).any(|three| {
            matches!(three, [Token::Name(name), Token::Sign(":"), set]
                if name == "shell" && set.name() != Some("false"))
        });
        let blank = first.text().is_some_and(|text| text.contains(char::is_whitespace));
        if in_shell || blank {
            self.shell(first);
            return;
        }
        let mut argv = first.fields();
        match values.get(1) {
            Some(Value::List(list)) => argv.extend(Value::List(list.clone()).fields()),
            Some(Value::Text(text)) => argv.push(Field::text(text.clone())),
            Some(Value::Unknown | Value::Many) => argv.push(Field::unknown_many()),
            None => {}
        }
        self.program(&argv);
    }

    /// The value of what stands in front of a method.
    fn receiver(&self, start: usize) -> Value {
        // `name.method` is one dotted name; otherwise an expression ends at the dot.
        let mut from = start;
        if !self.code.is(start.wrapping_sub(1), ".") {
            let mut end = start;
            while self.code.is(end + 1, ".") && self.code.is(end + 3, ".") {
                end += 2;
            }
            return self.code.value(self.code.tokens.get(start..=end).unwrap_or_default());
        }
        let end = start.saturating_sub(1);
        from = from.saturating_sub(1);
        while from > 0 {
            let before = from - 1;
            let opens = match self.code.token(before) {
                Some(Token::Sign(")" | "]")) => self.opening(before),
                Some(Token::Name(_) | Token::Text(_) | Token::Sign(".")) => Some(before),
                _ => None,
            };
            match opens {
                Some(open) => from = open,
                None => break,
            }
        }
        self.code.value(self.code.tokens.get(from..end).unwrap_or_default())
    }

    fn opening(&self, close: usize) -> Option<usize> {
        (0..close).rev().find(|open| {
            matches!(self.code.token(*open), Some(Token::Sign("(" | "[" | "{")))
                && self.code.closing(*open) == Some(close)
        })
    }

    /// A text for a shell.
    pub(super) fn shell(&mut self, text: &Value) {
        let field = text.fields().into_iter().next().unwrap_or_else(Field::unknown);
        match text {
            Value::Text(_) => self.walker.handed_to_shell(&field),
            Value::List(_) | Value::Unknown | Value::Many => {
                self.walker.hide(Why::ComputedText, &self.by.clone());
            }
        }
    }

    /// A program with its arguments.
    pub(super) fn program(&mut self, argv: &[Field]) {
        if argv.is_empty() {
            return;
        }
        self.walker.apart(|walker| walker.started(argv, &Input::Pipe));
    }

    /// A file that is written.
    pub(super) fn writes(&mut self, path: &Value, how: How) {
        note_write(self.walker, path, how, &self.by, self.moves);
    }
}

/// Notes a file that code writes.
pub(super) fn note_write(walker: &mut Walker, path: &Value, how: How, by: &str, moves: bool) {
    match path {
        Value::Text(text) if !moves || text.starts_with('/') => {
            if !matches!(text.as_str(), "/dev/stdout" | "/dev/stderr" | "-" | "") {
                walker.wrote(Field::text(text.clone()), how, by);
            }
        }
        Value::List(paths) => {
            for path in paths {
                note_write(walker, path, how, by, moves);
            }
        }
        Value::Text(_) | Value::Unknown | Value::Many => walker.hide(Why::ComputedPath, by),
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

/// Tokens up to the bracket that closes what they stand in.
fn one_expression(tokens: &[Token]) -> &[Token] {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.sign() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => return tokens.get(..at).unwrap_or_default(),
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
    }
    tokens
}

fn may_write(mode: &Value) -> bool {
    match mode {
        Value::Text(mode) => mode.contains(['w', 'a', 'x', '+', 'c']),
        Value::List(_) | Value::Unknown | Value::Many => true,
    }
}
