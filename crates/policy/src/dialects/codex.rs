//! Codex: `PreToolUse` on standard input, from a CLI that can type into a running shell unseen.

use serde_json::Value;

use super::{Unreadable, claude};
use crate::call::Call;

pub(super) fn read(payload: &Value) -> Result<Call, Unreadable> {
    Ok(Call { ungated_terminal_input: true, ..claude::read(payload)? })
}
