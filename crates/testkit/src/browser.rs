//! A real Chromium from the system's packages, driven by a pinned puppeteer, with axe-core beside it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The npm packages, pinned.
const PACKAGES: [&str; 2] = ["puppeteer-core@24.43.1", "axe-core@4.14.0"];

/// The browser; panics if there is none, because a test that needs it has then not passed.
pub fn chromium() -> PathBuf {
    let names = ["chromium", "chromium-browser"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&path).flat_map(|place| names.map(|name| place.join(name)));
    let mut found = all.filter(|program| program.is_file());
    found.next().expect("these tests need chromium from the system's packages")
}

/// The directory that holds `node_modules`; installed into the person's cache if it is not there yet.
pub fn node_packages() -> PathBuf {
    let given = std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty());
    let cache = given.map(PathBuf::from).or_else(|| Some(std::env::home_dir()?.join(".cache")));
    let cache = cache.expect("HOME or XDG_CACHE_HOME says where packages are kept");
    let place = cache.join("bailiwick").join(format!("browser-{}", PACKAGES.join("-")));
    if !place.join("node_modules").exists() {
        install(&place);
    }
    place
}

/// Installs beside the place and moves it there at the end: what is in the place is whole.
fn install(place: &Path) {
    std::fs::create_dir_all(place.parent().expect("a place in the cache")).expect("a cache");
    // Other tests wait here while one of them installs.
    let lock = File::create(place.with_added_extension("lock")).expect("a lock file");
    lock.lock().expect("the lock of the packages");
    if place.join("node_modules").exists() {
        return;
    }
    let partial = place.with_added_extension("partial");
    let _ = std::fs::remove_dir_all(&partial);
    std::fs::create_dir(&partial).expect("a directory in the cache");
    let output = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
        .arg(&partial)
        .args(PACKAGES)
        .output()
        .expect("npm can be run: install nodejs and npm");
    assert!(output.status.success(), "npm: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::rename(&partial, place).expect("the packages can be moved to their place");
}
