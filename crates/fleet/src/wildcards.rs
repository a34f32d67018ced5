//! Globs over names of repositories and refs, as forges write them: `*` stays between slashes, `**`
//! does not.

use bailiwick_resources::Globs;

/// Whether a glob means a text. `*` alone means everything.
pub(crate) fn matches(glob: &str, text: &str) -> bool {
    if glob == "*" {
        return true;
    }
    let glob: Vec<char> = glob.chars().collect();
    let text: Vec<char> = text.chars().collect();
    // One row a character of the glob: which beginnings of the text it can have eaten.
    let mut row = vec![false; text.len() + 1];
    if let Some(first) = row.first_mut() {
        *first = true;
    }
    let mut at = 0;
    while let Some(&wanted) = glob.get(at) {
        let deep = wanted == '*' && glob.get(at + 1) == Some(&'*');
        at += if deep { 2 } else { 1 };
        let mut next = vec![false; text.len() + 1];
        let mut open = false;
        for (eaten, reached) in row.iter().enumerate() {
            let here = text.get(eaten).copied();
            match wanted {
                '*' => {
                    open |= reached;
                    set(&mut next, eaten, open);
                    if !deep && here == Some('/') {
                        open = false;
                    }
                }
                '?' => set(&mut next, eaten + 1, *reached && here.is_some_and(|c| c != '/')),
                exact => set(&mut next, eaten + 1, *reached && here == Some(exact)),
            }
        }
        row = next;
    }
    row.last().copied().unwrap_or(false)
}

fn set(row: &mut [bool], at: usize, value: bool) {
    if let Some(place) = row.get_mut(at) {
        *place |= value;
    }
}

/// Whether any of the globs means the text.
pub(crate) fn any(globs: &[String], text: &str) -> bool {
    globs.iter().any(|glob| matches(glob, text))
}

/// Whether globs mean a ref, by its whole name or by the short one that people write.
pub(crate) fn ref_is_meant(globs: &Globs, reference: &str) -> bool {
    let short = ["refs/heads/", "refs/tags/"]
        .iter()
        .find_map(|prefix| reference.strip_prefix(prefix))
        .unwrap_or(reference);
    let meant = |list: &[String]| any(list, reference) || any(list, short);
    (globs.include.is_empty() || meant(&globs.include)) && !meant(&globs.exclude)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_star_does_not_match_slashes_and_two_stars_do() {
        for (glob, text, expected) in [
            ("acme/*", "acme/web", true),
            ("acme/*", "acme/web/x", false),
            ("acme/**", "acme/web/x", true),
            ("acme", "evil/acme", false),
            ("*", "acme/web", true),
            ("acme/w?b", "acme/web", true),
            ("acme?web", "acme/web", false),
            ("release/*", "release/", true),
            ("", "", true),
            ("", "a", false),
            ("**/main", "refs/heads/main", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXbY", false),
        ] {
            assert_eq!(matches(glob, text), expected, "{glob} {text}");
        }
    }

    #[test]
    fn short_and_full_ref_names_are_included_and_excluded() {
        let globs = |include: &[&str], exclude: &[&str]| Globs {
            include: include.iter().map(ToString::to_string).collect(),
            exclude: exclude.iter().map(ToString::to_string).collect(),
        };
        assert!(ref_is_meant(&globs(&["main"], &[]), "refs/heads/main"));
        assert!(ref_is_meant(&globs(&[], &[]), "refs/pull/7/head"));
        assert!(!ref_is_meant(&globs(&["main"], &[]), "refs/pull/7/head"));
        assert!(!ref_is_meant(&globs(&["**"], &["refs/pull/**"]), "refs/pull/7/head"));
        assert!(!ref_is_meant(&globs(&[], &["main"]), "refs/heads/main"));
    }
}
