//! Ends in a panic, to show that a panic is a denial.

#![expect(clippy::panic, reason = "the panic is the purpose")]

fn main() -> std::process::ExitCode {
    bailiwick_gate::run_with_deadline(|| panic!("on purpose"))
}
