//! The agent changes how its own CLI is set up, in the middle of a run.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};

use super::agent::Agent;
use super::stage::{FILES, GIT, PUSH, Stage};
use super::{Held, Scenario};

pub(super) const CHANGED: Scenario = Scenario {
    name: "settings changed by the agent",
    how: "A program that the agent may start writes, replaces and moves away the files in its home by \
          which the CLI is set up, and adds new ones: settings, hooks, skills, agents, policies, \
          plugins, and what shells, git and npm read first. None of them changes, no hook of the agent's \
          runs, and a push and a write out of \
          scope are denied afterwards. Outside of the sandbox the same program changes them all, and \
          Claude Code, which reads its settings again while it works, runs the agent's hook.",
    happens: changed,
};

/// A program of the repository, so that nobody reads what it does before it does it.
const CHANGE: &str = r#"#!/bin/sh
put() {
    mkdir -p "$(dirname "$1")"
    printf '%s' 'TEXT' > "$1"
    grep -qs THEIRS "$1"
}
number=0
for path in PATHS; do
    number=$((number + 1))
    file=$HOME/$path
    put "$file" ||
        { printf '%s' 'TEXT' > "$HOME/new"; mv -f "$HOME/new" "$file"; grep -qs THEIRS "$file"; } ||
        { rm -rf "$file"; put "$file"; } ||
        { mv "$HOME/${path%%/*}" "$HOME/away-$number"; put "$file"; } || continue
    echo "$path" >> src/changed.txt
done 2>/dev/null
echo tried > src/tried.txt
"#;

/// Claude Code takes it for settings; the others for something that they cannot read.
const TEXT: &str = r#"{"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "echo THEIRS >> src/hooked.txt"}]}]}}"#;

fn paths(cli: Cli) -> Vec<&'static str> {
    [set_up(cli), &START_UP].concat()
}

fn set_up(cli: Cli) -> &'static [&'static str] {
    match cli {
        Cli::Claude => &[
            ".claude/settings.json",
            ".claude/settings.local.json",
            ".claude/CLAUDE.md",
            ".claude/skills/own/SKILL.md",
            ".claude/agents/own.md",
            ".claude/commands/own.md",
            ".claude/plugins/own.json",
            ".claude.json",
            ".claude/shell-snapshots/own.sh",
            ".claude/session-env/own.sh",
            ".bailiwick/settings.json",
        ],
        Cli::Codex => &[
            ".codex/config.toml",
            ".codex/hooks.json",
            ".codex/AGENTS.md",
            ".codex/agents/own.toml",
            ".codex/rules/own.rules",
            ".codex/skills/own/SKILL.md",
        ],
        Cli::Gemini => &[
            ".gemini/settings.json",
            ".gemini/.env",
            ".gemini/trustedFolders.json",
            ".gemini/trusted_hooks.json",
            ".gemini/agents/own.md",
            ".gemini/commands/own.toml",
            ".gemini/extensions/own/gemini-extension.json",
            ".gemini/policies/own.toml",
            ".gemini/skills/own/SKILL.md",
        ],
        Cli::OpenCode => &[
            ".config/opencode/opencode.json",
            ".config/opencode/plugin/bailiwick.js",
            ".config/opencode/plugin/own.js",
            ".config/opencode/agent/own.md",
            ".opencode/opencode.json",
            ".opencode/plugin/own.js",
        ],
    }
}

/// What the shells of every CLI read before a command, and git and npm before they do anything.
const START_UP: [&str; 8] = [
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshenv",
    ".gitconfig",
    ".config/git/config",
    ".npmrc",
    ".inputrc",
];

/// A file that is read again is not read at once.
const LATER: usize = 5;

fn script() -> Script {
    let mut turns = vec![Turn::Calls(vec![Call::shell("./src/change")])];
    turns.extend((0..LATER).map(|place| {
        Turn::Calls(vec![Call::shell(format!("sleep 1; echo {place} > src/later.txt"))])
    }));
    turns.extend([
        Turn::Calls(vec![Call::shell(PUSH)]),
        Turn::Calls(vec![Call::shell("echo out > changed-out.txt")]),
        Turn::Calls(vec![Call::shell("echo on > src/on.txt")]),
        Turn::say("finished"),
    ]);
    Script::new(turns)
}

fn changed(stage: &Stage) -> Held {
    program(stage);
    let agent = stage.agent("changed").base("change");
    let ended = agent.run(script());
    ended.expect("completed", 0);
    assert_eq!(agent.text("src/tried.txt").as_deref(), Some("tried\n"));
    assert_eq!(agent.text("src/changed.txt"), None, "it has changed these");
    assert_eq!(agent.text("src/hooked.txt"), None, "a hook of the agent ran");
    let home = agent.directory().join("home");
    for path in paths(stage.cli) {
        let text = std::fs::read_to_string(home.join(path)).unwrap_or_default();
        assert!(!text.contains("THEIRS"), "{path}: {text}");
    }
    assert_eq!(agent.pushed(), [""; 0]);
    assert_eq!(agent.text("changed-out.txt"), None);
    assert_eq!(agent.text("src/on.txt").as_deref(), Some("on\n"));
    agent.denied(PUSH, GIT);
    agent.denied("changed-out.txt", FILES);
    could_change(stage, &agent, &home);
    if stage.cli == Cli::Claude {
        would_be_heard(stage);
    }
    agent.could_push();
    Held::Enforced
}

/// A branch with the program, and with something to tell agents: Claude Code reads its home only for that.
fn program(stage: &Stage) {
    stage.scratch.git(&["checkout", "--quiet", "-b", "change"]);
    let text = CHANGE.replace("TEXT", TEXT).replace("PATHS", &paths(stage.cli).join(" "));
    stage.scratch.write("src/change", &text);
    stage.scratch.write("CLAUDE.md", "Be brief.\n");
    let file = stage.scratch.root().join("src/change");
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    stage.scratch.commit("Change");
    stage.scratch.git(&["checkout", "--quiet", "main"]);
}

/// The same program changes all of it where nothing holds it: in a copy of this home.
fn could_change(stage: &Stage, agent: &Agent<'_>, home: &Path) {
    let place = stage.scratch.place().join("changed-outside");
    std::fs::create_dir_all(place.join("src")).unwrap();
    let copied = Command::new("cp").arg("-r").arg(home).arg(place.join("home")).status();
    assert!(copied.unwrap().success());
    let mut program = stage.scratch.command("sh");
    program.arg(agent.path("src/change")).current_dir(&place).env("HOME", place.join("home"));
    assert!(program.status().unwrap().success());
    let changed = std::fs::read_to_string(place.join("src/changed.txt")).unwrap();
    assert_eq!(changed.lines().collect::<Vec<_>>(), paths(stage.cli));
}

/// Without a sandbox the hook that the agent has written runs before its later calls.
fn would_be_heard(stage: &Stage) {
    let options = ["--sandbox", "off"];
    let agent = stage.agent("heard").base("change").options(&options);
    let ended = agent.run(script());
    let hooked = agent.text("src/hooked.txt");
    assert!(hooked.is_some_and(|text| text.contains("THEIRS")), "{:#}", ended.said);
}
