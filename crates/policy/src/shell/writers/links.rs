//! Links that a command creates: writes through them have other targets, too.

use std::rc::Rc;

use super::super::field::{Field, Piece};
use super::super::walk::Walker;
use super::super::working_directories::{from_place, tidy};
use super::super::{CopyWithLinks, Directory, HiddenReason, LinkPlace, Write, WriteKind};

/// A name for what has another name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Link {
    /// Its place relative to the initial directory; `None` if unknown.
    at: Option<String>,
    /// Its target relative to that directory; `None` if unknown.
    to: Option<Field>,
    /// What the command that created it may have written before.
    own: Vec<Field>,
}

/// A copy in which links stay links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Copied {
    link: Link,
    unless_directory: bool,
}

/// How the home and a fresh directory are spelt: as no file is.
const HOME_ROOT: &str = "\0home ";
const TEMPORARY_ROOT: &str = "\0temporary";

/// More names than this are too many to follow.
const MAX_COUNT: usize = 64;

impl Walker {
    /// `ln`: names that the sources get.
    pub(super) fn linked(&mut self, sources: &[Field], targets: &[Field], symbolic: bool) {
        let places = Rc::clone(&self.environment.working_directories.places);
        for place in places.iter() {
            for target in targets {
                let at = from_place(place.path.as_ref(), target);
                for source in sources {
                    // A symbolic link is seen from where it is.
                    let to = if symbolic && !source.is_absolute() {
                        let parent = at.as_ref().and_then(Field::parent);
                        parent.and_then(|parent| from_place(Some(&parent), source))
                    } else {
                        from_place(place.path.as_ref(), source)
                    };
                    self.link(at.as_ref(), to, targets);
                }
            }
        }
    }

    /// `mv` and `cp -a`: links are moved and copied with what they stand in.
    pub(super) fn moved_links(&mut self, sources: &[Field], targets: &[Field], moved: bool) {
        let places = Rc::clone(&self.environment.working_directories.places);
        for place in places.iter() {
            let resolve = |field: &Field| from_place(place.path.as_ref(), field);
            for target in targets {
                let at = resolve(target);
                for source in sources {
                    let to = resolve(source);
                    let (spelt, _) = to.as_ref().and_then(spelt).unzip();
                    let holds = |link: &Link| match (&spelt, &link.at) {
                        (Some(text), Some(at)) => {
                            at == text || at.starts_with(&format!("{text}/")) || text.contains("..")
                        }
                        (None, _) | (_, None) => true,
                    };
                    let holds = self.links.iter().any(holds);
                    let clear = at.as_ref().and_then(spelt_whole).is_some();
                    if holds || (moved && clear) {
                        self.link(at.as_ref(), to, targets);
                    }
                }
            }
        }
    }

    /// Copies in which links stay links, `cp -r` and `rsync -a`. One of the targets may be the name of the copy only
    /// if it is not a directory.
    pub(super) fn copied_with_links(
        &mut self,
        sources: &[Field],
        targets: &[Field],
        unless_directory: Option<&Field>,
    ) {
        let places = Rc::clone(&self.environment.working_directories.places);
        for place in places.iter() {
            for target in targets {
                let at = from_place(place.path.as_ref(), target);
                let unless_directory = unless_directory == Some(target);
                for source in sources {
                    let from = from_place(place.path.as_ref(), source);
                    let link = self.new_link(at.as_ref(), from, targets);
                    match self.copies.iter_mut().find(|copy| copy.link.is_same(&link)) {
                        Some(copy) => {
                            copy.link.own.clear();
                            copy.unless_directory &= unless_directory;
                        }
                        None => self.copies.push(Copied { link, unless_directory }),
                    }
                }
            }
        }
    }

    fn link(&mut self, at: Option<&Field>, to: Option<Field>, targets: &[Field]) {
        let link = self.new_link(at, to, targets);
        match self.links.iter_mut().find(|known| known.is_same(&link)) {
            // It is created again and may exist already.
            Some(known) => known.own.clear(),
            None => self.links.push(link),
        }
    }

    fn new_link(&self, at: Option<&Field>, to: Option<Field>, targets: &[Field]) -> Link {
        let own = if self.loops > 0 { Vec::new() } else { targets.to_vec() };
        Link { at: at.and_then(spelt_whole), to, own }
    }

