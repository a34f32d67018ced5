//! Rules for the files of the project.

use std::path::{Path, PathBuf};

use crate::workspace;

/// Every file that belongs to the project.
fn files() -> Vec<PathBuf> {
    let listed = std::process::Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(workspace())
        .output()
        .unwrap();
    assert!(listed.status.success(), "the project's files are listed by git");
    let text = String::from_utf8(listed.stdout).unwrap();
    let files: Vec<PathBuf> = text.split_terminator('\0').map(PathBuf::from).collect();
    files.into_iter().filter(|file| workspace().join(file).is_file()).collect()
}

fn is_rust(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "rs")
}

#[test]
fn every_source_file_begins_with_a_module_comment() {
    let mut count = 0;
    for file in files().iter().filter(|file| is_rust(file)) {
        count += 1;
        let text = std::fs::read_to_string(workspace().join(file)).unwrap();
        assert!(text.starts_with("//!"), "{} does not begin with a module comment", file.display());
    }
    assert!(count > 50, "only {count} files were checked");
}

#[test]
fn every_test_file_is_a_module_of_main() {
    let files = files();
    let tests = files
        .iter()
        .filter(|file| is_rust(file) && file.parent().is_some_and(|p| p.ends_with("tests/it")));
    let mut count = 0;
    for file in tests.filter(|file| !file.ends_with("main.rs")) {
        count += 1;
        let main = workspace().join(file.with_file_name("main.rs"));
        let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
        let main = std::fs::read_to_string(main).unwrap();
        assert!(
            main.contains(&format!("mod {stem};")),
            "{} is not in main.rs, so it never runs",
            file.display()
        );
    }
    assert!(count > 10, "only {count} files were checked");
}

#[test]
fn readme_names_the_commands_that_ci_runs() {
    let read = |name: &str| std::fs::read_to_string(workspace().join(name)).unwrap();
    let readme = read("README.md");
    assert!(readme.contains("cargo run --release -- demo"));
    assert!(readme.contains("\nscripts/test\n"), "README names the test command");
    let ci = read(".ci/run");
    let lines = ci.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let commands: Vec<&str> =
        lines.filter(|line| !line.starts_with("set ") && !line.starts_with("cd ")).collect();
    assert_eq!(commands, ["exec scripts/test"], ".ci/run calls exactly that command");
}
