//! For tests only: how deep the slow suites go, trees in memory, scratch repositories.

pub mod browser;
pub mod clis;
pub mod clock;
pub mod corpus;
pub mod depth;
pub mod forge;
pub mod gitea_server;
pub mod network;
pub mod oidc;
pub mod pgbouncer;
pub mod postgres;
pub mod random;
pub mod scratch;
pub mod scripted_model;
pub mod stopwatch;

pub use depth::Depth;
pub use scratch::Scratch;

/// Prints a measured figure, and appends it to the file in `FIGURES`.
pub fn figure(text: &str) {
    use std::io::Write as _;
    println!("figure: {text}");
    if let Some(path) = std::env::var_os("FIGURES") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let written = file.and_then(|mut file| writeln!(file, "{text}"));
        written.expect("FIGURES names a file that can be written");
    }
}
