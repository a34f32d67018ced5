//! Each sign of weaker tests, with examples of harmless changes.

use super::*;
use crate::example::{
    added, agent, changed, deleted, detail, entry, evidence, facts, reason, renamed, subject, task,
    texts,
};

type File<'a> = (Change, Option<&'a str>, Option<&'a str>);

const ALLOWED: &str = "[verification]\ntest-changes = \"allowed\"";

fn judged(rest: &str, files: &[File<'_>]) -> Verdict {
    let mut facts = Facts { executed_tests: Some(Vec::new()), ..facts() };
    for (change, before, after) in files {
        facts.texts.insert(change.path.clone(), texts(*before, *after));
    }
    let changes: Vec<Change> = files.iter().map(|(change, ..)| change.clone()).collect();
    judge(&subject(&task(rest), &agent(), &changes), &facts)
}

fn edited<'a>(path: &str, before: &'a str, after: &'a str) -> File<'a> {
    (changed(path), Some(before), Some(after))
}

fn edit(path: &str, before: &str, after: &str) -> Verdict {
    judged("", &[edited(path, before, after)])
}

const RUST: &str = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn one() {\n        \
                    assert_eq!(add(1, 1), 2);\n    }\n\n    #[test]\n    fn two() {\n        \
                    assert!(add(0, 0) == 0);\n    }\n}\n";
const PYTHON: &str =
    "def test_one():\n    assert add(1, 1) == 2\n\n\ndef test_two():\n    assert add(0, 0) == 0\n";
const JAVASCRIPT: &str = "describe('add', () => {\n  it('adds', () => {\n    \
                          expect(add(1, 1)).toBe(2);\n  });\n  test(\"zero\", async () => {\n    \
                          expect(add(0, 0)).toBe(0);\n  });\n});\n";
const GO: &str = "package a\n\nfunc TestOne(t *testing.T) {\n\tif add(1, 1) != 2 {\n\t\t\
                  t.Error(1)\n\t}\n}\n\nfunc TestTwo(t *testing.T) {\n\tcheck(t)\n}\n";
const JAVA: &str = "class ATest {\n    @Test\n    void one() {\n        assertEquals(2, add(1, 1));\
                    \n    }\n\n    @Test\n    public void two() {\n        check();\n    }\n}\n";
const RUBY: &str = "describe 'add' do\n  it 'adds' do\n    expect(add(1, 1)).to eq 2\n  end\n  \
                    it \"zero\" do\n    expect(add(0, 0)).to eq 0\n  end\nend\n";
const BATS: &str =
    "@test \"one\" {\n  run add 1 1\n}\n\n@test \"two\" {\n  [ \"$(add 0 0)\" = 0 ]\n}\n";

/// A test file of each language, and the end of its first test.
const SUITES: [(&str, &str, &str); 7] = [
    ("src/lib.rs", RUST, "    }\n"),
    ("tests/test_a.py", PYTHON, "\n\n"),
    ("web/a.test.ts", JAVASCRIPT, "  });\n"),
    ("a_test.go", GO, "\n}\n"),
    ("ATest.java", JAVA, "    }\n"),
    ("spec/a_spec.rb", RUBY, "  end\n"),
    ("a.bats", BATS, "}\n"),
];

/// The text without its first test.
fn shorter(text: &str, end: &str) -> String {
    let starts = [
        "    #[test]",
        "def test_one",
        "  it('adds'",
        "func TestOne",
        "    @Test",
        "  it 'adds'",
        "@test \"one\"",
    ];
    let start = starts.into_iter().find_map(|start| text.find(start)).unwrap();
    let (front, remaining) = text.split_at(start);
    let (_, remaining) = remaining.split_once(end).unwrap();
    format!("{front}{remaining}")
}

