//! The paths at which programs see the tree, the build cache and the rest of a slot.

use std::path::{Path, PathBuf};

use super::slot::Slot;
use crate::sandbox::Level;
use crate::toolchain::Host;

/// The directory to which all programs without a sandbox write.
pub(super) const ONLY: &str = "only";

/// Paths as programs see them: the same for every slot, so that a build cache stays good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) tree: PathBuf,
    pub(super) target: PathBuf,
    pub(super) home: PathBuf,
    pub(super) cargo: PathBuf,
    pub(super) results: PathBuf,
    pub(super) tools: PathBuf,
}

impl Places {
    pub(super) fn of(level: Level, slot: &Slot, host: &Host) -> Self {
        match level {
            Level::Off => {
                let work = slot.work(ONLY);
                Places {
                    tree: work.join("tree/upper"),
                    target: work.join("target/upper"),
                    home: slot.home(),
                    cargo: host.cargo.clone(),
                    results: work.join("results"),
                    tools: slot.tools(),
                }
            }
            Level::Partial | Level::Full => {
                let inside = |name: &str| Path::new("/bailiwick").join(name);
                Places {
                    tree: inside("tree"),
                    target: inside("target"),
                    home: inside("home"),
                    cargo: inside("cargo"),
                    results: inside("results"),
                    tools: inside("tools"),
                }
            }
        }
    }
}
