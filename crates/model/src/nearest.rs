//! The name that someone probably meant.

/// The candidate nearest to `text`, if one is near enough to be worth naming.
pub fn nearest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::normalized_damerau_levenshtein(text, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.5)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typo_finds_its_word_and_a_stranger_finds_none() {
        let words = ["files-whitelist", "files-denylist"];
        assert_eq!(nearest("files_whitelist", words), Some("files-whitelist"));
        assert_eq!(nearest("fles-denylst", words), Some("files-denylist"));
        assert_eq!(nearest("budget", words), None);
    }
}
