//! An area: what one list of globs has and another has not. Whether two of them meet.

use std::collections::{BTreeMap, BTreeSet};

use gix_glob::Pattern;
use gix_glob::pattern::Mode;

use super::Globs;
use super::machine::{List, Machine, Places, Unclear, fixed};

/// How many situations are looked at before two areas are taken to meet.
const MAX_STATES: usize = 20_000;

const ONE: List = List(0);
const NOT_ONE: List = List(1);
const OTHER: List = List(2);
const NOT_OTHER: List = List(3);

/// What one list of globs has and another has not.
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
    /// Nobody can tell, so they are taken to meet; this is why.
    Unclear(String),
}

impl Area {
    /// The area of these globs, without what the others have.
    pub fn new(inside: &[String], except: &[String]) -> Self {
        Self { inside: Globs::parse(inside), except: Globs::parse(except) }
    }

    /// Whether a file of this path is in it.
    pub fn contains(&self, path: &str) -> bool {
        self.contains_entry(path, false)
    }

    /// Whether what a tree has at this path is in it: a file, or a submodule, which is a directory.
    pub fn contains_entry(&self, path: &str, is_directory: bool) -> bool {
        self.inside.matches(path, is_directory) && !self.except.matches(path, is_directory)
    }

    /// The beginnings that its paths have, each once; an empty one stands for every path. Two areas
    /// can meet only where a beginning of one begins with a beginning of the other.
    pub fn beginnings(&self) -> BTreeSet<String> {
        self.inside.patterns.iter().map(beginning).collect()
    }

    /// Whether a path can be in both.
    ///
    /// Exact: every list becomes a part of one machine, and every situation that it can come into is
    /// looked at, shortest path first. It is bounded: past the bound they are taken to meet.
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
        // A glob is text, and what ends before an ASCII character of it is text too.
        false => String::from_utf8_lossy(fixed(glob)).into_owned(),
    }
}

/// How far a name has been read, since `.` and `..` are none.
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
            if is_hopeless(machine, &places) {
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

/// Whether nothing that begins so can be in both.
fn is_hopeless(machine: &Machine, places: &Places) -> bool {
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

/// One byte for all that no glob tells apart, the most readable of them.
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
