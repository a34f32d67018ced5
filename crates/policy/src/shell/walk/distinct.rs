//! Removes repeated effects.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Removes repeated items; the first of each stays.
pub(super) fn distinct<T: Eq + Hash>(items: &mut Vec<T>) {
    if items.len() < 2 {
        return;
    }
    let mut seen = HashSet::with_capacity_and_hasher(
        items.len(),
        BuildHasherDefault::<QuickHasher>::default(),
    );
    let first: Vec<bool> = items.iter().map(|item| seen.insert(item)).collect();
    let mut first = first.into_iter();
    items.retain(|_| first.next().unwrap_or(true));
}

/// FNV-1a by words. The limit on the number of effects bounds what an attacker gains by collisions.
#[derive(Default)]
struct QuickHasher(u64);

impl QuickHasher {
    fn add(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }
}

impl Hasher for QuickHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            self.add(chunk.iter().fold(0, |word, byte| (word << 8) | u64::from(*byte)));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.add(u64::from(value));
    }

    fn write_usize(&mut self, value: usize) {
        self.add(u64::try_from(value).unwrap_or(u64::MAX));
    }

    fn finish(&self) -> u64 {
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}
