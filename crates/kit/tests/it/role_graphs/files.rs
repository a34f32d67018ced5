//! `resolve` compared with the model: the same graphs as files of a kit.

use std::collections::BTreeSet;

use bailiwick_kit::resolve;
use bailiwick_model::{Problem, Source};
use bailiwick_testkit::{Depth, random::Random};

use super::model::{Failure, Graph, POOL, Resolved, model, today};
use super::names::Names;
use super::random_graph::random_graph;
use super::seen::OutcomeCounts;
use crate::memory::{MemoryTree, role_toml};

/// The same roles as files.
fn files(graph: &Graph, names: &Names) -> MemoryTree {
    let list = |list: &[usize]| {
        let quoted: Vec<String> =
            list.iter().map(|number| format!("\"{}\"", POOL[*number])).collect();
        quoted.join(", ")
    };
    MemoryTree::new(graph.iter().enumerate().map(|(number, written)| {
        let extends =
            written.extends.map(|parent| format!("extends = \"{}\"\n", names.roles[parent]));
        let capabilities = format!(
            "{}required = [{}]\nrelaxes = [{}]\n",
            extends.unwrap_or_default(),
            list(&written.required),
            list(&written.relaxes)
        );
        let name = &names.roles[number];
        (format!("roles/{name}.toml"), role_toml(name.as_str(), &capabilities))
    }))
}

/// The roles and texts that warnings with this code name, both as numbers.
fn warned(names: &Names, warnings: &[Problem], code: &str) -> BTreeSet<(usize, usize)> {
    let place = |problem: &Problem| {
        let file =
            problem.place.source.file.strip_prefix("repository/roles/").expect("a role's file");
        let role = file.strip_suffix(".toml").and_then(|role| role.parse().ok()).expect("a role");
        let text = problem.place.text().expect("a text").trim_matches('"').parse().expect("a name");
        (names.role(&role), names.capability(&text))
    };
    warnings.iter().filter(|problem| problem.code == code).map(place).collect()
}

fn compare_files(graph: &Graph, names: &Names, start: usize, outcomes: &mut OutcomeCounts) {
    let expected = model(graph, start, &[]);
    let kit = files(graph, names).into_kit();
    let place = Source::new("task.toml", "role").at(0..4);
    let found = resolve(&kit, &names.roles[start], place);
    match (&expected, &found) {
        (Ok(expected), Ok(role)) => {
            let not_inherited = warned(names, &role.warnings, "relaxes-nothing");
            let read = Resolved {
                capabilities: role.capabilities.iter().map(|name| names.capability(name)).collect(),
                not_inherited: not_inherited
                    .into_iter()
                    .map(|(role, capability)| (role, today(capability)))
                    .collect(),
                old_names: warned(names, &role.warnings, "old-name"),
                chain: names.path(&role.chain),
            };
            assert_eq!(read, *expected, "from {start} in {graph:#?}");
        }
        (Err(failure), Err(problems)) => {
            let [problem] = problems.as_slice() else { panic!("{problems:?} in {graph:#?}") };
            let (code, offender) = match failure {
                Failure::Cycle(offender) => ("role-cycle", Some(offender)),
                Failure::TooDeep => ("role-too-deep", None),
                Failure::Missing(role) => ("unknown-role", Some(role)),
            };
            assert_eq!(problem.code, code, "{problem} from {start} in {graph:#?}");
            if let Some(offender) = offender {
                let name = format!("`{}`", names.roles[*offender]);
                assert!(problem.message.contains(&name), "{problem} does not name {name}");
                let text = problem.place.text().map(|text| format!("`{}`", text.trim_matches('"')));
                assert!(text == Some(name) || *offender == start, "{problem} in {graph:#?}");
            }
        }
        _ => panic!("expected {expected:?}, found {found:?}, from {start} in {graph:#?}"),
    }
    outcomes.count(graph, start, &expected);
}

#[test]
fn roles_in_files_resolve_like_the_model() {
    let mut random = Random::rotating("role files");
    let (names, graphs) = (Names::new(), Depth::from_env().cases(20_000));
    let mut outcomes = OutcomeCounts::default();
    for _ in 0..graphs {
        let graph = random_graph(&mut random);
        let start = if random.once_in(2) { 0 } else { random.below(graph.len() + 1) };
        compare_files(&graph, &names, start, &mut outcomes);
    }
    bailiwick_testkit::figure(&format!(
        "role files: {graphs} random kits of TOML files agree with the reference model: {outcomes:?}"
    ));
    outcomes.assert_varied(graphs / 400);
}
