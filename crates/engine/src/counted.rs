//! Numbers with their nouns: "1 task", "2 tasks", "0 capabilities".

use std::fmt::Display;

/// A number with a noun in the singular or the plural.
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    match number == N::from(1) {
        true => format!("1 {noun}"),
        false => format!("{number} {}", plural(noun)),
    }
}

fn plural(noun: &str) -> String {
    let vowel = |c: char| "aeiou".contains(c);
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(vowel) => format!("{stem}ies"),
        Some(_) | None => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_everything_else_is_plural() {
        for (number, noun, shown) in [
            (0_usize, "task", "0 tasks"),
            (1, "task", "1 task"),
            (2, "tool call", "2 tool calls"),
            (1, "capability", "1 capability"),
            (3, "capability", "3 capabilities"),
            (2, "key", "2 keys"),
        ] {
            assert_eq!(counted(number, noun), shown);
        }
        assert_eq!(counted(1_u64, "token"), "1 token");
    }
}
