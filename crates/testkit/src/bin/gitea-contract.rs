//! Compares what the tests take for Gitea's API with the description that a Gitea serves:
//! `cargo run -p bailiwick-testkit --bin gitea-contract -- swagger.v1.json`.

use std::process::ExitCode;

use bailiwick_testkit::forge::contract;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("name the description, as a Gitea serves it at /swagger.v1.json");
        return ExitCode::from(2);
    };
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let description = match serde_json::from_slice(&text) {
        Ok(description) => description,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let faults = contract::compare(&description);
    for fault in &faults {
        println!("{fault}");
    }
    let fields: usize = contract::shapes().values().map(|fields| fields.len()).sum();
    println!("{} requests, {fields} fields, {} faults", contract::requests().len(), faults.len());
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