#[test]
fn deleted_emptied_or_renamed_test_file_is_named() {
    for (path, text, _) in SUITES {
        let deletion = judged("", &[(deleted(path), Some(text), None)]);
        assert!(
            reason(&deletion).contains(&format!("`{path}` had tests and was deleted")),
            "{path}"
        );
        let renaming = judged("", &[(renamed(path, "old.txt"), Some(text), Some(text))]);
        assert!(
            reason(&renaming).contains(&format!("`{path}` had tests and was deleted")),
            "{path}"
        );
        assert!(reason(&edit(path, text, "\n")).contains("was emptied"), "{path}");
    }
    let linked = Change { after: entry(Mode::Link), ..changed("test_a.py") };
    assert!(!judged("", &[(linked, Some(PYTHON), Some("../x"))]).is_pass());
    let shell = |path| judged("", &[(deleted(path), Some("[ 1 = 1 ]\n"), None)]).is_pass();
    assert!(!shell("tests/greet.sh") && shell("bin/greet.sh"));
    let plain = judged("", &[(deleted("src/a.rs"), Some("fn a() {}\n"), None)]);
    assert!(plain.is_pass(), "the file had no tests");
    assert!(judged("", &[(deleted("tests/helper.py"), Some("A = 1\n"), None)]).is_pass());
}

#[test]
fn removed_tests_are_counted_and_moved_renamed_and_new_ones_are_allowed() {
    for (path, text, end) in SUITES {
        let fewer_tests = shorter(text, end);
        let verdict = edit(path, text, &fewer_tests);
        assert!(reason(&verdict).contains("has 1 of its 2 tests"), "{path}: {verdict:?}");
        assert!(edit(path, &fewer_tests, text).is_pass(), "{path}: one more test");
        assert!(judged("", &[(added(path), None, Some(text))]).is_pass(), "{path}: a new file");
        let moved = format!("more/{path}");
        let move_of_tests = [edited(path, text, &fewer_tests), (added(&moved), None, Some(text))];
        assert!(judged("", &move_of_tests).is_pass(), "{path} to {moved}");
    }
    assert!(edit("src/lib.rs", RUST, &RUST.replace("fn one", "fn first")).is_pass());
    let commented = RUST.replace("    #[test]\n    fn one", "    // #[test]\n    fn one");
    assert!(!edit("src/lib.rs", RUST, &commented).is_pass());
    let block =
        PYTHON.replace("def test_one", "\"\"\"\ndef test_one").replace("\n\n\n", "\n\"\"\"\n");
    assert!(!edit("test_a.py", PYTHON, &block).is_pass());
    let block = format!("/*\n{JAVASCRIPT}*/\nit('x', () => {{ f(); }});\n");
    assert!(!edit("a.test.js", JAVASCRIPT, &block).is_pass());
    let glob = RUST.replace(
        "fn one",
        "fn glob() {\n        f();\n        let a = \"\n/*\n\";\n    }\n\n    fn one",
    );
    assert!(edit("src/lib.rs", RUST, &glob).is_pass(), "an unclosed comment is not a comment");
    // Different tests elsewhere are not a substitute, and one copy does not replace two.
    let other_tests = PYTHON.replace("test_", "test_new_");
    let traded = [
        (deleted("test_a.py"), Some(PYTHON), None),
        (added("test_b.py"), None, Some(&*other_tests)),
    ];
    assert!(!judged("", &traded).is_pass());
    let twice = [
        (deleted("test_a.py"), Some(PYTHON), None),
        (deleted("test_b.py"), Some(PYTHON), None),
        (added("test_c.py"), None, Some(PYTHON)),
    ];
    assert!(!judged("", &twice).is_pass());
    let copied = Change { copied: true, ..renamed("test_a.py", "test_b.py") };
    assert!(judged("", &[(copied, Some(PYTHON), Some(PYTHON))]).is_pass());
}

#[test]
fn test_that_no_longer_checks_anything_is_named() {
    for (path, text, from, to) in [
        ("src/lib.rs", RUST, "        assert_eq!(add(1, 1), 2);\n", ""),
        ("src/lib.rs", RUST, "assert_eq!(add(1, 1), 2);", "assert!(true);"),
        ("test_a.py", PYTHON, "assert add(1, 1) == 2", "pass"),
        ("test_a.py", PYTHON, "assert add(1, 1) == 2", "assert True"),
        ("a.test.ts", JAVASCRIPT, "expect(add(1, 1)).toBe(2);", ""),
        ("ATest.java", JAVA, "assertEquals(2, add(1, 1));", ""),
        ("a_spec.rb", RUBY, "expect(add(1, 1)).to eq 2", ""),
        ("a.bats", BATS, "run add 1 1", "true"),
    ] {
        let verdict = edit(path, text, &text.replace(from, to));
        assert!(reason(&verdict).contains("no longer checks anything"), "{path}: {verdict:?}");
        assert!(edit(path, text, &text.replace("1, 1", "2, 1")).is_pass(), "{path}: another value");
    }
}

