//! From written paths to places: inside the workspace, outside of it, or unknown.

use gix_glob::wildmatch::Mode;

use crate::effects::Effects;
use crate::facts::{Facts, Kind, Lookups, ResolvedPath};
use crate::shell::{
    CopyWithLinks, Directory, LinkPlace, Shape, Write, WriteKind, is_spelt_through,
};

/// A file that would be written, where it really is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteTarget {
    /// As the call names it.
    pub shown: String,
    /// Where it is.
    pub place: Place,
    /// What happens to it.
    pub how: WriteKind,
    /// What does it.
    pub by: String,
    /// The files below it, relative to it, if it is deleted with them and they were listed.
    pub below: Option<Vec<String>>,
    /// The files that lie below it now, if it is filled and they were listed.
    pub holds: Option<Vec<String>>,
    /// Whether it may be any number of files.
    pub many: bool,
}

/// Where a path leads.
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
    /// It is not known.
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

/// A path joined to the directory it is relative to; `..` stays, since links decide what it means.
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

/// One way in which a write may be meant.
struct Candidate<'a> {
    write: &'a Write,
    path_kind: CandidatePath,
    unless: Option<String>,
}

enum CandidatePath {
    Path(String),
    Glob { glob: String, directory: String },
    Below(String),
    Temporary,
    Unknown,
}

fn candidates<'a>(effects: &'a Effects, facts: &Facts) -> Vec<Candidate<'a>> {
    let mut all = Vec::new();
    for write in &effects.writes {
        let shape = write.path.shape();
        // A path that does not depend on the directory is asked once.
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
fn absolute(directory: Option<&str>, facts: &Facts) -> Option<String> {
    let directory = directory?;
    if directory.starts_with('/') {
        return Some(directory.to_owned());
    }
    facts.directory.as_deref().map(|base| join(base, directory))
}

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

/// The directories of a glob that have nothing special in them.
fn fixed_directory(glob: &str) -> String {
    let special = glob.find(['*', '?', '[', '\\']).unwrap_or(glob.len());
    let fixed = glob.get(..special).unwrap_or_default();
    match fixed.rfind('/') {
        Some(0) | None => "/".to_owned(),
        Some(slash) => fixed.get(..slash).unwrap_or_default().to_owned(),
    }
}

/// Where the call itself puts links, as absolute paths.
fn created_links(effects: &Effects, facts: &Facts) -> Vec<String> {
    effects.links.iter().filter_map(|link| link_path(link, facts)).collect()
}

fn link_path(link: &LinkPlace, facts: &Facts) -> Option<String> {
    match link {
        LinkPlace::Path(path) => absolute(Some(path), facts),
        LinkPlace::UnderHome(rest) => facts.home.as_deref().map(|home| join(home, rest)),
        // No link that was there before leads below a fresh directory.
        LinkPlace::Temporary => None,
    }
}

/// The copies of which a write may follow a link. What they are copied from has links, or may have them.
fn copies_with_links<'a>(effects: &'a Effects, facts: &Facts) -> Vec<&'a CopyWithLinks> {
    let (mut with, mut without): (Vec<_>, Vec<_>) = effects.copies.iter().partition(|copy| {
        copy.from.as_ref().is_none_or(|from| {
            let path = link_path(from, facts);
            *from != LinkPlace::Temporary
                && path.is_none_or(|path| facts.links.get(&path).is_none_or(|has| *has))
        })
    });
    // A copy of a copy has its links, too.
    if !with.is_empty() {
        with.append(&mut without);
    }
    with
}

