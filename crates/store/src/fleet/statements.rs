//! Helpers for SQL statements: numbers, placeholders and batches.

/// The database has signed numbers only.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Numbered placeholders from this number on: `$3, $4`.
pub(super) fn placeholders(first: usize, count: usize) -> String {
    let mut list = String::with_capacity(count * 6);
    for number in first..first + count {
        list.push_str(if number == first { "$" } else { ", $" });
        list.push_str(&number.to_string());
    }
    list
}

/// Splits rows into batches of few different sizes, so that prepared statements are reused.
pub(super) fn batches<T>(mut all: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = match all.len() {
            0 => return None,
            few @ 1..=16 => few,
            17..64 => 16,
            _ => 64,
        };
        let (batch, rest) = all.split_at_checked(size)?;
        all = rest;
        Some(batch)
    })
}

#[cfg(test)]
mod tests {
    use super::{batches, placeholders};

    #[test]
    fn batches_are_complete_in_order_and_of_few_sizes() {
        for count in 0..300 {
            let items: Vec<usize> = (0..count).collect();
            let item_batches: Vec<&[usize]> = batches(&items).collect();
            assert_eq!(item_batches.concat(), items);
            assert!(
                item_batches
                    .iter()
                    .all(|batch| (1..=16).contains(&batch.len()) || batch.len() == 64)
            );
        }
        assert_eq!(placeholders(3, 2), "$3, $4");
    }
}
