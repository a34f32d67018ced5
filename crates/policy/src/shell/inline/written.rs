//! Files that the same command has written before it runs them: their text is known, or is not.

use crate::shell::WriteKind;
use crate::shell::field::Field;
use crate::shell::redirect::Input;
use crate::shell::walk::Walker;

/// Programs that change a file without writing a text, or create one that is not a script.
const OTHERS: [&str; 25] = [
    "chmod", "chown", "chgrp", "touch", "mkdir", "gcc", "cc", "clang", "g++", "c++", "clang++",
    "rustc", "go", "cargo", "ld", "make", "javac", "tsc", "ghc", "zig", "nim", "setfacl", "npm",
    "pnpm", "yarn",
];

/// The files that the command has written so far, in order.
#[derive(Debug, Clone, Default)]
pub(in crate::shell) struct WrittenFiles {
    /// The last part of the path, and the text if it is known.
    texts: Vec<(String, Option<String>)>,
    /// Writes of the reading whose text is among them.
    covered: Vec<usize>,
    /// Copies of files and links to them: the last part of the path, and what it is a copy of.
    copies: Vec<(String, Field)>,
    /// Files that are being read now.
    open: Vec<String>,
}

impl WrittenFiles {
    /// The files that were written.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.texts.iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The files that were written, copied or linked.
    pub(super) fn runnable(&self) -> Vec<String> {
        let mut names = self.names();
        names.extend(self.copies.iter().map(|(copy, _)| copy.clone()));
        names
    }

    /// The sources of a copy with this name.
    pub(super) fn copied_from(&self, name: &str) -> Vec<Field> {
        let mine = self.copies.iter().filter(|(copy, _)| copy == name);
        mine.map(|(_, source)| source.clone()).collect()
    }

    fn copy(&mut self, target: &str, source: &Field) {
        let entry = (target.to_owned(), source.clone());
        if self.copies.len() < 200 && !self.copies.contains(&entry) {
            self.copies.push(entry);
        }
    }

    /// Notes that a file is being read, unless it is already.
    pub(super) fn begin(&mut self, name: &str) -> bool {
        let fresh = !self.open.iter().any(|open| open == name);
        if fresh {
            self.open.push(name.to_owned());
        }
        fresh
    }

    /// The last of them is read.
    pub(super) fn end(&mut self) {
        self.open.pop();
    }
}

/// The known content of a file that is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// It was not written here.
    Untouched,
    /// It holds these texts, one or all of them.
    Texts(Vec<String>),
    /// It was written with unknown content.
    Unknown,
}

impl Walker {
    /// Remembers what a command writes into the files that it is redirected to; `from` is where its
    /// redirections begin among the writes.
    pub(in crate::shell) fn remember_text(&mut self, argv: &[Field], input: &Input, from: usize) {
        let program = argv.first().and_then(Field::program_name).unwrap_or_default();
        let copies = ["tee", "cp", "mv", "ln", "install", "rsync", "dd"];
        if self.reading.writes.len() == from && !copies.contains(&program.as_str()) {
            return;
        }
        let targets: Vec<(usize, String)> = self
            .reading
            .writes
            .iter()
            .enumerate()
            .skip(from)
            .filter(|(_, write)| write.by == ">")
            .filter_map(|(index, write)| Some((index, last_part(&write.path)?)))
            .collect();
        let texts = printed(argv, input);
        let length = texts.iter().flatten().map(String::len).sum::<usize>();
        for (index, name) in targets {
            if !self.spend(length) {
                return;
            }
            self.written.covered.push(index);
            self.remember(&name, texts.clone());
        }
        let files: Vec<&Field> =
            argv.iter().skip(1).filter(|field| !field.to_string().starts_with('-')).collect();
        match (program.as_str(), files.as_slice()) {
            ("tee", files) => {
                let texts = match input {
                    Input::Text(texts) => texts.clone(),
                    Input::Inherited | Input::Pipe | Input::Names(_) | Input::File(_) => None,
                };
                let length = texts.iter().flatten().map(String::len).sum::<usize>();
                for name in files.iter().filter_map(|file| last_part(file)) {
                    if !self.spend(length) {
                        return;
                    }
                    self.remember(&name, texts.clone());
                }
            }
            ("cp" | "mv" | "ln" | "install" | "rsync", [sources @ .., target]) => {
                for source in sources {
                    // `-m` and similar options are not followed by a file.
                    if let Some(copy) = last_part(target).filter(|_| !is_number(source)) {
                        self.written.copy(&copy, source);
                    }
                }
                for source in sources.iter().filter_map(|source| last_part(source)) {
                    let content = self.content(&source);
                    let target = last_part(target).unwrap_or_default();
                    for name in [target, source] {
                        match &content {
                            Content::Untouched => {}
                            Content::Texts(texts) => self.remember(&name, Some(texts.clone())),
                            Content::Unknown => self.remember(&name, None),
                        }
                    }
                }
            }
            ("dd", files) => {
                let value = |start: &str| {
                    let words = files.iter().map(ToString::to_string);
                    words.filter_map(|word| word.strip_prefix(start).map(str::to_owned)).next()
                };
                if let (Some(source), Some(target)) = (value("if="), value("of=")) {
                    let target = target.rsplit('/').next().unwrap_or_default().to_owned();
                    self.written.copy(&target, &Field::text(source));
                }
            }
            ("cat", [source]) => {
                let names: Vec<String> = self
                    .reading
                    .writes
                    .iter()
                    .skip(from)
                    .filter_map(|write| last_part(&write.path))
                    .collect();
                for name in names {
                    self.written.copy(&name, source);
                }
            }
            _ => {}
        }
    }

