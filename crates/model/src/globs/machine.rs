//! Lists of globs as one nondeterministic automaton that reads a path byte by byte.

use gix_glob::Pattern;
use gix_glob::pattern::Mode;

use super::pieces::{Bytes, Piece, Reading, read};

/// Which list a place belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct List(pub(super) u8);

/// A place in the machine.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Continues after one of these bytes.
    Read(Bytes, usize),
    /// Is in two states at the same time.
    Both(usize, usize),
    /// The path that was read is on the list.
    End,
    /// The path is in a directory that is on the list, and so is everything below it.
    Below,
}

/// How a list treats an unclear glob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unclear {
    /// Every path with its fixed prefix counts as matched.
    Everything,
    Nothing,
}

#[derive(Debug, Default)]
pub(super) struct Machine {
    places: Vec<(Place, List)>,
    starts: Vec<usize>,
    /// The sets of bytes that matter, each once.
    sets: Vec<Bytes>,
}

/// Where a machine is: sorted, each once.
pub(super) type Places = Vec<usize>;

impl Machine {
    /// Adds the globs of a list.
    pub(super) fn add<'a>(
        &mut self,
        list: List,
        globs: impl IntoIterator<Item = &'a Pattern>,
        unclear: Unclear,
    ) {
        let below = self.place(Place::Below, list);
        // Globs that match at any depth share their prefix.
        let mut anywhere = Vec::new();
        for glob in globs {
            let named = glob.mode.contains(Mode::NO_SUB_DIR) && !glob.mode.contains(Mode::ABSOLUTE);
            let pieces = match read(&glob.text) {
                Reading::Pieces(pieces) => pieces,
                Reading::Never => continue,
                Reading::Unclear if unclear == Unclear::Nothing => continue,
                Reading::Unclear => {
                    let fixed = fixed(glob).iter().map(|byte| Piece::One(Bytes::one(*byte)));
                    fixed.chain([Piece::Deep]).collect()
                }
            };
            let end = self.place(Place::End, list);
            let slash = self.reading(Bytes::one(b'/'), below, list);
            let mut next = match glob.mode.contains(Mode::MUST_BE_DIR) {
                true => slash,
                false => self.place(Place::Both(end, slash), list),
            };
            let (begins_anywhere, pieces) = match pieces.split_first() {
                Some((Piece::Directories, rest)) => (true, rest),
                Some((Piece::One(_) | Piece::Star | Piece::Deep, _)) | None => {
                    (named, pieces.as_slice())
                }
            };
            for piece in pieces.iter().rev() {
                next = self.piece(*piece, next, list, named);
            }
            let starts = if begins_anywhere { &mut anywhere } else { &mut self.starts };
            starts.push(next);
        }
        let all =
            anywhere.into_iter().reduce(|one, other| self.place(Place::Both(one, other), list));
        if let Some(all) = all {
            let start = self.piece(Piece::Directories, all, list, false);
            self.starts.push(start);
        }
    }

    fn piece(&mut self, piece: Piece, next: usize, list: List, named: bool) -> usize {
        match piece {
            Piece::One(bytes) => self.reading(bytes, next, list),
            Piece::Star => self.repeated(Bytes::of_name(), next, list),
            // One that means a name is never shown a slash.
            Piece::Deep if named => self.repeated(Bytes::of_name(), next, list),
            Piece::Deep => self.repeated(Bytes::any(), next, list),
            Piece::Directories => {
                let slash = self.reading(Bytes::one(b'/'), next, list);
                let deep = self.repeated(Bytes::any(), slash, list);
                self.place(Place::Both(next, deep), list)
            }
        }
    }

    fn repeated(&mut self, bytes: Bytes, next: usize, list: List) -> usize {
        let here = self.place(Place::Both(next, self.places.len() + 1), list);
        self.reading(bytes, here, list);
        here
    }

    fn reading(&mut self, bytes: Bytes, next: usize, list: List) -> usize {
        if !self.sets.contains(&bytes) {
            self.sets.push(bytes);
        }
        self.place(Place::Read(bytes, next), list)
    }

    fn place(&mut self, place: Place, list: List) -> usize {
        self.places.push((place, list));
        self.places.len() - 1
    }

    /// The distinct sets of bytes.
    pub(super) fn sets(&self) -> &[Bytes] {
        &self.sets
    }

    /// The states before the first byte.
    pub(super) fn start(&self) -> Places {
        self.closed(self.starts.clone())
    }

    /// The states after one more byte.
    pub(super) fn step(&self, places: &Places, byte: u8) -> Places {
        let next = places.iter().filter_map(|at| match self.places.get(*at) {
            Some((Place::Read(bytes, next), _)) => bytes.has(byte).then_some(*next),
            Some((Place::Below, _)) => Some(*at),
            Some((Place::Both(..) | Place::End, _)) | None => None,
        });
        self.closed(next.collect())
    }

    /// Follows all transitions that read nothing. A list that matches everything below needs no more states.
    fn closed(&self, mut open: Vec<usize>) -> Places {
        let mut places = Places::new();
        let mut seen = vec![false; self.places.len()];
        let mut full: Vec<List> = Vec::new();
        while let Some(at) = open.pop() {
            match seen.get_mut(at) {
                Some(seen) if !*seen => *seen = true,
                Some(_) | None => continue,
            }
            match self.places.get(at) {
                Some((Place::Both(one, other), _)) => open.extend([*one, *other]),
                Some((Place::Below, list)) => {
                    full.push(*list);
                    places.push(at);
                }
                Some((Place::Read(..) | Place::End, _)) => places.push(at),
                None => {}
            }
        }
        if !full.is_empty() {
            places.retain(|at| {
                self.is_below(*at) || !self.list(*at).is_some_and(|of| full.contains(&of))
            });
        }
        places.sort_unstable();
        places
    }

    /// Whether a list has the path that was read.
    pub(super) fn has(&self, places: &Places, list: List) -> bool {
        places.iter().any(|at| {
            matches!(self.places.get(*at), Some((Place::End | Place::Below, of)) if *of == list)
        })
    }

    /// Whether a list matches, or can still match, a path with this prefix.
    pub(super) fn is_open(&self, places: &Places, list: List) -> bool {
        places.iter().any(|at| self.list(*at) == Some(list))
    }

    /// Whether a list matches every path with this prefix.
    pub(super) fn has_all(&self, places: &Places, list: List) -> bool {
        places.iter().any(|at| self.is_below(*at) && self.list(*at) == Some(list))
    }

    fn is_below(&self, at: usize) -> bool {
        matches!(self.places.get(at), Some((Place::Below, _)))
    }

    fn list(&self, at: usize) -> Option<List> {
        self.places.get(at).map(|(_, list)| *list)
    }
}

/// The text in front of the first wildcard.
pub(super) fn fixed(glob: &Pattern) -> &[u8] {
    let end = glob.first_wildcard_pos.unwrap_or(glob.text.len());
    glob.text.get(..end).unwrap_or_default()
}
