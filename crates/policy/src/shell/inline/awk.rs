//! awk: `system()`, pipes and redirections of `print` and `getline`.

use super::calls::{Does, Language};
use super::code::{Code, Value};
use super::effects::note_write;
use super::lex::{Family, Token};
use crate::shell::walk::Walker;
use crate::shell::{How, Why};

/// awk as far as it is known here: its calls.
pub(super) const AWK: Language = Language {
    family: Family::Awk,
    words: &["system", "|", ">"],
    calls: &[("system", Does::Shell)],
};

/// Reads a program with the variables that are set on the command line.
pub(super) fn look(walker: &mut Walker, text: &str, given: &[(String, String)]) {
    super::calls::read_with(walker, &AWK, text, given);
    let Some(mut code) = Code::read(Family::Awk, text) else { return };
    for (name, value) in given {
        code.define(name, Value::Text(value.clone()));
    }
    let mut printing = false;
    let mut depth = 0_usize;
    for at in 0..code.tokens.len() {
        match code.token(at) {
            Some(Token::Name(name)) if name == "print" || name == "printf" => {
                printing = true;
                depth = 0;
            }
            Some(Token::Sign(";" | "}" | "{") | Token::Line) => printing = false,
            Some(Token::Sign("(" | "[")) => depth += 1,
            Some(Token::Sign(")" | "]")) => depth = depth.saturating_sub(1),
            Some(Token::Sign(">" | ">>")) if printing && depth == 0 => {
                let target = code.value(target(&code, at + 1));
                let by = walker.through.last().cloned().unwrap_or_default();
                note_write(walker, &target, How::Change, &by, false);
            }
            Some(Token::Sign("|" | "|&")) if code.name(at + 1) == Some("getline") => {
                let command = code.value(before(&code, at));
                run(walker, &command);
            }
            Some(Token::Sign("|" | "|&")) => {
                let command = code.value(target(&code, at + 1));
                run(walker, &command);
            }
            // `@name(…)` calls the function that a variable names.
            Some(Token::Sign("@")) if code.is(at + 2, "(") => {
                walker.hide(Why::ComputedName, "@");
            }
            _ => {}
        }
    }
}

fn run(walker: &mut Walker, command: &Value) {
    match command {
        Value::Text(text) => {
            walker.handed_to_shell(&crate::shell::field::Field::text(text.clone()));
        }
        Value::List(_) | Value::Unknown | Value::Many => walker.hide(Why::ComputedText, "awk"),
    }
}

/// What stands behind a redirection.
fn target(code: &Code, from: usize) -> &[Token] {
    let mut end = from;
    let mut depth = 0_usize;
    while let Some(token) = code.token(end) {
        match token.sign() {
            "(" | "[" => depth += 1,
            ")" | "]" if depth == 0 => break,
            ")" | "]" => depth -= 1,
            ";" | "}" | "&&" | "||" | "|" | ">" | ">>" if depth == 0 => break,
            _ if *token == Token::Line && depth == 0 => break,
            _ => {}
        }
        end += 1;
    }
    code.tokens.get(from..end).unwrap_or_default()
}

/// What stands in front of `| getline`.
fn before(code: &Code, end: usize) -> &[Token] {
    let mut start = end;
    while let Some(at) = start.checked_sub(1) {
        match code.token(at) {
            Some(Token::Sign("+") | Token::Text(_)) => start = at,
            Some(Token::Sign(")")) => {
                let open = (0..at).rev().find(|open| code.closing(*open) == Some(at));
                match open {
                    Some(open) => start = open,
                    None => break,
                }
            }
            Some(Token::Name(name))
                if !matches!(name.as_str(), "while" | "if" | "print" | "printf" | "else") =>
            {
                start = at;
            }
            _ => break,
        }
    }
    code.tokens.get(start..end).unwrap_or_default()
}
