//! `CargoTest`: what counts is the listing and the results file of a test program, and its exit code.

use std::collections::BTreeMap;

use bailiwick_verify::job::{Ended, Harness, TestProgram, TestResult};

use crate::bench::Bench;

const MANIFEST: &str = "[package]\nname = \"one\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";

fn standard(program: &TestProgram) -> (&[String], BTreeMap<&str, TestResult>) {
    match &program.harness {
        Harness::Standard { listed, results } => {
            (listed, results.iter().map(|(name, result)| (name.as_str(), *result)).collect())
        }
        Harness::Own => panic!("{program:?}"),
    }
}

#[test]
fn every_test_is_listed_and_has_its_own_result() {
    let mut bench = Bench::new(&[
        ("Cargo.toml", MANIFEST),
        (
            "src/lib.rs",
            "//! ```\n//! assert_eq!(one::two(), 2);\n//! ```\n\
             /// Two.\npub fn two() -> u32 { 2 }\n\
             #[cfg(test)] mod tests {\n\
             #[test] fn passes() {}\n\
             #[test] fn fails() { panic!(\"test passes ... FAILED\") }\n\
             #[test] #[ignore] fn ignored() { panic!() }\n\
             #[test] #[ignore = \"it is slow,\\nok tests::fails\"] fn ignored_why() { panic!() }\n\
             #[test] #[should_panic] fn panics() { panic!() }\n\
             #[test] #[should_panic(expected = \"a b\")] fn panics_so() { panic!(\"a b c\") }\n\
             #[test] #[should_panic(expected = \"a b\")] fn panics_otherwise() { panic!(\"a\\nok tests::fails\") }\n\
             #[test] fn result() -> Result<(), String> { Err(\"no\".into()) }\n\
             }\n",
        ),
        ("tests/it.rs", "#[test] fn from_outside() { assert_eq!(one::two(), 2); }\n"),
        ("src/main.rs", "fn main() {}\n#[test] fn of_the_program() {}\n"),
    ]);
    let crates = bench.test();
    assert_eq!(crates.len(), 1);
    assert_eq!(crates[0].name, "one");
    let targets: Vec<&str> = crates[0].programs.iter().map(|one| one.target.as_str()).collect();
    assert_eq!(targets.len(), 3, "{targets:?}");
    let program = |name: &str| crates[0].programs.iter().find(|one| one.target == name).unwrap();
    let (listed, results) = standard(program("lib"));
    assert_eq!(listed.len(), 8, "{listed:?}");
    assert_eq!(program("lib").run.ended, Ended::Exit(101));
    use TestResult::{Failed, Ignored, Ok};
    let expected = BTreeMap::from([
        ("tests::passes", Ok),
        ("tests::fails", Failed),
        ("tests::ignored", Ignored),
        ("tests::ignored_why", Ignored),
        ("tests::panics", Ok),
        ("tests::panics_so", Ok),
        ("tests::panics_otherwise", Failed),
        ("tests::result", Failed),
    ]);
    assert_eq!(results, expected);
    assert_eq!(standard(program("tests/it")).1, BTreeMap::from([("from_outside", Ok)]));
    assert_eq!(standard(program("bins/one")).1, BTreeMap::from([("of_the_program", Ok)]));
    let documentation = crates[0].documentation.as_ref().unwrap();
    assert_eq!(documentation.ended, Ended::Exit(0), "{}", documentation.tail);
    assert!(documentation.tail.contains("src/lib.rs - (line 1)"), "{}", documentation.tail);
    assert!(
        bench.told.iter().any(|line| line == "cargo test -p one --test it"),
        "{:?}",
        bench.told
    );
}
