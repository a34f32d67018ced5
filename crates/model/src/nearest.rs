//! The name that someone probably meant.

/// The candidate nearest to `text`, if one is near enough to be worth naming.
pub fn nearest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (likeness(text, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, candidate)| candidate)
}

/// At most `limit` candidates that are similar to `text` or contain it, the most similar first.
pub fn nearest_few<'a>(
    text: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    limit: usize,
) -> Vec<&'a str> {
    let mut near: Vec<(f64, &str)> = candidates
        .into_iter()
        .map(|candidate| (likeness(text, candidate), candidate))
        .filter(|(likeness, candidate)| *likeness >= NEAR || candidate.contains(text))
        .collect();
    near.sort_by(|(left, _), (right, _)| right.total_cmp(left));
    near.dedup_by_key(|(_, candidate)| *candidate);
    near.into_iter().take(limit).map(|(_, candidate)| candidate).collect()
}

/// How like two names must be for one to be worth naming in the place of the other.
const NEAR: f64 = 0.5;

fn likeness(text: &str, candidate: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(text, candidate)
}

#[cfg(test)]
mod tests {
    use super::{nearest, nearest_few};

    #[test]
    fn nearest_finds_a_typo_and_no_unrelated_word() {
        let words = ["files-whitelist", "files-denylist"];
        assert_eq!(nearest("files_whitelist", words), Some("files-whitelist"));
        assert_eq!(nearest("fles-denylst", words), Some("files-denylist"));
        assert_eq!(nearest("budget", words), None);
    }
    #[test]
    fn nearest_few_lists_the_nearest_names_first() {
        let names = ["fix-42", "fix-43-again-and-again", "docs", "fix-4"];
        assert_eq!(nearest_few("fix-4", names, 3), ["fix-4", "fix-42", "fix-43-again-and-again"]);
        assert_eq!(nearest_few("fix-4", names, 1), ["fix-4"]);
        assert!(nearest_few("parser", names, 3).is_empty());
    }
}
