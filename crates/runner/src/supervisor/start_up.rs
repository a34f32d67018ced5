//! What shells, git and npm read in a home before they do what they are told.
//!
//! A gate judges the command that a program is about to run. What an agent has planted here would run
//! before it, or in its place: a function of the name `git`, another pager, another shell for scripts. So
//! each of these is there, empty, and stays as it is. Where there is no sandbox those of login shells say where
//! programs are, because the system's own may have said otherwise before; a sandbox hides that one.

use crate::agents::adapter::Launch;
use crate::agents::wiring::quoted;
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

/// Holds them besides what the program itself is held to. Programs are found at `path`.
pub(super) fn hold(plan: &mut Launch, level: Level, path: &str) {
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
