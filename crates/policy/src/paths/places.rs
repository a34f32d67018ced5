//! Resolves written paths to places: inside the workspace, outside it, or unknown.

mod candidates;
mod links;

use gix_glob::wildmatch::Mode;

use crate::effects::Effects;
use crate::facts::{Facts, Kind, Lookups, ResolvedPath};
use crate::shell::{Write, WriteKind};

use candidates::{Candidate, CandidatePath, candidates};
use links::{copies_with_links, created_links, link_path, passes_copied_link, passes_created_link};

pub use candidates::join;

/// A file that would be written, where it really is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteTarget {
    /// The path as the call names it.
    pub shown: String,
    pub place: Place,
    /// The kind of change.
    pub kind: WriteKind,
    /// The program that changes it.
    pub by: String,
    /// If it is deleted with its content: the files below it, relative to it, if they were listed.
    pub below: Option<Vec<String>>,
    /// If files are written below it: the files that are there now, if they were listed.
    pub holds: Option<Vec<String>>,
    /// Whether it may be several files.
    pub many: bool,
}

/// The place that a path resolves to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Below the workspace's root, relative to it.
    Inside {
        path: String,
        /// Whether a directory is there.
        directory: bool,
    },
    /// Elsewhere.
    Outside(String),
    Unknown,
}

/// Devices and descriptors: writing to them changes no file.
pub fn harmless_device(path: &str) -> bool {
    matches!(
        path,
        "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty" | "/dev/full" | "/dev/zero" | "-"
    ) || ["/dev/fd/", "/proc/self/fd/"].iter().any(|place| {
        // Only the descriptor itself: `/dev/fd/../cwd/x` is a file.
        path.strip_prefix(place).is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    })
}

/// Adds the lookups that are needed to resolve these writes.
pub(crate) fn collect_lookups(effects: &Effects, facts: &Facts, lookups: &mut Lookups) {
    lookups.paths.extend(created_links(effects, facts));
    // A single copy does not follow the links that it copies.
    let alone = effects.writes.len() == 1;
    for copy in effects.copies.iter().filter(|copy| !alone || copy.own.is_empty()) {
        lookups.paths.extend(copy.at.as_ref().and_then(|at| link_path(at, facts)));
        lookups.links.extend(copy.from.as_ref().and_then(|from| link_path(from, facts)));
    }
    for candidate in candidates(effects, facts) {
        let tree = match candidate.path_kind {
            CandidatePath::Below(_) => !matches!(candidate.write.kind, WriteKind::Delete),
            CandidatePath::Path(_)
            | CandidatePath::Glob { .. }
            | CandidatePath::Temporary
            | CandidatePath::Unknown => {
                matches!(candidate.write.kind, WriteKind::DeleteTree | WriteKind::WriteBelow)
            }
        };
        lookups.paths.extend(candidate.unless);
        match candidate.path_kind {
            CandidatePath::Path(path) => {
                if tree {
                    lookups.trees.insert(path.clone());
                }
                lookups.paths.insert(path);
            }
            CandidatePath::Glob { glob, directory } => {
                let trees = lookups.globs.entry(glob).or_insert(false);
                *trees |= tree;
                lookups.paths.insert(directory);
            }
            CandidatePath::Below(directory) => {
                if tree {
                    lookups.trees.insert(directory.clone());
                }
                lookups.paths.insert(directory);
            }
            CandidatePath::Temporary | CandidatePath::Unknown => {}
        }
    }
}

/// All places that a call writes, or may write.
pub fn write_targets(effects: &Effects, facts: &Facts) -> Vec<WriteTarget> {
    let removes = effects.removes();
    let created_links = created_links(effects, facts);
    let copies = copies_with_links(effects, facts);
    let mut found: Vec<WriteTarget> = Vec::new();
    for mut candidate in candidates(effects, facts) {
        if passes_created_link(&created_links, &candidate, facts)
            || passes_copied_link(&copies, &candidate, facts, removes)
        {
            candidate.path_kind = CandidatePath::Unknown;
        }
        let entered = candidate.unless.as_ref().and_then(|path| facts.paths.get(path));
        if entered.is_some_and(|resolved| resolved.kind == Kind::Directory) && !removes {
            continue;
        }
        for target in targets_of(&candidate, facts, removes) {
            if !found.contains(&target) {
                found.push(target);
            }
        }
    }
    found
}

