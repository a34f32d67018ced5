//! `CargoCheck`: which workspaces it finds, and what it reports.

use std::net::TcpListener;

use bailiwick_verify::job::{CommandResult, Crates, Termination, Warnings};
use bailiwick_verify::{Job, JobOutcome};

use crate::bench::Bench;

fn package(name: &str, rest: &str) -> String {
    format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n{rest}")
}

/// A workspace at the root, one below it that it excludes, and a crate in neither.
fn nested() -> Vec<(&'static str, String)> {
    let needs = "[dependencies]\none = { path = \"../one\" }\n";
    vec![
        ("Cargo.toml", "[workspace]\nmembers = [\"one\", \"two\"]\nexclude = [\"inner\", \"alone\"]\nresolver = \"2\"\n".to_owned()),
        ("one/Cargo.toml", package("one", "")),
        ("one/src/lib.rs", "pub fn one() -> u32 { 1 }\n".to_owned()),
        ("two/Cargo.toml", package("two", needs)),
        ("two/src/lib.rs", "pub fn two() -> u32 { one::one() + 1 }\n".to_owned()),
        ("inner/Cargo.toml", "[workspace]\nmembers = [\"three\"]\nresolver = \"2\"\n".to_owned()),
        ("inner/three/Cargo.toml", package("three", "")),
        ("inner/three/src/lib.rs", "fn nobody_calls_it() {}\n".to_owned()),
        ("alone/Cargo.toml", package("alone", "[workspace]\n")),
        ("alone/src/main.rs", "fn main() { missing() }\n".to_owned()),
        ("README.md", String::new()),
    ]
}

fn bench(files: &[(&str, String)]) -> Bench {
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    Bench::new(&files)
}

fn containing(paths: &[&str]) -> Crates {
    Crates::Containing(paths.iter().map(|path| (*path).to_owned()).collect())
}

fn named(names: &[&str]) -> Crates {
    Crates::Named(names.iter().map(|name| (*name).to_owned()).collect())
}

fn lines(results: &[CommandResult]) -> Vec<(&str, bool)> {
    results.iter().map(|result| (result.line.as_str(), result.succeeded())).collect()
}

#[test]
fn workspaces_that_contain_the_paths_are_checked_completely() {
    let mut bench = bench(&nested());
    let all = "cargo check --workspace --all-targets";
    let results = bench.check(containing(&["one/src/lib.rs", "two/src/gone.rs"]), Warnings::Denied);
    assert_eq!(lines(&results), [(all, true)], "{results:?}");
    assert_eq!(bench.progress, [all]);
    let results = bench.check(containing(&["inner/three/src/lib.rs"]), Warnings::Allowed);
    // A crate above may depend on it.
    let inner = format!("cd inner && {all}");
    assert_eq!(lines(&results), [(all, true), (inner.as_str(), true)], "{results:?}");
    // After the first failure no further workspace is checked.
    let results =
        bench.check(containing(&["inner/Cargo.toml", "alone/src/main.rs"]), Warnings::Allowed);
    let check_alone = format!("cd alone && {all}");
    assert_eq!(lines(&results), [(all, true), (check_alone.as_str(), false)], "{results:?}");
    assert!(results[1].tail.contains("missing"), "{}", results[1].tail);
}

#[test]
fn without_a_matching_workspace_every_outermost_one_is_checked() {
    let mut files = nested();
    files.retain(|(path, _)| *path != "Cargo.toml" && !path.starts_with("alone"));
    let mut bench = bench(&files);
    let results = bench.check(containing(&["README.md"]), Warnings::Allowed);
    let all = "cargo check --workspace --all-targets";
    let expected = ["inner", "one", "two"].map(|place| format!("cd {place} && {all}"));
    let lines: Vec<&str> = results.iter().map(|result| result.line.as_str()).collect();
    assert_eq!(lines, expected);
    assert!(results.iter().all(CommandResult::succeeded), "{results:?}");
}

#[test]
fn named_crates_are_found_in_any_workspace() {
    let mut bench = bench(&nested());
    let results = bench.check(named(&["two", "three", "one"]), Warnings::Allowed);
    assert_eq!(
        lines(&results),
        [
            ("cargo check -p two -p one --all-targets", true),
            ("cd inner && cargo check -p three --all-targets", true)
        ],
        "{results:?}"
    );
    let job = Job::CargoCheck { of: named(&["one", "four"]), warnings: Warnings::Allowed };
    let JobOutcome::CouldNotRun { why } = bench.run(&job) else { panic!("it ran") };
    assert!(why.contains("`four`"), "{why}");
    bench.fill(&[("README.md", "")]);
    let job = Job::CargoCheck { of: containing(&["README.md"]), warnings: Warnings::Allowed };
    let JobOutcome::CouldNotRun { why } = bench.run(&job) else { panic!("it ran") };
    assert!(why.contains("Cargo.toml"), "{why}");
}

