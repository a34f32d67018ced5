//! Tables of words as one text, with blanks between them.

/// Whether a word stands in a list.
pub(crate) fn listed(list: &str, word: &str) -> bool {
    words(list).any(|one| one == word)
}

/// The words of a list. Splitting at a byte is several times quicker than at a character.
pub(crate) fn words(list: &str) -> impl Iterator<Item = &str> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let end = rest.bytes().position(|byte| byte == b' ').unwrap_or(rest.len());
        let (word, behind) = rest.split_at_checked(end)?;
        rest = behind.get(1..).unwrap_or_default();
        (!word.is_empty()).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole() {
        assert_eq!(words("a bc d").collect::<Vec<_>>(), ["a", "bc", "d"]);
        assert!(listed("a bc d", "bc") && listed("a", "a"));
        assert!(!listed("a bc d", "b") && !listed("a", "") && !listed("", ""));
    }
}
