//! Ends in a panic, to show that a panic is a denial.

fn main() {
    bailiwick_gate::deny_what_goes_wrong();
    let nothing: Option<u8> = None;
    #[expect(clippy::unwrap_used, reason = "the panic is the purpose")]
    let _ = nothing.unwrap();
}
