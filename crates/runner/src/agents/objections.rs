//! Arguments that would take the gate from an agent program, were a person to give them.

/// Whether a flag is among the arguments, with its value behind it or in it.
pub(super) fn given(arguments: &[String], flag: &str) -> bool {
    arguments.iter().any(|word| is_flag(word, flag))
}

fn is_flag(word: &str, flag: &str) -> bool {
    word == flag || word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='))
}

const OWN_SETTINGS: &str = "the gate is configured in the settings that Bailiwick gives it";
const NO_HOOKS: &str = "it would not ask the gate";
const OUTSIDE: &str = "it would bring in code or work elsewhere, where no gate is asked";

/// The first of a person's arguments that would take the gate from a program, and why.
pub(super) fn objection<'a>(
    name: &str,
    arguments: &'a [String],
) -> Option<(&'a str, &'static str)> {
    let flags: &[(&str, &'static str)] = match name {
        "claude-code" => &[
            ("--settings", OWN_SETTINGS),
            ("--setting-sources", OWN_SETTINGS),
            ("--managed-settings", OWN_SETTINGS),
            ("--bare", NO_HOOKS),
            ("--safe-mode", NO_HOOKS),
            ("--plugin-dir", OUTSIDE),
            ("--plugin-url", OUTSIDE),
            ("--bg", OUTSIDE),
            ("--background", OUTSIDE),
            ("--remote", OUTSIDE),
            ("--remote-control", OUTSIDE),
            ("--teleport", OUTSIDE),
            ("--worktree", OUTSIDE),
            ("-w", OUTSIDE),
            ("--tmux", OUTSIDE),
        ],
        "codex" => &[
            ("--dangerously-bypass-hook-trust", OWN_SETTINGS),
            ("--ignore-user-config", OWN_SETTINGS),
            ("--profile", OWN_SETTINGS),
            ("-p", OWN_SETTINGS),
            ("--oss", OUTSIDE),
            ("--local-provider", OUTSIDE),
            ("--remote", OUTSIDE),
            ("--cd", OUTSIDE),
            ("-C", OUTSIDE),
            ("app-server", OUTSIDE),
            ("cloud", OUTSIDE),
            ("exec-server", OUTSIDE),
            ("mcp-server", OUTSIDE),
        ],
        "gemini" => &[("--extensions", OUTSIDE), ("-e", OUTSIDE), ("--worktree", OUTSIDE)],
        "opencode" => &[("--pure", NO_HOOKS), ("attach", OUTSIDE)],
        _ => &[],
    };
    for (place, word) in arguments.iter().enumerate() {
        if let Some((_, why)) = flags.iter().find(|(flag, _)| is_flag(word, flag)) {
            return Some((word, why));
        }
        let next = arguments.get(place + 1).map(String::as_str);
        if name == "codex"
            && let Some(why) = codex_objection(word, next)
        {
            return Some((word, why));
        }
    }
    None
}

/// Settings that Codex must not have, in any notation.
fn codex_objection(word: &str, next: Option<&str>) -> Option<&'static str> {
    let value = |flags: [&str; 2]| {
        let behind = flags.contains(&word).then_some(next).flatten();
        let within = flags.iter().find_map(|flag| word.strip_prefix(flag));
        // `-ckey=value` and `--config=key=value` are ways to write it, too.
        behind.or_else(|| within.map(|rest| rest.strip_prefix('=').unwrap_or(rest)))
    };
    if let Some(setting) = value(["-c", "--config"]) {
        let key = setting.split('=').next().unwrap_or_default().trim();
        let ours = ["features", "hooks", "model_provider", "projects", "profile", "plugins"];
        // The gate is one of the servers.
        let gate = key.strip_prefix("mcp_servers").is_some_and(|rest| {
            rest.trim().is_empty() || rest.contains("bailiwick") || rest.contains('\\')
        });
        if gate || ours.iter().any(|one| key.starts_with(one)) {
            return Some(OWN_SETTINGS);
        }
    }
    match value(["--disable", "--disable"]) {
        Some(feature) if feature.contains("hooks") => Some(NO_HOOKS),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::help::list;
    use super::*;

    fn objects(name: &str, words: &[&str]) -> bool {
        objection(name, &list(words)).is_some()
    }

    #[test]
    fn flags_that_disable_the_gate_are_refused() {
        let refused: [(&str, &[&str]); 14] = [
            ("claude-code", &["--settings", "x.json"]),
            ("claude-code", &["--settings={}"]),
            ("claude-code", &["fix it", "--bare"]),
            ("claude-code", &["--safe-mode"]),
            ("codex", &["-c", "features.hooks=false"]),
            ("codex", &["-cfeatures.hooks=false"]),
            ("codex", &["--config=hooks.state={}"]),
            ("codex", &["-c", "mcp_servers={}"]),
            ("codex", &["-c", "mcp_servers.bailiwick_gate.url=\"x\""]),
            ("codex", &["--disable", "hooks"]),
            ("codex", &["--disable=codex_hooks"]),
            ("codex", &["resume", "-p", "mine"]),
            ("opencode", &["--pure"]),
            ("gemini", &["-e", "mine"]),
        ];
        for (name, words) in refused {
            assert!(objects(name, words), "{name} {words:?}");
        }
        let accepted: [(&str, &[&str]); 6] = [
            ("codex", &["-c", "mcp_servers.docs.url=\"x\""]),
            (
                "claude-code",
                &["--dangerously-skip-permissions", "--model", "opus", "mend the bare"],
            ),
            ("claude-code", &["--permission-mode", "plan", "--continue"]),
            ("codex", &["-c", "model_reasoning_effort=\"low\"", "--disable", "apps"]),
            ("gemini", &["--approval-mode", "yolo"]),
            ("opencode", &["--continue"]),
        ];
        for (name, words) in accepted {
            assert!(!objects(name, words), "{name} {words:?}");
        }
    }
}
