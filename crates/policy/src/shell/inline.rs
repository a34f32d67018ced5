//! Code of other languages in the text: `python -c`, `awk '…'`, `node <<E`.

use super::field::Field;
use super::redirect::Input;
use super::walk::Walker;

/// Looks into the code that an interpreter of this name is given; whether it is an interpreter.
pub(super) fn look_into(
    _walker: &mut Walker,
    _name: &str,
    _arguments: &[Field],
    _input: &Input,
) -> bool {
    false
}
