//! Landlock: limits writes by path, in addition to the mounts, and denies signals and abstract sockets to the outside.

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

use super::Sandbox;
use super::messages::Inactive;

/// Required: with an older one, a file that is open for reading can be truncated.
const NEEDED: ABI = ABI::V3;
/// Used if available.
const KNOWN: ABI = ABI::V6;

/// Applies it to this process and all that it starts.
pub(super) fn apply(sandbox: &Sandbox) -> Result<String, Inactive> {
    restrict(sandbox).map_err(Inactive::because).and_then(|status| match status {
        RulesetStatus::FullyEnforced => Ok("files, signals and abstract sockets".to_owned()),
        RulesetStatus::PartiallyEnforced => Ok("files".to_owned()),
        RulesetStatus::NotEnforced => Err(Inactive::because("this kernel does not have it")),
    })
}

/// Whether the kernel has the Landlock that the sandbox needs. A program can use it also where it can make no namespaces.
pub fn has_landlock() -> bool {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset.handle_access(AccessFs::from_all(NEEDED)).and_then(Ruleset::create).is_ok()
}

fn restrict(sandbox: &Sandbox) -> Result<RulesetStatus, RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?;
    let mut ruleset = ruleset.create()?;
    let read = AccessFs::from_read(KNOWN);
    let to_files = AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let all = AccessFs::from_all(KNOWN);
    let fixed: [(&str, BitFlags<AccessFs>); 5] = [
        ("/", read),
        ("/dev", read | to_files),
        ("/dev/shm", all),
        ("/tmp", all),
        ("/var/tmp", all),
    ];
    let fixed = fixed.into_iter().map(|(path, access)| (path.as_ref(), access));
    let own = sandbox.private.iter().map(|path| (path.as_path(), all));
    let given = sandbox.writable.iter().map(|bind| {
        let file = std::fs::metadata(&bind.target).is_ok_and(|found| !found.is_dir());
        let access = if file { AccessFs::from_file(KNOWN) } else { all };
        (bind.target.as_path(), access)
    });
    let layered = sandbox.layered.iter().map(|bind| (bind.target.as_path(), all));
    let overlaid = sandbox.overlaid.iter().map(|one| (one.target.as_path(), all));
    for (path, access) in fixed.chain(own).chain(given).chain(layered).chain(overlaid) {
        // A path that does not exist has no rule, so the rule of "/" denies it.
        if let Ok(place) = PathFd::new(path) {
            ruleset = ruleset.add_rule(PathBeneath::new(place, access))?;
        }
    }
    Ok(ruleset.restrict_self()?.ruleset)
}
