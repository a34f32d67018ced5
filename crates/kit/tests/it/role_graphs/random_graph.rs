//! Random role graphs.

use bailiwick_testkit::random::Random;

use super::model::{Graph, POOL, Written};

pub(super) const MAX_ROLES: usize = 20;
/// Names beyond those of any graph, for roles that do not exist.
pub(super) const MISSING: usize = 3;

/// How the roles of a graph are connected.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// Each extends any other, itself, none, or a missing role.
    Anything,
    /// Each extends one with a higher number, so that there is no cycle.
    Forest,
    /// Each extends the next; the last may extend anything.
    Chain,
}

pub(super) fn random_graph(random: &mut Random) -> Graph {
    let shape = match random.below(4) {
        0 | 1 => Shape::Anything,
        2 => Shape::Forest,
        _ => Shape::Chain,
    };
    let roles = match shape {
        Shape::Anything | Shape::Forest => 1 + random.below(MAX_ROLES),
        Shape::Chain => MAX_ROLES - random.below(7),
    };
    // A long graph leaves out few parents, so that not every walk is short.
    let rootless = 2 + random.below(12);
    (0..roles)
        .map(|role| Written {
            extends: random_parent(random, shape, role, roles, rootless),
            required: random_list(random, 5),
            relaxes: if random.once_in(2) { random_list(random, 3) } else { Vec::new() },
        })
        .collect()
}

fn random_parent(
    random: &mut Random,
    shape: Shape,
    role: usize,
    roles: usize,
    rootless: usize,
) -> Option<usize> {
    let anything = |random: &mut Random| match random.below(rootless + 2) {
        0 => None,
        1 if random.once_in(3) => Some(MAX_ROLES + random.below(MISSING)),
        2 if random.once_in(3) => Some(role),
        _ => Some(random.below(roles)),
    };
    let last = role + 1 == roles;
    match shape {
        Shape::Anything => anything(random),
        Shape::Forest if last || random.once_in(rootless) => None,
        Shape::Forest => Some(role + 1 + random.below((roles - role - 1).min(3))),
        Shape::Chain if last && random.once_in(2) => None,
        Shape::Chain if last || random.once_in(200) => anything(random),
        Shape::Chain => Some(role + 1),
    }
}

/// A list from the pool, with repetitions.
fn random_list(random: &mut Random, max_length: usize) -> Vec<usize> {
    let length = random.below(max_length + 1);
    (0..length).map(|_| random.below(POOL.len())).collect()
}
