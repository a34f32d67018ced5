//! The effects of code in another language, in simple cases: known calls with literal texts. Anything else that
//! could run or write something is hidden.

use std::collections::HashMap;

use super::languages::{Language, NameEffect};
use super::tokens::{Style, Token, tokens};
use super::tools::changes_database;
use super::values::{Argument, Scan, brackets};
use crate::shell::field::Field;
use crate::shell::redirect::Input;
use crate::shell::walk::Walker;
use crate::shell::{HiddenReason, WriteKind};

/// Longer codes than this are not read.
const MAX_LENGTH: usize = 64 * 1024;
const MAX_TOKENS: usize = 20_000;

/// Reads a code and notes what it runs and writes.
pub(super) fn analyse(walker: &mut Walker, language: &'static Language, text: &str) {
    // Every name is compared with a table.
    if text.len() > MAX_LENGTH || !walker.spend(text.len() * 8) {
        return walker.hide(HiddenReason::TooComplex, "code");
    }
    let Some(tokens) = tokens(language.style, text) else {
        return walker.hide(HiddenReason::Unreadable, language.name);
    };
    if tokens.len() > MAX_TOKENS {
        return walker.hide(HiddenReason::TooComplex, "code");
    }
    let (closing, opening) = brackets(&tokens);
    let scan = Scan { language, closing, opening, constants: HashMap::new(), tokens, text };
    let constants = scan.constants();
    Scan { constants, ..scan }.all(walker);
    super::imported(walker, text);
}

