//! All that holds for root holds for an ordinary user: the tests of the sandbox once more, as nobody.
//! Where an ordinary user runs the tests, they were that already.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::lab::{PROBE, probe_program};

#[test]
fn everything_holds_for_an_ordinary_user_too() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let place = tempfile::Builder::new().prefix("bailiwick-test-").tempdir().unwrap();
    let all = fs::Permissions::from_mode(0o777);
    fs::set_permissions(place.path(), all).unwrap();
    // Where they were built may be in a home that nobody else can look into.
    let (tests, probe) = (place.path().join("tests"), place.path().join("probe"));
    fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    fs::copy(probe_program(), &probe).unwrap();
    let run = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&tests)
        .args(["sandbox_", "--skip", "sandbox_ordinary_user"])
        .env(PROBE, &probe)
        .env("TMPDIR", place.path())
        .env("HOME", "/root")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains("sandbox_files::") && said.contains("sandbox_network::"), "{said}");
}
