//! Ends in a panic, to show that a panic is a denial.

#![expect(clippy::panic, reason = "the panic is the purpose")]

fn main() {
    bailiwick_gate::deny_what_goes_wrong();
    panic!("on purpose");
}
