//! What `init` writes: a commented starting kit, and an example task in the repository's language.

use std::fmt;

use crate::embedded;

/// The language that most tells how a repository is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Cargo.toml
    Rust,
    /// package.json
    Node,
    /// pyproject.toml and its like
    Python,
    /// go.mod
    Go,
    /// pom.xml
    Maven,
    /// build.gradle
    Gradle,
    /// Gemfile
    Ruby,
    /// composer.json
    Php,
    /// *.sln, *.csproj
    DotNet,
    /// mix.exs
    Elixir,
    /// CMakeLists.txt
    CMake,
    /// Makefile
    Make,
    /// None of these.
    Other,
}

struct Facts {
    shown_as: &'static str,
    markers: &'static [&'static str],
    whitelist: &'static [&'static str],
    commands: &'static [&'static str],
    publish: &'static str,
}

impl Language {
    const ALL: [Self; 13] = [
        Self::Rust,
        Self::Node,
        Self::Python,
        Self::Go,
        Self::Maven,
        Self::Gradle,
        Self::Ruby,
        Self::Php,
        Self::DotNet,
        Self::Elixir,
        Self::CMake,
        Self::Make,
        Self::Other,
    ];

    /// Judges by the names in the repository's root.
    pub fn detect(names: &[String]) -> Self {
        let has = |marker: &&str| match marker.strip_prefix('*') {
            Some(ending) => names.iter().any(|name| name.ends_with(ending)),
            None => names.iter().any(|name| name == marker),
        };
        let fits = |language: &Self| language.facts().markers.iter().any(has);
        Self::ALL.into_iter().find(fits).unwrap_or(Self::Other)
    }

    fn facts(self) -> Facts {
        let facts = |shown_as, markers, whitelist, commands, publish| Facts {
            shown_as,
            markers,
            whitelist,
            commands,
            publish,
        };
        match self {
            Self::Rust => facts(
                "Rust",
                &["Cargo.toml"],
                &["src/**", "crates/*/src/**", "tests/**"],
                &["cargo check --all-targets", "cargo test"],
                "^cargo (publish|yank|owner)( |$)",
            ),
            Self::Node => facts(
                "JavaScript or TypeScript",
                &["package.json"],
                &["src/**", "lib/**", "test/**", "tests/**"],
                &["npm test"],
                "^(npm|pnpm|yarn|bun)( run)? (publish|unpublish|dist-tag)( |$)",
            ),
            Self::Python => facts(
                "Python",
                &["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"],
                &["src/**", "tests/**", "**/*.py"],
                &["python3 -m pytest -q"],
                "^(twine upload|uv publish|poetry publish|flit publish|hatch publish)( |$)",
            ),
            Self::Go => facts(
                "Go",
                &["go.mod"],
                &["**/*.go"],
                &["go vet ./...", "go test ./..."],
                "^goreleaser( |$)",
            ),
            Self::Maven => facts(
                "Java with Maven",
                &["pom.xml"],
                &["src/**"],
                &["mvn -q test"],
                "^mvn( .*)? (deploy|release:[a-z]+)( |$)",
            ),
            Self::Gradle => facts(
                "Java or Kotlin with Gradle",
                &["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"],
                &["src/**", "*/src/**"],
                &["./gradlew test"],
                "^(gradle|./gradlew)( .*)? publish[A-Za-z]*( |$)",
            ),
            Self::Ruby => facts(
                "Ruby",
                &["Gemfile", "*.gemspec"],
                &["lib/**", "app/**", "test/**", "spec/**"],
                &["bundle exec rake"],
                "^gem (push|yank|owner)( |$)",
            ),
            Self::Php => facts(
                "PHP",
                &["composer.json"],
                &["src/**", "tests/**"],
                &["composer validate", "vendor/bin/phpunit"],
                "^composer (archive|global)( |$)",
            ),
            Self::DotNet => facts(
                ".NET",
                &["*.sln", "*.slnx", "*.csproj", "*.fsproj"],
                &["src/**", "test/**", "tests/**"],
                &["dotnet build", "dotnet test"],
                "^dotnet nuget (push|delete)( |$)",
            ),
            Self::Elixir => facts(
                "Elixir",
                &["mix.exs"],
                &["lib/**", "test/**"],
                &["mix test"],
                "^mix hex\\.[a-z]+( |$)",
            ),
            Self::CMake => facts(
                "C or C++ with CMake",
                &["CMakeLists.txt"],
                &["src/**", "include/**", "tests/**"],
                &["cmake -B build", "cmake --build build", "ctest --test-dir build"],
                "^(conan upload|cpack)( |$)",
            ),
            Self::Make => facts(
                "a Makefile",
                &["Makefile", "makefile", "GNUmakefile"],
                &["src/**", "tests/**"],
                &["make", "make test"],
                "^make (publish|release|deploy)( |$)",
            ),
            Self::Other => facts(
                "no language that is known here",
                &[],
                &["src/**"],
                &["git diff --check"],
                "^(npm|cargo|twine|gem) (publish|upload|push)( |$)",
            ),
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.facts().shown_as)
    }
}

