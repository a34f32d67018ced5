//! awk: `system()`, pipes and redirections of `print` and `getline`.

use super::code::wrote;
use super::tokens::{Style, Token, tokens};
use crate::shell::field::Field;
use crate::shell::walk::Walker;
use crate::shell::{HiddenReason, WriteKind};

/// Reads a program with the variables that are set on the command line.
pub(super) fn analyse(walker: &mut Walker, text: &str, variables: &[(String, String)]) {
    if !walker.spend(text.len() * 8) {
        return;
    }
    let Some(tokens) = tokens(Style::Awk, text) else {
        return walker.hide(HiddenReason::Unreadable, "awk");
    };
    let by = walker.through.last().cloned().unwrap_or_default();
    let value = |token: Option<&Token>| match token? {
        Token::Text(text) => text.clone().filter(|text| !text.contains('…')),
        Token::Name(name) => {
            variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        }
        Token::Sign(_) => None,
    };
    // Only a single word behind a sign is followed.
    let alone = |at: usize| {
        matches!(tokens.get(at + 1), None | Some(Token::Sign('\n' | ';' | '}' | ')')))
            || tokens.get(at + 1).is_some_and(|next| next.is('|') || next.name() == Some("while"))
    };
    let target = |at: usize| value(tokens.get(at)).filter(|_| alone(at));
    let (mut printing, mut depth) = (false, 0_usize);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let next = tokens.get(at + 1);
        match token {
            Token::Name(name) if name == "print" || name == "printf" => {
                (printing, depth) = (true, 0)
            }
            Token::Name(name) if name == "system" => {
                let command = target(at + 2).filter(|_| next.is_some_and(|next| next.is('(')));
                run(walker, command);
            }
            Token::Name(_) | Token::Text(_) => {}
            Token::Sign('\n' | ';' | '{' | '}') => printing = false,
            Token::Sign('(' | '[') => depth += 1,
            Token::Sign(')' | ']') => depth = depth.saturating_sub(1),
            Token::Sign('>') if printing && depth == 0 => {
                let appends = next.is_some_and(|next| next.is('>'));
                at += usize::from(appends);
                wrote(walker, target(at + 1), WriteKind::Change, &by);
            }
            Token::Sign('|') if next.is_some_and(|next| next.is('|')) => at += 1,
            Token::Sign('|') => {
                let behind = at + 1 + usize::from(next.is_some_and(|next| next.is('&')));
                match tokens.get(behind).and_then(Token::name) {
                    Some("getline") => {
                        let before = at.checked_sub(2).and_then(|before| tokens.get(before));
                        let single =
                            matches!(before, None | Some(Token::Sign('(' | '{' | ';' | '\n')));
                        let command = at.checked_sub(1).and_then(|at| value(tokens.get(at)));
                        run(walker, command.filter(|_| single));
                    }
                    _ => run(walker, target(behind)),
                }
            }
            // `@name(…)` calls the function that a variable names, `@load` loads code.
            Token::Sign('@') => walker.hide(HiddenReason::ComputedName, "@"),
            Token::Sign(_) => {}
        }
        if token.name().is_some_and(|name| name.starts_with('@')) {
            walker.hide(HiddenReason::ComputedName, "@");
        }
        at += 1;
    }
}

fn run(walker: &mut Walker, command: Option<String>) {
    match command {
        Some(text) => walker.handed_to_shell(&Field::text(text)),
        None => walker.hide(HiddenReason::ComputedText, "awk"),
    }
}