#[test]
fn warning_is_an_error_only_if_denied_even_without_a_rebuild() {
    let mut bench = bench(&nested());
    for _ in 0..2 {
        let results = bench.check(named(&["three"]), Warnings::Allowed);
        assert_eq!(results[0].ended, Termination::Exit(0));
        assert!(results[0].tail.contains("nobody_calls_it"), "{}", results[0].tail);
        let results = bench.check(named(&["three"]), Warnings::Denied);
        assert_eq!(results[0].ended, Termination::Exit(101));
        assert!(results[0].tail.contains("nobody_calls_it"), "{}", results[0].tail);
        assert!(results[0].tail.contains("a warning is an error here"), "{}", results[0].tail);
    }
    let results = bench.check(named(&["one"]), Warnings::Denied);
    assert_eq!(results[0].ended, Termination::Exit(0), "{}", results[0].tail);
}

#[test]
fn outdated_lock_file_fails() {
    let lock = "version = 4\n\n[[package]]\nname = \"one\"\nversion = \"0.1.0\"\n";
    let manifest = package("one", "");
    let mut bench =
        Bench::new(&[("Cargo.toml", &manifest), ("src/lib.rs", ""), ("Cargo.lock", lock)]);
    let results = bench.check(containing(&[]), Warnings::Denied);
    assert_eq!(
        lines(&results),
        [("cargo check --locked --workspace --all-targets", true)],
        "{results:?}"
    );
    let stale = lock.replace("0.1.0", "0.2.0");
    bench.fill(&[("Cargo.toml", &manifest), ("src/lib.rs", ""), ("Cargo.lock", &stale)]);
    let results = bench.check(containing(&[]), Warnings::Allowed);
    assert_eq!(results[0].ended, Termination::Exit(101));
    assert!(results[0].tail.contains("--locked"), "{}", results[0].tail);
}

#[test]
fn build_script_reaches_neither_the_network_nor_files_outside() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let attempts = format!(
        "let net = std::net::TcpStream::connect(\"{address}\").is_ok();\n\
         let file = std::fs::write(\"{0}/from-inside\", \"x\").is_ok();\n\
         let read = std::fs::read_to_string(\"{0}/secret\").is_ok();\n\
         let home = std::fs::read_dir(\"{1}\").map(|all| all.flatten().map(|one| one.file_name()).collect::<Vec<_>>());\n",
        outside.path().display(),
        std::env::var("HOME").unwrap(),
    );
    std::fs::write(outside.path().join("secret"), "x").unwrap();
    let script = format!(
        "fn main() {{\n{attempts}\
         println!(\"cargo:warning=net {{net}} file {{file}} read {{read}} home {{home:?}}\");\n\
         std::fs::write(std::env::var(\"OUT_DIR\").unwrap() + \"/own\", \"x\").unwrap(); }}\n"
    );
    let mut bench = Bench::new(&[
        ("Cargo.toml", &package("one", "")),
        ("src/lib.rs", ""),
        ("build.rs", &script),
    ]);
    let results = bench.check(containing(&[]), Warnings::Allowed);
    assert_eq!(results[0].ended, Termination::Exit(0), "{}", results[0].tail);
    assert!(results[0].tail.contains("net false file false read false"), "{}", results[0].tail);
    assert!(!results[0].tail.contains("credentials"), "{}", results[0].tail);
    assert!(!outside.path().join("from-inside").exists());
    // The control: the same outside.
    assert!(std::net::TcpStream::connect(address).is_ok());
    std::fs::write(outside.path().join("from-inside"), "x").unwrap();
}

/// A workspace of two crates, the second depends on the first, with changes to some files.
fn two(changes: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    let mut files = vec![
        ("Cargo.toml", "[workspace]\nmembers = [\"a\", \"b\"]\nresolver = \"2\"\n".to_owned()),
        ("a/Cargo.toml", package("a", "")),
        ("a/src/lib.rs", "pub fn one() -> u32 { 1 }\n".to_owned()),
        ("b/Cargo.toml", package("b", "[dependencies]\na = { path = \"../a\" }\n")),
        ("b/src/lib.rs", "pub fn two() -> u32 { a::one() + 1 }\n".to_owned()),
    ];
    for (path, text) in changes {
        files.retain(|(other, _)| other != path);
        files.push((*path, (*text).to_owned()));
    }
    files
}

