//! Finds the tests in a text, line by line, with simple patterns of the language.

use super::languages::{self, Language};

/// Assertions that are always true.
const TRIVIAL_ASSERTIONS: [&str; 7] = [
    "assert True",
    "assert!(true)",
    "assert(true)",
    "assertTrue(true)",
    "self.assertTrue(True)",
    "expect(true).toBe(true)",
    "expect(true).to eq(true)",
];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Suite {
    pub(super) tests: Vec<Test>,
    /// How often a class, a module or a whole file is skipped.
    pub(super) group_skips: usize,
    /// How many focused tests or groups keep the others from running.
    pub(super) focuses: usize,
    /// Test modules that the file includes.
    pub(super) modules: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) name: String,
    pub(super) is_skipped: bool,
    /// Whether its body calls or compares anything.
    pub(super) does_something: bool,
    indentation: usize,
    is_open: bool,
}

impl Suite {
    pub(super) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Test> {
        self.tests.iter().filter(move |test| test.name == name)
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.named(name).count()
    }

    /// The names that occur more often in this suite than in the other one.
    pub(super) fn missing_from<'a>(&'a self, other: &Self) -> Vec<&'a str> {
        let mut names: Vec<&str> = self.tests.iter().map(|test| test.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| self.count(name) > other.count(name));
        names
    }
}

/// Whether a text has only blank lines and comments.
pub(super) fn is_blank(language: Language, text: &str) -> bool {
    code(language, text).is_empty()
}

pub(super) fn read(language: Language, path: &str, text: &str) -> Suite {
    let mut reader = Reader { language, ..Reader::default() };
    reader.all_modules_are_tests = languages::is_test_name(path);
    if language == Language::Go {
        let tags = text.lines().filter(|line| line.starts_with("//go:build"));
        reader.suite.group_skips += tags.count();
    }
    for line in code(language, text) {
        reader.line(line);
    }
    reader.suite
}

/// The lines that are neither blank nor comments.
fn code(language: Language, text: &str) -> Vec<&str> {
    let (mut lines, mut block) = (Vec::new(), None::<&str>);
    let hashes = matches!(language, Language::Python | Language::Ruby | Language::Bats)
        || (language == Language::Other && text.starts_with("#!"));
    // A comment without an end is part of a string.
    let last_end = text.lines().collect::<Vec<_>>().iter().rposition(|line| line.contains("*/"));
    for (number, line) in text.lines().enumerate() {
        let start = line.trim_start();
        if let Some(end) = block {
            if start.contains(end) {
                block = None;
            }
            continue;
        }
        let comment = if hashes { start.starts_with('#') } else { start.starts_with("//") };
        if start.is_empty() || comment {
            continue;
        }
        block = match language {
            Language::Python => {
                ["\"\"\"", "'''"].into_iter().find(|quote| start.matches(quote).count() % 2 == 1)
            }
            Language::Ruby => start.starts_with("=begin").then_some("=end"),
            Language::Bats => None,
            Language::Rust
            | Language::JavaScript
            | Language::Go
            | Language::Java
            | Language::Other => {
                let opens = start.starts_with("/*") && last_end.is_some_and(|end| end >= number);
                if opens && start.contains("*/") {
                    continue;
                }
                opens.then_some("*/")
            }
        };
        let is_text = language == Language::Python && block.is_some() && !start.contains('=');
        if block.is_none() || (language == Language::Python && !is_text) {
            lines.push(line);
        }
    }
    lines
}

#[derive(Debug)]
struct Reader {
    language: Language,
    suite: Suite,
    all_modules_are_tests: bool,
    /// Attributes before a function or a group.
    marked_test: bool,
    marked_skip: bool,
    marked_module: bool,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            language: Language::Other,
            suite: Suite::default(),
            all_modules_are_tests: false,
            marked_test: false,
            marked_skip: false,
            marked_module: false,
        }
    }
}

impl Reader {
    fn line(&mut self, line: &str) {
        let start = line.trim_start();
        let indentation = line.len() - start.len();
        self.continue_test(start, indentation);
        match self.language {
            Language::Rust => self.rust(start, indentation),
            Language::Python => self.python(start, indentation),
            Language::JavaScript => self.javascript(start, indentation),
            Language::Go => self.go(start, indentation),
            Language::Java => self.java(start, indentation),
            Language::Ruby => self.ruby(start, indentation),
            Language::Bats => self.bats(start, indentation),
            Language::Other => {}
        }
    }

    /// Reads a line of the body of the last test, or ends that test.
    fn continue_test(&mut self, start: &str, indentation: usize) {
        let Some(test) = self.suite.tests.last_mut().filter(|test| test.is_open) else { return };
        if indentation > test.indentation {
            test.does_something |= does_something(start);
        } else if !start.starts_with(')') {
            test.is_open = false;
        }
    }

