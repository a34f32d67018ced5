//! Tcl and expect: commands whose words are split much like a shell's.

use super::code::Value;
use super::effects::note_write;
use crate::shell::field::Field;
use crate::shell::redirect::Input;
use crate::shell::walk::Walker;
use crate::shell::{How, Why};

/// Reads a script and notes what it runs and writes.
pub(super) fn look(walker: &mut Walker, text: &str) {
    walker.deeper("code", |walker| {
        for command in commands(text) {
            one(walker, &command);
        }
    });
}

/// A word; nothing if it is worked out when it runs.
type Word = (Option<String>, String);

fn one(walker: &mut Walker, words: &[Word]) {
    let known = |at: usize| words.get(at).and_then(|(text, _)| text.clone());
    let value = |at: usize| words.get(at).map(|_| known(at).map_or(Value::Unknown, Value::Text));
    let by = walker.through.last().cloned().unwrap_or_default();
    // What is nested in a word is code more often than not.
    for (_, raw) in words.iter().skip(1) {
        if raw.contains('[') || raw.contains('\n') || raw.contains("exec ") || raw.contains(';') {
            let inner = raw.replace(['[', ']'], "\n");
            if inner.len() < text_limit(words) {
                look(walker, &inner);
            }
        }
    }
    let argv = |skip: usize| -> Vec<Field> {
        let rest = words.iter().skip(skip);
        let rest = rest.skip_while(|(text, _)| text.as_ref().is_some_and(|t| t.starts_with('-')));
        rest.map(|(text, _)| text.clone().map_or_else(Field::unknown, Field::text)).collect()
    };
    match known(0).as_deref() {
        Some("exec" | "spawn" | "overlay") => {
            let argv = argv(1);
            let by = by.clone();
            for pair in argv.windows(2) {
                if let [sign, file] = pair
                    && sign.known().is_some_and(|sign| sign.starts_with('>'))
                {
                    walker.wrote(file.clone(), How::Change, &by);
                }
            }
            let bar = |field: &Field| field.known().is_some_and(|text| text == "|" || text == "|&");
            for (at, part) in argv.split(bar).enumerate() {
                let input = if at == 0 { given(part) } else { Input::Pipe };
                let shift = |field: &Field| field.to_string().starts_with("<<");
                let end = part.iter().position(shift).unwrap_or(part.len());
                let part = part.get(..end).unwrap_or_default();
                walker.apart(|walker| walker.started(part, &input));
            }
        }
        Some("system") => {
            let texts: Option<Vec<String>> =
                words.iter().skip(1).map(|(text, _)| text.clone()).collect();
            match texts {
                Some(texts) => walker.handed_to_shell(&Field::text(texts.join(" "))),
                None => walker.hide(Why::ComputedText, &by),
            }
        }
        Some("open") => match known(1) {
            Some(path) => match path.strip_prefix('|') {
                Some(command) => walker.handed_to_shell(&Field::text(command)),
                None => {
                    if known(2).is_some_and(|mode| mode.contains(['w', 'a', '+', 'W'])) {
                        note_write(walker, &Value::Text(path), How::Change, &by, false);
                    }
                }
            },
            None => match words.get(1) {
                Some((_, raw)) if raw.starts_with('|') => walker.hide(Why::ComputedText, &by),
                _ if words.len() > 2 => walker.hide(Why::ComputedPath, &by),
                _ => {}
            },
        },
        Some("file") => match (known(1).as_deref(), words.len()) {
            (Some("delete"), last) => {
                for at in 2..last {
                    if let Some(path) = value(at).filter(|v| v.text() != Some("-force")) {
                        note_write(walker, &path, How::DeleteTree, &by, false);
                    }
                }
            }
            (Some("rename" | "copy" | "mkdir" | "link"), last) => {
                if let Some(path) = value(last - 1) {
                    note_write(walker, &path, How::Change, &by, false);
                }
            }
            _ => {}
        },
        Some("eval" | "uplevel" | "subst") => {
            let texts: Option<Vec<String>> =
                words.iter().skip(1).map(|(text, _)| text.clone()).collect();
            match texts {
                Some(texts) => look(walker, &texts.join(" ")),
                None => walker.hide(Why::ComputedText, &by),
            }
        }
        Some("interact") => walker.hide(Why::Interactive, &by),
        Some(_) => {}
        None => walker.hide(Why::ComputedName, &by),
    }
}

/// `exec program << text`: what a program reads.
fn given(part: &[Field]) -> Input {
    let mut rest = part.iter();
    while let Some(field) = rest.next() {
        match field.known().as_deref().and_then(|text| text.strip_prefix("<<")) {
            Some("") => {
                let text = rest.next().and_then(Field::known);
                return Input::Text(text.map(|text| vec![text]));
            }
            Some(text) => return Input::Text(Some(vec![text.to_owned()])),
            None if field.to_string().starts_with("<<") => return Input::Text(None),
            None => {}
        }
    }
    Input::Pipe
}

fn text_limit(words: &[Word]) -> usize {
    1 + words.iter().map(|(_, raw)| raw.len() + 1).sum::<usize>()
}

/// The commands of a script, each as words.
fn commands(text: &str) -> Vec<Vec<Word>> {
    let (mut all, mut words) = (Vec::new(), Vec::new());
    let mut rest = text.chars().peekable();
    loop {
        while rest.next_if(|c| *c == ' ' || *c == '\t').is_some() {}
        match rest.peek() {
            None => break,
            Some('\n' | ';') => {
                rest.next();
                all.push(std::mem::take(&mut words));
            }
            Some('#') if words.is_empty() => while rest.next_if(|c| *c != '\n').is_some() {},
            Some(_) => words.push(word(&mut rest)),
        }
    }
    all.push(words);
    all.retain(|words| !words.is_empty());
    all
}

fn word(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Word {
    let mut raw = String::new();
    let open = rest.peek().copied();
    let (mut depth, mut quoted, mut bracket) = (0_usize, false, 0_usize);
    while let Some(c) = rest.peek().copied() {
        let blank = c.is_whitespace() || c == ';';
        if blank && depth == 0 && !quoted && bracket == 0 {
            break;
        }
        rest.next();
        match c {
            '\\' => {
                if let Some(next) = rest.next() {
                    raw.push(if next == '\n' { ' ' } else { next });
                }
                continue;
            }
            '{' if !quoted => depth += 1,
            '}' if !quoted => depth = depth.saturating_sub(1),
            '[' if depth == 0 => bracket += 1,
            ']' if depth == 0 => bracket = bracket.saturating_sub(1),
            '"' if depth == 0 && bracket == 0 => {
                quoted = !quoted;
                continue;
            }
            _ => {}
        }
        raw.push(c);
    }
    if open == Some('{') {
        let inner = raw.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        let inner = inner.unwrap_or(&raw).to_owned();
        return (Some(inner.clone()), inner);
    }
    let computed = raw.contains(['$', '[']);
    ((!computed).then(|| raw.clone()), raw)
}
