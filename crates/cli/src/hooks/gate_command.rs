//! The gate as a program with arguments, and as the command that a hook runs.

use std::path::{Path, PathBuf};

use bailiwick_policy::protocol::GATE_COULD_NOT_RUN;

use super::agent::{Agent, Scope};
use super::places::StateFiles;
use crate::failure::Failure;

/// The gate that the running program would install: the small one beside it, else itself.
pub fn program() -> Result<Vec<String>, Failure> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::general(format!("this program cannot be found: {error}")))?;
    let small = own.with_file_name("bailiwick-gate");
    if small.is_file() {
        return Ok(vec![text(&small)?]);
    }
    Ok(vec![text(&own)?, "gate".to_owned()])
}

/// The gate with its arguments.
pub fn arguments(
    program: &[String],
    agent: Agent,
    scope: &Scope,
    kept: &StateFiles,
    digest: &str,
) -> Result<Vec<String>, Failure> {
    let root = match scope {
        Scope::Repository(root) => text(root)?,
        // The gate then uses the repository around its own working directory.
        Scope::User => "auto".to_owned(),
    };
    let options = [
        ("--dialect", agent.word().to_owned()),
        ("--policy", text(&kept.policy())?),
        ("--digest", digest.to_owned()),
        ("--root", root),
        ("--log", text(&kept.log())?),
    ];
    let options = options.into_iter().flat_map(|(option, value)| [option.to_owned(), value]);
    Ok(program.iter().cloned().chain(options).collect())
}

/// The command of a hook: a gate that is missing, killed or broken is a deny.
pub fn hook_command(agent: Agent, arguments: &[String]) -> String {
    let words: Vec<String> = arguments.iter().map(|word| quoted_if_needed(word)).collect();
    let command = format!(
        "{}; case $? in 0) ;; 2) exit 2;; *) echo '{GATE_COULD_NOT_RUN}' >&2; exit 2;; esac",
        words.join(" ")
    );
    match agent {
        // It runs hooks with the user's login shell, which may be none that reads this.
        Agent::Codex => format!("/bin/sh -c {}", quoted(&command)),
        Agent::Claude | Agent::Gemini | Agent::OpenCode => command,
    }
}

/// Whether a gate's program is there and may be run.
pub fn can_run(program: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(program)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// A path as text; settings can hold nothing else.
pub fn text(path: &Path) -> Result<String, Failure> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| Failure::general(format!("the path {} is not UTF-8", path.display())))
}

/// The program at the head of an argument list.
pub fn head(arguments: &[String]) -> PathBuf {
    arguments.first().map(PathBuf::from).unwrap_or_default()
}

fn quoted_if_needed(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { quoted(word) }
}

/// A word as a shell reads it.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_shell_syntax_are_quoted() {
        assert_eq!(quoted_if_needed("--policy"), "--policy");
        assert_eq!(quoted_if_needed("/a b"), "'/a b'");
        assert_eq!(quoted_if_needed("it's"), r"'it'\''s'");
        assert_eq!(quoted_if_needed(""), "''");
    }
}
