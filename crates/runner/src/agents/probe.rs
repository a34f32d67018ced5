//! Asking an agent program what it is and what it can do.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use super::adapter::{Adapter, Capabilities};
use super::help;
use crate::process::short_output;

/// How long it may take to answer; on a busy machine some need long to start.
const LIMIT: Duration = Duration::from_secs(60);

/// A program that answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Probed {
    pub path: PathBuf,
    /// Its version, in its own words.
    pub version: String,
    pub capabilities: Capabilities,
}

/// Looks for an adapter's CLI on `path`, and reads its version and help; `None` if it does not exist or does not
/// respond.
///
/// It runs with an empty environment and `home` as its home, so that nothing of the person's is read or
/// changed.
pub fn probe(adapter: &dyn Adapter, path: &OsStr, home: &Path) -> Option<Probed> {
    let program = on_path(path, adapter.program())?;
    let version = version(adapter, &program, path, home)?;
    let help = ask(&program, &adapter.help_arguments(), path, home).unwrap_or_default();
    let capabilities = adapter.capabilities(&version, &help);
    Some(Probed { path: program, version, capabilities })
}

/// Reads only the version of a CLI, in the same way.
pub fn version(adapter: &dyn Adapter, program: &Path, path: &OsStr, home: &Path) -> Option<String> {
    let output = ask(program, &adapter.version_arguments(), path, home)?;
    let lines = || output.lines().map(str::trim).filter(|line| !line.is_empty());
    // A warning may come first.
    lines().find(|line| help::number(line).is_some()).or(lines().next()).map(str::to_owned)
}

fn ask(program: &Path, arguments: &[String], path: &OsStr, home: &Path) -> Option<String> {
    // Some print their help to standard error.
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(program);
    command.args(arguments).env_clear().env("PATH", path).env("HOME", home);
    short_output(command.current_dir(home), LIMIT)
}

/// The first program of this name on `path`.
pub fn on_path(path: &OsStr, program: &str) -> Option<PathBuf> {
    std::env::split_paths(path).map(|place| place.join(program)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}
