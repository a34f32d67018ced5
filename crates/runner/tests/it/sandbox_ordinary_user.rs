//! Everything must hold for an ordinary user too: the sandbox tests run once more as nobody.
//! If an ordinary user runs the tests, this adds nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use bailiwick_testkit::clis::Cli;

use crate::lab::{PROBE, probe_program};
use crate::sandbox_agent_clis::installed;
use crate::sandbox_agent_files::SETUID;

#[test]
fn sandbox_tests_pass_for_an_ordinary_user_too() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let place = tempfile::Builder::new().prefix("bailiwick-test-").tempdir().unwrap();
    let all = fs::Permissions::from_mode(0o777);
    fs::set_permissions(place.path(), all).unwrap();
    // The build directory may be in a home that other users cannot read.
    let (tests, probe) = (place.path().join("tests"), place.path().join("probe"));
    fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    fs::copy(probe_program(), &probe).unwrap();
    // So may the agents' programs; a link is enough where links are possible.
    let (clis, cache) = (installed_clis(), place.path().join("cache/bailiwick/clis"));
    fs::create_dir_all(&cache).unwrap();
    let copied = ["-alT", "-aT"].into_iter().any(|option| {
        Command::new("cp").arg(option).args([&clis, &cache]).status().unwrap().success()
    });
    assert!(copied, "{}", clis.display());
    let setuid = place.path().join("who");
    fs::copy("/usr/bin/id", &setuid).unwrap();
    fs::set_permissions(&setuid, fs::Permissions::from_mode(0o4755)).unwrap();
    let run = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&tests)
        .args(["sandbox_", "--skip", "sandbox_ordinary_user"])
        .env(PROBE, &probe)
        .env(SETUID, &setuid)
        .env("XDG_CACHE_HOME", place.path().join("cache"))
        .env("TMPDIR", place.path())
        .env("HOME", "/root")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{output}\n{}", String::from_utf8_lossy(&run.stderr));
    for part in ["sandbox_files::", "sandbox_network::", "sandbox_agent_git::"] {
        assert!(output.contains(part), "{output}");
    }
}

/// The directory of all CLIs, after each was installed.
fn installed_clis() -> PathBuf {
    let places = Cli::ALL.map(installed);
    places[0].parent().unwrap().to_owned()
}