    /// Adds what is written through the links of the command.
    pub(in super::super) fn follow_links(&mut self) {
        let copies = std::mem::take(&mut self.copies);
        self.reading.copies = copies.into_iter().map(Copied::reported).collect();
        let links = std::mem::take(&mut self.links);
        if links.is_empty() {
            return;
        }
        self.reading.links =
            links.iter().filter_map(|link| link.at.as_deref().map(link_place)).collect();
        let mut next = 0;
        // Through which links each write goes: once through each is enough.
        let mut passed: Vec<Vec<usize>> = vec![Vec::new(); self.reading.writes.len()];
        while let Some(write) = self.reading.writes.get(next).cloned() {
            let before = passed.get(next).cloned().unwrap_or_default();
            next += 1;
            for (number, link) in links.iter().enumerate().filter(|(n, _)| !before.contains(n)) {
                let leads = write.from.iter().flat_map(|place| through(link, place, &write));
                for path in leads.collect::<Vec<Field>>() {
                    let from = vec![Directory::start()];
                    let more = Write { path, from, ..write.clone() };
                    if !self.reading.writes.contains(&more) {
                        self.reading.writes.push(more);
                        passed.push(before.iter().copied().chain([number]).collect());
                    }
                }
            }
            if self.reading.writes.len() > MAX_COUNT * 8 {
                return self.hide(HiddenReason::TooComplex, "links");
            }
        }
    }
}

impl Link {
    fn is_same(&self, other: &Self) -> bool {
        self.at == other.at && self.to == other.to
    }
}

impl Copied {
    fn reported(self) -> CopyWithLinks {
        let Link { at, to, own } = self.link;
        CopyWithLinks {
            from: to.as_ref().and_then(spelt_whole).as_deref().map(link_place),
            at: at.as_deref().map(link_place),
            unless_directory: self.unless_directory,
            own,
        }
    }
}

/// The literal beginning of a path, and the pieces after it.
fn spelt(path: &Field) -> Option<(String, Vec<Piece>)> {
    let text = |piece: &Piece| match piece {
        Piece::Text(text) | Piece::Pattern(text) | Piece::Match(text) => Some(text.clone()),
        Piece::Home(_)
        | Piece::Start
        | Piece::Pipe
        | Piece::Temporary
        | Piece::Name
        | Piece::Names
        | Piece::Below
        | Piece::Unknown
        | Piece::UnknownMany => None,
    };
    let (first, behind) = path.pieces().split_first()?;
    // Roots that have no name here get one that no file has.
    let (root, pieces) = if let Piece::Home(user) = first {
        (format!("{HOME_ROOT}{}", user.as_deref().unwrap_or_default()), behind)
    } else if *first == Piece::Temporary {
        (TEMPORARY_ROOT.to_owned(), behind)
    } else {
        (text(first)?, behind)
    };
    let whole: String = std::iter::once(root).chain(pieces.iter().map_while(text)).collect();
    let rest = pieces.iter().skip_while(|piece| text(piece).is_some()).cloned();
    let rest: Vec<Piece> = rest.collect();
    let end = if rest.is_empty() { "" } else { trailing(&whole) };
    Some((tidy(&whole) + end, rest))
}

fn link_place(spelling: &str) -> LinkPlace {
    match spelling.strip_prefix(HOME_ROOT) {
        Some(rest) => LinkPlace::UnderHome(rest.trim_start_matches('/').to_owned()),
        None if spelling.starts_with(TEMPORARY_ROOT) => LinkPlace::Temporary,
        None => LinkPlace::Path(spelling.to_owned()),
    }
}

/// How a path is spelt, if all of it is text.
fn spelt_whole(path: &Field) -> Option<String> {
    let wild = |piece: &Piece| matches!(piece, Piece::Pattern(_) | Piece::Match(_));
    let (text, rest) = spelt(path)?;
    (rest.is_empty() && !path.pieces().iter().any(wild)).then_some(text)
}

