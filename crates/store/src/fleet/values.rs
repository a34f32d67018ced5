//! Between numbers and texts of ours and those of the database.

/// A number as the database has it.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// How many rows a statement is asked for.
pub(super) fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Places for values, from this number on: `$3, $4`.
pub(super) fn places(first: usize, count: usize) -> String {
    let mut list = String::with_capacity(count * 6);
    for number in first..first + count {
        list.push_str(if number == first { "$" } else { ", $" });
        list.push_str(&number.to_string());
    }
    list
}

/// Places for rows of values: `(?, ?), (?, ?)`, all that the statement has. They have no numbers, because SQLite
/// looks through the names of all places for each value that it is given.
pub(super) fn rows(count: usize, width: usize) -> String {
    let row = format!("({})", vec!["?"; width].join(", "));
    vec![row.as_str(); count].join(", ")
}

/// Some rows at a time, of few different lengths, so that statements are prepared once.
pub(super) fn portions<T>(mut all: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = match all.len() {
            0 => return None,
            few @ 1..=16 => few,
            17..64 => 16,
            _ => 64,
        };
        let (some, rest) = all.split_at_checked(size)?;
        all = rest;
        Some(some)
    })
}

#[cfg(test)]
mod tests {
    use super::{places, portions, rows};

    #[test]
    fn portions_are_all_of_it_in_order_and_of_few_lengths() {
        for count in 0..300 {
            let all: Vec<usize> = (0..count).collect();
            let some: Vec<&[usize]> = portions(&all).collect();
            assert_eq!(some.concat(), all);
            assert!(some.iter().all(|some| (1..=16).contains(&some.len()) || some.len() == 64));
        }
        assert_eq!(rows(2, 3), "(?, ?, ?), (?, ?, ?)");
        assert_eq!(places(3, 2), "$3, $4");
    }
}
