//! Expressions whose value the text decides: literals, constants, and a few functions of them.

use super::code::{Code, Value, closing};
use super::lex::{Family, Token};

/// What an expression gives.
pub(super) fn value(code: &Code, tokens: &[Token]) -> Value {
    let mut reader = Expression { code, tokens, at: 0 };
    match reader.sum() {
        Some(value) if reader.at == tokens.len() => value,
        _ => Value::Unknown,
    }
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
