//! The tree that is checked is the tree that lands: no check changes a tracked file.

use std::os::unix::fs::symlink;

use bailiwick_runner::checks::Setup;
use bailiwick_runner::sandbox::Level;
use bailiwick_verify::job::{CommandResult, Termination};
use bailiwick_verify::{Job, JobOutcome};

use crate::bench::Bench;

const MANIFEST: &str = "[package]\nname = \"one\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";

/// A failing test, and a build script that tries to make it pass by `attack`.
fn attacked(attack: &str) -> Bench {
    let script = format!(
        "use std::fs;\nfn main() {{\n\
         fs::write(\"tests/beside.txt\", \"\").unwrap();\n\
         fs::write(\"generated.txt\", \"\").unwrap();\n\
         {attack}\n}}\n"
    );
    Bench::new(&[
        ("Cargo.toml", MANIFEST),
        ("src/lib.rs", ""),
        ("build.rs", &script),
        ("tests/it.rs", "#[test] fn must_fail() { panic!(\"as it is on the base\") }\n"),
        ("tests/data/expected.txt", "2\n"),
    ])
}

#[test]
fn build_script_cannot_change_a_test() {
    let denied = "assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);";
    for attack in [
        format!("let written = fs::write(\"tests/it.rs\", \"#[test] fn must_fail() {{}}\"); {denied}"),
        "assert!(fs::remove_file(\"tests/it.rs\").is_err());".to_owned(),
        "fs::write(\"new.rs\", \"\").unwrap(); assert!(fs::rename(\"new.rs\", \"tests/it.rs\").is_err());"
            .to_owned(),
        "assert!(fs::rename(\"tests\", \"aside\").is_err());".to_owned(),
        "assert!(fs::rename(\"tests/data\", \"aside\").is_err());".to_owned(),
    ] {
        let crates = attacked(&attack).test();
        let program = crates[0].programs.iter().find(|one| one.target == "tests/it").unwrap();
        assert_eq!(program.run.ended, Termination::Exit(101), "{attack}: {}", program.run.tail);
        assert!(program.run.tail.contains("as it is on the base"), "{}", program.run.tail);
    }
}

#[test]
fn test_cannot_change_the_files_that_it_reads() {
    let test = "#[test] fn forges() {\n\
        let _ = std::fs::write(\"expected.txt\", \"1\\n\");\n\
        std::fs::write(\"actual.txt\", \"1\\n\").unwrap();\n\
        let read = |name: &str| std::fs::read_to_string(name).unwrap();\n\
        assert_eq!(read(\"actual.txt\"), read(\"expected.txt\")) }\n";
    let files = [("Cargo.toml", MANIFEST), ("src/lib.rs", ""), ("tests/it.rs", test)];
    for (expected, passes) in [("2\n", false), ("1\n", true)] {
        let expected = [("expected.txt", expected)];
        let crates = Bench::new(&[&files[..], &expected[..]].concat()).test();
        let program = crates[0].programs.iter().find(|one| one.target == "tests/it").unwrap();
        assert_eq!(program.run.succeeded(), passes, "{}", program.run.tail);
    }
}

#[test]
fn build_output_beside_tracked_files_is_allowed() {
    let mut bench = Bench::new(&[("src/a.py", "x = 1\n"), ("package.json", "{}\n"), ("b/c", "")]);
    let write = "for d in target/debug src/__pycache__ node_modules/.cache coverage b/dist; do \
                 mkdir -p $d && echo built > $d/out.tmp && mv $d/out.tmp $d/out || exit 1; done; \
                 rm -r target && cat src/__pycache__/out b/dist/out && cp src/a.py src/copy.py && rm src/copy.py";
    let result = bench.shell(write);
    assert_eq!((result.ended, result.tail.as_str()), (Termination::Exit(0), "built\nbuilt\n"));
}

fn changed(bench: &mut Bench, line: &str) -> Vec<String> {
    match bench.run(&Job::Command { line: line.to_owned() }) {
        JobOutcome::TreeChanged { line: reported_line, paths } => {
            assert_eq!(reported_line, line);
            paths
        }
        other @ (JobOutcome::CouldNotRun { .. }
        | JobOutcome::Commands(_)
        | JobOutcome::Tests { .. }) => {
            panic!("{line}: {other:?}")
        }
    }
}

/// Links are not mounted: changes to them are found afterwards.
#[test]
fn command_that_changes_a_link_or_hides_a_directory_of_links_fails() {
    let mut bench = Bench::new(&[("file", "x\n")]);
    let tree = bench.tree();
    std::fs::create_dir_all(tree.join("links/deep")).unwrap();
    for name in ["one", "links/two", "links/deep/three"] {
        symlink("/nowhere", tree.join(name)).unwrap();
    }
    let hidden = ["links/deep/three", "links/two"];
    for (line, paths) in [
        ("ln -sfn /elsewhere one", &["one"][..]),
        ("rm one", &["one"]),
        ("rm -r links", &hidden),
        ("rm -r links && mkdir links && touch links/new", &hidden),
        ("rm -r links && echo file > links", &hidden),
        ("mkdir aside && mv links aside/", &hidden),
        ("rm one && mkdir one", &["one"]),
    ] {
        assert_eq!(changed(&mut bench, line), paths, "{line}");
    }
    let harmless = bench.shell("ln -s x new && rm new && touch links/other links/deep/other");
    assert_eq!(harmless.ended, Termination::Exit(0));
}

#[test]
fn without_a_sandbox_a_changed_file_is_found_afterwards() {
    let files = [("file", "x\n"), ("place/other", "x\n")];
    let mut bench = Bench::with(&files, |setup| Setup { level: Level::Off, ..setup });
    assert_eq!(changed(&mut bench, "echo y > file; rm -r place"), ["file", "place/other"]);
    assert_eq!(changed(&mut bench, "chmod +x file"), ["file"]);
    assert!(CommandResult::succeeded(&bench.shell("touch new place/new && cat file")));
}
