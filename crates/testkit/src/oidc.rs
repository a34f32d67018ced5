//! A real OpenID provider (`oidc-provider` of npm), pinned, installed once into the person's cache, run by node on a
//! loopback port.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PACKAGE: &str = "oidc-provider";
const VERSION: &str = "9.13.3";
const SCRIPT: &str = include_str!("oidc/provider.mjs");
const CONFIRM: &str = include_str!("oidc/confirm.mjs");

/// A running provider; it is stopped when it is dropped.
pub struct OidcProvider {
    /// Its issuer.
    pub issuer: String,
    child: Child,
}

impl OidcProvider {
    /// The registered client.
    pub const CLIENT_ID: &str = "bailiwick";
    /// The secret of the client, with letters that need encoding.
    pub const CLIENT_SECRET: &str = "only for tests: a+b/c";

    /// Starts a provider that sends browsers back to this address.
    pub fn start(redirect_uri: &str) -> Self {
        let library = installed().join("node_modules").join(PACKAGE).join("lib/index.js");
        let mut child = Command::new("node")
            .args(["--input-type=module", "--eval", SCRIPT, "--"])
            .arg(library)
            .arg(redirect_uri)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("node cannot be run ({error}): install nodejs"));
        let output = child.stdout.take().expect("a pipe");
        let mut issuer = String::new();
        BufReader::new(output).read_line(&mut issuer).expect("the provider's first line");
        let issuer = issuer.trim().to_owned();
        assert!(issuer.starts_with("http://127.0.0.1:"), "the provider did not start: {issuer:?}");
        Self { issuer, child }
    }
}

/// A person opens the address of a device flow, signs in and confirms the code.
pub fn confirm_device(address: &str, code: &str, person: &str) {
    let output = Command::new("node")
        .args(["--input-type=module", "--eval", CONFIRM, "--", address, code, person])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("node cannot be run ({error}): install nodejs"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the code was not confirmed: {errors}");
}

impl Drop for OidcProvider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cache() -> PathBuf {
    let given = std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty());
    let cache = given.map(PathBuf::from).or_else(|| Some(std::env::home_dir()?.join(".cache")));
    cache.expect("HOME or XDG_CACHE_HOME says where packages are kept").join("bailiwick/packages")
}

fn is_installed(place: &Path) -> bool {
    place.join("node_modules").join(PACKAGE).join("package.json").exists()
}

/// Installs beside the place and moves it there at the end: what is in the place is whole.
fn installed() -> PathBuf {
    let place = cache().join(format!("{PACKAGE}-{VERSION}"));
    if is_installed(&place) {
        return place;
    }
    std::fs::create_dir_all(cache()).expect("the cache can be written");
    let lock = File::create(place.with_added_extension("lock")).expect("a lock file");
    lock.lock().expect("the lock of the package");
    if is_installed(&place) {
        return place;
    }
    let partial = place.with_added_extension("partial");
    if partial.exists() {
        std::fs::remove_dir_all(&partial).expect("a partial installation can be removed");
    }
    std::fs::create_dir(&partial).expect("a directory in the cache");
    let output = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts"])
        .arg("--prefix")
        .arg(&partial)
        .arg(format!("{PACKAGE}@{VERSION}"))
        .output()
        .unwrap_or_else(|error| panic!("npm cannot be run ({error}): install nodejs and npm"));
    assert!(
        output.status.success(),
        "npm could not install {PACKAGE}@{VERSION}, which these tests need: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::rename(&partial, &place).expect("the package can be moved to its place");
    place
}
