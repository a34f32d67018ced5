//! The limits that a gate in another program cannot enforce, and what to do about them.

use serde::Serialize;

use super::agent::{Agent, Scope};
use super::record::Commands;

/// One thing that the gate cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// What is not enforced.
    pub cannot: &'static str,
    /// What to do.
    pub instead: &'static str,
}

const fn limit(cannot: &'static str, instead: &'static str) -> Limit {
    Limit { cannot, instead }
}

/// What is enforced, as one line.
pub fn holds(agent: Agent) -> &'static str {
    match agent {
        Agent::Claude | Agent::Codex | Agent::Gemini => {
            "every tool call that the program puts to its hooks, also those of sub-agents; a gate \
             that is missing or broken denies"
        }
        Agent::OpenCode => {
            "every tool call, also those of sub-agents, once the plugin is loaded; a gate that is \
             missing or broken denies"
        }
    }
}

/// What is not enforced with this CLI.
pub fn limits(agent: Agent, scope: &Scope, commands: Commands) -> Vec<Limit> {
    let mut limits = match commands {
        Commands::Free => vec![FREE_COMMANDS],
        Commands::Sandboxed => Vec::new(),
    };
    limits.extend(match scope {
        Scope::Repository(_) => in_repository(agent),
        Scope::User => Vec::new(),
    });
    limits.extend(always(agent));
    if commands == Commands::Sandboxed {
        limits.extend(in_sandbox(agent));
    }
    limits
}

/// What is not enforced, or works differently, if commands run in the sandbox.
fn in_sandbox(agent: Agent) -> Vec<Limit> {
    match agent {
        Agent::Claude | Agent::OpenCode => Vec::new(),
        Agent::Codex => vec![
            CHANGED_COMMANDS,
            limit(
                "under -s read-only, and for root under -s workspace-write, Codex's own sandbox keeps ours \
                 from being made, so no command runs",
                "start it with -s workspace-write as an ordinary user, or bind it to the role read-only",
            ),
        ],
        Agent::Gemini => vec![
            CHANGED_COMMANDS,
            limit(
                "where you allow every shell command, it no longer asks about dangerous ones and redirections",
                "the sandbox holds those; allow fewer commands if you want to be asked",
            ),
        ],
    }
}

const CHANGED_COMMANDS: Limit = limit(
    "your own rules that allow commands match no more, because the program sees ours in their place; those that \
     forbid or ask are applied by the hook, and deny",
    "allow at the program's question; a question shows the original command",
);

/// How shell commands run, in a line.
pub fn commands(commands: Commands) -> &'static str {
    match commands {
        Commands::Sandboxed => {
            "every command runs in a sandbox: files outside of the scope cannot change, whatever program \
             it starts"
        }
        Commands::Free => "commands run without a sandbox: only their text is examined",
    }
}

const FREE_COMMANDS: Limit = limit(
    "a script or program that an allowed command starts can write anywhere that you can",
    "let Bailiwick start the agent (bailiwick run, bailiwick exec), which holds it in a sandbox",
);

const WORKTREES: Limit = limit(
    "other worktrees of the repository have no gate",
    "install in each of them, or with --user",
);

fn in_repository(agent: Agent) -> Vec<Limit> {
    let only_root = match agent {
        Agent::Claude => Some(limit(
            "started in a directory below the root, Claude Code does not read this file",
            "start it in the root, or install with --user",
        )),
        Agent::Gemini => Some(limit(
            "started in a directory below the root, or in a folder that it does not trust \
             (--skip-trust), Gemini CLI does not read this file",
            "start it in the root and trust the folder, or install with --user",
        )),
        Agent::Codex => Some(limit(
            "in a project that is not trusted, Codex does not read this file",
            "trust the project when Codex asks, or install with --user",
        )),
        Agent::OpenCode => None,
    };
    let worktrees = match agent {
        Agent::Codex => limit(
            "in linked worktrees Codex reads this file or none, but never one of their own",
            "install with --user if you work in them",
        ),
        Agent::Claude | Agent::Gemini | Agent::OpenCode => WORKTREES,
    };
    only_root.into_iter().chain([worktrees]).collect()
}

fn always(agent: Agent) -> Vec<Limit> {
    match agent {
        Agent::Claude => vec![
            limit(
                "a repository's .claude/settings.json can switch all hooks off (disableAllHooks)",
                "look at it before you start: bailiwick hooks status claude",
            ),
            limit(
                "--bare, --safe-mode, --setting-sources and CLAUDE_CODE_SIMPLE leave hooks out",
                "do not use them",
            ),
            limit(
                "a hook that is killed from outside lets its call run",
                "start it with --permission-mode dontAsk or default, so that silence is no consent",
            ),
        ],
        Agent::Codex => vec![
            limit(
                "write_stdin is put to no hook: what is typed into a shell that runs is not seen",
                "keep Codex's own sandbox on (-s workspace-write)",
            ),
            limit(
                "a hook that is changed, moved or not trusted is skipped in silence",
                "look before you start: bailiwick hooks status codex",
            ),
            limit(
                "a trusted project's .codex/config.toml can switch hooks off",
                "start it with -c features.hooks=true",
            ),
        ],
        Agent::Gemini => vec![
            limit(
                "a repository's .gemini/settings.json can switch hooks off (hooksConfig)",
                "look at it before you start: bailiwick hooks status gemini",
            ),
            limit(
                "a hook that runs out of time lets its call run; ours has a day",
                "end a session that hangs",
            ),
            limit(
                "the payload names no agent, so sub-agents have the same limits and cannot be told apart",
                "nothing; their calls are in the log",
            ),
        ],
        Agent::OpenCode => vec![
            limit(
                "a plugin with an error, or --pure, leaves the gate out in silence",
                "look after the first start: bailiwick hooks status opencode",
            ),
            limit(
                "a repository's opencode.json and plugins run with your rights and can change the \
                 configuration",
                "install with --user, and start it with OPENCODE_DISABLE_PROJECT_CONFIG=1",
            ),
        ],
    }
}
