//! Globs that match no path, although they look as if they did.

/// The maximum number of globs that braces expand to.
const MAX_EXPANDED: usize = 16;

/// A glob that matches no path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmatchableGlob {
    /// The reason why it matches nothing.
    pub why: &'static str,
    /// Whether it is malformed.
    pub is_malformed: bool,
    /// Globs that match what was probably meant.
    pub instead: Vec<String>,
}

/// Why a glob can match no path; none if it can.
pub fn odd(glob: &str) -> Option<UnmatchableGlob> {
    if let Some(start) = unclosed_class(glob) {
        let (before, after) = glob.split_at(start);
        let why = "a `[` without its `]` matches nothing";
        let instead = vec![format!("{before}\\{after}")];
        return Some(UnmatchableGlob { why, is_malformed: true, instead });
    }
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
    let instead = expanded.iter().map(|glob| tidied(glob)).collect();
    Some(UnmatchableGlob { why, is_malformed: false, instead })
}

/// Where a set of characters such as `[a-z]` begins that does not end.
fn unclosed_class(glob: &str) -> Option<usize> {
    let mut letters = glob.char_indices().peekable();
    while let Some((start, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        }
        if letter != '[' {
            continue;
        }
        letters.next_if(|(_, next)| matches!(next, '!' | '^'));
        // The first character of a set is a member of it, also `]`.
        let mut is_first = true;
        loop {
            match letters.next() {
                None => return Some(start),
                Some((_, ']')) if !is_first => break,
                Some((_, '\\')) => {
                    letters.next();
                }
                Some((_, '[')) if letters.next_if(|(_, next)| *next == ':').is_some() => {
                    let mut last = ':';
                    for (_, next) in letters.by_ref() {
                        if last == ':' && next == ']' {
                            break;
                        }
                        last = next;
                    }
                }
                Some(_) => {}
            }
            is_first = false;
        }
    }
    None
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

/// Expands the braces of a glob, as a shell would.
fn expanded(glob: &str) -> Vec<String> {
    let itself = || vec![glob.to_owned()];
    let Some((before, rest)) = glob.split_once('{') else { return itself() };
    let Some((inside, after)) = rest.split_once('}') else { return itself() };
    // Nested and escaped braces are not expanded.
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
    fn glob_that_matches_nothing_has_a_working_alternative() {
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
            ("src/[**", "src/[a", &["src/\\[**"]),
            ("[a-z/x", "[a-z/x", &["\\[a-z/x"]),
            ("[]", "[]", &["\\[]"]),
            ("a[[:alpha:]", "a[l", &["a\\[[:alpha:]"]),
        ] {
            let found = odd(glob).unwrap();
            assert_eq!(found.instead, instead, "{glob}");
            assert!(!Globs::parse(&[glob.to_owned()]).matches(path, false), "{glob} {path}");
            assert!(Globs::parse(&found.instead).matches(path, false), "{glob} {path}");
        }
    }

    #[test]
    fn glob_that_can_match_is_not_odd() {
        for glob in [
            "src/**",
            "/src",
            "src/",
            "**",
            "a.b/..c",
            "{a}",
            "a{b",
            "\\{a,b\\}",
            ".x/**",
            "[ab]",
            "[]]",
            "[!]a]",
            "\\[",
            "[[:alpha:]]",
            "a]",
        ] {
            assert_eq!(odd(glob), None, "{glob}");
        }
    }
}