fn targets_of(candidate: &Candidate<'_>, facts: &Facts, removes: bool) -> Vec<WriteTarget> {
    let write = candidate.write;
    let target = |place: Place, kind: WriteKind, below: Option<Vec<String>>| WriteTarget {
        shown: write.path.to_string(),
        place,
        kind,
        by: write.by.clone(),
        below,
        holds: match (&candidate.path_kind, kind) {
            (CandidatePath::Path(path) | CandidatePath::Below(path), WriteKind::WriteBelow) => {
                facts.trees.get(path).cloned().flatten()
            }
            _ => None,
        },
        many: matches!(candidate.path_kind, CandidatePath::Unknown | CandidatePath::Below(_))
            && write.path.may_be_many(),
    };
    match &candidate.path_kind {
        CandidatePath::Unknown => vec![target(Place::Unknown, write.kind, None)],
        // The exact path does not matter: it is new and outside every workspace.
        CandidatePath::Temporary => {
            vec![target(Place::Outside("/tmp/fresh".to_owned()), write.kind, None)]
        }
        CandidatePath::Path(path) if harmless_device(path) => Vec::new(),
        CandidatePath::Path(path) => match facts.paths.get(path) {
            None => vec![target(Place::Unknown, write.kind, None)],
            Some(resolved) if without_effect(write, resolved, removes) => Vec::new(),
            Some(resolved) if write.only_existing && resolved.kind != Kind::File => Vec::new(),
            Some(resolved) if write.named.is_some() => {
                searched_files(candidate, path, resolved, facts)
            }
            Some(resolved) => {
                let below = match write.kind {
                    WriteKind::DeleteTree => facts.trees.get(path).cloned().flatten(),
                    WriteKind::Change | WriteKind::WriteBelow | WriteKind::Delete => None,
                };
                let places = both_places(write, resolved, facts).into_iter();
                places.map(|place| target(place, write.kind, below.clone())).collect()
            }
        },
        CandidatePath::Below(path) => match facts.paths.get(path) {
            None => vec![target(Place::Unknown, write.kind, None)],
            // The result of a search by name is listed.
            Some(resolved) if is_listed(write, path, facts) && !removes => {
                searched_files(candidate, path, resolved, facts)
            }
            Some(resolved) => {
                let kind = match write.kind {
                    WriteKind::Change | WriteKind::WriteBelow => WriteKind::WriteBelow,
                    WriteKind::Delete | WriteKind::DeleteTree => WriteKind::DeleteTree,
                };
                let below = match kind {
                    WriteKind::DeleteTree => facts.trees.get(path).cloned().flatten(),
                    WriteKind::Change | WriteKind::WriteBelow | WriteKind::Delete => None,
                };
                // Below a file there is nothing, but beside it may be what is called after it.
                let real = match (resolved.kind, resolved.real.rsplit_once('/')) {
                    (Kind::File, Some((parent, _))) => parent,
                    _ => resolved.real.as_str(),
                };
                vec![target(inside(real, true, facts), kind, below)]
            }
        },
        CandidatePath::Glob { glob, directory } => {
            let Some(base) = facts.paths.get(directory) else {
                return vec![target(Place::Unknown, write.kind, None)];
            };
            let mut found = Vec::new();
            match facts.globs.get(glob) {
                Some(Some(matches)) => {
                    for resolved in
                        matches.iter().filter(|resolved| !without_effect(write, resolved, removes))
                    {
                        let below = facts.trees.get(&resolved.entry).cloned().flatten();
                        let places = both_places(write, resolved, facts).into_iter();
                        found.extend(places.map(|place| target(place, write.kind, below.clone())));
                    }
                }
                Some(None) | None => found.push(target(Place::Unknown, write.kind, None)),
            }
            // What the command itself creates, or names literally.
            let deletes = matches!(write.kind, WriteKind::Delete | WriteKind::DeleteTree);
            if !deletes || removes {
                let rest = glob.get(directory.len()..).unwrap_or_default();
                let sample = format!("{}{}", base.real.trim_end_matches('/'), sample_name(rest));
                found.push(target(inside(&sample, false, facts), write.kind, Some(Vec::new())));
            }
            found
        }
    }
}

