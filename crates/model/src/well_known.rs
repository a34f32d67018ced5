//! Files that are known by name in any repository: rules for agents, manifests, the agent's report.
//!
//! The gate that denies a write and the check that finds it afterwards use the same lists.

/// Directories with rules for agents.
const RULE_DIRECTORIES: [&str; 6] =
    [".bailiwick", ".claude", ".codex", ".gemini", ".opencode", ".agents"];
/// Files that are rules for agents.
const RULE_FILES: [&str; 5] =
    ["AGENTS.md", "CLAUDE.md", "GEMINI.md", "AGENTS.override.md", "CLAUDE.local.md"];

/// Files that declare dependencies.
const MANIFESTS: [&str; 43] = [
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
    "go.work",
    "go.work.sum",
    "pylock.toml",
    "bunfig.toml",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".gitmodules",
    "rust-toolchain",
    "rust-toolchain.toml",
];

/// Whether a path is one of the files that instruct or limit agents.
pub fn is_rule(path: &str) -> bool {
    let parts = || path.split('/').filter(|part| !part.is_empty());
    parts().any(|part| RULE_DIRECTORIES.contains(&part))
        || parts().next_back().is_some_and(|name| RULE_FILES.contains(&name))
        || path.contains(".config/bailiwick")
        || path.contains(".config/opencode")
}

/// Whether a path is a file that declares dependencies or their sources.
pub fn is_manifest(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let (name, directory) = (parts.next().unwrap_or(path), parts.next());
    let cargo = directory == Some(".cargo") && ["config", "config.toml"].contains(&name);
    MANIFESTS.contains(&name) || cargo || is_requirements(path)
}

/// Whether a path is a file that configures package sources.
pub fn is_registry_configuration(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let (name, directory) = (parts.next().unwrap_or(path), parts.next());
    let cargo = directory == Some(".cargo") && ["config", "config.toml"].contains(&name);
    cargo
        || [".npmrc", ".yarnrc", ".yarnrc.yml", "bunfig.toml", "pip.conf", "uv.toml"]
            .contains(&name)
}

/// Whether a path is a list of requirements for pip.
pub fn is_requirements(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let (name, directory) = (parts.next().unwrap_or(path), parts.next());
    let named = ["requirements", "constraints"].iter().any(|word| name.contains(word));
    let listed = name.ends_with(".txt") || name.ends_with(".in");
    listed && (named || directory == Some("requirements"))
}

/// Directories that compilers, test runners and package managers fill.
const BUILD_DIRECTORIES: [&str; 27] = [
    "__pycache__",
    "_build",
    "bower_components",
    "build",
    "coverage",
    "dist",
    "htmlcov",
    "node_modules",
    "out",
    "target",
    "venv",
    ".bundle",
    ".cache",
    ".eggs",
    ".gradle",
    ".hypothesis",
    ".mypy_cache",
    ".next",
    ".nox",
    ".nyc_output",
    ".parcel-cache",
    ".pytest_cache",
    ".ruff_cache",
    ".tox",
    ".turbo",
    ".venv",
    ".yarn",
];
/// Files that builds write elsewhere, by their extensions.
const BUILD_FILES: [&str; 13] = [
    ".coverage",
    ".class",
    ".egg-info",
    ".gcda",
    ".gcno",
    ".log",
    ".o",
    ".profraw",
    ".pyc",
    ".so",
    ".swp",
    ".tmp",
    ".tsbuildinfo",
];

/// Whether a path has the usual name of build or test output.
pub fn is_build_output(path: &str) -> bool {
    build_output_pattern(path).is_some()
}

/// The line for `.gitignore` that excludes a path with the usual name of build or test output.
pub fn build_output_pattern(path: &str) -> Option<String> {
    path.split('/').filter(|part| !part.is_empty()).find_map(|part| {
        if BUILD_DIRECTORIES.contains(&part) {
            return Some(format!("{part}/"));
        }
        BUILD_FILES
            .iter()
            .find(|ending| part.ends_with(**ending))
            .map(|ending| format!("*{ending}"))
    })
}

/// Where an agent leaves its report, from the root of its worktree.
pub fn report_path(agent: &str) -> String {
    format!(".claude/agents/{agent}/review.md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_outputs_are_recognized_by_name() {
        for path in ["target/", "web/node_modules/a.js", "a/__pycache__/b.pyc", ".coverage", "x.o"]
        {
            assert!(is_build_output(path), "{path}");
        }
        let pattern = |path| build_output_pattern(path);
        assert_eq!(pattern("a/__pycache__/b.pyc").as_deref(), Some("__pycache__/"));
        assert_eq!(pattern("a/b.pyc").as_deref(), Some("*.pyc"));
        for path in ["docs/target.md", "notes.txt", "src/builder.rs", "distance.py"] {
            assert!(!is_build_output(path), "{path}");
        }
    }

    #[test]
    fn files_that_declare_dependencies_are_manifests() {
        for path in [
            "Cargo.toml",
            "a/b/package.json",
            ".cargo/config.toml",
            "x/.cargo/config",
            "requirements.txt",
            "dev-requirements.txt",
            "requirements/dev.txt",
            "constraints.txt",
            "requirements.in",
            ".npmrc",
            ".gitmodules",
        ] {
            assert!(is_manifest(path), "{path}");
        }
        for path in ["src/config.toml", "docs/requirements.md", "notes.txt", "config"] {
            assert!(!is_manifest(path), "{path}");
        }
    }
}