    fn test(&mut self, name: &str, line: &str, indentation: usize, is_skipped: bool) {
        let body = ["{", "=>", "):"].into_iter().filter_map(|opening| line.split_once(opening));
        let body = body.map(|(_, body)| body).max_by_key(|body| body.len()).unwrap_or_default();
        self.suite.tests.push(Test {
            name: name.to_owned(),
            is_skipped,
            does_something: does_something(body),
            indentation,
            is_open: true,
        });
    }

    /// Counts a skip call: of the open test, or of the group outside of a test.
    fn skip_here(&mut self) {
        match self.suite.tests.last_mut().filter(|test| test.is_open) {
            Some(test) => test.is_skipped = true,
            None => self.suite.group_skips += 1,
        }
    }

    fn take_marks(&mut self) -> (bool, bool) {
        (std::mem::take(&mut self.marked_test), std::mem::take(&mut self.marked_skip))
    }

    fn rust(&mut self, start: &str, indentation: usize) {
        if start.starts_with("#[") || start.starts_with("#![") {
            let tests = ["#[test]", "::test]", "::test(", "#[rstest", "#[test_case", "_test]"];
            self.marked_test |= tests.into_iter().any(|mark| start.contains(mark));
            let conditional = start.starts_with("#[cfg_attr(") && start.contains("ignore");
            self.marked_skip |= start.contains("#[ignore") || conditional;
            self.marked_module |= start.contains("cfg(test)");
            let never = ["cfg(any())", "cfg(FALSE)", "cfg(false)", "cfg(never)"];
            let whole = start.starts_with("#![cfg(");
            let never = never.into_iter().any(|mark| start.contains(mark));
            self.suite.group_skips += usize::from(whole || never);
        }
        if let Some(name) = after_word(start, "fn") {
            self.marked_module = false;
            if let (true, is_skipped) = self.take_marks() {
                self.test(name, start, indentation, is_skipped);
            }
        } else if let Some(name) = after_word(start, "mod") {
            let is_test_module =
                std::mem::take(&mut self.marked_module) || self.all_modules_are_tests;
            if is_test_module && start.ends_with(';') {
                self.suite.modules.push(name.to_owned());
            }
        }
    }

    fn python(&mut self, start: &str, indentation: usize) {
        let skips = [
            "@pytest.mark.skip",
            "@pytest.mark.xfail",
            "@unittest.skip",
            "@skip",
            "@unittest.expectedFailure",
        ];
        self.marked_skip |= skips.into_iter().any(|mark| start.starts_with(mark));
        let definition = start.strip_prefix("async ").unwrap_or(start);
        if let Some(name) = definition.strip_prefix("def ").map(identifier) {
            let (_, is_skipped) = self.take_marks();
            if name.starts_with("test") {
                self.test(name, start, indentation, is_skipped);
            }
            return;
        }
        if start.starts_with("class ") {
            let (_, is_skipped) = self.take_marks();
            self.suite.group_skips += usize::from(is_skipped);
        }
        let inside = ["pytest.skip(", "pytest.xfail(", "importorskip(", ".skipTest(", "SkipTest"];
        let groups = ["pytestmark", "collect_ignore", "__test__ = False"];
        if inside.into_iter().any(|call| start.contains(call)) && !start.starts_with("from ") {
            self.skip_here();
        } else if groups.into_iter().any(|mark| start.starts_with(mark)) {
            self.suite.group_skips += 1;
        }
    }

    fn javascript(&mut self, start: &str, indentation: usize) {
        for (at, _) in start.match_indices('(') {
            let (callee, rest) = start.split_at(at);
            let is_part = |letter: char| letter.is_alphanumeric() || "_$.".contains(letter);
            let callee = callee.rsplit(|letter| !is_part(letter)).next().unwrap_or_default();
            let mut words = callee.split('.');
            let first = words.next().unwrap_or_default();
            let filters = ["skip", "todo", "skipIf", "runIf", "fixme", "failing", "fails"];
            let focused = words.clone().any(|word| word == "only");
            let filtered = words.clone().any(|word| filters.contains(&word));
            let known = words.all(|word| {
                let others = ["only", "each", "concurrent", "sequential"];
                filters.contains(&word) || others.contains(&word)
            });
            let focuses = ["it", "test", "specify", "describe", "context", "suite"];
            let focused = focused && focuses.contains(&first);
            let focused = focused || matches!(first, "fit" | "fdescribe");
            self.suite.focuses += usize::from(known && focused);
            match first {
                "it" | "test" | "specify" | "fit" if known => {
                    self.test(quoted(rest), start, indentation, filtered);
                }
                "xit" | "xtest" | "xspecify" if known => {
                    self.test(quoted(rest), start, indentation, true);
                }
                "describe" | "context" | "suite" if known && filtered => {
                    self.suite.group_skips += 1;
                }
                "xdescribe" | "xcontext" if known => self.suite.group_skips += 1,
                "t" | "ctx" if filtered => self.skip_here(),
                "this" if filtered => self.skip_here(),
                _ => {}
            }
        }
    }

