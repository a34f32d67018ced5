//! Lists of globs: git itself is the oracle.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use bailiwick_policy::paths::Globs;
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, figure};

const NAMES: [&str; 12] =
    ["a", "b", "ab", "src", "a.rs", ".a", "!a", "#a", "a b", "a ", "[a", "a-"];

/// The number of paths per call of git.
const PATHS: usize = 20;

/// Without `a**/`, which git itself does not read as its manual says.
fn pattern(random: &mut Random) -> String {
    // Unusual or wrong spellings. A space at the end is literal in our lists.
    const ODD: [&str; 15] = [
        " ",
        "/",
        "//",
        "/**",
        "**/",
        "**",
        "a//b",
        "./a",
        "a/./b",
        "../a",
        "[a",
        "a[",
        "[]",
        "**/**",
        "a/**/**/b",
    ];
    if random.once_in(5) {
        return ODD[random.below(ODD.len())].to_owned();
    }
    let mut pattern = String::new();
    if random.once_in(4) {
        pattern.push('/');
    }
    let parts = 1 + random.below(3);
    for part in 0..parts {
        if part > 0 {
            pattern.push('/');
        }
        match random.below(10) {
            0 | 1 => pattern.push_str("**"),
            2 => pattern.push('*'),
            3 => pattern.push_str(["*.rs", "a*", "?", "a?", "*a", "**a"][random.below(6)]),
            4 => pattern.push_str(
                ["[ab]", "[!a]", "[a-c]*", "[^b]", "[]a]", "[[:alpha:]]"][random.below(6)],
            ),
            5 => pattern.push_str(["\\a", "a\\b", "\\*", "\\!a", "\\#a", "{a,b}"][random.below(6)]),
            _ => pattern.push_str(NAMES[random.below(NAMES.len())]),
        }
    }
    if random.once_in(4) || pattern.ends_with(' ') {
        pattern.push('/');
    }
    pattern
}

fn path(random: &mut Random) -> String {
    let depth = 1 + random.below(4);
    (0..depth).map(|_| NAMES[random.below(NAMES.len())]).collect::<Vec<_>>().join("/")
}

/// The paths that git ignores. None of them exists, so the last name of each is a file's.
fn ignored(repository: &Path, list: &[String], paths: &[String]) -> Vec<String> {
    // In our lists, a leading `!` or `#` is an ordinary character.
    let lines = list.iter().map(|glob| match glob.starts_with(['!', '#']) {
        true => format!("\\{glob}\n"),
        false => format!("{glob}\n"),
    });
    fs::write(repository.join(".git/info/exclude"), lines.collect::<String>()).unwrap();
    let mut git = Command::new("git")
        .args(["check-ignore", "--no-index", "--stdin", "-z"])
        .current_dir(repository)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", repository)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("git is needed for this test: {error}"));
    git.stdin.take().unwrap().write_all(paths.join("\0").as_bytes()).unwrap();
    let output = git.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "git check-ignore failed");
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_terminator('\0').map(str::to_owned).collect()
}

#[test]
fn glob_list_matches_what_git_ignores() {
    let mut random = Random::rotating("globs");
    let place = tempfile::tempdir().unwrap();
    let initialized = Command::new("git").args(["init", "-q"]).arg(place.path()).status();
    assert!(
        initialized.is_ok_and(|initialized| initialized.success()),
        "git is needed for this test"
    );
    fs::create_dir_all(place.path().join(".git/info")).unwrap();
    let cases = Depth::from_env().cases(20_000);
    let (mut checked, mut matched) = (0_u64, 0_u64);
    while checked < cases {
        let list: Vec<String> = (0..=random.below(2)).map(|_| pattern(&mut random)).collect();
        let paths: Vec<String> = (0..PATHS).map(|_| path(&mut random)).collect();
        let really = ignored(place.path(), &list, &paths);
        let globs = Globs::parse(&list);
        for path in &paths {
            checked += 1;
            let expected = really.contains(path);
            matched += u64::from(expected);
            assert_eq!(globs.matches(path, false), expected, "{list:?} {path:?}");
        }
    }
    assert!(matched > cases / 20 && matched < cases / 20 * 19, "too plain: {matched} of {cases}");
    figure(&format!("globs: {checked} paths judged as git does ({matched} on the list)"));
}
