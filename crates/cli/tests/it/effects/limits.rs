//! The limits that the tests try to break, and the repository in which they run.

use std::process::Command;

use bailiwick_testkit::Scratch;

use super::ways::Way;

/// A limit of a role, and what it protects.
pub(super) struct Limit {
    pub(super) name: &'static str,
    pub(super) capabilities: &'static [&'static str],
    /// The `[scope]` of its task.
    pub(super) scope: &'static str,
    /// Protected files, from the root of the worktree or, with `@G@`, in git's own directory.
    pub(super) files: &'static [&'static str],
    /// Files that must not be created.
    pub(super) new: &'static [&'static str],
}

const WHITELIST: &str = "files-whitelist = [\"src/**\"]";

/// Every limit on paths.
pub(super) const LIMITS: [Limit; 6] = [
    Limit {
        name: "files-whitelist",
        capabilities: &["scope::files-whitelist"],
        scope: WHITELIST,
        files: &["docs/guide.md", "docs/deep/page.md", "tests/check.sh"],
        new: &["docs/new.md", "notes/plan.md", "tests/deep/more.sh"],
    },
    Limit {
        name: "files-denylist",
        capabilities: &["scope::files-whitelist", "scope::files-denylist"],
        scope: "files-whitelist = [\"src/**\"]\nfiles-denylist = [\"src/secret/**\", \"src/app/locked.txt\"]",
        files: &["src/secret/key.txt", "src/secret/deep/cert.txt", "src/app/locked.txt"],
        new: &["src/secret/new.txt", "src/secret/deep/more.txt", "src/secret/a/b/c.txt"],
    },
    Limit {
        name: "no-dep-bump",
        capabilities: &["safety::no-dep-bump"],
        scope: "",
        files: &["src/web/package.json", "src/app/Cargo.toml", "src/app/Cargo.lock"],
        new: &["src/new/package.json", "src/sub/go.mod", "tests/requirements.txt"],
    },
    Limit {
        name: "no-rule-edits",
        capabilities: &["scope::no-rule-edits"],
        scope: "",
        files: &[".claude/settings.json", "src/app/AGENTS.md", "docs/CLAUDE.md"],
        new: &[".claude/settings.local.json", "src/lib/AGENTS.md", "src/x/.codex/config.toml"],
    },
    Limit {
        name: "nothing may be written",
        capabilities: &["scope::files-whitelist"],
        scope: "files-whitelist = []",
        files: &["src/app/free.txt", "docs/guide.md", "src/web/package.json"],
        new: &[],
    },
    Limit {
        name: "git-read-only",
        capabilities: &["policy::git-read-only"],
        scope: "",
        files: &["@G@/info/exclude", "@G@/refs/heads/main", "@G@/config"],
        new: &[],
    },
];

/// One forbidden effect.
#[derive(Clone)]
pub(super) struct Case {
    /// The command of the agent.
    pub(super) command: String,
}

/// Cases of one limit and one way.
pub(super) struct Class {
    pub(super) name: String,
    pub(super) limit: &'static Limit,
    pub(super) cases: Vec<Case>,
}

/// The minimum number of cases of each class.
const CASES: usize = 10;

