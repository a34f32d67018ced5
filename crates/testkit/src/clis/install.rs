//! Gets a pinned CLI once, into the person's cache.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Cli;

pub(super) fn program(cli: Cli) -> PathBuf {
    let place = cache().join(format!("{}-{}", cli.name(), cli.version()));
    let program = within(&place, cli);
    if !program.exists() {
        install(cli, &place);
    }
    program
}

/// Node itself for those that need a newer one than systems have; by npm, like the rest.
const NODE: &str = "node@22.23.3";

/// Runs Gemini CLI with its own node, whatever is on PATH.
const LAUNCHER: &str = r#"#!/bin/sh
modules=$(dirname "$(readlink -f "$0")")/node_modules
exec "$modules/.bin/node" "$modules/.bin/gemini" "$@"
"#;

fn within(place: &Path, cli: Cli) -> PathBuf {
    match cli {
        Cli::Gemini => place.join(cli.name()),
        Cli::Claude | Cli::Codex | Cli::OpenCode => {
            place.join("node_modules/.bin").join(cli.name())
        }
    }
}

fn cache() -> PathBuf {
    let given = std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty());
    let cache = given.map(PathBuf::from).or_else(|| Some(std::env::home_dir()?.join(".cache")));
    cache.expect("HOME or XDG_CACHE_HOME says where the agent CLIs are kept").join("bailiwick/clis")
}

/// Installs beside the place and moves it there at the end: what is in the place is whole.
fn install(cli: Cli, place: &Path) {
    let parent = place.parent().expect("a place in the cache");
    std::fs::create_dir_all(parent).expect("the cache can be written");
    // Other tests wait here while one of them installs.
    let lock = File::create(place.with_added_extension("lock")).expect("a lock file");
    lock.lock().expect("the lock of the CLI's place");
    if within(place, cli).exists() {
        return;
    }
    let partial = place.with_added_extension("partial");
    if partial.exists() {
        std::fs::remove_dir_all(&partial).expect("what was left half installed can be removed");
    }
    std::fs::create_dir(&partial).expect("a directory in the cache");
    if cli == Cli::Gemini {
        let launcher = within(&partial, cli);
        std::fs::write(&launcher, LAUNCHER).expect("the launcher can be written");
        let may_run = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&launcher, may_run).expect("the launcher can be made a program");
    }
    let package = format!("{}@{}", cli.package(), cli.version());
    let output = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
        .arg(&partial)
        .arg(&package)
        .args((cli == Cli::Gemini).then_some(NODE))
        .output()
        .unwrap_or_else(|error| {
            panic!(
                "npm cannot be run ({error}); these tests need {package}: install nodejs and npm"
            )
        });
    assert!(
        output.status.success(),
        "npm could not install {package}, which these tests need: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_version(cli, &within(&partial, cli));
    if place.exists() {
        std::fs::remove_dir_all(place).expect("what was there and not whole can be removed");
    }
    std::fs::rename(&partial, place).expect("the installed CLI can be moved to its place");
}

fn assert_version(cli: Cli, program: &Path) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let said = Command::new(program)
        .arg("--version")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.path())
        .output();
    let said = said.unwrap_or_else(|error| panic!("{} cannot be run: {error}", program.display()));
    let version = String::from_utf8_lossy(&said.stdout);
    assert!(
        version.contains(cli.version()),
        "{} says it is {version:?}, not {}: {}",
        program.display(),
        cli.version(),
        String::from_utf8_lossy(&said.stderr)
    );
}