#[test]
fn new_skips_and_focuses_are_named_and_old_ones_are_not() {
    for (path, text, from, to) in [
        (
            "src/lib.rs",
            RUST,
            "#[test]\n    fn one",
            "#[test]\n    #[ignore = \"slow\"]\n    fn one",
        ),
        ("src/lib.rs", RUST, "#[cfg(test)]", "#[cfg(any())]"),
        ("test_a.py", PYTHON, "def test_one", "@pytest.mark.skip(reason=\"x\")\ndef test_one"),
        ("test_a.py", PYTHON, "assert add(1", "pytest.skip('x')\n    assert add(1"),
        ("test_a.py", PYTHON, "def test_one", "pytestmark = pytest.mark.skip\ndef test_one"),
        ("a.test.ts", JAVASCRIPT, "it('adds'", "it.skip('adds'"),
        ("a.test.ts", JAVASCRIPT, "it('adds'", "xit('adds'"),
        ("a.test.ts", JAVASCRIPT, "it('adds'", "it.only('adds'"),
        ("a.test.ts", JAVASCRIPT, "describe(", "describe.only("),
        ("a_test.go", GO, "\tcheck(t)", "\tt.Skip(\"x\")\n\tcheck(t)"),
        ("a_test.go", GO, "package a", "//go:build never\n\npackage a"),
        ("ATest.java", JAVA, "@Test\n    void", "@Test\n    @Disabled\n    void"),
        ("ATest.java", JAVA, "class", "@Ignore\nclass"),
        ("a_spec.rb", RUBY, "it 'adds'", "xit 'adds'"),
        ("a_spec.rb", RUBY, "it 'adds'", "fit 'adds'"),
        ("a_spec.rb", RUBY, "    expect(add(1", "    skip 'x'\n    expect(add(1"),
        ("a.bats", BATS, "  run", "  skip \"x\"\n  run"),
    ] {
        let skipped = text.replacen(from, to, 1);
        let verdict = edit(path, text, &skipped);
        let message = reason(&verdict);
        assert!(message.contains("skip") && message.contains(path), "{path} {to}: {message}");
        assert!(edit(path, &skipped, text).is_pass(), "{path} {to}: no longer skipped");
        let with_blank_lines = format!("{skipped}\n\n");
        assert!(edit(path, &skipped, &with_blank_lines).is_pass(), "{path} {to}: skipped before");
    }
    let (first, second) = ("fn one() {", "fn two() {");
    let ignore = |name: &str| RUST.replace(name, &format!("#[ignore]\n    {name}"));
    assert!(!edit("src/lib.rs", &ignore(first), &ignore(second)).is_pass(), "another one");
    let ignored = ignore(first);
    assert!(judged("", &[(renamed("a.rs", "b.rs"), Some(&ignored), Some(&ignored))]).is_pass());
    let renamed_too = ignored.replace("fn one", "fn first");
    assert!(!edit("src/lib.rs", RUST, &renamed_too).is_pass());
    let new = format!("{RUST}#[test]\n#[ignore]\nfn new() {{ f(); }}\n");
    assert!(edit("src/lib.rs", RUST, &new).is_pass(), "a new test weakens nothing");
    let focused = JAVASCRIPT.replace("it('adds'", "it.only('adds'");
    assert!(!judged("", &[(added("a.test.ts"), None, Some(&focused))]).is_pass(), "all others");
    assert!(edit("src/a.ts", "a.skip(1)\n", "it.skip(2)\n").is_pass(), "not a test file");
    assert!(edit("a.test.ts", JAVASCRIPT, &JAVASCRIPT.replace("1, 1", "x.skip(1), 1")).is_pass());
}

#[test]
fn test_module_that_is_no_longer_included_is_named() {
    let main = "mod one;\nmod two;\n";
    let verdict = edit("tests/it/main.rs", main, "mod one;\n// mod two;\n");
    assert!(reason(&verdict).contains("no longer includes the module `two`"));
    let unit = |after| edit("src/lib.rs", "#[cfg(test)]\nmod tests;\nmod a;\n", after).is_pass();
    assert!(!unit("mod a;\n"));
    assert!(unit("#[cfg(test)]\nmod tests;\n"), "`a` is not a test");
    let moved = [
        edited("tests/it/main.rs", main, "mod one;\nmod three;\n"),
        (renamed("tests/it/two.rs", "tests/it/three.rs"), Some(RUST), Some(RUST)),
    ];
    assert!(judged("", &moved).is_pass());
}

