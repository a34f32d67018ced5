//! `flatten` compared with a plain model of Layer E of the kei tools, with random graphs.

mod files;
mod model;
mod names;
mod random_graph;
mod seen;

use std::convert::Infallible;

use bailiwick_kit::resolve::{ExpressionError, flatten};
use bailiwick_model::role::Capabilities;
use bailiwick_testkit::{Depth, random::Random};

use model::{Failure, Graph, MAX_EXTENDS, Written, model};
use names::Names;
use random_graph::{MAX_ROLES, random_graph};
use seen::OutcomeCounts;

/// Whether each role of the path extends the next one.
fn follows_extends(graph: &Graph, path: &[usize]) -> bool {
    path.windows(2).all(|pair| graph[pair[0]].extends == Some(pair[1]))
}

/// Whether following `extends` from this role leads back to it.
fn is_on_a_cycle(graph: &Graph, role: usize) -> bool {
    let mut current = role;
    for _ in 0..graph.len() {
        match graph.get(current).and_then(|written| written.extends) {
            Some(parent) if parent == role => return true,
            Some(parent) => current = parent,
            None => return false,
        }
    }
    false
}

fn compare(graph: &Graph, names: &Names, start: usize, outcomes: &mut OutcomeCounts) {
    let expected = model(graph, start, &[]);
    let declared: Vec<Capabilities> = graph.iter().map(|role| names.declare(role)).collect();
    let found = flatten(&names.roles[start], |role| {
        let number = names.role(role);
        declared.get(number).cloned().ok_or(number)
    });
    match (&expected, &found) {
        (Ok(expected), Ok(flat)) => {
            assert_eq!(names.read_flat(flat), *expected, "from {start} in {graph:#?}");
        }
        (Err(Failure::Cycle(_)), Err(ExpressionError::Cycle { path })) => {
            let path = names.path(path);
            let (first, last) = (path.first(), path.last());
            assert!(path.len() > 1 && first == last, "no loop: {path:?} in {graph:#?}");
            assert!(follows_extends(graph, &path), "{path:?} in {graph:#?}");
            let offender = *last.expect("an offender");
            assert!(is_on_a_cycle(graph, offender), "{offender} is not on a cycle in {graph:#?}");
        }
        (Err(Failure::TooDeep), Err(ExpressionError::TooDeep { path })) => {
            let path = names.path(path);
            assert_eq!(path.first(), Some(&start), "{path:?} in {graph:#?}");
            assert!(path.len() > MAX_EXTENDS, "{path:?} in {graph:#?}");
            assert!(follows_extends(graph, &path), "{path:?} in {graph:#?}");
        }
        (Err(Failure::Missing(role)), Err(ExpressionError::Lookup(missed))) => {
            assert_eq!(missed, role, "from {start} in {graph:#?}");
        }
        _ => panic!("expected {expected:?}, found {found:?}, from {start} in {graph:#?}"),
    }
    outcomes.count(graph, start, &expected);
}

#[test]
fn random_role_graphs_resolve_like_the_model() {
    let mut random = Random::rotating("role graphs");
    let (names, graphs) = (Names::new(), Depth::from_env().cases(1_000_000));
    let mut outcomes = OutcomeCounts::default();
    for _ in 0..graphs {
        let graph = random_graph(&mut random);
        compare(&graph, &names, 0, &mut outcomes);
        compare(&graph, &names, random.below(graph.len() + 1), &mut outcomes);
    }
    bailiwick_testkit::figure(&format!(
        "role graphs: {graphs} random graphs, two roles of each, agree with the reference model: {outcomes:?}"
    ));
    outcomes.assert_varied(graphs / 200);
}

#[test]
fn chain_may_have_sixteen_steps_and_no_more() {
    let names = Names::new();
    for follows in 0..MAX_ROLES {
        let mut graph: Graph = vec![Written::default(); follows + 1];
        for (role, written) in graph.iter_mut().enumerate().take(follows) {
            written.extends = Some(role + 1);
        }
        let found = flatten::<Infallible>(&names.roles[0], |role| {
            Ok(names.declare(&graph[names.role(role)]))
        });
        match found {
            Ok(flat) => assert!(follows <= 16 && flat.chain.len() == follows + 1, "{follows}"),
            Err(ExpressionError::TooDeep { .. }) => assert!(follows > 16, "{follows}"),
            Err(other) => panic!("{follows}: {other:?}"),
        }
    }
}