impl Scan<'_> {
    fn all(&self, walker: &mut Walker) {
        let mut runs = 0;
        let mut known: HashMap<&str, Option<NameEffect>> = HashMap::new();
        for (at, token) in self.tokens.iter().enumerate() {
            let Some(name) = token.name() else {
                self.sign(walker, at);
                continue;
            };
            // A key, or the name of a hash's member, is only a word.
            let key = (self.is(at + 1, '=') && self.is(at + 2, '>')) || self.is_member_key(at);
            if key {
                continue;
            }
            // Most names are repeated.
            let known = known.entry(name).or_insert_with(|| self.language.does(name, self.text));
            match *known {
                None | Some(NameEffect::Nothing) => {}
                Some(does) => {
                    runs += usize::from(does == NameEffect::Runs);
                    self.one(walker, name, at, does);
                }
            }
        }
        // Code that imports what starts programs and plainly starts none, does so in another way.
        let module = |token: &Token| match token {
            Token::Text(Some(text)) => {
                matches!(text.as_str(), "child_process" | "node:child_process")
            }
            Token::Name(_) | Token::Text(None) | Token::Sign(_) => false,
        };
        if self.language.style == Style::JavaScript && runs == 0 && self.tokens.iter().any(module) {
            walker.hide(HiddenReason::ComputedName, "child_process");
        }
    }

    /// Signs that call what a text or a variable names.
    fn sign(&self, walker: &mut Walker, at: usize) {
        let next = |ahead: usize, sign: char| self.is(at + ahead, sign);
        let variable =
            self.token(at + 1).and_then(Token::name).is_some_and(|name| name.starts_with('$'));
        let calls = match self.language.style {
            Style::Perl => {
                (next(0, '&') && (variable || next(1, '{') || next(1, '$')))
                    || (next(0, '-') && next(1, '>') && next(2, '('))
            }
            // A text behind it is a command.
            Style::JavaScript => next(0, '$') && matches!(self.token(at + 1), Some(Token::Text(_))),
            Style::Python | Style::Ruby | Style::Awk => false,
        };
        if calls {
            walker.hide(HiddenReason::ComputedName, self.language.name);
        }
    }

    /// `$h{system}`
    fn is_member_key(&self, at: usize) -> bool {
        let before = at.checked_sub(1).is_some_and(|before| self.is(before, '{'));
        let owner = at.checked_sub(2).and_then(|owner| self.token(owner)).and_then(Token::name);
        before && self.is(at + 1, '}') && owner.is_some_and(|name| name.starts_with(['$', '@']))
    }

    /// The arguments of a call with or without brackets.
    fn given(&self, at: usize) -> Option<Vec<Argument<'_>>> {
        if self.is(at + 1, '(') {
            return Some(self.arguments(at + 1));
        }
        let bare = self.language.calls_without_brackets;
        let starts = matches!(self.token(at + 1), Some(Token::Text(_) | Token::Name(_)));
        if !bare || !starts {
            return None;
        }
        let ends = |token: &Token| {
            matches!(token, Token::Sign('\n' | ';' | '}' | '|'))
                || token
                    .name()
                    .is_some_and(|name| matches!(name, "or" | "and" | "if" | "unless" | "do"))
        };
        let length = self.tokens.iter().skip(at + 1).position(ends);
        let end = length.map_or(self.tokens.len(), |length| at + 1 + length);
        Some(self.listed(at + 1, end))
    }

    fn one(&self, walker: &mut Walker, name: &str, at: usize, does: NameEffect) {
        // An import alone does nothing.
        let before = at.checked_sub(1).and_then(|before| self.token(before)).and_then(Token::name);
        if does == NameEffect::Module {
            let imported =
                matches!(before, Some("import")) || (before.is_none() && self.is_listed_import(at));
            let renamed = self.token(at + 1).and_then(Token::name) == Some("as");
            if !imported || renamed {
                walker.hide(HiddenReason::ComputedName, name);
            }
            return;
        }
        let block = self.is(at + 1, '{') && self.language.style == Style::Perl;
        if does == NameEffect::Hidden && block {
            return;
        }
        if does == NameEffect::Hidden {
            return walker.hide(HiddenReason::ComputedText, name);
        }
        if name == "`" {
            return match self.token(at + 1) {
                Some(Token::Text(Some(text))) => {
                    walker.handed_to_shell(&Field::text(text.as_str()))
                }
                _ => walker.hide(HiddenReason::ComputedText, self.language.name),
            };
        }
        let Some(arguments) = self.given(at) else {
            return self.mentioned(walker, name, at);
        };
        // A program must be a literal, a path may be a name.
        let names = does != NameEffect::Runs;
        let text = |(_, from, to): &Argument<'_>| self.value(*from, *to, names);
        let texts: Vec<Option<String>> = arguments.iter().map(text).collect();
        let by = walker.through.last().cloned().unwrap_or_default();
        let path = |place: usize| texts.get(place).cloned().flatten();
        match does {
            NameEffect::Runs => self.runs(walker, &arguments, &texts),
            NameEffect::Writes(kind, places) => {
                for place in places {
                    // Without an argument it gives its text back.
                    if arguments.len() > *place || arguments.is_empty() == places.is_empty() {
                        wrote(walker, path(*place), kind, &by);
                    }
                }
            }
            NameEffect::Moves => {
                wrote(walker, path(0), WriteKind::DeleteTree, &by);
                wrote(walker, path(1), WriteKind::Change, &by);
            }
            NameEffect::Open(first) => {
                let keyed = arguments.iter().position(|(key, ..)| *key == Some("mode"));
                let plain =
                    arguments.get(first + 1).filter(|(key, ..)| key.is_none()).map(|_| first + 1);
                if writes_by_mode(keyed.or(plain).map(path)) {
                    wrote(walker, path(first), WriteKind::Change, &by);
                }
            }
            NameEffect::PerlOpen => self.perl_open(walker, &texts, &by),
            NameEffect::Own(kind) => wrote(walker, self.owner(name, at), kind, &by),
            NameEffect::OwnOpen => {
                if writes_by_mode(texts.first().cloned()) {
                    wrote(walker, self.owner(name, at), WriteKind::Change, &by);
                }
            }
            NameEffect::Database => {
                if changes_database(self.text) {
                    wrote(walker, path(0), WriteKind::Change, &by);
                }
            }
            NameEffect::Nothing | NameEffect::Module | NameEffect::Hidden => {}
        }
    }

    /// `import json, os`
    fn is_listed_import(&self, at: usize) -> bool {
        let mut back = at;
        while let Some(before) = back.checked_sub(1) {
            match self.token(before) {
                Some(Token::Sign(',')) => {}
                Some(Token::Name(name)) if name == "import" => {
                    // `from os import system` gives it another name.
                    let earlier =
                        before.checked_sub(2).and_then(|at| self.token(at)).and_then(Token::name);
                    return earlier != Some("from");
                }
                Some(Token::Name(_)) => {}
                _ => return false,
            }
            back = before;
        }
        false
    }

    /// A name that is only mentioned can be called by another.
    fn mentioned(&self, walker: &mut Walker, name: &str, at: usize) {
        let unpacked = matches!(self.token(at + 1), Some(Token::Sign('}' | ',')))
            && self.language.unpacks_names;
        if !unpacked && name != "open" {
            walker.hide(HiddenReason::ComputedName, name);
        }
    }

    /// The path that a method belongs to: `Path("x").unlink()`, `p.unlink()`.
    fn owner(&self, name: &str, at: usize) -> Option<String> {
        if let Some((owner, _)) = name.rsplit_once('.').filter(|(owner, _)| !owner.is_empty()) {
            return self.constants.get(owner).cloned().flatten();
        }
        let close = at.checked_sub(1).filter(|close| self.is(*close, ')'))?;
        let open = self.opening.get(close).copied().flatten()?;
        let called = open.checked_sub(1).and_then(|at| self.token(at)).and_then(Token::name);
        let from = if called.is_some() { open.checked_sub(1)? } else { open };
        self.value(from, at, true)
    }

    /// A program with its arguments, as a text or as a list.
    fn runs(&self, walker: &mut Walker, arguments: &[Argument<'_>], texts: &[Option<String>]) {
        let plain: Vec<&Argument<'_>> =
            arguments.iter().filter(|(key, ..)| key.is_none()).collect();
        let Some((_, from, to)) = plain.first() else {
            return walker.hide(HiddenReason::ComputedText, self.language.name);
        };
        let list = |open: usize| {
            let close = self.closing.get(open).copied().flatten()?;
            let items = self.listed(open + 1, close);
            let field = |(_, from, to): &Argument<'_>| {
                self.value(*from, *to, false).map_or_else(Field::unknown, Field::text)
            };
            Some(items.iter().map(field).collect::<Vec<Field>>())
        };
        if (self.is(*from, '[') || self.is(*from, '('))
            && self.closing.get(*from).copied().flatten() == to.checked_sub(1)
            && let Some(argv) = list(*from).filter(|argv| argv.len() > 1 || self.is(*from, '['))
        {
            return start(walker, &argv);
        }
        let Some(first) = texts.first().cloned().flatten() else {
            return walker.hide(HiddenReason::ComputedText, self.language.name);
        };
        // Arguments after it: a list, or separate ones.
        let behind = plain
            .get(1)
            .and_then(|(_, from, _)| self.is(*from, '[').then(|| list(*from)).flatten());
        let words = || {
            let values = plain.iter().skip(1).map(|(_, from, to)| self.value(*from, *to, false));
            values.map(|value| value.map_or_else(Field::unknown, Field::text)).collect::<Vec<_>>()
        };
        match behind {
            Some(more) => start(walker, &[vec![Field::text(first)], more].concat()),
            None if plain.len() > 1 && self.language.lists_words => {
                start(walker, &[vec![Field::text(first)], words()].concat());
            }
            None => walker.handed_to_shell(&Field::text(first)),
        }
    }

    /// `open(my $f, ">", "x")`, `open F, ">x"`, `open(P, "git push|")`.
    fn perl_open(&self, walker: &mut Walker, texts: &[Option<String>], by: &str) {
        let Some(Some(mode)) = texts.get(1) else {
            return walker.hide(HiddenReason::ComputedName, "open");
        };
        let mode = mode.trim();
        let target = texts.get(2).cloned();
        if mode.contains('|') {
            let command = match target {
                Some(command) => command,
                None => Some(mode.trim_matches('|').to_owned()),
            };
            let alone = texts.len() < 4;
            return match command.filter(|_| alone) {
                Some(command) => walker.handed_to_shell(&Field::text(command)),
                None => walker.hide(HiddenReason::ComputedText, "open"),
            };
        }
        if mode.contains(['>', '+']) {
            let path = target
                .unwrap_or_else(|| Some(mode.trim_start_matches(['>', '+', '<', ' ']).to_owned()));
            wrote(walker, path, WriteKind::Change, by);
        }
    }
}

fn start(walker: &mut Walker, argv: &[Field]) {
    walker.in_subshell(|walker| walker.started(argv, &Input::Pipe));
}

/// Whether a mode is one for writing; one that is not known may be.
fn writes_by_mode(mode: Option<Option<String>>) -> bool {
    match mode {
        None => false,
        Some(None) => true,
        Some(Some(mode)) => {
            mode.chars().all(|c| "rwaxbtU+".contains(c)) && mode.contains(['w', 'a', 'x', '+'])
        }
    }
}

/// Notes a file that code writes.
pub(super) fn wrote(walker: &mut Walker, path: Option<String>, kind: WriteKind, by: &str) {
    match path {
        Some(path)
            if matches!(path.as_str(), "/dev/stdout" | "/dev/stderr" | "-" | "" | ":memory:") => {}
        Some(path) => walker.wrote(Field::text(path), kind, by),
        None => match kind {
            WriteKind::Change | WriteKind::WriteBelow => {
                walker.hide(HiddenReason::ComputedPath, by)
            }
            WriteKind::Delete | WriteKind::DeleteTree => {
                walker.hide(HiddenReason::ComputedDeletion, &format!("{by} deletes files"));
            }
        },
    }
}
