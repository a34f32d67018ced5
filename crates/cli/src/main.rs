//! `bailiwick`: see `bailiwick help`.

use std::ffi::OsString;
use std::process::ExitCode;

use bailiwick_cli::Bailiwick;
use bailiwick_cli::commands::sandbox_init;
use bailiwick_cli::failure::finish;
use bailiwick_cli::kei::capability::CapabilityTool;
use clap::Parser as _;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_ref().and_then(|first| first.to_str()) {
        // The gate answers before every tool call: nothing else is started for it.
        Some("gate") => bailiwick_gate::run(arguments),
        // Namespaces can be made only while there is one thread, and clap is not needed.
        Some("sandbox-init") => sandbox_init::run(arguments),
        // What `kei-capability` hands over.
        Some("kei-capability") => {
            let own = std::iter::once(OsString::from("kei-capability"));
            finish(CapabilityTool::parse_from(own.chain(arguments)).run())
        }
        _ => finish(Bailiwick::parse().run()),
    }
}
