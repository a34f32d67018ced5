//! Variables that are given one value in the whole code, and nothing else ever.

use std::collections::HashMap;

use super::code::{Code, Value};
use super::lex::{Family, Token};

/// What happens to a variable where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It is read.
    Use,
    /// It is given the value behind it.
    Set,
    /// More is put behind what it holds.
    Grow,
    /// It may be given anything.
    Bind,
}

/// Names that are given a value once, with that value.
pub(super) fn find(code: &Code) -> HashMap<String, Value> {
    let mut found: HashMap<String, Option<Value>> = HashMap::new();
    for (at, token) in code.tokens.iter().enumerate() {
        let Some(name) = token.name() else { continue };
        if code.spend(1) {
            return HashMap::new();
        }
        match place(code, at) {
            Place::Use => {}
            Place::Grow => match found.get_mut(name) {
                Some(Some(Value::List(values))) => values.push(Value::Many),
                Some(_) | None => {
                    found.insert(name.to_owned(), None);
                }
            },
            Place::Bind => {
                found.insert(name.to_owned(), None);
            }
            Place::Set => {
                let end = code.statement_end(at + 2);
                let value = code.value(code.tokens.get(at + 2..end).unwrap_or_default());
                let known = !matches!(value, Value::Unknown | Value::Many);
                let fresh = !found.contains_key(name);
                found.insert(name.to_owned(), (known && fresh).then_some(value));
            }
        }
    }
    found.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn place(code: &Code, at: usize) -> Place {
    let before = at.checked_sub(1).and_then(|before| code.token(before));
    let (sign_before, name_before) =
        (before.map_or("", Token::sign), before.and_then(Token::name).unwrap_or_default());
    let Some(after) = code.token(at + 1) else { return Place::Use };
    let (sign, name) = (after.sign(), after.name().unwrap_or_default());
    if sign_before == "." {
        return Place::Use;
    }
    let binding = matches!(
        name_before,
        "for"
            | "foreach"
            | "as"
            | "lambda"
            | "def"
            | "function"
            | "global"
            | "import"
            | "nonlocal"
            | "unshift"
            | "splice"
            | "shift"
            | "pop"
            | "chomp"
            | "getline"
            | "chop"
            | "undef"
            | "reverse"
    ) || matches!(name, "of" | "in")
        || sign == "=>" && sign_before != "," && sign_before != "{"
        || sign_before == "=>" && sign == ")"
        || (matches!(name_before, "my" | "our" | "const" | "let" | "var" | "local")
            && !matches!(sign, "=" | ";" | ""));
    let bars = code.family == Family::Ruby
        && (sign_before == "|" || sign_before == ",")
        && (sign == "|" || sign == ",");
    if binding || bars || is_listed(code, at) || is_parameter(code, at) {
        return Place::Bind;
    }
    if sign == "." {
        return match code.name(at + 2) {
            Some("append" | "extend" | "push") => Place::Grow,
            Some(method) if changes_its_object(code.family, method) => Place::Bind,
            Some(_) | None => Place::Use,
        };
    }
    match sign {
        "=" if is_keyword(code, at) => Place::Use,
        "=" if sign_before == "," && !is_in_brackets(code, at) => Place::Bind,
        "=" => Place::Set,
        "+=" => Place::Grow,
        "-=" | "*=" | "||=" | "&&=" | "//=" | "++" | "--" | "=~" | "<<" | ":=" => Place::Bind,
        "[" if assigned_behind(code, at + 1) => Place::Bind,
        _ if name_before == "push" => Place::Grow,
        _ => Place::Use,
    }
}

/// Whether `name = value` at this place is an argument of a call.
fn is_keyword(code: &Code, at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| code.token(before));
    if !matches!(code.family, Family::Python | Family::R) {
        return false;
    }
    before.is_some_and(|token| token.is("(") || (token.is(",") && is_in_brackets(code, at)))
}

/// Whether a bracket is open at this place.
fn is_in_brackets(code: &Code, at: usize) -> bool {
    let mut depth = 0_usize;
    for before in (0..at).rev() {
        if code.spend(1) {
            return false;
        }
        match code.token(before).map_or("", Token::sign) {
            ")" | "]" | "}" => depth += 1,
            "(" | "[" | "{" if depth == 0 => return true,
            "(" | "[" | "{" => depth -= 1,
            ";" if depth == 0 => return false,
            _ => {}
        }
    }
    false
}

/// Whether it stands in a list of names that is given values: `(a, b) = …`, `[a] = …`, `(a) => …`.
fn is_listed(code: &Code, at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| code.token(before)).map_or("", Token::sign);
    let start = at == 0 || matches!(before, "(" | "," | "[" | "{" | "" | ";" | "*" | "...");
    let mut at = at;
    let mut several = false;
    while let Some(token) = code.token(at) {
        if code.spend(1) {
            return true;
        }
        match token.sign() {
            "," | ")" | "]" | "}" | "*" => several = true,
            "=" | "=>" => return several && start,
            "{" | ":" => return several && start && !before.is_empty() && before != ";",
            _ if token.name().is_some() => {}
            _ => return false,
        }
        at += 1;
    }
    false
}

/// Whether it is a parameter of a function that is defined here.
fn is_parameter(code: &Code, at: usize) -> bool {
    let mut open = at;
    while let Some(before) = open.checked_sub(1) {
        let Some(token) = code.token(before) else { return false };
        if code.spend(1) {
            return true;
        }
        if token.is("(") {
            let name = |back: usize| before.checked_sub(back).and_then(|at| code.name(at));
            let defines = |name: Option<&str>| {
                matches!(name, Some("gsub" | "split")) && code.family == Family::Awk
                    || matches!(name, Some("function" | "def" | "sub" | "fn" | "func" | "lambda"))
            };
            let arrow = before.checked_sub(1).is_some_and(|at| code.is(at, "->"));
            return defines(name(1)) || defines(name(2)) || arrow;
        }
        let passes = token.name().is_some()
            || matches!(token.sign(), "," | "=" | "*" | "**" | ":" | "&")
            || matches!(token, Token::Text(_) | Token::Other);
        if !passes {
            return false;
        }
        open = before;
    }
    false
}

fn assigned_behind(code: &Code, open: usize) -> bool {
    code.closing(open).is_some_and(|close| ["=", "+="].iter().any(|sign| code.is(close + 1, sign)))
}

fn changes_its_object(family: Family, method: &str) -> bool {
    let everywhere = [
        "insert", "unshift", "prepend", "concat", "pop", "shift", "reverse", "sort", "remove",
        "splice", "clear", "fill",
    ];
    // In Ruby a method changes its object if it ends in a mark that is not among the tokens.
    let ruby = [
        "replace", "sub", "gsub", "tr", "upcase", "downcase", "swapcase", "delete", "squeeze",
        "map", "slice", "succ", "next",
    ];
    everywhere.contains(&method) || (family == Family::Ruby && ruby.contains(&method))
}
