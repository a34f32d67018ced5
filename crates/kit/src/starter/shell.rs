//! Repositories of shell scripts.

use super::files::{Directory, extension};
use super::stack::{Stack, quote};
use super::tool::Tool;

/// The usual names of scripts that run a project's tests.
const TEST_SCRIPTS: [&str; 14] = [
    "test.sh",
    "tests.sh",
    "run_tests.sh",
    "run-tests.sh",
    "tests/run.sh",
    "tests/test.sh",
    "tests/run_tests.sh",
    "tests/run-tests.sh",
    "test/run.sh",
    "test/test.sh",
    "scripts/test.sh",
    "scripts/test",
    "script/test",
    "bin/test",
];

pub(super) fn detect(directory: Directory<'_>) -> Option<Stack> {
    let is_script = |path: &&str| extension(path).is_some_and(|it| ["sh", "bash"].contains(&it));
    let test_script = directory.first_of(&TEST_SCRIPTS);
    let script = directory.below().find(is_script).or(test_script)?;
    let mut stack = Stack::new(Tool::Shell, directory.path(), script);
    stack.programs = vec!["bash"];
    if directory.below().any(|path| is_script(&path)) {
        let find = "find . \\( -name '*.sh' -o -name '*.bash' \\) -not -path './.git/*' -print0";
        stack.commands.push(format!("{find} | xargs -0 -r -n 1 bash -n"));
        if directory.has(".shellcheckrc") {
            stack.programs.push("shellcheck");
            stack.commands.push(format!("{find} | xargs -0 -r shellcheck"));
        }
    }
    if let Some(place) = bats_directory(directory) {
        stack.programs.push("bats");
        stack.commands.push(format!("bats --recursive {}", quote(place)));
    }
    if let Some(file) = test_script {
        stack.evidence = file.to_owned();
        let with_bash = file.ends_with(".sh");
        stack.commands.push(if with_bash { format!("bash {file}") } else { format!("./{file}") });
    }
    Some(stack)
}

/// Where the tests for bats are.
fn bats_directory(directory: Directory<'_>) -> Option<&str> {
    let file = directory.below().find(|path| path.ends_with(".bats"))?;
    Some(file.split_once('/').map_or(".", |(first, _)| first))
}
