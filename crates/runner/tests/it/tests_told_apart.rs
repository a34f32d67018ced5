//! `CargoTest`: a test's result comes from the program's list, its results file and its exit code.

use std::collections::BTreeMap;

use bailiwick_verify::job::{Crates, Harness, Termination, TestProgram, TestResult};
use bailiwick_verify::{Job, JobOutcome};

use crate::bench::Bench;

const MANIFEST: &str = "[package]\nname = \"one\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";

fn standard(program: &TestProgram) -> (&[String], BTreeMap<&str, TestResult>) {
    match &program.harness {
        Harness::Standard { listed, results } => {
            (listed, results.iter().map(|(name, result)| (name.as_str(), *result)).collect())
        }
        Harness::Custom | Harness::Forged { .. } => panic!("{program:?}"),
    }
}

#[test]
fn each_test_is_listed_with_its_own_result() {
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
    let targets: Vec<&str> =
        crates[0].programs.iter().map(|candidate| candidate.target.as_str()).collect();
    assert_eq!(targets.len(), 3, "{targets:?}");
    let program =
        |name: &str| crates[0].programs.iter().find(|candidate| candidate.target == name).unwrap();
    let (listed, results) = standard(program("lib"));
    assert_eq!(listed.len(), 8, "{listed:?}");
    assert_eq!(program("lib").run.ended, Termination::Exit(101));
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
    assert_eq!(documentation.ended, Termination::Exit(0), "{}", documentation.tail);
    assert!(documentation.tail.contains("src/lib.rs - (line 1)"), "{}", documentation.tail);
    assert!(
        bench.progress.iter().any(|line| line == "cargo test -p one --test it"),
        "{:?}",
        bench.progress
    );
}

#[test]
fn output_of_a_test_program_does_not_change_results() {
    let mut bench = Bench::new(&[
        ("Cargo.toml", MANIFEST),
        ("src/lib.rs", ""),
        (
            "tests/prints.rs",
            "#[test] fn spoofs() {\n\
             use std::io::Write;\n\
             let mut out = std::io::stdout();\n\
             writeln!(out, \"999 passed\\ntest other ... ok\\nok other\\nother: test\").unwrap();\n\
             writeln!(out, \"test result: ok. 999 passed; 0 failed\").unwrap();\n\
             println!(\"{}\", r#\"{\"reason\":\"compiler-artifact\",\"type\":\"test\"}\"#);\n\
             panic!(\"really\") }\n",
        ),
    ]);
    let crates = bench.test();
    let program = crates[0].programs.iter().find(|one| one.target == "tests/prints").unwrap();
    let (listed, results) = standard(program);
    assert_eq!(listed, ["spoofs"]);
    assert_eq!(results, BTreeMap::from([("spoofs", TestResult::Failed)]));
    assert_eq!(program.run.ended, Termination::Exit(101));
    assert!(
        program.run.tail.contains("999 passed"),
        "the program printed it: {}",
        program.run.tail
    );
}

#[test]
fn test_that_exits_early_has_no_result() {
    let mut bench = Bench::new(&[
        ("Cargo.toml", MANIFEST),
        ("src/lib.rs", "#[test] fn fine() {}\n"),
        (
            "tests/leaves.rs",
            "#[test] fn a_first() {}\n\
             #[test] fn leaves() { std::thread::sleep(std::time::Duration::from_millis(300)); std::process::exit(0) }\n\
             #[test] fn z_dies() { std::process::abort() }\n",
        ),
    ]);
    let crates = bench.test();
    let program = |name: &str| crates[0].programs.iter().find(|one| one.target == name).unwrap();
    let (listed, results) = standard(program("tests/leaves"));
    assert_eq!(listed, ["a_first", "leaves", "z_dies"]);
    let expected = [("a_first", TestResult::Ok), ("z_dies", TestResult::Failed)];
    assert_eq!(results, BTreeMap::from(expected));
    assert_eq!(program("tests/leaves").run.ended, Termination::Exit(0));
    assert_eq!(standard(program("lib")).1.len(), 1, "the other tests have results");
}

