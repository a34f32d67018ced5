//! Files that are known by name in any repository: rules for agents, manifests, the agent's report.
//!
//! The gate that stops a write and the check that finds it afterwards ask the same lists.

/// Directories that hold rules for agents.
const RULE_DIRECTORIES: [&str; 6] =
    [".bailiwick", ".claude", ".codex", ".gemini", ".opencode", ".agents"];
/// Files that are rules for agents.
const RULE_FILES: [&str; 5] =
    ["AGENTS.md", "CLAUDE.md", "GEMINI.md", "AGENTS.override.md", "CLAUDE.local.md"];

/// Files that say which dependencies there are.
const MANIFESTS: [&str; 33] = [
    "Cargo.toml",
    "Cargo.lock",
    "package.json",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "bun.lock",
    "bun.lockb",
    "deno.json",
    "deno.lock",
    "pyproject.toml",
    "poetry.lock",
    "pdm.lock",
    "uv.lock",
    "Pipfile",
    "Pipfile.lock",
    "setup.py",
    "setup.cfg",
    "go.mod",
    "go.sum",
    "Gemfile",
    "Gemfile.lock",
    "composer.json",
    "composer.lock",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "mix.exs",
    "mix.lock",
    "pubspec.yaml",
    "pubspec.lock",
];

/// Whether a path is one of the files that instruct or limit agents.
pub fn is_rule(path: &str) -> bool {
    let parts = || path.split('/').filter(|part| !part.is_empty());
    parts().any(|part| RULE_DIRECTORIES.contains(&part))
        || parts().next_back().is_some_and(|name| RULE_FILES.contains(&name))
        || path.contains(".config/bailiwick")
        || path.contains(".config/opencode")
}

/// Whether a path is a file that says which dependencies there are.
pub fn is_manifest(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let requirements = name.starts_with("requirements") && name.ends_with(".txt");
    MANIFESTS.contains(&name) || requirements
}

/// Where an agent leaves its report, from the root of its worktree.
pub fn report_path(agent: &str) -> String {
    format!(".claude/agents/{agent}/review.md")
}
