//! The repository that every case starts from.

use std::path::Path;
use std::process::Command;

const NOTEBOOK: &str = r##"{
 "cells": [
  {"cell_type": "code", "execution_count": null, "id": "c1", "metadata": {}, "outputs": [], "source": ["print(1)"]}
 ],
 "metadata": {},
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

/// The files of the first commit.
const FILES: [(&str, &str); 15] = [
    ("README.md", "# Demo\n\nA small crate. Use git to get it.\n"),
    (
        "src/lib.rs",
        "//! Adds.\n\npub mod deep;\n\npub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n",
    ),
    ("src/main.rs", "fn main() {\n    println!(\"{}\", demo::add(1, 2));\n}\n"),
    ("src/deep/mod.rs", "//! Deep. TODO: more.\n\npub fn one() -> u32 {\n    1\n}\n"),
    ("docs/guide.md", "# Guide\n\nRun `cargo run`. Never push by hand.\n"),
    (
        "Cargo.toml",
        "[package]\nname = \"demo\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\n",
    ),
    ("Cargo.lock", "version = 4\n\n[[package]]\nname = \"demo\"\nversion = \"0.1.0\"\n"),
    (
        "package.json",
        "{\n  \"name\": \"demo\",\n  \"version\": \"0.1.0\",\n  \"scripts\": {\n    \"test\": \"node -e 0\",\n    \"build\": \"node -e 0\"\n  },\n  \"dependencies\": {}\n}\n",
    ),
    ("scripts/build.sh", "#!/bin/sh\nset -eu\necho building\n"),
    ("Makefile", "all:\n\t@echo all\n\ntest:\n\t@echo test\n"),
    ("notes.ipynb", NOTEBOOK),
    (
        ".github/workflows/ci.yml",
        "on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n      - run: cargo test\n",
    ),
    ("AGENTS.md", "# Rules\n\nDo not use git.\n"),
    (".claude/settings.json", "{\n  \"permissions\": {}\n}\n"),
    (".gitignore", "/target\nnode_modules/\n"),
];

/// Creates the repository at `root`, which must be an empty directory or not exist.
///
/// # Panics
/// If a file cannot be written or git fails.
pub fn fixture(root: &Path) {
    for (path, text) in FILES {
        let file = root.join(path);
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
        std::fs::write(&file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
    let script = root.join("scripts/build.sh");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).expect("a mode");
    for arguments in [
        "init --quiet --initial-branch=main",
        "config user.name Agent",
        "config user.email agent@example.org",
        "add --all",
        "commit --quiet --message start",
    ] {
        let output = Command::new("git")
            .args(arguments.split(' '))
            .current_dir(root)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", root)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .expect("git is installed");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments}: {said}");
    }
}
