//! An area: the paths that one list of globs matches and another does not. Computes whether two areas overlap.

use std::collections::{BTreeMap, BTreeSet};

use gix_glob::Pattern;
use gix_glob::pattern::Mode;

use super::Globs;
use super::machine::{List, Machine, Places, Unclear, fixed};

/// The maximum number of states to search before two areas count as overlapping.
const MAX_STATES: usize = 20_000;

const ONE: List = List(0);
const NOT_ONE: List = List(1);
const OTHER: List = List(2);
const NOT_OTHER: List = List(3);

/// The paths that one list of globs matches and another does not.
#[derive(Debug, Clone, Default)]
pub struct Area {
    inside: Globs,
    except: Globs,
}

/// Whether two areas meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Overlap {
    /// No path is in both.
    Never,
    /// This path is in both.
    At(String),
    /// Not decidable, so they count as overlapping; this is why.
    Unclear(String),
}

impl Area {
    /// The area of these globs, without the paths that the others match.
    pub fn new(inside: &[String], except: &[String]) -> Self {
        Self { inside: Globs::parse(inside), except: Globs::parse(except) }
    }

    /// Whether a file of this path is in it.
    pub fn contains(&self, path: &str) -> bool {
        self.contains_entry(path, false)
    }

    /// Whether it contains the entry of a tree at this path: a file, or a submodule, which is a directory.
    pub fn contains_entry(&self, path: &str, is_directory: bool) -> bool {
        self.inside.matches(path, is_directory) && !self.except.matches(path, is_directory)
    }

    /// The distinct fixed prefixes of its paths; an empty one means any path. Two areas can overlap only if a prefix
    /// of one starts with a prefix of the other.
    pub fn beginnings(&self) -> BTreeSet<String> {
        self.inside.patterns.iter().map(beginning).collect()
    }

    /// Whether a path can be in both.
    ///
    /// Exact: all lists become one automaton, whose states are searched, shortest path first. The search is bounded:
    /// beyond the bound, the areas count as overlapping.
    pub fn overlap(&self, other: &Self) -> Overlap {
        let (one, others) = self.near(other);
        let mut machine = Machine::default();
        machine.add(ONE, one, Unclear::Everything);
        machine.add(NOT_ONE, &self.except.patterns, Unclear::Nothing);
        machine.add(OTHER, others, Unclear::Everything);
        machine.add(NOT_OTHER, &other.except.patterns, Unclear::Nothing);
        match search(&machine) {
            Found::Nothing => Overlap::Never,
            Found::Path(path) if self.contains(&path) && other.contains(&path) => Overlap::At(path),
            Found::Path(path) => {
                Overlap::Unclear(format!("a glob cannot be resolved, and may have `{path}`"))
            }
            Found::TooMuch => {
                Overlap::Unclear("the globs are too many, or too tangled, to compare".to_owned())
            }
        }
    }

    /// The globs of both whose beginnings agree with one of the other's.
    fn near<'a>(&'a self, other: &'a Self) -> (Vec<&'a Pattern>, Vec<&'a Pattern>) {
        let agree = |one: &Pattern, other: &Pattern| {
            let (one, other) = (beginning(one), beginning(other));
            one.starts_with(&other) || other.starts_with(&one)
        };
        let near = |some: &'a Globs, others: &'a Globs| -> Vec<&'a Pattern> {
            let meets = |glob: &&Pattern| others.patterns.iter().any(|other| agree(glob, other));
            some.patterns.iter().filter(meets).collect()
        };
        (near(&self.inside, &other.inside), near(&other.inside, &self.inside))
    }
}

impl Globs {
    /// Whether a path can be on both lists.
    pub fn overlap(&self, other: &Self) -> Overlap {
        let area = |inside: &Self| Area { inside: inside.clone(), except: Self::default() };
        area(self).overlap(&area(other))
    }
}

