//! What globs match and what lies below directories, up to a limit.

use std::fs;
use std::path::PathBuf;

use bailiwick_policy::facts::ResolvedPath;
use gix_glob::wildmatch::Mode;

use super::reach::{Place, Reach};
use super::walk::resolve_path;

/// More entries than this are not listed: a decision then treats them as too many.
const MAX_LISTED: usize = 2_000;

/// The matches of a glob, as the shell would expand it; `None` if there are too many, or it is out of reach.
pub(crate) fn expand(glob: &str, reach: Reach<'_>) -> Option<Vec<ResolvedPath>> {
    let mut found = vec![String::new()];
    let mut looked = 0;
    for part in glob.split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for place in &found {
            let is_plain = !part.contains(['*', '?', '[']);
            match place_of(place, reach)? {
                Place::Seen => {}
                Place::Ancestor if is_plain => {
                    next.push(format!("{place}/{}", unescaped(part)));
                    continue;
                }
                Place::Ancestor | Place::Unseen => return None,
            }
            if is_plain {
                let path = format!("{place}/{}", unescaped(part));
                if fs::symlink_metadata(&path).is_ok() {
                    next.push(path);
                }
                continue;
            }
            let directory = if place.is_empty() { "/" } else { place };
            for entry in fs::read_dir(directory).into_iter().flatten() {
                looked += 1;
                if looked > 10 * MAX_LISTED {
                    return None;
                }
                let name = entry.ok()?.file_name();
                // A name that is not UTF-8 cannot be judged.
                let name = name.to_str()?;
                let hidden = name.starts_with('.') && !part.starts_with('.');
                let fits =
                    gix_glob::wildmatch(part.into(), name.into(), Mode::NO_MATCH_SLASH_LITERAL);
                if fits && !hidden {
                    next.push(format!("{place}/{name}"));
                }
            }
        }
        found = next;
        if found.len() > MAX_LISTED {
            return None;
        }
    }
    found.iter().map(|path| resolve_path(path, reach)).collect()
}

/// The place of a directory; `None` if it is not known.
fn place_of(directory: &str, reach: Reach<'_>) -> Option<Place> {
    match reach {
        Reach::Everywhere => Some(Place::Seen),
        Reach::Below(_) => Some(reach.place(&resolve_path(&format!("{directory}/"), reach)?.real)),
    }
}

fn unescaped(part: &str) -> String {
    let mut plain = String::new();
    let mut characters = part.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => plain.extend(characters.next()),
            other => plain.push(other),
        }
    }
    plain
}

/// Whether there is a link at a path or below it; also true if there is too much to search, or it is out of reach.
pub(crate) fn has_links(path: &str, reach: Reach<'_>) -> bool {
    if reach.is_limited()
        && !resolve_path(path, reach).is_some_and(|resolved| reach.sees(&resolved.entry))
    {
        return true;
    }
    let about = match fs::symlink_metadata(path) {
        Ok(about) => about,
        Err(error) => return error.kind() != std::io::ErrorKind::NotFound,
    };
    let mut places = if about.is_dir() { vec![PathBuf::from(path)] } else { Vec::new() };
    let mut looked = 0;
    while let Some(place) = places.pop() {
        let Ok(entries) = fs::read_dir(place) else { return true };
        for entry in entries {
            looked += 1;
            let Ok(entry) = entry else { return true };
            let Ok(kind) = entry.file_type() else { return true };
            if kind.is_symlink() || looked > 10 * MAX_LISTED {
                return true;
            }
            if kind.is_dir() {
                places.push(entry.path());
            }
        }
    }
    about.is_symlink()
}

/// The files below a directory, relative to it; a file itself has none. Links are not followed. `None` if there are too
/// many, or if it is out of reach.
pub(crate) fn tree(path: &str, reach: Reach<'_>) -> Option<Vec<String>> {
    if !reach.sees(path) {
        return None;
    }
    let is_directory = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let mut files = Vec::new();
    let mut places = if is_directory { vec![String::new()] } else { Vec::new() };
    let mut looked = 0;
    while let Some(place) = places.pop() {
        let directory = if place.is_empty() { path.to_owned() } else { format!("{path}/{place}") };
        for entry in fs::read_dir(directory).ok()? {
            looked += 1;
            if looked > 4 * MAX_LISTED || files.len() > MAX_LISTED {
                return None;
            }
            let entry = entry.ok()?;
            let name = entry.file_name();
            let name = name.to_str()?;
            let name = if place.is_empty() { name.to_owned() } else { format!("{place}/{name}") };
            if entry.file_type().ok()?.is_dir() {
                places.push(name);
            } else {
                files.push(name);
            }
        }
    }
    files.sort();
    Some(files)
}
