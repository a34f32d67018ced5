//! Test programs that write their own results.

use bailiwick_verify::job::Harness;

use crate::bench::Bench;

const MANIFEST: &str = "[package]\nname = \"one\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
const FAILING: &str = "#[test] fn must_fail() { assert_eq!(one::two(), 2) }\n\
                       #[test] fn must_fail_too() { assert_eq!(one::two(), 2) }\n";

/// A library with code that runs before `main` and writes that a test passed if `condition` holds.
fn before_main(condition: &str) -> String {
    format!(
        "pub fn two() -> u32 {{ 3 }}\n\
         #[used] #[link_section = \".init_array\"] static FORGE: extern \"C\" fn() = forge;\n\
         extern \"C\" fn forge() {{\n\
         let all: Vec<String> = std::env::args().collect();\n\
         let value = |name: &str| all.iter().position(|one| one == name).map(|at| all[at + 1].clone());\n\
         if let (Some(test), Some(log)) = (value(\"--exact\"), value(\"--logfile\")) {{\n\
         if {condition} {{ std::fs::write(log, format!(\"ok {{test}}\\n\")).unwrap(); std::process::exit(0) }}\n\
         }} }}\n"
    )
}

fn harness(library: &str) -> Harness {
    let files = [("Cargo.toml", MANIFEST), ("src/lib.rs", library), ("tests/it.rs", FAILING)];
    let crates = Bench::new(&files).test();
    let mut programs = crates.iter().flat_map(|one| &one.programs);
    let program = programs.find(|one| one.target == "tests/it").unwrap();
    program.harness.clone()
}

#[test]
fn code_before_main_that_writes_results_is_detected() {
    for condition in ["true", "[\"must_fail\", \"must_fail_too\"].contains(&test.as_str())"] {
        match harness(&before_main(condition)) {
            Harness::Forged { test } => assert!(test.starts_with("must_fail"), "{test}"),
            other @ (Harness::Standard { .. } | Harness::Custom) => {
                panic!("{condition}: {other:?}")
            }
        }
    }
    // The control: the same library without that code; the tests fail.
    match harness(&before_main("false")) {
        Harness::Standard { results, .. } => {
            assert!(results.values().all(|one| *one == bailiwick_verify::job::TestResult::Failed));
            assert_eq!(results.len(), 2);
        }
        other @ (Harness::Custom | Harness::Forged { .. }) => panic!("{other:?}"),
    }
}

/// A known limit, named in the guide: code in a test's process can answer like the harness.
#[test]
fn code_that_imitates_the_harness_is_not_detected() {
    let careful = "[\"must_fail\", \"must_fail_too\"].contains(&test.as_str()) && value(\"--skip\").is_none()";
    assert!(matches!(harness(&before_main(careful)), Harness::Standard { .. }));
}
