//! Every route has a test that requests its path.

use bailiwick_server::openapi;

const TESTS: [&str; 17] = [
    include_str!("access.rs"),
    include_str!("access_reports.rs"),
    include_str!("actions.rs"),
    include_str!("apply.rs"),
    include_str!("local_runs.rs"),
    include_str!("metrics.rs"),
    include_str!("objects.rs"),
    include_str!("test_server.rs"),
    include_str!("saved_filters.rs"),
    include_str!("secrets.rs"),
    include_str!("shutdown.rs"),
    include_str!("sign_in.rs"),
    include_str!("streams.rs"),
    include_str!("tokens.rs"),
    include_str!("webhooks.rs"),
    include_str!("workers.rs"),
    include_str!("routes.rs"),
];

/// The paths in the tests, without query parameters.
fn tested_paths() -> Vec<String> {
    let literals = TESTS.iter().flat_map(|text| text.split('"').skip(1).step_by(2));
    let paths = literals.filter(|literal| literal.starts_with('/'));
    paths.map(|path| path.split('?').next().unwrap_or_default().to_owned()).collect()
}

/// Whether a path matches a route; `{…}` matches any segment.
fn matches(path: &str, route: &str) -> bool {
    let (path, route): (Vec<&str>, Vec<&str>) =
        (path.split('/').collect(), route.split('/').collect());
    path.len() == route.len()
        && path.iter().zip(&route).all(|(part, expected)| {
            part == expected || (expected.starts_with('{') && !part.is_empty())
        })
}

/// The path without its prefix: both prefixes have the same routes.
fn without_prefix(path: &str) -> &str {
    let rest = path.strip_prefix("/api/v1alpha1").or_else(|| path.strip_prefix("/api/agents"));
    rest.unwrap_or(path)
}

#[test]
fn every_route_has_a_test() {
    let tested_paths = tested_paths();
    let description = openapi();
    let mut untested = Vec::new();
    for route in description["paths"].as_object().unwrap().keys() {
        let tested =
            tested_paths.iter().any(|path| matches(without_prefix(path), without_prefix(route)));
        if !tested {
            untested.push(route);
        }
    }
    assert!(untested.is_empty(), "no test requests {untested:?}");
    assert!(
        !tested_paths.iter().any(|path| matches(path, "/api/v1alpha1/none/none/none")),
        "positive control"
    );
}