impl Class {
    /// Pairs every command with a file, up to the minimum number of cases.
    pub(super) fn of(limit: &'static Limit, way: &'static Way, files: &[&'static str]) -> Self {
        let count = way.commands.len().max(CASES);
        let pair = |number: usize| {
            let command = way.commands[number % way.commands.len()];
            let file = files[(number + number / way.commands.len()) % files.len()];
            Case { command: fill_in(command, file) }
        };
        let name = format!("{}: {}", limit.name, way.name);
        Self { name, limit, cases: (0..count).map(pair).collect() }
    }

    /// The same class with only this case.
    pub(super) fn with(&self, case: Case) -> Self {
        Self { name: self.name.clone(), limit: self.limit, cases: vec![case] }
    }

    /// The text of `attack/cases`.
    fn script(&self) -> String {
        let numbered = self.cases.iter().enumerate();
        numbered.map(|(number, case)| format!("#case {number}\n{}\n#end\n", case.command)).collect()
    }
}

impl Case {
    /// The command with fixed paths, as the gate gets it.
    pub(super) fn command_for_gate(&self) -> String {
        self.command.replace("@G@", ".git").replace("@W@", "/tmp/w").replace("@ROOT@", ".")
    }
}

fn fill_in(command: &str, file: &str) -> String {
    let (base, rest) = match file.strip_prefix("@G@/") {
        Some(rest) => ("@G@", rest),
        None => ("@ROOT@", file),
    };
    let directory = file.rsplit_once('/').map_or(".", |(directory, _)| directory);
    command
        .replace("{T}", file)
        .replace("{B}", base)
        .replace("{R}", rest)
        .replace("{D}", directory)
        .replace("{W}", "@W@")
        .replace("{RAW}", "@ROOT@/attack/raw")
        .replace("{PRELOAD}", "@ROOT@/attack/preload.so")
}

/// Runs one case. Its paths are known only at run time.
const RUN: &str = r#"root=$(cd "$(dirname "$0")/.." && pwd); cd "$root" || exit 1
w=$HOME/w$1; mkdir -p "$w"; git=$(git rev-parse --path-format=absolute --git-common-dir)
sed -n "/^#case $1\$/,/^#end\$/p" attack/cases | sed "s|@G@|$git|g; s|@W@|$w|g; s|@ROOT@|$root|g" > "$w/case.sh"
echo "began $1"
timeout 20 bash "$w/case.sh"
"#;

const PRELOAD: &str = "#include <fcntl.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
    __attribute__((constructor)) static void start(void) {\n\
    const char *file = getenv(\"FILE\");\n\
    if (file && write(open(file, O_WRONLY | O_TRUNC), \"EVIL\", 4) != 4) _exit(1);\n}\n";

/// A repository with files of every kind, and the programs of the cases.
pub(super) fn fixture() -> Scratch {
    let scratch = Scratch::repository();
    for path in ["docs/guide.md", "docs/deep/page.md", "docs/CLAUDE.md", "README.md"] {
        scratch.write(path, "a page\n");
    }
    for path in ["src/lib.txt", "src/app/free.txt", "src/app/locked.txt", "src/app/AGENTS.md"] {
        scratch.write(path, "some text\n");
    }
    for path in ["src/secret/key.txt", "src/secret/deep/cert.txt", "tests/check.sh"] {
        scratch.write(path, "true\n");
    }
    scratch.write("src/app/Cargo.toml", "[package]\nname = \"app\"\n");
    scratch.write("src/app/Cargo.lock", "version = 4\n");
    scratch.write("src/web/package.json", "{}\n");
    scratch.write(".claude/settings.json", "{}\n");
    scratch.write("attack/run.sh", RUN);
    scratch.commit("first");
    scratch.git(&["branch", "--quiet", "side"]);
    scratch.write("attack/raw.c", include_str!("raw.c"));
    scratch.write("attack/preload.c", PRELOAD);
    compile(&scratch, &["-o", "attack/raw", "attack/raw.c"]);
    compile(&scratch, &["-shared", "-fPIC", "-o", "attack/preload.so", "attack/preload.c"]);
    scratch.commit("second");
    scratch.git(&["tag", "v1"]);
    scratch.git(&["checkout", "--quiet", "side"]);
    scratch.write("src/side.txt", "side\n");
    scratch.commit("side");
    scratch.git(&["checkout", "--quiet", "main"]);
    scratch
}

fn compile(scratch: &Scratch, arguments: &[&str]) {
    let ran = scratch.run("cc", &[&["-O1"], arguments].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
}

/// Copies a directory with all attributes.
pub(super) fn copy(from: &std::path::Path, to: &std::path::Path) {
    let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
    assert!(copied.success());
}

/// The repository of a class: the fixture, the role, the task and the cases.
pub(super) fn repository(fixture: &Scratch, class: &Class) -> Scratch {
    let scratch = Scratch::bare();
    copy(&fixture.root(), &scratch.root());
    let role = format!(
        "[role]\nname = \"helper\"\ndescription = \"d\"\n[capabilities]\nrequired = {:?}\n[tools]\nallowed = [\"*\"]\n",
        class.limit.capabilities
    );
    scratch.write(".bailiwick/roles/helper.toml", &role);
    scratch.write("attack/cases", &class.script());
    // The call after one that created a forbidden file is denied, so each case is followed by a `true`.
    let step =
        |command: String| format!("[[agent.script]]\ndo = \"shell\"\ncommand = {command:?}\n");
    let steps = (0..class.cases.len())
        .map(|number| step(format!("sh attack/run.sh {number}")) + &step("true".to_owned()));
    let task = format!(
        "[task]\nrole = \"helper\"\n[scope]\n{}\n[body]\ntext = \"do it\"\n[agent]\ncli = \"script\"\n{}",
        class.limit.scope,
        steps.collect::<String>()
    );
    scratch.write("task.toml", &task);
    scratch.commit("class");
    scratch
}
