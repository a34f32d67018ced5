//! `sed -i`: files that it edits where they are. What its scripts do is looked into elsewhere.

use super::super::WriteKind;
use super::super::field::{Field, Piece};
use super::super::walk::Walker;
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
    let arguments: Vec<Field> = arguments.iter().map(plain_script).collect();
    let parsed = SED.read(&arguments);
    let mut files = parsed.operands.clone();
    if parsed.all(&["e", "expression"]).is_empty()
        && !parsed.has(&["f", "file"])
        && !files.is_empty()
    {
        files.remove(0);
    }
    if parsed.has(&["i", "in-place"]) || parsed.unsure {
        for file in files {
            let suffixes = parsed.all(&["i", "in-place"]);
            for suffix in suffixes.iter().filter(|suffix| suffix.known().as_deref() != Some("")) {
                walker.wrote(backup(&file, suffix), WriteKind::Change, "sed");
            }
            walker.wrote(file, WriteKind::Change, "sed");
        }
    }
}

/// `"${n}p"` and its like: a script, not an option.
fn plain_script(field: &Field) -> Field {
    let command = |text: &str| text.ends_with(['p', 'd', 'q']);
    match field.pieces().last() {
        Some(Piece::Text(text)) if !field.may_be_many() && command(text) => {
            field.known().map_or_else(|| Field::text("1p"), Field::text)
        }
        _ => field.clone(),
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
