//! `sed`: files that it edits where they are, and what its scripts write and run.

use super::super::field::{Field, Piece};
use super::super::walk::Walker;
use super::super::{How, Why};
use super::options::Grammar;

const SED: Grammar = Grammar {
    flags: "nErsuzb",
    values: "efl",
    attached: "i",
    long_flags: &[
        "quiet",
        "silent",
        "regexp-extended",
        "separate",
        "unbuffered",
        "null-data",
        "posix",
        "debug",
        "sandbox",
        "follow-symlinks",
        "in-place",
        "help",
        "version",
        "binary",
        "zero-terminated",
    ],
    long_values: &["expression", "file", "line-length"],
};

pub(super) fn note(walker: &mut Walker, arguments: &[Field]) {
    let given = SED.read(arguments);
    let mut scripts = given.all(&["e", "expression"]);
    let mut files = given.operands.clone();
    if scripts.is_empty() && !given.has(&["f", "file"]) && !files.is_empty() {
        scripts.push(files.remove(0));
    }
    let whole: Vec<String> = scripts.iter().map(stand_in).collect();
    match effects(&whole.join("\n")) {
        Some(effects) if effects.runs => walker.hide(Why::RunsText, "sed"),
        Some(effects) => {
            walker.wrote_all(effects.writes.into_iter().map(Field::text), How::Change, "sed");
        }
        None => walker.hide(Why::ComputedPath, "a script of sed"),
    }
    if given.has(&["i", "in-place"]) || given.unsure {
        for file in files {
            let suffixes = given.all(&["i", "in-place"]);
            for suffix in suffixes.iter().filter(|suffix| suffix.known().as_deref() != Some("")) {
                walker.wrote(backup(&file, suffix), How::Change, "sed");
            }
            walker.wrote(file, How::Change, "sed");
        }
    }
}

fn backup(file: &Field, suffix: &Field) -> Field {
    match suffix.known() {
        Some(text) if text.contains('*') => {
            let directory = if text.contains('/') { None } else { file.parent() };
            let mut name = Field::text("");
            for (index, part) in text.split('*').enumerate() {
                if index > 0 {
                    name = name.joined(&file.base_name());
                }
                name = name.followed_by(part);
            }
            directory.map_or(name.clone(), |directory| directory.below(&name))
        }
        Some(text) => file.followed_by(&text),
        None => Field::unknown(),
    }
}

/// The script; what is not known of it is taken for a part of a text in it.
fn stand_in(script: &Field) -> String {
    let part = |piece: &Piece| match piece {
        Piece::Text(text) | Piece::Pattern(text) | Piece::Match(text) => text.clone(),
        Piece::Home(_)
        | Piece::Start
        | Piece::Pipe
        | Piece::Temporary
        | Piece::Name
        | Piece::Names
        | Piece::Below
        | Piece::Unknown
        | Piece::UnknownMany => "1".to_owned(),
    };
    script.pieces().iter().map(part).collect()
}

/// What a script does besides printing.
#[derive(Debug, Default, PartialEq, Eq)]
struct Effects {
    writes: Vec<String>,
    runs: bool,
}

/// Reads a script; nothing if it is not understood.
fn effects(script: &str) -> Option<Effects> {
    let mut found = Effects::default();
    let mut rest = Script { text: script };
    loop {
        rest.skip(|c| c.is_whitespace() || c == ';' || c == '}');
        if rest.text.is_empty() {
            return Some(found);
        }
        rest.addresses()?;
        let command = rest.next()?;
        match command {
            '{' => {}
            '#' => drop(rest.line()),
            'a' | 'i' | 'c' => {
                // The text goes on behind a backslash at the end of a line.
                while rest.line().ends_with('\\') {}
            }
            ':' | 'b' | 't' | 'T' | 'r' | 'R' | 'v' => {
                let name = rest.line();
                // Behind a label a command may follow.
                if let (true, Some((_, more))) = (":btT".contains(command), name.split_once(';')) {
                    let more = effects(more)?;
                    found.writes.extend(more.writes);
                    found.runs |= more.runs;
                }
            }
            'w' | 'W' => found.writes.push(rest.line().trim().to_owned()),
            'e' => {
                found.runs = true;
                rest.line();
            }
            's' => rest.substitute(&mut found)?,
            'y' => {
                let delimiter = rest.next()?;
                rest.until(delimiter)?;
                rest.until(delimiter)?;
            }
            '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | 'F' => {}
            'q' | 'Q' | 'l' | 'L' => rest.skip(|c| c.is_ascii_digit() || c == ' '),
            _ => return None,
        }
    }
}

