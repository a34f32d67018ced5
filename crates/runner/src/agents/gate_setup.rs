//! How a program is set up to ask its gate, and which variables it may not get. All adapters use this.

use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::protocol::GATE_COULD_NOT_RUN;

use super::adapter::{Assignment, Gate, PlanError};

/// The directory of our files below the agent's home.
pub(super) const OURS: &str = ".bailiwick";

/// The key that a program sees; the real one stays with the proxy.
pub(super) const PLACEHOLDER: &str = "held-by-bailiwick";

/// A busy machine starts a server of tools slowly, and an agent without its tools is of no use.
pub(super) const MCP_START_TIMEOUT_SECONDS: u32 = 60;

/// Longer than the gate may take, so that the program never gives up on it first.
pub(super) fn hook_timeout(gate: &Gate) -> u64 {
    gate.seconds.saturating_add(10)
}

/// The arguments that call the gate, ended after its time.
pub(super) fn gate_argv_with_timeout(gate: &Gate, dialect: Dialect, more: &[&str]) -> Vec<String> {
    let limit = ["timeout", "-s", "KILL"].map(str::to_owned);
    let seconds = gate.seconds.max(1).to_string();
    limit.into_iter().chain([seconds]).chain(gate_argv(gate, dialect, more)).collect()
}

/// The arguments that call the gate itself.
pub(super) fn gate_argv<'a>(
    gate: &'a Gate,
    dialect: Dialect,
    more: &'a [&'a str],
) -> impl Iterator<Item = String> + 'a {
    let dialect = ["--dialect", dialect.as_str()].into_iter();
    let more = dialect.chain(more.iter().copied()).map(str::to_owned);
    gate.command.iter().cloned().chain(more)
}

/// A command line for `/bin/sh` that asks about a call. Any result but an approval or a denial becomes a denial with
/// a message on standard error, because some CLIs run a call that is denied silently.
pub(super) fn gate_command(gate: &Gate, dialect: Dialect, more: &[&str]) -> String {
    let line = quoted(&gate_argv_with_timeout(gate, dialect, more));
    format!(
        "{line}; case $? in 0) ;; 2) exit 2;; *) echo '{GATE_COULD_NOT_RUN}' >&2; exit 2;; esac"
    )
}

/// A command line for `/bin/sh` that announces the gate. Its output is not for the model.
pub(super) fn announcing(gate: &Gate, dialect: Dialect) -> String {
    let line = quoted(&gate_argv_with_timeout(gate, dialect, &["--announce"]));
    format!("{line} >/dev/null || exit 2")
}

/// Words as `/bin/sh` reads them back.
pub(crate) fn quoted(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:,+@%".contains(c);
    let one = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    words.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Prefixes of variables that change what a program loads or which server it uses.
const FORBIDDEN_PREFIXES: [&str; 12] = [
    "ANTHROPIC_",
    "BAILIWICK",
    "BUN_",
    "CLAUDE",
    "CODEX_",
    "DISABLE_",
    "GEMINI_",
    "LD_",
    "NODE_",
    "OPENAI_",
    "OPENCODE",
    "XDG_",
];

/// More such variables, by their whole names.
const FORBIDDEN_NAMES: [&str; 8] =
    ["BASH_ENV", "ENV", "GOOGLE_GEMINI_BASE_URL", "HOME", "IS_SANDBOX", "PATH", "SHELL", "TMPDIR"];

/// Its environment: ours, and what the person has granted, which may not steer the program itself.
pub(super) fn environment(
    cli: &str,
    ours: Vec<(&str, String)>,
    assignment: &Assignment,
) -> Result<Vec<(String, String)>, PlanError> {
    for (name, _) in &assignment.granted {
        let begins = FORBIDDEN_PREFIXES.iter().any(|beginning| name.starts_with(beginning));
        if begins || FORBIDDEN_NAMES.contains(&name.as_str()) {
            let why = "the variable steers the program itself; give the agent another one";
            return Err(PlanError::new(cli, format!("be granted {name}"), why));
        }
    }
    let ours = ours.into_iter().map(|(name, value)| (name.to_owned(), value));
    Ok(ours.chain(assignment.granted.iter().cloned()).collect())
}

/// Checks that an effort is supported; the error names those that are.
pub(super) fn known_effort(cli: &str, known: &[&str], effort: &str) -> Result<(), PlanError> {
    match known.contains(&effort) {
        true => Ok(()),
        false => {
            let why = format!("it knows {}", known.join(", "));
            Err(PlanError::new(cli, format!("think with the effort {effort}"), why))
        }
    }
}

/// A path below the agent's home, whole.
pub(super) fn at_home(assignment: &Assignment, path: &str) -> String {
    assignment.home.join(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_reads_quoted_words_unchanged() {
        let words = ["a b", "it's", "", "$(x)", "plain/path", "--x=1"].map(str::to_owned);
        let line = format!("printf '%s\\n' {}", quoted(&words));
        let printed = std::process::Command::new("sh").args(["-c", &line]).output().unwrap().stdout;
        assert_eq!(String::from_utf8(printed).unwrap(), words.map(|word| word + "\n").concat());
    }

    #[test]
    fn failed_gate_denies_with_a_message() {
        for (script, code) in
            [("exit 0", 0), ("exit 2", 2), ("exit 1", 2), ("kill -9 $$", 2), ("sleep 60", 2)]
        {
            let command = ["sh", "-c", script, "gate"].map(str::to_owned).to_vec();
            let seconds = if script == "sleep 60" { 1 } else { 60 };
            let line = gate_command(&Gate { command, seconds }, Dialect::Claude, &[]);
            let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{script}");
            assert_eq!(code == 2 && script != "exit 2", !output.stderr.is_empty(), "{script}");
        }
    }
}
