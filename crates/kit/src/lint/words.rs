//! Words of a text with their places.

use std::ops::Range;

/// The words between white space.
pub(super) fn words(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let start = text.as_ptr() as usize;
    text.split_whitespace().map(move |word| {
        let from = word.as_ptr() as usize - start;
        (from..from + word.len(), word)
    })
}

/// A word in lowercase without punctuation; none if it is only punctuation.
pub(super) fn plain(word: &str) -> Option<String> {
    let plain: String = word.chars().filter(|c| c.is_alphanumeric()).collect();
    (!plain.is_empty()).then(|| plain.to_lowercase())
}
