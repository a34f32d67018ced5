//! Files, and parts of files, that configure which tests run and how.

use std::collections::BTreeMap;

/// Names of files whose whole text configures tests.
const NAMES: [&str; 22] = [
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "tox.ini",
    "noxfile.py",
    "karma.conf.js",
    "karma.conf.ts",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    "Justfile",
    "Rakefile",
    ".rspec",
    "phpunit.xml",
    "phpunit.xml.dist",
    ".gitlab-ci.yml",
    ".travis.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "Jenkinsfile",
    "nextest.toml",
];

/// Prefixes of the names of such files.
const NAME_PREFIXES: [&str; 7] = [
    "jest.config.",
    "jest.setup.",
    "vitest.config.",
    "vitest.workspace.",
    "playwright.config.",
    "cypress.config.",
    ".mocharc",
];

/// Directories in which every file configures tests.
const DIRECTORIES: [&str; 4] =
    [".github/workflows/", ".github/actions/", ".circleci/", ".buildkite/"];

/// The parts of a file that configure tests, by name; the name of the whole file is "".
pub(super) type Parts = BTreeMap<String, String>;

/// Whether a file can configure tests.
pub(super) fn can_configure_tests(path: &str) -> bool {
    is_whole(path) || matches!(name(path), "package.json" | "pyproject.toml" | "setup.cfg")
}

fn is_whole(path: &str) -> bool {
    let name = name(path);
    let cargo = [".cargo/config.toml", ".cargo/config"];
    NAMES.contains(&name)
        || NAME_PREFIXES.into_iter().any(|stem| name.starts_with(stem))
        || DIRECTORIES.into_iter().any(|directory| path.starts_with(directory))
        || cargo.into_iter().any(|file| path == file || path.ends_with(&format!("/{file}")))
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The parts of a file that configure tests. A file that does not parse counts as a whole.
pub(super) fn parts(path: &str, text: Option<&str>) -> Parts {
    let Some(text) = text else { return Parts::new() };
    let whole = || Parts::from([(String::new(), text.to_owned())]);
    match name(path) {
        _ if is_whole(path) => whole(),
        "package.json" => package_json(text).unwrap_or_else(whole),
        "pyproject.toml" => pyproject(text).unwrap_or_else(whole),
        "setup.cfg" => setup_cfg(text),
        _ => Parts::new(),
    }
}

/// The first part that differs: its name, or none for the whole file.
pub(super) fn difference([before, after]: &[Parts; 2]) -> Option<Option<String>> {
    let differs = |name: &&String| before.get(*name) != after.get(*name);
    let name = before.keys().chain(after.keys()).find(differs)?;
    Some(Some(name.clone()).filter(|name| !name.is_empty()))
}

fn package_json(text: &str) -> Option<Parts> {
    let file: serde_json::Value = serde_json::from_str(text).ok()?;
    let scripts = file.get("scripts").and_then(serde_json::Value::as_object);
    let is_test = |key: &str| {
        let words = key.split([':', '-', '.', '_']);
        words.into_iter().any(|word| matches!(word, "test" | "tests" | "pretest" | "posttest"))
    };
    let scripts = scripts.into_iter().flatten().filter(|(key, _)| is_test(key));
    let scripts = scripts.map(|(key, value)| (format!("scripts.{key}"), value.to_string()));
    let runners = ["jest", "mocha", "vitest", "ava", "nyc", "c8"];
    let runners = runners
        .into_iter()
        .filter_map(|runner| file.get(runner).map(|value| (runner.to_owned(), value.to_string())));
    Some(scripts.chain(runners).collect())
}

fn pyproject(text: &str) -> Option<Parts> {
    let file: toml::Table = text.parse().ok()?;
    let tools = file.get("tool").and_then(toml::Value::as_table);
    let is_runner = |key: &str| key.starts_with("pytest") || matches!(key, "tox" | "nox" | "nose");
    let tools = tools.into_iter().flatten().filter(|(key, _)| is_runner(key));
    Some(tools.map(|(key, value)| (format!("tool.{key}"), value.to_string())).collect())
}

fn setup_cfg(text: &str) -> Parts {
    let (mut parts, mut section) = (Parts::new(), None);
    for line in text.lines().map(str::trim_end) {
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let is_runner = matches!(header, "tool:pytest" | "pytest" | "aliases" | "nosetests");
            section = Some(header.to_owned()).filter(|_| is_runner);
        } else if let Some(section) = &section
            && !line.trim().is_empty()
        {
            let part: &mut String = parts.entry(section.clone()).or_default();
            part.push_str(line);
            part.push('\n');
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(path: &str, before: &str, after: &str) -> Option<Option<String>> {
        difference(&[parts(path, Some(before)), parts(path, Some(after))])
    }

    #[test]
    fn every_change_of_a_test_configuration_file_counts() {
        for path in [
            "a/conftest.py",
            "pytest.ini",
            "tox.ini",
            "jest.config.mjs",
            "web/vitest.config.ts",
            ".mocharc.json",
            "karma.conf.js",
            "playwright.config.ts",
            "Makefile",
            ".github/workflows/ci.yml",
            ".gitlab-ci.yml",
            ".circleci/config.yml",
            ".cargo/config.toml",
            "a/.cargo/config.toml",
        ] {
            assert!(can_configure_tests(path), "{path}");
            assert_eq!(between(path, "a", "b"), Some(None), "{path}");
            assert_eq!(between(path, "a", "a"), None, "{path}");
            assert_eq!(difference(&[parts(path, Some("a")), Parts::new()]), Some(None), "{path}");
        }
        for path in ["src/a.rs", "config.toml", ".github/dependabot.yml", "cargo/config.toml"] {
            assert!(!can_configure_tests(path), "{path}");
            assert_eq!(between(path, "a", "b"), None, "{path}");
        }
    }

    #[test]
    fn only_the_parts_about_tests_count_in_other_files() {
        let package = |test: &str, rest: &str| {
            format!(
                r#"{{"scripts": {{"test:unit": "{test}", "latest": "{rest}"}}, "name": "{rest}"}}"#
            )
        };
        let path = "web/package.json";
        assert_eq!(between(path, &package("jest", "a"), &package("jest", "b")), None);
        let changed = between(path, &package("jest", "a"), &package("true", "a"));
        assert_eq!(changed, Some(Some("scripts.test:unit".to_owned())));
        let filtered = r#"{"jest": {"testPathIgnorePatterns": ["a"]}}"#;
        assert_eq!(between(path, "{}", filtered), Some(Some("jest".to_owned())));
        assert_eq!(between(path, "{}", "{"), Some(None), "the new text does not parse");

        let project = |version: &str, options: &str| {
            format!(
                "[project]\nversion = \"{version}\"\n[tool.pytest.ini_options]\naddopts = \"{options}\"\n"
            )
        };
        let path = "pyproject.toml";
        assert_eq!(between(path, &project("1", "-q"), &project("2", "-q")), None);
        let changed = between(path, &project("1", "-q"), &project("1", "-k none"));
        assert_eq!(changed, Some(Some("tool.pytest".to_owned())));

        let setup = |name: &str, options: &str| {
            format!("[metadata]\nname = {name}\n\n[tool:pytest]\naddopts = {options}\n")
        };
        assert_eq!(between("setup.cfg", &setup("a", "-q"), &setup("b", "-q")), None);
        let changed = between("setup.cfg", &setup("a", "-q"), &setup("a", "-k none"));
        assert_eq!(changed, Some(Some("tool:pytest".to_owned())));
    }
}
