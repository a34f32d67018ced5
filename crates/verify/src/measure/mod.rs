//! Measures the length of files and functions.

mod depth;
mod rust;

/// The measurements of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    /// In the order of the file.
    pub(crate) functions: Vec<Function>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    /// The qualified name, for example `parser::Lexer::next`.
    pub(crate) path: String,
    /// The first line of its signature, from 1.
    pub(crate) line: usize,
    /// Lines from its signature to its closing brace; 0 without a body.
    pub(crate) lines: usize,
    /// `self` is not counted.
    pub(crate) parameters: usize,
    /// Its body without indentation, which identifies it after a rename or a move.
    pub(crate) body: String,
}

/// Extensions of the source files whose length is limited.
const SOURCE_EXTENSIONS: [&str; 38] = [
    "rs", "py", "pyi", "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "vue", "svelte", "go",
    "java", "kt", "kts", "scala", "c", "h", "cc", "cpp", "cxx", "hh", "hpp", "cs", "m", "mm",
    "swift", "rb", "php", "pl", "lua", "ex", "exs", "sh", "bash", "zsh",
];

/// Whether the length of this file is limited.
pub(crate) fn is_source(path: &str) -> bool {
    extension(path).is_some_and(|extension| SOURCE_EXTENSIONS.contains(&extension))
}

/// Whether there is a parser for the functions of this file.
pub(crate) fn has_parser(path: &str) -> bool {
    extension(path) == Some("rs")
}

/// Why a file cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MeasureError {
    #[error("its text is not known")]
    UnknownText,
    #[error("it is not UTF-8")]
    NotUtf8,
    #[error("line {line}: it is not Rust")]
    NotTokens { line: usize },
    #[error("line {line}: {message}")]
    Syntax { line: usize, message: String },
    #[error("brackets are nested more than {0} deep")]
    NestedTooDeep(usize),
    #[error("an expression has more than {0} tokens")]
    ExpressionTooLong(usize),
    #[error("the parser could not be started: {0}")]
    NotStarted(String),
    #[error("the parser crashed")]
    ParserCrashed,
}

/// Measures the functions of a file; none if there is no parser for its language.
pub(crate) fn measure(path: &str, text: &str) -> Option<Result<Measured, MeasureError>> {
    has_parser(path).then(|| rust::measure(text))
}

/// How many lines a text has; the last line may lack its line break.
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
    fn lines_are_counted_like_in_an_editor() {
        for (text, lines) in [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)] {
            assert_eq!(count_lines(text.as_bytes()), lines, "{text:?}");
        }
    }

    #[test]
    fn data_and_documents_are_not_source() {
        for path in ["src/a.rs", "x.test.ts", "a/b.py", "run.sh"] {
            assert!(is_source(path), "{path}");
        }
        for path in ["README.md", "a.json", "Cargo.lock", ".rs", "src/rs", "a.toml", "x.rs/data"] {
            assert!(!is_source(path), "{path}");
        }
    }
}