#[test]
fn program_with_its_own_harness_is_one_test() {
    let manifest = format!(
        "{MANIFEST}[[test]]\nname = \"own\"\nharness = false\n[[test]]\nname = \"bad\"\nharness = false\n"
    );
    let mut bench = Bench::new(&[
        ("Cargo.toml", &manifest),
        ("src/lib.rs", ""),
        (
            "tests/own.rs",
            "fn main() { println!(\"test x ... ok\"); assert_eq!(std::env::args().count(), 1); }\n",
        ),
        ("tests/bad.rs", "fn main() { println!(\"1 passed\"); std::process::exit(3) }\n"),
        ("tests/usual.rs", "#[test] fn one() {}\n"),
    ]);
    let crates = bench.test();
    let program = |name: &str| crates[0].programs.iter().find(|one| one.target == name).unwrap();
    assert_eq!(program("tests/own").harness, Harness::Custom);
    assert_eq!(program("tests/own").run.ended, Termination::Exit(0));
    assert_eq!(program("tests/bad").harness, Harness::Custom);
    assert_eq!(program("tests/bad").run.ended, Termination::Exit(3));
    assert_eq!(standard(program("tests/usual")).0, ["one"]);
}

#[test]
fn without_a_results_file_each_test_runs_separately() {
    // Like a future standard harness that no longer knows the option.
    let mut bench = Bench::new(&[
        ("Cargo.toml", MANIFEST),
        ("src/lib.rs", ""),
        (
            "tests/refuses.rs",
            "#![no_main]\n#[no_mangle] pub extern \"C\" fn main(_: i32, _: *const *const u8) -> i32 {\n\
             let words: Vec<String> = std::env::args().skip(1).collect();\n\
             let words: Vec<&str> = words.iter().map(String::as_str).collect();\n\
             match words.as_slice() {\n\
             [\"--list\", \"--format\", \"terse\"] => { println!(\"good: test\\nbad: test\\nidle: test\"); 0 }\n\
             [\"--list\", \"--format\", \"terse\", \"--ignored\"] => { println!(\"idle: test\"); 0 }\n\
             [\"--exact\", \"good\"] => 0,\n\
             _ => 101 } }\n",
        ),
    ]);
    let crates = bench.test();
    let program = crates[0].programs.iter().find(|one| one.target == "tests/refuses").unwrap();
    let (listed, results) = standard(program);
    assert_eq!(listed, ["good", "bad", "idle"]);
    use TestResult::{Failed, Ignored, Ok};
    assert_eq!(results, BTreeMap::from([("good", Ok), ("bad", Failed), ("idle", Ignored)]));
    assert_eq!(program.run.ended, Termination::Exit(101));
}

#[test]
fn test_program_runs_as_cargo_runs_it() {
    let mut bench = Bench::new(&[
        ("Cargo.toml", "[workspace]\nmembers = [\"a\"]\nresolver = \"2\"\n"),
        ("a/Cargo.toml", "[package]\nname = \"a\"\nversion = \"1.2.3\"\nedition = \"2021\"\n"),
        ("a/src/main.rs", "fn main() { println!(\"from the program\"); }\n"),
        ("a/build.rs", "fn main() { println!(\"cargo:rustc-env=FROM_BUILD=built\"); }\n"),
        ("a/data.txt", "the data\n"),
        (
            "a/tests/it.rs",
            "#[test] fn finds_its_things() {\n\
             assert_eq!(std::fs::read_to_string(\"data.txt\").unwrap(), \"the data\\n\");\n\
             assert_eq!(std::env::var(\"CARGO_PKG_VERSION\").unwrap(), \"1.2.3\");\n\
             assert_eq!(std::env::var(\"CARGO_MANIFEST_DIR\").unwrap(), env!(\"CARGO_MANIFEST_DIR\"));\n\
             assert_eq!(env!(\"FROM_BUILD\"), \"built\");\n\
             let out = std::process::Command::new(env!(\"CARGO_BIN_EXE_a\")).output().unwrap();\n\
             assert_eq!(out.stdout, b\"from the program\\n\");\n\
             assert!(std::env::var_os(\"BAILIWICK_RECORDS\").is_none());\n\
             assert!(std::net::TcpListener::bind(\"127.0.0.1:0\").is_ok());\n\
             }\n",
        ),
    ]);
    let crates = bench.test();
    let program = crates[0].programs.iter().find(|one| one.target == "tests/it").unwrap();
    assert_eq!(program.run.ended, Termination::Exit(0), "{}", program.run.tail);
    assert_eq!(crates[0].documentation, None, "there is no library");
}

