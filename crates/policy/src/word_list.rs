//! Lists of words, written as one text with blanks between them and split when the program is compiled.

/// The words of a text.
macro_rules! words {
    ($text:expr) => {
        const {
            const WORDS: [&str; $crate::word_list::count($text)] = $crate::word_list::split($text);
            &WORDS
        }
    };
}

pub(crate) use words;

pub(crate) const fn count(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut count, mut inside) = (0, 0, false);
    while let Some(byte) = byte(bytes, at) {
        let blank = byte == b' ';
        if !blank && !inside {
            count += 1;
        }
        inside = !blank;
        at += 1;
    }
    count
}

pub(crate) const fn split<const N: usize>(text: &'static str) -> [&'static str; N] {
    let mut words = [""; N];
    let mut left: &mut [&str] = &mut words;
    let mut rest = text;
    while let Some((first, more)) = left.split_first_mut() {
        while let Some(b' ') = byte(rest.as_bytes(), 0) {
            rest = rest.split_at(1).1;
        }
        let mut end = 0;
        while !matches!(byte(rest.as_bytes(), end), None | Some(b' ')) {
            end += 1;
        }
        (*first, rest) = rest.split_at(end);
        left = more;
    }
    words
}

const fn byte(bytes: &[u8], at: usize) -> Option<u8> {
    match bytes.split_at_checked(at) {
        Some((_, [byte, ..])) => Some(*byte),
        Some((_, [])) | None => None,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_is_split_at_spaces() {
        assert_eq!(words!("a bc  d"), &["a", "bc", "d"]);
        assert_eq!(words!(" a "), &["a"]);
        assert!(words!("").is_empty());
    }
}
