//! Which files can have tests, by their names, and in which language.

/// The language of a test file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    Python,
    JavaScript,
    Go,
    Java,
    Ruby,
    Bats,
    /// Its test files are recognised by name; its tests cannot be listed.
    Other,
}

/// Directories of tests and their support files.
const DIRECTORIES: [&str; 5] = ["tests", "test", "__tests__", "spec", "specs"];

/// Extensions of other languages.
const OTHER_EXTENSIONS: [&str; 14] =
    ["sh", "php", "cs", "fs", "ex", "exs", "c", "cc", "cpp", "swift", "scala", "dart", "hs", "lua"];

impl Language {
    /// The language of a file that can have tests; none for any other file.
    pub(super) fn of(path: &str) -> Option<Self> {
        let language = match extension(path)? {
            // Unit tests are beside the code.
            "rs" => return Some(Self::Rust),
            "bats" => return Some(Self::Bats),
            "py" => Self::Python,
            "js" | "jsx" | "ts" | "tsx" | "mjs" | "cjs" | "mts" | "cts" => Self::JavaScript,
            "go" => Self::Go,
            "java" | "kt" | "groovy" => Self::Java,
            "rb" => Self::Ruby,
            other if OTHER_EXTENSIONS.contains(&other) => Self::Other,
            _ => return None,
        };
        let mut directories = path.split('/').rev().skip(1);
        let inside = directories.any(|directory| DIRECTORIES.contains(&directory));
        (inside || is_test_name(path)).then_some(language)
    }
}

/// Whether a test runner recognises the file by its name alone.
pub(super) fn is_test_name(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    let starts = |start: &str| stem.starts_with(start);
    let ends = |end: &str| stem.ends_with(end);
    match extension {
        "bats" => true,
        "go" => ends("_test"),
        "java" | "kt" | "groovy" | "cs" | "fs" | "swift" | "scala" | "php" => {
            ends("Test") || ends("Tests") || ends("TestCase") || ends("Spec") || ends("IT")
        }
        "rs" => path.starts_with("tests/") || path.contains("/tests/"),
        "py" => starts("test_") || ends("_test") || stem == "tests",
        _ => {
            ["_test", "_spec", ".test", ".spec", "-test", "_tests"].into_iter().any(ends)
                || starts("test_")
        }
    }
}

fn extension(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?;
    name.rsplit_once('.').map(|(_, extension)| extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_recognised_by_the_names_that_runners_use() {
        for (path, language) in [
            ("src/lib.rs", Language::Rust),
            ("test_a.py", Language::Python),
            ("app/a_test.py", Language::Python),
            ("tests/unit/helpers.py", Language::Python),
            ("web/a.test.tsx", Language::JavaScript),
            ("web/a.spec.js", Language::JavaScript),
            ("web/__tests__/a.ts", Language::JavaScript),
            ("pkg/a_test.go", Language::Go),
            ("src/test/java/AThing.java", Language::Java),
            ("ATest.java", Language::Java),
            ("spec/a_spec.rb", Language::Ruby),
            ("a_test.rb", Language::Ruby),
            ("all.bats", Language::Bats),
            ("tests/greet.sh", Language::Other),
        ] {
            assert_eq!(Language::of(path), Some(language), "{path}");
        }
        for path in
            ["app/a.py", "src/a.ts", "pkg/a.go", "A.java", "a.rb", "tests/data.json", "run.sh"]
        {
            assert_eq!(Language::of(path), None, "{path}");
        }
    }
}
