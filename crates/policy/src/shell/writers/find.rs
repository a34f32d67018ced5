//! `find`: what it deletes and prints into files, and where the files that it finds are.

use super::super::How;
use super::super::field::{Field, Piece};
use super::super::walk::Walker;
use super::options::named_values;

/// Where a search begins, and whether it follows links.
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
        walker.wrote_all(starts, How::DeleteTree, "find");
        let named = only_named(arguments);
        for write in walker.reading.writes.iter_mut().skip(before) {
            write.named.clone_from(&named);
        }
    }
    let files = ["-fprint", "-fprint0", "-fprintf", "-fls"];
    walker.wrote_all(named_values(arguments, &files), How::Change, "find");
}

/// The glob that every name must match, where there is no other way to be found.
fn only_named(arguments: &[Field]) -> Option<String> {
    let other = |field: &Field| {
        let text = field.known();
        text.is_none_or(|text| matches!(text.as_str(), "-o" | "-or" | "!" | "-not" | "," | "("))
    };
    let at = arguments.iter().position(|field| field.known().as_deref() == Some("-name"))?;
    let glob = arguments.get(at + 1)?.known()?;
    let after = arguments.iter().skip(at);
    (!after.into_iter().any(other) && !glob.contains('\\')).then_some(glob)
}

/// What stands for `{}` in a word that begins with it.
pub(in super::super) fn found(arguments: &[Field], word: &str) -> Field {
    let (starts, follows) = starts(arguments);
    match (starts.as_slice(), word.strip_prefix("{}")) {
        ([start], Some(rest)) if !follows && !rest.contains("{}") => {
            let start = start.single();
            Field::of(start.pieces().iter().cloned().chain([Piece::Below]).collect())
                .followed_by(rest)
        }
        _ => Field::unknown(),
    }
}