/// Whether files are changed that a search finds by name, and they are listed.
fn is_listed(write: &Write, path: &str, facts: &Facts) -> bool {
    let listed = facts.trees.get(path).is_some_and(Option::is_some);
    write.kind == WriteKind::Change && write.named.is_some() && listed
}

/// The files that a search finds; by a name that would be found if they were not listed.
fn searched_files(
    candidate: &Candidate<'_>,
    path: &str,
    resolved: &ResolvedPath,
    facts: &Facts,
) -> Vec<WriteTarget> {
    let glob = candidate.write.named.as_deref().unwrap_or_default();
    let target = |below: &str, many: bool| WriteTarget {
        shown: below.to_owned(),
        place: inside(&join(&resolved.entry, below), false, facts),
        kind: match candidate.write.kind {
            WriteKind::Change | WriteKind::WriteBelow => WriteKind::Change,
            WriteKind::Delete | WriteKind::DeleteTree => WriteKind::Delete,
        },
        by: candidate.write.by.clone(),
        below: None,
        holds: None,
        many,
    };
    let fits = |file: &&String| {
        let name = file.rsplit('/').next().unwrap_or(file);
        gix_glob::wildmatch(glob.into(), name.into(), Mode::NO_MATCH_SLASH_LITERAL)
    };
    match facts.trees.get(path) {
        Some(Some(files)) => files.iter().filter(fits).map(|file| target(file, false)).collect(),
        Some(None) | None => vec![target(&sample_name(glob), true)],
    }
}

/// A name that a glob would match.
fn sample_name(glob: &str) -> String {
    let mut name = String::new();
    let mut rest = glob.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => name.extend(rest.next()),
            '*' | '?' => name.push('x'),
            '[' => {
                name.push('x');
                for inner in rest.by_ref() {
                    if inner == ']' {
                        break;
                    }
                }
            }
            other => name.push(other),
        }
    }
    name
}

/// Whether the write cannot do anything: its place cannot exist, or is a directory that a copy goes
/// into and not over.
fn without_effect(write: &Write, resolved: &ResolvedPath, removes: bool) -> bool {
    let into = matches!(
        write.by.as_str(),
        "cp" | "mv" | "ln" | "install" | "mkdir" | "rsync" | "tee" | ">" | "touch"
    );
    match resolved.kind {
        Kind::Impossible => !removes,
        Kind::Directory => into && write.kind == WriteKind::Change && !removes,
        Kind::Missing | Kind::File => false,
    }
}

/// A link is deleted itself, and written through; programs that replace it do either.
fn both_places(write: &Write, resolved: &ResolvedPath, facts: &Facts) -> Vec<Place> {
    let directory = resolved.kind == Kind::Directory;
    let entry = inside(&resolved.entry, directory, facts);
    let real = inside(&resolved.real, directory, facts);
    let replaces =
        matches!(write.by.as_str(), "ln" | "mv" | "install" | "tar" | "unzip" | "rsync" | "sed");
    match write.kind {
        WriteKind::Delete | WriteKind::DeleteTree => vec![entry],
        WriteKind::Change | WriteKind::WriteBelow if replaces && entry != real => vec![real, entry],
        WriteKind::Change | WriteKind::WriteBelow => vec![real],
    }
}

fn inside(path: &str, directory: bool, facts: &Facts) -> Place {
    if facts.root.is_empty() {
        return Place::Unknown;
    }
    let root = facts.root.trim_end_matches('/');
    match path.strip_prefix(root) {
        Some("") => Place::Inside { path: String::new(), directory: true },
        Some(rest) if rest.starts_with('/') => {
            Place::Inside { path: rest.trim_start_matches('/').to_owned(), directory }
        }
        _ => Place::Outside(path.to_owned()),
    }
}
#[cfg(test)]
mod tests;