/// Whether a path goes through a link that the call copies from somewhere.
fn passes_copied_link(
    copies: &[&CopyWithLinks],
    candidate: &Candidate<'_>,
    facts: &Facts,
    removes: bool,
) -> bool {
    let copies_itself = matches!(candidate.write.by.as_str(), "cp" | "rsync");
    let mut others =
        copies.iter().filter(|copy| !(copies_itself && copy.own.contains(&candidate.write.path)));
    let (path, below) = match &candidate.path_kind {
        CandidatePath::Path(path) => (path, candidate.write.how == WriteKind::WriteBelow),
        CandidatePath::Glob { directory, .. } => (directory, true),
        CandidatePath::Below(path) => (path, true),
        CandidatePath::Temporary => {
            let is_there = |at: &LinkPlace| *at == LinkPlace::Temporary;
            return others.any(|copy| copy.at.as_ref().is_none_or(is_there));
        }
        CandidatePath::Unknown => return false,
    };
    others.any(|copy| match copy.at.as_ref() {
        None => true,
        Some(at) => link_path(at, facts).is_some_and(|at| {
            let found = facts.paths.get(&at);
            let directory = found.is_some_and(|found| found.kind == Kind::Directory);
            if copy.unless_directory && directory && !removes {
                return false;
            }
            let real = found.map(|found| found.real.as_str());
            is_spelt_through(&at, path, below) || leads_through(real, path, below, facts)
        }),
    })
}

/// Whether a path goes through a link that the call puts somewhere, by way of a link that was there
/// before and has another name: what the words do not tell, the places do.
fn passes_created_link(created_links: &[String], candidate: &Candidate<'_>, facts: &Facts) -> bool {
    let (path, below) = match &candidate.path_kind {
        CandidatePath::Path(path) => (path, candidate.write.how == WriteKind::WriteBelow),
        CandidatePath::Glob { directory, .. } => (directory, true),
        CandidatePath::Below(path) => (path, true),
        CandidatePath::Temporary | CandidatePath::Unknown => return false,
    };
    created_links.iter().filter(|at| !is_spelt_through(at, path, below)).any(|at| {
        let entry = facts.paths.get(at).map(|found| found.entry.as_str());
        leads_through(entry, path, below, facts)
    })
}

