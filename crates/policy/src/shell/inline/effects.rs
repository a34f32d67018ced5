//! What a call does: the programs that it starts and the files that it writes, noted.

use super::calls::{Does, Scan, read};
use super::code::{Argument, Value};
use super::lex::{Family, Token};
use crate::shell::field::Field;
use crate::shell::redirect::Input;
use crate::shell::walk::Walker;
use crate::shell::{How, Why};

impl Scan<'_> {
    pub(super) fn call(&mut self, does: Does, path: &str, start: usize, inner: &[Token]) {
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
            Does::Database => {
                let changes = |at: usize| {
                    let token = self.code.tokens.get(at..=at).unwrap_or_default();
                    matches!(token, [Token::Text(_)])
                        && self.code.value(token).text().is_some_and(changes_database)
                };
                if (0..self.code.tokens.len()).any(changes)
                    && let Some(file) = values.first()
                {
                    self.writes(file, How::Change);
                }
            }
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

    pub(super) fn opening(&self, close: usize) -> Option<usize> {
        (0..close).rev().find(|open| {
            !self.code.spend(1)
                && matches!(self.code.token(*open), Some(Token::Sign("(" | "[" | "{")))
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

/// Whether a text of SQL changes something.
pub(super) fn changes_database(text: &str) -> bool {
    let text = text.to_lowercase();
    ["create ", "insert ", "update ", "delete ", "drop ", "alter ", "replace ", "vacuum"]
        .iter()
        .any(|word| text.contains(word))
}

/// Notes a file that code writes.
pub(super) fn note_write(walker: &mut Walker, path: &Value, how: How, by: &str, moves: bool) {
    match path {
        Value::Text(text) if !moves || text.starts_with('/') => {
            let nowhere = ["/dev/stdout", "/dev/stderr", "-", "", ":memory:"];
            if !nowhere.contains(&text.as_str()) {
                walker.wrote(Field::text(text.clone()), how, by);
            }
        }
        Value::List(paths) => {
            for path in paths {
                note_write(walker, path, how, by, moves);
            }
        }
        Value::Text(_) | Value::Unknown | Value::Many => match how {
            How::Change | How::Fill => walker.hide(Why::ComputedPath, by),
            How::Delete | How::DeleteTree => {
                walker.hide(Why::ComputedPath, &format!("{by} deletes files"));
            }
        },
    }
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
