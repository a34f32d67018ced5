//! The checks to run: those of a role's capabilities, or one by name.

use bailiwick_kit::FoundCapability;
use bailiwick_model::CapabilityName;
use bailiwick_model::module::CheckModule;
use bailiwick_verify::{Check, checks::CheckMethod};
use thiserror::Error;

use super::PlannedCheck;

/// Why a capability cannot be verified.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoCheck {
    /// It only stops tool calls.
    #[error("{capability} has no check: it stops tool calls, and measures nothing afterwards")]
    GateOnly {
        /// The capability.
        capability: CapabilityName,
    },
    /// It names a check that is not compiled in.
    #[error("{capability} names a check that does not exist: {why}")]
    Unknown {
        /// The capability.
        capability: CapabilityName,
        /// The reason.
        why: String,
    },
}

/// The checks of a role's capabilities, in their order; those that only have a gate have none.
pub fn of_role(capabilities: &[FoundCapability]) -> Result<Vec<PlannedCheck>, NoCheck> {
    let checked = capabilities.iter().filter(|found| found.declared.has_check());
    checked.map(of_capability).collect()
}

/// The check of one capability.
pub fn of_capability(found: &FoundCapability) -> Result<PlannedCheck, NoCheck> {
    let declared = &found.declared;
    let capability = declared.name().clone();
    let (Some(verify), Some(on)) = (&declared.verify, declared.run_mode()) else {
        return Err(NoCheck::GateOnly { capability });
    };
    let verify = verify.get_ref();
    let how = match (verify.rust_module.get_ref().as_str(), &verify.command) {
        ("", Some(line)) => CheckMethod::Command(line.get_ref().clone()),
        ("", None) => return Err(NoCheck::GateOnly { capability }),
        (path, _) => match CheckModule::parse(path) {
            Ok(module) => CheckMethod::Module(module),
            Err(error) => {
                return Err(NoCheck::Unknown { capability, why: error.to_string() });
            }
        },
    };
    Ok(PlannedCheck { check: Check { capability, method: how }, on })
}