#[test]
fn crates_without_tests_and_failing_documentation_are_reported() {
    let mut bench = Bench::new(&[
        ("Cargo.toml", "[workspace]\nmembers = [\"a\", \"b\"]\nresolver = \"2\"\n"),
        ("a/Cargo.toml", "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("a/src/lib.rs", ""),
        ("b/Cargo.toml", "[package]\nname = \"b\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("b/src/lib.rs", "//! ```\n//! panic!();\n//! ```\n"),
    ]);
    let crates = bench.test();
    let names: Vec<&str> = crates.iter().map(|crate_tests| crate_tests.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(standard(&crates[0].programs[0]), (&[][..], BTreeMap::new()));
    assert!(crates[0].documentation.as_ref().unwrap().succeeded());
    assert_eq!(crates[1].documentation.as_ref().unwrap().ended, Termination::Exit(101));

    let only = Job::CargoTest { of: Crates::Named(vec!["b".to_owned()]) };
    match bench.run(&only) {
        JobOutcome::Tests { crates, .. } => {
            let names: Vec<&str> =
                crates.iter().map(|crate_tests| crate_tests.name.as_str()).collect();
            assert_eq!(names, ["b"]);
        }
        other @ (JobOutcome::CouldNotRun { .. }
        | JobOutcome::TreeChanged { .. }
        | JobOutcome::Commands(_)) => {
            panic!("{other:?}")
        }
    }
}

#[test]
fn failed_build_has_no_tests() {
    let mut bench = Bench::new(&[
        ("Cargo.toml", MANIFEST),
        ("src/lib.rs", "#[test] fn one() {}\n"),
        ("tests/broken.rs", "#[test] fn two() { no_such_function() }\n"),
    ]);
    match bench.run(&Job::CargoTest { of: Crates::Containing(vec!["src/lib.rs".to_owned()]) }) {
        JobOutcome::Tests { build, crates } => {
            assert_eq!(crates, []);
            assert_eq!(build[0].ended, Termination::Exit(101));
            assert!(build[0].tail.contains("no_such_function"), "{}", build[0].tail);
        }
        other @ (JobOutcome::CouldNotRun { .. }
        | JobOutcome::TreeChanged { .. }
        | JobOutcome::Commands(_)) => {
            panic!("{other:?}")
        }
    }
}

#[test]
fn limits_apply_to_all_tests_of_a_program_together() {
    let noisy_test = |name: &str| {
        format!(
            "#[test] fn {name}() {{ use std::io::Write; std::io::stdout().write_all(&[b'x'; 60_000]).unwrap() }}\n"
        )
    };
    let output = 100_000;
    for (names, exceeds) in [(&["a"][..], false), (&["a", "b", "c", "d"][..], true)] {
        let source: String = names.iter().map(|name| noisy_test(name)).collect();
        let files = [("Cargo.toml", MANIFEST), ("src/lib.rs", source.as_str())];
        let mut bench = Bench::with(&files, |mut setup| {
            setup.limits.output = output;
            setup
        });
        let crates = bench.test();
        let termination = &crates[0].programs[0].run.ended;
        let expected =
            if exceeds { Termination::TooMuchOutput(output) } else { Termination::Exit(0) };
        assert_eq!(*termination, expected, "{names:?}");
    }
}
