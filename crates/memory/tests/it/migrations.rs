//! Claims of modules and migrations: a version is assigned once, and a module is claimed as a whole.

use std::collections::BTreeMap;

use bailiwick_memory::{
    ClaimError, ClaimRefusal, ClaimRequest, ClaimStore, ClaimTable, IssueMemory as _,
    MigrationVersion, Protocol, Resource, ResourceKind, SigningKey, TableProblem, assign_versions,
    migration_of, overlap, placeholders, with_versions, without_versions,
};
use bailiwick_resources::Moment;
use bailiwick_testkit::depth::Depth;
use bailiwick_testkit::random::Random;

use crate::fake::{CLAIMS_ISSUE, Fake, run};

const LEASE_MS: u64 = 1 << 40;

fn migration(key: &str) -> Resource {
    Resource { kind: ResourceKind::Migration, key: key.to_owned() }
}

fn wish(invocation: &str, resources: Vec<Resource>) -> ClaimRequest {
    ClaimRequest {
        agent: invocation.to_owned(),
        invocation: invocation.to_owned(),
        issue: Some(7),
        resources,
        lease_ms: LEASE_MS,
        takes_over: Vec::new(),
    }
}

fn at(millis: u64) -> Moment {
    Moment::from_millis(millis)
}

#[test]
fn migrations_overlap_by_version_and_with_paths_that_can_have_their_files() {
    let cases = [
        ("db/20261119050001", "db/20261119050001", true),
        ("db/20261119050001", "other/20261119050001", true),
        ("db/20261119050001", "db/20261119050002", false),
        ("0007", "0007", true),
        ("0007", "0008", false),
        ("", "0008", true),
    ];
    for (left, right, expected) in cases {
        assert_eq!(overlap(&migration(left), &migration(right), false), expected, "{left} {right}");
        assert_eq!(overlap(&migration(right), &migration(left), false), expected, "{right} {left}");
    }
    let cases = [
        ("db/20261119050001_users.sql", true),
        ("db/20261119050001.sql", true),
        ("db/20261119050001/up.sql", true),
        ("db/202611190500017_users.sql", false),
        ("db/20261119050002_users.sql", false),
        ("db/", true),
        ("db/*.sql", true),
        ("**", true),
        ("src/**", false),
        ("db/schema.rb", false),
    ];
    for (path, expected) in cases {
        for right in [Resource::file(path), Resource::module(path)] {
            let own_migration = migration("db/20261119050001");
            assert_eq!(overlap(&own_migration, &right, false), expected, "{right}");
            assert_eq!(overlap(&right, &own_migration, false), expected, "{right}");
        }
    }
}

#[test]
fn landing_may_have_files_of_its_versions_and_modules_only() {
    let resources = vec![migration("db/20261119050001"), Resource::module("src/parser/")];
    let (table, fence) =
        ClaimTable::default().acquire(&wish("a", resources), at(0), false).unwrap();
    let lands = |path: &str| table.check_fence(fence, &[path.to_owned()], false);
    for path in ["db/20261119050001_users.sql", "db/20261119050001/up.sql", "src/parser/a/b.rs"] {
        assert_eq!(lands(path), Ok(()), "{path}");
    }
    for path in ["db/20261119050002_users.sql", "db", "db/schema.rb", "src/parser.rs", "src"] {
        let outside = ClaimRefusal::Outside { fence, path: path.to_owned() };
        assert_eq!(lands(path), Err(outside), "{path}");
    }
}

#[test]
fn version_is_used_once_even_if_its_claim_has_ended() {
    let version = || vec![migration("db/20261119050001")];
    let (table, fence) =
        ClaimTable::default().acquire(&wish("a", version()), at(0), false).unwrap();
    let used = ClaimRefusal::VersionUsed("20261119050001".to_owned());
    assert_eq!(table.acquire(&wish("b", version()), at(0), false), Err(used.clone()));
    let table = table.release(fence).unwrap();
    assert_eq!(table.claims, []);
    assert_eq!(table.acquire(&wish("b", version()), at(0), false), Err(used));
    let read = ClaimTable::parse(&table.render()).unwrap();
    assert_eq!(read, table, "the table must contain the versions");
    // Its own run may continue with it, and others get other versions.
    let (table, second) = read.acquire(&wish("a", version()), at(0), false).unwrap();
    assert!(second > fence);
    table.acquire(&wish("b", vec![migration("db/20261119050002")]), at(0), false).unwrap();
}

