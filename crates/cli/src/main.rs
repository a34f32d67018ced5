//! `bailiwick`: see `bailiwick help`.

use std::ffi::OsString;
use std::process::ExitCode;

use bailiwick_cli::Bailiwick;
use bailiwick_cli::failure::finish;
use bailiwick_cli::kei::capability::CapabilityTool;
use bailiwick_cli::plumbing;
use clap::Parser as _;

fn main() -> ExitCode {
    if let Some(code) = plumbing::run() {
        return code;
    }
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_ref().and_then(|first| first.to_str()) {
        // What `kei-capability` hands over.
        Some("kei-capability") => {
            let own = std::iter::once(OsString::from("kei-capability"));
            finish(CapabilityTool::parse_from(own.chain(arguments)).run())
        }
        Some(_) | None => finish(Bailiwick::from_command_line().run()),
    }
}
