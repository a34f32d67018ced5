//! Real bash, with a PATH of stubs that record that they ran.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;

/// Names that are recorded when they run.
pub(crate) const STUBS: [&str; 8] = ["git", "s0", "s1", "s2", "s3", "s4", "push", "rm"];

/// Programs that start others, as they really are.
const REAL: [&str; 17] = [
    "bash", "sh", "env", "timeout", "nice", "nohup", "xargs", "find", "setsid", "stdbuf", "flock",
    "cat", "true", "seq", "printf", "sed", "tr",
];

/// A place to run commands in.
pub(crate) struct Bash {
    place: TempDir,
}

impl Bash {
    /// A directory with stubs, and nothing else on the path but programs that start others.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// The same with more programs as they really are.
    pub(crate) fn with(more: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let bin = place.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for name in STUBS {
            executable(&bin.join(name), "echo \"${0##*/}\" >>\"$RECORD\"");
        }
        for name in REAL.iter().chain(more) {
            let real = find(name).unwrap_or_else(|| panic!("{name} is needed"));
            if *name == "python3" {
                executable(&bin.join(name), &format!("exec '{}' \"$@\"", python(&real)));
                continue;
            }
            std::os::unix::fs::symlink(real, bin.join(name)).unwrap();
        }
        Self { place }
    }

    /// The stubs that a command ran; nothing if it did not end in time.
    pub(crate) fn runs(&self, command: &str) -> Option<BTreeSet<String>> {
        let work = tempfile::tempdir_in(self.place.path()).unwrap();
        let record = work.path().join(".record");
        fs::write(&record, "").unwrap();
        let mut child = Command::new(find("setsid").unwrap())
            .args(["--wait", "bash", "-c", command])
            .current_dir(work.path())
            .env_clear()
            .env("PATH", self.place.path().join("bin"))
            .env("HOME", work.path())
            .env("RECORD", &record)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The pipe is open for as long as anything that the command started in the background lives.
        let mut pipe = child.stderr.take().unwrap();
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
            let _ = done.send(());
        });
        if ended.recv_timeout(Duration::from_secs(20)).is_err() {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        child.wait().unwrap();
        let text = fs::read_to_string(&record).unwrap();
        Some(text.lines().map(str::to_owned).collect())
    }
}

fn executable(path: &Path, line: &str) {
    fs::write(path, format!("#!/bin/sh\n{line}\n")).unwrap();
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// What is found may be a script that looks for python on the path.
fn python(found: &Path) -> String {
    let asked = Command::new(found).args(["-c", "import sys; print(sys.executable)"]).output();
    String::from_utf8(asked.unwrap().stdout).unwrap().trim().to_owned()
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|place| place.join(name)).find(|file| file.is_file())
}
