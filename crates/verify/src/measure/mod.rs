//! How long files and functions are. One language, one entry.

mod depth;
mod rust;

/// What a parser measured in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Its functions, in the order of the file.
    pub(crate) functions: Vec<Function>,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    /// The names that lead to it, for example `parser::Lexer::next`.
    pub(crate) path: String,
    /// The line that its signature begins in, from 1.
    pub(crate) line: usize,
    /// From the beginning of its signature to its closing brace, in lines; 0 without a body.
    pub(crate) lines: usize,
    /// What a caller passes: `self` is not counted.
    pub(crate) parameters: usize,
    /// Its body without indentation, to know it again by another name or in another place.
    pub(crate) body: String,
}

/// Endings of the files that are source, and held to a length.
const SOURCE: [&str; 38] = [
    "rs", "py", "pyi", "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "vue", "svelte", "go",
    "java", "kt", "kts", "scala", "c", "h", "cc", "cpp", "cxx", "hh", "hpp", "cs", "m", "mm",
    "swift", "rb", "php", "pl", "lua", "ex", "exs", "sh", "bash", "zsh",
];

/// Whether a path is source that people read.
pub(crate) fn is_source(path: &str) -> bool {
    extension(path).is_some_and(|extension| SOURCE.contains(&extension))
}

/// Whether the functions of a file can be measured.
pub(crate) fn has_parser(path: &str) -> bool {
    extension(path) == Some("rs")
}

/// Measures the functions of a file; nothing where there is no parser for its language.
pub(crate) fn measure(path: &str, text: &str) -> Option<Result<Measured, String>> {
    has_parser(path).then(|| rust::measure(text))
}

/// How many lines a text has; the last may lack its line break.
pub(crate) fn count_lines(text: &[u8]) -> usize {
    text.split_inclusive(|byte| *byte == b'\n').count()
}

fn extension(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?;
    let (stem, extension) = name.rsplit_once('.')?;
    (!stem.is_empty()).then_some(extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_as_an_editor_shows_them() {
        for (text, lines) in [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)] {
            assert_eq!(count_lines(text.as_bytes()), lines, "{text:?}");
        }
    }

    #[test]
    fn data_and_documents_are_no_source() {
        for path in ["src/a.rs", "x.test.ts", "a/b.py", "run.sh"] {
            assert!(is_source(path), "{path}");
        }
        for path in ["README.md", "a.json", "Cargo.lock", ".rs", "src/rs", "a.toml", "x.rs/data"] {
            assert!(!is_source(path), "{path}");
        }
    }
}