/// The files of the starting kit: path under `.bailiwick/`, and text.
pub fn files(language: Language) -> Vec<(String, String)> {
    let facts = language.facts();
    let mut files = vec![
        ("README.md".to_owned(), README.to_owned()),
        ("roles/contributor.toml".to_owned(), ROLE.to_owned()),
        (
            "capabilities/policy/no-publish/capability.toml".to_owned(),
            CAPABILITY.replace("@PATTERN@", facts.publish),
        ),
        ("capabilities/policy/no-publish/text.md".to_owned(), TEXT.to_owned()),
        ("tasks/example.toml".to_owned(), example_task(&facts)),
    ];
    let examples = embedded::task_examples().into_iter();
    files.extend(examples.map(|(name, text)| (format!("tasks/agents/{name}"), text)));
    files
}

fn example_task(facts: &Facts) -> String {
    let list = |entries: &[&str]| {
        entries.iter().map(|entry| format!("  {entry:?},\n")).collect::<String>()
    };
    TASK.replace("@LANGUAGE@", facts.shown_as)
        .replace("@WHITELIST@", &list(facts.whitelist))
        .replace("@COMMANDS@", &list(facts.commands))
}

const README: &str = "\
# What agents may do here

Bailiwick reads this directory. It is yours: edit it, commit it, review it like code.

- `roles/`: what an agent is, as an ordered set of capabilities. `bailiwick roles list`
- `capabilities/`: limits and duties of your own. `bailiwick capabilities list`
- `tasks/`: what one agent is to do. `example.toml` is a start; `agents/` has one for each of the
  five agents that the kit ships.

A file here goes before one of the same name in your user kit and in the embedded kit.

    bailiwick lint                                  # is everything here right?
    bailiwick prepare .bailiwick/tasks/example.toml # what would the agent be told?
    bailiwick spawn .bailiwick/tasks/example.toml   # make its worktree and record it

`spawn` reads this directory from the commit that the agent starts from, never from a working copy
that an agent could write: commit a change here before you rely on it.
";

const ROLE: &str = "\
# A role of this repository. It has everything that the embedded role `developer` has
# (see it with `bailiwick roles show developer`) and what is added below.

[role]
name = \"contributor\"                     # the stem of this file
display-name = \"contributor\"
description = \"Works on this repository inside a whitelist; its work lands only when the checks pass.\"
claude-subagent-type = \"general-purpose\" # what Claude Code's Agent tool is given
isolation = \"worktree\"

