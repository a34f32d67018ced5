//! Lists of globs with the meaning they have in .gitignore.

mod area;
mod machine;
mod odd;
mod pieces;

use std::collections::BTreeSet;

use gix_glob::Pattern;
use gix_glob::pattern::Case;
use gix_glob::wildmatch::Mode;

pub use area::{Area, Overlap};
pub use odd::{UnmatchableGlob, odd};

/// A compiled list of globs.
#[derive(Debug, Clone, Default)]
pub struct Globs {
    patterns: Vec<Pattern>,
}

impl Globs {
    /// Parses globs; empty ones are left out.
    pub fn parse(written: &[String]) -> Self {
        let parsed = written.iter().filter_map(|glob| {
            // A list has no negation: a leading `!` or `#` is a character of the name.
            let glob = match glob.strip_prefix(['!', '#']) {
                Some(_) => format!("\\{glob}"),
                None => glob.clone(),
            };
            Pattern::from_bytes_without_negation(glob.as_bytes())
        });
        Self { patterns: parsed.collect() }
    }

    /// Whether the list matches this path, relative to the root, or a directory above it.
    pub fn matches(&self, path: &str, is_directory: bool) -> bool {
        self.matches_beside(path, is_directory, |_| false)
    }

    /// The same if some directories of the path were files before: a pattern that named such a file did not mean
    /// what is below it now.
    pub fn matches_beside(
        &self,
        path: &str,
        is_directory: bool,
        was_file: impl Fn(&str) -> bool,
    ) -> bool {
        let mut end = path.len();
        let mut directory = is_directory;
        loop {
            let Some(part) = path.get(..end).filter(|part| !part.is_empty()) else { return false };
            let counts = end == path.len() || !was_file(part);
            if counts && self.patterns.iter().any(|pattern| one(pattern, part, directory)) {
                return true;
            }
            let Some(slash) = part.rfind('/') else { return false };
            end = slash;
            directory = true;
        }
    }

    /// Whether the list has everything that could lie below this directory.
    pub fn covers_below(&self, directory: &str) -> bool {
        if !directory.is_empty() && self.matches(directory, true) {
            return true;
        }
        // Names that no pattern means, with and without an extension, at two depths.
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        ["\u{1}", "\u{1}.\u{2}", ".\u{1}", "\u{1}/\u{2}", ".\u{1}/\u{1}.\u{2}"]
            .iter()
            .all(|name| self.matches(&format!("{prefix}{name}"), false))
    }

    /// The directories, relative to the root, below which the list can match something; the empty path is the root.
    /// `is_directory` says whether a path is a directory.
    pub fn directories(&self, is_directory: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let directory = |pattern: &Pattern| {
            let fixed = area::beginning(pattern);
            let whole = fixed.trim_end_matches('/');
            let literal = pattern.text.len() == fixed.len();
            let named = literal && !whole.is_empty() && is_directory(whole);
            match named || fixed.ends_with('/') {
                true => whole.to_owned(),
                false => {
                    fixed.rsplit_once('/').map_or_else(String::new, |(above, _)| above.to_owned())
                }
            }
        };
        self.patterns.iter().map(directory).collect()
    }

    /// Whether the fixed beginning of a pattern is below a directory.
    pub fn reaches_below(&self, directory: &str) -> bool {
        self.patterns.iter().any(|pattern| {
            let text = pattern.text.to_string();
            let fixed = text.split(['*', '?', '[', '\\']).next().unwrap_or_default();
            let rooted = text.trim_end_matches('/').contains('/');
            let below = fixed.strip_prefix(directory);
            rooted && (directory.is_empty() || below.is_some_and(|rest| rest.starts_with('/')))
        })
    }
}

fn one(pattern: &Pattern, path: &str, is_directory: bool) -> bool {
    let basename = path.rfind('/').map(|slash| slash + 1);
    pattern.matches_repo_relative_path(
        path.into(),
        basename,
        Some(is_directory),
        Case::Sensitive,
        Mode::NO_MATCH_SLASH_LITERAL,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(globs: &[&str]) -> Globs {
        Globs::parse(&globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn globs_match_as_in_gitignore() {
        for (glob, path, expected) in [
            ("src/**", "src/a.rs", true),
            ("src/**", "src", false),
            ("src", "src/deep/a.rs", true),
            ("/src", "x/src", false),
            ("src", "x/src", true),
            ("*.md", "docs/a.md", true),
            ("docs/*.md", "docs/a.md", true),
            ("docs/*.md", "docs/deep/a.md", false),
            ("**/Cargo.lock", "Cargo.lock", true),
            ("**/Cargo.lock", "a/b/Cargo.lock", true),
            ("a/**/b", "a/b", true),
            ("build/", "build", false),
            ("build/", "build/x", true),
            ("[ab].txt", "a.txt", true),
            ("!x", "!x", true),
            ("{a,b}.txt", "a.txt", false),
        ] {
            assert_eq!(list(&[glob]).matches(path, false), expected, "{glob} {path}");
        }
    }

    #[test]
    fn directory_is_covered_if_every_path_below_it_matches() {
        assert!(list(&["src/**"]).covers_below("src"));
        assert!(list(&["src"]).covers_below("src/deep"));
        assert!(list(&["**"]).covers_below(""));
        assert!(!list(&["src/*.rs"]).covers_below("src"));
        assert!(!list(&["src/**"]).covers_below(""));
        assert!(!list(&["docs/*.md"]).covers_below("docs"));
    }

    #[test]
    fn pattern_reaches_below_its_parent_directories() {
        let denied = list(&["src/generated/**", ".github/**", "Cargo.lock"]);
        assert!(denied.reaches_below("src"));
        assert!(denied.reaches_below(""));
        assert!(!denied.reaches_below("docs"));
        assert!(!denied.reaches_below("sr"));
    }

    #[test]
    fn pattern_of_a_file_does_not_match_paths_below_that_file() {
        let matches_below = |pattern: &str| {
            let globs = Globs::parse(&[pattern.to_owned()]);
            globs.matches_beside("src/a.txt/evil", false, |path| path == "src/a.txt")
        };
        for pattern in ["src/a.txt", "*.txt", "src/*.txt"] {
            assert!(!matches_below(pattern), "{pattern}");
            assert!(Globs::parse(&[pattern.to_owned()]).matches("src/a.txt/evil", false));
        }
        for pattern in ["src/**", "src", "src/", "**"] {
            assert!(matches_below(pattern), "{pattern}");
        }
    }
}
