//! `find`: what it deletes and prints into files, and where the files that it finds are.

use super::super::WriteKind;
use super::super::field::{Field, Piece};
use super::super::walk::Walker;
use super::options::{Grammar, named_values};
use super::search::{files_of_git, name_matches};

/// The start of a search, and whether it follows links.
fn starts(arguments: &[Field]) -> (Vec<Field>, bool) {
    let mut starts = Vec::new();
    let mut follows = false;
    let mut rest = arguments.iter();
    while let Some(field) = rest.next() {
        match field.known().as_deref() {
            Some("-H" | "-P") => {}
            Some("-L") => follows = true,
            Some("-D") => {
                rest.next();
            }
            Some(text) if text.starts_with("-O") => {}
            Some(text) if text.starts_with('-') || matches!(text, "(" | "!" | ",") => break,
            _ => starts.push(field.clone()),
        }
    }
    follows |= rest.any(|field| field.known().as_deref() == Some("-follow"));
    if starts.is_empty() {
        starts.push(Field::text("."));
    }
    (starts, follows)
}

pub(super) fn note(walker: &mut Walker, arguments: &[Field]) {
    let (starts, _) = starts(arguments);
    if arguments.iter().any(|field| field.known().as_deref() == Some("-delete")) {
        let before = walker.reading.writes.len();
        walker.wrote_all(starts, WriteKind::DeleteTree, "find");
        let named = only_named(arguments);
        for write in walker.reading.writes.iter_mut().skip(before) {
            write.named.clone_from(&named);
        }
    }
    let files = ["-fprint", "-fprint0", "-fprintf", "-fls"];
    walker.wrote_all(named_values(arguments, &files), WriteKind::Change, "find");
}

/// The glob that every found name must match, if all must.
pub(in super::super) fn only_named(arguments: &[Field]) -> Option<String> {
    let other = |field: &Field| {
        let text = field.known();
        text.is_none_or(|text| matches!(text.as_str(), "-o" | "-or" | "!" | "-not" | "," | "("))
    };
    let at = arguments.iter().position(|field| field.known().as_deref() == Some("-name"))?;
    let glob = arguments.get(at + 1)?.known()?;
    let after = arguments.iter().skip(at);
    (!after.into_iter().any(other) && !glob.contains('\\')).then_some(glob)
}

/// The files that a program finds and prints or passes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct FoundFiles {
    /// All of them, as far as the text decides that.
    pub(in super::super) fields: Vec<Field>,
    /// Files of git that are among them if they are there.
    pub(in super::super) of_git: Vec<String>,
}

impl FoundFiles {
    /// Everything below these places.
    fn below(starts: &[Field]) -> Self {
        let below = |start: &Field| {
            let start = start.single();
            Field::of(start.pieces().iter().cloned().chain([Piece::Below]).collect())
        };
        Self { fields: starts.iter().map(below).collect(), of_git: Vec::new() }
    }
}

/// The result of a search; `None` if it is not known.
fn search(arguments: &[Field]) -> Option<FoundFiles> {
    let (starts, follows) = starts(arguments);
    let plain = |start: &Field| !start.pieces().iter().any(|p| matches!(p, Piece::UnknownMany));
    if follows || !starts.iter().all(plain) {
        return None;
    }
    let begins = |field: &Field| {
        let text = field.known().unwrap_or_default();
        matches!(text.as_str(), "(" | "!") || (text.starts_with('-') && !is_global(&text))
    };
    let at = arguments.iter().position(begins).unwrap_or(arguments.len());
    let expression = arguments.get(at..).unwrap_or_default();
    let mut found = FoundFiles::below(&starts);
    for start in starts.iter().filter_map(Field::known) {
        found.of_git.extend(files_of_git(&start, expression));
    }
    Some(found)
}

fn is_global(text: &str) -> bool {
    matches!(text, "-H" | "-P" | "-L" | "-D") || text.starts_with("-O")
}

/// The possible values of a word that starts with `{}`.
pub(in super::super) fn found(arguments: &[Field], word: &str) -> (Field, Vec<String>) {
    match (search(arguments), word.strip_prefix("{}")) {
        (Some(found), Some(rest)) if !rest.contains("{}") && found.fields.len() == 1 => {
            let field = found.fields.into_iter().next().unwrap_or_else(Field::unknown);
            let of_git = found.of_git.iter().map(|file| format!("{file}{rest}")).collect();
            (if rest.is_empty() { field } else { field.followed_by(rest) }, of_git)
        }
        _ => (Field::unknown(), Vec::new()),
    }
}

