//! Random shell commands: everything that can hide a name, around recorded names.
//!
//! They are built from templates with these placeholders
//!
//! ```text
//! %1 %2 %3   a recorded name, the same in the whole template
//! %n         a name                      %d   a name in disguise
//! %a         any number of words         %f   a file that is written
//! %c         a simple command            %q   a simple command for use inside '…'
//! %l         a list of commands          %p   a name of a file or directory
//! %%         a percent sign
//! ```
//!
//! and in disguised names `%h` and `%t`, the first letter and the rest, `%x` and `%o`, the
//! first letter in hexadecimal and octal.

mod changing;
mod compound;
mod plain;
mod starting;
mod words;

use bailiwick_testkit::random::Random;

use crate::bash::STUBS;
use changing::CHANGING;
use compound::COMPOUND;
use plain::PLAIN;
use starting::STARTING;
use words::{DISGUISES, WORDS};

/// Generates commands.
pub(crate) struct Grammar<'a> {
    random: &'a mut Random,
    /// How many more commands may be nested.
    left: usize,
}

impl<'a> Grammar<'a> {
    pub(crate) fn new(random: &'a mut Random) -> Self {
        Self { random, left: 6 }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.below(from.len())]
    }

    /// A name; three times in four a recorded one.
    fn name(&mut self) -> &'static str {
        match self.random.once_in(4) {
            true => self.pick(&["echo", ":", "true", "cat"]),
            false => self.pick(&STUBS),
        }
    }

    /// A name in disguise.
    fn disguised(&mut self) -> String {
        let name = self.name();
        if name.len() < 2 || self.random.below(4) > 0 {
            return name.to_owned();
        }
        let (head, tail) = name.split_at(1);
        let first = name.as_bytes()[0];
        let disguise = self.pick(DISGUISES);
        let disguise = disguise.replace("%h", head).replace("%t", tail).replace("%1", name);
        disguise.replace("%x", &format!("{first:02x}")).replace("%o", &format!("{first:03o}"))
    }

    fn words(&mut self) -> String {
        (0..self.random.below(3)).map(|_| format!(" {}", self.word())).collect()
    }

    fn word(&mut self) -> String {
        let template = self.pick(WORDS);
        self.fill(template, 0)
    }

    fn simple(&mut self) -> String {
        let template = match self.random.below(20) {
            _ if self.left == 0 => "%d a",
            0..=1 => "%d%a",
            2..=10 => self.pick(STARTING),
            _ => self.pick(CHANGING),
        };
        self.left = self.left.saturating_sub(1);
        self.fill(template, 0)
    }

    /// Fills in a template.
    fn fill(&mut self, template: &str, depth: usize) -> String {
        let fixed = [self.pick(&STUBS), self.pick(&STUBS), self.pick(&STUBS)];
        let mut text = String::new();
        let mut remaining = template.chars();
        while let Some(c) = remaining.next() {
            if c != '%' {
                text.push(c);
                continue;
            }
            match remaining.next() {
                Some('1') => text += fixed[0],
                Some('2') => text += fixed[1],
                Some('3') => text += fixed[2],
                Some('n') => text += self.name(),
                Some('d') => text += &self.disguised(),
                Some('a') => text += &self.words(),
                Some('c') => text += &self.simple(),
                Some('l') => text += &self.list(depth),
                Some('q') => text += &self.simple().replace('\'', "'\\''"),
                Some('f') => text += self.pick(&["out", "'o ut'", "o\"u\"t", "out2", "$HOME/out3"]),
                Some('p') => text += self.pick(&["app", "lib", "parser", "web"]),
                Some('%') => text.push('%'),
                other => panic!("%{other:?} in {template}"),
            }
        }
        text
    }

    fn list(&mut self, depth: usize) -> String {
        let count = 1 + self.random.below(3);
        let mut text = String::new();
        for index in 0..count {
            if index > 0 {
                text += self.pick(&["; ", "; ", " && ", " || ", " | ", "\n"]);
            }
            let command = self.command(depth);
            // After `&`, a comment or a document, only a new line may follow.
            let open = command.ends_with('&') || command.contains('#') || command.contains("<<");
            text += &command;
            if open {
                text.push('\n');
                return text;
            }
        }
        text
    }

    /// A command.
    pub(crate) fn command(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.once_in(3) {
            return self.simple();
        }
        let template = self.pick(COMPOUND);
        self.fill(template, depth - 1)
    }

    /// Every template of a simple command and every word, each filled in once.
    pub(crate) fn each(&mut self) -> Vec<String> {
        let simple = STARTING.iter().chain(CHANGING).map(|entry| (*entry).to_owned());
        let words = WORDS.iter().map(|word| format!("echo {word}"));
        let names = DISGUISES.iter().map(|name| {
            let name = name.replace("%h", "s").replace("%t", "0").replace("%1", "s0");
            name.replace("%x", "73").replace("%o", "163")
        });
        let compound = COMPOUND.iter().map(|entry| (*entry).to_owned());
        let templates: Vec<String> = simple.chain(words).chain(names).chain(compound).collect();
        templates.iter().map(|template| self.fill(template, 0)).collect()
    }

    /// Some everyday commands in sequence.
    pub(crate) fn plain(&mut self) -> String {
        let count = 1 + self.random.below(2);
        let templates: Vec<_> = (0..count).map(|_| self.pick(PLAIN)).collect();
        let filled: Vec<_> = templates.into_iter().map(|template| self.fill(template, 0)).collect();
        filled.join("\n")
    }
}