    fn remember(&mut self, name: &str, texts: Option<Vec<String>>) {
        if self.written.texts.len() > 200 {
            return;
        }
        match texts {
            Some(texts) => {
                for text in texts {
                    let entry = (name.to_owned(), Some(text));
                    if !self.written.texts.contains(&entry) {
                        self.written.texts.push(entry);
                    }
                }
            }
            None => self.written.texts.push((name.to_owned(), None)),
        }
    }

    /// Whether the command has written no file so far.
    pub(super) fn wrote_nothing(&self) -> bool {
        self.written.texts.is_empty() && self.reading.writes.is_empty()
    }

    /// The known content of a file, by the last component of its path.
    pub(super) fn content(&self, name: &str) -> Content {
        let mine: Vec<&Option<String>> = self
            .written
            .texts
            .iter()
            .filter(|(this, _)| this == name)
            .map(|(_, text)| text)
            .collect();
        let elsewhere = self.reading.writes.iter().enumerate().any(|(index, write)| {
            let copied =
                matches!(write.by.as_str(), "tee" | "cp" | "mv" | "ln" | "install" | "rsync");
            !self.written.covered.contains(&index)
                && matches!(write.kind, WriteKind::Change)
                && !OTHERS.contains(&write.by.as_str())
                && !copied
                && last_part(&write.path).as_deref() == Some(name)
        });
        let texts: Option<Vec<String>> = mine.iter().map(|text| (*text).clone()).collect();
        match texts {
            _ if elsewhere => Content::Unknown,
            None => Content::Unknown,
            Some(texts) if texts.is_empty() => Content::Untouched,
            Some(texts) => Content::Texts(texts),
        }
    }

    /// Whether a file was written at this place, in any directory.
    pub(super) fn wrote_at(&self, place: &str) -> bool {
        self.reading.writes.iter().any(|write| {
            let path = write.path.to_string();
            let from = write.from.iter().map(|from| from.path.clone().unwrap_or_default());
            from.into_iter().any(|from| {
                let whole = format!("/{from}/{path}").replace("/./", "/").replace("//", "/");
                whole.ends_with(&format!("/{place}"))
            })
        })
    }

    /// The same for a path as written.
    pub(super) fn content_of(&self, path: &str) -> Content {
        match path.trim_end_matches('/').rsplit('/').next() {
            Some(name) if !name.is_empty() => self.content(name),
            _ => Content::Untouched,
        }
    }
}

fn is_number(field: &Field) -> bool {
    field.known().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The last part of a path, if it is known and no device.
fn last_part(path: &Field) -> Option<String> {
    let text = path.to_string();
    if text.starts_with("/dev/") {
        return None;
    }
    let name = text.trim_end_matches('/').rsplit('/').next()?;
    (!name.is_empty() && !name.contains('…')).then(|| name.to_owned())
}

/// The output of a command, if it is simple.
fn printed(argv: &[Field], input: &Input) -> Option<Vec<String>> {
    let words: Option<Vec<String>> = argv.iter().map(Field::known).collect();
    let words = words?;
    let (name, arguments) = words.split_first()?;
    match name.rsplit('/').next().unwrap_or(name) {
        "cat" if arguments.iter().all(|word| word == "-") => match input {
            Input::Text(texts) => texts.clone(),
            Input::Inherited | Input::Pipe | Input::Names(_) | Input::File(_) => None,
        },
        "echo" => {
            let options = arguments
                .iter()
                .take_while(|word| matches!(word.as_str(), "-n" | "-e" | "-ne" | "-en" | "-E"));
            let text = arguments.get(options.count()..)?.join(" ");
            let escapes =
                arguments.iter().any(|word| matches!(word.as_str(), "-e" | "-ne" | "-en"));
            let text = if escapes { unescaped(&text)? } else { text };
            Some(vec![format!("{text}\n")])
        }
        "printf" => {
            let (format, values) = arguments.split_first()?;
            let format = unescaped(format)?;
            match values {
                [] if !format.contains('%') => Some(vec![format]),
                _ if format.replace("%s", "").contains('%') => None,
                values if format.contains("%s") => {
                    let mut whole = String::new();
                    let mut rest = values;
                    while !rest.is_empty() {
                        let mut pieces = format.split("%s");
                        whole.push_str(pieces.next().unwrap_or_default());
                        for piece in pieces {
                            if let Some((value, more)) = rest.split_first() {
                                whole.push_str(value);
                                rest = more;
                            }
                            whole.push_str(piece);
                        }
                    }
                    Some(vec![whole])
                }
                _ => None,
            }
        }
        ":" | "true" => Some(vec![String::new()]),
        _ => None,
    }
}

fn unescaped(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match rest.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('\\') => plain.push('\\'),
            Some('"') => plain.push('"'),
            Some('\'') => plain.push('\''),
            // Other escapes may spell anything.
            Some(_) | None => return None,
        }
    }
    Some(plain)
}