/// The target of a write through a link; none if it does not pass through it.
fn through(link: &Link, directory: &Directory, write: &Write) -> Vec<Field> {
    let makes = matches!(write.by.as_str(), "ln" | "mv" | "cp");
    if makes && link.own.contains(&write.path) {
        return Vec::new();
    }
    let place = directory.path.clone().map(Field::text);
    let Some(path) = from_place(place.as_ref(), &write.path) else { return Vec::new() };
    let Some(at) = &link.at else { return vec![Field::unknown()] };
    let Some((text, rest)) = spelt(&path) else { return Vec::new() };
    let (behind, exact) = match text.strip_prefix(at.as_str()) {
        Some(behind) if behind.is_empty() || behind.starts_with('/') => {
            (vec![behind.to_owned()], true)
        }
        _ => (loosely(at, &text), false),
    };
    // A recursive change applies to what is behind links below, too.
    let fills =
        (write.kind == WriteKind::WriteBelow && write.by != "mv") || rest.contains(&Piece::Below);
    if fills && holds(&text, at) {
        let whole = link.to.as_ref().map(|to| match write.kind {
            WriteKind::WriteBelow => to.clone(),
            WriteKind::Change | WriteKind::Delete | WriteKind::DeleteTree => {
                Field::of(to.pieces().iter().cloned().chain([Piece::Below]).collect())
            }
        });
        return vec![whole.unwrap_or_else(Field::unknown)];
    }
    // Deleting a name deletes nothing else, and what is moved to a name replaces it.
    let away = matches!(write.kind, WriteKind::Delete | WriteKind::DeleteTree)
        || write.by == "ln"
        || (!exact
            && (write.by == "mv" || (write.by == "cp" && write.kind == WriteKind::WriteBelow)));
    let deeper = behind.into_iter().filter(|behind| {
        let itself = behind.is_empty() && rest.is_empty();
        !(itself && away)
    });
    let lead = |behind: String| {
        let Some(to) = &link.to else { return Field::unknown() };
        let wild = behind.contains(['*', '?', '[']);
        let first = if wild { Piece::Pattern(behind) } else { Piece::Text(behind) };
        to.joined(&Field::of(std::iter::once(first).chain(rest.iter().cloned()).collect()))
    };
    deeper.map(lead).collect()
}

/// Whether a directory contains this path, by their names.
fn holds(directory: &str, path: &str) -> bool {
    let directory = directory.trim_end_matches('/');
    let dotted = |path: &str| path.split('/').any(|part| part == "..");
    let differently = directory.starts_with('/') != path.starts_with('/');
    directory.is_empty()
        || dotted(directory)
        || dotted(path)
        || differently
        || path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

fn trailing(text: &str) -> &str {
    if text.len() > 1 && text.ends_with('/') { "/" } else { "" }
}

/// Whether a path is spelt so that it was followed through the link; with what is below it, where that
/// is changed too.
pub fn is_spelt_through(link: &str, path: &str, fills: bool) -> bool {
    let exact = path.strip_prefix(link);
    exact.is_some_and(|behind| behind.is_empty() || behind.starts_with('/'))
        || !loosely(link, path).is_empty()
        || (fills && holds(path, link))
}

/// A path that is spelt in another way may still go through the link: with `..` in it, absolute
/// where the link is not, with a pattern, or by way of a link that was there before. Then its name
/// alone decides; what stands behind it, wherever it may stand.
fn loosely(link: &str, text: &str) -> Vec<String> {
    let name = link.rsplit('/').next().filter(|name| !name.is_empty() && *name != "..");
    let Some(name) = name else { return Vec::new() };
    let parts: Vec<&str> = text.split('/').collect();
    let at = (0..parts.len()).filter(|at| parts.get(*at).is_some_and(|part| matches(part, name)));
    let behind = |at: usize| parts.iter().skip(at + 1).map(|part| format!("/{part}")).collect();
    at.map(behind).collect()
}

/// Whether a part of a pattern matches a name; brackets match anything.
fn matches(pattern: &str, name: &str) -> bool {
    if pattern.contains('[') {
        return true;
    }
    let mut characters = pattern.chars();
    match characters.next() {
        None => name.is_empty(),
        Some('*') => {
            let rest = characters.as_str();
            name.char_indices()
                .map(|(at, _)| at)
                .chain([name.len()])
                .any(|at| name.get(at..).is_some_and(|tail| matches(rest, tail)))
        }
        Some(first) => {
            let mut names = name.chars();
            names.next().is_some_and(|c| first == '?' || first == c)
                && matches(characters.as_str(), names.as_str())
        }
    }
}
