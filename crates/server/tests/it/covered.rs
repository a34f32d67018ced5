//! Every route has a test that asks for it by its path.

use bailiwick_server::openapi;

const TESTS: [&str; 12] = [
    include_str!("access.rs"),
    include_str!("actions.rs"),
    include_str!("apply.rs"),
    include_str!("figures.rs"),
    include_str!("objects.rs"),
    include_str!("place.rs"),
    include_str!("secrets.rs"),
    include_str!("shutdown.rs"),
    include_str!("streams.rs"),
    include_str!("tokens.rs"),
    include_str!("webhooks.rs"),
    include_str!("routes.rs"),
];

/// The paths that tests ask for, without what stands behind a question mark.
fn asked() -> Vec<String> {
    let literals = TESTS.iter().flat_map(|text| text.split('"').skip(1).step_by(2));
    let paths = literals.filter(|literal| literal.starts_with('/'));
    paths.map(|path| path.split('?').next().unwrap_or_default().to_owned()).collect()
}

/// Whether a path is one of a route, whose `{…}` stand for anything.
fn is_of(path: &str, route: &str) -> bool {
    let (path, route): (Vec<&str>, Vec<&str>) =
        (path.split('/').collect(), route.split('/').collect());
    path.len() == route.len()
        && path
            .iter()
            .zip(&route)
            .all(|(part, wanted)| part == wanted || (wanted.starts_with('{') && !part.is_empty()))
}

/// The two prefixes lead to the same.
fn below(path: &str) -> &str {
    let rest = path.strip_prefix("/api/v1alpha1").or_else(|| path.strip_prefix("/api/agents"));
    rest.unwrap_or(path)
}

#[test]
fn every_route_has_a_test() {
    let asked = asked();
    let description = openapi();
    let mut wanting = Vec::new();
    for route in description["paths"].as_object().unwrap().keys() {
        let tested = asked.iter().any(|path| is_of(below(path), below(route)));
        if !tested {
            wanting.push(route);
        }
    }
    assert!(wanting.is_empty(), "no test asks for {wanting:?}");
    assert!(!asked.iter().any(|path| is_of(path, "/api/v1alpha1/none/none/none")), "the control");
}
