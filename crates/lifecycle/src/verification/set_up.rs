//! The tree on which the setup of a task runs: the base, and never what an agent wrote, unless a person allows its
//! manifests and lock files.

use bailiwick_model::TreeId;
use bailiwick_model::well_known::{is_manifest, is_registry_configuration};
use bailiwick_verify::Change;
use bailiwick_verify::checks::changed_dependencies;

use crate::ports::{Work, WorkError};

/// Whether the setup runs with manifests and lock files that the agent changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChangedSetup {
    /// No: the check that needs it fails.
    #[default]
    Refused,
    /// A person has reviewed and allowed them.
    Allowed,
}

/// The tree for the setup of `tree`, which was `before` without the agent's changes.
pub(super) fn source<W: Work>(
    work: &W,
    before: &TreeId,
    changes: &[Change],
    changed: ChangedSetup,
) -> Result<TreeId, WorkError> {
    let manifests: Vec<&Change> =
        changes.iter().filter(|change| change.paths().any(is_manifest)).collect();
    if manifests.is_empty() {
        return Ok(before.clone());
    }
    let paths: Vec<String> = manifests.iter().map(|change| change.path.clone()).collect();
    let differing = changed_dependencies(changes, &work.texts(changes, &paths)?);
    if differing.is_empty() {
        return Ok(before.clone());
    }
    match changed {
        ChangedSetup::Refused => Err(WorkError {
            what: format!("the work changes dependencies ({})", differing.join(", ")),
            why: "they are not installed, because that runs what the agent chose; look at the \
                  change, then allow it with --allow-setup (`bailiwick verify` and `bailiwick land`)"
                .to_owned(),
            caused_by_agent: true,
        }),
        ChangedSetup::Allowed => {
            // Only the base declares package sources.
            let plain = |change: &&Change| {
                change.paths().all(|path| is_manifest(path) && !is_registry_configuration(path))
            };
            let chosen: Vec<&Change> = manifests.into_iter().filter(plain).collect();
            work.with_changes(before, &chosen)
        }
    }
}
