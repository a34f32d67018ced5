//! The newest published version of each CLI, fetched from npm once per process.

use std::process::Command;
use std::sync::OnceLock;

use super::Cli;

static VERSIONS: [OnceLock<String>; Cli::ALL.len()] = [const { OnceLock::new() }; Cli::ALL.len()];

pub(super) fn version(cli: Cli) -> &'static str {
    let place = Cli::ALL.iter().position(|one| *one == cli).expect("every CLI is in the list");
    VERSIONS[place].get_or_init(|| published(cli.package()))
}

fn published(package: &str) -> String {
    let output = Command::new("npm").args(["view", package, "version"]).output();
    let output = output.unwrap_or_else(|error| panic!("npm cannot be run: {error}"));
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(
        output.status.success() && !version.is_empty(),
        "npm does not say which version of {package} is the newest: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    version
}