[capabilities]
extends = \"developer\"                    # its capabilities come first
required = [\"policy::no-publish\"]        # then these, in this order
relaxes = []                              # and these are dropped again

# [tools] and [escalation] are taken from `developer` unless you write them here:
#
# [tools]
# allowed = [\"Read\", \"Write\", \"Edit\", \"Glob\", \"Grep\", \"Bash\"]
# bash-patterns-allowed = []              # empty: any command that no limit forbids
#
# [escalation]
# policy = \"ask-via-return\"               # or orchestrator-notify, fail-fast
";

const CAPABILITY: &str = "\
# A capability of this repository: a limit or a duty that the agent is told (text.md), stopped by
# (the gate) and checked for (the check). This one needs no code: [restricts] is its gate.

[capability]
name = \"policy::no-publish\"              # <category>::<slug>, as the directories say
category = \"policy\"                      # policy, scope, quality, safety, output or tools
version = \"1.0\"
description = \"The agent publishes nothing; releases are made by people.\"
rationale = \"A published version cannot be taken back.\"

[restricts]
tool-patterns = ['@PATTERN@']             # a command that one of these matches is forbidden
tools-denied = []                         # tools that are forbidden altogether

[parameterized]
accepts = []                              # what a task may set for it, under [parameters]

[text]
path = \"text.md\"

[gate]
event = \"PreToolUse:Bash\"
severity = \"block\"                       # or warn, advisory

# A check of your own is a command that must exit 0 on the tree that would land:
#
# [verify]
# command = \"scripts/no-version-change\"
# run-mode = \"both\"                       # worktree, simulated-merge or both
# when = \"on-return\"
";

const TEXT: &str = "\
## Nothing is published

You MUST NOT publish a package, an image or a release, and you MUST NOT change who owns one,
because a published version cannot be taken back.

If your task seems to need a release, prepare everything up to it and say in your return which
command a person should run.
";

const TASK: &str = "\
# An example task, made for @LANGUAGE@. Edit it, then:
#   bailiwick lint
#   bailiwick prepare .bailiwick/tasks/example.toml
#   bailiwick spawn .bailiwick/tasks/example.toml

[task]
role = \"contributor\"          # bailiwick roles list
# agent-id = \"fix-typo-1\"     # made for you when left out

[scope]
# Globs with the meaning they have in .gitignore, from the root of the repository.
files-whitelist = [           # what the agent may write; nothing else
@WHITELIST@]
files-denylist = [            # never these, though the whitelist has them
  \".github/**\",
]

[verification]
# Each must exit 0 in the worktree, and again on the trial merge before anything lands.
commands = [
@COMMANDS@]
max-deleted-files = 5

[output]
report-fields-required = [\"files-touched\", \"commands\"]

# [agent]                     # which program does it
# cli = \"claude-code\"
# model = \"sonnet\"

# [budget]                    # what it may spend
# usd = 2.00
# minutes = 30

# [workspace]                 # how its worktree is made ready
# copy = [\".env.example\"]     # files that git does not track
# setup = []                  # commands to run there first

[body]
text = \"\"\"
Find the public function with the least helpful documentation and write it anew: what it does, when
it fails, one example. Change no behaviour.
\"\"\"
";

#[cfg(test)]
mod tests {
    use bailiwick_model::Source;

    use super::*;
    use crate::kit::{Kit, Layer, Layout, Origin};
    use crate::lint::lint;
    use crate::tree::{Tree, TreeError};

    struct Written(Vec<(String, String)>);

    impl Tree for Written {
        fn read(&self, path: &str) -> Result<Option<String>, TreeError> {
            Ok(self.0.iter().find(|(name, _)| name == path).map(|(_, text)| text.clone()))
        }

        fn list(&self, path: &str) -> Result<Vec<String>, TreeError> {
            let inside =
                self.0.iter().filter_map(|(name, _)| name.strip_prefix(path)?.strip_prefix('/'));
            let mut names: Vec<String> =
                inside.filter_map(|rest| rest.split('/').next().map(str::to_owned)).collect();
            names.sort_unstable();
            names.dedup();
            Ok(names)
        }
    }

    #[test]
    fn every_starting_kit_is_clean() {
        for language in Language::ALL {
            let files = files(language);
            let tasks: Vec<Source> = files
                .iter()
                .filter(|(path, _)| path.starts_with("tasks/"))
                .map(|(path, text)| Source::new(path.as_str(), text.as_str()))
                .collect();
            assert_eq!(tasks.len(), 6, "an example and one for each of the five agents");
            let layer = Layer::new(
                Origin::Repository,
                Layout::Plain,
                ".bailiwick/",
                Box::new(Written(files)),
            );
            let report = lint(&Kit::over_embedded(vec![layer]), &tasks);
            let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
            assert!(problems.is_empty(), "{language}: {problems:#?}");
            assert_eq!((report.capabilities, report.roles), (18, 7));
        }
    }

    #[test]
    fn languages_are_told_by_the_names_in_the_root() {
        let detect = |names: &[&str]| {
            Language::detect(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(detect(&["README.md", "Cargo.toml"]), Language::Rust);
        assert_eq!(detect(&["app.csproj"]), Language::DotNet);
        assert_eq!(detect(&["go.mod", "Makefile"]), Language::Go);
        assert_eq!(detect(&[]), Language::Other);
    }
}
