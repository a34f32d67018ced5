//! What a sandbox could hold on this machine.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use crate::process::first_words;

/// How much a sandbox can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Namespaces, Landlock and seccomp.
    Full,
    /// Some of them.
    Partial,
    /// None of them.
    Off,
}

/// One part of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// What it is called.
    pub name: &'static str,
    /// Whether it works here.
    pub works: bool,
    /// How that was seen.
    pub seen: String,
}

/// Tries each part of the sandbox.
pub fn probe() -> Vec<Part> {
    let namespaces = [
        ("user namespace", "--map-root-user"),
        ("mount namespace", "--mount"),
        ("pid namespace", "--pid"),
        ("network namespace", "--net"),
    ];
    let mut parts: Vec<Part> =
        namespaces.into_iter().map(|(name, flag)| unshare(name, flag)).collect();
    let modules = fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    parts.push(Part {
        name: "Landlock",
        works: modules.split(',').any(|module| module.trim() == "landlock"),
        seen: match modules.trim() {
            "" => "/sys/kernel/security/lsm cannot be read".to_owned(),
            modules => format!("security modules: {modules}"),
        },
    });
    let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    parts.push(Part {
        name: "seccomp",
        works: actions.split_whitespace().any(|action| action == "errno"),
        seen: match actions.trim() {
            "" => "the kernel names no seccomp actions".to_owned(),
            actions => format!("actions: {actions}"),
        },
    });
    parts
}

/// The level that the parts add up to.
pub fn level(parts: &[Part]) -> Level {
    match parts.iter().filter(|part| part.works).count() {
        0 => Level::Off,
        all if all == parts.len() => Level::Full,
        _ => Level::Partial,
    }
}

/// Really makes the namespace, as an unprivileged user would: inside a user namespace.
fn unshare(name: &'static str, flag: &str) -> Part {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", flag]);
    if flag == "--pid" {
        command.arg("--fork");
    }
    let answer = first_words(command.args(["--", "echo", "inside"]), Duration::from_secs(10));
    let works = answer.as_deref().map(str::trim) == Some("inside");
    let seen = if works { "made one" } else { "unshare(1) is missing or was refused" };
    Part { name, works, seen: seen.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_full_only_if_every_part_works() {
        let part = |works| Part { name: "x", works, seen: String::new() };
        assert_eq!(level(&[part(true), part(true)]), Level::Full);
        assert_eq!(level(&[part(true), part(false)]), Level::Partial);
        assert_eq!(level(&[part(false), part(false)]), Level::Off);
    }
}
