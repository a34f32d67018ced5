//! The paths that a write may mean, with the directories from which it may happen.

use crate::effects::Effects;
use crate::facts::Facts;
use crate::shell::{Directory, Shape, Write};

/// Joins a path to the directory it is relative to. `..` stays, because links decide what it means.
pub fn join(directory: &str, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    let mut joined = directory.trim_end_matches('/').to_owned();
    for part in parts {
        joined.push('/');
        joined.push_str(part);
    }
    if joined.is_empty() { "/".to_owned() } else { joined }
}

/// One possible meaning of a write.
pub(super) struct Candidate<'a> {
    pub(super) write: &'a Write,
    pub(super) path_kind: CandidatePath,
    /// If this is a directory, the write does not happen.
    pub(super) unless: Option<String>,
}

pub(super) enum CandidatePath {
    Path(String),
    Glob { glob: String, directory: String },
    Below(String),
    Temporary,
    Unknown,
}

pub(super) fn candidates<'a>(effects: &'a Effects, facts: &Facts) -> Vec<Candidate<'a>> {
    let mut all = Vec::new();
    for write in &effects.writes {
        let shape = write.path.shape();
        // A path that does not depend on the directory needs one candidate.
        let fixed = match &shape {
            Shape::Known(path) | Shape::Glob(path) | Shape::Within(path) => path.starts_with('/'),
            Shape::UnderHome { .. } | Shape::Temporary | Shape::Unknown => true,
        };
        let start = [Directory::start()];
        let from = if fixed { start.as_slice() } else { write.from.as_slice() };
        for directory in from {
            let base = absolute(directory.path.as_deref(), facts);
            let unless = directory
                .unless
                .as_deref()
                .and_then(|unless| absolute(Some(unless), facts))
                .filter(|_| !fixed);
            let path_kind = match (&shape, base) {
                (Shape::Known(path), Some(base)) => CandidatePath::Path(join(&base, path)),
                (Shape::Known(path), None) if fixed => CandidatePath::Path(path.clone()),
                (Shape::UnderHome { user: None, rest }, _) => match &facts.home {
                    Some(home) => CandidatePath::Path(join(home, rest.trim_start_matches('/'))),
                    None => CandidatePath::Unknown,
                },
                (Shape::Glob(glob), Some(base)) => {
                    let glob = join(&glob_safe(&base), glob);
                    CandidatePath::Glob { directory: fixed_directory(&glob), glob }
                }
                (Shape::Glob(glob), None) if fixed => {
                    CandidatePath::Glob { directory: fixed_directory(glob), glob: glob.clone() }
                }
                (Shape::Temporary, _) => CandidatePath::Temporary,
                (Shape::Within(path), Some(base)) => CandidatePath::Below(join(&base, path)),
                (Shape::Within(path), None) if fixed => CandidatePath::Below(path.clone()),
                (
                    Shape::Known(_)
                    | Shape::Glob(_)
                    | Shape::Within(_)
                    | Shape::UnderHome { .. }
                    | Shape::Unknown,
                    _,
                ) => CandidatePath::Unknown,
            };
            all.push(Candidate { write, path_kind, unless });
        }
    }
    all
}

/// The directory as an absolute path, if that is known.
pub(super) fn absolute(directory: Option<&str>, facts: &Facts) -> Option<String> {
    let directory = directory?;
    if directory.starts_with('/') {
        return Some(directory.to_owned());
    }
    facts.directory.as_deref().map(|base| join(base, directory))
}

/// Escapes the wildcards of a path.
fn glob_safe(path: &str) -> String {
    let mut safe = String::with_capacity(path.len());
    for c in path.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            safe.push('\\');
        }
        safe.push(c);
    }
    safe
}

/// The directory in front of the first component of a glob that has a wildcard.
fn fixed_directory(glob: &str) -> String {
    let special = glob.find(['*', '?', '[', '\\']).unwrap_or(glob.len());
    let fixed = glob.get(..special).unwrap_or_default();
    match fixed.rfind('/') {
        Some(0) | None => "/".to_owned(),
        Some(slash) => fixed.get(..slash).unwrap_or_default().to_owned(),
    }
}
