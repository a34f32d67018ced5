//! The commands as `bailiwick --help` lists them: grouped by purpose.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use super::Bailiwick;
use crate::output;

/// Every command that people call, in the order of a first day.
const GROUPS: [(&str, &[&str]); 8] = [
    ("Start", &["init", "demo", "doctor", "ui", "status"]),
    (
        "Run",
        &["run", "exec", "ps", "logs", "attach", "stop", "resume", "diff", "cost", "rm", "prune"],
    ),
    ("Decide", &["explain", "replay", "hooks", "approvals"]),
    ("Land", &["verify", "land", "reject", "respawn", "rollback"]),
    (
        "Kit",
        &[
            "lint",
            "prepare",
            "compose",
            "spawn",
            "capabilities",
            "roles",
            "agents",
            "ledger",
            "claims",
            "db",
        ],
    ),
    (
        "Fleet",
        &[
            "serve",
            "apply",
            "get",
            "describe",
            "delete",
            "wait",
            "runs",
            "trigger",
            "workspaces",
            "secrets",
            "tokens",
            "worker",
            "workers",
            "audit",
            "edit",
            "api-resources",
            "login",
            "logout",
            "contexts",
        ],
    ),
    ("Memory", &["memory", "recover"]),
    ("Plumbing", &["gate", "mcp", "completions", "man"]),
];

/// What exit codes mean, for every command.
pub const EXIT_CODES: &str = "0 success; 1 failed; 2 denied, check failed or wrong usage.";

/// Help is not wider than this, however wide the terminal is.
const MAX_WIDTH: usize = 100;

/// The whole command line, with help that is grouped and folded to this width.
pub fn command_line(width: usize) -> Command {
    let width = width.min(MAX_WIDTH);
    let command = Bailiwick::command().term_width(width);
    let groups = groups(&command, width);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    ))
}

fn groups(command: &Command, width: usize) -> String {
    let commands = || command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let longest = commands().map(|sub| sub.get_name().len()).max().unwrap_or_default();
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{title}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let (first, further) = (format!("  {name:longest$}  "), " ".repeat(longest + 4));
            for line in output::folded_to(width, &about, &first, &further) {
                let _ = writeln!(text, "{line}");
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_exactly_one_group() {
        let command = Bailiwick::command();
        let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let mut visible: Vec<&str> = visible.map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(visible, grouped);
    }
}
