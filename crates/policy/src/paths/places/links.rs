//! Writes through links that the same call creates or copies.

use super::candidates::{Candidate, CandidatePath, absolute, join};
use crate::effects::Effects;
use crate::facts::{Facts, Kind};
use crate::shell::{CopyWithLinks, LinkPlace, WriteKind, is_spelt_through};

/// The absolute paths at which the call creates links.
pub(super) fn created_links(effects: &Effects, facts: &Facts) -> Vec<String> {
    effects.links.iter().filter_map(|link| link_path(link, facts)).collect()
}

pub(super) fn link_path(link: &LinkPlace, facts: &Facts) -> Option<String> {
    match link {
        LinkPlace::Path(path) => absolute(Some(path), facts),
        LinkPlace::UnderHome(rest) => facts.home.as_deref().map(|home| join(home, rest)),
        // No earlier link leads below a new directory.
        LinkPlace::Temporary => None,
    }
}

/// The copies whose sources have links, or may have them: a later write may follow one.
pub(super) fn copies_with_links<'a>(effects: &'a Effects, facts: &Facts) -> Vec<&'a CopyWithLinks> {
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

/// Whether a path passes through a link that the call copies.
pub(super) fn passes_copied_link(
    copies: &[&CopyWithLinks],
    candidate: &Candidate<'_>,
    facts: &Facts,
    removes: bool,
) -> bool {
    let copies_itself = matches!(candidate.write.by.as_str(), "cp" | "rsync");
    let mut others =
        copies.iter().filter(|copy| !(copies_itself && copy.own.contains(&candidate.write.path)));
    let (path, below) = match &candidate.path_kind {
        CandidatePath::Path(path) => (path, candidate.write.kind == WriteKind::WriteBelow),
        CandidatePath::Glob { directory, .. } => (directory, true),
        CandidatePath::Below(path) => (path, true),
        CandidatePath::Temporary => {
            let is_temporary = |at: &LinkPlace| *at == LinkPlace::Temporary;
            return others.any(|copy| copy.at.as_ref().is_none_or(is_temporary));
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

/// Whether a path passes through a link that the call creates, under another name that an earlier link gives it:
/// the text does not show this, the resolved paths do.
pub(super) fn passes_created_link(
    created_links: &[String],
    candidate: &Candidate<'_>,
    facts: &Facts,
) -> bool {
    let (path, below) = match &candidate.path_kind {
        CandidatePath::Path(path) => (path, candidate.write.kind == WriteKind::WriteBelow),
        CandidatePath::Glob { directory, .. } => (directory, true),
        CandidatePath::Below(path) => (path, true),
        CandidatePath::Temporary | CandidatePath::Unknown => return false,
    };
    created_links.iter().filter(|at| !is_spelt_through(at, path, below)).any(|at| {
        let entry = facts.paths.get(at).map(|found| found.entry.as_str());
        leads_through(entry, path, below, facts)
    })
}

/// Whether a path resolves to this place or below it. `below`: the write also changes what is below the path.
fn leads_through(place: Option<&str>, path: &str, below: bool, facts: &Facts) -> bool {
    let Some(resolved) = facts.paths.get(path) else { return false };
    let contains = |upper: &str, lower: &str| {
        lower.strip_prefix(upper).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    place.is_none_or(|place| {
        contains(place, &resolved.real) || (below && contains(&resolved.real, place))
    })
}
