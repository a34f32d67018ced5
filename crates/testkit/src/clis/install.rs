//! Gets a pinned CLI once, into the person's cache.

use std::fs::File;
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

fn within(place: &Path, cli: Cli) -> PathBuf {
    place.join("node_modules/.bin").join(cli.name())
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
    let package = format!("{}@{}", cli.package(), cli.version());
    let output = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
        .arg(&partial)
        .arg(&package)
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
    let home = tempfile::tempdir().expect("a temporary directory");
    let said = Command::new(within(&partial, cli))
        .arg("--version")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.path())
        .output();
    let said = said.unwrap_or_else(|error| panic!("{package} cannot be run: {error}"));
    let version = String::from_utf8_lossy(&said.stdout);
    assert!(
        version.contains(cli.version()),
        "{package} says it is {version:?}; node must be 20 or newer: {}",
        String::from_utf8_lossy(&said.stderr)
    );
    std::fs::rename(&partial, place).expect("the installed CLI can be moved to its place");
}
