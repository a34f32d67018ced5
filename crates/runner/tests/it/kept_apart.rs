//! The writes of one program reach no other: not the tree, the build cache or another's results.

use std::fs;

use bailiwick_lifecycle::ports::Preparation;
use bailiwick_verify::job::{CommandResult, Crates, Harness, Termination, TestResult, Warnings};

use crate::bench::Bench;

const MANIFEST: &str = "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";

fn all_crates() -> Crates {
    Crates::Containing(Vec::new())
}

fn preparation(setup: &[&str]) -> Preparation {
    let setup = setup.iter().map(|line| (*line).to_owned()).collect();
    Preparation { copy: Vec::new(), prefetch: Vec::new(), hosts: Vec::new(), setup }
}

#[test]
fn command_cannot_repair_the_tree_and_its_new_files_are_deleted() {
    let manifest = MANIFEST.replace("NAME", "a");
    let broken = "pub fn one() -> u32 { \"broken\" }\n";
    let mut bench = Bench::new(&[("Cargo.toml", &manifest), ("src/lib.rs", broken)]);
    bench.workshop.trust_build(true);
    let repair = "echo 'pub fn one() -> u32 { 1 }' > src/lib.rs && cargo check";
    assert_ne!(bench.shell(repair).ended, Termination::Exit(0), "it cannot repair it");
    let add =
        "echo '#[path = \"../mended.rs\"] mod m;' > src/main.rs && touch mended.rs src/x && ls src";
    assert_eq!(bench.shell(add).tail, "lib.rs\nmain.rs\nx\n");
    assert_eq!(bench.shell("ls src").tail, "lib.rs\n");
    let results = bench.check(all_crates(), Warnings::Allowed);
    assert_eq!(results[0].ended, Termination::Exit(101), "{}", results[0].tail);
    assert_eq!(fs::read_to_string(bench.tree().join("src/lib.rs")).unwrap(), broken);
    assert_eq!(bench.shell("cat src/lib.rs").tail, broken);
}

/// Sets every time in the build cache far in the future, so that cargo treats all of it as fresh.
const AHEAD: &str = r#"
use std::{fs, path::Path, time::{Duration, SystemTime}};
fn walk(place: &Path) -> usize {
    fs::read_dir(place).unwrap().flatten().map(|entry| {
        let path = entry.path();
        if path.is_dir() { return walk(&path) }
        let ahead = SystemTime::now() + Duration::from_secs(86400 * 3650);
        fs::File::open(&path).unwrap().set_modified(ahead).unwrap();
        assert!(fs::metadata(&path).unwrap().modified().unwrap() >= ahead - Duration::from_secs(1));
        1
    }).sum()
}
#[test] fn poison() { assert!(walk(Path::new(&std::env::var("CARGO_TARGET_DIR").unwrap())) > 0); }
"#;

#[test]
fn times_that_a_test_sets_in_the_build_cache_are_discarded() {
    let manifest = MANIFEST.replace("NAME", "a");
    let mut bench = Bench::new(&[]);
    let source = |body: &str| {
        format!(
            "pub fn one() -> u32 {{ {body} }}\n#[test] fn is_one() {{ assert_eq!(one(), 1) }}\n"
        )
    };
    for trusted in [true, false] {
        bench.workshop.trust_build(trusted);
        bench.fill(&[
            ("Cargo.toml", &manifest),
            ("src/lib.rs", &source("1")),
            ("tests/ahead.rs", AHEAD),
        ]);
        let crates = bench.test();
        assert!(crates[0].programs.iter().all(|one| one.run.succeeded()), "{crates:?}");
        let checked = bench.check(all_crates(), Warnings::Allowed);
        assert!(checked.iter().all(CommandResult::succeeded));
        bench.fill(&[("Cargo.toml", &manifest), ("src/lib.rs", &source("2"))]);
        let crates = bench.test();
        assert_eq!(crates[0].programs[0].run.ended, Termination::Exit(101), "one() is 2 now");
        bench.fill(&[("Cargo.toml", &manifest), ("src/lib.rs", &source("\"no\""))]);
        let checked = bench.check(all_crates(), Warnings::Allowed);
        assert_eq!(checked[0].ended, Termination::Exit(101), "it does not compile now");
    }
}

#[test]
fn test_that_overwrites_another_program_cannot_fake_its_result() {
    let (a, b) = (MANIFEST.replace("NAME", "a"), MANIFEST.replace("NAME", "b"));
    let b = format!("{b}[dependencies]\na = {{ path = \"../a\" }}\n");
    let overwriting = "pub fn one() -> u32 { 2 }\n\
        #[test] fn fine() {\n\
        let me = std::env::current_exe().unwrap();\n\
        let others = std::fs::read_dir(me.parent().unwrap()).unwrap().flatten();\n\
        let others = others.filter(|one| { let name = one.file_name().into_string().unwrap(); name.starts_with(\"b-\") && !name.contains('.') });\n\
        let mut written = 0;\n\
        for one in others { std::fs::remove_file(one.path()).unwrap(); std::fs::copy(&me, one.path()).unwrap(); written += 1; }\n\
        std::fs::write(\"../b/src/lib.rs\", \"\").unwrap_err();\n\
        assert!(written > 0) }\n";
    let mut bench = Bench::new(&[
        ("Cargo.toml", "[workspace]\nmembers = [\"a\", \"b\"]\nresolver = \"2\"\n"),
        ("a/Cargo.toml", &a),
        ("a/src/lib.rs", overwriting),
        ("b/Cargo.toml", &b),
        (
            "b/src/lib.rs",
            "//! ```\n//! assert_eq!(a::one(), 1);\n//! ```\n#[test] fn is_one() { assert_eq!(a::one(), 1) }\n",
        ),
    ]);
    for trusted in [false, true] {
        bench.workshop.trust_build(trusted);
        let crates = bench.test();
        let names: Vec<&str> = crates.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(crates[0].programs[0].run.succeeded(), "{:?}", crates[0]);
        assert_eq!(crates[1].programs[0].run.ended, Termination::Exit(101), "{:?}", crates[1]);
        let documentation = crates[1].documentation.as_ref().unwrap();
        assert_eq!(documentation.ended, Termination::Exit(101), "{}", documentation.tail);
    }
}

