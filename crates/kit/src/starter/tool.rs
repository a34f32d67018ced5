//! The tools that are recognised, with what is the same for all projects of a tool.

use std::fmt;

/// The tool that installs, builds and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Cargo.toml
    Cargo,
    /// package.json, with package-lock.json or no lock file
    Npm,
    /// pnpm-lock.yaml
    Pnpm,
    /// yarn.lock, version 2 and later
    Yarn,
    /// yarn.lock, version 1
    YarnClassic,
    /// bun.lock
    Bun,
    /// uv.lock
    Uv,
    /// poetry.lock
    Poetry,
    /// requirements.txt
    Pip,
    /// A Python project without any of these
    Venv,
    /// go.mod, go.work
    Go,
    /// pom.xml
    Maven,
    /// build.gradle
    Gradle,
    /// Gemfile
    Bundler,
    /// composer.json
    Composer,
    /// *.sln, *.csproj
    DotNet,
    /// mix.exs
    Mix,
    /// CMakeLists.txt
    CMake,
    /// Makefile
    Make,
    /// Shell scripts
    Shell,
}

/// Tools of one family handle each other's projects: a pnpm workspace covers its npm packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ecosystem {
    Rust,
    JavaScript,
    Python,
    Go,
    Java,
    Ruby,
    Php,
    DotNet,
    Elixir,
    CMake,
    Make,
    Shell,
}

impl Tool {
    pub(super) fn ecosystem(self) -> Ecosystem {
        match self {
            Self::Cargo => Ecosystem::Rust,
            Self::Npm | Self::Pnpm | Self::Yarn | Self::YarnClassic | Self::Bun => {
                Ecosystem::JavaScript
            }
            Self::Uv | Self::Poetry | Self::Pip | Self::Venv => Ecosystem::Python,
            Self::Go => Ecosystem::Go,
            Self::Maven | Self::Gradle => Ecosystem::Java,
            Self::Bundler => Ecosystem::Ruby,
            Self::Composer => Ecosystem::Php,
            Self::DotNet => Ecosystem::DotNet,
            Self::Mix => Ecosystem::Elixir,
            Self::CMake => Ecosystem::CMake,
            Self::Make => Ecosystem::Make,
            Self::Shell => Ecosystem::Shell,
        }
    }
}

impl Ecosystem {
    /// The extensions of its source files.
    pub(super) fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Rust => &["rs"],
            Self::JavaScript => {
                &["js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "vue", "svelte", "astro"]
            }
            Self::Python => &["py", "pyi"],
            Self::Go => &["go"],
            Self::Java => &["java", "kt", "scala", "groovy"],
            Self::Ruby => &["rb", "erb"],
            Self::Php => &["php"],
            Self::DotNet => &["cs", "fs", "vb", "razor"],
            Self::Elixir => &["ex", "exs", "heex"],
            Self::CMake => C_FAMILY,
            Self::Make => &[],
            Self::Shell => &["sh", "bash", "bats"],
        }
    }

    /// Matches the commands that publish a package.
    pub(super) fn publish_pattern(self) -> &'static str {
        match self {
            Self::Rust => "^cargo (publish|yank|owner)( |$)",
            Self::JavaScript => "^(npm|pnpm|yarn|bun)( run)? (publish|unpublish|dist-tag)( |$)",
            Self::Python => {
                "^(twine upload|uv publish|poetry publish|flit publish|hatch publish)( |$)"
            }
            Self::Go => "^goreleaser( |$)",
            Self::Java => {
                "^((mvn|./mvnw)( .*)? (deploy|release:[a-z]+)|(gradle|./gradlew)( .*)? publish[A-Za-z]*)\
                 ( |$)"
            }
            Self::Ruby => "^gem (push|yank|owner)( |$)",
            Self::Php => "^composer (archive|global)( |$)",
            Self::DotNet => "^dotnet nuget (push|delete)( |$)",
            Self::Elixir => "^mix hex\\.[a-z]+( |$)",
            Self::CMake => "^(conan upload|cpack)( |$)",
            Self::Make => "^make (publish|release|deploy)( |$)",
            Self::Shell => ANY_PUBLISH_PATTERN,
        }
    }
}

/// Matches the best known commands that publish, for a project of which no more is known.
pub(super) const ANY_PUBLISH_PATTERN: &str = "^(npm|cargo|twine|gem) (publish|upload|push)( |$)";

pub(super) const C_FAMILY: &[&str] =
    &["c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "m", "mm", "s", "S"];

impl fmt::Display for Tool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Cargo => "cargo",
            Self::Npm => "npm",
            Self::Pnpm => "pnpm",
            Self::Yarn => "yarn",
            Self::YarnClassic => "yarn 1",
            Self::Bun => "bun",
            Self::Uv => "uv",
            Self::Poetry => "poetry",
            Self::Pip => "pip",
            Self::Venv => "Python venv",
            Self::Go => "go",
            Self::Maven => "maven",
            Self::Gradle => "gradle",
            Self::Bundler => "bundler",
            Self::Composer => "composer",
            Self::DotNet => ".NET",
            Self::Mix => "mix",
            Self::CMake => "cmake",
            Self::Make => "make",
            Self::Shell => "shell scripts",
        })
    }
}
