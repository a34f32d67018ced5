//! sed: scripts that run commands (`e`, `s///e`) and write files (`w`, `s///w`).

use crate::shell::field::Field;
use crate::shell::walk::Walker;
use crate::shell::{HiddenReason, WriteKind};

/// Reads a script and notes what it runs and writes.
pub(super) fn analyse(walker: &mut Walker, script: &str) {
    let mut reader = Reader { text: script.chars().collect(), at: 0 };
    if reader.script(walker).is_none() && script.contains(['e', 'w', 'W', '…']) {
        walker.hide(HiddenReason::Unreadable, script);
    }
}

struct Reader {
    text: Vec<char>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek();
        self.at += 1;
        c
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|c| c == ' ' || c == '\t') {
            self.at += 1;
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        while let Some(c) = self.next() {
            if c == '\n' {
                break;
            }
            line.push(c);
        }
        line
    }

    /// Up to a delimiter that is not escaped and not in a bracket.
    fn delimited(&mut self, end: char, brackets: bool) -> Option<String> {
        let mut text = String::new();
        let mut class = 0_usize;
        loop {
            let c = self.next()?;
            match c {
                '\\' => {
                    let escaped = self.next()?;
                    if escaped != end {
                        text.push('\\');
                    }
                    text.push(escaped);
                    continue;
                }
                c if c == end && class == 0 => return Some(text),
                '[' if brackets && class == 0 => {
                    class = 1;
                    text.push(c);
                    // `]` and `^]` at the beginning stand for themselves.
                    if self.peek() == Some('^') {
                        self.at += 1;
                    }
                    if self.peek() == Some(']') {
                        self.at += 1;
                    }
                    continue;
                }
                '[' if class == 1 && matches!(self.peek(), Some(':' | '.' | '=')) => class = 2,
                ']' if class > 0 => class -= 1,
                '\n' if brackets => return None,
                _ => {}
            }
            text.push(c);
        }
    }

    fn address(&mut self) -> Option<()> {
        loop {
            match self.peek() {
                Some(c) if c.is_ascii_digit() || "$,!~+ \t…".contains(c) => self.at += 1,
                Some('/') => {
                    self.at += 1;
                    self.delimited('/', true)?;
                    self.address_flags();
                }
                Some('\\') => {
                    self.at += 1;
                    let end = self.next()?;
                    self.delimited(end, true)?;
                    self.address_flags();
                }
                _ => return Some(()),
            }
        }
    }

    fn address_flags(&mut self) {
        while self.peek().is_some_and(|c| c == 'I' || c == 'M') {
            self.at += 1;
        }
    }

    fn script(&mut self, walker: &mut Walker) -> Option<()> {
        loop {
            while self.peek().is_some_and(|c| c.is_whitespace() || c == ';') {
                self.at += 1;
            }
            if self.peek().is_none() {
                return Some(());
            }
            self.address()?;
            match self.next()? {
                '#' => {
                    self.line();
                }
                '{' | '}' | '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P'
                | 'x' | 'z' | 'F' => {}
                'l' | 'L' | 'q' | 'Q' => {
                    self.blanks();
                    while self.peek().is_some_and(|c| c.is_ascii_digit()) {
                        self.at += 1;
                    }
                }
                'a' | 'i' | 'c' => self.added(),
                ':' => {
                    self.line();
                }
                'b' | 't' | 'T' => {
                    while self.peek().is_some_and(|c| c != '\n' && c != ';' && c != '}') {
                        self.at += 1;
                    }
                }
                'r' | 'R' => {
                    self.line();
                }
                'v' => {
                    self.line();
                }
                'w' | 'W' => {
                    let file = self.line();
                    wrote(walker, file.trim());
                }
                'e' => {
                    let command = self.line();
                    if command.trim().is_empty() {
                        // The lines that it reads are run.
                        walker.hide(HiddenReason::PipedIntoShell, "sed e");
                    } else if command.contains('…') {
                        walker.hide(HiddenReason::ComputedText, "sed e");
                    } else {
                        walker.handed_to_shell(&Field::text(command.trim()));
                    }
                }
                's' => self.substitution(walker)?,
                'y' => {
                    let end = self.next()?;
                    self.delimited(end, false)?;
                    self.delimited(end, false)?;
                }
                _ => return None,
            }
        }
    }

    /// Text that is added: up to the end of a line that no backslash continues.
    fn added(&mut self) {
        loop {
            let line = self.line();
            if self.peek().is_none() || !line.ends_with('\\') {
                return;
            }
        }
    }

    fn substitution(&mut self, walker: &mut Walker) -> Option<()> {
        let end = self.next()?;
        self.delimited(end, true)?;
        let replacement = self.delimited(end, false)?;
        loop {
            match self.peek() {
                Some('e') => {
                    self.at += 1;
                    // The whole line after the change is run.
                    walker.hide(HiddenReason::ComputedText, "sed s///e");
                    let plain = !replacement.contains(['\\', '&', '…']);
                    if plain {
                        walker.handed_to_shell(&Field::text(replacement.clone()));
                    }
                }
                Some('w') => {
                    self.at += 1;
                    let file = self.line();
                    wrote(walker, file.trim());
                    return Some(());
                }
                Some(c) if c.is_ascii_digit() || "gpiImM".contains(c) => self.at += 1,
                _ => return Some(()),
            }
        }
    }
}

fn wrote(walker: &mut Walker, file: &str) {
    if file.contains('…') {
        return walker.hide(HiddenReason::ComputedPath, "sed");
    }
    if !file.is_empty() && !matches!(file, "/dev/stdout" | "/dev/stderr") {
        walker.wrote(Field::text(file), WriteKind::Change, "sed");
    }
}