/// Whether a path really leads through this place, whatever it is called; with what is below it, where
/// that is changed too.
fn leads_through(place: Option<&str>, path: &str, below: bool, facts: &Facts) -> bool {
    let Some(resolved) = facts.paths.get(path) else { return false };
    let holds = |upper: &str, lower: &str| {
        lower.strip_prefix(upper).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    place
        .is_none_or(|place| holds(place, &resolved.real) || (below && holds(&resolved.real, place)))
}

/// Notes what has to be looked up to place these writes.
pub(crate) fn collect_lookups(effects: &Effects, facts: &Facts, lookups: &mut Lookups) {
    lookups.paths.extend(created_links(effects, facts));
    // A copy that is made once, and nothing else: that follows no link which it brings.
    let alone = effects.writes.len() == 1;
    for copy in effects.copies.iter().filter(|copy| !alone || copy.own.is_empty()) {
        lookups.paths.extend(copy.at.as_ref().and_then(|at| link_path(at, facts)));
        lookups.links.extend(copy.from.as_ref().and_then(|from| link_path(from, facts)));
    }
    for candidate in candidates(effects, facts) {
        let tree = match candidate.path_kind {
            CandidatePath::Below(_) => !matches!(candidate.write.how, WriteKind::Delete),
            CandidatePath::Path(_)
            | CandidatePath::Glob { .. }
            | CandidatePath::Temporary
            | CandidatePath::Unknown => {
                matches!(candidate.write.how, WriteKind::DeleteTree | WriteKind::WriteBelow)
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

/// Every place that a call would write, or may write.
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
        for target in placed(&candidate, facts, removes) {
            if !found.contains(&target) {
                found.push(target);
            }
        }
    }
    found
}

fn placed(candidate: &Candidate<'_>, facts: &Facts, removes: bool) -> Vec<WriteTarget> {
    let write = candidate.write;
    let target = |place: Place, how: WriteKind, below: Option<Vec<String>>| WriteTarget {
        shown: write.path.to_string(),
        place,
        how,
        by: write.by.clone(),
        below,
        holds: match (&candidate.path_kind, how) {
            (CandidatePath::Path(path) | CandidatePath::Below(path), WriteKind::WriteBelow) => {
                facts.trees.get(path).cloned().flatten()
            }
            _ => None,
        },
        many: matches!(candidate.path_kind, CandidatePath::Unknown | CandidatePath::Below(_))
            && write.path.may_be_many(),
    };
    match &candidate.path_kind {
        CandidatePath::Unknown => vec![target(Place::Unknown, write.how, None)],
        // Where exactly does not matter: it is fresh, and outside of every workspace.
        CandidatePath::Temporary => {
            vec![target(Place::Outside("/tmp/fresh".to_owned()), write.how, None)]
        }
        CandidatePath::Path(path) if harmless_device(path) => Vec::new(),
        CandidatePath::Path(path) => match facts.paths.get(path) {
            None => vec![target(Place::Unknown, write.how, None)],
            Some(resolved) if without_effect(write, resolved, removes) => Vec::new(),
            Some(resolved) if write.only_existing && resolved.kind != Kind::File => Vec::new(),
            Some(resolved) if write.named.is_some() => found(candidate, path, resolved, facts),
            Some(resolved) => {
                let below = match write.how {
                    WriteKind::DeleteTree => facts.trees.get(path).cloned().flatten(),
                    WriteKind::Change | WriteKind::WriteBelow | WriteKind::Delete => None,
                };
                let places = both_places(write, resolved, facts).into_iter();
                places.map(|place| target(place, write.how, below.clone())).collect()
            }
        },
        CandidatePath::Below(path) => match facts.paths.get(path) {
            None => vec![target(Place::Unknown, write.how, None)],
            // What a search by name finds is listed.
            Some(resolved) if is_listed(write, path, facts) && !removes => {
                found(candidate, path, resolved, facts)
            }
            Some(resolved) => {
                let how = match write.how {
                    WriteKind::Change | WriteKind::WriteBelow => WriteKind::WriteBelow,
                    WriteKind::Delete | WriteKind::DeleteTree => WriteKind::DeleteTree,
                };
                let below = match how {
                    WriteKind::DeleteTree => facts.trees.get(path).cloned().flatten(),
                    WriteKind::Change | WriteKind::WriteBelow | WriteKind::Delete => None,
                };
                // Below a file there is nothing, but beside it may be what is called after it.
                let real = match (resolved.kind, resolved.real.rsplit_once('/')) {
                    (Kind::File, Some((parent, _))) => parent,
                    _ => resolved.real.as_str(),
                };
                vec![target(inside(real, true, facts), how, below)]
            }
        },
        CandidatePath::Glob { glob, directory } => {
            let Some(base) = facts.paths.get(directory) else {
                return vec![target(Place::Unknown, write.how, None)];
            };
            let mut found = Vec::new();
            match facts.globs.get(glob) {
                Some(Some(matches)) => {
                    for resolved in
                        matches.iter().filter(|resolved| !without_effect(write, resolved, removes))
                    {
                        let below = facts.trees.get(&resolved.entry).cloned().flatten();
                        let places = both_places(write, resolved, facts).into_iter();
                        found.extend(places.map(|place| target(place, write.how, below.clone())));
                    }
                }
                Some(None) | None => found.push(target(Place::Unknown, write.how, None)),
            }
            // What the command itself makes, or what is named so by the letter.
            let deletes = matches!(write.how, WriteKind::Delete | WriteKind::DeleteTree);
            if !deletes || removes {
                let rest = glob.get(directory.len()..).unwrap_or_default();
                let probe = format!("{}{}", base.real.trim_end_matches('/'), probe(rest));
                found.push(target(inside(&probe, false, facts), write.how, Some(Vec::new())));
            }
            found
        }
    }
}

/// Whether files are changed that a search finds by name, and they are listed.
fn is_listed(write: &Write, path: &str, facts: &Facts) -> bool {
    let listed = facts.trees.get(path).is_some_and(Option::is_some);
    write.how == WriteKind::Change && write.named.is_some() && listed
}

/// The files that a search finds; by a name that would be found if they were not listed.
fn found(
    candidate: &Candidate<'_>,
    path: &str,
    resolved: &ResolvedPath,
    facts: &Facts,
) -> Vec<WriteTarget> {
    let glob = candidate.write.named.as_deref().unwrap_or_default();
    let target = |below: &str, many: bool| WriteTarget {
        shown: below.to_owned(),
        place: inside(&join(&resolved.entry, below), false, facts),
        how: match candidate.write.how {
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
        Some(None) | None => vec![target(&probe(glob), true)],
    }
}

/// A name that a glob would match.
fn probe(glob: &str) -> String {
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
        Kind::Directory => into && write.how == WriteKind::Change && !removes,
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
    match write.how {
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
mod tests {
    use super::*;

    /// `zl2` was there and leads to `zf1`, in whose place the command puts a link to elsewhere.
    #[test]
    fn a_link_that_is_met_by_another_name_hides_where_a_write_goes() {
        let unseen = |command: &str| {
            let reading = crate::shell::read(command);
            let (writes, links, copies) = (reading.writes, reading.links, reading.copies);
            let effects = Effects { writes, links, copies, ..Effects::default() };
            let mut facts =
                Facts { root: "/w".into(), directory: Some("/w".into()), ..Facts::default() };
            let mut lookups = Lookups::default();
            collect_lookups(&effects, &facts, &mut lookups);
            for path in lookups.paths {
                let plain = path.replace("/zl1/..", "");
                let entry = plain.replace("/zl2/", "/zf1/");
                let real = plain.replace("/zl2", "/zf1");
                let kind = if real.starts_with("/w/zf1/") { Kind::Impossible } else { Kind::File };
                facts.paths.insert(path, ResolvedPath { entry, real, kind });
            }
            let globs = lookups.globs.into_keys();
            facts.globs.extend(globs.map(|glob| (glob, Some(Vec::new()))));
            facts.links.extend(lookups.links.into_iter().map(|path| {
                let linked = path.contains("zd2");
                (path, linked)
            }));
            write_targets(&effects, &facts).iter().any(|target| target.place == Place::Unknown)
        };
        for command in [
            "ln -s zl2 zk; ln -sf ../zout zl1/../zf1; echo y > zk/zq",
            "ln -sf ../zout zf1; echo y > zl2/zq",
            "ln -sf ../zout zf1; echo y > zl2",
            "ln -sf ../zout zf1; cp -r zd1 zl2",
            // There are links in `zd2`.
            "cp -r zd2 zd3; chmod 600 zd3/*",
            "cp -r zd2 zd3; cp -r zd3 zd4; echo y > zd4/zd3/zm",
            "cp -RL -a zd2 zd3; echo y > zd3/zm",
            "rsync -a zd2/ zd3; echo y > zd3/zm",
            "cp -a zd2 zf1; echo y > zl2/zm",
            "for x in 1 2; do cp -r zd2 zd3; done",
            "d=$(mktemp -d); cp -r zd2 $d/x; echo y > $d/x/zm",
        ] {
            assert!(unseen(command), "{command}");
        }
        for command in [
            "echo y > zl2",
            "ln -s ../zout zk; echo y > zl2",
            "ln -s zd1 zk; touch zk/a",
            "cp -r zd1 zd3; chmod 600 zd3/*",
            "cp -r zd2 zd3; echo y > zf9",
            "cp -rL zd2 zd3; echo y > zd3/zm",
            "cp -r zd2 zd3",
            "d=$(mktemp -d); cp -r zd1 $d/x; echo y > $d/x/zm",
            "for x in 1 2; do cp -r zd1 zd3; done",
        ] {
            assert!(!unseen(command), "{command}");
        }
    }

    #[test]
    fn only_a_descriptor_itself_is_no_file() {
        for path in ["/dev/null", "/dev/fd/3", "/proc/self/fd/1", "/dev/stderr"] {
            assert!(harmless_device(path), "{path}");
        }
        for path in [
            "/dev/fd/../cwd/x",
            "/dev/fd/3/../../cwd/x",
            "/proc/self/fd/../cwd/x",
            "/dev/fd/",
            "/dev/fd/x",
            "/dev/shm/x",
        ] {
            assert!(!harmless_device(path), "{path}");
        }
    }
}
