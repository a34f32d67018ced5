//! The kei tools: their verbs, arguments, output and exit codes, on the same code.

pub mod agent_runtime;
pub mod capability;
pub mod check;
pub mod facade;
pub mod ledger;
pub mod verify;

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser as _;

use crate::output::finish;

/// Replaces this process by `bailiwick`, which contains its code: one large program is enough.
pub fn start_bailiwick(program: &str, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("bailiwick"));
    let bailiwick = beside.filter(|file| file.is_file()).unwrap_or(PathBuf::from("bailiwick"));
    let error = Command::new(&bailiwick).arg(program).args(arguments).exec();
    bailiwick_gate::print_note(&format!("{} cannot be started: {error}", bailiwick.display()));
    ExitCode::from(2)
}

/// Runs one of these programs, if this process was started under its name.
pub fn run() -> Option<ExitCode> {
    // The program's own arguments begin with its name.
    let arguments = std::env::args_os().skip(1);
    match std::env::args_os().nth(1)?.to_str()? {
        "kei-agent-runtime" => {
            Some(finish(agent_runtime::AgentRuntime::parse_from(arguments).run()))
        }
        "kei-capability" => Some(finish(capability::CapabilityTool::parse_from(arguments).run())),
        "kei-ledger" => Some(finish(ledger::LedgerTool::parse_from(arguments).run())),
        _ => None,
    }
}

/// The default of the kei tools: the working directory, if it contains a kit in their layout.
fn kit_root(given: Option<PathBuf>) -> Option<PathBuf> {
    given.or_else(|| kit_root_in(Path::new(".")))
}

/// A directory, if it contains a kit in the layout of the kei tools.
fn kit_root_in(directory: &Path) -> Option<PathBuf> {
    let kit = ["_capabilities", "_roles"].iter().any(|name| directory.join(name).is_dir());
    kit.then(|| directory.to_path_buf())
}