#[test]
fn test_that_writes_the_log_and_exits_affects_its_own_result_only() {
    let manifest = MANIFEST.replace("NAME", "a");
    let source = "\
        #[test] fn a_first() {\n\
        let all: Vec<String> = std::env::args().collect();\n\
        let log = &all[all.iter().position(|one| one == \"--logfile\").unwrap() + 1];\n\
        std::fs::write(log, \"ok a_first\\nok is_one\\nok z\\n\").unwrap();\n\
        std::process::exit(0) }\n\
        #[test] fn is_one() { std::thread::sleep(std::time::Duration::from_millis(300)); assert_eq!(2, 1) }\n\
        #[test] fn y() {}\n\
        #[test] fn z() { panic!() }\n";
    let mut bench = Bench::new(&[("Cargo.toml", &manifest), ("src/lib.rs", source)]);
    let crates = bench.test();
    let Harness::Standard { listed, results } = &crates[0].programs[0].harness else {
        panic!("{crates:?}")
    };
    assert_eq!(listed.len(), 4);
    for (test, expected) in [
        ("a_first", TestResult::Failed),
        ("is_one", TestResult::Failed),
        ("y", TestResult::Ok),
        ("z", TestResult::Failed),
    ] {
        assert_eq!(results.get(test), Some(&expected), "{test}");
    }
}

#[test]
fn setup_may_add_files_but_not_change_tracked_ones() {
    let files = [("file", "given\n"), ("place/other", "given\n")];
    let mut bench = Bench::new(&files);
    let add = "echo made > made && mkdir -p place/more && touch place/more/x";
    bench.make_ready(&preparation(&[add])).unwrap();
    assert_eq!(bench.shell("cat made").tail, "made\n");
    for change in [
        "echo mended > file",
        "rm file",
        "chmod +x file",
        "ln -sf place/other file",
        "cp -r place elsewhere && rm -r place && ln -s elsewhere place",
    ] {
        bench.fill(&files);
        let error = bench.make_ready(&preparation(&[change])).unwrap_err().to_string();
        assert!(error.contains("setup changed tracked files: "), "{change}: {error}");
    }
    // Its writes to the build cache are discarded.
    bench.fill(&files);
    let write = "touch $CARGO_TARGET_DIR/planted && ls $CARGO_TARGET_DIR > seen";
    bench.make_ready(&preparation(&[write])).unwrap();
    assert_eq!(bench.shell("cat seen; ls $CARGO_TARGET_DIR").tail, "planted\n");
}

/// The kernel cannot mount overlays of directories whose names contain a comma.
#[test]
fn without_overlays_each_program_has_its_own_copy() {
    let manifest = MANIFEST.replace("NAME", "a");
    let source = "#[test] fn a() { std::fs::write(\"mark\", \"\").unwrap(); }\n\
        #[test] fn b() { a(); std::fs::write(\"src/lib.rs\", \"\").unwrap_err(); }\n\
        #[test] fn c() { assert!(!std::path::Path::new(\"mark\").exists()); assert_ne!(std::fs::read(\"src/lib.rs\").unwrap(), b\"\"); }\n";
    let files = [("Cargo.toml", manifest.as_str()), ("src/lib.rs", source)];
    let mut bench = Bench::with(&files, |mut setup| {
        setup.state = setup.state.join("with,comma");
        setup
    });
    bench.workshop.trust_build(true);
    let write = "cat /proc/self/mountinfo; touch src/new && (echo > src/lib.rs) || touch $CARGO_TARGET_DIR/mark";
    let result = bench.shell(write);
    assert_eq!(result.ended, Termination::Exit(0));
    assert!(result.tail.contains("Read-only file system"), "{}", result.tail);
    let mount = result.tail.lines().find(|line| line.contains(" /bailiwick/tree ")).unwrap();
    assert!(!mount.contains("overlay"), "{mount}");
    assert_eq!(bench.shell("cat src/lib.rs; ls $CARGO_TARGET_DIR").tail, source);
    let crates = bench.test();
    assert!(crates[0].programs[0].run.succeeded(), "{}", crates[0].programs[0].run.tail);
    assert!(crates[0].documentation.as_ref().unwrap().succeeded());
    let checked = bench.check(all_crates(), Warnings::Allowed);
    assert!(checked[0].tail.contains("Checking a"), "{}", checked[0].tail);
    let checked = bench.check(all_crates(), Warnings::Allowed);
    assert!(checked[0].tail.contains("Checking a"), "nothing was cached: {}", checked[0].tail);
}