#[test]
fn nested_manifest_or_own_workspace_hides_no_error() {
    let results = bench(&two(&[])).check(containing(&["a/src/lib.rs"]), Warnings::Denied);
    assert!(results.iter().all(CommandResult::succeeded), "{results:?}");
    let decoy = format!("[workspace]\n{}[lib]\npath = \"d.rs\"\n", package("decoy", ""));
    let broken = "pub fn one() -> u32 { \"no\" }\n";
    let changes =
        [("a/src/Cargo.toml", decoy.as_str()), ("a/src/d.rs", ""), ("a/src/lib.rs", broken)];
    let paths = containing(&["a/src/Cargo.toml", "a/src/d.rs", "a/src/lib.rs"]);
    let results = bench(&two(&changes)).check(paths, Warnings::Allowed);
    assert!(!results.iter().all(CommandResult::succeeded), "{results:?}");

    let own_workspace = package("a", "[workspace]\n");
    let mut bench = bench(&two(&[("a/Cargo.toml", &own_workspace)]));
    let results = bench.check(containing(&["a/Cargo.toml"]), Warnings::Allowed);
    assert!(results.iter().any(|one| one.tail.contains("multiple workspace roots")), "{results:?}");
    assert!(!results.iter().all(CommandResult::succeeded));
}

#[test]
fn crate_that_was_removed_from_the_workspace_is_still_checked() {
    let paths = || containing(&["Cargo.toml", "a/src/lib.rs"]);
    let results = bench(&two(&[])).check(paths(), Warnings::Allowed);
    assert_eq!(lines(&results), [("cargo check --workspace --all-targets", true)], "{results:?}");
    let renamed = ("a/src/lib.rs", "pub fn uno() -> u32 { 1 }\n");
    for exclude in ["exclude = [\"b\"]\n", ""] {
        let root = format!("[workspace]\nmembers = [\"a\"]\nresolver = \"2\"\n{exclude}");
        let mut bench = bench(&two(&[("Cargo.toml", &root), renamed]));
        let results = bench.check(paths(), Warnings::Allowed);
        let last = results.last().unwrap();
        assert!(!last.succeeded(), "{results:?}");
        assert!(last.tail.contains("tree/b/") || last.tail.contains("a::one()"), "{}", last.tail);
    }
}

#[test]
fn tree_cannot_replace_the_compiler() {
    let manifest = package("one", "");
    let bad = ("src/lib.rs", "this is not rust\n");
    let wrapper = "#!/bin/sh\nexit 0\n";
    for name in ["rustc", "cargo", "wrapper"] {
        let path = format!("tools/bin/{name}");
        let settings = match name {
            "wrapper" => "[build]\nrustc-wrapper = \"tools/bin/wrapper\"\n",
            _ => "",
        };
        let mut bench = Bench::new(&[
            ("Cargo.toml", &manifest),
            bad,
            (&path, wrapper),
            (".cargo/config.toml", settings),
            ("rust-toolchain.toml", "[toolchain]\npath = \"/bailiwick/tree/tools\"\n"),
        ]);
        bench.shell("true");
        let job = Job::CargoCheck { of: containing(&[]), warnings: Warnings::Allowed };
        match bench.run(&job) {
            JobOutcome::CouldNotRun { why } => assert!(why.contains("rustc-wrapper"), "{why}"),
            JobOutcome::Commands(ran) => {
                assert_eq!(ran[0].ended, Termination::Exit(101), "{ran:?}")
            }
            other @ (JobOutcome::TreeChanged { .. } | JobOutcome::Tests { .. }) => {
                panic!("{other:?}")
            }
        }
    }
    // A wrapper in the search path is not used either, and flags that silence errors are refused.
    let silent = "[build]\nrustflags = [\"--cap-lints=allow\"]\n";
    for (settings, refused) in [("[build]\nrustc-wrapper = \"true\"\n", false), (silent, true)] {
        let mut bench =
            Bench::new(&[("Cargo.toml", &manifest), bad, (".cargo/config.toml", settings)]);
        let job = Job::CargoCheck { of: containing(&[]), warnings: Warnings::Denied };
        match bench.run(&job) {
            JobOutcome::CouldNotRun { why } => {
                assert!(refused && why.contains("rustflags"), "{why}")
            }
            JobOutcome::Commands(ran) => {
                assert!(!refused && ran[0].ended == Termination::Exit(101), "{ran:?}");
            }
            other @ (JobOutcome::TreeChanged { .. } | JobOutcome::Tests { .. }) => {
                panic!("{other:?}")
            }
        }
    }
}