#[test]
fn changed_test_configuration_is_named_and_other_parts_are_not() {
    let verdict = edit("web/vitest.config.ts", "a", "b");
    assert!(reason(&verdict).contains("`web/vitest.config.ts` configures tests"));
    assert!(!judged("", &[(added("conftest.py"), None, Some("collect_ignore = []\n"))]).is_pass());
    assert!(!judged("", &[(deleted("Makefile"), Some("test:\n"), None)]).is_pass());
    let package = |test: &str| format!(r#"{{"scripts": {{"test": "{test}"}}}}"#);
    let verdict = edit("package.json", &package("jest"), &package("true"));
    assert!(reason(&verdict).contains("`scripts.test` was changed"));
    assert!(edit("package.json", "{}", r#"{"version": "2.0.0"}"#).is_pass());
    let disabled = edit("Cargo.toml", "[package]\n", "[package]\nautotests = false\n");
    assert!(reason(&disabled).contains("package.autotests = false"));
    assert!(edit("Cargo.toml", "[package]\n", "[package]\nversion = \"2.0.0\"\n").is_pass());
    assert!(edit("Makefile", "all:\n", "all:\n").is_pass(), "only its mode differs");
}

#[test]
fn task_can_allow_changes_and_the_signals_are_still_named() {
    let files =
        [(deleted("tests/test_a.py"), Some(PYTHON), None), edited("Makefile", "test:\n", "all:\n")];
    let refused = judged("", &files);
    assert!(reason(&refused).ends_with("had tests and was deleted, and 1 more"));
    assert!(detail(&refused).contains("`Makefile` configures tests and was changed\nhelp: "));
    // A whitelist entry allows writing to the file, not removing its tests.
    let named = "[scope]\nfiles-whitelist = [\"tests/test_a.py\"]";
    assert!(!judged(named, &files).is_pass());
    assert!(!judged("[verification]\ntest-changes = \"refused\"", &files).is_pass());
    let passed = evidence(&judged(ALLOWED, &files));
    assert!(passed.contains("`tests/test_a.py`") && passed.contains("`Makefile`"), "{passed}");
    assert!(evidence(&judged(ALLOWED, &[])).starts_with("no test was removed"));
}

#[test]
fn unreadable_test_file_fails_and_other_files_are_not_read() {
    let (task, agent) = (task(ALLOWED), agent());
    let changes = [changed("test_a.py"), changed("README.md"), changed("Cargo.toml")];
    let subject = subject(&task, &agent, &changes);
    assert_eq!(needs(&subject).texts, ["test_a.py", "Cargo.toml"]);
    assert!(reason(&judge(&subject, &facts())).contains("its text is not known"));
    let half_known = judged("", &[(changed("test_a.py"), None, Some(PYTHON))]);
    assert!(reason(&half_known).contains("its text is not known"));
}

#[test]
fn fewer_executed_tests_than_on_the_base_are_a_signal() {
    let judged = |rest: &str, counts: &[(u64, u64)]| {
        let counted = |(before, after): &(u64, u64)| Comparison {
            job: "`npm test`".to_owned(),
            before: *before,
            after: Some(*after),
        };
        let facts = Facts { executed_tests: Some(counts.iter().map(counted).collect()), ..facts() };
        judge(&subject(&task(rest), &agent(), &[]), &facts)
    };
    let fewer = judged("", &[(5, 4)]);
    assert_eq!(reason(&fewer), "tests may be weaker: `npm test` executed 4 tests, 5 on the base");
    let unchanged = evidence(&judged("", &[(5, 5), (5, 6)]));
    assert!(unchanged.ends_with("; `npm test` executed 6 tests, 5 on the base"), "{unchanged}");
    let allowed = evidence(&judged(ALLOWED, &[(5, 4), (5, 6)]));
    assert_eq!(
        allowed,
        "the task allows: `npm test` executed 4 tests, 5 on the base; `npm test` executed 6 tests, \
         5 on the base"
    );
    let uncounted = judge(&subject(&task(""), &agent(), &[]), &facts());
    assert_eq!(reason(&uncounted), "the executed tests were not counted");
}
