//! All that holds for root holds for an ordinary user: the tests of the sandbox once more, as nobody.
//! Where an ordinary user runs the tests, they were that already.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use bailiwick_testkit::clis::Cli;

use crate::lab::{PROBE, probe_program};
use crate::sandbox_agent_clis::installed;
use crate::sandbox_agent_files::SETUID;

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
    // So may the agents' programs; a link is as good as a copy where there can be one.
    let (clis, cache) = (installed_clis(), place.path().join("cache/bailiwick/clis"));
    fs::create_dir_all(&cache).unwrap();
    let copied = ["-alT", "-aT"]
        .into_iter()
        .any(|how| Command::new("cp").arg(how).args([&clis, &cache]).status().unwrap().success());
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
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
    for part in ["sandbox_files::", "sandbox_network::", "sandbox_agent_git::"] {
        assert!(said.contains(part), "{said}");
    }
}

/// Where all of them are, after each was had.
fn installed_clis() -> PathBuf {
    let places = Cli::ALL.map(installed);
    places[0].parent().unwrap().to_owned()
}