struct Script<'a> {
    text: &'a str,
}

impl<'a> Script<'a> {
    fn next(&mut self) -> Option<char> {
        let mut characters = self.text.chars();
        let first = characters.next();
        self.text = characters.as_str();
        first
    }

    fn skip(&mut self, what: impl Fn(char) -> bool) {
        self.text = self.text.trim_start_matches(what);
    }

    fn line(&mut self) -> &'a str {
        let (line, rest) = self.text.split_once('\n').unwrap_or((self.text, ""));
        self.text = rest;
        line
    }

    /// Passes over everything up to a delimiter that no backslash stands before.
    fn until(&mut self, delimiter: char) -> Option<()> {
        // In brackets a delimiter is no delimiter to some, so both must agree.
        loop {
            match self.next()? {
                '\\' => drop(self.next()?),
                c if c == delimiter => return Some(()),
                _ => {}
            }
        }
    }

    fn addresses(&mut self) -> Option<()> {
        loop {
            let first = self.text.chars().next();
            match first {
                Some(c) if c.is_ascii_digit() || "$,!~+ \t".contains(c) => drop(self.next()),
                Some('/') => {
                    self.next();
                    self.until('/')?;
                    self.skip(|c| matches!(c, 'I' | 'M'));
                }
                Some('\\') => {
                    self.next();
                    let delimiter = self.next()?;
                    self.until(delimiter)?;
                    self.skip(|c| matches!(c, 'I' | 'M'));
                }
                _ => return Some(()),
            }
        }
    }

    fn substitute(&mut self, found: &mut Effects) -> Option<()> {
        let delimiter = self.next()?;
        self.until(delimiter)?;
        self.until(delimiter)?;
        loop {
            match self.text.chars().next() {
                Some('w') => {
                    self.next();
                    found.writes.push(self.line().trim().to_owned());
                    return Some(());
                }
                Some('e') => found.runs = true,
                Some(c) if c.is_ascii_digit() || "gpiImM".contains(c) => {}
                _ => return Some(()),
            }
            self.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_read_as_sed_does() {
        let writes = |script: &str| effects(script).map(|found| (found.writes, found.runs));
        let none = || Some((Vec::new(), false));
        for plain in [
            "s/a/b/",
            "s/new word/w x/g",
            "s|a/b|c d|gp;s,x,y,I",
            "/foo/,/bar/d",
            "10,20p",
            "$!N;P;D",
            "1i\\\nhello w world",
            "/x/a new w line",
            "s/a\\/b/w/",
            "y/abc/xyz/",
            "/a/{s/b/c/;p}",
            ":a;N;$!ba;s/\\n/ /g",
            "# w x",
            "2q",
            "\\|x|s/a/b/",
        ] {
            assert_eq!(writes(plain), none(), "{plain}");
        }
        assert_eq!(writes("s/a/b/w out"), Some((vec!["out".to_owned()], false)));
        assert_eq!(writes("/x/w a b"), Some((vec!["a b".to_owned()], false)));
        assert_eq!(writes(":a;w out"), Some((vec!["out".to_owned()], false)));
        assert_eq!(writes("1e git push"), Some((Vec::new(), true)));
        assert_eq!(writes("s/x/y/ge"), Some((Vec::new(), true)));
        assert_eq!(writes("s/a/b"), None);
    }
}