    fn go(&mut self, start: &str, indentation: usize) {
        if let Some(name) = start.strip_prefix("func ").map(identifier) {
            if ["Test", "Fuzz", "Example"].into_iter().any(|kind| name.starts_with(kind)) {
                self.test(name, start, indentation, false);
            }
        } else if [".Skip(", ".Skipf(", ".SkipNow("].into_iter().any(|call| start.contains(call)) {
            self.skip_here();
        }
    }

    fn java(&mut self, start: &str, indentation: usize) {
        let tests = ["@Test", "@ParameterizedTest", "@RepeatedTest", "@Property"];
        let skips = ["@Disabled", "@Ignore", "@EnabledIf", "@DisabledIf", "@DisabledOn"];
        self.marked_test |= tests.into_iter().any(|mark| start.contains(mark));
        self.marked_skip |= skips.into_iter().any(|mark| start.contains(mark));
        // The declaration can follow annotations on the same line.
        let declared = start.rsplit_once("@Test ").map_or(start, |(_, declared)| declared);
        if declared.starts_with('@') {
            return;
        }
        if declared.split([' ', '\t']).any(|word| matches!(word, "class" | "interface" | "object"))
        {
            let (_, is_skipped) = self.take_marks();
            self.suite.group_skips += usize::from(is_skipped);
        } else if let Some((front, _)) = declared.split_once('(')
            && self.marked_test
        {
            let name = front.rsplit([' ', '`']).find(|word| !word.is_empty()).unwrap_or_default();
            let (_, is_skipped) = self.take_marks();
            self.test(name, declared, indentation, is_skipped);
        } else if start.contains("assumeTrue(") || start.contains("assumeFalse(") {
            self.skip_here();
        }
    }

    fn ruby(&mut self, start: &str, indentation: usize) {
        let (word, rest) = start.split_once([' ', '(']).unwrap_or((start, ""));
        let marks = ["skip:", ":skip", "pending:", ":pending"];
        let is_marked = marks.into_iter().any(|mark| rest.contains(mark));
        let focused = matches!(word, "fit" | "fdescribe" | "fcontext");
        let focused = focused || rest.contains("focus: true") || rest.contains(":focus");
        self.suite.focuses += usize::from(focused);
        match word {
            "it" | "fit" | "specify" | "test" | "example" | "scenario" => {
                let body = rest.split_once(" do").map_or(rest, |(_, body)| body);
                self.test(quoted(rest), body, indentation, is_marked);
            }
            "xit" | "xspecify" | "xexample" => {
                self.test(quoted(rest), rest, indentation, true);
            }
            "def" if rest.starts_with("test_") => {
                self.test(identifier(rest), "", indentation, false);
            }
            "xdescribe" | "xcontext" => self.suite.group_skips += 1,
            "describe" | "context" | "RSpec.describe" if is_marked => self.suite.group_skips += 1,
            "skip" | "pending" => self.skip_here(),
            _ => {}
        }
    }

    fn bats(&mut self, start: &str, indentation: usize) {
        if let Some(rest) = start.strip_prefix("@test ") {
            self.test(quoted(rest), start, indentation, false);
        } else if start == "skip" || start.starts_with("skip ") {
            self.skip_here();
        }
    }
}

/// Whether a line of a body calls or compares something.
fn does_something(line: &str) -> bool {
    let line = TRIVIAL_ASSERTIONS
        .into_iter()
        .fold(line.to_owned(), |line, trivial| line.replace(trivial, ""));
    let words = ["(", "assert", "expect", "should", "must_", "[ ", "[[", "run ", "raise", "yield"];
    words.into_iter().any(|word| line.contains(word))
}

/// The identifier after a keyword.
fn after_word<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let mut words = line.split(' ');
    words.find(|word| *word == keyword)?;
    words.next().map(identifier).filter(|name| !name.is_empty())
}

fn identifier(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

/// The first quoted string; empty if the name is computed.
fn quoted(text: &str) -> &str {
    let Some(start) = text.find(['"', '\'', '`']) else { return "" };
    let Some(quote) = text.get(start..).and_then(|text| text.chars().next()) else { return "" };
    let inside = text.get(start + 1..).unwrap_or_default();
    inside.split_once(quote).map_or(inside, |(name, _)| name)
}