#[test]
fn versions_before_the_remembered_ones_are_refused() {
    let mut table = ClaimTable::default();
    let versions = assign_versions(1_200, at(1_794_000_000_000), None);
    for version in &versions {
        let wish = wish(&version.to_string(), vec![migration(&format!("db/{version}"))]);
        let (changed, fence) = table.acquire(&wish, at(0), false).unwrap();
        table = changed.release(fence).unwrap();
    }
    assert!(table.render().len() < 100_000, "{}", table.render().len());
    for version in [versions[0], versions[100], versions[1_199]] {
        let wish = wish("late", vec![migration(&format!("db/{version}"))]);
        let used = ClaimRefusal::VersionUsed(version.to_string());
        assert_eq!(table.acquire(&wish, at(0), false), Err(used));
    }
}

#[test]
fn table_with_edits_of_others_is_reported() {
    let version = vec![migration("db/20261119050001")];
    let (table, _) =
        ClaimTable::default().acquire(&wish("a", version.clone()), at(0), false).unwrap();
    let (table, _) =
        table.acquire(&wish("b", vec![Resource::module("src/")]), at(0), false).unwrap();
    assert_eq!(table.problems(at(1)), []);
    let mut forged = table.clone();
    forged.claims[1].resources = vec![migration("db/20261119050001")];
    let overlap_problem = TableProblem::BothHeld(1, 2, version[0].clone());
    let foreign = TableProblem::ForeignVersion(2, "20261119050001".to_owned());
    assert_eq!(forged.problems(at(1)), [overlap_problem, foreign.clone()]);
    // A claim whose lease has ended blocks nobody.
    assert_eq!(forged.problems(at(LEASE_MS)), [foreign]);
    let mut forged = table;
    forged.claims[0].fence = 3;
    assert_eq!(forged.problems(at(1)), [TableProblem::UnknownFence(3)]);
}

#[test]
fn versions_are_seconds_after_all_used_ones() {
    let text = |versions: Vec<MigrationVersion>| -> Vec<String> {
        versions.iter().map(ToString::to_string).collect()
    };
    let current = "2026-12-31T23:59:58.700Z".parse().unwrap();
    let assigned = ["20261231235958", "20261231235959", "20270101000000"];
    assert_eq!(text(assign_versions(3, current, None)), assigned);
    let last = MigrationVersion::leading("20270101000000_users.sql");
    assert_eq!(text(assign_versions(1, current, last)), ["20270101000001"]);
    let before = MigrationVersion::leading("20200101000000");
    assert_eq!(text(assign_versions(1, current, before)), ["20261231235958"]);
    for wrong in ["2026", "20261301000000", "20261119050060", "202611190500011", "x0261119050001"] {
        assert_eq!(MigrationVersion::leading(wrong), None, "{wrong}");
    }
}

#[test]
fn each_placeholder_gets_a_version_and_is_found_again() {
    let patterns = ["src/**", "db/{timestamp}_*.sql", "db/{timestamp}_x/", "{timestamp}"];
    assert_eq!(placeholders(patterns), 3);
    let assigned = assign_versions(3, "2026-11-19T05:00:01Z".parse().unwrap(), None);
    let mut versions = assigned.clone().into_iter();
    let written = patterns.map(|pattern| with_versions(pattern, &mut versions));
    let expected = ["src/**", "db/20261119050001_*.sql", "db/20261119050002_x/", "20261119050003"];
    assert_eq!(written, expected);
    assert_eq!(written.map(|pattern| without_versions(&pattern, &assigned)), patterns);
    assert_eq!(migration_of(expected[1]), Some(migration("db/20261119050001")));
    assert_eq!(migration_of("/db/20261119050002_x/"), None, "the path names a directory's content");
    assert_eq!(migration_of("*/20261119050001_x"), None);
    assert_eq!(migration_of("db/{a,b}/20261119050001_x"), None, "the path names two directories");
}

