//! Globs that match no path, though somebody means some by them.

/// How many globs one with braces is written out as.
const MAX_EXPANDED: usize = 16;

/// A glob that matches no path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmatchableGlob {
    /// Why it matches nothing.
    pub why: &'static str,
    /// What means what was meant.
    pub instead: Vec<String>,
}

/// What is odd about a glob; nothing if it can match a path.
pub fn odd(glob: &str) -> Option<UnmatchableGlob> {
    let expanded = expanded(glob);
    let why = if expanded.len() > 1 {
        "braces are not expanded, so this means a name with braces in it"
    } else if glob.split('/').any(|part| part == ".") {
        "paths begin at the repository's root and have no `.` in them"
    } else if glob.contains("//") {
        "no path has `//` in it"
    } else {
        return None;
    };
    Some(UnmatchableGlob { why, instead: expanded.iter().map(|glob| tidied(glob)).collect() })
}

/// A glob without `.` and empty parts. One that began at the root still does.
fn tidied(glob: &str) -> String {
    let named = |part: &&str| !part.is_empty() && *part != ".";
    let parts: Vec<&str> = glob.split('/').filter(named).collect();
    let is_rooted = glob.starts_with('/') || glob.starts_with("./");
    let end = if glob.ends_with('/') && !parts.is_empty() { "/" } else { "" };
    match parts.as_slice() {
        [] => "**".to_owned(),
        [one] if is_rooted && *one != "**" => format!("/{one}{end}"),
        parts => format!("{}{end}", parts.join("/")),
    }
}

/// A glob with its braces written out, as a shell would; the glob itself where it has none.
fn expanded(glob: &str) -> Vec<String> {
    let itself = || vec![glob.to_owned()];
    let Some((before, rest)) = glob.split_once('{') else { return itself() };
    let Some((inside, after)) = rest.split_once('}') else { return itself() };
    // What is nested or escaped is not taken apart.
    let is_plain = inside.contains(',') && !inside.contains('{') && !glob.contains('\\');
    if !is_plain {
        return itself();
    }
    let words = inside.split(',').flat_map(|word| expanded(&format!("{before}{word}{after}")));
    words.take(MAX_EXPANDED).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Globs;
    use super::*;

    #[test]
    fn a_glob_that_matches_nothing_is_named_with_one_that_does() {
        for (glob, path, instead) in [
            ("./src/**", "src/a.rs", &["src/**"][..]),
            ("./README.md", "README.md", &["/README.md"]),
            ("src//**", "src/a.rs", &["src/**"]),
            ("src/./a.rs", "src/a.rs", &["src/a.rs"]),
            (".", "a.rs", &["**"]),
            ("./", "a.rs", &["**"]),
            ("./**", "a/b.rs", &["**"]),
            ("{a,b}/**", "b/x", &["a/**", "b/**"]),
            ("./{a,b}/*.{c,h}", "b/x.h", &["a/*.c", "a/*.h", "b/*.c", "b/*.h"]),
            ("src//gen/", "src/gen/a", &["src/gen/"]),
        ] {
            let found = odd(glob).unwrap();
            assert_eq!(found.instead, instead, "{glob}");
            assert!(!Globs::parse(&[glob.to_owned()]).matches(path, false), "{glob} {path}");
            assert!(Globs::parse(&found.instead).matches(path, false), "{glob} {path}");
        }
    }

    #[test]
    fn a_glob_that_can_match_is_not_odd() {
        for glob in ["src/**", "/src", "src/", "**", "a.b/..c", "{a}", "a{b", "\\{a,b\\}", ".x/**"]
        {
            assert_eq!(odd(glob), None, "{glob}");
        }
    }
}