/// The files that a program prints the names of, one a line; `None` if it prints something else.
pub(in super::super) fn listed(argv: &[Field]) -> Option<FoundFiles> {
    let (name, arguments) = argv.split_first()?;
    match name.known()?.as_str() {
        "find" => {
            let other = |field: &Field| {
                field.known().is_none_or(|text| {
                    let prints = text.starts_with("-print") && !text.starts_with("-printf");
                    !prints
                        && ["-exec", "-ok", "-printf", "-ls", "-f"]
                            .iter()
                            .any(|o| text.starts_with(o))
                })
            };
            if arguments.iter().any(other) { None } else { search(arguments) }
        }
        "grep" | "egrep" | "fgrep" => matching(arguments),
        "rg" => ripgrep(arguments),
        _ => None,
    }
}

const GREP: Grammar = Grammar {
    flags: "EFGPHhIilLnoqRrsTUvwxzZac",
    values: "efmABCdD",
    attached: "",
    long_flags: &[
        "files-with-matches",
        "files-without-match",
        "recursive",
        "ignore-case",
        "word-regexp",
        "fixed-strings",
        "extended-regexp",
        "perl-regexp",
        "invert-match",
        "null",
        "no-messages",
        "line-regexp",
    ],
    long_values: &["include", "exclude", "exclude-dir", "regexp", "max-count"],
};

/// `grep -rl pattern directory`
fn matching(arguments: &[Field]) -> Option<FoundFiles> {
    let parsed = GREP.read(arguments);
    let lists = parsed.has(&["l", "L", "files-with-matches", "files-without-match"]);
    let follows = parsed.has(&["R", "d", "D"]);
    if parsed.unsure || !lists || follows {
        return None;
    }
    let skip = usize::from(!parsed.has(&["e", "f", "regexp"]));
    let operands: Vec<Field> = parsed.operands.iter().skip(skip).cloned().collect();
    if !parsed.has(&["r", "recursive"]) {
        return (!operands.is_empty()).then(|| FoundFiles { fields: operands, of_git: Vec::new() });
    }
    let operands = if operands.is_empty() { vec![Field::text(".")] } else { operands };
    let texts = |option: &str| -> Option<Vec<String>> {
        parsed.all(&[option]).iter().map(Field::known).collect()
    };
    let include = texts("include")?;
    let exclude = [texts("exclude")?, texts("exclude-dir")?].concat();
    let mut found = FoundFiles::below(&operands);
    for start in operands.iter().filter_map(Field::known) {
        let is_searched = |file: &String| {
            let excluded = |glob: &String| {
                name_matches(glob, file) || file.split('/').any(|part| name_matches(glob, part))
            };
            (include.is_empty() || include.iter().any(|glob| name_matches(glob, file)))
                && !exclude.iter().any(excluded)
        };
        found.of_git.extend(files_of_git(&start, &[]).into_iter().filter(is_searched));
    }
    Some(found)
}

const RIPGREP: Grammar = Grammar {
    flags: "lFiwvnSsU0x",
    values: "egtTmf",
    attached: "",
    long_flags: &[
        "files",
        "files-with-matches",
        "ignore-case",
        "word-regexp",
        "fixed-strings",
        "null",
    ],
    long_values: &["glob", "type", "type-not", "regexp", "max-count"],
};

/// `rg -l pattern directory`, which passes hidden files over.
fn ripgrep(arguments: &[Field]) -> Option<FoundFiles> {
    let parsed = RIPGREP.read(arguments);
    let files = parsed.has(&["files"]);
    if parsed.unsure || !(files || parsed.has(&["l", "files-with-matches"])) {
        return None;
    }
    let skip = usize::from(!files && !parsed.has(&["e", "f", "regexp"]));
    let operands: Vec<Field> = parsed.operands.iter().skip(skip).cloned().collect();
    let operands = if operands.is_empty() { vec![Field::text(".")] } else { operands };
    Some(FoundFiles::below(&operands))
}
