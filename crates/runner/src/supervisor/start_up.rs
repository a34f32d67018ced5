//! What shells, git and npm read in a home before they run a command.
//!
//! A gate decides about the command that a CLI is about to run. What an agent has planted here would run before it,
//! or in its place: a function named `git`, another pager, another shell for scripts. So each of these exists, empty
//! and frozen. Without a sandbox, those of login shells set `PATH`, because those of the system may have changed it;
//! a sandbox hides these.

use crate::agents::adapter::ProgramLaunch;
use crate::agents::gate_setup::quoted;
use crate::sandbox::Level;

const FILES: [&str; 15] = [
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".gitconfig",
    ".inputrc",
    ".npmrc",
    ".profile",
    ".shrc",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

/// Those of login shells.
const LOGIN: [&str; 3] = [".bash_profile", ".profile", ".zprofile"];

const DIRECTORIES: [&str; 2] = [".config/fish", ".config/git"];

/// Freezes these files in addition to the CLI's own. Programs are found at `path`; `texts` has what they say where they
/// are not empty.
pub(super) fn freeze_startup_files(
    plan: &mut ProgramLaunch,
    level: Level,
    path: &str,
    texts: &[(String, String)],
) {
    for (name, text) in texts.iter().filter(|(name, _)| FILES.contains(&name.as_str())) {
        plan.files.entry(name.clone()).or_insert_with(|| text.clone());
    }
    if level == Level::Off {
        let finds = format!("export PATH={}\n", quoted(&[path.to_owned()]));
        for name in LOGIN {
            plan.files.entry(name.to_owned()).or_insert_with(|| finds.clone());
        }
    }
    for name in FILES {
        plan.files.entry(name.to_owned()).or_default();
    }
    for name in FILES.iter().chain(&DIRECTORIES) {
        if !plan.fixed.iter().any(|fixed| fixed == name) {
            plan.fixed.push((*name).to_owned());
        }
    }
}