/// What may be claimed, and the plain paths that it covers.
fn catalogue() -> Vec<(Resource, &'static [&'static str])> {
    vec![
        (Resource::file("src/a/x"), &["src/a/x"]),
        (Resource::file("src/a/y"), &["src/a/y"]),
        (Resource::module("src/a/"), &["src/a/x", "src/a/y"]),
        (Resource::file("src/b/x"), &["src/b/x"]),
        (Resource::module("src/"), &["src/a/x", "src/a/y", "src/b/x"]),
        (migration("db/20261119050001"), &["db/20261119050001_m"]),
        (migration("db/20261119050002"), &["db/20261119050002_m"]),
        (migration("db/20261119050003"), &["db/20261119050003_m"]),
        (
            Resource::module("db/"),
            &["db/20261119050001_m", "db/20261119050002_m", "db/20261119050003_m"],
        ),
    ]
}

/// Claims without a forge: the paths and versions of each invocation.
#[derive(Default)]
struct Model {
    held: BTreeMap<String, Vec<&'static str>>,
    versions: BTreeMap<String, String>,
}

impl Model {
    fn claim(&mut self, invocation: &str, wanted: &[(Resource, &[&'static str])]) -> bool {
        let versions: Vec<&str> = wanted
            .iter()
            .filter(|(resource, _)| resource.kind == ResourceKind::Migration)
            .filter_map(|(resource, _)| resource.key.rsplit('/').next())
            .collect();
        let is_used =
            |version: &&str| self.versions.get(*version).is_some_and(|by| by != invocation);
        let paths: Vec<&'static str> =
            wanted.iter().flat_map(|(_, paths)| paths.to_vec()).collect();
        let is_claimed = self.held.values().flatten().any(|held| paths.contains(held));
        if versions.iter().any(is_used) || is_claimed {
            return false;
        }
        for version in versions {
            self.versions.insert(version.to_owned(), invocation.to_owned());
        }
        self.held.insert(invocation.to_owned(), paths);
        true
    }
}

#[test]
fn random_claims_of_modules_and_migrations_agree_with_a_plain_model() {
    let mut random = Random::rotating("modules and migrations");
    let (mut granted, mut refused) = (0, 0);
    for round in 0..Depth::from_env().cases(300) {
        let fake = Fake::new(true);
        let store = match round % 2 {
            0 => ClaimStore::Reference,
            _ => ClaimStore::Comments { issue: CLAIMS_ISSUE, settle_ms: 5_000 },
        };
        let opened = run(Protocol::open(&fake, SigningKey::new(b"a secret of ours"))).unwrap();
        let protocol = Protocol { claim_store: store, ..opened };
        let mut model = Model::default();
        let catalogue = catalogue();
        for step in 0..12 {
            let read_at = run(fake.read_issue(7)).unwrap().now;
            if random.below(3) == 0 {
                let holders: Vec<String> = model.held.keys().cloned().collect();
                if let Some(invocation) = holders.get(random.below(holders.len().max(1))) {
                    run(protocol.release_invocation(invocation)).unwrap();
                    model.held.remove(invocation);
                }
                continue;
            }
            let invocation = format!("run/{step}");
            let wanted: Vec<_> = (0..=random.below(2))
                .map(|_| catalogue[random.below(catalogue.len())].clone())
                .collect();
            let resources = wanted.iter().map(|(resource, _)| resource.clone()).collect();
            let outcome = run(protocol.claim(&wish(&invocation, resources), read_at));
            let expected = model.claim(&invocation, &wanted);
            assert_eq!(outcome.is_ok(), expected, "{store:?} {wanted:?}: {outcome:?}");
            match outcome {
                Ok(_) => granted += 1,
                Err(ClaimError::Refused(
                    ClaimRefusal::Held { .. } | ClaimRefusal::VersionUsed(_),
                )) => refused += 1,
                Err(error) => panic!("{error:?}"),
            }
            let table = run(protocol.claims()).unwrap();
            assert_eq!(table.problems(read_at), []);
            let mut listed: Vec<&str> =
                table.claims.iter().map(|claim| claim.invocation.as_str()).collect();
            listed.sort_unstable();
            let expected: Vec<&str> = model.held.keys().map(String::as_str).collect();
            assert_eq!(listed, expected);
        }
    }
    assert!(granted > 50 && refused > 50, "{granted} {refused}");
}