pub(super) fn beginning(glob: &Pattern) -> String {
    let named = glob.mode.contains(Mode::NO_SUB_DIR) && !glob.mode.contains(Mode::ABSOLUTE);
    match named {
        true => String::new(),
        // A glob is text, so its part before an ASCII character is text, too.
        false => String::from_utf8_lossy(fixed(glob)).into_owned(),
    }
}

/// The current component of a path, because `.` and `..` are not names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Before,
    Dot,
    Dots,
    Inside,
}

impl Name {
    fn behind(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Before | Self::Dot | Self::Dots, b'/') => None,
            (Self::Inside, b'/') => Some(Self::Before),
            (Self::Before, b'.') => Some(Self::Dot),
            (Self::Dot, b'.') => Some(Self::Dots),
            (Self::Before | Self::Dot | Self::Dots | Self::Inside, _) => Some(Self::Inside),
        }
    }
}

enum Found {
    Nothing,
    Path(String),
    TooMuch,
}

/// Looks for the shortest path that both areas have.
fn search(machine: &Machine) -> Found {
    let bytes = representatives(machine);
    let start = (Name::Before, machine.start());
    let mut seen: BTreeSet<(Name, Places)> = BTreeSet::from([start.clone()]);
    // Each with the byte that led to it, and from which.
    let mut reached: Vec<(usize, u8, (Name, Places))> = vec![(0, 0, start)];
    let mut at = 0;
    while let Some((_, _, (name, places))) = reached.get(at).cloned() {
        for byte in &bytes {
            let Some(name) = name.behind(*byte) else { continue };
            let places = machine.step(&places, *byte);
            if cannot_be_in_both(machine, &places) {
                continue;
            }
            let found = name == Name::Inside && is_in_both(machine, &places);
            let situation = (name, places);
            if !found && !seen.insert(situation.clone()) {
                continue;
            }
            reached.push((at, *byte, situation));
            if found {
                return Found::Path(path(&reached));
            }
            if reached.len() > MAX_STATES {
                return Found::TooMuch;
            }
        }
        at += 1;
    }
    Found::Nothing
}

fn is_in_both(machine: &Machine, places: &Places) -> bool {
    let has = |list| machine.has(places, list);
    has(ONE) && has(OTHER) && !has(NOT_ONE) && !has(NOT_OTHER)
}

/// Whether no path with this prefix can be in both areas.
fn cannot_be_in_both(machine: &Machine, places: &Places) -> bool {
    !machine.is_open(places, ONE)
        || !machine.is_open(places, OTHER)
        || machine.has_all(places, NOT_ONE)
        || machine.has_all(places, NOT_OTHER)
}

/// The path that led to the last situation.
fn path(reached: &[(usize, u8, (Name, Places))]) -> String {
    let mut bytes = Vec::new();
    let mut at = reached.len().saturating_sub(1);
    while let Some((before, byte, _)) = reached.get(at).filter(|_| at > 0) {
        bytes.push(*byte);
        at = *before;
    }
    bytes.reverse();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One byte for each class of bytes that no glob distinguishes, the most readable one.
fn representatives(machine: &Machine) -> Vec<u8> {
    let rank = |byte: u8| match byte {
        b'a'..=b'z' => 0,
        b'0'..=b'9' | b'A'..=b'Z' | b'_' | b'-' => 1,
        0x21..=0x7e => 2,
        0x20 => 3,
        0..=0x7f => 4,
        0x80.. => 5,
    };
    let mut groups: BTreeMap<(Vec<bool>, bool, bool), u8> = BTreeMap::new();
    for byte in 1..=u8::MAX {
        let told = machine.sets().iter().map(|set| set.has(byte)).collect();
        let best = groups.entry((told, byte == b'/', byte == b'.')).or_insert(byte);
        if rank(byte) < rank(*best) {
            *best = byte;
        }
    }
    let mut bytes: Vec<u8> = groups.into_values().collect();
    bytes.sort_by_key(|byte| (rank(*byte), *byte));
    bytes
}
