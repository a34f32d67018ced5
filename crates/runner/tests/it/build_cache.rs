//! What is rebuilt, and which repository a build cache belongs to.

use std::process::Command;

use bailiwick_lifecycle::ports::{CheckEnvironment as _, Preparation};
use bailiwick_runner::checks::CheckWorkshop;
use bailiwick_verify::job::{Crates, Termination, Warnings};
use bailiwick_verify::{Job, JobOutcome};

use crate::bench::{Bench, place, setup};

const MANIFEST: &str = "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";

/// The crates that the next check compiles.
fn compiled(bench: &mut Bench, files: &[(&str, &str)]) -> Vec<String> {
    bench.fill(files);
    let results = bench.check(Crates::Containing(Vec::new()), Warnings::Allowed);
    let [result] = results.as_slice() else { panic!("{results:?}") };
    assert_eq!(result.ended, Termination::Exit(0), "{}", result.tail);
    let names = result.tail.lines().filter_map(|line| line.trim().strip_prefix("Checking "));
    names.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn only_changed_crates_are_rebuilt() {
    let (a, b) = (MANIFEST.replace("NAME", "a"), MANIFEST.replace("NAME", "b"));
    let b = format!("{b}[dependencies]\na = {{ path = \"../a\" }}\n");
    let tree = |a_source: &'static str, b_source: &'static str, data: &'static str| {
        vec![
            ("Cargo.toml", "[workspace]\nmembers = [\"a\", \"b\"]\nresolver = \"2\"\n"),
            ("a/Cargo.toml", a.as_str()),
            ("a/src/lib.rs", a_source),
            ("b/Cargo.toml", b.as_str()),
            ("b/src/lib.rs", b_source),
            ("data.txt", data),
        ]
    };
    let (one, two) = ("pub fn a() -> u32 { 1 }\n", "pub fn a() -> u32 { 2 }\n");
    let mut bench = Bench::new(&[]);
    bench.workshop.trust_build(true);
    let original = tree(one, "", "");
    assert_eq!(compiled(&mut bench, &original), ["a", "b"]);
    assert_eq!(compiled(&mut bench, &original), Vec::<String>::new());
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "")), ["b"]);
    assert_eq!(compiled(&mut bench, &tree(two, "fn b() {}\n", "")), ["a", "b"]);
    // Back to the first tree: it was built once, but is not the last one that was built.
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "")), ["a", "b"]);
    // A file that any crate might read.
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "x")), ["a", "b"]);
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "x")), Vec::<String>::new());
    // A job's changes to the sources reach no other job.
    bench.shell("echo 'fn x() {}' >> a/src/lib.rs; touch a/src/generated.rs");
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "x")), Vec::<String>::new());
    // Preparation may leave files in the tree.
    let setup = vec!["touch a/src/generated.rs".to_owned()];
    let preparation =
        Preparation { copy: Vec::new(), prefetch: Vec::new(), hosts: Vec::new(), setup };
    bench.make_ready(&preparation).unwrap();
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "x")), ["a", "b"]);
    // An untrusted build uses the cache, but adds nothing to it.
    bench.workshop.trust_build(false);
    let changed = tree(two, "fn b() {}\n", "x");
    assert_eq!(compiled(&mut bench, &changed), ["a", "b"]);
    assert_eq!(compiled(&mut bench, &changed), ["a", "b"]);
}

#[test]
fn tree_with_old_modification_times_is_still_built() {
    let manifest = MANIFEST.replace("NAME", "a");
    let mut bench = Bench::new(&[]);
    bench.workshop.trust_build(true);
    let files =
        |source: &'static str| vec![("Cargo.toml", manifest.as_str()), ("src/lib.rs", source)];
    assert_eq!(compiled(&mut bench, &files("")), ["a"]);
    bench.fill(&files("pub fn a() {}\n"));
    // An unpacked archive has the modification times of commits.
    let touched = Command::new("touch")
        .args(["-d", "2001-01-01"])
        .arg(bench.tree().join("src/lib.rs"))
        .status();
    assert!(touched.unwrap().success());
    let results = bench.check(Crates::Containing(Vec::new()), Warnings::Allowed);
    assert!(results[0].tail.contains("Checking a"), "{}", results[0].tail);
}

#[test]
fn cache_belongs_to_one_repository() {
    let place = place();
    let open = |repository: &str| {
        let mut setup = setup(&place);
        setup.repository = repository.to_owned();
        let mut workshop = CheckWorkshop::open(setup).unwrap();
        workshop.clear().unwrap();
        workshop
    };
    let run = |workshop: &mut CheckWorkshop, line: &str| {
        let job = Job::Command { line: line.to_owned() };
        match workshop.run(&job, &mut |_| {}) {
            JobOutcome::Commands(all) => all[0].tail.clone(),
            second @ (JobOutcome::CouldNotRun { .. }
            | JobOutcome::TreeChanged { .. }
            | JobOutcome::Tests { .. }) => {
                panic!("{second:?}")
            }
        }
    };
    let mut first = open("one");
    let target = first.tree().parent().unwrap().join("target");
    std::fs::write(target.join("mark"), "").unwrap();
    assert_eq!(run(&mut first, "ls $CARGO_TARGET_DIR"), "mark\n");
    drop(first);
    assert_eq!(run(&mut open("one"), "ls $CARGO_TARGET_DIR"), "mark\n");
    let mut second = open("other");
    assert_eq!(run(&mut second, "ls $CARGO_TARGET_DIR"), "");
    let listing =
        run(&mut second, "ls /bailiwick; cat /proc/self/mountinfo | grep -c 'caches/one'");
    assert!(listing.ends_with("tree\n0\n"), "{listing}");
}
