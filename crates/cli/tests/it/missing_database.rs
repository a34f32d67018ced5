//! `--db` with the path of a file that does not exist.

use bailiwick_testkit::Scratch;

use crate::BAILIWICK;

/// Commands that need an existing database.
const READING: [&str; 22] = [
    "ps",
    "status",
    "logs fix-42",
    "stop fix-42",
    "resume fix-42",
    "land fix-42",
    "rm fix-42",
    "prune --dry-run",
    "diff fix-42",
    "cost",
    "claims list",
    "approvals list",
    "get stacks",
    "describe stack fixer",
    "delete stack fixer",
    "wait stack/fixer --for condition=Ready",
    "audit",
    "secrets list",
    "tokens list",
    "ledger tree",
    "agents tree",
    "db status",
];

#[test]
fn mistyped_path_is_refused_and_no_database_is_created() {
    let scratch = Scratch::repository();
    scratch.commit("start");
    for command in READING {
        let arguments: Vec<&str> =
            ["--db", "fleet/typo.db"].into_iter().chain(command.split(' ')).collect();
        let ran = scratch.run(BAILIWICK, &arguments).expect_code(2);
        assert!(ran.err.contains("there is no database fleet/typo.db\n"), "{command}: {}", ran.err);
        assert!(ran.err.contains(" help: check the path; "), "{command}: {}", ran.err);
    }
    assert!(!scratch.root().join("fleet").exists());
}

#[test]
fn commands_that_begin_a_fleet_create_its_database() {
    let scratch = Scratch::repository();
    scratch.commit("start");
    scratch.write("pool.yaml", "apiVersion: bailiwick.dev/v1alpha1\nkind: RunnerPool\nmetadata: { name: a }\nspec: { capacity: 1, trustTier: trusted, serviceAccountRef: r }\n");
    for (number, command) in
        ["apply -f pool.yaml", "tokens new ada", "ledger init"].into_iter().enumerate()
    {
        let database = format!("new/{number}.db");
        let arguments: Vec<&str> =
            ["--db", &database].into_iter().chain(command.split(' ')).collect();
        scratch.run(BAILIWICK, &arguments).expect_code(0);
        assert!(scratch.root().join(&database).is_file(), "{command}");
        scratch.run(BAILIWICK, &["--db", &database, "get", "pools"]).expect_code(0);
    }
}
