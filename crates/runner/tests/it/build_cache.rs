//! What is built again, and whose cache it is.

use std::process::Command;

use bailiwick_lifecycle::ports::{CheckEnvironment as _, Preparation};
use bailiwick_runner::checks::CheckWorkshop;
use bailiwick_verify::job::{Crates, Termination, Warnings};
use bailiwick_verify::{Job, JobOutcome};

use crate::bench::{Bench, place, setup};

const MANIFEST: &str = "[package]\nname = \"NAME\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";

/// Which crates the next check compiles.
fn compiled(bench: &mut Bench, files: &[(&str, &str)]) -> Vec<String> {
    bench.fill(files);
    let ran = bench.check(Crates::Containing(Vec::new()), Warnings::Allowed);
    let [ran] = ran.as_slice() else { panic!("{ran:?}") };
    assert_eq!(ran.ended, Termination::Exit(0), "{}", ran.tail);
    let names = ran.tail.lines().filter_map(|line| line.trim().strip_prefix("Checking "));
    names.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn only_what_changed_is_built_again() {
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
    let first = tree(one, "", "");
    assert_eq!(compiled(&mut bench, &first), ["a", "b"]);
    assert_eq!(compiled(&mut bench, &first), Vec::<String>::new());
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "")), ["b"]);
    assert_eq!(compiled(&mut bench, &tree(two, "fn b() {}\n", "")), ["a", "b"]);
    // Back to what was built once, but is not what was built last.
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "")), ["a", "b"]);
    // A file that anything might read.
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "x")), ["a", "b"]);
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "x")), Vec::<String>::new());
    // What a job does to the sources reaches nobody.
    bench.shell("echo 'fn x() {}' >> a/src/lib.rs; touch a/src/generated.rs");
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "x")), Vec::<String>::new());
    // What makes a tree ready may leave something there.
    let setup = vec!["touch a/src/generated.rs".to_owned()];
    let how = Preparation { copy: Vec::new(), prefetch: Vec::new(), hosts: Vec::new(), setup };
    bench.make_ready(&how).unwrap();
    assert_eq!(compiled(&mut bench, &tree(one, "fn b() {}\n", "x")), ["a", "b"]);
    // What is not trusted uses the cache, and leaves nothing in it.
    bench.workshop.trust_build(false);
    let changed = tree(two, "fn b() {}\n", "x");
    assert_eq!(compiled(&mut bench, &changed), ["a", "b"]);
    assert_eq!(compiled(&mut bench, &changed), ["a", "b"]);
}

#[test]
fn a_tree_whose_files_are_old_is_still_built() {
    let manifest = MANIFEST.replace("NAME", "a");
    let mut bench = Bench::new(&[]);
    bench.workshop.trust_build(true);
    let files =
        |source: &'static str| vec![("Cargo.toml", manifest.as_str()), ("src/lib.rs", source)];
    assert_eq!(compiled(&mut bench, &files("")), ["a"]);
    bench.fill(&files("pub fn a() {}\n"));
    // As an archive would be unpacked, with the times of commits.
    let old = Command::new("touch")
        .args(["-d", "2001-01-01"])
        .arg(bench.tree().join("src/lib.rs"))
        .status();
    assert!(old.unwrap().success());
    let ran = bench.check(Crates::Containing(Vec::new()), Warnings::Allowed);
    assert!(ran[0].tail.contains("Checking a"), "{}", ran[0].tail);
}

#[test]
fn a_cache_belongs_to_one_repository() {
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
            other @ (JobOutcome::CouldNotRun { .. }
            | JobOutcome::TreeChanged { .. }
            | JobOutcome::Tests { .. }) => {
                panic!("{other:?}")
            }
        }
    };
    let mut one = open("one");
    let target = one.tree().parent().unwrap().join("target");
    std::fs::write(target.join("mark"), "").unwrap();
    assert_eq!(run(&mut one, "ls $CARGO_TARGET_DIR"), "mark\n");
    drop(one);
    assert_eq!(run(&mut open("one"), "ls $CARGO_TARGET_DIR"), "mark\n");
    let mut other = open("other");
    assert_eq!(run(&mut other, "ls $CARGO_TARGET_DIR"), "");
    let seen = run(&mut other, "ls /bailiwick; cat /proc/self/mountinfo | grep -c 'caches/one'");
    assert!(seen.ends_with("tree\n0\n"), "{seen}");
}
