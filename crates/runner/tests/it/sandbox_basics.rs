//! A program in the sandbox runs as it should.

use bailiwick_verify::job::Ended;

use crate::lab::Lab;

#[test]
fn exit_codes_and_signals_pass_through() {
    let lab = Lab::new();
    for code in [0, 1, 7, 101, 125, 255] {
        assert_eq!(lab.shell(&format!("exit {code}")).ended, Ended::Exit(code));
    }
    for signal in [6, 9, 11, 15] {
        assert_eq!(lab.shell(&format!("kill -{signal} $$")).ended, Ended::Signal(signal));
    }
}
